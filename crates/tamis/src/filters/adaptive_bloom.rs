//! The adaptive Bloom filter: a Bloom filter that can be told to look again, and another for the
//! keys that it looks for there.
//!
//! ```text
//!  hi        0 ────┬────┬────┬────┬────── 2^64       as many index cells as keys
//!                    dead ▲
//!  level 0   | segment 1 | … | segment k |           all keys
//!  level 1   | segment 1 | …     | segment 2k |      keys of dead index cells, at the rate squared
//!  …
//!  marks     which index cells are dead; digests of the keys in dead ones of the last level
//! ```
//!
//! A key sets one bit in each segment of level 0. One that finds them all set is in, unless its index
//! cell is dead: then the next level decides, and after the last one the digests, which are exact. A
//! stranger that gets in has its index cell declared dead where it got in, and the members of that
//! cell, one on average, go to the next level too. Index cells are ranges of hashes.
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | 1.44 log2(1/fpr), and 0.8 for a repair in 256 keys: 12.3 at 2^-8, 15.2 at 0.1 % |
//! | cache lines | as a Bloom filter; one more where all bits are set |
//! | building | k bits set a key, no failure |
//! | levels | by default one, and then digests; more for more repairs |
//!
//! It is made for one false positive in 256 keys, unless more are asked for. When half of them have come, it is renewed: a second filter
//! under other hash functions is built, a range of members for each false positive, and takes the
//! first one's place. While that goes on it takes twice the memory. It cannot remove a key. A key that
//! the store has deleted is let in, which is a false positive like others, and is repaired as they
//! are; renewing forgets it.
//!
//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, *Bloom Filters, Adaptivity, and the
//! Dictionary Problem*, 2018, section 5. Differences: there one of the bits that the stranger found set
//! dies, in an array that all hash functions share. A member that reaches a dead bit by another
//! function than the one that was repaired is then looked for where it was never put: a false
//! negative. Here each function has a segment, and what dies is a segment that has no bits: its order
//! is that of the hashes, so the members of a cell are a range, and it tells nothing about a stranger
//! that is asked again after a renewal. New keys whose cell is dead go to the next level too, of which
//! the paper does not speak.

use std::ops::RangeInclusive;

use tamis_bits::range::{mix, scale};
use tamis_bits::{Words, prefetch, set};
use tamis_format::{Name, Reader, Writer};

use super::common::digests::Digests;
use super::common::{build_by_inserting, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::{MAX_BYTES, MAX_KEYS};
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
/// Keys for each repair that it is made for, unless more are asked for.
const KEYS_A_REPAIR: u64 = 256;
/// Keys of a batch whose memory is asked for while the batch before it is worked on.
const BATCH: usize = 8;

/// A level: so many segments of so many bits, for so many keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Level {
    segments: u32,
    bits: u64,
    keys: u64,
}

impl Level {
    /// The fewest bits that keep the rate.
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

    /// Index cells: as many as keys.
    fn cells(&self) -> u64 {
        self.keys.max(1)
    }

    fn cell(&self, key: KeyHash) -> u64 {
        scale(key.hi, self.cells())
    }
}

/// Levels, how many repairs they are made for, and slots for marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveBloomShape {
    keys: u64,
    repairs: u64,
    marks: u64,
    depth: usize,
    levels: [Level; MAX_LEVELS],
}

impl AdaptiveBloomShape {
    /// A shape for so many keys at this rate that can be told of so many false positives before it
    /// is renewed. The paper's choice is `keys` times `fpr`.
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
        // As the paper: levels until few keys are left, then what costs an index of them.
        let few = keys as f64 / (3.0 * (keys as f64).max(4.0).log2());
        while down > few.max(64.0) && depth < MAX_LEVELS {
            rate *= rate;
            levels[depth] = Level::fit(down as u64, rate);
            // At worst all queries are for strangers that got in above before.
            down = moved(repairs as f64 / fpr * rate);
            depth += 1;
        }
        // A mark for each dead cell and each digest.
        let marks = 8 + ((repairs as f64 + down) / 0.66).ceil() as u64;
        let shape = Self { keys, repairs, marks, depth, levels };
        if shape.is_small_enough() {
            Ok(shape)
        } else {
            Err(Error::Infeasible { why: "that takes too many bits" })
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

    /// Levels before the digests.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Pieces in which it is renewed: one for each false positive, so that all is done when three
    /// quarters of the repairs are made.
    fn pieces(&self) -> u64 {
        (self.repairs / 4).max(1)
    }
}

impl Shape for AdaptiveBloomShape {
    fn fit_with(keys: u64, fpr: f64, _: &Settings) -> Result<Self, Error> {
        Self::for_repairs(keys, fpr, keys / KEYS_A_REPAIR)
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.fpr_at(self.keys),
            bytes: (tamis_bits::lines(self.words()) + tamis_bits::lines(self.marks)) * 64,
            query_cost: f64::from(self.levels[0].segments) * 1.125 + 0.5,
        }
    }

    /// The chance that a stranger finds a bit set in each segment: each is set or not whatever the
    /// others are.
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

/// Cells and marks under the hash functions of one epoch.
#[derive(Clone, Debug, PartialEq)]
struct Cells {
    bits: Words,
    marks: Digests,
    /// Epoch, false positives not yet worked off, keys in it, dead cells, then keys of each level below.
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

    /// The bits of a key in a level, among those of all.
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

    fn has_all(&self, shape: &AdaptiveBloomShape, level: usize, key: KeyHash) -> bool {
        self.places(shape, level, key).all(|bit| set::get(&self.bits, bit))
    }

    /// What stands among the marks for a dead cell.
    fn dead_mark(level: usize, cell: u64) -> u64 {
        mix(cell << 3 | level as u64)
    }

    /// What stands among the marks for a key past the last level.
    fn digest(key: KeyHash) -> u64 {
        mix(key.hi ^ mix(key.lo ^ 0x5bf0_3635_dcd1_d867))
    }

    fn is_dead(&self, shape: &AdaptiveBloomShape, level: usize, key: KeyHash) -> bool {
        self.marks.contains(Self::dead_mark(level, shape.levels[level].cell(key)))
    }

    /// Where a key gets in: the level, one more than the last for the digests; `None` if nowhere.
    #[inline(always)]
    fn level_of(&self, shape: &AdaptiveBloomShape, key: KeyHash) -> Option<usize> {
        if self.has_all(shape, 0, key) { self.level_below(shape, key) } else { None }
    }

    /// The same for a key whose bits of level 0 are set.
    fn level_below(&self, shape: &AdaptiveBloomShape, key: KeyHash) -> Option<usize> {
        for level in 0..shape.depth {
            if level > 0 && !self.has_all(shape, level, key) {
                return None;
            }
            if !self.is_dead(shape, level, key) {
                return Some(level);
            }
        }
        self.marks.contains(Self::digest(key)).then_some(shape.depth)
    }

    /// Puts a key into a level, and into those below while its cell is dead. [`Full`] only where
    /// memory for more marks cannot be had, and then all is as it was.
    fn put(
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
            self.state[4 + level] += 1;
            if !self.is_dead(shape, level, key) {
                return Ok(());
            }
            level += 1;
        }
        self.marks.insert(Self::digest(key))
    }

    /// Declares the stranger's cell of a level dead and puts its members into the next.
    fn kill(
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
        moved.iter().try_for_each(|key| self.put(shape, level + 1, *key))
    }
}

/// An adaptive Bloom filter.
///
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
    /// What takes its place, and the pieces that are in it.
    next: Option<Box<(Cells, u64)>>,
}

impl AdaptiveBloom {
    /// An empty filter.
    pub fn new(shape: AdaptiveBloomShape) -> Result<Self, Error> {
        Ok(Self { now: Cells::new(&shape, 0)?, shape, next: None })
    }

    /// Times that it was renewed.
    pub fn renewals(&self) -> u64 {
        self.now.state[EPOCH]
    }

    fn fetch(&self, key: KeyHash) {
        // Most strangers are denied by the first two.
        for bit in self.now.places(&self.shape, 0, key).take(2) {
            prefetch(&self.now.bits, (bit / 64) as usize);
        }
    }

    fn is_worn(&self) -> bool {
        let level = |(index, level): (usize, &Level)| self.now.state[4 + index] * 2 > level.keys;
        let below = self.shape.levels().iter().enumerate().skip(1).any(level);
        self.now.state[DEAD] * 2 > self.shape.repairs || below
    }
}

impl Filter for AdaptiveBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        self.now.level_of(&self.shape, key).is_some()
    }

    /// Keys inserted; once renewed, those that the members were.
    fn len(&self) -> u64 {
        self.now.state[LEN]
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
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
            next.0.put(&self.shape, 0, key)?;
            next.0.state[LEN] += 1;
        }
        self.now.put(&self.shape, 0, key)?;
        self.now.state[LEN] += 1;
        Ok(())
    }
}

impl Adapt for AdaptiveBloom {
    /// What the key's index cells cover, of all levels.
    fn suspects(&self, key: KeyHash) -> RangeInclusive<u64> {
        let ranges = self.shape.levels().iter().map(|level| piece(level.cell(key), level.cells()));
        ranges.fold(key.hi..=key.hi, |all, range| {
            *all.start().min(range.start())..=*all.end().max(range.end())
        })
    }

    fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Repair {
        let Some(mut level) = self.now.level_of(&self.shape, stranger) else {
            return Repair::NotNeeded;
        };
        self.now.state[CREDIT] = self.now.state[CREDIT].saturating_add(1);
        loop {
            if level == self.shape.depth
                || self.now.kill(&self.shape, level, stranger, members).is_err()
            {
                return Repair::Impossible;
            }
            match self.now.level_of(&self.shape, stranger) {
                Some(next) => level = next,
                None => return Repair::Extended,
            }
        }
    }

    /// The next piece, one for each false positive, once half of the repairs are made.
    fn due(&self) -> Option<RangeInclusive<u64>> {
        let pieces = self.shape.pieces();
        match &self.next {
            _ if self.now.state[CREDIT] == 0 => None,
            Some(next) => Some(piece(next.1, pieces)),
            None => self.is_worn().then(|| piece(0, pieces)),
        }
    }

    fn renew(&mut self, members: &[KeyHash]) {
        let pieces = self.shape.pieces();
        let mut next = match self.next.take() {
            Some(next) => next,
            // Without memory for it there is no renewal, and the filter is as it was.
            None => match Cells::new(&self.shape, self.now.state[EPOCH].wrapping_add(1)) {
                Ok(cells) => Box::new((cells, 0)),
                Err(_) => return,
            },
        };
        for key in members.iter().filter(|key| scale(key.hi, pieces) == next.1) {
            next.0.put(&self.shape, 0, *key).expect("it has no marks yet");
            next.0.state[LEN] += 1;
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

/// The range of `hi` that piece `index` of `pieces` covers.
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
        for cells in std::iter::once(&self.now).chain(self.next.as_ref().map(|next| &next.0)) {
            to.words(BITS, &cells.bits);
            to.words(MARKS, cells.marks.table());
            to.slice(STATE, &cells.state);
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        const MOST: u64 = 1 << 50;
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let keys = fields.next(len..=MAX_KEYS, "keys it is made for")?;
        let repairs = fields.next(1..=MAX_KEYS, "repairs it is made for")?;
        let marks = fields.next(1..=MOST, "slots of the marks")?;
        let depth = fields.next(1..=MAX_LEVELS as u64, "number of levels")? as usize;
        let slots = fields.next(marks..=MOST, "slots of the marks now")?;
        let pieces = (repairs / 4).max(1);
        let done = fields.next(0..=pieces - 1, "pieces renewed")?;
        let least = if done == 0 { 0 } else { marks };
        let next_slots =
            fields.next(least..=if done == 0 { 0 } else { MOST }, "slots of the new marks")?;
        let mut levels = [Level::default(); MAX_LEVELS];
        for level in &mut levels[..depth] {
            level.segments = fields.next(1..=MAX_SEGMENTS.into(), "segments of a level")? as u32;
            level.bits = fields.next(1..=MOST, "bits of a segment")?;
            level.keys = fields.next(0..=MAX_KEYS, "keys of a level")?;
        }
        fields.finish()?;
        let shape = AdaptiveBloomShape { keys, repairs, marks, depth, levels };
        if !shape.is_small_enough() {
            return Err(from.corrupt("more bits than any filter has").into());
        }
        let mut cells = |slots| -> Result<Cells, Error> {
            let bits = from.words(BITS, shape.words())?;
            let marks = Digests::of(from.words(MARKS, slots)?)
                .ok_or_else(|| from.corrupt("the marks have no gap"))?;
            let words = from.words(STATE, STATE_WORDS as u64)?;
            let mut state = [0; STATE_WORDS];
            state.copy_from_slice(&words);
            if state.iter().skip(2).any(|count| *count > MAX_KEYS) {
                return Err(from.corrupt("more keys than any filter has").into());
            }
            Ok(Cells { bits, marks, state })
        };
        let now = cells(slots)?;
        let next = if done == 0 { None } else { Some(Box::new((cells(next_slots)?, done))) };
        if now.state[LEN] != len {
            return Err(from.corrupt("the header's count of keys is another").into());
        }
        Ok(Self { shape, now, next })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let end = self.shape.bits();
        for cells in std::iter::once(&self.now).chain(self.next.as_ref().map(|next| &next.0)) {
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

    fn hashes(seed: u64, keys: std::ops::Range<u64>) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 20]);
        keys.map(|key| key.hash_with(&hasher)).collect()
    }

    #[test]
    fn levels_are_as_many_as_the_rate_asks_for() {
        for (fpr, depth) in [(0.25, 3), (0.125, 2), (1.0 / 32.0, 2), (1.0 / 256.0, 1), (1e-5, 1)] {
            let repairs = (1e6 * fpr) as u64;
            let shape = AdaptiveBloomShape::for_repairs(1_000_000, fpr, repairs).unwrap();
            assert_eq!(shape.depth(), depth, "{fpr}");
            assert_eq!(AdaptiveBloomShape::fit(1_000_000, fpr).unwrap().depth(), 1);
        }
    }

    /// Three levels and the digests below them: strangers that were let in are denied, at every
    /// level, and no member is.
    #[test]
    fn every_level_is_reached_and_denies() {
        let members = hashes(1, 0..20_000);
        let shape = AdaptiveBloomShape::for_repairs(20_000, 0.25, 5000).unwrap();
        assert_eq!(shape.depth(), 3);
        let mut filter = AdaptiveBloom::build(shape, &members[..5000]).unwrap();
        let mut reached = [0; 5];
        // Keys come in all the while: into dead cells too.
        for (i, x) in hashes(1, 1 << 40..(1 << 40) + 30_000).into_iter().enumerate() {
            if let Some(key) = members.get(5000 + i) {
                filter.insert(*key).unwrap();
            }
            let present = &members[..members.len().min(5001 + i)];
            while let Some(level) = filter.now.level_of(&filter.shape, x) {
                reached[level] += 1;
                let range = filter.suspects(x);
                let suspects: Vec<KeyHash> =
                    present.iter().copied().filter(|key| range.contains(&key.hi)).collect();
                if filter.adapt(x, &suspects) == Repair::Impossible {
                    break;
                }
            }
            if i % 1000 == 0 {
                assert!(present.iter().all(|key| filter.contains(*key)), "a member is denied");
            }
        }
        assert!(
            reached[0] > 1000 && reached[1] > 10 && filter.now.state[6] > 0,
            "{reached:?} {:?}",
            filter.now.state
        );
        assert!(members.iter().all(|key| filter.contains(*key)), "a member is denied");
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
    fn the_promised_size() {
        let figures = AdaptiveBloomShape::fit(10_000_000, 1.0 / 256.0).unwrap().figures();
        assert!(figures.bits_per_key() < 12.5 && figures.fpr <= 1.0 / 256.0, "{figures:?}");
    }
}
