//! Deadline, cancellation and progress of the solver.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
#[cfg(feature = "std")]
use std::time::Instant;

/// The reason why the solver gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// All flips of the budget are spent.
    Budget,
    /// The deadline has passed.
    Time,
    /// The cancellation flag was set.
    Cancelled,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Budget => "the budget is spent",
            Self::Time => "the time is up",
            Self::Cancelled => "cancelled",
        })
    }
}

/// The progress of the solver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Flips of the local search.
    pub flips: u64,
    /// Sweeps of survey propagation over the unsatisfied clauses.
    pub sweeps: u64,
    /// The number of unsatisfied clauses in the local search.
    pub unsatisfied: usize,
    /// The fewest unsatisfied clauses so far.
    pub fewest: usize,
}

/// A deadline, a cancellation flag and a progress callback.
///
/// None of them changes what the solver does before it stops.
#[derive(Clone, Copy, Default)]
pub struct Watch<'a> {
    /// The time at which the solver stops.
    #[cfg(feature = "std")]
    pub deadline: Option<Instant>,
    /// A flag that stops the solver once it is true.
    pub cancel: Option<&'a AtomicBool>,
    /// A callback that is called about 100 times per second.
    pub progress: Option<&'a dyn Fn(&Progress)>,
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut watch = f.debug_struct("Watch");
        #[cfg(feature = "std")]
        watch.field("deadline", &self.deadline);
        watch.field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

/// Counts flips and sweeps against the budget, and checks the [`Watch`].
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    watch: &'a Watch<'a>,
    flips: u64,
    sweeps: u64,
    pub(crate) progress: Progress,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(watch: &'a Watch<'a>, flips: u64, sweeps: u64) -> Self {
        let progress =
            Progress { unsatisfied: usize::MAX, fewest: usize::MAX, ..Progress::default() };
        Self { watch, flips, sweeps, progress }
    }

    pub(crate) fn flips_left(&self) -> u64 {
        self.flips - self.progress.flips
    }

    pub(crate) fn sweeps_left(&self) -> u64 {
        self.sweeps - self.progress.sweeps
    }

    /// Counts flips, at most as many as are left.
    pub(crate) fn count_flips(&mut self, flips: u64, unsatisfied: usize) -> Result<(), Why> {
        self.progress.flips += flips;
        self.progress.unsatisfied = unsatisfied;
        self.progress.fewest = self.progress.fewest.min(unsatisfied);
        self.check()
    }

    /// Counts a sweep.
    pub(crate) fn count_sweep(&mut self) -> Result<(), Why> {
        self.progress.sweeps += 1;
        self.check()
    }

    /// Reports progress. Returns an error if the solver must stop.
    pub(crate) fn check(&self) -> Result<(), Why> {
        if let Some(on_progress) = self.watch.progress {
            on_progress(&self.progress);
        }
        if self.watch.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(Why::Cancelled);
        }
        #[cfg(feature = "std")]
        if self.watch.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Why::Time);
        }
        Ok(())
    }
}
