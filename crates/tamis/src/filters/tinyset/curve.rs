//! The rate of a block by the number of keys that arrived.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::LazyLock;
use tamis_bits::packed::mask;

use crate::filters::common::tiny_block::{Free, Layout};
#[cfg(not(feature = "std"))]
use crate::math::Float;

/// The rate and the slots of a block as distinct keys arrive.
pub(super) struct Curve {
    /// The rate after each number of keys.
    pub(super) rate: Vec<f64>,
    /// The number of slots after each number of keys.
    pub(super) slots: Vec<f64>,
}

impl Curve {
    /// Returns the rates of blocks with 0, 1, 2 … slots, up to `most`.
    ///
    /// The records of a chain are distinct when they are inserted, and coincide only as they get
    /// shorter. Let `d` be the number of distinct records of a chain, a random subset of the `2^w`
    /// possible ones. A key that arrives is one of them with probability `d / 2^w`, and is not
    /// stored; otherwise `d` rises by one. When the records lose a bit, pairs of neighbours
    /// coincide: the distribution of the remaining number comes from adding the `d` records one by
    /// one. Chains are treated separately, at many positions from the block's first slot to its
    /// last, since the first slots lose their bits later. All terms are positive, so there is no
    /// cancellation.
    fn rates(layout: Free<false>, most: usize) -> Vec<f64> {
        let fixed = is_fixed(layout);
        let places = if fixed { 256 } else { 64 };
        // The records of a chain when they are 4 bits long, and a number far in the tail. Shorter
        // ones coincide too often for more.
        let mean = layout.bits as f64 / (5 * layout.chains) as f64;
        let tail = (mean + 8.0 * mean.sqrt()) as usize + 4;
        let most_distinct = tail.max(16);
        let chains = layout.chains as f64;
        let width = |slots: usize, place: usize| match fixed {
            true => layout.width(slots, place * slots / places),
            false => layout.width(slots, (2 * place + 1) * slots / (2 * places)),
        };
        let mut distinct = vec![vec![0.0; most_distinct + 1]; places];
        distinct.iter_mut().for_each(|chain| chain[0] = 1.0);
        let mut scratch = [vec![0.0; most_distinct + 1], vec![0.0; most_distinct + 1]];
        let mut rates = vec![0.0];
        for slots in 0..layout.most_slots().min(most) {
            let free = 1.0 - rates[slots];
            if free < 1e-9 {
                break;
            }
            let mut rate = 0.0;
            for (place, chain) in distinct.iter_mut().enumerate() {
                let had = if slots == 0 { 57 } else { width(slots, place) };
                let has = width(slots + 1, place);
                let records = mask(had) as f64 + 1.0;
                for d in (1..=most_distinct).rev() {
                    let gain = |d: usize| (1.0 - d as f64 / records) / (chains * free);
                    let stay = if d < most_distinct { 1.0 - gain(d) } else { 1.0 };
                    chain[d] = chain[d] * stay + chain[d - 1] * gain(d - 1);
                }
                chain[0] *= 1.0 - 1.0 / (chains * free);
                // Beyond 24 bits, coincidences are below the precision of the result.
                for width in (has + 1..=had.min(24)).rev() {
                    halve(chain, mask(width) as f64 + 1.0, &mut scratch);
                }
                let mean: f64 = chain.iter().enumerate().map(|(d, p)| d as f64 * p).sum();
                rate += mean / (mask(has) as f64 + 1.0) / places as f64;
            }
            rates.push(rate.min(1.0));
        }
        rates
    }

    /// Computes the curve up to `most` keys. A block stores only the keys that do not match already.
    fn new(layout: Free<false>, most: usize) -> Self {
        let rates = Self::rates(layout, most);
        let (mut rate, mut slots) = (vec![0.0], vec![0.0]);
        let mut chance = vec![0.0; rates.len()];
        chance[0] = 1.0;
        // Probabilities outside this range are negligible.
        let (mut low, mut high) = (0, 0);
        let most = most.min(1000 * layout.bits / 64 - 1);
        while rate[rate.len() - 1] < 1.0 - 1e-6 && rate.len() <= most {
            high = (high + 1).min(rates.len() - 1);
            for x in (low..=high).rev() {
                let stay = if x + 1 < rates.len() { rates[x] } else { 1.0 };
                let come = if x > low { chance[x - 1] * (1.0 - rates[x - 1]) } else { 0.0 };
                chance[x] = chance[x] * stay + come;
            }
            while chance[low] < 1e-20 {
                chance[low] = 0.0;
                low += 1;
            }
            let mean = |of: &dyn Fn(usize) -> f64| (low..=high).map(|x| chance[x] * of(x)).sum();
            rate.push(f64::min(mean(&|x| rates[x]), 1.0));
            slots.push(mean(&|x| x as f64));
        }
        Self { rate, slots }
    }

    /// Returns the whole curve of a layout.
    pub(super) fn of(layout: Free<false>) -> Shared {
        Self::until(layout, u64::MAX)
    }

    /// Returns the curve of a layout for blocks of `mean` keys on average: as far as their number
    /// of keys may be, or further.
    pub(super) fn until(layout: Free<false>, mean: u64) -> Shared {
        static CURVES: [LazyLock<Curve>; 3] = [
            LazyLock::new(|| Curve::new(Free { bits: 256, chains: 32 }, usize::MAX)),
            LazyLock::new(|| Curve::new(Free { bits: 512, chains: 64 }, usize::MAX)),
            LazyLock::new(|| Curve::new(Free { bits: 1024, chains: 128 }, usize::MAX)),
        ];
        if is_fixed(layout) {
            return Shared::Static(&CURVES[layout.bits.ilog2() as usize - 8]);
        }
        // A power of 2, so that neighbouring numbers have one curve.
        let most = match mean as f64 {
            mean if mean < layout.bits as f64 => {
                ((mean + 14.0 * mean.sqrt()) as usize + 64).next_power_of_two()
            }
            _ => usize::MAX,
        };
        Shared::Counted(recent::get(layout, most))
    }
}

/// A curve of fixed blocks, or one that was computed lately.
pub(super) enum Shared {
    Static(&'static Curve),
    Counted(Arc<Curve>),
}

impl core::ops::Deref for Shared {
    type Target = Curve;

    fn deref(&self) -> &Curve {
        match self {
            Self::Static(curve) => curve,
            Self::Counted(curve) => curve,
        }
    }
}

/// The curves that were computed last: a plan needs the same one many times.
#[cfg(feature = "std")]
mod recent {
    use std::sync::{Mutex, PoisonError};

    use super::{Arc, Curve, Free, Vec};

    const MOST: usize = 16;
    static RECENT: Mutex<Vec<(Free<false>, usize, Arc<Curve>)>> = Mutex::new(Vec::new());

    pub(super) fn get(layout: Free<false>, most: usize) -> Arc<Curve> {
        let lock = || RECENT.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |recent: &[(Free<false>, usize, Arc<Curve>)]| {
            let known = recent.iter().find(|(of, until, _)| *of == layout && *until == most);
            known.map(|(.., curve)| curve.clone())
        };
        if let Some(curve) = found(&lock()) {
            return curve;
        }
        let curve = Arc::new(Curve::new(layout, most));
        let mut recent = lock();
        if recent.len() == MOST {
            recent.remove(0);
        }
        recent.push((layout, most, curve.clone()));
        curve
    }
}

/// Without the standard library there is no lock, and each call computes the curve.
#[cfg(not(feature = "std"))]
mod recent {
    use super::{Arc, Curve, Free};

    pub(super) fn get(layout: Free<false>, most: usize) -> Arc<Curve> {
        Arc::new(Curve::new(layout, most))
    }
}

fn is_fixed(layout: Free<false>) -> bool {
    [256, 512, 1024].contains(&layout.bits) && layout.chains == layout.bits / 8
}

/// Returns the rate of a block that stores every one of `keys` keys, with independent records.
pub(super) fn rate_of_all(layout: Free<false>, keys: usize) -> f64 {
    if keys == 0 {
        return 0.0;
    }
    if keys > layout.array() {
        return 1.0;
    }
    let short = layout.width(keys, keys - 1);
    let longer = if layout.width(keys, 0) > short { layout.array() % keys } else { 0 };
    let yes = (-f64::from(short)).exp2() / layout.chains as f64;
    let none = longer as f64 * (-yes / 2.0).ln_1p() + (keys - longer) as f64 * (-yes).ln_1p();
    -none.exp_m1()
}

/// Turns the distribution of the number of distinct records, out of `records`, into that after they
/// lose a bit: each record is a neighbour of an earlier one, or not.
fn halve(distinct: &mut [f64], records: f64, [left, pairs]: &mut [Vec<f64>; 2]) {
    left.fill(0.0);
    pairs.fill(0.0);
    pairs[0] = 1.0;
    for (d, chance) in distinct.iter().enumerate() {
        for (left, pairs) in left.iter_mut().zip(&*pairs) {
            *left += chance * pairs;
        }
        let taken = d as f64;
        if taken >= records {
            break;
        }
        for k in (1..distinct.len()).rev() {
            let meets = |k: usize| (2.0 * k as f64 - taken).max(0.0) / (records - taken);
            pairs[k] = pairs[k] * meets(k) + pairs[k - 1] * (1.0 - meets(k - 1));
        }
        pairs[0] = 0.0;
    }
    distinct.copy_from_slice(left);
}
