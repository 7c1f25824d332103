//! Comparison of filters that 2 threads change and query at the same time.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use atomic_cuckoo_filter::CuckooFilterBuilder;
use fastbloom::AtomicBloomFilter;
use foldhash::fast::FixedState;
use tamis::{Bloom, Cuckoo, Keyed, Kind, Shared};
use tamis_bench::{Keys, Options, Ratio, race};

use crate::peers::{FixedAHash, bytes};

const THREADS: usize = 2;

/// Ratios, tamis to other, of the time that 2 threads take together.
pub struct Ratios {
    /// Building a filter, each thread inserting half of the keys.
    pub insert: Ratio,
    /// Looking up all keys once, each thread half of them.
    pub hit: Ratio,
    /// Looking up as many non-members.
    pub miss: Ratio,
    /// Inserting and looking up keys alternately on each thread.
    pub mixed: Ratio,
}

/// Compares `bloom` with the atomic filter of fastbloom, of the same number of bits.
pub fn bloom(options: &Options) -> Result<Ratios> {
    let (keys, seed) = (options.keys, options.seed);
    let bits = 8 * bytes(Kind::Bloom, options)?;
    let builder = || Keyed::<Bloom>::builder().fpr(options.fpr).hasher(&options.hasher());
    compare(
        options,
        || Ok(Shared::with_shards(1, keys, builder())?),
        |filter, key| Ok(filter.insert(&key)?),
        |filter, key| filter.contains(&key),
        || {
            let bits = AtomicBloomFilter::with_num_bits(bits);
            Ok(bits.hasher(FixedState::with_seed(seed)).expected_items(keys as usize))
        },
        |filter, key| {
            filter.insert(&key);
            Ok(())
        },
        |filter, key| filter.contains(&key),
    )
}

/// Compares `cuckoo` in 64 shards with atomic-cuckoo-filter, with fingerprints of 16 bits.
pub fn cuckoo(options: &Options) -> Result<Ratios> {
    let keys = options.keys;
    let builder = || Keyed::<Cuckoo>::builder().fpr(options.fpr).hasher(&options.hasher());
    compare(
        options,
        || Ok(Shared::with_shards(64, keys, builder())?),
        |filter, key| Ok(filter.insert(&key)?),
        |filter, key| filter.contains(&key),
        || {
            let slots = (keys as f64 / 0.95).ceil() as usize;
            let builder = CuckooFilterBuilder::<FixedAHash>::default();
            builder.capacity(slots).fingerprint_size(16).build().context("atomic-cuckoo-filter")
        },
        |filter, key| filter.insert(&key).context("atomic-cuckoo-filter"),
        |filter, key| filter.contains(&key),
    )
}

fn compare<A: Sync, B: Sync>(
    options: &Options,
    new_ours: impl Fn() -> Result<A>,
    insert_ours: impl Fn(&A, u64) -> Result<()> + Sync,
    contains_ours: impl Fn(&A, u64) -> bool + Sync,
    new_theirs: impl Fn() -> Result<B>,
    insert_theirs: impl Fn(&B, u64) -> Result<()> + Sync,
    contains_theirs: impl Fn(&B, u64) -> bool + Sync,
) -> Result<Ratios> {
    let members = Keys::members_only(options.keys, options.seed).members;
    let others = Keys::members_only(options.keys, !options.seed).members;
    let rounds = options.rounds.min(15);
    let insert = race(
        rounds,
        || fill(&new_ours()?, &members, &insert_ours),
        || fill(&new_theirs()?, &members, &insert_theirs),
    )?;
    let (ours, theirs) = (new_ours()?, new_theirs()?);
    fill(&ours, &members, &insert_ours)?;
    fill(&theirs, &members, &insert_theirs)?;
    let all = members.len();
    let look_up = |keys: &[u64], least: usize| {
        race(
            rounds,
            || check(count(&ours, keys, &contains_ours), least),
            || check(count(&theirs, keys, &contains_theirs), least),
        )
    };
    let (hit, miss) = (look_up(&members, all)?, look_up(&others, 0)?);
    let mixed = race(
        rounds,
        || mix(&new_ours()?, &members, &insert_ours, &contains_ours),
        || mix(&new_theirs()?, &members, &insert_theirs, &contains_theirs),
    )?;
    Ok(Ratios { insert, hit, miss, mixed })
}

/// Inserts the keys, divided among the threads.
fn fill<F: Sync>(
    filter: &F,
    keys: &[u64],
    insert: &(impl Fn(&F, u64) -> Result<()> + Sync),
) -> Result<()> {
    on_threads(keys, |part| part.iter().try_for_each(|key| insert(filter, *key)))?;
    Ok(())
}

/// Returns how many of the keys the filter contains.
fn count<F: Sync>(filter: &F, keys: &[u64], contains: &(impl Fn(&F, u64) -> bool + Sync)) -> usize {
    let counts = on_threads(keys, |part| {
        Ok(part.iter().filter(|key| contains(filter, black_box(**key))).count())
    });
    counts.map_or(0, |counts| counts.into_iter().sum())
}

/// Inserts every second key and looks up the one before it, which is a member, on each thread in
/// its part.
fn mix<F: Sync>(
    filter: &F,
    keys: &[u64],
    insert: &(impl Fn(&F, u64) -> Result<()> + Sync),
    contains: &(impl Fn(&F, u64) -> bool + Sync),
) -> Result<()> {
    let found = on_threads(keys, |part| {
        let mut found = 0;
        for pair in part.chunks_exact(2) {
            insert(filter, pair[0])?;
            found += usize::from(contains(filter, black_box(pair[0])));
        }
        Ok(found)
    })?;
    check(found.into_iter().sum(), keys.len() / 2 - THREADS)
}

/// Calls `each` with a part of the keys on each thread.
fn on_threads<T: Send>(keys: &[u64], each: impl Fn(&[u64]) -> Result<T> + Sync) -> Result<Vec<T>> {
    let parts = keys.chunks(keys.len().div_ceil(THREADS).max(1));
    std::thread::scope(|scope| {
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| each(part))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("a thread panicked"));
        joined.collect()
    })
}

fn check(found: usize, least: usize) -> Result<()> {
    ensure!(found >= least, "only {found} of {least} keys were found");
    Ok(())
}
