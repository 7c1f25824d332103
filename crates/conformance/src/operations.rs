//! Tests of each capability.

use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use tamis::{
    Capability, Count, Error, Full, HashId, Insert, KeyHash, KeyHasher, Keyed, List, Merge,
    Overfill, Remove, Resize, SetOps, Settings, Shape,
};

use crate::keys::Form;
use crate::members::{bytes, shape};
use crate::model::{Model, Op};
use crate::{Effort, Subject, stats, variants};

const HASHER: [u64; 2] = [21, 22];

fn hashes(from: u64, count: u64) -> Vec<KeyHash> {
    Form::Integers.hashes(&KeyHasher::new(HashId::Fast, HASHER), from, count)
}

fn build<F: Subject>(keys: u64, fpr: f64, members: &[KeyHash]) -> F {
    let shape = shape::<F>(keys, fpr, &Settings::default()).expect("within reach");
    F::build(shape, members).expect("within the capacity")
}

/// Does long sequences on filters of 1 to 20000 keys with every setting.
pub fn random_operations_agree_with_the_oracle<F: Subject>() {
    let effort = Effort::now();
    let mut random = effort.random(23);
    let variants = variants::<F::Shape>();
    let sizes = [(1, 0.3), (3, 0.01), (17, 0.3), (100, 0.01), (2000, 0.05), (20_000, 0.01)];
    let steps = effort.times(1_200_000) / (variants.len() * sizes.len()) as u64;
    for settings in &variants {
        for (keys, fpr) in sizes {
            let Some(mut model) = Model::new(F::KIND, keys, fpr, settings, random.seed()) else {
                continue;
            };
            // The rare operations take time in proportion to the filter.
            let rare = (keys / 16).max(1) as usize;
            for _ in 0..steps {
                let common = random.below(rare) > 0;
                let what = if common { random.below(240) } else { random.below(256) };
                model.step(Op::from_numbers(what as u8, random.word() as u16));
            }
            model.compare_all(0);
            model.compare_all(1);
        }
    }
}

/// Does short sequences, which a failure shrinks further.
pub fn short_random_operations_agree_with_the_oracle<F: Subject>() {
    use proptest::prelude::*;
    let effort = Effort::now();
    let config =
        Config { cases: effort.times(300) as u32, failure_persistence: None, ..Config::default() };
    let rng = match effort {
        Effort::Quick => TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        Effort::Soak(_) => TestRng::from_seed(RngAlgorithm::ChaCha, &{
            let mut random = effort.random(24);
            std::array::from_fn::<u8, 32, _>(|_| random.word() as u8)
        }),
    };
    let variants = variants::<F::Shape>();
    let steps = proptest::collection::vec((any::<u8>(), any::<u16>()), 0..300);
    let strategy = (1..40u64, 0..variants.len(), any::<[u64; 2]>(), steps);
    let outcome =
        TestRunner::new_with_rng(config, rng).run(&strategy, |(keys, variant, seed, steps)| {
            if let Some(mut model) = Model::new(F::KIND, keys, 0.1, &variants[variant], seed) {
                steps.iter().for_each(|(what, key)| model.step(Op::from_numbers(*what, *key)));
                model.compare_all(0);
                model.compare_all(1);
            }
            Ok(())
        });
    if let Err(TestError::Fail(reason, (keys, variant, seed, steps))) = outcome {
        let steps: Vec<_> = steps.iter().map(|(what, key)| Op::from_numbers(*what, *key)).collect();
        panic!("{keys} keys, {:?}, seed {seed:?}, {steps:?}: {reason}", variants[variant]);
    }
    outcome.expect("the runner does not give up");
}

/// Checks that thousands of refused insertions change no bit. The first is checked on its own,
/// since later ones may hide a change that it made. [`copies_end_in_full_or_are_taken`] covers
/// kinds that overfill.
pub fn full_leaves_every_bit_as_it_was<F: Subject + Insert>() {
    if F::KIND.can(Capability::Overfill) || F::KIND.can(Capability::Grow) {
        return;
    }
    let effort = Effort::now();
    let mut random = effort.random(25);
    let bytes =
        |filter: &F| bytes(&Keyed::new(KeyHasher::new(HashId::Fast, HASHER), filter.clone()));
    for keys in [0, 1, 10, 300] {
        let mut full = build::<F>(keys, 0.01, &[]);
        let mut before = full.clone();
        // Keys that a table takes for others do not fill it, so insert until it is full.
        for given in 0.. {
            assert!(given <= crate::most_distinct(keys), "a filter for {keys} keys is never full");
            if full.insert(random.hash()).is_err() {
                break;
            }
            before = full.clone();
        }
        assert!(full == before && bytes(&full) == bytes(&before), "changed by the first refusal");
        for _ in 0..effort.times(5_000) {
            let key = random.hash();
            if full.contains(key) {
                continue;
            }
            let mut batch = full.clone();
            assert!(matches!(full.insert(key), Err(Full { inserted: 0, .. })));
            assert!(batch.insert_batch(&[key, random.hash()]).is_err());
            assert!(full == before && batch == before, "a full filter has changed");
        }
        assert!(bytes(&full) == bytes(&before), "a full filter has changed");
    }
}

/// Checks that inserting keys one by one, in batches or all at once gives the same filter.
pub fn inserting_is_building<F: Subject + Insert>() {
    let members = hashes(0, 3000);
    let built = build::<F>(3000, 0.01, &members);
    let (mut single, mut batch) = (build::<F>(3000, 0.01, &[]), build::<F>(3000, 0.01, &[]));
    members.iter().for_each(|key| single.insert(*key).expect("room"));
    members.chunks(77).for_each(|keys| batch.insert_batch(keys).expect("room"));
    assert_eq!(single, built);
    assert_eq!(batch, built);
    if F::KIND.can(Capability::Overfill) || F::KIND.can(Capability::Grow) {
        return;
    }
    // The keys before the first that does not fit are members.
    let mut short = build::<F>(1000, 0.01, &[]);
    let Err(Full { inserted, .. }) = short.insert_batch(&members) else { panic!("never full") };
    assert!(
        (1000..=crate::most_distinct(1000)).contains(&inserted),
        "{inserted} keys inserted at a capacity of 1000"
    );
    assert!(members[..inserted as usize].iter().all(|key| short.contains(*key)));
    let mut again = build::<F>(1000, 0.01, &members[..inserted as usize]);
    assert!(again == short && again.insert(members[inserted as usize]).is_err(), "{inserted}");
}

/// Checks that up to twice the capacity no member is denied, and the rate is the one that the shape
/// states for the number of keys.
pub fn past_its_keys_it_goes_on<F: Subject + Overfill>() {
    const KEYS: u64 = 2000;
    let effort = Effort::now();
    let mut random = effort.random(26);
    let shape = shape::<F>(KEYS, 0.01, &Settings::default()).expect("within reach");
    for times in [2, 3, 4] {
        let (seeds, mut yeses, mut stated) = (effort.times(50), 0, 0.0);
        let count = KEYS * times / 2;
        for _ in 0..seeds {
            let hasher = KeyHasher::new(HashId::Fast, random.seed());
            let members = Form::Integers.hashes(&hasher, 0, count);
            let mut filter = F::build(shape.clone(), &members[..KEYS as usize]).expect("room");
            filter.insert_batch(&members[KEYS as usize..]).expect("it overfills");
            assert!(members.iter().all(|key| filter.contains(*key)), "a member is denied");
            let strangers = Form::Integers.hashes(&hasher, count, KEYS);
            yeses += strangers.iter().filter(|key| filter.contains(**key)).count() as u64;
            stated += shape.fpr_at(filter.len()) / seeds as f64;
        }
        let what = format!("{} with {times} halves of its capacity", F::KIND);
        stats::check(&what, yeses, seeds * KEYS, stated);
    }
}

/// Checks that inserting one key again and again succeeds, or fails and leaves the filter
/// unchanged.
pub fn copies_end_in_full_or_are_taken<F: Subject + Overfill>() {
    let members = hashes(0, 1000);
    let mut filter = build::<F>(1000, 0.01, &members);
    for copy in 0..Effort::now().times(100_000) {
        let before = (copy % 100 == 0).then(|| filter.clone());
        if filter.insert(members[7]).is_err() {
            assert!(
                before.is_none_or(|before| before == filter),
                "a refused insertion changed the filter"
            );
        }
    }
    assert!(members.iter().all(|key| filter.contains(*key)), "a member is denied");
}

/// Checks that members stay while others are removed, and that hardly any key is left when all are.
pub fn what_is_removed_is_gone<F: Subject + Remove>() {
    let members = hashes(0, 10_000);
    let mut filter = build::<F>(10_000, 0.01, &members);
    let (gone, kept) = members.split_at(5000);
    assert!(gone.iter().all(|key| filter.remove(*key)));
    assert!(kept.iter().all(|key| filter.contains(*key)), "removing a key removed another");
    assert_eq!(filter.len(), 5000);
    let ghosts = gone.iter().filter(|key| filter.contains(**key)).count();
    assert!(ghosts < 200, "{ghosts} of 5000 removed keys are still found");
    assert!(kept.iter().all(|key| filter.remove(*key)));
    let ghosts = members.iter().filter(|key| filter.contains(**key)).count();
    assert!(ghosts < 10 && filter.is_empty(), "{ghosts} of 10000 removed keys are still found");
    // There is room for all of them again.
    assert!(filter.insert_batch(&members).is_ok() && members.iter().all(|k| filter.contains(*k)));
}

/// Checks counts from 1 to far beyond the limit: none is too low.
pub fn counts_are_never_under<F: Subject + Count + Insert>() {
    let mut random = Effort::now().random(26);
    // Two buckets of 4 slots hold 8 copies of a key, and fewer if other keys are in the buckets.
    let copies = if F::KIND.bounds_copies() { 3 } else { 40u64 };
    for keys in [1u64, 10, 100] {
        let mut filter = build::<F>(keys * 40, 0.01, &[]);
        let limit = filter.count_limit();
        assert!(limit >= 1);
        let members: Vec<KeyHash> = (0..keys).map(|_| random.hash()).collect();
        let mut exact = 0;
        for times in 1..=copies {
            for key in &members {
                filter.insert(*key).expect("room");
                let told = filter.count(*key);
                assert!(told >= times, "a count of {told} after {times} insertions");
                assert!(told == u64::MAX || told <= limit, "{told} past the limit {limit}");
                exact += u64::from(told == times.min(limit));
            }
        }
        let told = exact as f64 / (keys * copies.min(limit)) as f64;
        assert!(told > 0.5, "only a fraction of {told} of the counts up to the limit are exact");
    }
}

/// Checks the members and the rate of a merged filter, and that merging an empty filter changes
/// nothing.
pub fn a_merged_filter_has_the_members_of_both<F: Subject + Merge>() {
    let (a, b) = (hashes(0, 600), hashes(400, 600));
    let mut merged = build::<F>(1200, 0.01, &a);
    merged.merge(&build::<F>(1200, 0.01, &b)).expect("room for both");
    assert!(a.iter().chain(&b).all(|key| merged.contains(*key)));
    assert!(merged.len() >= 1000 - 20 && merged.len() <= 1200, "{} keys", merged.len());
    let strangers = hashes(1 << 40, 10_000);
    let yeses = strangers.iter().filter(|key| merged.contains(**key)).count();
    assert!(yeses < 300, "{yeses} false positives of 10000 in a union at 1 %");
    let nothing = build::<F>(1200, 0.01, &[]);
    let before = merged.clone();
    merged.merge(&nothing).expect("room for nothing");
    assert_eq!(merged, before);
}

/// Checks that merging another shape, or more keys than the capacity, is an error that changes
/// nothing. Kinds that resize may merge another shape; the union then has all members.
pub fn unlike_filters_do_not_merge<F: Subject + Merge>() {
    let mut filter = build::<F>(1000, 0.01, &hashes(0, 600));
    let before = filter.clone();
    let few = hashes(1000, 100);
    for other in [build::<F>(1001, 0.001, &few), build::<F>(5000, 0.01, &few)] {
        let mut union = filter.clone();
        match union.merge(&other) {
            Ok(()) => {
                assert!(F::KIND.can(Capability::Resize), "{} does not resize", F::KIND);
                assert!(hashes(0, 600).iter().chain(&few).all(|key| union.contains(*key)));
                assert_eq!(union.shape().keys(), other.shape().keys());
            }
            Err(Error::Mismatch { what: "shape" }) => assert_eq!(union, before),
            Err(error) => panic!("{error}"),
        }
    }
    let much = build::<F>(1000, 0.01, &hashes(1000, 600));
    assert!(matches!(filter.merge(&much), Err(Error::Capacity { capacity: 1000 })));
    assert_eq!(filter, before);
    let [mut one, two] = [[1, 1], [2, 2]]
        .map(|seed| Keyed::new(KeyHasher::new(HashId::Fast, seed), build::<F>(1000, 0.01, &[])));
    assert!(matches!(one.merge(&two), Err(Error::Mismatch { what: "hash or seed" })));
}

/// Checks that a forced union of bit arrays has all members, states the rate that it has, and can be saved
/// and opened, and that every other kind refuses it as it refuses a merge.
pub fn a_forced_union_states_its_rate<F: Subject + Merge>() {
    let (a, b) = (hashes(0, 900), hashes(1000, 900));
    let mut union = build::<F>(1000, 0.01, &a);
    let before = union.clone();
    let forced = union.force_merge(&build::<F>(1000, 0.01, &b));
    if !F::KIND.can(Capability::SetOps) {
        assert!(matches!(forced, Err(Error::Capacity { capacity: 1000 })), "{forced:?}");
        assert_eq!(union, before);
        return;
    }
    forced.expect("a bit array");
    assert!(a.iter().chain(&b).all(|key| union.contains(*key)));
    let (keys, fpr) = (union.shape().keys(), union.shape().figures().fpr);
    assert!((1700..1900).contains(&keys) && union.len() == keys, "{} of {keys} keys", union.len());
    let strangers = hashes(1 << 40, 10_000);
    let yeses = strangers.iter().filter(|key| union.contains(**key)).count() as f64;
    assert!((0.8..1.25).contains(&(yeses / 10_000.0 / fpr)), "{yeses} of 10000, not {fpr}");
    let keyed = Keyed::new(KeyHasher::new(HashId::Fast, HASHER), union);
    let read = Keyed::<F>::read_from(&bytes(&keyed)[..], &tamis::Limits::default());
    assert_eq!(read.expect("a forced union is a filter"), keyed);
}

/// Checks that the list ascends, that its counts add up, and that it does not depend on the order of keys.
pub fn a_list_has_every_fingerprint<F: Subject + List>() {
    let mut keys = hashes(0, 600);
    let list: Vec<(u64, u64)> = build::<F>(1000, 1e-6, &keys).list().collect();
    assert!(list.is_sorted_by(|a, b| a.0 < b.0), "the list does not ascend");
    assert_eq!(list.iter().map(|(_, count)| count).sum::<u64>(), 600);
    keys.reverse();
    let filter = build::<F>(1000, 1e-6, &keys);
    assert!(filter.list().eq(list.iter().copied()));
    let bits = filter.fingerprint_bits();
    assert!(list.iter().all(|(fingerprint, _)| fingerprint >> (bits - 1) <= 1), "{bits} bits");
    assert_eq!(build::<F>(1000, 0.01, &[]).list().count(), 0);
}

/// Checks that a filter of another size has the members and the fingerprints of before, takes as many
/// keys as it states, and goes back; and that it refuses to become smaller than its keys.
pub fn a_resized_filter_is_the_same_set<F: Subject + Resize>() {
    let keys = hashes(0, 4000);
    let first = build::<F>(600, 1e-6, &keys[..600]);
    let mut filter = first.clone();
    filter.resize(4000, None).expect("room");
    filter.validate().expect("sound");
    assert!(keys[..600].iter().all(|key| filter.contains(*key)) && filter.len() == first.len());
    assert!(filter.list().eq(first.list()));
    assert_eq!(filter.shape().keys(), 4000);
    filter.resize(600, None).expect("room");
    assert_eq!(filter, first);
    for keys in [0, 599] {
        let refused = filter.resize(keys, None);
        assert!(matches!(refused, Err(Error::Capacity { capacity }) if capacity == keys));
    }
    assert!(filter.resize(1 << 47, None).is_err());
    match filter.resize(600, Some(1e-12)) {
        Ok(()) => assert!(F::KIND.is_exact()),
        Err(error) => assert!(matches!(error, Error::Infeasible { .. }), "{error}"),
    }
    assert_eq!(filter, first);
    filter.resize(4000, Some(0.01)).expect("room");
    filter.insert_batch(&keys[600..]).expect("room");
    assert!(keys.iter().all(|key| filter.contains(*key)));
    let rate = filter.shape().figures().fpr;
    let strangers = hashes(1 << 40, 10_000);
    let yeses = strangers.iter().filter(|key| filter.contains(**key)).count() as f64;
    assert!(rate <= 0.01 && yeses < 10_000.0 * rate + 60.0, "{yeses} of 10000 at {rate}");
}

/// Checks that a merged filter equals one that is built from all keys.
pub fn merging_is_building_the_union<F: Subject + SetOps>() {
    let (a, b) = (hashes(0, 700), hashes(300, 800));
    let mut merged = build::<F>(1500, 0.01, &a);
    merged.merge(&build::<F>(1500, 0.01, &b)).expect("room for both");
    assert_eq!(merged, build::<F>(1500, 0.01, &[a, b].concat()));
}

/// Checks that an intersection has the common members and few others, and that it can be saved.
pub fn an_intersection_keeps_common_members<F: Subject + SetOps>() {
    let (a, b) = (hashes(0, 3000), hashes(2000, 3000));
    let mut common = build::<F>(3000, 0.01, &a);
    common.intersect(&build::<F>(3000, 0.01, &b)).expect("the same shape");
    assert!(hashes(2000, 1000).iter().all(|key| common.contains(*key)));
    let strangers = [hashes(0, 2000), hashes(3000, 2000), hashes(1 << 40, 6000)].concat();
    let yeses = strangers.iter().filter(|key| common.contains(**key)).count();
    assert!(yeses < 400, "{yeses} of 10000 keys that are not in both filters");
    let keyed = Keyed::new(KeyHasher::new(HashId::Fast, HASHER), common);
    let read = Keyed::<F>::read_from(&bytes(&keyed)[..], &tamis::Limits::default());
    assert_eq!(read.expect("an intersection is a filter"), keyed);
    let other = build::<F>(9000, 0.01, &[]);
    assert!(keyed.into_parts().1.intersect(&other).is_err());
}

/// Checks that the estimate is within a few percent, is 0 for no keys, and counts duplicates once.
pub fn cardinality_is_estimated<F: Subject + SetOps>() {
    let members = hashes(0, 20_000);
    assert_eq!(build::<F>(20_000, 0.01, &[]).cardinality(), 0.0);
    for count in [100, 1000, 10_000, 20_000] {
        let filter = build::<F>(40_000, 0.01, &[&members[..count], &members[..count]].concat());
        let off = filter.cardinality() / count as f64 - 1.0;
        let most = 0.03 + 0.5 / (count as f64).sqrt();
        assert!(off.abs() < most, "{count} keys: {:+.2} % off", off * 100.0);
    }
}

/// Checks that the similarity is 1 for equal sets, near 0 for disjoint ones, in between for half,
/// and symmetric.
pub fn similarity_tells_like_from_unlike<F: Subject + SetOps>() {
    let make = |from| build::<F>(20_000, 0.01, &hashes(from, 1000));
    let (a, half, none) = (make(0), make(500), make(1000));
    let like = |x: &F, y: &F| x.similarity(y).expect("the same shape");
    assert!((like(&a, &a) - 1.0).abs() < 1e-12);
    let (near, far) = (like(&a, &half), like(&a, &none));
    assert_eq!(near, like(&half, &a));
    assert!((0.45..0.65).contains(&near) && (0.0..0.2).contains(&far), "{near} {far}");
    let empty = build::<F>(20_000, 0.01, &[]);
    assert_eq!((like(&empty, &empty), like(&a, &empty)), (1.0, 0.0));
    assert!(a.similarity(&build::<F>(30_000, 0.01, &[])).is_err());
}

/// Checks that duplicates never fill a bit array, which compares the distinct keys with its
/// capacity, and that filters of the same keys merge.
pub fn duplicates_never_fill_it<F: Subject + SetOps + Insert>() {
    let members = hashes(0, 1000);
    let mut filter = build::<F>(1000, 0.01, &members);
    for round in 0..50 {
        for (index, key) in members.iter().enumerate() {
            assert_eq!(filter.insert(*key), Ok(()), "round {round}, key {index}");
        }
    }
    filter.insert_batch(&members.repeat(20)).expect("duplicates");
    assert!(filter.len() <= crate::most_distinct(1000), "{} keys", filter.len());
    // Half of the insertions before the limit are duplicates.
    let mut mixed = build::<F>(1000, 0.01, &[]);
    let mut random = crate::keys::Random::new(47);
    for key in &members {
        mixed.insert(*key).expect("within the capacity");
        mixed.insert(members[random.below(members.len())]).expect("within the capacity");
    }
    assert!(members.iter().all(|key| mixed.contains(*key) && filter.contains(*key)));
    let (mut some, same) =
        (build::<F>(1000, 0.01, &members[..600]), build::<F>(1000, 0.01, &members[..600]));
    some.merge(&same).expect("the same 600 keys");
    let overlapping = build::<F>(1000, 0.01, &members[300..900]);
    some.merge(&overlapping).expect("900 distinct keys");
    assert!(members[..900].iter().all(|key| some.contains(*key)));
}
