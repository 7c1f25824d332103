//! Tests of the sliding filter that look inside.

use super::*;
use crate::{AnyFilter, Keyed, Settings, Shape, Shared};

fn key(number: u64) -> KeyHash {
    KeyHash { hi: mix(number), lo: mix(number ^ u64::MAX) }
}

#[test]
fn documented_sizes() {
    for (fpr, most) in [(1e-2, 12.98), (1e-3, 16.7), (1e-6, 28.0)] {
        let bits = SlidingShape::fit(1_000_000, fpr).unwrap().figures().bits_per_key();
        assert!((most - 0.2..most).contains(&bits), "{bits} at {fpr}");
    }
}

/// Windows of all sizes at many rates.
#[test]
fn a_window_of_keys_refuses_no_key() {
    for keys in [1u64, 2, 9, 20, 47, 61, 75, 100, 115, 150, 220, 340, 500, 900, 2000, 5000] {
        for fpr in [1e-2, 1e-4, 1e-6, 1e-9] {
            let shape = SlidingShape::fit(keys, fpr).unwrap();
            for seed in 0..1 + 2000 / keys.max(20) {
                let mut filter = Sliding::new(shape.clone()).unwrap();
                for number in 0..(20 * keys).max(1000) {
                    let pushed = filter.push(key(seed << 40 | number));
                    assert!(pushed.is_ok(), "{keys} keys at {fpr}, seed {seed}, push {number}");
                }
                filter.validate().unwrap();
            }
        }
    }
}

/// A push changes the block of its key, the next block in turn and, when a tick comes, one more,
/// unless its block is full and passes buckets on. Few pushes do that, and to few blocks.
#[test]
fn a_push_changes_few_blocks() {
    let mut filter = Sliding::new(SlidingShape::fit(100_000, 0.01).unwrap()).unwrap();
    let pushes: u64 = 300_000;
    for number in 0..pushes - 20_000 {
        filter.push(key(number)).unwrap();
    }
    let (mut passes, mut worst) = (0, 0);
    for number in pushes - 20_000..pushes {
        let before = filter.blocks.clone();
        let ticks = filter.ticks();
        // Every third key is a repetition.
        filter.push(key(if number % 3 == 0 { number - 50_000 } else { number })).unwrap();
        let words = filter.layout.words;
        let blocks = filter.blocks.chunks_exact(words).zip(before.chunks_exact(words));
        let changed = blocks.filter(|(a, b)| a != b).count();
        passes += usize::from(changed > 2 + usize::from(filter.ticks() != ticks));
        worst = worst.max(changed);
    }
    assert!(passes < 1200 && worst < 40, "{passes} pushes pass buckets on, through {worst} blocks");
    filter.validate().unwrap();
}

/// A window of few blocks for a long time: the blocks stay at their places.
#[test]
fn blocks_do_not_drift() {
    let shape = SlidingShape::fit(300, 1e-6).unwrap();
    let mut filter = Sliding::new(shape.clone()).unwrap();
    let mut most = 0;
    for number in 0..1_000_000 {
        filter.push(key(number)).unwrap();
        let head = filter.head((number % shape.blocks) as usize).unwrap();
        most = most.max(head.shift.unsigned_abs());
    }
    assert!(shape.blocks > 1 && most < shape.buckets / 2, "{most} of {}", shape.buckets);
    filter.validate().unwrap();
}

/// All keys of a window in a fortieth of the buckets, as an adversary could choose them who knows
/// the seed. None that is accepted is denied.
#[test]
fn keys_of_a_few_blocks_are_refused_or_contained() {
    let mut filter = Sliding::new(SlidingShape::fit(20_000, 0.01).unwrap()).unwrap();
    let close = |number| KeyHash { hi: key(number).hi / 40, ..key(number) };
    let accepted: Vec<u64> = (0..20_000).filter(|n| filter.push(close(*n)).is_ok()).collect();
    assert!(accepted.len() > 500, "{} keys find room", accepted.len());
    assert!(accepted.iter().all(|number| filter.contains(close(*number))));
    filter.validate().unwrap();
    for number in 20_000..20_000 + filter.window() + filter.slack() {
        let _ = filter.push(key(number));
    }
    let left = accepted.iter().filter(|number| filter.contains(close(**number)));
    assert!(left.count() < accepted.len() / 40);
    filter.validate().unwrap();
}

/// Pushes into blocks with any bits, as a file without verification may have: a key that is accepted
/// is contained, and nothing panics.
#[test]
fn a_damaged_filter_contains_what_it_accepts() {
    for seed in 0..300u64 {
        let mut filter = Sliding::new(SlidingShape::fit(1000, 0.01).unwrap()).unwrap();
        for number in 0..1500 {
            filter.push(key(number)).unwrap();
        }
        for flip in 0..1 + seed % 40 {
            let at = mix(seed << 8 | flip);
            let words = filter.blocks.to_mut();
            words[at as usize % words.len()] ^= if seed % 3 == 0 { at } else { 1 << (at >> 58) };
        }
        for number in 0..500 {
            let new = key(1 << 40 | number);
            if filter.push(new).is_ok() {
                assert!(filter.contains(new), "seed {seed}: a key is accepted and denied");
            }
        }
        let _ = filter.validate();
    }
}

/// Blocks that no push visits for more ticks than an epoch can represent.
#[test]
fn epochs_do_not_wrap_around() {
    let mut settings = Settings::default();
    settings.set("ticks", 8u64);
    let shape = SlidingShape::fit_with(100_000, 0.01, &settings).unwrap();
    let mut filter = Sliding::new(shape).unwrap();
    for number in 0..50_000 {
        filter.push(key(number)).unwrap();
    }
    let mut now = 0;
    for _ in 0..1 << EPOCH {
        now += 1;
        filter.advance(now);
        assert!(now < 9 || filter.is_empty());
    }
    assert!(!(0..50_000).any(|number| filter.contains(key(number))));
    filter.validate().unwrap();
}

/// Three times the keys that the window of time was planned for.
#[test]
fn a_full_filter_refuses_keys_and_stays_as_it_is() {
    const KEYS: u64 = 10_000;
    let mut settings = Settings::default();
    settings.set("ticks", 800u64);
    let shape = SlidingShape::fit_with(KEYS, 1e-4, &settings).unwrap();
    let mut filter = Sliding::new(shape).unwrap();
    filter.advance(1_000_000);
    let (accepted, refused): (Vec<u64>, Vec<u64>) =
        (0..3 * KEYS).partition(|number| filter.push(key(*number)).is_ok());
    // There is room for the keys of window and slack.
    assert!(refused[0] > 9 * KEYS / 8, "{} is refused", refused[0]);
    assert!(accepted.len() < 14 * KEYS as usize / 10, "{} are accepted", accepted.len());
    assert!(accepted.iter().all(|number| filter.contains(key(*number))));
    assert!(refused.iter().filter(|number| filter.contains(key(**number))).count() < 20);
    let others = (1 << 40..(1 << 40) + 100_000).filter(|number| filter.contains(key(*number)));
    assert!(others.count() < 40, "a full filter accepts other keys");
    // A key that is in is renewed.
    assert_eq!(filter.push(key(accepted[0])), Ok(true));
    assert_eq!(filter.push(key(refused[0])), Err(Full::NONE));
    filter.validate().unwrap();

    // A batch stops at the key that it refuses.
    let at = accepted.partition_point(|number| *number < refused[0]);
    let numbers: Vec<u64> = accepted[..at.min(70)].iter().copied().chain([refused[0]]).collect();
    let hashes: Vec<KeyHash> = numbers.iter().map(|number| key(*number)).collect();
    let mut seen = vec![false; hashes.len()];
    let full = filter.push_batch(&hashes, &mut seen).unwrap_err();
    assert_eq!(full.inserted, hashes.len() as u64 - 1);
    assert!(seen[..hashes.len() - 1].iter().all(|seen| *seen));
    let mut any = AnyFilter::Sliding(filter.clone());
    let error = any.push_batch(&hashes, &mut seen).unwrap_err();
    assert!(matches!(error, Error::Full { inserted } if inserted == full.inserted), "{error}");
    assert!(matches!(any.push(key(refused[0])), Err(Error::Full { inserted: 0 })));

    filter.advance(1_000_000 + 2000);
    assert!(filter.is_empty());
    assert!((0..KEYS).all(|number| filter.push(key(number)).is_ok()));
}

/// Through the interfaces that hash the keys, across several runs of hashes.
#[test]
fn every_interface_reports_a_full_window() {
    let build = || Keyed::<Sliding>::builder().capacity(100).fpr(0.01).set("ticks", 80u64);
    let keys: Vec<u64> = (0..5000).collect();
    let error = build().seed([1, 2]).build(keys.iter().copied()).unwrap_err();
    assert!(matches!(error, Error::Capacity { capacity: 100 }), "{error}");
    let mut keyed = build().seed([1, 2]).empty().unwrap();
    let mut any = Keyed::new(*keyed.hasher(), AnyFilter::Sliding(keyed.filter().clone()));
    let shared = Shared::from(keyed.clone());
    let full = keyed.push_batch(&keys).unwrap_err();
    assert!(full.inserted > 100 && full.inserted < 200, "{full}");
    let first_refused = keys[full.inserted as usize];
    assert_eq!(keyed.push(&first_refused), Err(Full::NONE));
    for error in [any.push_batch(&keys).unwrap_err(), shared.push_batch(&keys).unwrap_err()] {
        assert!(matches!(error, Error::Full { inserted } if inserted == full.inserted), "{error}");
    }
    assert!(matches!(any.push(&first_refused), Err(Error::Full { inserted: 0 })));
    assert!(matches!(shared.push(&first_refused), Err(Error::Full { inserted: 0 })));
}

/// The count of ticks begins again at 0 when phase and epoch do. A file with a larger count is refused.
#[test]
fn ticks_wrap_around() {
    let shape = SlidingShape::fit(100, 1e-9).unwrap();
    let all = shape.all_ticks();
    let hasher = crate::KeyHasher::new(crate::HashId::Fast, [1, 2]);
    let filter_at = |tick| {
        let mut filter = Sliding::new(shape.clone()).unwrap();
        filter.state.to_mut()[TICK] = tick;
        let bytes = Keyed::new(hasher, filter).to_bytes().unwrap();
        Keyed::<Sliding>::from_bytes(&bytes)
    };
    assert!(filter_at(all).is_err() && filter_at(u64::MAX).is_err());
    let mut filter = filter_at(all - 40).unwrap();
    for number in 0..1000u64 {
        assert!(!filter.push(&number).unwrap());
        let window = number.saturating_sub(99)..=number;
        assert!(window.into_iter().all(|key| filter.contains(&key)), "{number}");
        assert_eq!(Keyed::<Sliding>::from_bytes(&filter.to_bytes().unwrap()).unwrap(), filter);
    }
    assert!(filter.filter().ticks() < 1000);
}
