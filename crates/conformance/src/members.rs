//! No member is denied, by any kind of query and with any hash.

use tamis::plan::solve;
use tamis::{
    BuildOptions, Capability, Error, Goal, HashId, KeyHash, KeyHasher, Keyed, Limits, Settings,
    Shape, given,
};

use crate::keys::{Form, ORIGINS, extremes};
use crate::{Effort, Subject, repeats, variants};

/// Returns the shape for `keys` at `fpr`, or `None` if the kind cannot reach that rate.
pub fn shape<F: Subject>(keys: u64, fpr: f64, settings: &Settings) -> Option<F::Shape> {
    match solve(Goal::KeysFpr { keys, fpr }, settings) {
        Ok(shape) => Some(shape),
        Err(Error::Infeasible { .. }) => None,
        Err(error) => panic!("{keys} keys at {fpr}: {error}"),
    }
}

/// Returns the bytes of the file.
pub fn bytes<F: tamis::Persist>(filter: &Keyed<F>) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).expect("a vector accepts all bytes");
    bytes
}

/// Looks up keys in a batch, also with prefetching where the filter would not do it, and checks that both
/// give the same answers.
pub(crate) fn contains_batch(filter: &impl tamis::Filter, keys: &[KeyHash], out: &mut [bool]) {
    let mut prefetching = out.to_vec();
    filter.contains_prefetching(keys, &mut prefetching);
    filter.contains_batch(keys, out);
    assert_eq!(prefetching, out, "answers of a batch with prefetching");
}

fn all<F: Subject>(filter: &F, members: &[KeyHash], how: &str) {
    if let Some(at) = members.iter().position(|key| !filter.contains(*key)) {
        panic!("member {at} of {} is denied {how}", members.len());
    }
    let mut out = vec![false; members.len()];
    contains_batch(filter, members, &mut out);
    if let Some(at) = out.iter().position(|yes| !yes) {
        panic!("member {at} of {} is denied in a batch {how}", members.len());
    }
}

fn never_denied<F: Subject>(
    shape: &F::Shape,
    hasher: KeyHasher,
    members: &[KeyHash],
    on_disk: bool,
) {
    let filter = F::build(shape.clone(), members).expect("within the capacity");
    all(&filter, members, "after building");
    let filter = Keyed::new(hasher, filter);
    let written = bytes(&filter);
    let read =
        Keyed::<F>::read_from(&written[..], &Limits::default()).expect("what was just written");
    assert_eq!(read, filter);
    all(read.filter(), members, "after reading");
    if on_disk {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("filter.tamis");
        filter.save(&path).expect("room for a file");
        for open in [Keyed::<F>::open(&path), Keyed::<F>::open_verified(&path)] {
            all(open.expect("what was just saved").filter(), members, "in a mapped file");
        }
    }
}

/// Checks single queries and batches after building, after reading and in a mapped file.
pub fn no_member_is_denied<F: Subject>() {
    let effort = Effort::now();
    let mut random = effort.random(1);
    let small = [0, 1, 2, 63, 64, 65].map(|keys| (keys, 300));
    let large = (effort != Effort::Quick).then_some((1_000_000, 1));
    for (keys, rounds) in small.into_iter().chain([(1000, 100), (100_000, 1)]).chain(large) {
        for fpr in [0.3, 0.01, 1e-4] {
            let Some(shape) = shape::<F>(keys, fpr, &Settings::default()) else { continue };
            for (id, form) in ORIGINS {
                for round in 0..repeats::<F>(effort.times(rounds)) {
                    let hasher = KeyHasher::new(id, random.seed());
                    let members = form.hashes(&hasher, random.word() >> 1, keys);
                    never_denied::<F>(&shape, hasher, &members, round == 0);
                }
            }
        }
    }
}

/// Does the same with every setting.
pub fn no_member_is_denied_whatever_the_settings<F: Subject>() {
    let effort = Effort::now();
    let mut random = effort.random(2);
    for settings in variants::<F::Shape>() {
        for keys in [1, 65, 1000] {
            let Some(shape) = shape::<F>(keys, 0.05, &settings) else { continue };
            for _ in 0..repeats::<F>(effort.times(50)) {
                let hasher = KeyHasher::new(HashId::Fast, random.seed());
                let members = Form::Integers.hashes(&hasher, 0, keys);
                never_denied::<F>(&shape, hasher, &members, false);
            }
        }
    }
}

/// Checks batches of any length, on a filter in the cache and on a larger one.
pub fn batches_answer_as_single_queries_do<F: Subject>() {
    let effort = Effort::now();
    let mut random = effort.random(3);
    let hasher = KeyHasher::new(HashId::Fast, random.seed());
    let same = |filter: &F, keys: &[KeyHash], stale: bool| {
        let mut out = vec![stale; keys.len() + 3];
        contains_batch(filter, keys, &mut out);
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(out[at], filter.contains(*key), "key {at} of a batch of {}", keys.len());
        }
        assert_eq!(out[keys.len()..], [stale; 3], "answers past the keys are not touched");
    };
    for settings in variants::<F::Shape>() {
        for keys in [0, 1, 100, effort.times(200_000)] {
            // A high rate, so that the answers for non-members are mixed.
            let Some(shape) = shape::<F>(keys, 0.3, &settings) else { continue };
            let members = Form::Integers.hashes(&hasher, 0, keys);
            let filter = F::build(shape, &members[..]).expect("within the capacity");
            let mixed: Vec<KeyHash> = (0..keys.max(200) * 2)
                .map(|_| match members.get(random.below(members.len() * 4)) {
                    Some(member) => *member,
                    None => random.hash(),
                })
                .collect();
            for len in 0..=200 {
                same(&filter, &mixed[..len], len % 2 == 0);
                same(&filter, &mixed[mixed.len() - len..], len % 2 == 1);
            }
            same(&filter, &mixed, true);
            same(&filter, &extremes(), false);
        }
    }
}

/// Checks keys whose hashes are equal, nearly equal or at the ends of the range: building ends with
/// all members or with an error, and queries end.
pub fn degenerate_hashes_end_and_are_found<F: Subject>() {
    const KEYS: usize = 1000;
    let mut random = crate::keys::Random::new(4);
    let mut sets: Vec<Vec<KeyHash>> = Vec::new();
    for edge in extremes() {
        sets.push(vec![edge; KEYS]);
        sets.push((0..KEYS).map(|_| KeyHash { hi: edge.hi, lo: random.word() }).collect());
        sets.push((0..KEYS).map(|_| KeyHash { hi: random.word(), lo: edge.lo }).collect());
    }
    sets.push((0..KEYS as u64).map(|i| KeyHash { hi: i, lo: i }).collect());
    sets.push((0..KEYS as u64).map(|i| KeyHash { hi: i << 54, lo: u64::MAX - i }).collect());
    sets.push(extremes());
    for settings in variants::<F::Shape>() {
        let Some(shape) = shape::<F>(KEYS as u64, 0.01, &settings) else { continue };
        for members in &sets {
            match F::build(shape.clone(), &members[..]) {
                Ok(filter) => all(&filter, members, "though it was built"),
                Err(Error::Capacity { .. } | Error::Full { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let empty = F::build(shape, &[][..]).expect("nothing fits");
        assert!(!extremes().iter().any(|key| empty.contains(*key)), "an empty filter has no keys");
    }
}

/// Checks that any number of threads makes the same bytes.
pub fn any_number_of_threads_makes_the_same_bytes<F: Subject>() {
    let hasher = KeyHasher::new(HashId::Fast, [5, 6]);
    for keys in [0, 10, 1000, 100_000] {
        let shape = shape::<F>(keys, 0.01, &Settings::default()).expect("1 % is within reach");
        let members = Form::Integers.hashes(&hasher, 0, keys);
        let build = |threads| {
            let filter = build::<F>(threads, shape.clone(), &members);
            bytes(&Keyed::new(hasher, filter.expect("within the capacity")))
        };
        let one = build(1);
        for threads in [0, 2, 3, 8, 100] {
            assert!(build(threads) == one, "{keys} keys on {threads} threads");
        }
    }
}

/// Checks that more distinct keys than the capacity are refused, on any number of threads. A kind
/// that overfills or grows accepts them, and a window holds the last keys.
pub fn more_keys_than_it_is_for_are_refused<F: Subject>() {
    let hasher = KeyHasher::new(HashId::Fast, [7, 8]);
    let goes_on = F::KIND.can(Capability::Overfill) || F::KIND.can(Capability::Grow);
    for keys in [0u64, 1, 1000, 50_000] {
        let shape = shape::<F>(keys, 1e-3, &Settings::default()).expect("0.1 % is within reach");
        // A table may take a few keys for others that it holds. A bit array estimates its keys.
        let most = match F::KIND.can(Capability::SetOps) {
            true => crate::most_distinct(keys),
            false => keys + keys / 100,
        };
        let members = Form::Integers.hashes(&hasher, 0, most + 1);
        for threads in [1, 3] {
            match build::<F>(threads, shape.clone(), &members) {
                Ok(filter) if goes_on => {
                    all(&filter, &members, "beyond the capacity");
                }
                Ok(filter) if F::KIND.can(Capability::Window) => {
                    all(&filter, &members[members.len() - keys as usize..], "of the last keys");
                }
                Err(Error::Capacity { capacity: told }) if !goes_on => {
                    assert_eq!(told, shape.figures().keys);
                }
                other => panic!("{keys} keys and more on {threads} threads: {:?}", other.err()),
            }
        }
    }
}

/// Builds on `threads` threads.
fn build<F: Subject>(threads: usize, shape: F::Shape, keys: &[KeyHash]) -> Result<F, Error> {
    F::build_with(&BuildOptions::new().threads(threads), given(shape), keys)
}
