//! Random sequences of operations on two filters and on two exact multisets.
//!
//! Both filters have one shape and one seed. Each operation is done to the filter and to its
//! multiset, and the two are compared. A kind without a capability must return the error that names
//! it and stay unchanged. The random tests, the shrinking tests and the fuzzer all use this model.

use tamis::{
    AnyFilter, BuildOptions, Capability, Copies, Error, Filter, HashId, Key, KeyHash, KeyHasher,
    Keyed, Kind, Limits, Settings, Sizing,
};

use crate::members::bytes;
use crate::oracle::Oracle;

/// One operation, on the first or the second filter.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Inserts the key.
    Insert(u64),
    /// Removes the key, if it is a member.
    Remove(u64),
    /// Looks the key up.
    Ask(u64),
    /// Merges the other filter into this one.
    Merge,
    /// Intersects this filter with the other.
    Intersect,
    /// Writes the filter to a file and reads it.
    Reread,
    /// Replaces the filter by an empty one.
    Clear,
}

impl Op {
    /// Maps any pair of numbers to a filter and an operation, mostly the common ones.
    pub fn from_numbers(what: u8, key: u16) -> (usize, Self) {
        let key = u64::from(key);
        let op = match what >> 1 {
            0..64 => Self::Insert(key),
            64..92 => Self::Ask(key),
            92..120 => Self::Remove(key),
            120..122 => Self::Merge,
            122..124 => Self::Intersect,
            124..127 => Self::Reread,
            _ => Self::Clear,
        };
        (usize::from(what & 1), op)
    }
}

#[derive(Clone, Debug)]
struct Side {
    filter: AnyFilter,
    truth: Oracle,
    /// Upper bound of the filter's length.
    used: u64,
}

/// Two filters and their exact multisets.
#[derive(Clone, Debug)]
pub struct Model {
    kind: Kind,
    hasher: KeyHasher,
    capacity: u64,
    empty: AnyFilter,
    sides: [Side; 2],
    /// Keys are taken modulo this number, so that they repeat.
    universe: u64,
}

impl Model {
    /// Creates two empty filters, or returns `None` if the kind has no such shape.
    pub fn new(
        kind: Kind,
        keys: u64,
        fpr: f64,
        settings: &Settings,
        seed: [u64; 2],
    ) -> Option<Self> {
        let sizing = Sizing::fpr(fpr).capacity(keys).settings(settings.clone());
        let empty = match kind.build(&sizing, &mut &[][..], &BuildOptions::new()) {
            Ok(empty) => empty,
            Err(Error::Infeasible { .. } | Error::Setting { .. } | Error::Limit { .. }) => {
                return None;
            }
            Err(error) => panic!("{kind} for {keys} keys at {fpr}: {error}"),
        };
        let side = Side { filter: empty.clone(), truth: Oracle::default(), used: 0 };
        Some(Self {
            kind,
            hasher: KeyHasher::new(HashId::Fast, seed),
            capacity: empty.figures().keys,
            empty,
            sides: [side.clone(), side],
            universe: keys + keys / 2 + 2,
        })
    }

    fn hash(&self, key: u64) -> KeyHash {
        (key % self.universe).hash_with(&self.hasher)
    }

    /// Does one operation and compares the results.
    pub fn step(&mut self, (side, op): (usize, Op)) {
        match op {
            Op::Insert(key) => self.insert(side, key % self.universe),
            Op::Remove(key) => self.remove(side, key % self.universe),
            Op::Ask(key) => self.compare(side, key % self.universe),
            Op::Merge => self.merge(side),
            Op::Intersect => self.intersect(side),
            Op::Reread => self.reread(side),
            Op::Clear => {
                let side = &mut self.sides[side];
                (side.filter, side.truth, side.used) = (self.empty.clone(), Oracle::default(), 0);
            }
        }
        let side = &self.sides[side];
        let len = side.filter.len();
        assert!(len <= side.used, "{op:?}: the filter counts {len} keys of {}", side.used);
        assert_eq!(side.filter.is_empty(), len == 0);
    }

    fn insert(&mut self, side: usize, key: u64) {
        let hash = self.hash(key);
        let Side { filter, truth, used } = &mut self.sides[side];
        // Copied only where it may be needed: a copy takes time in proportion to the filter.
        let near_full = filter.len() >= self.capacity;
        let before = (near_full || !self.kind.can(Capability::Insert)).then(|| filter.clone());
        let known = filter.contains(hash);
        match filter.insert(hash) {
            Ok(()) => {
                let goes_on =
                    self.kind.can(Capability::Overfill) || self.kind.can(Capability::Grow);
                truth.insert(key);
                *used += 1;
                // A bit array is full by its estimate of the distinct keys, which varies.
                let estimates = self.kind.can(Capability::SetOps)
                    && truth.distinct() <= crate::most_distinct(self.capacity);
                let fits = !near_full || known || goes_on || estimates;
                assert!(fits, "a full filter took a new key");
            }
            Err(Error::Full { inserted }) => {
                assert_eq!(inserted, 0);
                let keys = self.capacity;
                // Where each copy takes a slot and a key has few slots, they may run out early.
                let copies = self.kind.can(Capability::Remove)
                    && (!self.kind.can(Capability::Count) || self.kind.bounds_copies())
                    && truth.has_copies();
                assert!(copies || *used >= keys, "full with {used} of {keys} keys");
                let same = before.as_ref().is_none_or(|before| before == filter);
                assert!(same, "a refused insertion changed the filter");
            }
            Err(error) => self.refused(side, error, Capability::Insert, before),
        }
        self.compare(side, key);
    }

    fn remove(&mut self, side: usize, key: u64) {
        let hash = self.hash(key);
        let Side { filter, truth, used } = &mut self.sides[side];
        if truth.count(key) == 0 {
            return;
        }
        let before = (!self.kind.can(Capability::Remove)).then(|| filter.clone());
        match filter.remove(hash) {
            Ok(removed) => {
                assert!(removed, "removing a member found nothing");
                *used -= match self.kind.copies() {
                    Copies::Free => truth.remove_all(key),
                    _ => truth.remove(key),
                };
            }
            Err(error) => self.refused(side, error, Capability::Remove, before),
        }
        self.compare(side, key);
    }

    fn merge(&mut self, side: usize) {
        let other = self.sides[1 - side].clone();
        let Side { filter, truth, used } = &mut self.sides[side];
        let before = Some(filter.clone());
        match filter.merge(&other.filter) {
            Ok(()) => {
                truth.merge(&other.truth);
                *used += other.used;
            }
            Err(Error::Capacity { capacity: keys }) => {
                assert!(*used + other.used > keys, "no room for {} and {used}", other.used);
                assert_eq!(Some(&*filter), before.as_ref(), "a refused merge changed the filter");
            }
            Err(error) => self.refused(side, error, Capability::Merge, before),
        }
        self.compare_all(side);
    }

    fn intersect(&mut self, side: usize) {
        let other = self.sides[1 - side].clone();
        let Side { filter, truth, used } = &mut self.sides[side];
        let before = Some(filter.clone());
        match filter.intersect(&other.filter) {
            Ok(()) => {
                truth.intersect(&other.truth);
                *used = (*used).min(other.used);
            }
            Err(error) => self.refused(side, error, Capability::SetOps, before),
        }
        self.compare_all(side);
    }

    fn reread(&mut self, side: usize) {
        let filter = Keyed::new(self.hasher, self.sides[side].filter.clone());
        let written = bytes(&filter);
        let read = Keyed::<AnyFilter>::read_from(&written[..], &Limits::default());
        let read =
            read.unwrap_or_else(|error| panic!("cannot read what was just written: {error}"));
        assert_eq!(read, filter);
        assert!(bytes(&read) == written, "writing it again gives other bytes");
        self.sides[side].filter = read.into_parts().1;
        self.compare_all(side);
    }

    fn refused(&self, side: usize, error: Error, what: Capability, before: Option<AnyFilter>) {
        let unsupported =
            matches!(error, Error::Unsupported { capability, .. } if capability == what);
        assert!(unsupported && !self.kind.can(what), "{what}: {error}");
        assert_eq!(
            Some(&self.sides[side].filter),
            before.as_ref(),
            "an unsupported operation changed the filter"
        );
    }

    fn compare(&self, side: usize, key: u64) {
        let Side { filter, truth, .. } = &self.sides[side];
        let (hash, count) = (self.hash(key), truth.count(key));
        let yes = filter.contains(hash);
        assert!(yes || count == 0, "key {key}, inserted {count} times, is denied");
        if self.kind.can(Capability::Count) {
            let told = filter.count(hash).expect("a kind that counts");
            assert!(told >= count, "key {key} was inserted {count} times, not {told}");
            assert_eq!(told > 0, yes, "key {key}: count {told}, but contained: {yes}");
        }
    }

    /// Compares every member, in single queries and in a batch.
    pub fn compare_all(&self, side: usize) {
        let Side { filter, truth, .. } = &self.sides[side];
        truth.iter().for_each(|(key, _)| self.compare(side, key));
        let members: Vec<KeyHash> = truth.iter().map(|(key, _)| self.hash(key)).collect();
        let mut out = vec![false; members.len()];
        crate::members::contains_batch(filter, &members, &mut out);
        assert!(!out.contains(&false), "a member is denied in a batch");
    }
}
