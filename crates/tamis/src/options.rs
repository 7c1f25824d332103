//! Options of a build: threads, memory, progress, cancelling.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
#[cfg(feature = "std")]
use std::path::{Path, PathBuf};
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

use crate::error::Error;

/// The progress of a build.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Keys that are placed in the filter.
    pub placed: u64,
    /// All keys. Until a static kind places its first key: the keys read so far, with duplicates. A
    /// kind that inserts states the keys placed so far.
    pub keys: u64,
    /// Progress of the search, of a kind that searches for its filter.
    pub search: Option<Search>,
}

/// The progress of a search for a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Search {
    /// Solved formulas, one for each plane of each block.
    pub solved: u64,
    /// All formulas.
    pub formulas: u64,
    /// How often a block was restarted with another seed.
    pub reseeds: u64,
    /// log2(1/rate) · keys / bits, if no block needs more room than it has now.
    pub efficiency: f64,
}

/// Options of a build: threads, memory limit, progress callback, cancel flag and deadline.
///
/// None of them changes the filter that is built, except [`BuildOptions::seed`].
///
/// ```
/// use std::sync::atomic::AtomicBool;
/// use std::time::Duration;
/// use tamis::BuildOptions;
///
/// let cancel = AtomicBool::new(false);
/// let options = BuildOptions::new().threads(2).time_limit(Duration::from_secs(60)).cancel(&cancel);
/// # let _ = options;
/// ```
#[derive(Clone, Default)]
pub struct BuildOptions<'a> {
    threads: usize,
    #[cfg(feature = "std")]
    max_memory: Option<(u64, PathBuf)>,
    on_progress: Option<&'a (dyn Fn(&Progress) + Sync)>,
    #[cfg(feature = "std")]
    deadline: Option<Instant>,
    cancel: Option<&'a AtomicBool>,
    seed: [u64; 2],
}

impl<'a> BuildOptions<'a> {
    /// Returns the defaults: one thread, no memory limit, no callback, no deadline.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds static kinds on this many threads; without the feature `std`, on one. Kinds that insert
    /// take one.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Limits the memory of the build to `bytes`, keys and table included. Keys of static kinds that do not
    /// fit lie in an unnamed file in the folder `scratch` until they are placed, 8 bytes each. The build
    /// writes nothing there while they fit. Kinds that sort their keys first insert them one by one instead
    /// if they do not fit. [`Error::MemoryLimit`] states what the build needs if it cannot be done within the
    /// limit.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn max_memory(self, bytes: u64, scratch: impl Into<PathBuf>) -> Self {
        Self { max_memory: Some((bytes, scratch.into())), ..self }
    }

    /// Calls `callback` with the progress of the build, from the threads that build. A panic in the
    /// callback ends the build and reaches the caller.
    #[must_use]
    pub fn on_progress(self, callback: &'a (dyn Fn(&Progress) + Sync)) -> Self {
        Self { on_progress: Some(callback), ..self }
    }

    /// Stops the build with [`Error::Stopped`] once `limit` has passed from now. The build looks at
    /// the clock at least every 100 ms.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn time_limit(self, limit: Duration) -> Self {
        // A deadline that the clock cannot express is none.
        Self { deadline: Instant::now().checked_add(limit), ..self }
    }

    /// Stops the build with [`Error::Stopped`] at this time.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Stops the build with [`Error::Stopped`] once `cancel` is true. The build looks at it at least
    /// every 100 ms.
    #[must_use]
    pub fn cancel(self, cancel: &'a AtomicBool) -> Self {
        Self { cancel: Some(cancel), ..self }
    }

    /// Sets the secret seed of a kind that has a keyed function of its own, such as
    /// [`Grafite`](crate::Grafite); the default is zero. [`Builder`](crate::Builder) sets the seed of its
    /// hasher.
    #[must_use]
    pub fn seed(self, seed: [u64; 2]) -> Self {
        Self { seed, ..self }
    }

    pub(crate) fn get_seed(&self) -> [u64; 2] {
        self.seed
    }

    pub(crate) fn thread_count(&self) -> usize {
        if cfg!(feature = "std") { self.threads.max(1) } else { 1 }
    }

    #[cfg(feature = "std")]
    pub(crate) fn get_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(crate) fn get_cancel(&self) -> Option<&'a AtomicBool> {
        self.cancel
    }

    /// The memory limit in bytes.
    pub(crate) fn memory_limit(&self) -> Option<u64> {
        #[cfg(feature = "std")]
        let limit = self.max_memory.as_ref().map(|(bytes, _)| *bytes);
        #[cfg(not(feature = "std"))]
        let limit = None;
        limit
    }

    /// Checks that `needs` bytes are within the memory limit.
    pub(crate) fn check_memory(&self, needs: u64) -> Result<(), Error> {
        match self.memory_limit() {
            Some(limit) if needs > limit => Err(Error::MemoryLimit { limit, needs }),
            _ => Ok(()),
        }
    }

    /// The folder for keys that do not fit in the memory limit.
    #[cfg(feature = "std")]
    pub(crate) fn scratch(&self) -> Option<&Path> {
        self.max_memory.as_ref().map(|(_, scratch)| scratch.as_path())
    }

    /// The same options without the callback.
    pub(crate) fn without_progress(&self) -> Self {
        Self { on_progress: None, ..self.clone() }
    }

    /// The same options with `part` of `of` parts of the memory, for two sets of keys that are
    /// gathered side by side. Only one of them should report progress.
    #[cfg_attr(not(feature = "std"), expect(unused_variables, reason = "no memory limit to share"))]
    pub(crate) fn share(&self, part: u64, of: u64, reports: bool) -> Self {
        Self {
            #[cfg(feature = "std")]
            max_memory: self.max_memory.clone().map(|(bytes, folder)| (bytes / of * part, folder)),
            on_progress: self.on_progress.filter(|_| reports),
            ..self.clone()
        }
    }

    /// Reports progress, and checks whether the build should go on.
    pub(crate) fn advance(&self, placed: u64, keys: u64) -> Result<(), Error> {
        self.report(Progress { placed, keys, search: None });
        self.check(placed, keys)
    }

    pub(crate) fn report(&self, progress: Progress) {
        if let Some(callback) = self.on_progress {
            callback(&progress);
        }
    }

    fn is_late(&self) -> bool {
        #[cfg(feature = "std")]
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        #[cfg(not(feature = "std"))]
        let late = false;
        late
    }

    /// Returns [`Error::Stopped`] if the build was cancelled or its time is up.
    pub(crate) fn check(&self, placed: u64, keys: u64) -> Result<(), Error> {
        let why = if self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            "the build was cancelled"
        } else if self.is_late() {
            "the time limit was reached"
        } else {
            return Ok(());
        };
        Err(Error::Stopped { why, placed, keys })
    }
}

impl fmt::Debug for BuildOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = f.debug_struct("BuildOptions");
        options.field("threads", &self.threads);
        #[cfg(feature = "std")]
        options.field("max_memory", &self.max_memory);
        options.finish_non_exhaustive()
    }
}
