//! The bits and marks of an adaptive Bloom filter.

use alloc::vec::Vec;

use tamis_bits::range::mix;
use tamis_bits::{Words, set};

use super::{AdaptiveBloomShape, Level, MAX_LEVELS};
use crate::error::{Error, Full};
use crate::filters::common::digests::{Digests, digest, mark};
use crate::filters::common::usize_words;
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;

/// Bits and marks of one epoch, which has its own hash functions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cells {
    pub(super) bits: Words,
    pub(super) marks: Digests,
    /// Bits of a Bloom filter of the keys that were inserted when all their bits were set: copies, and a few
    /// others.
    pub(super) copies: Words,
    /// The keys that were removed. Their bits are still set.
    pub(super) removed: Digests<2>,
    /// Epoch, ranges to renew, keys, dead cells, then insertions per level.
    pub(super) state: [u64; STATE_WORDS],
}

pub(super) const STATE_WORDS: usize = FIRST_LEVEL + MAX_LEVELS;
pub(super) const EPOCH: usize = 0;
pub(super) const CREDIT: usize = 1;
pub(super) const LEN: usize = 2;
pub(super) const DEAD: usize = 3;
pub(super) const FIRST_LEVEL: usize = 4;

/// The roles of marks. A key whose mark were that of a cell would deny the members of the cell.
const KEY: u64 = 0;
const CELL: u64 = 1;

/// The bits of `copies` that a key has.
const COPY_PROBES: usize = 4;
/// The number that stands for `copies` where others are the numbers of levels.
const COPIES_LEVEL: usize = MAX_LEVELS;

impl Cells {
    pub(super) fn new(shape: &AdaptiveBloomShape, epoch: u64) -> Result<Self, Error> {
        let bits = Words::zeroed(usize_words(shape.words())?)?;
        let mut state = [0; STATE_WORDS];
        state[EPOCH] = epoch;
        let copies = Words::zeroed(usize_words(shape.copies.div_ceil(64))?)?;
        let (marks, removed) = (Digests::new(shape.marks)?, Digests::new(0)?);
        Ok(Self { bits, marks, copies, removed, state })
    }

    /// Counts a key. A file may state any count up to the limit, from which no key leads further.
    pub(super) fn count(&mut self, index: usize) {
        self.state[index] = (self.state[index] + 1).min(MAX_KEYS);
    }

    /// Returns the hash of a key under the function of a level.
    #[inline(always)]
    fn hash(&self, level: usize, key: KeyHash) -> KeyHash {
        let function = mix(self.state[EPOCH] << 3 | level as u64);
        let (hi, lo) = (mix(key.lo ^ function), mix(key.lo.wrapping_add(function) ^ key.hi));
        KeyHash { hi, lo }
    }

    /// Returns the positions of a key's bits in a level.
    #[inline(always)]
    pub(super) fn places<'a>(
        &self,
        shape: &'a AdaptiveBloomShape,
        level: usize,
        key: KeyHash,
    ) -> impl Iterator<Item = u64> + use<'a> {
        let before: u64 = shape.levels[..level].iter().map(Level::all_bits).sum();
        let Level { segments, bits, .. } = shape.levels[level];
        let places = self.hash(level, key).probes(bits).take(segments as usize);
        (0..).zip(places).map(move |(segment, bit): (u64, u64)| before + segment * bits + bit)
    }

    fn contains_bits(&self, shape: &AdaptiveBloomShape, level: usize, key: KeyHash) -> bool {
        self.places(shape, level, key).all(|bit| set::get(&self.bits, bit))
    }

    /// Returns the mark of a dead cell.
    fn dead_mark(level: usize, cell: u64) -> [u64; 1] {
        mark(CELL, cell << 3 | level as u64)
    }

    /// Returns the mark of a key after the last level. Two keys may have the same, which denies neither.
    fn key_mark(key: KeyHash) -> [u64; 1] {
        mark(KEY, digest(key))
    }

    /// Returns what stands for a removed key. No two hashes have the same.
    fn removed_mark(key: KeyHash) -> [u64; 2] {
        [digest(key), key.lo]
    }

    fn copy_places(
        &self,
        shape: &AdaptiveBloomShape,
        key: KeyHash,
    ) -> impl Iterator<Item = u64> + use<> {
        self.hash(COPIES_LEVEL, key).probes(shape.copies).take(COPY_PROBES)
    }

    /// Returns whether a key may have been inserted twice.
    fn may_have_copies(&self, shape: &AdaptiveBloomShape, key: KeyHash) -> bool {
        self.copy_places(shape, key).all(|bit| set::get(&self.copies, bit))
    }

    fn is_dead(&self, shape: &AdaptiveBloomShape, level: usize, key: KeyHash) -> bool {
        self.marks.contains(Self::dead_mark(level, shape.levels[level].cell(key)))
    }

    /// Returns the level that accepts a key, `depth` for the marks of keys; `None` if no level
    /// does.
    #[inline(always)]
    pub(super) fn accepting_level(
        &self,
        shape: &AdaptiveBloomShape,
        key: KeyHash,
    ) -> Option<usize> {
        if self.contains_bits(shape, 0, key) {
            self.accepting_level_after_first(shape, key)
        } else {
            None
        }
    }

    /// Returns the same as [`Self::accepting_level`], for a key whose bits of level 0 are set.
    fn accepting_level_after_first(
        &self,
        shape: &AdaptiveBloomShape,
        key: KeyHash,
    ) -> Option<usize> {
        if self.removed.contains(Self::removed_mark(key)) {
            return None;
        }
        for level in 0..shape.depth {
            if level > 0 && !self.contains_bits(shape, level, key) {
                return None;
            }
            if !self.is_dead(shape, level, key) {
                return Some(level);
            }
        }
        self.marks.contains(Self::key_mark(key)).then_some(shape.depth)
    }

    /// Inserts a key.
    ///
    /// # Errors
    /// [`Full`] only if memory for more marks cannot be allocated; then nothing has changed.
    pub(super) fn insert(&mut self, shape: &AdaptiveBloomShape, key: KeyHash) -> Result<(), Full> {
        self.marks.reserve(1)?;
        let returns = self.removed.remove(Self::removed_mark(key));
        // The bits of a key that returns are set, unless its cell died meanwhile.
        if !returns || self.accepting_level(shape, key).is_none() {
            let was_set = self.insert_from(shape, 0, key)?;
            if was_set && !returns {
                let places = self.copy_places(shape, key);
                let copies = self.copies.to_mut();
                places.for_each(|bit| set::set(copies, bit));
            }
        }
        self.count(LEN);
        Ok(())
    }

    /// Removes a key that it accepts, and returns whether it does. A key that may have copies stays accepted, like
    /// a false positive.
    pub(super) fn remove(&mut self, shape: &AdaptiveBloomShape, key: KeyHash) -> bool {
        if self.accepting_level(shape, key).is_none() {
            return false;
        }
        let mark = Self::removed_mark(key);
        // The table of digests does not distinguish 0 and 1. Without memory the key stays too.
        if mark[0] > 1 && !self.may_have_copies(shape, key) {
            let _ = self.removed.insert(mark);
        }
        self.state[LEN] = self.state[LEN].saturating_sub(1);
        if self.state[LEN] == 0 {
            self.clear();
        }
        true
    }

    /// Forgets everything except the epoch, if as much was inserted as there is to clear.
    fn clear(&mut self) {
        if self.state[FIRST_LEVEL] >= self.bits.len() as u64 / 64 {
            self.bits.to_mut().fill(0);
            self.copies.to_mut().fill(0);
            self.marks.clear();
            self.removed.clear();
            self.state[DEAD..].fill(0);
        }
    }

    /// Returns the number of removed keys whose bits are still set; more if copies were removed.
    pub(super) fn stale(&self) -> u64 {
        self.state[FIRST_LEVEL].saturating_sub(self.state[LEN])
    }

    /// Inserts a key into a level, and into the following ones while its cell is dead. Returns whether all its
    /// bits in the first of them were set.
    ///
    /// # Errors
    /// [`Full`] only if memory for more marks cannot be allocated; then nothing has changed.
    fn insert_from(
        &mut self,
        shape: &AdaptiveBloomShape,
        first: usize,
        key: KeyHash,
    ) -> Result<bool, Full> {
        self.marks.reserve(1)?;
        let mut was_set = true;
        for level in first..shape.depth {
            let places = self.places(shape, level, key);
            let (bits, is_later) = (self.bits.to_mut(), level > first);
            for bit in places {
                was_set &= is_later | set::get(bits, bit);
                set::set(bits, bit);
            }
            self.count(FIRST_LEVEL + level);
            if !self.is_dead(shape, level, key) {
                return Ok(was_set);
            }
        }
        self.marks.insert(Self::key_mark(key))?;
        Ok(was_set)
    }

    /// Makes the cell of `stranger` dead in a level and inserts its members into the next level.
    pub(super) fn declare_dead(
        &mut self,
        shape: &AdaptiveBloomShape,
        level: usize,
        stranger: KeyHash,
        members: &[KeyHash],
    ) -> Result<(), Full> {
        let of = shape.levels[level];
        let cell = of.cell(stranger);
        let here = |key: &&KeyHash| {
            of.cell(**key) == cell && (0..level).all(|above| self.is_dead(shape, above, **key))
        };
        let moved: Vec<KeyHash> = members.iter().filter(here).copied().collect();
        let room = match shape.levels().get(level + 1) {
            Some(next) => self.state[FIRST_LEVEL + level + 1] + moved.len() as u64 <= next.keys,
            None => true,
        };
        if !room || self.state[DEAD] >= shape.repairs {
            return Err(Full::NONE);
        }
        self.marks.reserve(1 + moved.len() as u64)?;
        self.marks.insert(Self::dead_mark(level, cell))?;
        self.state[DEAD] += 1;
        moved.iter().try_for_each(|key| self.insert_from(shape, level + 1, *key).map(drop))
    }
}
