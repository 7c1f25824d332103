//! An exact multiset of keys.

use std::collections::BTreeMap;

/// Number of copies of each key.
#[derive(Clone, Debug, Default)]
pub struct Oracle(BTreeMap<u64, u64>);

impl Oracle {
    /// Returns the number of copies of `key`.
    pub fn count(&self, key: u64) -> u64 {
        self.0.get(&key).copied().unwrap_or(0)
    }

    /// Returns whether a key has more than one copy.
    pub fn has_copies(&self) -> bool {
        self.0.values().any(|count| *count > 1)
    }

    /// Returns the number of distinct keys.
    pub fn distinct(&self) -> u64 {
        self.0.len() as u64
    }

    /// Adds a copy of `key`.
    pub fn insert(&mut self, key: u64) {
        *self.0.entry(key).or_default() += 1;
    }

    /// Removes a copy of `key`, which must be a member. Returns the number of copies removed, 1.
    pub fn remove(&mut self, key: u64) -> u64 {
        let count = self.0.get_mut(&key).expect("only members are removed");
        *count -= 1;
        if *count == 0 {
            self.0.remove(&key);
        }
        1
    }

    /// Removes all copies of `key`, which must be a member. Returns their number.
    pub fn remove_all(&mut self, key: u64) -> u64 {
        self.0.remove(&key).expect("only members are removed")
    }

    /// Adds all copies in `other`.
    pub fn merge(&mut self, other: &Self) {
        for (key, count) in &other.0 {
            *self.0.entry(*key).or_default() += count;
        }
    }

    /// Keeps the copies that are in both.
    pub fn intersect(&mut self, other: &Self) {
        self.0.retain(|key, count| {
            *count = (*count).min(other.count(*key));
            *count > 0
        });
    }

    /// Returns the keys and their numbers of copies.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(key, count)| (*key, *count))
    }
}
