//! Who may stop the work, and how far it is.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Why the solver gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The flips are spent.
    Budget,
    /// The deadline has passed.
    Time,
    /// Somebody asked it to stop.
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

/// How far the solver is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Variables flipped by the walk.
    pub flips: u64,
    /// Passes over the open clauses by survey propagation.
    pub sweeps: u64,
    /// Clauses that are unsatisfied at the moment, as the walk last had it.
    pub unsatisfied: usize,
    /// The fewest that any walk has had.
    pub fewest: usize,
}

/// What may stop the solver early, and who is told how far it is.
///
/// None of it changes what the solver does until it is stopped.
#[derive(Clone, Copy, Default)]
pub struct Watch<'a> {
    /// When to stop.
    pub deadline: Option<Instant>,
    /// Stop when this becomes true.
    pub cancel: Option<&'a AtomicBool>,
    /// Called some hundred times a second.
    pub progress: Option<&'a dyn Fn(&Progress)>,
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("deadline", &self.deadline)
            .field("cancel", &self.cancel)
            .finish_non_exhaustive()
    }
}

/// What is spent of the budget, under watch.
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

    /// Counts flips, as many as were left or fewer.
    pub(crate) fn flipped(&mut self, flips: u64, unsatisfied: usize) -> Result<(), Why> {
        self.progress.flips += flips;
        self.progress.unsatisfied = unsatisfied;
        self.progress.fewest = self.progress.fewest.min(unsatisfied);
        self.look()
    }

    /// Counts a sweep.
    pub(crate) fn swept(&mut self) -> Result<(), Why> {
        self.progress.sweeps += 1;
        self.look()
    }

    /// Whether to go on.
    pub(crate) fn look(&self) -> Result<(), Why> {
        if let Some(tell) = self.watch.progress {
            tell(&self.progress);
        }
        if self.watch.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(Why::Cancelled);
        }
        if self.watch.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Why::Time);
        }
        Ok(())
    }
}
