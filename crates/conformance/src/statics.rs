//! A static kind represents a set of keys, whatever their order and number of copies.

use std::sync::atomic::{AtomicU64, Ordering};

use tamis::plan::solve;
use tamis::{
    BuildOptions, Goal, HashId, KeyHash, KeyHasher, Keyed, Progress, Settings, Shape, Static,
};

use crate::keys::{Form, Random};
use crate::members::{bytes, shape};
use crate::{Effort, Subject, repeats, variants};

/// Checks that the bytes do not depend on order, copies or threads, and that the shape is made for
/// the number of distinct keys.
pub fn order_and_copies_do_not_show<F: Subject + Static>() {
    let effort = Effort::now();
    let mut random = Random::new(61);
    for (number, settings) in variants::<F::Shape>().into_iter().enumerate() {
        // With the first settings, the defaults, a kind that is slow to build is built for all sizes.
        let is_slow = F::KIND.is_slow_to_build() && number > 0;
        for keys in [0, 1, 2, 17, 1000, 30_000, effort.times(100_000)] {
            let has_shape = shape::<F>(keys, 0.01, &settings).is_some();
            assert!(has_shape || number > 0, "there is a shape for {keys} keys");
            if !has_shape || is_slow && keys > 1000 {
                continue;
            }
            let hasher = KeyHasher::new(HashId::Fast, random.seed());
            let mut members = Form::Integers.hashes(&hasher, 0, keys);
            let fit = |keys| solve::<F::Shape>(Goal::KeysFpr { keys, fpr: 0.01 }, &settings);
            let build = |threads, members: &[KeyHash]| {
                let means = BuildOptions::new().threads(threads);
                F::build_with(&means, fit, members).expect("there is a shape")
            };
            let once = build(1, &members);
            assert_eq!((once.len(), once.shape().keys()), (keys, keys));
            let given = F::build(fit(keys).expect("there is a shape"), &members[..]);
            let once = bytes(&Keyed::new(hasher, once));
            assert!(bytes(&Keyed::new(hasher, given.expect("room"))) == once, "{settings:?}");
            for _ in 0..keys / 2 {
                let copy = members[random.below(keys as usize)];
                members.push(copy);
            }
            for at in (1..members.len()).rev() {
                members.swap(at, random.below(at + 1));
            }
            let shuffled = bytes(&Keyed::new(hasher, build(3, &members)));
            assert!(shuffled == once, "{keys} keys in another order, {settings:?}");
        }
    }
}

/// Checks that no member is denied in a filter with spare capacity.
pub fn fewer_keys_than_it_is_for_are_fine<F: Subject + Static>() {
    let mut random = Random::new(62);
    for (number, settings) in variants::<F::Shape>().into_iter().enumerate() {
        // With the first settings, the defaults, a kind that is slow to build is built for all sizes.
        let is_slow = F::KIND.is_slow_to_build() && number > 0;
        for most in [1, 100, 20_000].into_iter().filter(|most| *most <= 100 || !is_slow) {
            let Some(shape) = shape::<F>(most, 0.01, &settings) else {
                assert!(number > 0, "there is a shape for {most} keys");
                continue;
            };
            for keys in [0, 1, most / 3, most - 1] {
                let hasher = KeyHasher::new(HashId::Fast, random.seed());
                let members = Form::Integers.hashes(&hasher, 0, keys);
                let filter = F::build(shape.clone(), &members[..]).expect("room");
                assert!(filter.len() == keys && *filter.shape() == shape);
                assert!(members.iter().all(|key| filter.contains(*key)));
            }
        }
    }
}

/// Checks that the progress callback sees the number of placed keys grow to all of them.
pub fn progress_ends_with_all_keys<F: Subject + Static>() {
    const KEYS: u64 = 50_000;
    let hasher = KeyHasher::new(HashId::Fast, [63, 64]);
    let members = Form::Integers.hashes(&hasher, 0, KEYS);
    for threads in [1, 2] {
        let placed = AtomicU64::new(0);
        let watcher = |now: &Progress| {
            assert_eq!(now.keys, KEYS);
            assert!(
                placed.swap(now.placed, Ordering::Relaxed) <= now.placed,
                "the number of placed keys shrank"
            );
        };
        let means = BuildOptions::new().threads(threads).on_progress(&watcher);
        let fit = |keys| solve(Goal::KeysFpr { keys, fpr: 0.01 }, &Settings::default());
        F::build_with(&means, fit, &members[..]).expect("there is a shape");
        assert_eq!(placed.into_inner(), KEYS);
    }
}

/// Checks numbers of keys at which constructions tend to fail: few keys, and those around which the
/// segment length doubles.
pub fn any_number_of_keys_is_placed<F: Subject + Static>() {
    let effort = Effort::now();
    let mut random = effort.random(65);
    let step = (100 / repeats::<F>(100)) as usize;
    for keys in (0..=2000).chain(11_400..=11_600).step_by(step) {
        let goal = Goal::KeysFpr { keys, fpr: 0.01 };
        let shape = solve::<F::Shape>(goal, &Settings::default()).expect("there is a shape");
        for _ in 0..repeats::<F>(effort.times(1)) {
            let hasher = KeyHasher::new(HashId::Fast, random.seed());
            let members = Form::Integers.hashes(&hasher, 0, keys);
            let filter = F::build(shape.clone(), &members[..]).expect("room");
            assert_eq!(filter.len(), keys);
            assert!(members.iter().all(|key| filter.contains(*key)), "{keys} keys");
        }
    }
}
