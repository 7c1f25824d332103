//! The truth: an exact multiset of keys.

use std::collections::BTreeMap;

/// How often each key is in.
#[derive(Clone, Debug, Default)]
pub struct Oracle(BTreeMap<u64, u64>);

impl Oracle {
    /// How often `key` is in.
    pub fn count(&self, key: u64) -> u64 {
        self.0.get(&key).copied().unwrap_or(0)
    }

    /// Whether some key is in more than once.
    pub fn has_copies(&self) -> bool {
        self.0.values().any(|count| *count > 1)
    }

    /// The number of different keys.
    pub fn distinct(&self) -> u64 {
        self.0.len() as u64
    }

    /// Puts `key` in once more.
    pub fn insert(&mut self, key: u64) {
        *self.0.entry(key).or_default() += 1;
    }

    /// Takes `key` out once; it must be in.
    pub fn remove(&mut self, key: u64) {
        let count = self.0.get_mut(&key).expect("only members are removed");
        *count -= 1;
        if *count == 0 {
            self.0.remove(&key);
        }
    }

    /// Takes in all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (key, count) in &other.0 {
            *self.0.entry(*key).or_default() += count;
        }
    }

    /// Keeps what is in both.
    pub fn intersect(&mut self, other: &Self) {
        self.0.retain(|key, count| {
            *count = (*count).min(other.count(*key));
            *count > 0
        });
    }

    /// The keys and how often each is in.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(key, count)| (*key, *count))
    }
}
