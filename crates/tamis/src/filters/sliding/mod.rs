//! The sliding filter: it remembers the last n keys of a stream, or those of the last while, and forgets
//! the others by itself.
//!
//! ```text
//!  key ──► two bins of many, a bucket and a remainder; it goes where fewer are
//!
//!  bin   │ index │ remainder, stamp │ remainder, stamp │ …        │ wild │ epoch │   128 bytes
//!
//!  generations     1 2 3 4 5 6 7 8 9 10 …                  stamp = generation modulo 9
//!                    └───────────────┘ └─ now              of n/8 keys each
//!                      8 whole ones: the window
//! ```
//!
//! A generation is n/8 keys, or an eighth of the time. A key in one of the last eight whole generations or
//! in the one at hand is a member; what is older is taken for a stranger, whether its slot has been
//! cleared or not. A key that comes again gets a new stamp.
//!
//! | figure | |
//! | --- | --- |
//! | bits a key of the window | 15.4 at 1 %, 19.9 at 0.1 % |
//! | cache lines | 2 to 4, in two pairs |
//! | a push | touches 3 bins, of 79 slots each at 1 %, whatever came before |
//! | slack | n/8: forgotten for certain after n + n/8 keys; `generations` sets another part |
//!
//! No push does more than that: whoever comes to a bin tidies it, and every push tidies one bin more, in
//! turn, so that no bin is forgotten until its epoch has come round. There is no sweep to wait for.
//!
//! The two bins of a key follow from each other and from its mark, as in a cuckoo filter, but nobody moves.
//! Two to choose from make all of them nearly equally full: a bin with 4 more than the average is one
//! in a million, and with 5 more one in 10^12. That is what the spare slots are for. Should both bins
//! be full all the same, because someone knows the seed or more keys come in the time than it was made for,
//! the first of them takes every key for a member until that one has grown old. So it never denies a key of the
//! window, and never fails. A window of time does not know how many keys will come: it is made for a number
//! of keys in a window, and lets more strangers in when there are more.
//!
//! The rate that it is made for holds when window and slack are full; its figures tell the rate with as many
//! keys as the window has.
//!
//! It cannot take a key out, nor merge. It counts the keys that it remembers and can tell apart.
//!
//! Naor, Yogev, *Sliding Bloom Filters*, 2013. Differences: they keep generations in a dictionary of
//! fingerprints and sweep it, at O(1) a step with high probability; here bins replace the dictionary and are
//! tidied as they are met, so that the bound holds always. Their leading terms, log2(1/fpr) + log2(n/slack),
//! are 9.6 bits a key at 1 % where this takes 15.4: 9/8 of the keys are remembered, and each has a slot of 10
//! bits, 2.9 of the index, 0.5 of spare slots and 0.3 of the bin's head. An age-partitioned Bloom filter (Shtul,
//! Baquero, Almeida 2020) would be simpler, and takes 21 to 24 bits at 1 %: it is not here.

mod bin;

use tamis_bits::range::{mix, scale};
use tamis_bits::select::{Bits, Task, run};
use tamis_bits::{Words, prefetch};
use tamis_format::{Name, Reader, Writer};

use self::bin::{Bin, EPOCH, Layout, MAX_WIDTH, Old, SIZE, WORDS};
use super::common::usize_words;
use crate::error::Error;
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape, check_keys};
use crate::source::{KeySource, read_keys};
use crate::traits::{Build, Filter, Persist, Window};

const STATE: Name = Name::new("state");
const BINS: Name = Name::new("bins");
/// More would take more for stamps than they save in slack.
const MAX_GENERATIONS: u64 = 64;
const MAX_TICKS: u64 = 1 << 53;
const MAX_BINS: u64 = 1 << 43;
/// Slots of a bin more than its share of the keys: two bins that both have that many are one push in 10^12.
const SPARE: u64 = 4;

/// Words of the state before the keys of each stamp: the generation, keys pushed in it, its number by the
/// clock, and the bin to tidy next.
const GENERATION: usize = 0;
const PUSHED: usize = 1;
const CLOCK: usize = 2;
const TURN: usize = 3;
const COUNTS: usize = 4;

/// Keys of a batch whose bins are on their way. They are asked for one by one as keys are done: of the four
/// lines each of eight keys at once the machine drops some.
const LANES: usize = 8;

/// A window of keys or of time, and bins to remember it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingShape {
    /// Keys of a window.
    keys: u64,
    /// What a window lasts, if that is a time.
    ticks: Option<u64>,
    generations: u64,
    slots: u32,
    width: u32,
    bins: u64,
}

const PARTS: Setting =
    Setting::new("generations", "1 to 64 generations a window, whose slack is one more; else 8");
const TICKS: Setting =
    Setting::new("ticks", "1 to 2^53 ticks of a clock that a window lasts; else it is of keys");

impl SlidingShape {
    /// A shape by hand: a window of so many keys, or of so many ticks with about so many keys, in so
    /// many generations; bins of so many slots of so many bits.
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
            return Err(Error::Limit { what: "ticks of a window", asked, most: MAX_TICKS });
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
            return Err(Error::Infeasible { why: "a bin has 1024 bits" });
        }
        Ok(shape)
    }

    /// Keys, or ticks, of a generation.
    fn length(&self) -> u64 {
        self.ticks.unwrap_or(self.keys).div_ceil(self.generations).max(1)
    }

    /// Generations that are remembered: the whole ones of a window, and the one at hand.
    fn stamps(&self) -> u64 {
        self.ticks.unwrap_or(self.keys).div_ceil(self.length()) + 1
    }

    /// Keys that it remembers at the most.
    fn most(&self) -> u64 {
        match self.ticks {
            None => self.length() * self.stamps(),
            Some(_) => self.keys + self.keys.div_ceil(self.stamps() - 1),
        }
    }

    fn layout(&self) -> Option<Layout> {
        Layout::new(self.slots, self.width, self.stamps())
    }

    fn sound_layout(&self) -> Layout {
        self.layout().expect("a shape was checked when it was made")
    }

    fn words(&self) -> u64 {
        self.bins * WORDS as u64
    }

    fn state_words(&self) -> u64 {
        COUNTS as u64 + self.stamps()
    }

    /// Two places that stand for each other are a fingerprint: a mark in a bin and in the bin that is its
    /// other. In one bin of all, on average, the other is the same, and the fingerprint is one place.
    ///
    /// How many of both there are, and how likely a key is to have a particular one.
    fn fingerprints(&self) -> [(f64, f64); 2] {
        let layout = self.sound_layout();
        let (bins, marks) = (self.bins as f64, layout.buckets as f64 * layout.remainders as f64);
        [((bins - 1.0) * marks / 2.0, 2.0 / (bins * marks)), (marks, 1.0 / (bins * marks))]
    }

    /// The sum of something over the fingerprints that at least one of so many keys has, on average.
    fn sum(&self, keys: f64, of: impl Fn(f64) -> f64) -> f64 {
        let any = |chance: f64| -(keys * (-chance).ln_1p()).exp_m1();
        let sum = |(count, chance): (f64, f64)| count * of(chance) * any(chance);
        if keys > 0.0 {
            self.fingerprints().into_iter().filter(|(count, _)| *count > 0.0).map(sum).sum()
        } else {
            0.0
        }
    }

    /// A stranger passes if one of so many different keys has its fingerprint.
    fn rate(&self, keys: f64) -> f64 {
        self.sum(keys, |chance| chance).min(1.0)
    }

    /// How many different keys have so many fingerprints between them.
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
    const SETTINGS: &'static [Setting] = &[PARTS, TICKS];

    /// The fewest bins of all slots and widths, and of those the lowest rate.
    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let generations = settings.number(&PARTS, |n| (1..=MAX_GENERATIONS).contains(&n))?;
        let ticks = settings.number(&TICKS, |n| (1..=MAX_TICKS).contains(&n))?;
        let generations = generations.unwrap_or(8);
        let bare = Self { keys, ticks, generations, slots: 0, width: 0, bins: 1 };
        let (stamps, most) = (bare.stamps(), bare.most());
        let room = SIZE as u32 - EPOCH;
        let mut best: Option<(u64, f64, Self)> = None;
        for width in 1..=MAX_WIDTH {
            for slots in 1..room / (width + 1) {
                let Some(layout) = Layout::new(slots, width, stamps) else { break };
                let bins = match u64::from(slots) {
                    all if most <= all => 1,
                    all if all > SPARE => most.div_ceil(all - SPARE).max(2),
                    _ => continue,
                };
                let fewest = best.as_ref().map_or(MAX_BINS, |best| best.0);
                if bins > fewest {
                    continue;
                }
                // So few keys for all fingerprints that a stranger has none of theirs more often than that.
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
        best.map(|best| best.2).ok_or(Error::Infeasible { why: "no bins of it are so precise" })
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.rate(self.keys as f64),
            bytes: (tamis_bits::lines(self.words()) + tamis_bits::lines(self.state_words())) * 64,
            // Twice that of `counting_quotient`, as `tamis bench --keys 10M --fpr 1%` has it: two bins of two
            // lines each, next to each other, and in each a place to find.
            query_cost: 7.0,
        }
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    /// Of keys that are remembered: somewhat fewer than have arrived.
    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { self.rate(self.arrived(keys)) }
    }
}

/// A sliding filter.
///
/// ```
/// use tamis::{Keyed, Sliding};
///
/// let mut recent = Keyed::<Sliding>::with_window(1000, 0.001)?;
/// assert!(!recent.push("apple")); // new
/// assert!(recent.push("apple")); // seen
/// for key in 0..2000u64 {
///     recent.push(&key);
/// }
/// assert!(recent.contains(&1500u64) && !recent.contains("apple"));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sliding {
    shape: SlidingShape,
    layout: Layout,
    /// What divisions say of the shape and of the generation: a push has no time for any.
    length: u64,
    now: u64,
    len: u64,
    state: Words,
    bins: Words,
}

/// Where a key lives.
#[derive(Clone, Copy)]
struct Place {
    bins: [usize; 2],
    /// Bucket and remainder, in either bin.
    mark: (usize, u64),
}

impl Sliding {
    /// An empty filter.
    pub fn new(shape: SlidingShape) -> Result<Self, Error> {
        let bins = Words::zeroed(usize_words(shape.words())?)?;
        let state = Words::zeroed(usize_words(shape.state_words())?)?;
        Ok(Self::of(shape, 0, state, bins))
    }

    fn of(shape: SlidingShape, len: u64, state: Words, bins: Words) -> Self {
        let (layout, length) = (shape.sound_layout(), shape.length());
        let now = state[GENERATION] % layout.stamps;
        Self { shape, layout, length, now, len, state, bins }
    }

    #[inline(always)]
    fn place(&self, key: KeyHash) -> Place {
        let Layout { buckets, remainders, .. } = self.layout;
        // Neither half of a hash may say both where and what.
        let product = u128::from(mix(key.lo ^ key.hi.rotate_left(32))) * buckets as u128;
        let mark = ((product >> 64) as usize, scale(product as u64, remainders));
        // Whoever has this mark in one of the bins has the other bin too: so a fingerprint has one slot, and
        // what prolongs its life is what would have made it anew. With a second bin for each key there
        // would be half as many ghosts again of keys that are forgotten.
        let bins = self.shape.bins;
        let first = scale(key.hi, bins);
        let sum = scale(mix(mark.0 as u64 * remainders + mark.1), bins);
        let second = if sum >= first { sum - first } else { sum + bins - first };
        Place { bins: [first as usize, second as usize], mark }
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

    /// Where the first few keys live, whose bins are asked for.
    #[inline(always)]
    fn places(&self, keys: &[KeyHash]) -> [Place; LANES] {
        let mut places = [Place { bins: [0; 2], mark: (0, 0) }; LANES];
        for (place, key) in places.iter_mut().zip(keys) {
            *place = self.place(*key);
            self.fetch(place);
        }
        places
    }

    /// How to tell old stamps in a bin.
    #[inline(always)]
    fn ages(&self, bin: &Bin) -> Ages {
        let passed = self.state[GENERATION].wrapping_sub(Layout::epoch(bin))
            & tamis_bits::packed::mask(EPOCH);
        Ages { now: self.now, passed, stamps: self.layout.stamps }
    }

    #[inline(always)]
    fn has(&self, bits: impl Bits, place: &Place) -> bool {
        let [first, second] = [self.bin(place.bins[0]), self.bin(place.bins[1])];
        let has = |bin: &Bin| {
            let (found, _) = self.layout.find(bits, bin, place.mark);
            matches!(found, Ok((_, stamp)) if !self.ages(bin).is_old(stamp))
        };
        let wild =
            || matches!(self.layout.wild(first), Some(stamp) if !self.ages(first).is_old(stamp));
        has(first) || has(second) || wild()
    }

    /// Takes the slots of old keys out of a bin.
    #[inline(always)]
    fn tidy(&mut self, bin: usize) {
        let ages = self.ages(self.bin(bin));
        if ages.passed > 0 {
            self.tidy_now(bin, ages);
        }
    }

    #[inline(never)]
    fn tidy_now(&mut self, bin: usize, ages: Ages) {
        run(Tidy(self, bin, ages));
    }

    #[inline(always)]
    fn tidy_next(&mut self) {
        let bin = self.state[TURN];
        self.tidy(bin as usize);
        self.state.to_mut()[TURN] = if bin + 1 < self.shape.bins { bin + 1 } else { 0 };
    }

    /// The next generation begins, and the oldest ends.
    #[cold]
    fn turn(&mut self) {
        let generation = self.state[GENERATION].wrapping_add(1);
        self.now = generation % self.layout.stamps;
        let oldest = COUNTS + self.now as usize;
        self.len -= self.state[oldest];
        let state = self.state.to_mut();
        (state[GENERATION], state[PUSHED], state[oldest]) = (generation, 0, 0);
        // Every bin before 2^15 generations have passed: an epoch is told from one 2^16 earlier.
        for _ in 0..=self.shape.bins >> (EPOCH - 1) {
            self.tidy_next();
        }
    }

    #[inline(always)]
    fn push_to(&mut self, bits: impl Bits, place: &Place) -> bool {
        if self.shape.ticks.is_none() {
            if self.state[PUSHED] >= self.length {
                self.turn();
            }
            self.state.to_mut()[PUSHED] += 1;
        }
        self.tidy_next();
        let [first, second] = place.bins;
        self.tidy(first);
        self.tidy(second);
        let (layout, now) = (&self.layout, self.now);
        let bins = self.bins.to_mut().as_chunks_mut().0;
        let (in_first, used_first) = layout.find(bits, &bins[first], place.mark);
        let (in_second, used_second) = layout.find(bits, &bins[second], place.mark);
        match (in_first, in_second) {
            (Ok((slot, stamp)), _) | (_, Ok((slot, stamp))) => {
                if stamp != now {
                    let bin = if in_first.is_ok() { first } else { second };
                    layout.restamp(&mut bins[bin], slot, stamp, now);
                    self.count(stamp, -1);
                    self.count(now, 1);
                }
                true
            }
            (Err(in_first), Err(in_second)) => {
                let seen = layout.wild(&bins[first]).is_some();
                let (bin, begin, used) = if used_second < used_first {
                    (second, in_second, used_second)
                } else {
                    (first, in_first, used_first)
                };
                if used < layout.slots {
                    layout.insert(&mut bins[bin], begin, used, place.mark, now);
                    self.count(now, 1);
                } else {
                    layout.set_wild(&mut bins[first], Some(now));
                }
                seen
            }
        }
    }

    #[inline(always)]
    fn count(&mut self, stamp: u64, by: i64) {
        let count = &mut self.state.to_mut()[COUNTS + stamp as usize];
        // It saturates only if a file lied; the sum stays the sum.
        let counted = count.saturating_add_signed(by);
        self.len = (self.len - *count).saturating_add(counted);
        *count = counted;
    }
}

/// What a bin's stamps mean now.
#[derive(Clone, Copy)]
struct Ages {
    now: u64,
    /// Generations since the bin was tidied.
    passed: u64,
    stamps: u64,
}

impl Ages {
    #[inline(always)]
    fn is_old(self, stamp: u64) -> bool {
        let age = if stamp <= self.now { self.now - stamp } else { self.now + self.stamps - stamp };
        // Ages count from now and modulo the stamps: what seems younger than the bin's last tidying is
        // from the round before.
        age < self.passed || self.passed >= self.stamps
    }

    /// The same, as a row of stamps that ends now.
    #[inline(always)]
    fn old(self) -> Old {
        let count = self.passed.min(self.stamps);
        let from = if count <= self.now + 1 {
            self.now + 1 - count
        } else {
            self.now + 1 + self.stamps - count
        };
        Old { from, count }
    }
}

struct Tidy<'a>(&'a mut Sliding, usize, Ages);

impl Task for Tidy<'_> {
    type Output = ();

    #[inline(always)]
    fn work(self, bits: impl Bits) {
        let Self(filter, bin, ages) = self;
        let epoch = filter.state[GENERATION] & tamis_bits::packed::mask(EPOCH);
        let bin = &mut filter.bins.to_mut().as_chunks_mut().0[bin];
        filter.layout.tidy(bits, bin, epoch, ages.old());
    }
}

struct Contains<'a>(&'a Sliding, KeyHash);

impl Task for Contains<'_> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let place = self.0.place(self.1);
        // All lines at once: a guess that goes wrong in the first bin would keep the other's waiting.
        self.0.fetch(&place);
        self.0.has(bits, &place)
    }
}

struct ContainsEach<'a>(&'a Sliding, &'a [KeyHash], &'a mut [bool]);

impl Task for ContainsEach<'_> {
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
            *out = filter.has(bits, &place);
        }
    }
}

struct PushEach<'a>(&'a mut Sliding, &'a [KeyHash], &'a mut [bool]);

impl Task for PushEach<'_> {
    type Output = ();

    #[inline(always)]
    fn work(self, bits: impl Bits) {
        let Self(filter, keys, seen) = self;
        let mut places = filter.places(keys);
        for (at, seen) in seen.iter_mut().enumerate() {
            let place = places[at % LANES];
            if let Some(key) = keys.get(at + LANES) {
                places[at % LANES] = filter.place(*key);
                filter.fetch(&places[at % LANES]);
            }
            *seen = filter.push_to(bits, &place);
        }
    }
}

struct Push<'a>(&'a mut Sliding, KeyHash);

impl Task for Push<'_> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let place = self.0.place(self.1);
        self.0.fetch(&place);
        self.0.push_to(bits, &place)
    }
}

impl Filter for Sliding {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        run(Contains(self, key))
    }

    /// Different keys that it remembers.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        run(ContainsEach(self, keys, &mut out[..keys.len()]));
    }
}

impl Window for Sliding {
    #[inline]
    fn push(&mut self, key: KeyHash) -> bool {
        run(Push(self, key))
    }

    fn push_batch(&mut self, keys: &[KeyHash], seen: &mut [bool]) {
        assert!(seen.len() >= keys.len(), "an answer for each key");
        run(PushEach(self, keys, &mut seen[..keys.len()]));
    }

    fn advance(&mut self, now: u64) {
        if self.shape.ticks.is_none() {
            return;
        }
        let clock = now / self.length;
        let passed = clock.saturating_sub(self.state[CLOCK]);
        // When all are old it makes no difference how old.
        (0..passed.min(self.layout.stamps)).for_each(|_| self.turn());
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

    /// Of more keys than its window has, the last are in.
    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<SlidingShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let mut filter = Self::new(fit(0)?)?;
        let (mut seen, mut placed) = (Vec::new(), 0);
        read_keys(options, keys, |run| {
            seen.resize(run.len(), false);
            filter.push_batch(run, &mut seen);
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
        let keys = fields.next(0..=MAX_KEYS, "keys of a window")?;
        let ticks = fields.next(0..=MAX_TICKS, "ticks of a window")?;
        let generations = fields.next(1..=MAX_GENERATIONS, "generations")?;
        let slots = fields.next(1..=SIZE as u64, "slots of a bin")? as u32;
        let width = fields.next(1..=MAX_WIDTH.into(), "bits of a slot")? as u32;
        let bins = fields.next(1..=MAX_BINS, "bins")?;
        fields.finish()?;
        let ticks = (ticks > 0).then_some(ticks);
        let shape = SlidingShape::new(keys, ticks, generations, slots, width, bins)?;
        let state = from.words(STATE, shape.state_words())?;
        let sum = state[COUNTS..].iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
        if sum != Some(len) {
            return Err(from.corrupt("the generations do not add up to the keys").into());
        }
        if state[TURN] >= bins || ticks.is_none() && state[PUSHED] > shape.length() {
            return Err(from.corrupt("the state is none of such a window").into());
        }
        let bins = from.words(BINS, shape.words())?;
        Ok(Self::of(shape, len, state, bins))
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let mut counts = vec![0; self.layout.stamps as usize];
        for bin in self.bins.as_chunks().0 {
            if !self.layout.is_sound(bin) {
                return corrupt("a bin is none");
            }
            let ages = self.ages(bin);
            self.layout.each(bin, |_, _, stamp| {
                counts[stamp as usize] += u64::from(!ages.is_old(stamp));
            });
        }
        let timed = self.shape.ticks.is_some();
        match timed && self.state[PUSHED] > 0 || !timed && self.state[CLOCK] > 0 {
            true => corrupt("the state is none of such a window"),
            false if self.state[COUNTS..] != counts => {
                corrupt("the bins do not hold the keys of each generation")
            }
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> KeyHash {
        KeyHash { hi: mix(number), lo: mix(number ^ u64::MAX) }
    }

    #[test]
    fn sizes() {
        for (fpr, most) in [(1e-2, 15.37), (1e-3, 19.9), (1e-6, 33.9)] {
            let bits = SlidingShape::fit(1_000_000, fpr).unwrap().figures().bits_per_key();
            assert!((most - 0.2..most).contains(&bits), "{bits} at {fpr}");
        }
    }

    /// A push changes its two bins and the one whose turn it is; when a generation begins, one more.
    #[test]
    fn a_push_touches_three_bins() {
        let mut filter = Sliding::new(SlidingShape::fit(3000, 0.01).unwrap()).unwrap();
        let (mut worst, mut slots) = (0, 0);
        for number in 0..30_000 {
            let begins = filter.state[PUSHED] == filter.length;
            let before = filter.bins.clone();
            // Every third key has come before.
            filter.push(key(if number % 3 == 0 { number / 2 } else { number }));
            let bins = filter.bins.as_chunks::<WORDS>().0.iter();
            let changed = bins.zip(before.as_chunks::<WORDS>().0).filter(|(a, b)| a != b).count();
            assert!(changed <= 3 + usize::from(begins), "{changed} bins");
            (worst, slots) = (worst.max(changed), changed * filter.layout.slots);
        }
        assert!(worst >= 3 && slots <= 4 * filter.layout.slots);
        filter.validate().unwrap();
    }

    /// Bins that nobody comes to for more generations than an epoch can tell.
    #[test]
    fn no_epoch_comes_round() {
        let mut settings = Settings::default();
        settings.set("ticks", "8");
        let shape = SlidingShape::fit_with(100_000, 0.01, &settings).unwrap();
        let mut filter = Sliding::new(shape).unwrap();
        for number in 0..50_000 {
            filter.push(key(number));
        }
        let mut now = 0;
        for _ in 0..1 << EPOCH {
            now += 1;
            filter.advance(now);
            assert!(now < 9 || filter.is_empty());
        }
        assert!(!(0..50_000).any(|number| filter.contains(key(number))));
        filter.validate().unwrap();
    }
}
