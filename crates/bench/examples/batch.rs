//! The time that one thread takes for a batch of integers, which `bindings/python/bench.py` prints beside its own.
//!
//! `batch KEYS` fills a `split_block_bloom` filter of 1 % with KEYS integers at once, looks all of them up at once,
//! and prints the two times in ns per key. They are processor time where Linux states it, and else wall time.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tamis::{AnyFilter, KeyHasher, Keyed, Kind};

fn main() -> Result<()> {
    let count: u64 = std::env::args().nth(1).context("usage: batch KEYS")?.parse()?;
    let kind = Kind::SplitBlockBloom;
    let hasher = KeyHasher::new(kind.default_hash(), [1, 2]);
    // The steps of the golden ratio are spread over all 64 bits.
    let keys: Vec<u64> = (1..=count).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let builder = Keyed::<AnyFilter>::builder(kind).fpr(0.01).capacity(count).hasher(&hasher);
    let mut filter = builder.empty()?;
    let (inserting, inserted) = timed(|| filter.insert_batch(&keys));
    inserted?;
    let (finding, found) = timed(|| filter.contains_batch(&keys));
    ensure!(found.iter().all(|found| *found), "a member is denied");
    println!("{} {}", inserting / count as f64, finding / count as f64);
    Ok(())
}

/// Returns the time of `action` in ns, and what it returns.
fn timed<R>(action: impl FnOnce() -> R) -> (f64, R) {
    let (before, start) = (processor_time(), Instant::now());
    let result = action();
    let wall = start.elapsed().as_nanos() as f64;
    let processor = before.zip(processor_time()).map(|(before, after)| after - before);
    (processor.unwrap_or(wall), result)
}

/// Returns the processor time of this thread so far in ns, if the system states it.
fn processor_time() -> Option<f64> {
    fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}
