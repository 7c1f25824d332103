//! How many segments there are, how long fingerprints are, and what rate comes of it.

use std::sync::Arc;

use super::segment::{BUCKET_BITS, Layout, Segment};
use crate::error::Error;
use crate::filters::common::binomial_mean;
use crate::limits::MAX_KEYS;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};

/// Keys for each segment: when there are more, there is one more segment.
pub(super) const KEYS: u64 = 512;
/// How slowly the share of the rate is spent that generations to come have: at 16 a set that has
/// doubled 17 times gives the next generation a 66th of the rate, and more or less than 16 gives it
/// less.
const SPARING: f64 = 16.0;
/// Positions among the segments over which the rate is averaged, where there are more.
const SAMPLES: u64 = 1024;

const MOST: Setting = Setting::new(
    "most",
    "a largest number of keys, up to 2^48, at which it is to be smallest; else it is ready \
            for any",
);

/// A first size, a rate for all sizes, and perhaps a largest size.
#[derive(Clone, Debug, PartialEq)]
pub struct GrowingShape {
    keys: u64,
    fpr: f64,
    most: u64,
    /// Segments of the first size.
    base: u64,
    generations: Arc<[Generation]>,
}

/// What holds for the segments that were split as often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Generation {
    /// Bits of a new fingerprint.
    pub(super) length: u32,
    pub(super) layout: Layout,
}

impl GrowingShape {
    /// A shape by hand: a first size, the rate that is kept however large it becomes, and a size at
    /// which it is to be smallest, if that is known.
    pub fn new(keys: u64, fpr: f64, most: Option<u64>) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        crate::shape::check_fpr(fpr)?;
        let most = most.unwrap_or(0);
        crate::shape::check_keys(most)?;
        let base = keys.div_ceil(KEYS).max(1);
        let generations = generations(base, fpr, most);
        if generations.is_empty() {
            return Err(Error::Infeasible { why: "that takes fingerprints of more than 64 bits" });
        }
        Ok(Self { keys, fpr, most, base, generations: generations.into() })
    }

    /// The rate that it keeps.
    pub fn fpr(&self) -> f64 {
        self.fpr
    }

    /// The size at which it is to be smallest, if one was named.
    pub fn most(&self) -> Option<u64> {
        Some(self.most).filter(|most| *most > 0)
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn generation(&self, depth: u32) -> &Generation {
        &self.generations[depth as usize]
    }

    /// Segments that there can be.
    pub(super) fn most_segments(&self) -> u64 {
        self.base << (self.generations.len() - 1)
    }

    /// Segments for so many keys.
    fn segments(&self, keys: u64) -> u64 {
        keys.div_ceil(KEYS).clamp(self.base, self.most_segments())
    }

    /// How often the segments were split that have been split least, of so many, and how many have
    /// been split once more.
    pub(super) fn round(&self, segments: u64) -> (u32, u64) {
        let depth = (segments / self.base).ilog2();
        (depth, segments - (self.base << depth))
    }

    /// The share of all fingerprints that one of this depth is.
    fn chance(&self, depth: u32) -> f64 {
        let bits = depth + BUCKET_BITS + self.generation(depth).length;
        (-f64::from(bits)).exp2() / self.base as f64
    }

    /// The rate, averaged over where in the round of splitting a stranger's segment is.
    ///
    /// Segment `i` of `P` is split when there are `KEYS (P + i)` keys. What it was split from had
    /// number `i mod P/2`, and so on: that tells how many keys came while the stranger's segment was
    /// of each depth, each of which has its fingerprint with that depth's chance.
    fn rate(&self, keys: u64) -> f64 {
        let (round, split) = self.round(self.segments(keys));
        let depth = round + u32::from(split > 0);
        let segments = self.base << depth;
        let misses: Vec<f64> = (0..=depth).map(|depth| (-self.chance(depth)).ln_1p()).collect();
        let samples = segments.min(SAMPLES);
        let passes = |sample: u64| {
            // Multiples of the golden ratio are spread evenly in all rounds at once.
            let at = if segments > SAMPLES {
                tamis_bits::range::scale(sample.wrapping_mul(0x9e37_79b9_7f4a_7c15), segments)
            } else {
                sample
            };
            let (mut sum, mut before) = (0.0, 0);
            for (depth, miss) in misses.iter().enumerate() {
                let segments = self.base << depth;
                let last = depth + 1 == misses.len();
                let until = if last { keys } else { keys.min(KEYS * (segments + at % segments)) };
                sum += (until - before) as f64 * miss;
                before = until;
            }
            -sum.exp_m1()
        };
        (0..samples).map(passes).sum::<f64>() / samples as f64
    }

    /// Bytes for so many keys, on average.
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
        let places = self.base << (round + u32::from(split > 0));
        bytes.ceil() as u64 + places * size_of::<Segment>() as u64
    }

    /// Entries for each key in a segment of this depth: those of which nothing is left are there
    /// more than once.
    fn entries(&self, depth: u32) -> f64 {
        let mut entries = 0.0;
        for age in 0..=depth {
            let share = (-f64::from(age) - f64::from(u32::from(age < depth))).exp2();
            let left = f64::from(self.generation(depth - age).length) - f64::from(age);
            entries += share * (-left).max(0.0).exp2();
        }
        entries
    }
}

/// 1.4 times that of `counting_quotient`, as `tamis bench --keys 10M --fpr 1%` has it: a look at the list of
/// segments, which is near, and then three lines side by side: group, ends, entries.
const COST: f64 = 5.0;

/// The lengths of fingerprints, generation by generation: the shortest that leave the generations to
/// come their share of the rate.
///
/// Only sums, products and quotients decide, which are the same on every machine: a file holds the
/// rate and not the lengths.
fn generations(base: u64, fpr: f64, most: u64) -> Vec<Generation> {
    let named = (most.div_ceil(KEYS) / base).max(1).ilog2();
    let spent_by = |depth: u32| {
        // After so many generations of no end, or after those on the way to the largest size.
        let sparing =
            |generations: u32| f64::from(generations) / (f64::from(generations) + SPARING);
        match depth {
            _ if most == 0 => sparing(depth + 1),
            _ if depth <= named => 0.5 / f64::from(named - depth + 1),
            _ => 0.75 + 0.25 * sparing(depth - named - 1),
        }
    };
    let mut generations = Vec::<Generation>::new();
    let (mut spent, mut widest) = (0.0, 0);
    for depth in 0.. {
        if base << depth > MAX_KEYS / KEYS {
            break;
        }
        // Entries that this generation leaves in a bucket, on average over the segments.
        let entries = if depth == 0 { 0.75 } else { 0.375 };
        let share = |length: u32| entries / (1u64 << length) as f64;
        let longest = 56.min(64 - BUCKET_BITS - depth);
        let fits = |length: &u32| spent + share(*length) <= fpr * spent_by(depth);
        let Some(length) = (1..=longest).find(fits) else { break };
        spent += share(length);
        widest = length.max(if depth == 0 { 0 } else { widest - 1 });
        generations.push(Generation { length, layout: Layout::new(widest + 1) });
    }
    generations
}

impl Shape for GrowingShape {
    const SETTINGS: &'static [Setting] = &[MOST];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        Self::new(keys, fpr, settings.number(&MOST, |most| (1..=MAX_KEYS).contains(&most))?)
    }

    /// At its first size.
    fn figures(&self) -> Figures {
        self.figures_at(self.keys)
    }

    /// What it promises with so many keys.
    fn figures_at(&self, keys: u64) -> Figures {
        Figures { keys, fpr: self.fpr_at(keys), bytes: self.bytes(keys), query_cost: COST }
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    /// The rate of so many keys, of which none was removed.
    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { self.rate(keys) }
    }
}
