//! Grafite: an approximate range filter. It answers *is there a key in `a..=b`?* for integers.
//!
//! ```text
//!  keys      │ block 0 │ block 1 │ block 2 │ …          blocks of r consecutive integers
//!                 │ shifted by q(0)  │ by q(1), both modulo r: neighbours stay neighbours
//!                 ▼                  ▼
//!  codes     0 ·····x··x·········x·····x···· r - 1      the codes of all n keys, sorted, as Elias-Fano
//!                     └──┘ a range is at most 2 stretches of codes per block that it touches
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | log2(L / fpr) + 2, and 0.2 for directories: 13.8 for ranges of 32 integers at 1 % |
//! | false positive rate | at most n · l / r for a range of l integers, whatever the keys and the range: the fpr at l = L |
//! | cache lines | 4: a sample, a count, a line of high parts, the low parts |
//! | building | sorts twice; 16 bytes per key beside the table |
//!
//! A key `x` has the code `h(x) = (q(⌊x / r⌋) + x) mod r`, where `r = n · L / fpr`, and `q` is SipHash-1-3
//! under the seed. Within a block of `r` integers `h` keeps distances modulo `r`, so a range within a
//! block is a stretch of codes. A range is a false positive only if the code of a key of *another* block
//! falls into its stretch. Each does so with probability `l / r`, over the choice of the seed, and
//! independently of where the range lies: a range right beside a key is no worse than any other. A
//! range of at least `r` integers is always reported.
//!
//! [`Shape::fpr_at`] is the rate of single keys, which is `L` times lower than the promised one.
//! [`Range::fpr_of_range`] states the bound for any length.
//!
//! The filter takes [`KeyHash::hi`] as the integer. The hash `ordered` keeps the order of keys: an integer
//! is its own hash, and a string is its first 8 bytes. Keys that share those 8 bytes are one key. With
//! other hashes only single keys can be looked up.
//!
//! Costa, Ferragina, Vinciguerra, *Grafite: Taming Adversarial Queries with Optimal Range Filters*, 2024.
//! Differences: `q` is a keyed pseudorandom function and not a pairwise independent one, so that answers
//! about some blocks reveal nothing about others; equal codes are stored once.

mod elias_fano;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use siphasher::sip128::SipHasher13;
use tamis_bits::range::scale;
use tamis_format::{Reader, Writer};

use self::elias_fano::{EliasFano, Layout};
use super::common::sort::{CHECKED, dedup, sort};
use crate::error::Error;
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::{KeySource, read_all};
use crate::traits::{Build, Filter, Persist, Range, Static};

/// The most codes, so that the sum of two codes fits a word.
const MAX_CODES: u64 = 1 << 63;
/// The longest range that a filter can be planned for.
const MAX_LENGTH: u64 = 1 << 40;

const LENGTH: Setting = Setting::new(
    "range_length",
    "the longest range at the false positive rate, 1 to 2^40 integers; the default is 1",
);

/// The shape: `r` codes, and the range length of the promised rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrafiteShape {
    keys: u64,
    codes: u64,
    range_length: u64,
    layout: Layout,
}

impl GrafiteShape {
    /// Returns the shape of `codes` codes for `keys` keys, whose promised rate is that of ranges of
    /// `range_length` integers.
    ///
    /// # Errors
    /// [`Error::Limit`] if an argument is out of range.
    pub fn new(keys: u64, codes: u64, range_length: u64) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        if codes == 0 || codes > MAX_CODES {
            return Err(Error::Limit { what: "codes", asked: codes, most: MAX_CODES });
        }
        if keys > codes {
            return Err(Error::Limit {
                what: "keys for this number of codes",
                asked: keys,
                most: codes,
            });
        }
        if range_length == 0 || range_length > MAX_LENGTH {
            let what = "integers in a range";
            return Err(Error::Limit { what, asked: range_length, most: MAX_LENGTH });
        }
        Ok(Self { keys, codes, range_length, layout: Layout::new(keys, codes) })
    }

    /// Returns the number of codes, `r`.
    pub fn codes(&self) -> u64 {
        self.codes
    }

    /// Returns the longest range at the promised rate.
    pub fn range_length(&self) -> u64 {
        self.range_length
    }

    /// Returns the upper bound of the rate of ranges of `length` integers, with `keys` keys.
    fn bound(&self, keys: u64, length: u64) -> f64 {
        (keys as f64 * length as f64 / self.codes as f64).min(1.0)
    }
}

impl Shape for GrafiteShape {
    const SETTINGS: &'static [Setting] = &[LENGTH];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let fits = |length| (1..=MAX_LENGTH).contains(&length);
        let length = settings.number(&LENGTH, fits)?.unwrap_or(1);
        let codes = (keys.max(1) as f64 * length as f64 / fpr).ceil();
        if codes > MAX_CODES as f64 {
            return Err(Error::Infeasible { why: "keys · range length / rate exceeds 2^63" });
        }
        Self::new(keys, (codes as u64).max(keys), length)
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [
            ("range_length", self.range_length.into()),
            ("codes", self.codes.into()),
            ("width", self.layout.width().into()),
        ]
        .into()
    }

    fn figures(&self) -> Figures {
        Figures {
            keys: self.keys,
            fpr: self.bound(self.keys, self.range_length),
            bytes: self.layout.bytes(),
            // 4 lines, a division and SipHash.
            query_cost: 5.5,
        }
    }

    /// Returns the expected rate of single keys.
    fn fpr_at(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { -(keys as f64 * (-1.0 / self.codes as f64).ln_1p()).exp_m1() }
    }
}

/// A Grafite filter.
///
/// ```
/// use tamis::{Grafite, Keyed};
///
/// let builder = Keyed::<Grafite>::builder().fpr(0.001).set("range_length", 100);
/// let times = builder.build([1_000u64, 5_000, 1_000_000])?;
/// assert!(times.contains_range(4_950..5_050)?);
/// assert!(times.contains(&5_000u64) && times.contains_range(5_000..=5_000)?);
/// assert!(!times.contains_range(2_000..2_100)?);
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Grafite {
    shape: GrafiteShape,
    len: u64,
    /// The key of `q`.
    seed: [u64; 2],
    codes: EliasFano,
}

/// Returns the shift of a block: a number below `codes`.
#[inline(always)]
fn shift(seed: [u64; 2], block: u64, codes: u64) -> u64 {
    scale(SipHasher13::new_with_keys(seed[0], seed[1]).hash(&block.to_le_bytes()).h1, codes)
}

/// Returns the code of an integer.
#[inline(always)]
fn code(seed: [u64; 2], number: u64, codes: u64) -> u64 {
    let (block, offset) = (number / codes, number % codes);
    add(shift(seed, block, codes), offset, codes)
}

/// Adds two numbers below `codes`, modulo `codes`.
#[inline(always)]
fn add(a: u64, b: u64, codes: u64) -> u64 {
    let sum = a + b;
    if sum >= codes { sum - codes } else { sum }
}

impl Grafite {
    #[inline(always)]
    fn code(&self, number: u64) -> u64 {
        code(self.seed, number, self.shape.codes)
    }

    /// Returns whether a code of the integers `first..=last` of one block is stored.
    #[inline(always)]
    fn any_in_block(&self, first: u64, last: u64) -> bool {
        let (low, length) = (self.code(first), last - first);
        let high = add(low, length, self.shape.codes);
        if low <= high {
            return self.codes.any_within(low, high);
        }
        self.codes.any_within(low, self.shape.codes - 1) || self.codes.any_within(0, high)
    }

    /// Returns whether a code of the integers `first..=last` is stored.
    fn any_between(&self, first: u64, last: u64) -> bool {
        let codes = self.shape.codes;
        if self.len == 0 {
            return false;
        }
        if last - first >= codes - 1 {
            return true;
        }
        let second_block = last / codes * codes;
        if first >= second_block {
            return self.any_in_block(first, last);
        }
        self.any_in_block(first, second_block - 1) || self.any_in_block(second_block, last)
    }

    /// Answers queries of 32 keys at a time, and prefetches each array for all of them before it is read.
    fn batch<T>(
        &self,
        queries: &[T],
        out: &mut [bool],
        number: impl Fn(&T) -> u64,
        answer: impl Fn(&T, u64) -> bool,
    ) {
        const LANES: usize = 32;
        assert!(out.len() >= queries.len(), "`out` is shorter than the queries");
        let mut codes = [0; LANES];
        for (queries, out) in queries.chunks(LANES).zip(out.chunks_mut(LANES)) {
            let codes = &mut codes[..queries.len()];
            for (code, query) in codes.iter_mut().zip(queries) {
                *code = self.code(number(query));
                self.codes.prefetch_sample(*code);
            }
            codes.iter().for_each(|code| self.codes.prefetch_line(*code));
            codes.iter().for_each(|code| self.codes.prefetch_low(*code));
            for ((query, code), out) in queries.iter().zip(codes).zip(out) {
                *out = answer(query, *code);
            }
        }
    }
}

impl Filter for Grafite {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        let code = self.code(key.hi);
        self.len > 0 && self.codes.any_within(code, code)
    }

    /// Returns the number of distinct keys.
    fn len(&self) -> u64 {
        self.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.codes.words())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        self.batch(
            keys,
            out,
            |key| key.hi,
            |_, code| self.len > 0 && self.codes.any_within(code, code),
        );
    }
}

impl Range for Grafite {
    fn contains_range(&self, first: u64, last: u64) -> bool {
        if first <= last {
            return self.any_between(first, last);
        }
        self.any_between(first, u64::MAX) || self.any_between(0, last)
    }

    fn contains_range_batch(&self, ranges: &[(u64, u64)], out: &mut [bool]) {
        self.batch(ranges, out, |range| range.0, |range, _| self.contains_range(range.0, range.1));
    }

    fn range_length(&self) -> u64 {
        self.shape.range_length
    }

    fn fpr_of_range(&self, length: u64) -> f64 {
        self.shape.bound(self.len, length)
    }
}

impl Static for Grafite {}

impl Build for Grafite {
    type Shape = GrafiteShape;

    fn shape(&self) -> &GrafiteShape {
        &self.shape
    }

    /// Sorts and deduplicates the integers, which counts them, and then their codes. It takes 16 bytes per
    /// key beside the table, and drops duplicates while it reads.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`] if these bytes exceed the limit: the keys of this kind are never written
    /// to a scratch file.
    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<GrafiteShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let (mut numbers, mut distinct, mut exceeds) = (Vec::new(), 0, false);
        let read = read_all(options, keys, |run| {
            let bytes = 2 * 8 * (numbers.len() + run.len()) as u64;
            // The rest is only counted, so that the error states how much memory is enough.
            exceeds |= options.check_memory(bytes).is_err();
            if exceeds {
                numbers = Vec::new();
                return Ok(());
            }
            numbers.try_reserve(run.len()).map_err(|_| Error::Memory { bytes })?;
            numbers.extend(run.iter().map(|key| key.hi));
            if numbers.len() >= 2 * distinct + CHECKED {
                sort_distinct(options, &mut numbers)?;
                distinct = numbers.len();
            }
            Ok(())
        })?;
        options.advance(0, read)?;
        sort_distinct(options, &mut numbers)?;
        let (len, seed) = (numbers.len() as u64, options.get_seed());
        let shape = fit(if exceeds { read } else { len })?;
        options.check_memory(2 * 8 * if exceeds { read } else { len } + shape.layout.bytes())?;
        for numbers in numbers.chunks_mut(CHECKED) {
            options.check(0, len)?;
            for number in numbers {
                *number = code(seed, *number, shape.codes);
            }
        }
        sort_distinct(options, &mut numbers)?;
        let codes = EliasFano::new(shape.layout, &numbers, || options.check(0, len))?;
        options.advance(len, len)?;
        Ok(Self { shape, len, seed, codes })
    }
}

/// Sorts numbers and drops duplicates.
fn sort_distinct(options: &BuildOptions<'_>, numbers: &mut Vec<u64>) -> Result<(), Error> {
    let len = numbers.len() as u64;
    let check = || options.check(0, len);
    let bits = 64 - numbers.iter().fold(0, |all, number| all | number).leading_zeros();
    sort(numbers, bits, check)?;
    dedup(numbers, check)
}

impl Persist for Grafite {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let GrafiteShape { keys, codes, range_length, .. } = self.shape;
        let (width, [t0, t1]) = (self.shape.layout.width(), self.seed);
        to.shape(&[codes, range_length, keys, width.into(), self.codes.len(), t0, t1]);
        self.codes.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let codes = fields.next(1..=MAX_CODES, "number of codes")?;
        let range_length = fields.next(1..=MAX_LENGTH, "range length")?;
        let keys = fields.next(len..=MAX_KEYS.min(codes), "capacity in keys")?;
        let width = fields.next(0..=63, "bits of a low part")?;
        let stored = fields.next(len.min(1)..=len, "number of stored codes")?;
        let seed = [fields.next(0..=u64::MAX, "seed")?, fields.next(0..=u64::MAX, "seed")?];
        fields.finish()?;
        let layout = Layout::with_width(keys, codes, width)
            .ok_or(tamis_format::Error::corrupt("bits of a low part"))?;
        let shape = GrafiteShape { keys, codes, range_length, layout };
        let codes = EliasFano::read(from, shape.layout, stored)?;
        Ok(Self { shape, len, seed, codes })
    }

    fn validate(&self) -> Result<(), Error> {
        self.codes.validate()
    }
}
