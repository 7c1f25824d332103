//! Tests of gathering, sorting, spilling and solving.

use core::sync::atomic::AtomicBool;
use std::collections::BTreeSet;
use std::env::temp_dir;
use std::time::Duration;

use tamis_bits::range::mix;

use super::*;
use crate::hash::KeyHash;
use crate::options::Progress;

/// The records that the solver received per shard, and the table that it wrote.
type Seen<const W: usize> = (Vec<Vec<Record<W>>>, Vec<u64>);

/// Gathers in runs of uneven length. The solver copies its records, and writes their sum to the table.
fn seen<const W: usize>(options: &BuildOptions<'_>, records: &[Record<W>], bits: u32) -> Seen<W> {
    let mut gathering = Gathering::new(options);
    for run in records.chunks(70_001) {
        gathering.extend(run.iter().copied()).unwrap();
    }
    let gathered = gathering.finish().unwrap();
    let len = gathered.len();
    let mut table = vec![0; 3 << bits];
    let copy = |shard: usize, records: &[Record<W>], cells: &mut [u64]| {
        let sum = records.iter().flatten().fold(0, |sum: u64, word| sum.wrapping_add(*word));
        cells.copy_from_slice(&[shard as u64, records.len() as u64, sum]);
        Ok(records.to_vec())
    };
    let shards = gathered.solve(options, bits, &mut table, copy).unwrap();
    assert_eq!(shards.iter().map(|shard| shard.len() as u64).sum::<u64>(), len);
    (shards, table)
}

fn check<const W: usize>(options: &BuildOptions<'_>, records: &[Record<W>], bits: u32) -> Seen<W> {
    let distinct: BTreeSet<_> = records.iter().copied().collect();
    let (shards, table) = seen(options, records, bits);
    assert!(shards.iter().flatten().eq(distinct.iter()), "{options:?} {bits}");
    for (number, (shard, cells)) in shards.iter().zip(table.chunks(3)).enumerate() {
        let in_shard = |record: &Record<W>| bits == 0 || record[0] >> (64 - bits) == number as u64;
        assert!(shard.iter().all(in_shard), "{options:?} {bits}");
        assert_eq!(cells[..2], [number as u64, shard.len() as u64]);
    }
    (shards, table)
}

type Digest = fn(u64) -> u64;

const DIGESTS: [(&str, Digest); 5] = [
    ("random", mix),
    ("each thrice", |n| mix(n / 3)),
    ("each 1000 times, apart", |n| mix(n % 1000)),
    ("one", |_| u64::MAX),
    ("in one bucket", |n| mix(n) >> 30),
];

#[test]
fn every_record_reaches_its_shard_once_in_order() {
    for (_, digest) in DIGESTS {
        for len in [0, 1, 2, 1000, FEW as u64, FEW as u64 + 1, 400_000] {
            let records: Vec<_> = (0..len).map(|n| [digest(n)]).collect();
            for (bits, threads) in [(0, 1), (3, 2), (8, 3), (12, 2)] {
                check(&BuildOptions::new().threads(threads), &records, bits);
            }
            let values: Vec<_> = (0..len).map(|n| [digest(n), mix(n) % 2]).collect();
            check(&BuildOptions::new().threads(2), &values, 5);
        }
    }
}

/// Several threads collect enough records for more than one slab each.
#[test]
fn threads_collect_the_same_records() {
    let records: Vec<_> = (0..2_500_000).map(|n| [mix(n - n % 5 / 4)]).collect();
    let (expected, _) = check(&BuildOptions::new(), &records, 6);
    for (threads, run) in [(2, 1 << 18), (3, 2_000_000), (9, 1 << 18), (2, 140_000)] {
        let options = BuildOptions::new().threads(threads);
        let mut gathering = Gathering::new(&options);
        for run in records.chunks(run) {
            gathering.extend_from(run, |record| *record).unwrap();
        }
        assert!(!gathering.others.is_empty());
        let gathered = gathering.finish().unwrap();
        let copy = |_: usize, records: &[Record<1>], _: &mut [u64]| Ok(records.to_vec());
        let found = gathered.solve(&options, 6, &mut [0; 64], copy).unwrap();
        assert!(found == expected, "{threads} threads, runs of {run}");
    }
}

#[test]
fn a_memory_limit_does_not_change_the_result() {
    let reports = Mutex::new(Vec::new());
    let callback = |now: &Progress| reports.lock().unwrap().push((now.placed, now.keys));
    for (name, digest) in DIGESTS {
        let records: Vec<_> = (0..2_000_000).map(|n| [digest(n)]).collect();
        for bits in [0, 6, 10] {
            let free = check(&BuildOptions::new().threads(2), &records, bits);
            let tight = BuildOptions::new().threads(2).on_progress(&callback);
            // One bucket of all records is 16 MB, and sorting holds it twice.
            let limit = if bits == 0 || name == "in one bucket" { 90 << 20 } else { 16 << 20 };
            assert!(seen(&tight.max_memory(limit, temp_dir()), &records, bits) == free, "{name}");
            let reports = take(&mut *reports.lock().unwrap());
            assert_eq!(reports[0], (0, 2_000_000));
            let all = free.0.iter().flatten().count() as u64;
            assert!(reports[1..].iter().all(|report| report.1 == all));
            assert!(reports.contains(&(all, all)));
        }
    }
    let values: Vec<_> = (0..1_000_000).map(|n| [mix(n / 2), n % 3]).collect();
    let tight = BuildOptions::new().max_memory(16 << 20, temp_dir());
    assert!(check(&tight, &values, 7) == check(&BuildOptions::new(), &values, 7));
}

/// The shards of a range are the same as when all are solved, however the records are held.
#[test]
fn ranges_have_their_own_shards() {
    let all: Vec<_> = (0..900_000).map(|n| [mix(n / 2)]).collect();
    let free = BuildOptions::new().threads(2);
    let tight = free.clone().max_memory(16 << 20, temp_dir());
    for (len, options) in [(1000, &free), (900_000, &free), (900_000, &tight)] {
        let records = &all[..len];
        for bits in [8, 10] {
            let (expected, _) = check(&free, records, bits);
            for (index, parts) in [(0, 1), (1, 2), (5, 8), (255, 256)] {
                let range = PartRange::new(index, parts).unwrap();
                let shards = range.shards(bits);
                let own = || records.iter().filter(|record| range.contains_digest(record[0]));
                let mut gathering = Gathering::new(options);
                // Each record several times, so that the smallest range fills its bucket as well.
                for _ in 0..parts {
                    let own: Vec<_> = own().copied().collect();
                    gathering.extend(own.into_iter()).unwrap();
                }
                let gathered = gathering.finish().unwrap().within(range);
                let mut table = vec![0; shards.len()];
                let copy = |shard: usize, records: &[Record<1>], cells: &mut [u64]| {
                    cells[0] = shard as u64;
                    Ok(records.to_vec())
                };
                let solved = gathered.solve(options, bits, &mut table, copy).unwrap();
                assert!(solved == expected[shards.clone()], "{len} {bits} {range:?}");
                assert!(table.iter().copied().eq(shards.map(|shard| shard as u64)));
            }
        }
    }
}

#[test]
fn the_memory_limit_error_states_what_is_needed() {
    let records: Vec<_> = (0..3_000_000).map(|n| [mix(n)]).collect();
    let build = |limit: u64, words: usize| {
        let options = BuildOptions::new().threads(2).max_memory(limit, temp_dir());
        let mut gathering = Gathering::new(&options);
        gathering.extend(records.iter().copied())?;
        let mut table = vec![0; words];
        gathering.finish()?.solve(&options, 3, &mut table, |_, records, _| Ok(records.len()))
    };
    // Too little to gather, and too little for the table.
    for (limit, words) in [(1 << 20, 8), (40 << 20, 8 << 20)] {
        let Err(Error::MemoryLimit { needs, .. }) = build(limit, words) else { panic!("{limit}") };
        assert!(needs > limit);
        assert_eq!(build(needs, words).unwrap().iter().sum::<usize>(), 3_000_000);
        let short = build(needs - 1, words);
        assert!(matches!(short, Err(Error::MemoryLimit { .. })), "{limit}");
    }
}

#[test]
fn errors_end_the_work() {
    let records: Vec<_> = (0..3_000_000).map(|n| [mix(n)]).collect();
    let no_folder = temp_dir().join("not/there");
    let options = BuildOptions::new().max_memory(16 << 20, &no_folder);
    let mut gathering = Gathering::new(&options);
    let Err(Error::Scratch { folder, error }) = gathering.extend(records.iter().copied()) else {
        panic!("the folder does not exist")
    };
    assert_eq!((folder, error.kind()), (no_folder, std::io::ErrorKind::NotFound));

    let options = BuildOptions::new().threads(3);
    let mut gathering = Gathering::new(&options);
    gathering.extend(records.iter().copied()).unwrap();
    let mut table = vec![0; 1 << 10];
    let solved = AtomicU64::new(0);
    let failed = gathering.finish().unwrap().solve(&options, 10, &mut table, |shard, _, _| {
        solved.fetch_add(1, Ordering::Relaxed);
        if shard == 17 { Err(Error::Capacity { capacity: 17 }) } else { Ok(()) }
    });
    assert!(matches!(failed, Err(Error::Capacity { capacity: 17 })));
    assert!(solved.into_inner() < 512);
}

/// Changes to the file by others are detected whenever the file is read.
#[test]
fn records_read_back_are_verified() {
    let options = BuildOptions::new().max_memory(16 << 20, temp_dir());
    let mut gathering = Gathering::new(&options);
    gathering
        .extend((0..2_000_000).map(|n| [mix(n as u64)]).collect::<Vec<_>>().into_iter())
        .unwrap();
    let gathered = gathering.finish().unwrap();
    let Held::Spilled(spill) = &gathered.held else { panic!("not spilled") };
    spill.tamper();
    let mut table = vec![0; 256];
    let failed = gathered.solve(&options, 8, &mut table, |_, _, _| Ok(()));
    let Err(Error::Scratch { error, .. }) = failed else { panic!("not detected") };
    assert_eq!(error.to_string(), "records were not read back as they were written");
}

/// Gathers, sorts and solves 2,000,000 records in 64 shards. Returns their number.
fn gather_and_solve(options: &BuildOptions<'_>) -> Result<usize, Error> {
    let keys: Vec<_> = (0..2_000_000).map(|n| KeyHash { hi: mix(n), lo: 0 }).collect();
    let mut table = vec![0; 64];
    let gathered = gather(options, &keys[..])?;
    let solved = gathered.solve(options, 6, &mut table, |_, records, _| Ok(records.len()))?;
    Ok(solved.iter().sum())
}

/// Options for each number of threads, in memory and spilled.
fn all_options<'a>() -> impl Iterator<Item = (BuildOptions<'a>, String)> {
    [1, 2].into_iter().flat_map(|threads| {
        let memory = BuildOptions::new().threads(threads);
        let spilled = memory.clone().max_memory(16 << 20, temp_dir());
        [
            (memory, format!("{threads} threads, in memory")),
            (spilled, format!("{threads} threads, spilled")),
        ]
    })
}

/// A deadline of 0 stops reading, sorting and solving.
#[test]
fn a_deadline_of_zero_stops_the_build() {
    let records: Vec<_> = (0..2_000_000).map(|n| [mix(n)]).collect();
    for (options, name) in all_options() {
        let expired = options.clone().time_limit(Duration::ZERO);
        let Err(Error::Stopped { why, placed, keys }) = gather_and_solve(&expired) else {
            panic!("{name}: not stopped while reading")
        };
        assert_eq!((why, placed, keys), ("the time limit was reached", 0, 0), "{name}");

        let mut gathering = Gathering::new(&expired);
        let stopped = match gathering.extend(records.iter().copied()) {
            Ok(()) => gathering.finish().map(|_| ()),
            stopped => stopped,
        };
        assert!(matches!(stopped, Err(Error::Stopped { placed: 0, .. })), "{name}: sorting");

        let mut gathering = Gathering::new(&options);
        gathering.extend(records.iter().copied()).unwrap();
        let gathered = gathering.finish().unwrap();
        let stopped = gathered.solve(&expired, 6, &mut [0; 64], |_, _, _| Ok(()));
        let Err(Error::Stopped { placed: 0, keys: 2_000_000, .. }) = stopped else {
            panic!("{name}: not stopped while solving")
        };
    }
}

/// The callback is called once before sorting and then after each shard. A flag that it sets stops
/// the next phase: sorting after the first report, solving after the second.
#[test]
fn a_flag_set_by_the_callback_stops_sorting_and_solving() {
    for (options, name) in all_options() {
        for (after, phase) in [(1, "sorting"), (2, "solving"), (20, "solving")] {
            let (cancel, reports) = (AtomicBool::new(false), AtomicU64::new(0));
            let last = Mutex::new((0, 0));
            let callback = |now: &Progress| {
                let mut last = last.lock().unwrap();
                *last = (*last).max((now.placed, now.keys));
                if reports.fetch_add(1, Ordering::Relaxed) + 1 == after {
                    cancel.store(true, Ordering::Relaxed);
                }
            };
            let options = options.clone().cancel(&cancel).on_progress(&callback);
            let stopped = gather_and_solve(&options);
            let Err(Error::Stopped { why, placed, keys }) = stopped else {
                panic!("{name}, {phase}")
            };
            assert_eq!((why, keys), ("the build was cancelled", 2_000_000), "{name}");
            assert_eq!(placed > 0, phase == "solving", "{name}, {phase}: {placed}");
            // Each thread finishes at most its current shard.
            let reports = reports.load(Ordering::Relaxed);
            assert!((after..after + 2).contains(&reports), "{name}, {phase}: {reports}");
            assert!(last.into_inner().unwrap().0 < 2_000_000, "{name}, {phase}");
        }
    }
}

/// A flag that is set while the solver works stops the build before the next shard.
#[test]
fn a_flag_set_by_the_solver_stops_the_build() {
    for (options, name) in all_options() {
        let cancel = AtomicBool::new(false);
        let options = options.cancel(&cancel);
        let keys: Vec<_> = (0..2_000_000).map(|n| KeyHash { hi: mix(n), lo: 0 }).collect();
        let gathered = gather(&options, &keys[..]).unwrap();
        let solved = AtomicU64::new(0);
        let stopped = gathered.solve(&options, 6, &mut [0; 64], |_, _, _| {
            cancel.store(true, Ordering::Relaxed);
            solved.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        assert!(matches!(stopped, Err(Error::Stopped { .. })), "{name}");
        assert!(solved.into_inner() <= 2, "{name}");
    }
}

#[test]
fn a_panic_in_the_callback_reaches_the_caller() {
    for (options, name) in all_options() {
        for after in [1, 2, 20] {
            let reports = AtomicU64::new(0);
            let callback = |_: &Progress| {
                if reports.fetch_add(1, Ordering::Relaxed) + 1 == after {
                    std::panic::resume_unwind(Box::new("the callback panicked"));
                }
            };
            let options = options.clone().on_progress(&callback);
            let build = std::panic::AssertUnwindSafe(|| gather_and_solve(&options));
            let panic = std::panic::catch_unwind(build).expect_err(&name);
            let message = panic.downcast_ref::<&str>();
            assert_eq!(message, Some(&"the callback panicked"), "{name}, {after}");
        }
    }
}
