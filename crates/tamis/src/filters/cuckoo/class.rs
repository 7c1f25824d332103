//! Fingerprints of which only some bits select the other bucket, for `adaptive_cuckoo`.
//!
//! A *class* is a left bucket and a value of these bits. Its fingerprints are all in the same two buckets, or in
//! the stash, so that one of them can be replaced by another without a move.

use super::Cuckoo;
use super::table::Place;
use crate::error::Full;

/// A left bucket, and the bits of a fingerprint that select the other bucket.
#[derive(Clone, Copy)]
pub(in crate::filters) struct Class {
    pub(in crate::filters) left: u64,
    pub(in crate::filters) bits: u64,
}

impl Cuckoo {
    /// Returns this filter with other buckets that are selected by the bits of `mask` only. It must be empty, or
    /// have been read from a file of such a filter.
    pub(in crate::filters) fn with_spreading(mut self, mask: u64) -> Self {
        self.table.spreading = mask;
        self.update_halves();
        self
    }

    fn class_place(&self, class: Class) -> Place {
        self.table.place_at(class.left, class.bits)
    }

    /// Returns whether a fingerprint of the class meets the condition.
    #[inline(always)]
    pub(in crate::filters) fn any_of_class(
        &self,
        class: Class,
        mut is_met: impl FnMut(u64) -> bool,
    ) -> bool {
        let mask = self.table.spreading;
        let [a, b] = self.class_place(class).buckets;
        let mut found = |fp: u64| fp & mask == class.bits && is_met(fp);
        // A closure for both buckets is not always inlined: 32 instructions more per bucket.
        let slots = [self.table.fingerprints::<0>(a), self.table.fingerprints::<0>(b)];
        slots.as_flattened().iter().any(|fp| found(*fp))
            || self.stashed > 0
                && self.stash.as_chunks().0[..self.stashed]
                    .iter()
                    .any(|[left, fp]| *left == class.left && found(*fp))
    }

    /// Returns every fingerprint with its class.
    pub(in crate::filters) fn classes(&self) -> impl Iterator<Item = (Class, u64)> {
        let (half, mask) = (self.shape.buckets / 2, self.table.spreading);
        let slots = (0..2 * half).flat_map(move |bucket| {
            let fingerprints = self.table.fingerprints::<0>(bucket).into_iter();
            fingerprints.filter(|fp| *fp != 0).map(move |fp| {
                let left = if bucket < half { bucket } else { self.table.other(bucket, fp) };
                (left, fp)
            })
        });
        let stashed = self.stash.as_chunks().0[..self.stashed].iter();
        let entries = slots.chain(stashed.map(|[left, fp]| (*left, *fp)));
        entries.map(move |(left, fp)| (Class { left, bits: fp & mask }, fp))
    }

    pub(in crate::filters) fn fetch_class(&self, class: Class) {
        self.table.fetch::<0>(&self.class_place(class).buckets);
    }

    /// Inserts a fingerprint of the class.
    pub(in crate::filters) fn insert_into(&mut self, class: Class, fp: u64) -> Result<(), Full> {
        self.insert_place::<0>(&self.table.place_at(class.left, fp))
    }

    /// Removes a fingerprint of the class. Returns whether it was present.
    pub(in crate::filters) fn remove_from(&mut self, class: Class, fp: u64) -> bool {
        self.len > 0 && self.remove_place::<0>(&self.table.place_at(class.left, fp))
    }

    /// Replaces the fingerprints of the class, one after the other, by the values of `next`.
    pub(in crate::filters) fn replace_class(
        &mut self,
        class: Class,
        mut next: impl FnMut(u64) -> u64,
    ) {
        let mask = self.table.spreading;
        for bucket in self.class_place(class).buckets {
            for (slot, fp) in (0..).zip(self.table.fingerprints::<0>(bucket)) {
                if fp != 0 && fp & mask == class.bits {
                    self.table.set::<0>(bucket, slot, next(fp));
                }
            }
        }
        for [left, fp] in &mut self.stash.to_mut().as_chunks_mut().0[..self.stashed] {
            if *left == class.left && *fp & mask == class.bits {
                *fp = next(*fp);
            }
        }
    }
}
