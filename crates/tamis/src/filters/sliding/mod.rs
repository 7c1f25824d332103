//! The sliding filter: it contains the last n keys of a stream, or those of the last period of
//! time, and older keys expire.
//!
//! ```text
//!  key ──► two bins, a bucket and a remainder; it goes to the emptier bin
//!
//!  bin   │ index │ remainder, stamp │ remainder, stamp │ …        │ saturated │ epoch │   128 bytes
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
//! | bits per key of the window | 15.4 at 1 %, 19.9 at 0.1 % |
//! | cache lines | 2 to 4, in two pairs |
//! | a push | reads and writes 3 bins, of 79 slots each at 1 %, in the worst case too |
//! | slack | n/8: every key has expired after n + n/8 keys; `generations` sets another part |
//!
//! A push evicts the expired slots of the bins that it uses, and of one more bin in turn, so that
//! every bin is visited before its epoch wraps around. There is no global sweep.
//!
//! Each of the two bins of a key can be computed from the other and the fingerprint, as in a cuckoo
//! filter, but no slot is moved. With two choices all bins are nearly equally full: a bin with 4
//! more keys than the average has a probability of 10^-6, and with 5 more 10^-12. The spare slots
//! are for those; where there are only a few bins, each has more of them. If both bins are full all the same, because an adversary knows the seed or more
//! keys come in the time than planned, the push is refused with `Full`: the key is not remembered,
//! and no other key is affected. The number of keys in a window of time is not known in advance: the
//! filter is sized for a number of keys with the slack, and refuses some of the keys beyond that.
//!
//! The planned rate holds when window and slack are full; the figures state the rate with as many
//! keys as the window has. A filter that refuses keys has all slots in use, which are 4 per bin more
//! than planned; the rate is higher by that share.
//!
//! Keys cannot be removed, and filters cannot be merged. `len` counts the keys that are remembered
//! and can be distinguished.
//!
//! Naor, Yogev, *Sliding Bloom Filters*, 2013. Differences: the paper keeps generations in a
//! dictionary of fingerprints and sweeps it, with O(1) work per step with high probability; here
//! bins replace the dictionary, and expired slots are evicted as bins are visited, so that the
//! bound always holds. The leading terms of the paper, log2(1/fpr) + log2(n/slack), are 9.6 bits
//! per key at 1 %; this filter takes 15.4: 9/8 of the keys are remembered, and each has a slot of
//! 10 bits, 2.9 of the index, 0.5 of spare slots and 0.3 of the bin's head. An age-partitioned
//! Bloom filter (Shtul, Baquero, Almeida 2020) would be simpler, but takes 21 to 24 bits at 1 %; it
//! is not implemented here.

mod bin;

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::range::{mix, scale};
use tamis_bits::select::{Bits, Task, run};
use tamis_bits::{Words, prefetch};
use tamis_format::{Name, Reader, Writer};

use self::bin::{Bin, EPOCH, Expired, Layout, MAX_WIDTH, SIZE, WORDS};
use super::common::usize_words;
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape, check_keys};
use crate::source::{KeySource, read_all};
use crate::traits::{Build, Filter, Persist, Window};

const STATE: Name = Name::new("state");
const BINS: Name = Name::new("bins");
/// With more generations, stamps would take more bits than the smaller slack saves.
const MAX_GENERATIONS: u64 = 64;
const MAX_TICKS: u64 = 1 << 53;
const MAX_BINS: u64 = 1 << 43;
/// Spare slots of a bin beyond its share of the keys, if there are many bins: both bins of a key
/// have that many more in 1 of 10^12 pushes.
const SPARE: f64 = 4.0;
/// The number of bins from which on [`SPARE`] slots suffice.
const MANY_BINS: f64 = 1e4;

/// Returns the spare slots of each of at least `bins` bins.
///
/// One key in `bins` has only one bin, since its second bin is the first one. Such keys fill a bin
/// beyond the others: each further slot in use is about `bins` times as rare. The numbers are fitted
/// to simulations of 2 to 64 bins over 2 * 10^7 pushes: both bins of a key are full in less than 1 of
/// 10^12 pushes.
fn spare(bins: u64) -> u64 {
    let few = 1.0 / (bins as f64).log10() - 1.0 / MANY_BINS.log10();
    (SPARE + (11.0 * few).max(0.0)).ceil().min(24.0) as u64
}

/// Words of the state before the keys of each stamp: the generation, the keys pushed in it, its
/// number by the clock, and the next bin to evict from.
const GENERATION: usize = 0;
const PUSHED: usize = 1;
const CLOCK: usize = 2;
const CURSOR: usize = 3;
const COUNTS: usize = 4;

/// Number of keys of a batch that are prefetched. They are prefetched one by one as keys are
/// processed, which is why the batches have loops of their own: prefetching the four lines each of
/// eight keys at once, as the loop of `common` does, makes the processor drop some.
const LANES: usize = 8;

/// The size of a window of keys or of time, and of the bins for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingShape {
    /// Keys per window.
    keys: u64,
    /// The duration of a window of time; `None` for a window of keys.
    ticks: Option<u64>,
    generations: u64,
    slots: u32,
    width: u32,
    bins: u64,
}

const GENERATIONS: Setting = Setting::new(
    "generations",
    "1 to 64 generations per window; the slack is one generation; default 8",
);
const TICKS: Setting =
    Setting::new("ticks", "1 to 2^53 clock ticks per window; default: a window of keys");

impl SlidingShape {
    /// Returns a shape for a window of `keys` keys, or of `ticks` ticks with about `keys` keys, in
    /// `generations` generations, with `bins` bins of `slots` slots of `width` bits.
    ///
    /// # Errors
    /// [`Error::Limit`] if a parameter is out of range, [`Error::Infeasible`] if the slots do not
    /// fit into a bin.
    pub fn new(
        keys: u64,
        ticks: Option<u64>,
        generations: u64,
        slots: u32,
        width: u32,
        bins: u64,
    ) -> Result<Self, Error> {
        check_keys(keys)?;
        if let Some(asked) = ticks.filter(|ticks| !(1..=MAX_TICKS).contains(ticks)) {
            return Err(Error::Limit { what: "ticks per window", asked, most: MAX_TICKS });
        }
        if !(1..=MAX_GENERATIONS).contains(&generations) {
            let most = MAX_GENERATIONS;
            return Err(Error::Limit { what: "generations", asked: generations, most });
        }
        if !(1..=MAX_BINS).contains(&bins) {
            return Err(Error::Limit { what: "bins", asked: bins, most: MAX_BINS });
        }
        let shape = Self { keys, ticks, generations, slots, width, bins };
        if shape.layout().is_none() {
            return Err(Error::Infeasible { why: "the slots do not fit into a bin of 1024 bits" });
        }
        Ok(shape)
    }

    /// Returns the ticks of a window of time; `None` for a window of keys.
    pub fn ticks(&self) -> Option<u64> {
        self.ticks
    }

    /// Returns the keys, or ticks, per generation.
    fn length(&self) -> u64 {
        self.ticks.unwrap_or(self.keys).div_ceil(self.generations).max(1)
    }

    /// Returns the number of generations that are remembered: the complete ones of a window, and
    /// the current one.
    fn stamps(&self) -> u64 {
        self.ticks.unwrap_or(self.keys).div_ceil(self.length()) + 1
    }

    /// Returns the largest number of keys that are remembered.
    fn max_keys(&self) -> u64 {
        match self.ticks {
            None => self.length() * self.stamps(),
            Some(_) => self.keys + self.keys.div_ceil(self.stamps() - 1),
        }
    }

    fn layout(&self) -> Option<Layout> {
        Layout::new(self.slots, self.width, self.stamps())
    }

    fn checked_layout(&self) -> Layout {
        self.layout().expect("the shape was checked when it was created")
    }

    fn words(&self) -> u64 {
        self.bins * WORDS as u64
    }

    fn state_words(&self) -> u64 {
        COUNTS as u64 + self.stamps()
    }

    /// Returns, for both kinds of fingerprints, their number and the probability that a key has a
    /// particular one.
    ///
    /// A bucket and a remainder in a bin, and the same in the other bin, are one fingerprint. For one
    /// bin on average, the other bin is the same bin.
    fn fingerprints(&self) -> [(f64, f64); 2] {
        let layout = self.checked_layout();
        let (bins, marks) = (self.bins as f64, layout.buckets as f64 * layout.remainders as f64);
        [((bins - 1.0) * marks / 2.0, 2.0 / (bins * marks)), (marks, 1.0 / (bins * marks))]
    }

    /// Returns the expected sum of `of` over the fingerprints that at least one of `keys` keys has.
    fn sum(&self, keys: f64, of: impl Fn(f64) -> f64) -> f64 {
        let any = |chance: f64| -(keys * (-chance).ln_1p()).exp_m1();
        let sum = |(count, chance): (f64, f64)| count * of(chance) * any(chance);
        if keys > 0.0 {
            self.fingerprints().into_iter().filter(|(count, _)| *count > 0.0).map(sum).sum()
        } else {
            0.0
        }
    }

    /// Returns the false positive rate: the probability that one of `keys` distinct keys has the
    /// fingerprint of a non-member.
    fn rate(&self, keys: f64) -> f64 {
        self.sum(keys, |chance| chance).min(1.0)
    }

    /// Returns the expected number of distinct keys that have this number of distinct fingerprints.
    fn arrived(&self, fingerprints: u64) -> f64 {
        let fingerprints = fingerprints as f64;
        let (mut low, mut high) =
            (fingerprints, 64.0 * self.fingerprints().map(|(n, _)| n).iter().sum::<f64>());
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            *(if self.sum(middle, |_| 1.0) < fingerprints { &mut low } else { &mut high }) = middle;
        }
        low
    }
}

impl Shape for SlidingShape {
    const SETTINGS: &'static [Setting] = &[GENERATIONS, TICKS];

    /// Returns the shape with the fewest bins over all slots and widths, and among those the one
    /// with the lowest rate.
    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let generations = settings.number(&GENERATIONS, |n| (1..=MAX_GENERATIONS).contains(&n))?;
        let ticks = settings.number(&TICKS, |n| (1..=MAX_TICKS).contains(&n))?;
        let generations = generations.unwrap_or(8);
        let bare = Self { keys, ticks, generations, slots: 0, width: 0, bins: 1 };
        let (stamps, most) = (bare.stamps(), bare.max_keys());
        let room = SIZE as u32 - EPOCH;
        let mut best: Option<(u64, f64, Self)> = None;
        for width in 1..=MAX_WIDTH {
            for slots in 1..room / (width + 1) {
                let Some(layout) = Layout::new(slots, width, stamps) else { break };
                let bins = match u64::from(slots) {
                    all if most <= all => 1,
                    all => {
                        let bins = most.div_ceil(all).max(2);
                        let Some(share @ 1..) = all.checked_sub(spare(bins)) else { continue };
                        most.div_ceil(share).max(bins)
                    }
                };
                let fewest = best.as_ref().map_or(MAX_BINS, |best| best.0);
                if bins > fewest {
                    continue;
                }
                // Enough fingerprints that at most a share `fpr` of the non-members has one of the
                // keys'.
                let marks = layout.buckets as f64 * layout.remainders as f64;
                let places = if bins == 1 { 1.0 } else { 2.0 };
                let bins = bins.max((places * most as f64 / marks / -(-fpr).ln_1p()).ceil() as u64);
                if bins > fewest {
                    continue;
                }
                let shape = Self { slots, width, bins, ..bare.clone() };
                let rate = shape.rate(most as f64);
                let better = best.as_ref().is_none_or(|best| (bins, rate) < (best.0, best.1));
                if rate <= fpr && better {
                    best = Some((bins, rate, shape));
                }
            }
        }
        best.map(|best| best.2)
            .ok_or(Error::Infeasible { why: "the rate is too low for bins of 1024 bits" })
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("generations", self.generations.into()), ("bins", self.bins.into())].into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.rate(self.keys as f64),
            bytes: (tamis_bits::lines(self.words()) + tamis_bits::lines(self.state_words())) * 64,
            // Twice that of `counting_quotient`, measured with `tamis bench --keys 10M --fpr 1%`:
            // two bins of two adjacent lines each, and a position to find in each.
            query_cost: 7.0,
        }
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    /// Returns the rate with `keys` remembered keys, which are slightly fewer than have arrived.
    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { self.rate(self.arrived(keys)) }
    }
}

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
    /// Cached results of divisions, which would be slow in a push.
    length: u64,
    now: u64,
    len: u64,
    state: Words,
    bins: Words,
}

/// The place of a key.
#[derive(Clone, Copy)]
struct Place {
    bins: [usize; 2],
    /// Bucket and remainder, the same in both bins.
    fingerprint: (usize, u64),
}

impl Sliding {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the bins cannot be allocated.
    pub fn new(shape: SlidingShape) -> Result<Self, Error> {
        let bins = Words::zeroed(usize_words(shape.words())?)?;
        let state = Words::zeroed(usize_words(shape.state_words())?)?;
        Ok(Self::from_parts(shape, 0, state, bins))
    }

    fn from_parts(shape: SlidingShape, len: u64, state: Words, bins: Words) -> Self {
        let (layout, length) = (shape.checked_layout(), shape.length());
        let now = state[GENERATION] % layout.stamps;
        Self { shape, layout, length, now, len, state, bins }
    }

    #[inline(always)]
    fn place(&self, key: KeyHash) -> Place {
        let Layout { buckets, remainders, .. } = self.layout;
        // The first bin must be independent of the fingerprint.
        let product = u128::from(mix(key.lo ^ key.hi.rotate_left(32))) * buckets as u128;
        let fingerprint = ((product >> 64) as usize, scale(product as u64, remainders));
        // Keys with this fingerprint in one of the bins have the same other bin. So a fingerprint
        // has one slot, and a key that would add a slot renews an existing one. With independent
        // second bins, expired keys would cause 1.5 times as many false positives.
        let bins = self.shape.bins;
        let first = scale(key.hi, bins);
        let sum = scale(mix(fingerprint.0 as u64 * remainders + fingerprint.1), bins);
        let second = if sum >= first { sum - first } else { sum + bins - first };
        Place { bins: [first as usize, second as usize], fingerprint }
    }

    #[inline(always)]
    fn bin(&self, bin: usize) -> &Bin {
        &self.bins.as_chunks().0[bin]
    }

    #[inline(always)]
    fn fetch(&self, place: &Place) {
        for bin in place.bins {
            prefetch(&self.bins, bin * WORDS);
            prefetch(&self.bins, bin * WORDS + tamis_bits::LINE_WORDS);
        }
    }

    /// Returns the places of the first keys and prefetches their bins.
    #[inline(always)]
    fn places(&self, keys: &[KeyHash]) -> [Place; LANES] {
        let mut places = [Place { bins: [0; 2], fingerprint: (0, 0) }; LANES];
        for (place, key) in places.iter_mut().zip(keys) {
            *place = self.place(*key);
            self.fetch(place);
        }
        places
    }

    /// Returns what the stamps of a bin mean now.
    #[inline(always)]
    fn ages(&self, bin: &Bin) -> Ages {
        let passed = self.state[GENERATION].wrapping_sub(Layout::epoch(bin))
            & tamis_bits::packed::mask(EPOCH);
        Ages { now: self.now, passed, stamps: self.layout.stamps }
    }

    #[inline(always)]
    fn contains_place(&self, bits: impl Bits, place: &Place) -> bool {
        let [first, second] = [self.bin(place.bins[0]), self.bin(place.bins[1])];
        let contains = |bin: &Bin| {
            let (found, _) = self.layout.find(bits, bin, place.fingerprint);
            matches!(found, Ok((_, stamp)) if !self.ages(bin).is_expired(stamp))
        };
        let saturated = || {
            let stamp = self.layout.saturated(first);
            matches!(stamp, Some(stamp) if !self.ages(first).is_expired(stamp))
        };
        contains(first) || contains(second) || saturated()
    }

    /// Evicts the expired slots of a bin.
    #[inline(always)]
    fn evict(&mut self, bin: usize) {
        let ages = self.ages(self.bin(bin));
        if ages.passed > 0 {
            self.evict_now(bin, ages);
        }
    }

    #[inline(never)]
    fn evict_now(&mut self, bin: usize, ages: Ages) {
        run(Evict(self, bin, ages));
    }

    #[inline(always)]
    fn evict_next(&mut self) {
        let bin = self.state[CURSOR];
        self.evict(bin as usize);
        self.state.to_mut()[CURSOR] = if bin + 1 < self.shape.bins { bin + 1 } else { 0 };
    }

    /// Begins the next generation; the oldest one expires.
    #[cold]
    fn next_generation(&mut self) {
        let generation = self.state[GENERATION].wrapping_add(1);
        self.now = generation % self.layout.stamps;
        let oldest = COUNTS + self.now as usize;
        self.len = self.len.saturating_sub(self.state[oldest]);
        let state = self.state.to_mut();
        (state[GENERATION], state[PUSHED], state[oldest]) = (generation, 0, 0);
        // Visits every bin within 2^15 generations, since an epoch wraps around after 2^16.
        for _ in 0..=self.shape.bins >> (EPOCH - 1) {
            self.evict_next();
        }
    }

    #[inline(always)]
    fn push_place(&mut self, bits: impl Bits, place: &Place) -> Result<bool, Full> {
        if self.shape.ticks.is_none() {
            if self.state[PUSHED] >= self.length {
                self.next_generation();
            }
            self.state.to_mut()[PUSHED] += 1;
        }
        self.evict_next();
        let [first, second] = place.bins;
        self.evict(first);
        self.evict(second);
        let (layout, now) = (&self.layout, self.now);
        let bins = self.bins.to_mut().as_chunks_mut().0;
        let (in_first, used_first) = layout.find(bits, &bins[first], place.fingerprint);
        let (in_second, used_second) = layout.find(bits, &bins[second], place.fingerprint);
        match (in_first, in_second) {
            (Ok((slot, stamp)), _) | (_, Ok((slot, stamp))) => {
                if stamp != now {
                    let bin = if in_first.is_ok() { first } else { second };
                    layout.restamp(&mut bins[bin], slot, stamp, now);
                    self.count(stamp, -1);
                    self.count(now, 1);
                }
                Ok(true)
            }
            (Err(in_first), Err(in_second)) => {
                let seen = layout.saturated(&bins[first]).is_some();
                let (bin, begin, used) = if used_second < used_first {
                    (second, in_second, used_second)
                } else {
                    (first, in_first, used_first)
                };
                if used >= layout.slots {
                    return Err(Full::NONE);
                }
                layout.insert(&mut bins[bin], begin, used, place.fingerprint, now);
                self.count(now, 1);
                Ok(seen)
            }
        }
    }

    #[inline(always)]
    fn count(&mut self, stamp: u64, by: i64) {
        let count = &mut self.state.to_mut()[COUNTS + stamp as usize];
        // It saturates only in a damaged file; `len` stays the sum of the counts.
        let counted = count.saturating_add_signed(by);
        self.len = self.len.saturating_sub(*count).saturating_add(counted);
        *count = counted;
    }
}

/// The meaning of a bin's stamps in the current generation.
#[derive(Clone, Copy)]
struct Ages {
    now: u64,
    /// Generations since the last eviction from the bin.
    passed: u64,
    stamps: u64,
}

impl Ages {
    #[inline(always)]
    fn is_expired(self, stamp: u64) -> bool {
        // In a damaged file, the stamp of a saturated bin may be too large.
        let before = if stamp <= self.now { self.now } else { self.now + self.stamps };
        let age = before.saturating_sub(stamp);
        // Ages are modulo the number of stamps: a stamp that seems younger than the last eviction
        // is from the round before.
        age < self.passed || self.passed >= self.stamps
    }

    /// Returns the expired stamps as a range that ends with the current one.
    #[inline(always)]
    fn expired(self) -> Expired {
        let count = self.passed.min(self.stamps);
        let from = if count <= self.now + 1 {
            self.now + 1 - count
        } else {
            self.now + 1 + self.stamps - count
        };
        Expired { from, count }
    }
}

struct Evict<'a>(&'a mut Sliding, usize, Ages);

impl Task for Evict<'_> {
    type Output = ();

    #[inline(always)]
    fn work(self, bits: impl Bits) {
        let Self(filter, bin, ages) = self;
        let epoch = filter.state[GENERATION] & tamis_bits::packed::mask(EPOCH);
        let bin = &mut filter.bins.to_mut().as_chunks_mut().0[bin];
        filter.layout.evict(bits, bin, epoch, ages.expired());
    }
}

struct ContainsOne<'a>(&'a Sliding, KeyHash);

impl Task for ContainsOne<'_> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let place = self.0.place(self.1);
        // All lines at once: a misprediction in the first bin would delay the reads of the second.
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
        let clock = now / self.length;
        let passed = clock.saturating_sub(self.state[CLOCK]);
        // Once all keys have expired, further generations make no difference.
        (0..passed.min(self.layout.stamps)).for_each(|_| self.next_generation());
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
        let (mut seen, mut placed) = (Vec::new(), 0);
        read_all(options, keys, |run| {
            seen.resize(run.len(), false);
            filter.push_batch(run, &mut seen).map_err(|_| Error::Capacity { capacity })?;
            placed += run.len() as u64;
            options.advance(placed, placed)
        })?;
        Ok(filter)
    }
}

impl Persist for Sliding {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let SlidingShape { keys, ticks, generations, slots, width, bins } = self.shape;
        to.shape(&[keys, ticks.unwrap_or(0), generations, slots.into(), width.into(), bins]);
        to.words(STATE, &self.state);
        to.words(BINS, &self.bins);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let keys = fields.next(0..=MAX_KEYS, "keys per window")?;
        let ticks = fields.next(0..=MAX_TICKS, "ticks per window")?;
        let generations = fields.next(1..=MAX_GENERATIONS, "generations")?;
        let slots = fields.next(1..=SIZE as u64, "slots per bin")? as u32;
        let width = fields.next(1..=MAX_WIDTH.into(), "bits per slot")? as u32;
        let bins = fields.next(1..=MAX_BINS, "bins")?;
        fields.finish()?;
        let ticks = (ticks > 0).then_some(ticks);
        let shape = SlidingShape::new(keys, ticks, generations, slots, width, bins)?;
        let state = from.words(STATE, shape.state_words())?;
        let sum = state[COUNTS..].iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
        if sum != Some(len) {
            return Err(from
                .corrupt("the keys of the generations do not add up to the header's count")
                .into());
        }
        if state[CURSOR] >= bins || ticks.is_none() && state[PUSHED] > shape.length() {
            return Err(from.corrupt("the state of the window is invalid").into());
        }
        let bins = from.words(BINS, shape.words())?;
        Ok(Self::from_parts(shape, len, state, bins))
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let mut counts = vec![0; self.layout.stamps as usize];
        for bin in self.bins.as_chunks().0 {
            if !self.layout.is_sound(bin) {
                return corrupt("a bin is invalid");
            }
            let ages = self.ages(bin);
            self.layout.for_each_slot(bin, |_, _, stamp| {
                counts[stamp as usize] += u64::from(!ages.is_expired(stamp));
            });
        }
        let timed = self.shape.ticks.is_some();
        match timed && self.state[PUSHED] > 0 || !timed && self.state[CLOCK] > 0 {
            true => corrupt("the state of the window is invalid"),
            false if self.state[COUNTS..] != counts => {
                corrupt("the number of keys of a generation differs from the bins")
            }
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
