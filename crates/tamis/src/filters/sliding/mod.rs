//! The sliding filter: it contains the last n keys of a stream, or those of the last period of
//! time, and older keys expire.
//!
//! ```text
//!  key ──► a bucket and a remainder
//!
//!  ring of blocks   │ buckets 0 … 600  │ 601 … 1190  │ 1191 … 1802 │ …      512 bytes each
//!                                      └─ moves, if one of the two blocks is full
//!  block            │ head │ index ►   │  free  │    ◄ slots: remainder, stamp │
//!
//!  generations     1 2 3 4 5 6 7 8 9 10 …                  stamp = generation modulo 9
//!                    └───────────────┘ └─ current          of n/8 keys each
//!                      8 complete ones: the window
//! ```
//!
//! A generation is n/8 keys, or an eighth of the time. A key in one of the last eight complete
//! generations or in the current one is a member; an older key is a non-member, whether its slot
//! has been cleared or not. A key that is pushed again gets a new stamp.
//!
//! | figure | |
//! | --- | --- |
//! | bits per key of the window | 12.95 at 1 %, 16.65 at 0.1 %, 27.9 at 10^-6, from 10^6 keys on |
//! | cache lines | 3 or 4 |
//! | a push | reads and writes 2 blocks, at 10^5 keys less than 6 of 100 more, none more than some thousand |
//! | slack | n/8: every key has expired after n + n/8 keys; `generations` sets another part |
//!
//! **Generations begin at different times.** The buckets of a block are divided into 16 classes (8
//! below 65 536 keys), and each tick, a sixteenth of a generation, begins the next generation of one
//! class. At any time the filter remembers 17/16 n keys rather than between n and 9/8 n, and each
//! block about the same number, so there need be room for no more. Every key is remembered for n to
//! 9/8 n keys as if all generations began together. Of a window of time the keys may come all at
//! once, so there is room for 9/8 of those planned.
//!
//! **Blocks have as many buckets as fit.** A key has one place, and a lookup reads one block. A full
//! block passes the buckets at its edge to its neighbour in the ring; if that is full too, the
//! neighbour first passes some of its own on, through at most 512 blocks. The free bits of the two
//! are evened out, so that few pushes do that. The head of a block says
//! where it begins: a lookup goes first to the block where the bucket is if all have the same number,
//! and in few cases on to the next.
//!
//! **A window of keys has room for its keys.** The ring has room for 8 standard deviations more keys
//! than it remembers on average, or for all that can be remembered, so a ring of up to 513 blocks,
//! some 160 000 keys at 1 %, is never full. In a larger ring a push is also refused if the 512 blocks
//! on either side of a full one are full. That is not proved impossible, but the test
//! `a_push_changes_few_blocks` changes fewer than 40 blocks per push in 20 000. Otherwise a push is
//! refused with `Full` only if more keys come in a time than planned, or an adversary knows the seed.
//! The key is not remembered, and no other key is affected.
//!
//! A push evicts the expired slots of its block and of one more block in turn, so that every block is
//! visited before its epoch wraps around. There is no global sweep.
//!
//! The planned rate holds when window and slack are full; the figures state the rate with as many
//! keys as the window has. A filter that refuses keys has all slots in use, and the rate is higher by
//! that share.
//!
//! Keys cannot be removed, and filters cannot be merged. `len` counts the keys that are remembered
//! and can be distinguished.
//!
//! Naor, Yogev, *Sliding Bloom Filters*, 2013. Differences: the paper keeps generations in a
//! dictionary of fingerprints and sweeps it, with O(1) work per step with high probability; here
//! blocks replace the dictionary, and expired slots are evicted as blocks are visited, so that the
//! bound always holds. The leading terms of the paper, log2(1/fpr) + log2(n/slack), are 9.6 bits
//! per key at 1 %; this filter takes 12.95: a slot of 9 bits, 2.8 of the index, 0.2 of the head and
//! 0.2 of free room for each of 17/16 n keys. An age-partitioned Bloom filter (Shtul, Baquero,
//! Almeida 2020) would be simpler, but takes 21 to 24 bits at 1 %; it is not implemented here.

mod block;
mod clock;
mod ring;
mod shape;

use alloc::vec;

use tamis_bits::packed;
use tamis_bits::range::{mix, scale};
use tamis_bits::select::{Bits, Task, run};
use tamis_bits::{LINE_WORDS, Words, prefetch};
use tamis_format::{Name, Reader, Writer};

use self::block::{EPOCH, Layout, MAX_WIDTH, MAX_WORDS};
use self::clock::{Ages, Clock};
use self::shape::{MAX_BLOCKS, MAX_GENERATIONS, MAX_TICKS};
use super::common::usize_words;
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::source::{KeySource, read_all};
use crate::traits::{Build, Filter, Persist, Window};

pub use self::shape::SlidingShape;

const STATE: Name = Name::new("state");
const BLOCKS: Name = Name::new("blocks");
/// The number of the layout in files.
const LAYOUT: u64 = 2;

/// Words of the state before the number of keys that expire at each tick: the ticks since the
/// filter is empty (modulo [`SlidingShape::all_ticks`]), the keys pushed in this generation of class 0, the ticks of the clock, and the
/// next block to evict from.
const TICK: usize = 0;
const PUSHED: usize = 1;
const CLOCK: usize = 2;
const CURSOR: usize = 3;
const COUNTS: usize = 4;

/// How often room is made for a key. Once is enough unless the key's own bucket is moved.
const ATTEMPTS: usize = 8;

/// Number of keys of a batch that are prefetched. They are prefetched one by one as keys are
/// processed, which is why the batches have loops of their own: prefetching the lines of eight keys
/// at once, as the loop of `common` does, makes the processor drop some.
const LANES: usize = 8;

/// A sliding filter.
///
/// # Examples
/// ```
/// use tamis::{Keyed, Sliding};
///
/// let mut recent = Keyed::<Sliding>::with_window(1000, 0.001)?;
/// assert!(!recent.push("apple")?); // new
/// assert!(recent.push("apple")?); // seen
/// for key in 0..2000u64 {
///     recent.push(&key)?;
/// }
/// assert!(recent.contains(&1500u64) && !recent.contains("apple"));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sliding {
    shape: SlidingShape,
    layout: Layout,
    clock: Clock,
    /// Cached results of divisions, which would be slow in a push.
    length: u64,
    log: u32,
    count_width: u32,
    /// 2^32 / buckets, rounded up.
    inverse: u64,
    /// Words of slots per bucket on average, times 2^32.
    slope: u64,
    /// The keys pushed in this generation of class 0 at which the next tick comes.
    next_tick: u64,
    len: u64,
    state: Words,
    blocks: Words,
}

/// The place of a key in an empty filter.
#[derive(Clone, Copy, Default)]
struct Place {
    block: usize,
    bucket: usize,
    remainder: u64,
}

impl Sliding {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the blocks cannot be allocated.
    pub fn new(shape: SlidingShape) -> Result<Self, Error> {
        let blocks = Words::zeroed(usize_words(shape.block_words())?)?;
        let state = Words::zeroed(usize_words(shape.state_words())?)?;
        Ok(Self::from_parts(shape, 0, state, blocks))
    }

    fn from_parts(shape: SlidingShape, len: u64, state: Words, blocks: Words) -> Self {
        let (layout, length, log) = (shape.checked_layout(), shape.length(), shape.log());
        let clock = Clock::new(layout.stamps, log, state[TICK]);
        let slots = (layout.space() - layout.buckets) / layout.slot_bits();
        let bits = (slots * layout.width as usize) as u64;
        let mut filter = Self {
            clock,
            length,
            log,
            count_width: shape.count_width(),
            inverse: (1u64 << 32).div_ceil(shape.buckets),
            slope: (bits << 26) / shape.buckets,
            next_tick: 0,
            layout,
            shape,
            len,
            state,
            blocks,
        };
        filter.set_next_tick();
        filter
    }

    #[inline(always)]
    fn place(&self, key: KeyHash) -> Place {
        let product = u128::from(key.hi) * u128::from(self.shape.blocks);
        let bucket = scale(product as u64, self.shape.buckets);
        // The remainder must be independent of block and bucket.
        let remainder = scale(mix(key.lo ^ key.hi.rotate_left(32)), self.layout.remainders);
        Place { block: (product >> 64) as usize, bucket: bucket as usize, remainder }
    }

    /// Returns the class of a bucket.
    #[inline(always)]
    fn class(&self, bucket: usize) -> u64 {
        (((bucket as u64) << self.log) * self.inverse) >> 32
    }

    #[inline(always)]
    fn fetch(&self, place: &Place) {
        let (words, begin) = (self.layout.words, place.block * self.layout.words);
        prefetch(&self.blocks, begin);
        prefetch(&self.blocks, begin + LINE_WORDS);
        // Where the slot is if all buckets have as many.
        let slots = ((place.bucket as u64 * self.slope) >> 32) as usize;
        prefetch(&self.blocks, begin + words - 1 - slots.min(words - 1));
    }

    /// Returns the places of the first keys and prefetches their blocks.
    #[inline(always)]
    fn places(&self, keys: &[KeyHash]) -> [Place; LANES] {
        let mut places = [Place::default(); LANES];
        for (place, key) in places.iter_mut().zip(keys) {
            *place = self.place(*key);
            self.fetch(place);
        }
        places
    }

    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.state[TICK]
    }

    #[inline(always)]
    fn contains_place(&self, bits: impl Bits, place: &Place) -> bool {
        let Some((block, head, bucket)) = self.locate(place) else { return false };
        let found = self.layout.find(bits, self.block(block), head, bucket, place.remainder);
        let ages = || self.clock.ages(self.class(place.bucket), self.lag(head));
        found.stamp.is_some_and(|stamp| !ages().is_expired(stamp))
    }

    #[inline(always)]
    fn evict_next(&mut self, bits: impl Bits) {
        let block = self.state[CURSOR];
        self.evict(bits, block as usize);
        self.state.to_mut()[CURSOR] = if block + 1 < self.shape.blocks { block + 1 } else { 0 };
    }

    /// Computes when the next tick of a window of keys comes.
    fn set_next_tick(&mut self) {
        let classes = 1 << self.log;
        let next = self.state[TICK] % classes + 1;
        self.next_tick =
            (u128::from(next) * u128::from(self.length)).div_ceil(classes.into()) as u64;
    }

    /// Begins the next generation of a class; the oldest one of the class expires.
    #[inline(never)]
    fn tick(&mut self) {
        self.clock.tick();
        let ticks = (self.ticks() + 1) % self.shape.all_ticks();
        self.state.to_mut()[TICK] = ticks;
        let expired = self.clock.phase();
        let count = self.count(expired);
        self.set_count(expired, 0);
        self.len = self.len.saturating_sub(count);
        if ticks.is_multiple_of(1 << self.log) {
            self.state.to_mut()[PUSHED] = 0;
        }
        self.set_next_tick();
        // Visits every block within 2^15 ticks, since an epoch wraps around after 2^16.
        for _ in 0..=self.shape.blocks >> (EPOCH - 1) {
            run(EvictNext(self));
        }
    }

    #[inline(always)]
    fn push_place(&mut self, bits: impl Bits, place: &Place) -> Result<bool, Full> {
        if self.shape.ticks.is_none() {
            // The last tick of a generation sets it to 0.
            while self.state[PUSHED] >= self.next_tick {
                self.tick();
            }
            self.state.to_mut()[PUSHED] += 1;
        }
        self.evict_next(bits);
        let layout = self.layout;
        let ages = self.clock.ages(self.class(place.bucket), 0);
        let mut side = None;
        for _ in 0..ATTEMPTS {
            let Some((block, _, bucket)) = self.locate(place) else { break };
            self.evict(bits, block);
            let Some(head) = self.head(block) else { break };
            let found = layout.find(bits, self.block(block), head, bucket, place.remainder);
            if let Some(stamp) = found.stamp {
                if stamp != ages.now {
                    layout.restamp(self.block_mut(block), found.slot, stamp, ages.now);
                    self.change_count(place, ages, stamp, -1);
                    self.change_count(place, ages, ages.now, 1);
                }
                return Ok(true);
            }
            if !layout.is_consistent(self.block(block), head) {
                break;
            }
            if layout.free(head) >= layout.slot_bits() {
                layout.insert(self.block_mut(block), head, found, place.remainder, ages.now);
                self.change_count(place, ages, ages.now, 1);
                return Ok(false);
            }
            // The bucket of the key itself may be moved to a full block. Others then leave that block
            // to the same side, so that the bucket does not go to and fro.
            side = self.make_room(bits, block, side);
            if side.is_none() {
                break;
            }
        }
        Err(Full::NONE)
    }

    /// Returns the number of keys that expire at a tick.
    #[inline(always)]
    fn count(&self, tick: u64) -> u64 {
        packed::get(&self.state[COUNTS..], self.count_width, tick)
    }

    #[inline(always)]
    fn set_count(&mut self, tick: u64, count: u64) {
        packed::set(&mut self.state.to_mut()[COUNTS..], self.count_width, tick, count);
    }

    #[inline(always)]
    fn change_count(&mut self, place: &Place, ages: Ages, stamp: u64, by: i64) {
        let tick = self.clock.expiry(self.class(place.bucket), ages.age(stamp));
        let count = self.count(tick);
        // It saturates only in a damaged file; `len` stays the sum of the counts.
        let changed = count.saturating_add_signed(by).min(packed::mask(self.count_width));
        self.len = self.len.saturating_sub(count).saturating_add(changed);
        self.set_count(tick, changed);
    }
}

struct EvictNext<'a>(&'a mut Sliding);

impl Task for EvictNext<'_> {
    type Output = ();

    #[inline(always)]
    fn work(self, bits: impl Bits) {
        self.0.evict_next(bits);
    }
}

struct ContainsOne<'a>(&'a Sliding, KeyHash);

impl Task for ContainsOne<'_> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let place = self.0.place(self.1);
        // All lines at once: the slot is known only after the index has been read.
        self.0.fetch(&place);
        self.0.contains_place(bits, &place)
    }
}

struct ContainsBatch<'a>(&'a Sliding, &'a [KeyHash], &'a mut [bool]);

impl Task for ContainsBatch<'_> {
    type Output = ();

    #[inline(always)]
    fn work(self, bits: impl Bits) {
        let Self(filter, keys, out) = self;
        let mut places = filter.places(keys);
        for (at, out) in out.iter_mut().enumerate() {
            let place = places[at % LANES];
            if let Some(key) = keys.get(at + LANES) {
                places[at % LANES] = filter.place(*key);
                filter.fetch(&places[at % LANES]);
            }
            *out = filter.contains_place(bits, &place);
        }
    }
}

struct PushBatch<'a>(&'a mut Sliding, &'a [KeyHash], &'a mut [bool]);

impl Task for PushBatch<'_> {
    type Output = Result<(), Full>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Self::Output {
        let Self(filter, keys, seen) = self;
        let mut places = filter.places(keys);
        for (at, seen) in seen.iter_mut().enumerate() {
            let place = places[at % LANES];
            if let Some(key) = keys.get(at + LANES) {
                places[at % LANES] = filter.place(*key);
                filter.fetch(&places[at % LANES]);
            }
            *seen = filter.push_place(bits, &place).map_err(|full| full.after(at))?;
        }
        Ok(())
    }
}

struct PushOne<'a>(&'a mut Sliding, KeyHash);

impl Task for PushOne<'_> {
    type Output = Result<bool, Full>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Self::Output {
        let place = self.0.place(self.1);
        self.0.fetch(&place);
        self.0.push_place(bits, &place)
    }
}

impl Filter for Sliding {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        run(ContainsOne(self, key))
    }

    /// Returns the number of distinct keys that are remembered.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        run(ContainsBatch(self, keys, &mut out[..keys.len()]));
    }
}

impl Window for Sliding {
    #[inline]
    fn push(&mut self, key: KeyHash) -> Result<bool, Full> {
        run(PushOne(self, key))
    }

    fn push_batch(&mut self, keys: &[KeyHash], seen: &mut [bool]) -> Result<(), Full> {
        assert!(seen.len() >= keys.len(), "`seen` is shorter than `keys`");
        run(PushBatch(self, keys, &mut seen[..keys.len()]))
    }

    fn advance(&mut self, now: u64) {
        if self.shape.ticks.is_none() {
            return;
        }
        let whole = (now / self.length).saturating_mul(1 << self.log);
        let part = ((now % self.length) << self.log) / self.length;
        let clock = whole.saturating_add(part);
        let passed = clock.saturating_sub(self.state[CLOCK]);
        // Once all keys have expired, further ticks make no difference.
        (0..passed.min(self.clock.period())).for_each(|_| self.tick());
        if passed > 0 {
            self.state.to_mut()[CLOCK] = clock;
        }
    }

    fn window(&self) -> u64 {
        self.shape.ticks.unwrap_or(self.shape.keys)
    }

    fn slack(&self) -> u64 {
        self.length * self.layout.stamps - self.window()
    }
}

impl Build for Sliding {
    type Shape = SlidingShape;

    fn shape(&self) -> &SlidingShape {
        &self.shape
    }

    /// Builds the filter by pushing the keys. If there are more than a window of keys has, the last
    /// ones are members. If there are more than a window of time has room for, the build fails with
    /// [`Error::Capacity`].
    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<SlidingShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let mut filter = Self::new(fit(0)?)?;
        let capacity = filter.shape.keys;
        let (mut seen, mut placed) = ([false; 512], 0);
        read_all(options, keys, |run| {
            for batch in run.chunks(seen.len()) {
                filter.push_batch(batch, &mut seen).map_err(|_| Error::Capacity { capacity })?;
            }
            placed += run.len() as u64;
            options.advance(placed, placed)
        })?;
        Ok(filter)
    }
}

impl Persist for Sliding {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let SlidingShape { keys, ticks, generations, width, words, buckets, blocks } = self.shape;
        let ticks = ticks.unwrap_or(0);
        to.shape(&[LAYOUT, keys, ticks, generations, width.into(), words, buckets, blocks]);
        to.words(STATE, &self.state);
        to.words(BLOCKS, &self.blocks);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        // Layout 1 has two fields less.
        if fields.remaining() == 6 {
            return Err(from.corrupt("files of layout 1 must be built again").into());
        }
        fields.next(LAYOUT..=LAYOUT, "layout")?;
        let keys = fields.next(0..=MAX_KEYS, "keys per window")?;
        let ticks = fields.next(0..=MAX_TICKS, "ticks per window")?;
        let generations = fields.next(1..=MAX_GENERATIONS, "generations")?;
        let width = fields.next(1..=MAX_WIDTH.into(), "bits per slot")? as u32;
        let words = fields.next(2..=MAX_WORDS as u64, "words per block")?;
        let buckets = fields.next(1..=64 * MAX_WORDS as u64, "buckets per block")?;
        let blocks = fields.next(1..=MAX_BLOCKS, "blocks")?;
        fields.finish()?;
        let ticks = (ticks > 0).then_some(ticks);
        let shape = SlidingShape::new(keys, ticks, generations, width, words, buckets, blocks)?;
        let state = from.words(STATE, shape.state_words())?;
        if state[TICK] >= shape.all_ticks()
            || state[CURSOR] >= blocks
            || ticks.is_none() && state[PUSHED] > shape.length()
        {
            return Err(from.corrupt("the state of the window is invalid").into());
        }
        let blocks = from.words(BLOCKS, shape.block_words())?;
        let filter = Self::from_parts(shape, len, state, blocks);
        let counts = (0..filter.clock.period()).map(|tick| filter.count(tick));
        if counts.sum::<u64>() != len {
            let what = "the keys of the ticks do not add up to the header's count";
            return Err(from.corrupt(what).into());
        }
        Ok(filter)
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let mut counts = vec![0u64; self.clock.period() as usize];
        let nominal = self.layout.buckets as i64;
        let mut shift = self.head(0).map_or(0, |head| head.shift);
        let first = shift;
        for block in self.blocks.chunks_exact(self.layout.words) {
            let Some(head) = self.layout.check(block) else { return corrupt("a block is invalid") };
            if head.shift != shift {
                return corrupt("a block does not begin where the one before it ends");
            }
            shift += head.buckets as i64 - nominal;
            let lag = self.lag(head);
            self.layout.for_each_slot(block, head, |bucket, _, stamp| {
                let class = self.class((head.shift + bucket as i64).rem_euclid(nominal) as usize);
                let ages = self.clock.ages(class, lag);
                if !ages.is_expired(stamp) {
                    counts[self.clock.expiry(class, ages.age(stamp)) as usize] += 1;
                }
            });
        }
        if shift != first {
            return corrupt("the last block does not end where the first one begins");
        }
        let timed = self.shape.ticks.is_some();
        let padding = (self.clock.period() * u64::from(self.count_width)) % 64;
        let last = self.state[self.state.len() - 1];
        if timed && self.state[PUSHED] > 0
            || !timed && self.state[CLOCK] > 0
            || padding > 0 && last >> padding != 0
        {
            return corrupt("the state of the window is invalid");
        }
        if (0..).zip(&counts).any(|(tick, count)| self.count(tick) != *count) {
            return corrupt("the number of keys that expire at a tick differs from the blocks");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
