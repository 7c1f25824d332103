//! The buckets of a cuckoo filter, and how room is made in them.

use tamis_bits::lanes::{self, Lanes};
use tamis_bits::{Words, packed, prefetch, range, set};

use super::{CuckooShape, SLOTS};
use crate::error::Error;
use crate::filters::common::usize_words;
use crate::hash::KeyHash;

/// No slot is free.
const NONE: u32 = 64;

/// Buckets of four fingerprints, side by side.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    buckets: u64,
    width: u32,
    words: Words,
}

/// Where a key may be: its fingerprint and two buckets.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) print: u64,
    pub(super) buckets: [u64; 2],
}

/// 64 bits of a fingerprint's own, of which the high ones choose places.
///
/// The product alone would grow evenly with the fingerprint and make the buckets that lead to
/// each other a lattice, on which there are few ways to a free slot.
#[inline(always)]
pub(in crate::filters) fn spread(print: u64) -> u64 {
    let x = print.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x.rotate_left(32)
}

impl Table {
    /// An empty one.
    pub(super) fn new(shape: &CuckooShape) -> Result<Self, Error> {
        Ok(Self::of(shape, Words::zeroed(usize_words(shape.words())?)?))
    }

    pub(super) fn of(shape: &CuckooShape, words: Words) -> Self {
        Self { buckets: shape.buckets, width: shape.width, words }
    }

    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    #[inline(always)]
    fn width<const F: u32>(&self) -> u32 {
        if F == 0 { self.width } else { F }
    }

    /// How to handle a bucket at once, where a word holds one.
    #[inline(always)]
    fn lanes<const F: u32>(&self) -> Option<Lanes> {
        let width = self.width::<F>();
        (width <= lanes::WIDEST).then(|| Lanes::new(width))
    }

    #[inline(always)]
    pub(super) fn place<const F: u32>(&self, key: KeyHash) -> Place {
        let print = range::scale(key.lo, packed::mask(self.width::<F>())) + 1;
        self.place_at(range::scale(key.hi, self.buckets / 2), print)
    }

    /// The fingerprint with its left bucket and, so many buckets on, its right one.
    #[inline(always)]
    pub(super) fn place_at(&self, left: u64, print: u64) -> Place {
        let half = self.buckets / 2;
        let sum = left + range::scale(spread(print), half);
        Place { print, buckets: [left, if sum < half { sum + half } else { sum }] }
    }

    /// The other bucket of a fingerprint in `bucket`.
    #[inline(always)]
    pub(super) fn other(&self, bucket: u64, print: u64) -> u64 {
        let half = self.buckets / 2;
        let by = range::scale(spread(print), half);
        if bucket < half {
            let on = bucket + by;
            return if on < half { on + half } else { on };
        }
        let back = bucket - by;
        if back < half { back } else { back - half }
    }

    /// Where the bucket begins.
    #[inline(always)]
    fn bit<const F: u32>(&self, bucket: u64) -> u64 {
        bucket * SLOTS * u64::from(self.width::<F>())
    }

    /// The bucket as a word, where that holds one.
    #[inline(always)]
    fn window<const F: u32>(&self, bucket: u64) -> u64 {
        if F > 0 {
            return lanes::word_at(&self.words, bucket * (SLOTS * u64::from(F) / 8));
        }
        lanes::window(&self.words, self.bit::<F>(bucket))
    }

    /// The fingerprints of a bucket.
    #[inline(always)]
    fn prints<const F: u32>(&self, bucket: u64) -> [u64; SLOTS as usize] {
        let width = self.width::<F>();
        if width > lanes::WIDEST {
            return self.wide_prints(bucket);
        }
        let all = self.window::<F>(bucket);
        [0, 1, 2, 3].map(|slot| all >> (slot * width) & packed::mask(width))
    }

    #[cold]
    fn wide_prints(&self, bucket: u64) -> [u64; SLOTS as usize] {
        let slot = |slot| packed::get(&self.words, self.width, bucket * SLOTS + slot);
        [slot(0), slot(1), slot(2), slot(3)]
    }

    #[inline(always)]
    fn set<const F: u32>(&mut self, bucket: u64, slot: u64, print: u64) {
        let (bit, width) = (self.bit::<F>(bucket), self.width::<F>());
        let table = self.words.to_mut();
        if width > lanes::WIDEST {
            return packed::set(table, width, bucket * SLOTS + slot, print);
        }
        let shift = slot as u32 * width;
        lanes::set_window(table, bit, packed::mask(width) << shift, print << shift);
    }

    /// Returns how often the fingerprint is in its two buckets.
    pub(super) fn count<const F: u32>(&self, place: &Place) -> u64 {
        let prints = place.buckets.map(|bucket| self.prints::<F>(bucket));
        prints.as_flattened().iter().filter(|print| **print == place.print).count() as u64
    }

    /// Whether the fingerprint is in one of its buckets.
    #[inline(always)]
    pub(super) fn has<const F: u32>(&self, place: &Place) -> bool {
        let [a, b] = place.buckets;
        match self.lanes::<F>() {
            // Both at once: a branch between them would be guessed wrong half of the time.
            Some(lanes) => {
                let [a, b] = [a, b].map(|bucket| self.window::<F>(bucket));
                lanes.find(a, place.print) | lanes.find(b, place.print) != 0
            }
            None => [a, b].iter().any(|bucket| self.wide_prints(*bucket).contains(&place.print)),
        }
    }

    /// A mark of the bucket's first free slot, the smaller the emptier it is; [`NONE`] if it is
    /// full. In a bucket that is handled at once it is the place of the slot's top bit.
    #[inline(always)]
    fn free<const F: u32>(&self, bucket: u64) -> u32 {
        match self.lanes::<F>() {
            Some(lanes) => lanes.find(self.window::<F>(bucket), 0).trailing_zeros(),
            None => {
                let slot = self.wide_prints(bucket).iter().position(|print| *print == 0);
                slot.map_or(NONE, |slot| slot as u32)
            }
        }
    }

    /// Puts a fingerprint into the free slot that `mark` stands for.
    #[inline(always)]
    fn fill<const F: u32>(&mut self, bucket: u64, mark: u32, print: u64) {
        let (bit, width) = (self.bit::<F>(bucket), self.width::<F>());
        let table = self.words.to_mut();
        if width > lanes::WIDEST {
            return packed::set(table, width, bucket * SLOTS + u64::from(mark), print);
        }
        lanes::set_window(table, bit, 0, print << (mark + 1 - width));
    }

    #[inline(always)]
    pub(super) fn fetch<const F: u32>(&self, buckets: &[u64]) {
        for bucket in buckets {
            prefetch(&self.words, (self.bit::<F>(*bucket) / 64) as usize);
        }
    }

    /// If both buckets are full, asks for those that their fingerprints could go to.
    #[inline(always)]
    pub(super) fn fetch_others<const F: u32>(&self, place: &Place) {
        if place.buckets.iter().all(|bucket| self.free::<F>(*bucket) == NONE) {
            for bucket in place.buckets {
                self.fetch::<F>(&self.others::<F>(bucket));
            }
        }
    }

    /// Where the fingerprints of a bucket could go.
    #[inline(always)]
    fn others<const F: u32>(&self, bucket: u64) -> [u64; SLOTS as usize] {
        self.prints::<F>(bucket).map(|print| self.other(bucket, print))
    }

    /// Puts a fingerprint into the emptier of its buckets, or makes room in one of them.
    #[inline(always)]
    pub(super) fn put<const F: u32>(&mut self, place: &Place) -> bool {
        let [a, b] = place.buckets;
        let (free_a, free_b) = (self.free::<F>(a), self.free::<F>(b));
        let (bucket, mark) = if free_a <= free_b { (a, free_a) } else { (b, free_b) };
        if mark == NONE {
            return self.make_room::<F>(place);
        }
        self.fill::<F>(bucket, mark, place.print);
        true
    }

    /// First among the nearest 40 buckets, which mostly is enough, then among some hundreds.
    #[inline(never)]
    fn make_room<const F: u32>(&mut self, place: &Place) -> bool {
        self.shift::<F, { nodes(3) }>(place) || self.shift::<F, { nodes(5) }>(place)
    }

    /// Looks for the nearest bucket with a free slot, breadth first, and moves fingerprints along
    /// the way there, from its end back. The key's own buckets are full.
    ///
    /// ```text
    ///  level 0      0           1          the key's own buckets
    ///  level 1   2 3 4 5     6 7 8 9       where the fingerprints in their four slots could go
    ///  level 2   10 11 …                   node i came from slot (i - 2) % 4 of node (i - 2) / 4
    /// ```
    ///
    /// A bucket that the way meets twice would have been left by a shorter way the first time, so
    /// the moves do not get into each other's way.
    fn shift<const F: u32, const NODES: usize>(&mut self, place: &Place) -> bool {
        let mut queue = [0u64; NODES];
        queue[..2].copy_from_slice(&place.buckets);
        for from in 0..(NODES - 2) / 4 {
            let next = self.others::<F>(queue[from]);
            self.fetch::<F>(&next);
            for (at, bucket) in next.into_iter().enumerate() {
                let node = from * 4 + 2 + at;
                queue[node] = bucket;
                let mark = self.free::<F>(bucket);
                if mark != NONE {
                    self.pull::<F>(place.print, &queue, node, mark);
                    return true;
                }
            }
        }
        false
    }

    /// Moves fingerprints along the way to `last`, which has a free slot, and puts `print` where
    /// the first of them was.
    fn pull<const F: u32>(&mut self, print: u64, queue: &[u64], last: usize, mark: u32) {
        let came = |node: usize| ((node - 2) / 4, (node - 2) % 4);
        let (mut node, mut slot) = came(last);
        self.fill::<F>(queue[last], mark, self.prints::<F>(queue[node])[slot]);
        while node >= 2 {
            let (from, at) = came(node);
            self.set::<F>(queue[node], slot as u64, self.prints::<F>(queue[from])[at]);
            (node, slot) = (from, at);
        }
        self.set::<F>(queue[node], slot as u64, print);
    }

    /// Takes a fingerprint out, if it is there; its bucket's last one moves to its slot, so that the
    /// free ones come last.
    pub(super) fn take<const F: u32>(&mut self, place: &Place) -> bool {
        for bucket in place.buckets {
            let prints = self.prints::<F>(bucket);
            if let Some(slot) = prints.iter().position(|print| *print == place.print) {
                let last = prints.iter().rposition(|print| *print != 0).unwrap_or(0);
                self.set::<F>(bucket, slot as u64, prints[last]);
                self.set::<F>(bucket, last as u64, 0);
                return true;
            }
        }
        false
    }

    /// How many fingerprints there are, or what is wrong with the table.
    pub(super) fn check(&self) -> Result<u64, &'static str> {
        if !set::ends_at(&self.words, self.buckets * SLOTS * u64::from(self.width)) {
            return Err("bits are set past the end");
        }
        let mut len = 0;
        for bucket in 0..self.buckets {
            let prints = self.prints::<0>(bucket);
            if !prints.is_sorted_by_key(|print| *print == 0) {
                return Err("a bucket has a gap");
            }
            len += prints.iter().filter(|print| **print != 0).count() as u64;
        }
        Ok(len)
    }
}

/// Nodes of a search that deep.
const fn nodes(levels: u32) -> usize {
    2 * (4usize.pow(levels) - 1) / 3
}
