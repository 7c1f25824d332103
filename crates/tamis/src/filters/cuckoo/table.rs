//! The buckets of a cuckoo filter, and the search that makes room in them.

use tamis_bits::lanes::{self, Lanes};
use tamis_bits::{Words, packed, prefetch, range, set};

use super::{CuckooShape, SLOTS, sorted};
use crate::error::Error;
use crate::filters::common::usize_words;
use crate::hash::KeyHash;

/// The value of [`Table::free_slot`] for a full bucket.
const NONE: u32 = 64;

/// Buckets of four fingerprints, side by side.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    buckets: u64,
    width: u32,
    /// Whether buckets are semi-sorted: then every `F` is 0.
    sorted: bool,
    /// The bits of a fingerprint that select its other bucket: all, except in `adaptive_cuckoo`.
    pub(super) spreading: u64,
    words: Words,
}

/// The place of a key: its fingerprint and its two buckets.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) fingerprint: u64,
    pub(super) buckets: [u64; 2],
}

/// Mixes a fingerprint to 64 bits, of which the high ones choose buckets.
///
/// The product alone would be linear in the fingerprint, and the buckets that lead to each other
/// would form a lattice with few paths to a free slot.
#[inline(always)]
pub(in crate::filters) fn spread(fp: u64) -> u64 {
    let x = fp.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x.rotate_left(32)
}

impl Table {
    /// Creates an empty table.
    pub(super) fn new(shape: &CuckooShape) -> Result<Self, Error> {
        Ok(Self::from_words(shape, Words::zeroed(usize_words(shape.words())?)?))
    }

    pub(super) fn from_words(shape: &CuckooShape, words: Words) -> Self {
        let CuckooShape { buckets, width, sorted, .. } = *shape;
        Self { buckets, width, sorted, spreading: u64::MAX, words }
    }

    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    /// Returns whether a bucket is read as a word, and all bits of a fingerprint select its other bucket.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_wide::<0>() && self.spreading == u64::MAX
    }

    #[inline(always)]
    fn width<const F: u32>(&self) -> u32 {
        if F == 0 { self.width } else { F }
    }

    /// Returns the lanes of a bucket, if a word holds the whole bucket.
    #[inline(always)]
    fn lanes<const F: u32>(&self) -> Option<Lanes> {
        (!self.is_wide::<F>()).then(|| Lanes::new(self.width::<F>()))
    }

    /// Returns whether a bucket is not read as a word: it is larger, or semi-sorted.
    #[inline(always)]
    fn is_wide<const F: u32>(&self) -> bool {
        self.width::<F>() > lanes::WIDEST || F == 0 && self.sorted
    }

    #[inline(always)]
    pub(super) fn place<const F: u32>(&self, key: KeyHash) -> Place {
        let fp = range::scale(key.lo, packed::mask(self.width::<F>())) + 1;
        self.place_at(range::scale(key.hi, self.buckets / 2), fp)
    }

    /// Returns the place of a fingerprint with its left bucket.
    #[inline(always)]
    pub(super) fn place_at(&self, left: u64, fp: u64) -> Place {
        let half = self.buckets / 2;
        let sum = left + range::scale(spread(fp & self.spreading), half);
        Place { fingerprint: fp, buckets: [left, if sum < half { sum + half } else { sum }] }
    }

    /// Returns the other bucket of a fingerprint in `bucket`.
    #[inline(always)]
    pub(super) fn other(&self, bucket: u64, fp: u64) -> u64 {
        let half = self.buckets / 2;
        let by = range::scale(spread(fp & self.spreading), half);
        if bucket < half {
            let on = bucket + by;
            return if on < half { on + half } else { on };
        }
        let back = bucket - by;
        if back < half { back } else { back - half }
    }

    /// Returns the first bit of a bucket.
    #[inline(always)]
    fn bit<const F: u32>(&self, bucket: u64) -> u64 {
        if F == 0 && self.sorted {
            return bucket * u64::from(sorted::bits(self.width));
        }
        bucket * SLOTS * u64::from(self.width::<F>())
    }

    /// Returns the bucket as a word, if a word holds it. A bucket of an even width begins at a byte.
    #[inline(always)]
    fn window<const F: u32>(&self, bucket: u64) -> u64 {
        if F > 0 && F.is_multiple_of(2) {
            return lanes::word_at(&self.words, bucket * (SLOTS * u64::from(F) / 8));
        }
        lanes::window(&self.words, self.bit::<F>(bucket))
    }

    /// Returns the fingerprints of a bucket.
    #[inline(always)]
    pub(super) fn fingerprints<const F: u32>(&self, bucket: u64) -> [u64; SLOTS as usize] {
        let width = self.width::<F>();
        if self.is_wide::<F>() {
            return self.wide_fingerprints(bucket);
        }
        let all = self.window::<F>(bucket);
        [0, 1, 2, 3].map(|slot| all >> (slot * width) & packed::mask(width))
    }

    #[cold]
    fn wide_fingerprints(&self, bucket: u64) -> [u64; SLOTS as usize] {
        if self.sorted {
            let bits = sorted::bits(self.width);
            return sorted::decode(self.width, packed::get(&self.words, bits, bucket));
        }
        let slot = |slot| packed::get(&self.words, self.width, bucket * SLOTS + slot);
        [slot(0), slot(1), slot(2), slot(3)]
    }

    /// Writes a fingerprint to a slot of a bucket that is not read as a word. A semi-sorted bucket is then
    /// sorted again, so that its slots change places.
    #[cold]
    fn set_wide(&mut self, bucket: u64, slot: u64, fp: u64) {
        let width = self.width;
        if !self.sorted {
            return packed::set(self.words.to_mut(), width, bucket * SLOTS + slot, fp);
        }
        let mut fingerprints = self.wide_fingerprints(bucket);
        fingerprints[slot as usize % SLOTS as usize] = fp;
        let code = sorted::encode(width, fingerprints);
        packed::set(self.words.to_mut(), sorted::bits(width), bucket, code);
    }

    #[inline(always)]
    pub(super) fn set<const F: u32>(&mut self, bucket: u64, slot: u64, fp: u64) {
        if self.is_wide::<F>() {
            return self.set_wide(bucket, slot, fp);
        }
        let (bit, width) = (self.bit::<F>(bucket), self.width::<F>());
        let table = self.words.to_mut();
        let shift = slot as u32 * width;
        lanes::set_window(table, bit, packed::mask(width) << shift, fp << shift);
    }

    /// Returns the number of copies of the fingerprint in its two buckets.
    pub(super) fn count<const F: u32>(&self, place: &Place) -> u64 {
        let fingerprints = place.buckets.map(|bucket| self.fingerprints::<F>(bucket));
        fingerprints.as_flattened().iter().filter(|fp| **fp == place.fingerprint).count() as u64
    }

    /// Returns whether a bucket holds the fingerprint.
    pub(super) fn holds(&self, bucket: u64, fp: u64) -> bool {
        self.fingerprints::<0>(bucket).contains(&fp)
    }

    /// Returns whether the fingerprint is in one of its buckets.
    #[inline(always)]
    pub(super) fn contains<const F: u32>(&self, place: &Place) -> bool {
        let [a, b] = place.buckets;
        match self.lanes::<F>() {
            Some(lanes) => {
                let [a, b] = [a, b].map(|bucket| self.window::<F>(bucket));
                lanes.in_either(a, b, place.fingerprint)
            }
            None => [a, b]
                .iter()
                .any(|bucket| self.wide_fingerprints(*bucket).contains(&place.fingerprint)),
        }
    }

    /// Returns a mark of the bucket's first free slot, which is smaller the emptier the bucket is;
    /// [`NONE`] if it is full. In a bucket that fits into a word the mark is the position of the
    /// slot's top bit.
    #[inline(always)]
    fn free_slot<const F: u32>(&self, bucket: u64) -> u32 {
        match self.lanes::<F>() {
            Some(lanes) => lanes.find(self.window::<F>(bucket), 0).trailing_zeros(),
            None => {
                // The used slots come first, or last in a semi-sorted bucket.
                let used = self.wide_fingerprints(bucket).iter().filter(|fp| **fp != 0).count();
                if used == SLOTS as usize { NONE } else { used as u32 }
            }
        }
    }

    /// Writes a fingerprint to the free slot with mark `mark`.
    #[inline(always)]
    fn fill_slot<const F: u32>(&mut self, bucket: u64, mark: u32, fp: u64) {
        if self.is_wide::<F>() {
            return self.set_wide(bucket, if self.sorted { 0 } else { mark.into() }, fp);
        }
        let (bit, width) = (self.bit::<F>(bucket), self.width::<F>());
        let table = self.words.to_mut();
        lanes::set_window(table, bit, 0, fp << (mark + 1 - width));
    }

    #[inline(always)]
    pub(super) fn fetch<const F: u32>(&self, buckets: &[u64]) {
        for bucket in buckets {
            prefetch(&self.words, (self.bit::<F>(*bucket) / 64) as usize);
        }
    }

    /// Prefetches the buckets that the fingerprints could move to, if both buckets are full.
    #[inline(always)]
    pub(super) fn fetch_others<const F: u32>(&self, place: &Place) {
        if place.buckets.iter().all(|bucket| self.free_slot::<F>(*bucket) == NONE) {
            for bucket in place.buckets {
                self.fetch::<F>(&self.others::<F>(bucket));
            }
        }
    }

    /// Returns the other buckets of the fingerprints in a bucket.
    #[inline(always)]
    fn others<const F: u32>(&self, bucket: u64) -> [u64; SLOTS as usize] {
        self.fingerprints::<F>(bucket).map(|fp| self.other(bucket, fp))
    }

    /// Inserts a fingerprint into the emptier of its buckets, or makes room in one of them. Returns
    /// `false` if there is no room.
    #[inline(always)]
    pub(super) fn insert<const F: u32>(&mut self, place: &Place) -> bool {
        let [a, b] = place.buckets;
        let (free_a, free_b) = (self.free_slot::<F>(a), self.free_slot::<F>(b));
        let (bucket, mark) = if free_a <= free_b { (a, free_a) } else { (b, free_b) };
        if mark == NONE {
            return self.make_room::<F>(place);
        }
        self.fill_slot::<F>(bucket, mark, place.fingerprint);
        true
    }

    /// Searches the nearest 40 buckets, which is usually enough, then some hundreds.
    #[inline(never)]
    fn make_room<const F: u32>(&mut self, place: &Place) -> bool {
        self.search::<F, { nodes(3) }>(place) || self.search::<F, { nodes(5) }>(place)
    }

    /// Searches breadth first for the nearest bucket with a free slot, and moves fingerprints along
    /// the path to it, from its end back. The key's own buckets must be full.
    ///
    /// ```text
    ///  level 0      0           1          the key's own buckets
    ///  level 1   2 3 4 5     6 7 8 9       the other buckets of the fingerprints in their four slots
    ///  level 2   10 11 …                   node i came from slot (i - 2) % 4 of node (i - 2) / 4
    /// ```
    ///
    /// If the path met a bucket twice, a shorter path would leave it the first time. So the moves
    /// do not interfere.
    fn search<const F: u32, const NODES: usize>(&mut self, place: &Place) -> bool {
        let mut queue = [0u64; NODES];
        queue[..2].copy_from_slice(&place.buckets);
        for from in 0..(NODES - 2) / 4 {
            let next = self.others::<F>(queue[from]);
            self.fetch::<F>(&next);
            for (at, bucket) in next.into_iter().enumerate() {
                let node = from * 4 + 2 + at;
                queue[node] = bucket;
                let mark = self.free_slot::<F>(bucket);
                if mark != NONE {
                    self.move_along::<F>(place.fingerprint, &queue, node, mark);
                    return true;
                }
            }
        }
        false
    }

    /// Moves fingerprints along the path to `last`, which has a free slot, and writes `fp` to the
    /// slot of the first one.
    fn move_along<const F: u32>(&mut self, fp: u64, queue: &[u64], last: usize, mark: u32) {
        let source = |node: usize| ((node - 2) / 4, (node - 2) % 4);
        let (mut node, mut slot) = source(last);
        self.fill_slot::<F>(queue[last], mark, self.fingerprints::<F>(queue[node])[slot]);
        while node >= 2 {
            let (from, at) = source(node);
            self.set::<F>(queue[node], slot as u64, self.fingerprints::<F>(queue[from])[at]);
            (node, slot) = (from, at);
        }
        self.set::<F>(queue[node], slot as u64, fp);
    }

    /// Removes a fingerprint, if present. The last fingerprint of the bucket moves to its slot, so
    /// that free slots come last.
    pub(super) fn remove<const F: u32>(&mut self, place: &Place) -> bool {
        for bucket in place.buckets {
            let fingerprints = self.fingerprints::<F>(bucket);
            if let Some(slot) = fingerprints.iter().position(|fp| *fp == place.fingerprint) {
                if F == 0 && self.sorted {
                    self.set_wide(bucket, slot as u64, 0);
                    return true;
                }
                let last = fingerprints.iter().rposition(|fp| *fp != 0).unwrap_or(0);
                self.set::<F>(bucket, slot as u64, fingerprints[last]);
                self.set::<F>(bucket, last as u64, 0);
                return true;
            }
        }
        false
    }

    /// Returns the number of fingerprints, or a description of what is invalid.
    pub(super) fn check(&self) -> Result<u64, &'static str> {
        if !set::ends_at(&self.words, self.bit::<0>(self.buckets)) {
            return Err("bits are set past the end");
        }
        let mut len = 0;
        for bucket in 0..self.buckets {
            let fingerprints = self.fingerprints::<0>(bucket);
            let sound = match self.sorted {
                // What is sorted has one code.
                true => {
                    let bits = sorted::bits(self.width);
                    let code = packed::get(&self.words, bits, bucket);
                    sorted::encode(self.width, fingerprints) == code
                }
                false => fingerprints.is_sorted_by_key(|fp| *fp == 0),
            };
            if !sound {
                return Err("a bucket has a gap or is not sorted");
            }
            len += fingerprints.iter().filter(|fp| **fp != 0).count() as u64;
        }
        Ok(len)
    }
}

/// Returns the number of nodes of a search of `levels` levels.
const fn nodes(levels: u32) -> usize {
    2 * (4usize.pow(levels) - 1) / 3
}
