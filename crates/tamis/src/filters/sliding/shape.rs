//! The size of the blocks and their number, and the rate that follows.

use tamis_bits::{LINE_WORDS, packed};

use super::COUNTS;
use super::block::{EPOCH, Layout, MAX_WIDTH, MAX_WORDS};
use crate::error::Error;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::settings::{Parameters, Setting, Settings};
use crate::shape::{Figures, Shape, check_keys};

/// With more generations, stamps would take more bits than the smaller slack saves.
pub(super) const MAX_GENERATIONS: u64 = 64;
pub(super) const MAX_TICKS: u64 = 1 << 53;
pub(super) const MAX_BLOCKS: u64 = 1 << 40;
/// The fewest words of one of several blocks. Smaller ones would be unevenly filled.
const MIN_WORDS: u64 = 40;
/// The most keys per bucket on average. Long buckets would be slow to search.
const LONG_BUCKET: f64 = 1.5;
/// Free slots of each block that cannot be used, because no bucket of their size is at its edge.
const SPARE_SLOTS: f64 = 4.0;
/// Free slots of each block, in standard deviations of the number of keys in it: fewer would be
/// room enough for the ring, but buckets would be moved more often.
const SPARE_DEVIATIONS: f64 = 0.3;

/// The size of a window of keys or of time, and of the blocks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingShape {
    /// Keys per window.
    pub(super) keys: u64,
    /// The duration of a window of time; `None` for a window of keys.
    pub(super) ticks: Option<u64>,
    pub(super) generations: u64,
    pub(super) width: u32,
    /// Words per block.
    pub(super) words: u64,
    /// Buckets per block.
    pub(super) buckets: u64,
    pub(super) blocks: u64,
}

const GENERATIONS: Setting = Setting::new(
    "generations",
    "1 to 64 generations per window; the slack is one generation; default 8",
);
const TICKS: Setting =
    Setting::new("ticks", "1 to 2^53 clock ticks per window; default: a window of keys");

impl SlidingShape {
    /// Returns a shape for a window of `keys` keys, or of `ticks` ticks with about `keys` keys, in
    /// `generations` generations, with slots of `width` bits in `blocks` blocks of `words` words and
    /// `buckets` buckets.
    ///
    /// # Errors
    /// [`Error::Limit`] if a parameter is out of range, [`Error::Infeasible`] if buckets and a slot
    /// do not fit into a block.
    pub fn new(
        keys: u64,
        ticks: Option<u64>,
        generations: u64,
        width: u32,
        words: u64,
        buckets: u64,
        blocks: u64,
    ) -> Result<Self, Error> {
        check_keys(keys)?;
        if let Some(asked) = ticks.filter(|ticks| !(1..=MAX_TICKS).contains(ticks)) {
            return Err(Error::Limit { what: "ticks per window", asked, most: MAX_TICKS });
        }
        if !(1..=MAX_GENERATIONS).contains(&generations) {
            let most = MAX_GENERATIONS;
            return Err(Error::Limit { what: "generations", asked: generations, most });
        }
        if !(1..=MAX_BLOCKS).contains(&blocks) {
            return Err(Error::Limit { what: "blocks", asked: blocks, most: MAX_BLOCKS });
        }
        let shape = Self { keys, ticks, generations, width, words, buckets, blocks };
        if shape.layout().is_none() {
            return Err(Error::Infeasible { why: "the buckets do not fit into a block" });
        }
        Ok(shape)
    }

    /// Returns the ticks of a window of time; `None` for a window of keys.
    pub fn ticks(&self) -> Option<u64> {
        self.ticks
    }

    /// Returns the keys, or ticks, per generation.
    pub(super) fn length(&self) -> u64 {
        self.ticks.unwrap_or(self.keys).div_ceil(self.generations).max(1)
    }

    /// Returns the number of generations that are remembered: the complete ones of a window, and
    /// the current one.
    pub(super) fn stamps(&self) -> u64 {
        self.ticks.unwrap_or(self.keys).div_ceil(self.length()) + 1
    }

    /// Returns log2 of the number of classes. More classes forget keys sooner; but the number of
    /// keys that expire is kept for each tick.
    pub(super) fn log(&self) -> u32 {
        if self.keys < 1 << 16 { 3 } else { 4 }
    }

    /// Returns the number at which the count of ticks begins again at 0. It is a multiple of the period
    /// and of the epochs, so that stamps and epochs keep their meaning.
    pub(super) fn all_ticks(&self) -> u64 {
        self.stamps() << (self.log() + EPOCH)
    }

    /// Returns the expected number of keys that are remembered, when it is the largest, and a number
    /// that is not exceeded. A key is in any class: of those that are older than the window, which
    /// are a generation's, some classes remember all and some none.
    fn remembered(&self) -> (f64, f64) {
        let (length, stamps) = (self.length() as f64, self.stamps() as f64);
        if self.ticks.is_some() {
            let keys = self.keys as f64;
            let most = keys + (keys / (stamps - 1.0).max(1.0)).ceil();
            return (most, most);
        }
        let classes = f64::from(1 << self.log());
        let (window, most) = (length * (stamps - 1.0), length * stamps);
        let mean = window + length * (classes + 1.0) / (2.0 * classes) + 1.0;
        // The variance of a class's share of a generation's keys is 1/6 on average.
        (mean.min(most), (mean + 8.0 * (length / 6.0).sqrt() + 1.0).min(most))
    }

    fn layout(&self) -> Option<Layout> {
        Layout::new(self.words, self.buckets, self.width, self.stamps())
    }

    pub(super) fn checked_layout(&self) -> Layout {
        self.layout().expect("the shape was checked when it was created")
    }

    /// Returns the words of all blocks.
    pub(super) fn block_words(&self) -> u64 {
        self.blocks * self.words
    }

    /// Returns the largest number of slots.
    fn capacity(&self) -> u64 {
        let layout = self.checked_layout();
        self.blocks * (layout.space() / layout.slot_bits()) as u64
    }

    /// Returns the bits of the number of keys that expire at a tick.
    pub(super) fn count_width(&self) -> u32 {
        64 - self.capacity().leading_zeros()
    }

    pub(super) fn state_words(&self) -> u64 {
        let bits = (self.stamps() << self.log()) * u64::from(self.count_width());
        COUNTS as u64 + bits.div_ceil(64)
    }

    /// Returns the number of distinct fingerprints: a bucket and a remainder.
    fn fingerprints(&self) -> f64 {
        self.blocks as f64 * self.buckets as f64 * self.checked_layout().remainders as f64
    }

    /// Returns the false positive rate: the probability that one of `keys` distinct keys has the
    /// fingerprint of a non-member.
    fn rate(&self, keys: f64) -> f64 {
        let fingerprints = self.fingerprints();
        if fingerprints > 1.0 {
            -(keys * (-1.0 / fingerprints).ln_1p()).exp_m1()
        } else {
            keys.min(1.0)
        }
    }

    /// Returns the buckets of all blocks for a rate, and the fewest blocks that have room for them
    /// and for the keys.
    fn size(&self, fpr: f64) -> Option<(u64, u64)> {
        let (mean, most) = self.remembered();
        let remainders = ((packed::mask(self.width) + 1) / self.stamps()) as f64;
        let buckets = (most / -(-fpr).ln_1p() / remainders).max(most / LONG_BUCKET).ceil().max(1.0);
        let slot = f64::from(self.width) + 1.0;
        let space = 64.0 * (self.words as f64 - 1.0);
        let fits = |blocks: f64| {
            // Each block has fewer free bits than a bucket takes when it passes on no more.
            let whole = most + SPARE_SLOTS * blocks;
            let spread = mean + SPARE_DEVIATIONS * (mean * blocks).sqrt();
            let slots = if blocks > 1.0 { whole.max(spread) } else { most };
            (buckets / blocks).ceil() * blocks + slots * slot <= blocks * space
        };
        let mut blocks = ((buckets + most * slot) / space).ceil().max(1.0);
        while !fits(blocks) {
            // The spare room takes a few parts in 100.
            blocks += (blocks / 1024.0).floor().max(1.0);
            if blocks > MAX_BLOCKS as f64 {
                return None;
            }
        }
        Some((buckets as u64, blocks as u64))
    }
}

impl Shape for SlidingShape {
    const SETTINGS: &'static [Setting] = &[GENERATIONS, TICKS];

    /// Returns the shape with the fewest bytes over all widths and words per block, and among those
    /// the one with the lowest rate.
    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let generations = settings.number(&GENERATIONS, |n| (1..=MAX_GENERATIONS).contains(&n))?;
        let ticks = settings.number(&TICKS, |n| (1..=MAX_TICKS).contains(&n))?;
        let generations = generations.unwrap_or(8);
        let bare = Self { keys, ticks, generations, width: 1, words: 0, buckets: 0, blocks: 1 };
        let most = bare.remembered().1;
        let mut best: Option<(u64, f64, Self)> = None;
        for width in 1..=MAX_WIDTH {
            for words in (LINE_WORDS as u64..=MAX_WORDS as u64).step_by(LINE_WORDS) {
                let shape = Self { width, words, ..bare.clone() };
                if packed::mask(width) + 1 < bare.stamps() {
                    continue;
                }
                let Some((buckets, blocks)) = shape.size(fpr) else { continue };
                if blocks > 1 && words < MIN_WORDS
                    || best.as_ref().is_some_and(|best| blocks * words > best.0)
                {
                    continue;
                }
                let shape = Self { buckets: buckets.div_ceil(blocks), blocks, ..shape };
                if shape.layout().is_none() {
                    continue;
                }
                let (all, rate) = (blocks * words, shape.rate(most));
                let better = best.as_ref().is_none_or(|best| (all, rate) < (best.0, best.1));
                if rate <= fpr && better {
                    best = Some((all, rate, shape));
                }
            }
        }
        best.map(|best| best.2)
            .ok_or(Error::Infeasible { why: "the rate is too low for blocks of 4096 bits" })
    }

    fn parameters(&self) -> Parameters {
        [("generations", self.generations.into()), ("blocks", self.blocks.into())].into()
    }

    fn figures(&self) -> Figures {
        let lines = tamis_bits::lines(self.block_words()) + tamis_bits::lines(self.state_words());
        Figures {
            keys: self.keys,
            fpr: self.rate(self.keys as f64),
            bytes: lines * 64,
            // 1.1 to 1.6 times that of `counting_quotient` in `tamis bench --keys 10M --fpr 1%`.
            query_cost: 4.5,
        }
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    /// Returns the rate with `keys` remembered keys, which have distinct fingerprints.
    fn fpr_at(&self, keys: u64) -> f64 {
        (keys as f64 / self.fingerprints()).min(1.0)
    }
}
