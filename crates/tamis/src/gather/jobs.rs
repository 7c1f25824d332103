//! Runs jobs on several threads.

use std::sync::Mutex;
use std::thread;

/// Runs `work` for every job, on at most `threads` threads, each with its own `S` to reuse. The first
/// error ends the work and is returned. A panic ends the work and reaches the caller.
pub(crate) fn run_jobs<J: Send, S: Default, E: Send>(
    threads: usize,
    jobs: impl ExactSizeIterator<Item = J> + Send,
    work: impl Fn(&mut S, J) -> Result<(), E> + Sync,
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

/// Calls a function if its thread panics. A panic in the progress callback so ends the work of the
/// other threads before it reaches the caller.
struct OnPanic<'a, F: Fn()>(&'a F);

impl<F: Fn()> Drop for OnPanic<'_, F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)();
        }
    }
}
