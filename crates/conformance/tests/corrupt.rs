//! Files that are kept: those that once did harm, or stand for those that would, are refused.

use std::fs;
use std::sync::Arc;

use tamis::{
    Adapt, AdaptiveCuckoo, AdaptiveCuckooShape, AnyFilter, Broom, BroomShape, Build, BytesOwner,
    Capability, Filter, HashId, Key, KeyHash, KeyHasher, Keyed, Kind, Limits, Settings, Shape,
};
use tamis_conformance::attack::Parts;
use tamis_conformance::files::{denying_file_is_kept, golden, testdata, variants_are_kept};

#[test]
fn a_golden_file_with_denied_keys_is_kept() {
    denying_file_is_kept();
    variants_are_kept();
}

#[test]
fn every_kept_corrupt_file_is_refused_in_one_line() {
    let mut seen = 0;
    for entry in fs::read_dir(testdata("corrupt")).expect("a folder of files") {
        let path = entry.expect("an entry").path();
        // Other inputs that the fuzzers found are replayed there.
        if path.extension().is_none_or(|extension| extension != "tamis") {
            continue;
        }
        let bytes = fs::read(&path).expect("a readable file");
        let read = Keyed::<AnyFilter>::read_from(&bytes[..], &Limits::default()).err();
        let opened = Keyed::<AnyFilter>::open_verified(&path).err();
        for error in [read, opened] {
            let told = error.unwrap_or_else(|| panic!("{} is taken", path.display())).to_string();
            assert!(!told.is_empty() && !told.contains('\n'), "{told}");
        }
        seen += 1;
    }
    assert!(seen > 0);
}

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Fast, [1, 2])
}

fn hashes(keys: std::ops::Range<u64>) -> Vec<KeyHash> {
    keys.map(|key| key.hash_with(&hasher())).collect()
}

/// A store may name more members than the filter is made for: the filter takes them, and its file opens.
#[test]
fn members_beyond_the_capacity_survive_a_file() {
    for kind in Kind::ALL.iter().filter(|kind| kind.can(Capability::Adapt)) {
        let (members, others) = (hashes(0..40), hashes(100..400));
        let builder = Keyed::<AnyFilter>::builder(*kind).capacity(40).fpr(0.3).hasher(&hasher());
        let mut filter = builder.empty().expect("memory");
        filter.filter_mut().insert_batch(&members).expect("room");
        let all = [&members[..], &others].concat();
        let within = |range: &std::ops::RangeInclusive<u64>| -> Vec<KeyHash> {
            all.iter().copied().filter(|key| range.contains(&key.hi)).collect()
        };
        for stranger in hashes(1000..11_000) {
            let any = filter.filter_mut();
            let range = any.suspects(stranger).expect("it adapts");
            any.adapt(stranger, &within(&range)).expect("it adapts");
            if let Some(range) = any.due().expect("it adapts") {
                any.renew(&within(&range)).expect("it adapts");
            }
        }
        assert!(filter.len() > filter.capacity(), "{kind}: {} keys", filter.len());
        let bytes = filter.to_bytes().expect("memory");
        let read = Keyed::<AnyFilter>::from_bytes(&bytes);
        assert!(read.unwrap_or_else(|error| panic!("{kind}: {error}")) == filter);
        assert!(filter.try_clone().expect("memory") == filter);
    }
}

/// Segments are split before they hold more keys than they are for.
#[test]
fn a_growing_filter_with_more_keys_than_segments_is_refused() {
    let mut parts = Parts::of(&golden(Kind::Growing));
    for keys in [1 << 10, 1 << 40, 1 << 48] {
        parts.rest[0] = keys;
        let error = Keyed::<AnyFilter>::from_bytes(&parts.forge()).expect_err("too many keys");
        assert!(error.to_string().contains("number of keys"), "{error}");
    }
}

/// The bins that a resize has moved are empty. A file that says otherwise is refused, and harmless if
/// nobody checks it.
#[test]
fn a_broom_with_keys_in_moved_bins_is_refused() {
    let members = hashes(0..200);
    let mut settings = Settings::default();
    settings.set("lines", 1);
    let fit = |keys| BroomShape::fit_with(keys, 0.1, &settings).expect("10 % is within reach");
    let mut broom = Broom::build(fit(200), &members[..]).expect("room");
    broom.resize(fit(400)).expect("memory");
    let bytes = Keyed::new(hasher(), broom).to_bytes().expect("memory");
    let mut parts = Parts::of(&bytes);
    let moved = &mut parts.sections[0].1[9];
    assert_eq!(*moved, 1, "no bin has moved yet");
    *moved = 3;
    let error = Keyed::<AnyFilter>::from_bytes(&parts.forge()).expect_err("two bins are not empty");
    assert!(error.to_string().contains("moved"), "{error}");
    // The bins of the new table are damaged too.
    let bins = parts.sections.iter().rposition(|(name, _)| name.starts_with(b"bins"));
    parts.sections[bins.expect("a second table")].1.fill(u64::MAX);
    let owner: Arc<BytesOwner> = Arc::new(parts.forge());
    let mut broom = Keyed::<Broom>::from_shared(owner).expect("its fields are in range");
    while broom.filter().is_moving() {
        broom.filter_mut().renew(&members);
    }
    assert!(!broom.is_empty());
}

/// All slots of a class have one selector, and class bits other than 0. A file that says otherwise is refused,
/// and harmless if nobody checks it.
#[test]
fn an_adaptive_cuckoo_with_two_selectors_in_a_class_is_refused() {
    let key = hashes(0..1)[0];
    // One pair of buckets with slots of 7 fingerprint bits, 16 in all.
    let shape = AdaptiveCuckooShape::new(2, 7, 8).expect("sizes within limits");
    let filter = AdaptiveCuckoo::build(shape, &[key, key][..]).expect("room");
    let bytes = Keyed::new(hasher(), filter).to_bytes().expect("memory");
    let sound = Parts::of(&bytes);
    let table = sound.sections.iter().position(|(name, _)| name.starts_with(b"table"));
    let table = table.expect("a table");
    type Change = (fn(u64) -> u64, &'static str);
    let changes: [Change; 3] = [
        (|slot| slot, ""),
        (|slot| slot ^ 1 << 14, "two slots of a class have different selectors"),
        (|slot| slot >> 7 << 7, "the class bits of a slot are 0"),
    ];
    for (change, what) in changes {
        let mut parts = sound.clone();
        let words = &mut parts.sections[table].1;
        let (word, slot) = (words.iter().position(|word| *word != 0))
            .map_or((0, 0), |word| (word, words[word].trailing_zeros() / 16 * 16));
        let old = words[word] >> slot & 0xffff;
        words[word] ^= (old ^ change(old)) << slot;
        let forged = parts.forge();
        match Keyed::<AnyFilter>::from_bytes(&forged) {
            Ok(_) => assert!(what.is_empty() && forged == bytes, "a file with {what} is taken"),
            Err(error) => {
                assert!(!what.is_empty() && error.to_string().contains(what), "{error}");
            }
        }
        let mut filter =
            Keyed::<AdaptiveCuckoo>::from_shared(Arc::new(forged)).expect("fields in range");
        for x in hashes(1..2000) {
            filter.filter_mut().adapt(x, &[key, key]);
        }
        assert!(filter.filter().contains(key), "the store names it");
    }
}

/// Estimates and ages of an unverified file are numbers.
#[test]
fn unverified_tables_give_any_answer_but_no_panic() {
    for kind in [Kind::Bloom, Kind::Sliding] {
        let mut parts = Parts::of(&golden(kind));
        let last = parts.sections.len() - 1;
        parts.sections[last].1.fill(u64::MAX);
        if kind == Kind::Bloom {
            parts.sections[0].1[0] -= 1; // one bit is past the end
        }
        assert!(Keyed::<AnyFilter>::from_bytes(&parts.forge()).is_err(), "{kind}");
        let owner: Arc<BytesOwner> = Arc::new(parts.forge());
        let mut filter = Keyed::<AnyFilter>::from_shared(owner).expect("its fields are in range");
        for key in 0..100u64 {
            filter.contains(&key);
            let refused = filter.push(&key).is_err();
            assert!(refused || kind == Kind::Sliding);
        }
        assert!(filter.cardinality().map_or(0.0, f64::abs) >= 0.0);
    }
}
