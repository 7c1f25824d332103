//! The keys of a static filter, collected until it is built.

use std::sync::Arc;

use tamis::{BuildOptions, Hashes, KeyHash, Keyed};

use super::Filter;
use crate::arguments::Plan;
use crate::failure::Failure;

/// Hashes of keys, and their values if the filter is a map.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    /// Kind, rate, hash and seed of the filter to come.
    pub(crate) plan: Plan,
    /// Shared with the thread that builds the filter.
    entries: Arc<Vec<Entry>>,
}

/// A key's hash and its value, 0 for sets.
pub(crate) type Entry = (KeyHash, u64);

/// The length of an entry as bytes.
pub(crate) const ENTRY_BYTES: usize = 24;

impl Staged {
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan, entries: Arc::default() }
    }

    pub(crate) fn entries(&self) -> &Arc<Vec<Entry>> {
        &self.entries
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        Arc::make_mut(&mut self.entries).push(entry);
    }

    pub(crate) fn memory(&self) -> u64 {
        (self.entries.capacity() * size_of::<Entry>()) as u64
    }

    /// Appends entries from their bytes.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err(Failure::text("hashes come in units of 24 bytes"));
        }
        for entry in entries {
            let words = entry.as_chunks::<8>().0;
            let [hi, lo, value] = [0, 1, 2].map(|word| u64::from_le_bytes(words[word]));
            self.push((KeyHash { hi, lo }, value));
        }
        Ok(())
    }

    /// Calls `each` with the bytes of all entries in chunks.
    pub(crate) fn each_chunk(&self, max_bytes: usize, mut each: impl FnMut(&[u8])) {
        let mut bytes = Vec::new();
        for entries in self.entries.chunks((max_bytes / ENTRY_BYTES).max(1)) {
            bytes.clear();
            for (hash, value) in entries {
                bytes.extend([hash.hi, hash.lo, *value].into_iter().flat_map(u64::to_le_bytes));
            }
            each(&bytes);
        }
    }
}

/// Builds the filter of `plan` from entries.
pub(crate) fn build(plan: &Plan, entries: &[Entry]) -> Result<Filter, Failure> {
    let options = BuildOptions::new();
    let filter = if plan.is_map() {
        plan.kind.build_map(&plan.sizing, &mut { entries }, &options)?
    } else {
        let hashes = entries.iter().map(|(hash, _)| *hash);
        plan.kind.build(&plan.sizing, &mut Hashes::new(hashes), &options)?
    };
    Ok(Keyed::new(plan.hasher, filter).with_key_forms(plan.key_forms))
}
