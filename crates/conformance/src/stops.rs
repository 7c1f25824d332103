//! Cancel flags, deadlines and progress callbacks take effect for every kind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tamis::{
    BuildOptions, Error, ErrorKind, HashId, Hashes, KeyHash, KeyHasher, Progress, Shape, given,
};

use crate::Subject;
use crate::keys::Form;

const KEYS: u64 = 20_000;

fn members() -> Vec<KeyHash> {
    Form::Integers.hashes(&KeyHasher::new(HashId::Fast, [97, 98]), 0, KEYS)
}

fn build<F: Subject>(options: &BuildOptions<'_>, members: &[KeyHash]) -> Result<F, Error> {
    let shape = F::Shape::fit(KEYS, 0.01).expect("1 % is within reach");
    F::build_with(options, given(shape), members)
}

/// Checks a time limit of 0, a flag that is set before the build, and one that the first progress
/// report sets.
pub fn a_build_can_be_stopped<F: Subject>() {
    let members = members();
    for threads in [1, 2] {
        let options = BuildOptions::new().threads(threads);
        let stopped = |options: &BuildOptions<'_>| {
            let error = build::<F>(options, &members).expect_err("the build was to stop");
            assert_eq!(error.kind(), ErrorKind::Stopped, "{error}");
        };
        stopped(&options.clone().time_limit(Duration::ZERO));
        stopped(&options.clone().cancel(&AtomicBool::new(true)));
        let cancel = AtomicBool::new(false);
        let set = |_: &Progress| cancel.store(true, Ordering::Relaxed);
        // A kind that sorts its keys before it places them reports no progress until it is done.
        if reports::<F>(&members) {
            stopped(&options.clone().cancel(&cancel).on_progress(&set));
        }
    }
}

fn reports<F: Subject>(members: &[KeyHash]) -> bool {
    let reports = AtomicU64::new(0);
    let count = |_: &Progress| {
        reports.fetch_add(1, Ordering::Relaxed);
    };
    build::<F>(&BuildOptions::new().on_progress(&count), members).expect("room");
    reports.into_inner() > 0
}

/// Checks that a source which sets the flag half way is not read to its end.
pub fn a_build_stops_while_it_reads<F: Subject>() {
    let members = members();
    let (cancel, read) = (AtomicBool::new(false), AtomicU64::new(0));
    let endless = std::iter::from_fn(|| {
        if read.fetch_add(1, Ordering::Relaxed) == 100_000 {
            cancel.store(true, Ordering::Relaxed);
        }
        Some(members[0])
    });
    let shape = F::Shape::fit(KEYS, 0.01).expect("1 % is within reach");
    let options = BuildOptions::new().cancel(&cancel);
    let built = F::build_with(&options, given(shape), Hashes::new(endless));
    let error = built.expect_err("an endless source was read to its end");
    // A kind that is full before the flag is set returns that error.
    assert!(matches!(error.kind(), ErrorKind::Stopped | ErrorKind::Full), "{error}");
    assert!(read.into_inner() < 1_000_000);
}

/// Checks that a panic in the progress callback ends the build and reaches the caller, on any
/// number of threads.
pub fn a_panic_in_a_callback_reaches_the_caller<F: Subject>() {
    let members = members();
    if !reports::<F>(&members) {
        return;
    }
    for threads in [1, 3] {
        let callback = |_: &Progress| std::panic::panic_any("of the callback");
        let options = BuildOptions::new().threads(threads).on_progress(&callback);
        let built = catch_unwind(AssertUnwindSafe(|| build::<F>(&options, &members)));
        let panic = built.expect_err("no panic");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the callback"), "{threads} threads");
    }
}
