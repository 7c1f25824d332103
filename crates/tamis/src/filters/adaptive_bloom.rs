//! The adaptive Bloom filter: a Bloom filter, and a second one for the keys of the ranges where a
//! false positive was reported.
//!
//! ```text
//!  hi        0 ────┬────┬────┬────┬────── 2^64       as many index cells as keys
//!                    dead ▲
//!  level 0   | segment 1 | … | segment k |           all keys
//!  level 1   | segment 1 | …     | segment 2k |      keys of dead index cells, at fpr^2
//!  …
//!  marks     dead index cells; 62-bit hashes of the keys in dead cells of the last level
//!  removed   128-bit hashes of removed keys       copies   a Bloom filter of keys inserted twice
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
//! repairs are used, it is renewed: a second filter with other hash functions is built, one range of
//! members for each false positive, and replaces the first. During a renewal it takes twice the
//! memory.
//!
//! **Removal.** A bit may belong to several keys, so it cannot be cleared. Counters instead of bits
//! would take twice to four times the memory of every filter, also of those that never remove. Here the
//! hash of a removed key goes to an exact table, which is consulted when all bits of a key are set, and
//! the next renewal drops it, with its bits. A renewal is due when the removed keys are 1/1024 of the
//! capacity, and each removal pays for its share: the store reads 1024 keys for a removal, in one range
//! at 2^-8. The paper has O(1) accesses to the store per removal too. The figures are:
//!
//! | | |
//! | --- | --- |
//! | memory without removals | at most 0.4 % more (0.1 % at 2^-8), for the filter of copies, and at least 64 bytes |
//! | memory with removals | 0.17 to 0.34 bits per key |
//! | rate | up to 1.1 % above the stated one at 2^-16, 0.5 % at 2^-8, because of the bits of removed keys |
//!
//! These hold if the caller renews what is due. Otherwise each removed key takes 21 to 43 bytes and
//! leaves its bits: when a second generation of keys has replaced the first, a filter of 2^-8 has a rate
//! of 10 %.
//!
//! A key that was inserted twice must stay when it is removed once. So a key whose bits are all set when
//! it is inserted enters the filter of copies: all copies, and as many other keys as the false positive
//! rate meanwhile says, about 1 in 1700 at 2^-8. A removed key that is in it is not denied: it is a
//! false positive like others, repaired like them, and a renewal drops it. This concerns 0.3 to 0.4 % of the
//! removed keys for rates up to 1 %, more above, and more if there are many copies. A key that the store
//! has deleted without telling the filter is a false positive, too.
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
use core::ops::RangeInclusive;

use tamis_bits::range::scale;
use tamis_bits::{prefetch, set};
use tamis_format::{Name, Reader, Writer};

use self::cells::{CREDIT, Cells, DEAD, EPOCH, FIRST_LEVEL, LEN, STATE_WORDS};
use super::common::build_by_inserting;
use super::common::digests::Digests;
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::{MAX_BYTES, MAX_KEYS};
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Adapt, Build, Filter, Insert, Persist, Remove, Repair};

mod cells;

const BITS: Name = Name::new("bits");
const MARKS: Name = Name::new("marks");
const STATE: Name = Name::new("state");
const COPIES: Name = Name::new("copies");
const REMOVED: Name = Name::new("removed");
/// The layout of the marks. Before, those of cells and of keys could be equal.
const LAYOUT: u64 = 3;
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
    /// Bits of the filter of copies.
    copies: u64,
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
        let mut shape = Self { keys, repairs, marks, copies: 0, depth, levels };
        shape.copies = shape.fit_copies(fpr);
        if shape.is_small_enough() {
            Ok(shape)
        } else {
            Err(Error::Infeasible { why: "the filter would have too many bits" })
        }
    }

    /// Returns the bits of the filter of copies: 16 for each key that finds all its bits set without being a copy,
    /// but at most 1/256 of the filter.
    fn fit_copies(&self, fpr: f64) -> u64 {
        // The mean rate while the filter is filled: near its capacity, the rate is a power of the number of keys.
        let mean = fpr / (1.0 + core::f64::consts::LN_2 * f64::from(self.levels[0].segments));
        let bits = (self.keys as f64 * mean * 16.0) as u64;
        bits.min((self.bits() + self.marks * 64) / 256).max(64).next_multiple_of(64)
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

    /// Returns the number of removed keys that make a renewal due.
    fn removals(&self) -> u64 {
        (self.keys / 1024).max(8)
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
            bytes: [self.words(), self.marks, self.copies.div_ceil(64)]
                .map(|words| tamis_bits::lines(words) * 64)
                .iter()
                .sum(),
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

    /// Returns whether half of the planned repairs are used, or the planned removals.
    fn needs_renewal(&self) -> bool {
        let keys = |index| self.now.state[FIRST_LEVEL + index];
        let level = |(index, level): (usize, &Level)| keys(index) * 2 > level.keys;
        let below = self.shape.levels().iter().enumerate().skip(1).any(level);
        let dead = self.now.state[DEAD] * 2 > self.shape.repairs;
        dead || below || self.now.stale() > self.shape.removals()
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
            next.0.insert(&self.shape, key)?;
        }
        self.now.insert(&self.shape, key)
    }
}

impl Remove for AdaptiveBloom {
    /// Removes a key, see the [module](self). It changes the answer for no other key, except that the filter is
    /// cleared when as many keys were removed as inserted.
    fn remove(&mut self, key: KeyHash) -> bool {
        if !self.now.remove(&self.shape, key) {
            return false;
        }
        // The ranges of a whole renewal come with the removals that make it due.
        let ranges = self.shape.pieces().div_ceil(self.shape.removals());
        self.now.state[CREDIT] = self.now.state[CREDIT].saturating_add(ranges);
        if let Some(next) = &mut self.next
            && scale(key.hi, self.shape.pieces()) < next.1
        {
            next.0.remove(&self.shape, key);
        }
        true
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
            next.0.insert(&self.shape, *key).expect("the new filter has no dead cells yet");
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
        let AdaptiveBloomShape { keys, repairs, marks, copies, depth, .. } = self.shape;
        let slots = |cells: &Cells| cells.marks.slots();
        let mut fields = vec![keys, repairs, marks, depth as u64, slots(&self.now)];
        fields.push(self.next.as_ref().map_or(0, |next| next.1));
        fields.push(self.next.as_ref().map_or(0, |next| slots(&next.0)));
        for Level { segments, bits, keys } in self.shape.levels() {
            fields.extend([u64::from(*segments), *bits, *keys]);
        }
        let removed = |cells: &Cells| cells.removed.slots();
        let next = self.next.as_ref().map_or(0, |next| removed(&next.0));
        fields.extend([copies, removed(&self.now), next, LAYOUT]);
        to.shape(&fields);
        for cells in core::iter::once(&self.now).chain(self.next.as_ref().map(|next| &next.0)) {
            to.words(BITS, &cells.bits);
            to.words(MARKS, cells.marks.table());
            to.slice(STATE, &cells.state);
            to.words(COPIES, &cells.copies);
            to.words(REMOVED, cells.removed.table());
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
        // Layout 1 ends before these fields, layout 2 before the last of them.
        if matches!(fields.remaining(), 0 | 3) {
            return Err(from.corrupt("files of the layouts 1 and 2 must be built again").into());
        }
        let copies = fields.next(1..=MOST, "bits of the filter of copies")?;
        let most = if done == 0 { 0 } else { MOST };
        let removed = [
            fields.next(0..=MOST, "slots for removed keys")?,
            fields.next(0..=most, "slots for removed keys of the renewal")?,
        ];
        fields.next(LAYOUT..=LAYOUT, "layout of the marks")?;
        fields.finish()?;
        let shape = AdaptiveBloomShape { keys, repairs, marks, copies, depth, levels };
        if !shape.is_small_enough() {
            return Err(from.corrupt("the levels have too many bits").into());
        }
        let mut cells = |slots, removed: u64| -> Result<Cells, Error> {
            let bits = from.words(BITS, shape.words())?;
            let marks = Digests::of(from.words(MARKS, slots)?)
                .ok_or_else(|| from.corrupt("the table of marks has no empty slot"))?;
            let words = from.words(STATE, STATE_WORDS as u64)?;
            let mut state = [0; STATE_WORDS];
            state.copy_from_slice(&words);
            if state.iter().skip(2).any(|count| *count > MAX_KEYS) {
                return Err(from.corrupt("a count of keys is too large").into());
            }
            let copies = from.words(COPIES, copies.div_ceil(64))?;
            let removed = Digests::of(from.words(REMOVED, 2 * removed)?)
                .ok_or_else(|| from.corrupt("the table of removed keys has no empty slot"))?;
            Ok(Cells { bits, marks, copies, removed, state })
        };
        let now = cells(slots, removed[0])?;
        let next = match done {
            0 => None,
            _ => Some(Box::new((cells(next_slots, removed[1])?, done))),
        };
        if now.state[LEN] != len {
            return Err(from.corrupt("the number of keys differs from the header").into());
        }
        Ok(Self { shape, now, next })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let end = self.shape.bits();
        for cells in core::iter::once(&self.now).chain(self.next.as_ref().map(|next| &next.0)) {
            if !set::ends_at(&cells.bits, end) || !set::ends_at(&cells.copies, self.shape.copies) {
                return corrupt("bits are set past the end");
            }
            if !cells.marks.is_sound() || !cells.removed.is_sound() {
                return corrupt("a mark cannot be found");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::common::digests::tests::key_of;
    use crate::hash::{HashId, Key, KeyHasher};
    use alloc::vec::Vec;
    use tamis_bits::range::mix;

    fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 20]);
        keys.map(|key| key.hash_with(&hasher)).collect()
    }

    fn of(range: &RangeInclusive<u64>, members: &[KeyHash]) -> Vec<KeyHash> {
        members.iter().copied().filter(|key| range.contains(&key.hi)).collect()
    }

    /// Removed keys return, with a cell that died meanwhile or not. One of two copies stays.
    #[test]
    fn removed_keys_return_and_copies_stay() {
        let members = hashes(3, 0..1000);
        let shape = AdaptiveBloomShape::fit(1100, 0.05).unwrap();
        let mut filter = AdaptiveBloom::build(shape, &members[..]).unwrap();
        let (gone, kept) = members.split_at(300);
        // Keys that found all bits set count as copies, and stay.
        assert!(gone.iter().all(|key| filter.remove(*key)) && filter.len() == 700);
        let ghosts = gone.iter().filter(|key| filter.contains(**key)).count();
        assert!(ghosts <= 20, "{ghosts} of 300 stay");
        let denied = *gone.iter().find(|key| !filter.contains(**key)).unwrap();
        assert!(!filter.remove(denied) && filter.len() == 700);
        // All cells that a false positive can reach die, without the removed keys.
        for x in hashes(3, 1 << 40..(1 << 40) + 2000) {
            filter.adapt(x, &of(&filter.suspects(x), kept));
        }
        for key in gone {
            filter.insert(*key).unwrap();
        }
        assert!(members.iter().all(|key| filter.contains(*key)) && filter.len() == 1000);
        for key in &members[..100] {
            filter.insert(*key).unwrap();
            assert!(filter.remove(*key) && filter.contains(*key));
        }
        filter.validate().unwrap();
    }

    /// While members are replaced and what is due is renewed, the rate is the stated one and the table of removed
    /// keys stays small.
    #[test]
    fn members_can_be_replaced_for_ever() {
        const KEYS: u64 = 4096;
        let all = hashes(4, 0..5 * KEYS);
        let shape = AdaptiveBloomShape::fit(KEYS, 1.0 / 32.0).unwrap();
        let (mut members, later) = (all[..KEYS as usize].to_vec(), &all[KEYS as usize..]);
        let mut filter = AdaptiveBloom::build(shape, &members[..]).unwrap();
        let (mut passed, mut asked) = (0, 0);
        for (i, key) in later.iter().enumerate() {
            let slot = i % members.len();
            assert!(filter.remove(members[slot]));
            members[slot] = *key;
            filter.insert(*key).unwrap();
            while let Some(range) = filter.due() {
                filter.renew(&of(&range, &members));
            }
            assert!(filter.now.removed.slots() <= 16 && filter.len() == KEYS, "step {i}");
            if i % 128 == 0 {
                assert!(members.iter().all(|key| filter.contains(*key)), "a false negative");
                let from = 1 << 40 | (i as u64) << 20;
                passed +=
                    hashes(4, from..from + 2000).iter().filter(|x| filter.contains(**x)).count();
                asked += 2000;
            }
        }
        let rate = passed as f64 / f64::from(asked) * 32.0;
        assert!((0.93..1.05).contains(&rate) && filter.renewals() > 1000, "{rate} of the rate");
        filter.validate().unwrap();
    }

    /// A key in a dead cell whose digest is that of another cell does not make the other cell dead.
    #[test]
    fn marks_of_keys_and_of_cells_differ() {
        let members = hashes(5, 0..1000);
        let shape = AdaptiveBloomShape::for_repairs(5000, 1.0 / 256.0, 80).unwrap();
        let mut filter = AdaptiveBloom::build(shape.clone(), &members[..]).unwrap();
        for (lo, member) in (0..).zip(&members[..40]) {
            let number = shape.levels()[0].cell(*member) << 3;
            // The key's mark hashes its digest; until layout 3 it was the digest.
            for digest in [number, mix(number)] {
                let key = key_of(lo, digest);
                filter.insert(key).unwrap();
                let cell = piece(shape.levels()[0].cell(key), shape.levels()[0].cells());
                let mut alike = of(&cell, &members);
                alike.push(key);
                filter.now.declare_dead(&shape, 0, key, &alike).unwrap();
                assert!(filter.contains(key) && members.iter().all(|key| filter.contains(*key)));
            }
        }
        filter.validate().unwrap();
    }

    /// A filter that loses its last key is cleared, but not if that takes longer than the insertions did.
    #[test]
    fn an_empty_filter_is_cleared() {
        let members = hashes(6, 0..2000);
        let shape = AdaptiveBloomShape::fit(2000, 0.01).unwrap();
        let mut filter = AdaptiveBloom::new(shape.clone()).unwrap();
        filter.insert(members[0]).unwrap();
        assert!(filter.remove(members[0]) && filter.is_empty() && !filter.contains(members[0]));
        assert!(set::ones(&filter.now.bits) > 0);
        for key in &members {
            filter.insert(*key).unwrap();
        }
        assert!(members.iter().all(|key| filter.remove(*key)) && filter.is_empty());
        assert!(set::ones(&filter.now.bits) == 0 && filter.now.stale() == 0);
        assert!(!members.iter().any(|key| filter.contains(*key)));
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
