//! Tests of the sliding filter that look inside.

use super::*;
use crate::{AnyFilter, Keyed, Shared};

fn key(number: u64) -> KeyHash {
    KeyHash { hi: mix(number), lo: mix(number ^ u64::MAX) }
}

#[test]
fn documented_sizes() {
    for (fpr, most) in [(1e-2, 15.37), (1e-3, 19.9), (1e-6, 33.9)] {
        let bits = SlidingShape::fit(1_000_000, fpr).unwrap().figures().bits_per_key();
        assert!((most - 0.2..most).contains(&bits), "{bits} at {fpr}");
    }
}

/// Windows of all sizes at many rates. With few bins, many keys have the same bin twice.
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

/// A push changes its two bins and the next bin in turn; when a generation begins, one more.
#[test]
fn a_push_changes_three_bins() {
    let mut filter = Sliding::new(SlidingShape::fit(3000, 0.01).unwrap()).unwrap();
    let (mut worst, mut slots) = (0, 0);
    for number in 0..30_000 {
        let begins = filter.state[PUSHED] == filter.length;
        let before = filter.bins.clone();
        // Every third key is a repetition.
        filter.push(key(if number % 3 == 0 { number / 2 } else { number })).unwrap();
        let bins = filter.bins.as_chunks::<WORDS>().0.iter();
        let changed = bins.zip(before.as_chunks::<WORDS>().0).filter(|(a, b)| a != b).count();
        assert!(changed <= 3 + usize::from(begins), "{changed} bins");
        (worst, slots) = (worst.max(changed), changed * filter.layout.slots);
    }
    assert!(worst >= 3 && slots <= 4 * filter.layout.slots);
    filter.validate().unwrap();
}

/// Bins that no push visits for more generations than an epoch can represent.
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

/// A file of version 0.1.0 may have a bin that accepts all keys until a stamp expires.
#[test]
fn a_saturated_bin_accepts_all_keys_until_its_stamp_expires() {
    let mut filter = Sliding::new(SlidingShape::fit(3000, 1e-6).unwrap()).unwrap();
    for number in 0..100 {
        filter.push(key(number)).unwrap();
    }
    let first = filter.place(key(1 << 40)).bins[0];
    assert!(!filter.contains(key(1 << 40)));
    let (layout, now) = (filter.layout, filter.now);
    layout.set_saturated(&mut filter.bins.to_mut().as_chunks_mut().0[first], Some(now));
    filter.validate().unwrap();
    assert!(filter.contains(key(1 << 40)));
    for number in 100..4000 {
        filter.push(key(number)).unwrap();
    }
    filter.validate().unwrap();
    assert!(!filter.contains(key(1 << 40)));
}
