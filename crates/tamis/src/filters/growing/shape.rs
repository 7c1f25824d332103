//! The number of segments, the lengths of fingerprints, and the rate that follows.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::list::List;
use super::segment::{BUCKET_BITS, Layout};
use crate::error::Error;
use crate::filters::common::binomial_mean;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};

/// Keys per segment: when there are more, a segment is split.
pub(super) const SEGMENT_KEYS: u64 = 512;
/// Buckets per segment.
const BUCKETS: f64 = (1u64 << BUCKET_BITS) as f64;
/// The part of the rate that is spent on the first generation, without a largest size and with one.
/// The first size is full with 0.5 keys per bucket, and 0.75 on average when its keys are split: its
/// rate is 2/3 of that part, above a quarter of the whole.
const FIRST_PART: f64 = 0.39;
const FIRST_PART_OF_MOST: f64 = 0.38;
/// How slowly the rest of the rate is spent on later generations: generation `i` gets
/// R / ((i + R - 1) (i + R)) of it. A larger R would leave too little at 10^3 keys, a smaller one at
/// 10^8.
const RESERVE: f64 = 3.2;
/// The same for [`Schedule::First`].
const FIRST_RESERVE: f64 = 16.0;
/// The largest number of positions among the segments over which the rate is averaged.
const SAMPLES: u64 = 1024;

const MOST: Setting = Setting::new(
    "most",
    "the number of keys, 1 to 2^48, at which memory is minimised; default: none",
);

/// The parameters of a growing filter: an initial size, a rate for all sizes, and optionally a
/// largest size.
#[derive(Clone, Debug, PartialEq)]
pub struct GrowingShape {
    schedule: Schedule,
    keys: u64,
    fpr: f64,
    most: u64,
    /// Segments of the initial size.
    base: u64,
    generations: Arc<[Generation]>,
}

/// The parameters of the segments of one depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Generation {
    /// Length of a new fingerprint in bits.
    length: u32,
    /// The number of buckets, from the first on, whose new fingerprints are shorter by 1 bit.
    short: u64,
    pub(super) layout: Layout,
}

impl Generation {
    /// Returns the length of a new fingerprint of this bucket in bits.
    #[inline(always)]
    pub(super) fn length_in(&self, bucket: u64) -> u32 {
        self.length - u32::from(bucket < self.short)
    }
}

/// How the rate is divided among the generations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Schedule {
    /// The schedule of version 0.1.0, whose first generations get a small part. Files of that
    /// version have it.
    First,
    /// Every size from the first on has at least a quarter of the rate.
    Second,
}

impl GrowingShape {
    /// Returns a shape for an initial size of `keys` keys and a rate that holds at all sizes. If
    /// `most` is given, memory is minimised at that size.
    ///
    /// # Errors
    /// [`Error::Limit`] or [`Error::Fpr`] if a parameter is out of range, [`Error::Infeasible`] if
    /// the rate takes fingerprints of more than 64 bits.
    pub fn new(keys: u64, fpr: f64, most: Option<u64>) -> Result<Self, Error> {
        Self::with_schedule(Schedule::Second, keys, fpr, most)
    }

    pub(super) fn with_schedule(
        schedule: Schedule,
        keys: u64,
        fpr: f64,
        most: Option<u64>,
    ) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        crate::shape::check_fpr(fpr)?;
        let most = most.unwrap_or(0);
        crate::shape::check_keys(most)?;
        let base = match schedule {
            Schedule::First => keys.div_ceil(SEGMENT_KEYS),
            Schedule::Second => keys / SEGMENT_KEYS,
        };
        let base = base.max(1);
        let generations = generations(schedule, base, fpr, most);
        if generations.is_empty() {
            return Err(Error::Infeasible {
                why: "the rate takes fingerprints of more than 64 bits",
            });
        }
        Ok(Self { schedule, keys, fpr, most, base, generations: generations.into() })
    }

    /// Returns the rate that holds at all sizes.
    pub fn fpr(&self) -> f64 {
        self.fpr
    }

    /// Returns the size at which memory is minimised, if given.
    pub fn most(&self) -> Option<u64> {
        Some(self.most).filter(|most| *most > 0)
    }

    pub(super) fn schedule(&self) -> Schedule {
        self.schedule
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn generation(&self, depth: u32) -> &Generation {
        &self.generations[depth as usize]
    }

    /// Returns the largest number of segments.
    pub(super) fn max_segments(&self) -> u64 {
        self.base << (self.generations.len() - 1)
    }

    /// Returns the number of segments for `keys` keys.
    fn segments(&self, keys: u64) -> u64 {
        keys.div_ceil(SEGMENT_KEYS).clamp(self.base, self.max_segments())
    }

    /// Returns the depth of the segments that were split least, and how many have been split once
    /// more.
    pub(super) fn round(&self, segments: u64) -> (u32, u64) {
        let depth = (segments / self.base).ilog2();
        (depth, segments - (self.base << depth))
    }

    /// Returns the probability that a key has a given fingerprint of this depth and length.
    fn chance(&self, depth: u32, length: u32) -> f64 {
        (-f64::from(depth + BUCKET_BITS + length)).exp2() / self.base as f64
    }

    /// Returns the rate, averaged over the position of a non-member's segment in the round of
    /// splits.
    ///
    /// Segment `i` of `P` is split when there are `SEGMENT_KEYS (P + i)` keys. It was split from
    /// segment `i mod P/2`, and so on. That gives the number of keys that arrived while the
    /// non-member's segment had each depth; each of them has its fingerprint with the probability
    /// for that depth.
    fn rate(&self, keys: u64) -> f64 {
        // Only fingerprints of depth 0 have two lengths, by the first bits of the key.
        let Generation { length, short, .. } = *self.generation(0);
        let short_part = short as f64 / BUCKETS;
        let long = self.rate_of_length(keys, length);
        if short == 0 {
            return long;
        }
        short_part * self.rate_of_length(keys, length - 1) + (1.0 - short_part) * long
    }

    /// Returns the rate for non-members whose fingerprints of depth 0 have `length` bits.
    fn rate_of_length(&self, keys: u64, length: u32) -> f64 {
        let (round, split) = self.round(self.segments(keys));
        let depth = round + u32::from(split > 0);
        let segments = self.base << depth;
        let length_of = |depth| if depth == 0 { length } else { self.generation(depth).length };
        let misses: Vec<f64> =
            (0..=depth).map(|depth| (-self.chance(depth, length_of(depth))).ln_1p()).collect();
        let samples = segments.min(SAMPLES);
        let passes = |sample: u64| {
            // Multiples of the golden ratio are evenly distributed in all rounds at once.
            let at = if segments > SAMPLES {
                tamis_bits::range::scale(sample.wrapping_mul(0x9e37_79b9_7f4a_7c15), segments)
            } else {
                sample
            };
            let (mut sum, mut before) = (0.0, 0);
            for (depth, miss) in misses.iter().enumerate() {
                let segments = self.base << depth;
                let last = depth + 1 == misses.len();
                let until =
                    if last { keys } else { keys.min(SEGMENT_KEYS * (segments + at % segments)) };
                sum += (until - before) as f64 * miss;
                before = until;
            }
            -sum.exp_m1()
        };
        (0..samples).map(passes).sum::<f64>() / samples as f64
    }

    /// Returns the average number of bytes for `keys` keys.
    fn bytes(&self, keys: u64) -> u64 {
        let segments = self.segments(keys);
        let (round, split) = self.round(segments);
        let lines = |depth: u32| {
            let entries = self.entries(depth);
            let layout = self.generation(depth).layout;
            binomial_mean(self.base << depth, keys, |keys| {
                layout.words((keys as f64 * entries).round() as u64) as f64 * 8.0
            })
        };
        let unsplit = (self.base << round) - split;
        let mut bytes = unsplit as f64 * lines(round);
        if split > 0 {
            bytes += 2.0 * split as f64 * lines(round + 1);
        }
        bytes.ceil() as u64 + List::bytes(segments)
    }

    /// Returns the number of entries per key in a segment of this depth: void entries have copies.
    fn entries(&self, depth: u32) -> f64 {
        let mut entries = 0.0;
        for age in 0..=depth {
            let share = (-f64::from(age) - f64::from(u32::from(age < depth))).exp2();
            let Generation { length, short, .. } = *self.generation(depth - age);
            let copies = |length: u32| f64::from(age.saturating_sub(length)).exp2();
            let short_part = short as f64 / BUCKETS;
            let of_short = if short > 0 { copies(length - 1) } else { 0.0 };
            entries += share * (short_part * of_short + (1.0 - short_part) * copies(length));
        }
        entries
    }
}

/// 1.4 times that of `counting_quotient`, measured with `tamis bench --keys 10M --fpr 1%`: a read
/// of the list of segments, which is usually cached, and then three adjacent reads: group, ends,
/// entries.
const QUERY_COST: f64 = 5.0;

/// Returns the part of the rate that is spent by the generation of this depth and all before it.
/// `named` is the depth at the size where memory is minimised, if there is one.
fn part_spent(schedule: Schedule, depth: u32, named: Option<u32>) -> f64 {
    let spread =
        |generations: u32, reserve| f64::from(generations) / (f64::from(generations) + reserve);
    match (schedule, named) {
        (Schedule::First, None) => spread(depth + 1, FIRST_RESERVE),
        (Schedule::First, Some(named)) if depth <= named => 0.5 / f64::from(named - depth + 1),
        (Schedule::First, Some(named)) => 0.75 + 0.25 * spread(depth - named - 1, FIRST_RESERVE),
        (Schedule::Second, None) => FIRST_PART + (1.0 - FIRST_PART) * spread(depth, RESERVE),
        // An entry has room for the longest fingerprint, and fingerprints lose 1 bit per generation:
        // generations before the named one may be twice as long for each.
        (Schedule::Second, Some(named)) if depth <= named => {
            let doubled = 0.45 / (1u64 << (named - depth)) as f64;
            FIRST_PART_OF_MOST + 0.12 * spread(depth, RESERVE) + doubled
        }
        (Schedule::Second, Some(named)) => 0.95 + 0.05 * spread(depth - named, RESERVE),
    }
}

/// Returns the lengths of fingerprints by generation: the shortest that leave later generations
/// their part of the rate.
///
/// Only sums, products and quotients decide, which give the same results on every machine: a file
/// holds the rate and not the lengths.
fn generations(schedule: Schedule, base: u64, fpr: f64, most: u64) -> Vec<Generation> {
    let named = (most > 0).then(|| (most.div_ceil(SEGMENT_KEYS) / base).max(1).ilog2());
    let mut generations = Vec::<Generation>::new();
    let (mut spent, mut widest) = (0.0, 0);
    for depth in 0.. {
        if base << depth > MAX_KEYS / SEGMENT_KEYS {
            break;
        }
        // The average number of entries per bucket that this generation leaves.
        let entries = if depth == 0 { 0.75 } else { 0.375 };
        let share = |length: u32| entries / (1u64 << length) as f64;
        let longest = 56.min(64 - BUCKET_BITS - depth);
        let part = fpr * part_spent(schedule, depth, named);
        let Some(length) = (1..=longest).find(|length| spent + share(*length) <= part) else {
            break;
        };
        // The first generation has the whole rate to itself: it spends its part to the last bucket.
        let mut short = 0;
        if schedule == Schedule::Second && depth == 0 && length > 1 {
            short = ((part / share(length) - 1.0) * BUCKETS) as u64;
        }
        spent += share(length) * (1.0 + short as f64 / BUCKETS);
        widest = length.max(if depth == 0 { 0 } else { widest - 1 });
        generations.push(Generation { length, short, layout: Layout::new(widest + 1) });
    }
    generations
}

impl Shape for GrowingShape {
    const SETTINGS: &'static [Setting] = &[MOST];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        Self::new(keys, fpr, settings.number(&MOST, |most| (1..=MAX_KEYS).contains(&most))?)
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("most", self.most.into())].into()
    }

    /// Returns the figures at the initial size.
    fn figures(&self) -> Figures {
        self.figures_at(self.keys)
    }

    /// Returns the figures with `keys` keys.
    fn figures_at(&self, keys: u64) -> Figures {
        Figures { keys, fpr: self.fpr_at(keys), bytes: self.bytes(keys), query_cost: QUERY_COST }
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    /// Returns the rate with `keys` keys, of which none was removed.
    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { self.rate(keys) }
    }
}
