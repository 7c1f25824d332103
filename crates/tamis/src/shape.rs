//! Shapes: any two of keys, false positive rate and bytes decide the third.
//!
//! A filter's [`Shape`] computes its size from a number of keys and a rate. One bisection, [`solve`],
//! answers the other two questions for every kind.

use core::fmt;

use crate::error::Error;
use crate::limits::{MAX_BYTES, MAX_KEYS, MIN_FPR};
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::settings::{Parameters, Setting, Settings};

/// The geometry of a filter: sizes and parameters, no keys.
pub trait Shape: Clone + fmt::Debug + PartialEq + Send + Sync {
    /// The settings beyond keys and rate.
    const SETTINGS: &'static [Setting] = &[];

    /// Whether neither a smaller rate nor more keys ever take less memory. If not, [`solve`] also looks
    /// beyond the first shape that does not fit.
    const IS_MONOTONE: bool = true;

    /// Whether it also takes a rate of 0, for a set of whole 128-bit hashes. Its figures state the rate that
    /// it has, below `keys` · 2^-128.
    const IS_EXACT: bool = false;

    /// Returns the smallest shape that holds `keys` keys at `fpr`, with these settings. Call it through
    /// [`solve`], which checks the arguments.
    ///
    /// # Errors
    /// If there is no such shape, or a setting does not fit.
    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error>;

    /// Returns the smallest shape that holds `keys` keys at `fpr`, with default settings.
    ///
    /// # Errors
    /// As [`solve`].
    fn fit(keys: u64, fpr: f64) -> Result<Self, Error> {
        solve(Goal::KeysFpr { keys, fpr }, &Settings::default())
    }

    /// Returns the parameters of its tables beside keys and rate, such as `m` and `k` of `bloom`. Empty
    /// for a kind without any.
    fn parameters(&self) -> Parameters {
        Parameters::new()
    }

    /// Returns what this shape promises.
    fn figures(&self) -> Figures;

    /// Returns what a filter of this shape promises once it holds `keys` keys: of a kind that grows, at
    /// the size that it has then.
    fn figures_at(&self, keys: u64) -> Figures {
        Figures { fpr: self.fpr_at(keys), ..self.figures() }
    }

    /// Returns the number of keys that the shape is made for.
    fn keys(&self) -> u64 {
        self.figures().keys
    }

    /// Returns the expected false positive rate with `keys` keys in the filter.
    fn fpr_at(&self, keys: u64) -> f64;
}

/// What a shape promises.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// The number of keys that it is made for.
    pub keys: u64,
    /// The false positive rate with that many keys.
    pub fpr: f64,
    /// The size of its tables in bytes, in whole cache lines.
    pub bytes: u64,
    /// The work of a query, in random reads of a cache line: the lines it touches, an eighth for each
    /// test within a line, and the cost of computing the addresses, as `tamis bench --keys 10M`
    /// shows it beside `split_block_bloom`.
    pub query_cost: f64,
}

impl Figures {
    /// Returns the bits of memory per key.
    pub fn bits_per_key(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.keys.max(1) as f64
    }
}

/// What a shape must meet: two of keys, rate and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Goal {
    /// The smallest filter for these keys at this rate.
    KeysFpr {
        /// The number of keys.
        keys: u64,
        /// The false positive rate.
        fpr: f64,
    },
    /// The lowest rate for these keys in this memory.
    KeysBytes {
        /// The number of keys.
        keys: u64,
        /// The size in bytes.
        bytes: u64,
    },
    /// The most keys in this memory at this rate.
    BytesFpr {
        /// The size in bytes.
        bytes: u64,
        /// The false positive rate.
        fpr: f64,
    },
}

/// Returns the shape that meets `goal`.
///
/// # Errors
/// [`Error::Fpr`], [`Error::Limit`] or [`Error::Setting`] if an argument is out of range,
/// [`Error::Infeasible`] if no shape meets the goal.
pub fn solve<S: Shape>(goal: Goal, settings: &Settings) -> Result<S, Error> {
    settings.check(S::SETTINGS)?;
    let check_fpr = |fpr: f64| if S::IS_EXACT && fpr == 0.0 { Ok(()) } else { check_fpr(fpr) };
    let fit = |keys, fpr| {
        check_keys(keys)?;
        check_fpr(fpr)?;
        let shape = S::fit_with(keys, fpr, settings)?;
        match shape.figures().bytes {
            asked if asked > MAX_BYTES => {
                Err(Error::Limit { what: "bytes", asked, most: MAX_BYTES })
            }
            _ => Ok(shape),
        }
    };
    let within = |bytes| move |shape: &S| shape.figures().bytes <= bytes;
    match goal {
        Goal::KeysFpr { keys, fpr } => fit(keys, fpr),
        Goal::KeysBytes { keys, bytes } => {
            check_keys(keys)?;
            let small = Error::Infeasible { why: "the memory is too small for these keys" };
            // Bisects log2 of the rate, from one that every shape meets towards the smallest.
            let try_rate =
                |log: f64| Some((log, fit(keys, log.exp2()).ok().filter(within(bytes))?));
            let quarters = (1..64).map(|step| -0.25 * f64::from(step));
            let further = quarters.filter(|_| !S::IS_MONOTONE);
            let (mut fits, mut best) =
                core::iter::once(-0.001).chain(further).find_map(try_rate).ok_or(small)?;
            let mut fails = MIN_FPR.log2();
            // Stops at 10^-6 bits: each step may cost a kind an exact calculation.
            while fits - fails > 1e-6 {
                let middle = f64::midpoint(fits, fails);
                match try_rate(middle) {
                    Some(found) => (fits, best) = found,
                    None => fails = middle,
                }
            }
            if !S::IS_MONOTONE {
                let mut below = (1..=96).rev().map(|step| fits - f64::from(step) / 48.0);
                best = below.find_map(try_rate).map_or(best, |(_, shape)| shape);
            }
            Ok(best)
        }
        Goal::BytesFpr { bytes, fpr } => {
            check_fpr(fpr)?;
            let small = Error::Infeasible { why: "the memory is too small for a single key" };
            let mut best = fit(1, fpr).ok().filter(within(bytes)).ok_or(small)?;
            let (mut fits, mut fails) = (1u64, MAX_KEYS + 1);
            while fails - fits > 1 + fits / (1 << 20) {
                // Grow before halving: most answers are far below the largest.
                let middle =
                    if fails > MAX_KEYS { (fits * 8).min(MAX_KEYS) } else { fits.midpoint(fails) };
                match fit(middle, fpr).ok().filter(within(bytes)) {
                    Some(_) if middle == MAX_KEYS => return fit(middle, fpr),
                    Some(shape) => (fits, best) = (middle, shape),
                    None => fails = middle,
                }
            }
            if !S::IS_MONOTONE {
                let mut above = (1..=64).rev().map(|step| fits + fits.saturating_mul(step) / 1000);
                let found = above.find_map(|keys| fit(keys, fpr).ok().filter(within(bytes)));
                best = found.unwrap_or(best);
            }
            Ok(best)
        }
    }
}

/// Checks that `fpr` lies in [`MIN_FPR`]`..1`.
///
/// # Errors
/// [`Error::Fpr`] if it does not.
pub fn check_fpr(fpr: f64) -> Result<(), Error> {
    if (MIN_FPR..1.0).contains(&fpr) { Ok(()) } else { Err(Error::Fpr(fpr)) }
}

/// Checks that `keys` is at most [`MAX_KEYS`].
///
/// # Errors
/// [`Error::Limit`] if it is not.
pub fn check_keys(keys: u64) -> Result<(), Error> {
    if keys <= MAX_KEYS {
        Ok(())
    } else {
        Err(Error::Limit { what: "keys", asked: keys, most: MAX_KEYS })
    }
}
