//! The adaptive Bloom filter: a Bloom filter, and a second one for the keys of the ranges where a
//! false positive was reported.
//!
//! ```text
//!  hi        0 ────┬────┬────┬────┬────── 2^64       as many index cells as keys
//!                    dead ▲
//!  level 0   | segment 1 | … | segment k |           all keys
//!  level 1   | segment 1 | …     | segment 2k |      keys of dead index cells, at fpr^2
//!  …
//!  marks     dead index cells; 64-bit hashes of the keys in dead cells of the last level
//! ```
//!
//! A key sets one bit in each segment of level 0. A lookup that finds all its bits set returns
//! true, unless the key's index cell is dead: then the next level decides, and after the last level
//! the marks of keys, which are exact. A false positive makes its index cell dead in the level that
//! accepted it, and the members of that cell, one on average, are inserted into the next level too.
//! Index cells are ranges of hashes.
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | 1.44 log2(1/fpr) for the keys, and about 200 fpr for the repairs: 12.3 at 2^-8, 14.6 at 0.1 % |
//! | cache lines | as a Bloom filter; one more where all bits are set |
//! | building | sets k bits per key; cannot fail |
//! | levels | as many as the repairs need: one and then the marks of keys at 2^-8, two at 2^-5 |
//!
//! It has room for fpr times as many repairs as keys, which is the paper's choice. When half of the
//! repairs are used, it is renewed: a second filter with other hash functions is built, one range of members for each false positive,
//! and replaces the first. During a renewal it takes twice the memory. Keys cannot be removed. A
//! key that the store has deleted is a false positive like others, and is repaired like them; a
//! renewal drops it.
//!
//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, *Bloom Filters, Adaptivity, and the
//! Dictionary Problem*, 2018, section 5. Differences: in the paper one of the bits that the false
//! positive found set becomes dead, in an array that all hash functions share. A member that
//! reaches a dead bit by another function than the repaired one is then looked up in a level where
//! it was never inserted: a false negative. Here each function has a segment, and the dead cells
//! are in a segment of their own without bits. Its order is that of the hashes, so the members of a
//! cell are a range, and the cell gives no information about a false positive that is queried again
//! after a renewal. New keys with a dead cell are inserted into the next level too, which the paper
//! does not mention.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use tamis_bits::range::{mix, scale};
use tamis_bits::{Words, prefetch, set};
use tamis_format::{Name, Reader, Writer};

use super::common::digests::Digests;
use super::common::{build_by_inserting, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::{MAX_BYTES, MAX_KEYS};
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Adapt, Build, Filter, Insert, Persist, Repair};

const BITS: Name = Name::new("bits");
const MARKS: Name = Name::new("marks");
const STATE: Name = Name::new("state");
const MAX_LEVELS: usize = 7;
const MAX_SEGMENTS: u32 = 128;
/// Number of keys that are prefetched ahead of the one being processed.
const BATCH: usize = 8;

/// A level: `segments` segments of `bits` bits, for `keys` keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Level {
    segments: u32,
    bits: u64,
    keys: u64,
}

impl Level {
    /// Returns the level with the fewest bits that has the rate `fpr`.
    fn fit(keys: u64, fpr: f64) -> Self {
        let segments = (-fpr.log2()).round().clamp(1.0, 100.0) as u32;
        // fpr = (1 - (1 - 1/bits)^keys)^segments, solved for the bits.
        let set = fpr.powf(1.0 / f64::from(segments));
        let share = -((-set).ln_1p() / keys.max(1) as f64).exp_m1();
        let bits = (1.0 / share).ceil().clamp(1.0, MAX_BYTES as f64) as u64;
        Self { segments, bits, keys }
    }

    fn all_bits(&self) -> u64 {
        u64::from(self.segments) * self.bits
    }

    /// Returns the number of index cells: as many as keys.
    fn cells(&self) -> u64 {
        self.keys.max(1)
    }

    fn cell(&self, key: KeyHash) -> u64 {
        scale(key.hi, self.cells())
    }
}

/// The size of an adaptive Bloom filter: levels, planned repairs and slots for marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveBloomShape {
    keys: u64,
    repairs: u64,
    marks: u64,
    depth: usize,
    levels: [Level; MAX_LEVELS],
}

impl AdaptiveBloomShape {
    /// Returns a shape for `keys` keys at the rate `fpr` that supports `repairs` repairs before it
    /// is renewed. The default is the paper's choice, `keys` times `fpr`.
    ///
    /// # Errors
    /// [`Error::Limit`] or [`Error::Fpr`] if a parameter is out of range, [`Error::Infeasible`] if
    /// the filter would be too large.
    pub fn for_repairs(keys: u64, fpr: f64, repairs: u64) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        crate::shape::check_fpr(fpr)?;
        crate::shape::check_keys(repairs)?;
        let repairs = repairs.max(8);
        let mut levels = [Level::default(); MAX_LEVELS];
        levels[0] = Level::fit(keys, fpr);
        // A repair moves one key on average.
        let moved = |repairs: f64| (repairs + 4.0 * repairs.sqrt()).ceil() + 8.0;
        let (mut depth, mut rate, mut down) = (1, fpr, moved(repairs as f64));
        // As in the paper: levels until few keys are left, then marks, at the cost of an index.
        let few = keys as f64 / (3.0 * (keys as f64).max(4.0).log2());
        while down > few.max(64.0) && depth < MAX_LEVELS {
            rate *= rate;
            levels[depth] = Level::fit(down as u64, rate);
            // In the worst case all queries are false positives of the level above.
            down = moved(repairs as f64 / fpr * rate);
            depth += 1;
        }
        // One mark per dead cell and per key after the last level.
        let marks = 8 + ((repairs as f64 + down) / 0.66).ceil() as u64;
        let shape = Self { keys, repairs, marks, depth, levels };
        if shape.is_small_enough() {
            Ok(shape)
        } else {
            Err(Error::Infeasible { why: "the filter would have too many bits" })
        }
    }

    fn is_small_enough(&self) -> bool {
        let bits = |level: &Level| u128::from(level.segments) * u128::from(level.bits);
        self.levels().iter().map(bits).sum::<u128>() <= u128::from(MAX_BYTES) * 8
    }

    fn levels(&self) -> &[Level] {
        &self.levels[..self.depth]
    }

    fn bits(&self) -> u64 {
        self.levels().iter().map(Level::all_bits).sum()
    }

    fn words(&self) -> u64 {
        self.bits().div_ceil(64)
    }

    /// Returns the number of levels before the marks of keys.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the number of ranges in which the filter is renewed: one for each false positive, so
    /// that the renewal is complete when three quarters of the repairs are used.
    fn pieces(&self) -> u64 {
        (self.repairs / 4).max(1)
    }
}

impl Shape for AdaptiveBloomShape {
    // The room for repairs grows with the rate.
    const IS_MONOTONE: bool = false;

    fn fit_with(keys: u64, fpr: f64, _: &Settings) -> Result<Self, Error> {
        crate::shape::check_fpr(fpr)?;
        Self::for_repairs(keys, fpr, (keys as f64 * fpr) as u64)
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("levels", (self.depth as u64).into()), ("repairs", self.repairs.into())].into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: (tamis_bits::lines(self.words()) + tamis_bits::lines(self.marks)) * 64,
            query_cost: f64::from(self.levels[0].segments) * 1.125 + 0.5,
        }
    }

    /// Returns the probability that a non-member finds a bit set in each segment. The segments are
    /// independent.
    fn fpr_at(&self, keys: u64) -> f64 {
        let Level { segments, bits, .. } = self.levels[0];
        let set = if bits == 1 {
            f64::from(keys > 0)
        } else {
            -(keys as f64 * (-1.0 / bits as f64).ln_1p()).exp_m1()
        };
        set.powi(segments as i32)
    }
}

/// Bits and marks of one epoch, which has its own hash functions.
#[derive(Clone, Debug, PartialEq)]
struct Cells {
    bits: Words,
    marks: Digests,
    /// Epoch, false positives that no range was renewed for yet, keys, dead cells, then keys per
    /// level.
    state: [u64; STATE_WORDS],
}

const STATE_WORDS: usize = 4 + MAX_LEVELS;
const EPOCH: usize = 0;
const CREDIT: usize = 1;
const LEN: usize = 2;
const DEAD: usize = 3;

impl Cells {
    fn new(shape: &AdaptiveBloomShape, epoch: u64) -> Result<Self, Error> {
        let bits = Words::zeroed(usize_words(shape.words())?)?;
        let mut state = [0; STATE_WORDS];
        state[EPOCH] = epoch;
        Ok(Self { bits, marks: Digests::new(shape.marks)?, state })
    }

    /// Counts a key. A file may state any count up to the limit, from which no key leads further.
    fn count(&mut self, index: usize) {
        self.state[index] = (self.state[index] + 1).min(MAX_KEYS);
    }

    /// Returns the positions of a key's bits in a level.
    #[inline(always)]
    fn places<'a>(
        &self,
        shape: &'a AdaptiveBloomShape,
        level: usize,
        key: KeyHash,
    ) -> impl Iterator<Item = u64> + use<'a> {
        let before: u64 = shape.levels[..level].iter().map(Level::all_bits).sum();
        let Level { segments, bits, .. } = shape.levels[level];
        let function = mix(self.state[EPOCH] << 3 | level as u64);
        let (hi, lo) = (mix(key.lo ^ function), mix(key.lo.wrapping_add(function) ^ key.hi));
        let places = KeyHash { hi, lo }.probes(bits).take(segments as usize);
        (0..).zip(places).map(move |(segment, bit): (u64, u64)| before + segment * bits + bit)
    }

    fn contains_bits(&self, shape: &AdaptiveBloomShape, level: usize, key: KeyHash) -> bool {
        self.places(shape, level, key).all(|bit| set::get(&self.bits, bit))
    }

    /// Returns the mark of a dead cell.
    fn dead_mark(level: usize, cell: u64) -> u64 {
        mix(cell << 3 | level as u64)
    }

    /// Returns the mark of a key after the last level.
    fn key_mark(key: KeyHash) -> u64 {
        mix(key.hi ^ mix(key.lo ^ 0x5bf0_3635_dcd1_d867))
    }

    fn is_dead(&self, shape: &AdaptiveBloomShape, level: usize, key: KeyHash) -> bool {
        self.marks.contains(Self::dead_mark(level, shape.levels[level].cell(key)))
    }

    /// Returns the level that accepts a key, `depth` for the marks of keys; `None` if no level
    /// does.
    #[inline(always)]
    fn accepting_level(&self, shape: &AdaptiveBloomShape, key: KeyHash) -> Option<usize> {
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

    /// Inserts a key into a level, and into the following ones while its cell is dead.
    ///
    /// # Errors
    /// [`Full`] only if memory for more marks cannot be allocated; then nothing has changed.
    fn insert_from(
        &mut self,
        shape: &AdaptiveBloomShape,
        mut level: usize,
        key: KeyHash,
    ) -> Result<(), Full> {
        self.marks.reserve(1)?;
        while level < shape.depth {
            let places = self.places(shape, level, key);
            let bits = self.bits.to_mut();
            places.for_each(|bit| set::set(bits, bit));
            self.count(4 + level);
            if !self.is_dead(shape, level, key) {
                return Ok(());
            }
            level += 1;
        }
        self.marks.insert(Self::key_mark(key))
    }

    /// Makes the cell of `stranger` dead in a level and inserts its members into the next level.
    fn declare_dead(
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
            Some(next) => self.state[5 + level] + moved.len() as u64 <= next.keys,
            None => true,
        };
        if !room || self.state[DEAD] >= shape.repairs {
            return Err(Full::NONE);
        }
        self.marks.reserve(1 + moved.len() as u64)?;
        self.marks.insert(Self::dead_mark(level, cell))?;
        self.state[DEAD] += 1;
        moved.iter().try_for_each(|key| self.insert_from(shape, level + 1, *key))
    }
}

/// An adaptive Bloom filter.
///
/// # Examples
/// ```
/// use tamis::{AdaptiveBloom, Keyed};
///
/// let mut seen = Keyed::<AdaptiveBloom>::with_capacity(1000, 0.001)?;
/// seen.insert("apple")?;
/// assert!(seen.contains("apple"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveBloom {
    shape: AdaptiveBloomShape,
    now: Cells,
    /// The filter that replaces this one, and the number of ranges that are in it.
    next: Option<Box<(Cells, u64)>>,
}

impl AdaptiveBloom {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the filter cannot be allocated.
    pub fn new(shape: AdaptiveBloomShape) -> Result<Self, Error> {
        Ok(Self { now: Cells::new(&shape, 0)?, shape, next: None })
    }

    /// Returns the number of completed renewals.
    pub fn renewals(&self) -> u64 {
        self.now.state[EPOCH]
    }

    fn fetch(&self, key: KeyHash) {
        // The first two bits reject most non-members.
        for bit in self.now.places(&self.shape, 0, key).take(2) {
            prefetch(&self.now.bits, (bit / 64) as usize);
        }
    }

    /// Returns whether half of the planned repairs are used.
    fn needs_renewal(&self) -> bool {
        let level = |(index, level): (usize, &Level)| self.now.state[4 + index] * 2 > level.keys;
        let below = self.shape.levels().iter().enumerate().skip(1).any(level);
        self.now.state[DEAD] * 2 > self.shape.repairs || below
    }
}

impl Filter for AdaptiveBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.now.accepting_level(&self.shape, key).is_some()
    }

    /// Returns the number of keys inserted; after a renewal, the number of members passed to it.
    fn len(&self) -> u64 {
        self.now.state[LEN]
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.now.bits.len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        // One prefetch per key processed, unlike the loop of `common`, which prefetches a batch.
        keys.iter().take(BATCH).for_each(|key| self.fetch(*key));
        for (i, (key, out)) in keys.iter().zip(out).enumerate() {
            if let Some(ahead) = keys.get(i + BATCH) {
                self.fetch(*ahead);
            }
            *out = self.contains(*key);
        }
    }
}

impl Build for AdaptiveBloom {
    type Shape = AdaptiveBloomShape;

    fn shape(&self) -> &AdaptiveBloomShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<AdaptiveBloomShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for AdaptiveBloom {
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        if self.len() >= self.shape.keys {
            return Err(Full::NONE);
        }
        if let Some(next) = &mut self.next
            && scale(key.hi, self.shape.pieces()) < next.1
        {
            self.now.marks.reserve(1)?;
            next.0.insert_from(&self.shape, 0, key)?;
            next.0.count(LEN);
        }
        self.now.insert_from(&self.shape, 0, key)?;
        self.now.count(LEN);
        Ok(())
    }
}

impl Adapt for AdaptiveBloom {
    /// Returns the range of hashes that the key's index cells cover in all levels.
    fn suspects(&self, key: KeyHash) -> RangeInclusive<u64> {
        let ranges = self.shape.levels().iter().map(|level| piece(level.cell(key), level.cells()));
        ranges.fold(key.hi..=key.hi, |all, range| {
            *all.start().min(range.start())..=*all.end().max(range.end())
        })
    }

    fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Repair {
        let Some(mut level) = self.now.accepting_level(&self.shape, stranger) else {
            return Repair::NotNeeded;
        };
        self.now.state[CREDIT] = self.now.state[CREDIT].saturating_add(1);
        loop {
            if level == self.shape.depth
                || self.now.declare_dead(&self.shape, level, stranger, members).is_err()
            {
                return Repair::Impossible;
            }
            match self.now.accepting_level(&self.shape, stranger) {
                Some(next) => level = next,
                None => return Repair::Extended,
            }
        }
    }

    /// Returns the next range to renew, one for each false positive, once half of the repairs are
    /// used.
    fn due(&self) -> Option<RangeInclusive<u64>> {
        let pieces = self.shape.pieces();
        match &self.next {
            _ if self.now.state[CREDIT] == 0 => None,
            Some(next) => Some(piece(next.1, pieces)),
            None => self.needs_renewal().then(|| piece(0, pieces)),
        }
    }

    fn renew(&mut self, members: &[KeyHash]) {
        let pieces = self.shape.pieces();
        let mut next = match self.next.take() {
            Some(next) => next,
            // If the allocation fails, there is no renewal, and nothing has changed.
            None => match Cells::new(&self.shape, self.now.state[EPOCH].wrapping_add(1)) {
                Ok(cells) => Box::new((cells, 0)),
                Err(_) => return,
            },
        };
        for key in members.iter().filter(|key| scale(key.hi, pieces) == next.1) {
            next.0.insert_from(&self.shape, 0, *key).expect("the new filter has no dead cells yet");
            next.0.count(LEN);
        }
        next.1 += 1;
        self.now.state[CREDIT] = self.now.state[CREDIT].saturating_sub(1);
        if next.1 == pieces {
            self.now = next.0;
        } else {
            self.next = Some(next);
        }
    }
}

/// Returns the range of `hi` that piece `index` of `pieces` covers.
pub(super) fn piece(index: u64, pieces: u64) -> RangeInclusive<u64> {
    let first = |index: u64| (u128::from(index) << 64).div_ceil(u128::from(pieces));
    first(index) as u64..=(first(index + 1) - 1) as u64
}

impl Persist for AdaptiveBloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let AdaptiveBloomShape { keys, repairs, marks, depth, .. } = self.shape;
        let slots = |cells: &Cells| cells.marks.slots();
        let mut fields = vec![keys, repairs, marks, depth as u64, slots(&self.now)];
        fields.push(self.next.as_ref().map_or(0, |next| next.1));
        fields.push(self.next.as_ref().map_or(0, |next| slots(&next.0)));
        for Level { segments, bits, keys } in self.shape.levels() {
            fields.extend([u64::from(*segments), *bits, *keys]);
        }
        to.shape(&fields);
        for cells in core::iter::once(&self.now).chain(self.next.as_ref().map(|next| &next.0)) {
            to.words(BITS, &cells.bits);
            to.words(MARKS, cells.marks.table());
            to.slice(STATE, &cells.state);
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        const MOST: u64 = 1 << 50;
        let len = from.header().keys;
        let mut fields = from.shape()?;
        // A renewal takes all members that it is given, which may be more than the capacity.
        let keys = fields.next(0..=MAX_KEYS, "capacity")?;
        let repairs = fields.next(1..=MAX_KEYS, "planned repairs")?;
        let marks = fields.next(1..=MOST, "planned slots for marks")?;
        let depth = fields.next(1..=MAX_LEVELS as u64, "number of levels")? as usize;
        let slots = fields.next(marks..=MOST, "slots for marks")?;
        let pieces = (repairs / 4).max(1);
        let done = fields.next(0..=pieces - 1, "renewed ranges")?;
        let least = if done == 0 { 0 } else { marks };
        let next_slots = fields
            .next(least..=if done == 0 { 0 } else { MOST }, "slots for marks of the renewal")?;
        let mut levels = [Level::default(); MAX_LEVELS];
        for level in &mut levels[..depth] {
            level.segments = fields.next(1..=MAX_SEGMENTS.into(), "segments per level")? as u32;
            level.bits = fields.next(1..=MOST, "bits per segment")?;
            level.keys = fields.next(0..=MAX_KEYS, "keys per level")?;
        }
        fields.finish()?;
        let shape = AdaptiveBloomShape { keys, repairs, marks, depth, levels };
        if !shape.is_small_enough() {
            return Err(from.corrupt("the levels have too many bits").into());
        }
        let mut cells = |slots| -> Result<Cells, Error> {
            let bits = from.words(BITS, shape.words())?;
            let marks = Digests::of(from.words(MARKS, slots)?)
                .ok_or_else(|| from.corrupt("the table of marks has no empty slot"))?;
            let words = from.words(STATE, STATE_WORDS as u64)?;
            let mut state = [0; STATE_WORDS];
            state.copy_from_slice(&words);
            if state.iter().skip(2).any(|count| *count > MAX_KEYS) {
                return Err(from.corrupt("a count of keys is too large").into());
            }
            Ok(Cells { bits, marks, state })
        };
        let now = cells(slots)?;
        let next = if done == 0 { None } else { Some(Box::new((cells(next_slots)?, done))) };
        if now.state[LEN] != len {
            return Err(from.corrupt("the number of keys differs from the header").into());
        }
        Ok(Self { shape, now, next })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let end = self.shape.bits();
        for cells in core::iter::once(&self.now).chain(self.next.as_ref().map(|next| &next.0)) {
            if !set::ends_at(&cells.bits, end) {
                return corrupt("bits are set past the end");
            }
            if !cells.marks.is_sound() {
                return corrupt("a mark cannot be found");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};

    fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 20]);
        keys.map(|key| key.hash_with(&hasher)).collect()
    }

    #[test]
    fn the_rate_decides_the_number_of_levels() {
        for (fpr, depth) in [(0.25, 3), (0.125, 2), (1.0 / 32.0, 2), (1.0 / 256.0, 1), (1e-5, 1)] {
            let repairs = (1e6 * fpr) as u64;
            let shape = AdaptiveBloomShape::for_repairs(1_000_000, fpr, repairs).unwrap();
            assert_eq!(shape.depth(), depth, "{fpr}");
            assert_eq!(AdaptiveBloomShape::fit(1_000_000, fpr).unwrap(), shape);
        }
    }

    /// Three levels and the marks after them: false positives are rejected at every level, and
    /// there are no false negatives.
    #[test]
    fn every_level_is_reached_and_rejects() {
        let members = hashes(1, 0..20_000);
        let shape = AdaptiveBloomShape::for_repairs(20_000, 0.25, 5000).unwrap();
        assert_eq!(shape.depth(), 3);
        let mut filter = AdaptiveBloom::build(shape, &members[..5000]).unwrap();
        let mut reached = [0; 5];
        // Keys are inserted meanwhile, into dead cells too.
        for (i, x) in hashes(1, 1 << 40..(1 << 40) + 30_000).into_iter().enumerate() {
            if let Some(key) = members.get(5000 + i) {
                filter.insert(*key).unwrap();
            }
            let present = &members[..members.len().min(5001 + i)];
            while let Some(level) = filter.now.accepting_level(&filter.shape, x) {
                reached[level] += 1;
                let range = filter.suspects(x);
                let suspects: Vec<KeyHash> =
                    present.iter().copied().filter(|key| range.contains(&key.hi)).collect();
                if filter.adapt(x, &suspects) == Repair::Impossible {
                    break;
                }
            }
            if i % 1000 == 0 {
                assert!(present.iter().all(|key| filter.contains(*key)), "a false negative");
            }
        }
        assert!(
            reached[0] > 1000 && reached[1] > 3 && filter.now.state[6] > 0,
            "{reached:?} {:?}",
            filter.now.state
        );
        assert!(members.iter().all(|key| filter.contains(*key)), "a false negative");
        filter.validate().unwrap();
    }

    #[test]
    fn a_piece_is_what_scales_to_it() {
        for pieces in [1, 3, 1000, (1 << 50) - 1] {
            for index in [0, pieces / 2, pieces - 1] {
                let range = piece(index, pieces);
                assert_eq!(
                    (scale(*range.start(), pieces), scale(*range.end(), pieces)),
                    (index, index)
                );
                assert!(index == 0 || scale(range.start() - 1, pieces) == index - 1);
                assert!(index + 1 == pieces || scale(range.end() + 1, pieces) == index + 1);
            }
        }
    }

    #[test]
    fn documented_size() {
        let figures = AdaptiveBloomShape::fit(10_000_000, 1.0 / 256.0).unwrap().figures();
        assert!(figures.bits_per_key() < 12.5 && figures.fpr <= 1.0 / 256.0, "{figures:?}");
    }
}
