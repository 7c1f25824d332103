//! Many executions: memory and time are limited, failures are collected.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tamis::Kind;
use tamis_conformance::allocation::peak;
use tamis_conformance::keys::Random;

use super::samples::samples;
use super::{Opened, hostile};
use crate::Input;

/// The longest that one execution may take. Usual ones take 10 µs.
const LONGEST: Duration = Duration::from_millis(200);
/// After this long, an execution is taken to be endless, and the process is aborted.
const ENDLESS: Duration = Duration::from_secs(60);
/// The most bytes that one execution may hold. The largest samples have 4 KiB.
const MOST_BYTES: u64 = 4 << 20;
/// Different failures after which a run ends.
const MOST_FAILURES: usize = 20;

/// Calls [`hostile`] for `executions` inputs that follow from `seed`. The global allocator must be [`Counting`](tamis_conformance::allocation::Counting).
///
/// # Panics
/// If an execution panicked, took too long or took too much memory.
pub fn run(seed: u64, executions: u64) {
    Kind::ALL.iter().for_each(|kind| assert!(!samples(*kind).is_empty()));
    let current = Arc::new(AtomicU64::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let watchdog = std::thread::spawn({
        let (current, done) = (current.clone(), done.clone());
        move || watch(seed, &current, &done)
    });
    let message = Arc::new(Mutex::new(String::new()));
    // Other tests of the process keep their messages.
    let (hook, this) = (Arc::new(std::panic::take_hook()), std::thread::current().id());
    std::panic::set_hook({
        let (message, hook) = (message.clone(), hook.clone());
        Box::new(move |info| match std::thread::current().id() == this {
            true => *message.lock().expect("no panic here") = info.to_string(),
            false => hook(info),
        })
    });
    let (mut failures, mut counts, mut most) = (BTreeMap::new(), [0u64; 3], 0);
    for index in 0..executions {
        current.store(index, Ordering::Relaxed);
        let bytes = input(seed, index);
        let (mut held, mut opened, start) = (0, Opened::Refused, Instant::now());
        let work = AssertUnwindSafe(|| held = peak(|| opened = hostile(&bytes)));
        let ended = catch_unwind(work);
        most = most.max(held);
        counts[opened as usize] += 1;
        let failure = match ended {
            Err(_) => Some(message.lock().expect("no panic there").clone()),
            Ok(()) if held > MOST_BYTES => Some(format!("it took much memory\n{held} bytes")),
            Ok(()) if start.elapsed() > LONGEST && is_slow(&bytes) => Some("it is slow".into()),
            Ok(()) => None,
        };
        if let Some(failure) = failure {
            // One line of the program fails for many reasons, but of one kind they are likely alike.
            let (place, _) = failure.split_once('\n').unwrap_or((&failure, ""));
            let kind = Input(&bytes).kind();
            failures.entry((kind.name(), place.to_owned())).or_insert((index, failure));
            if failures.len() == MOST_FAILURES {
                break;
            }
        }
    }
    std::panic::set_hook(Box::new(move |info| hook(info)));
    done.store(true, Ordering::Relaxed);
    watchdog.thread().unpark();
    watchdog.join().expect("the watchdog does not panic");
    let [refused, unverified, verified] = counts;
    println!(
        "hostile files of seed {seed:#x}: {refused} refused, {unverified} opened unverified, {verified} verified"
    );
    for ((kind, _), (index, failure)) in &failures {
        println!("execution {index} of seed {seed:#x}, {kind}: {failure}");
    }
    assert!(failures.is_empty(), "{} different failures", failures.len());
    assert!(most > 0, "the allocator does not count");
}

/// The input of one execution.
pub(crate) fn input(seed: u64, index: u64) -> Vec<u8> {
    // The seed is mixed first: two small seeds would else have the same inputs in another order.
    let mut random = Random::new(Random::new(Random::new(seed).word() ^ index).word());
    (0..12).flat_map(|_| random.word().to_le_bytes()).collect()
}

/// Whether the execution takes as long when it is repeated: a busy machine can stop any of them.
fn is_slow(bytes: &[u8]) -> bool {
    (0..5).all(|_| {
        let start = Instant::now();
        hostile(bytes);
        start.elapsed() > LONGEST
    })
}

fn watch(seed: u64, current: &AtomicU64, done: &AtomicBool) {
    let (mut last, mut since) = (u64::MAX, Instant::now());
    while !done.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_secs(1));
        let index = current.load(Ordering::Relaxed);
        if index != last {
            (last, since) = (index, Instant::now());
        } else if since.elapsed() > ENDLESS && !done.load(Ordering::Relaxed) {
            eprintln!(
                "execution {index} of seed {seed:#x} does not end: {:02x?}",
                input(seed, index)
            );
            std::process::abort();
        }
    }
}
