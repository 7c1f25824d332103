//! Runs jobs on several threads, or on one without the feature `std`.

#[cfg(feature = "std")]
use std::thread;

use crate::sync::MaybeSync;
#[cfg(feature = "std")]
use crate::sync::Mutex;

/// Runs `work` for every job, on at most `threads` threads, each with its own `S` to reuse. The first
/// error ends the work and is returned. A panic ends the work and reaches the caller.
#[cfg(feature = "std")]
pub(crate) fn run_jobs<J: Send, S: Default, E: Send>(
    threads: usize,
    jobs: impl ExactSizeIterator<Item = J> + Send,
    work: impl Fn(&mut S, J) -> Result<(), E> + MaybeSync,
) -> Result<(), E> {
    let helpers = threads.min(jobs.len()).saturating_sub(1);
    let (jobs, failure) = (Mutex::new(Some(jobs)), Mutex::new(None));
    let next = || jobs.lock().expect("no thread panicked").as_mut().and_then(Iterator::next);
    let stop = || *jobs.lock().expect("no thread panicked") = None;
    let run = || {
        let _guard = OnPanic(&stop);
        let mut state = S::default();
        while let Some(job) = next() {
            if let Err(error) = work(&mut state, job) {
                stop();
                failure.lock().expect("no thread panicked").get_or_insert(error);
            }
        }
    };
    thread::scope(|scope| {
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(run)).collect();
        run();
        for helper in helpers {
            helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    failure.into_inner().expect("no thread panicked").map_or(Ok(()), Err)
}

/// Runs `work` for every job on this thread. The first error ends the work and is returned.
#[cfg(not(feature = "std"))]
pub(crate) fn run_jobs<J: Send, S: Default, E: Send>(
    _threads: usize,
    mut jobs: impl ExactSizeIterator<Item = J> + Send,
    work: impl Fn(&mut S, J) -> Result<(), E> + MaybeSync,
) -> Result<(), E> {
    let mut state = S::default();
    jobs.try_for_each(|job| work(&mut state, job))
}

/// Calls a function if its thread panics. This way a panic in the progress callback ends the work
/// of the other threads before it reaches the caller.
#[cfg(feature = "std")]
struct OnPanic<'a, F: Fn()>(&'a F);

#[cfg(feature = "std")]
impl<F: Fn()> Drop for OnPanic<'_, F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)();
        }
    }
}
