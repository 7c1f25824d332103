//! Ascending numbers in Elias-Fano form: about `log2(r / n) + 2` bits for each of `n` numbers below `r`.
//!
//! ```text
//!  number    high part: its bucket   | low part: `width` bits
//!
//!  low       | low of number 0 | low of number 1 | …              packed, in order
//!  high      1 1 0 0 1 0 …     bucket 0 has 2 numbers, bucket 1 none, bucket 2 one: a bucket is a 1 for each
//!                              of its numbers and a 0, so that bucket b follows zero number b - 1
//!  zeros     zeros before each line of 512 bits of `high`
//!  samples   the line of every 256th zero
//! ```
//!
//! The two directories find a zero in a fixed number of steps, unless many numbers share a bucket: then a
//! binary search runs over the lines between two samples, and another one over the numbers of the bucket.

use tamis_bits::select::{Bits, Portable};
use tamis_bits::{Words, lines, packed, prefetch, set};
use tamis_format::{Name, Reader, Writer};

use crate::error::Error;
use crate::filters::common::usize_words;

const LOW: Name = Name::new("low");
const HIGH: Name = Name::new("high");
const ZEROS: Name = Name::new("zeros");
const SAMPLES: Name = Name::new("samples");

/// Bits of `high` in a line of the directory.
const LINE: u64 = 512;
/// Zeros from one sample to the next.
const SAMPLE: u64 = 256;
/// Words of `high` in which the end of a bucket is searched before the directory is used.
const NEAR: usize = 4;

/// The sizes of the arrays for up to `numbers` numbers below `universe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    numbers: u64,
    universe: u64,
    width: u32,
}

impl Layout {
    /// Returns the smallest layout. `universe` is at least 1 and at least `numbers`, and at most 2^63;
    /// `numbers` is at most 2^48.
    pub(super) fn new(numbers: u64, universe: u64) -> Self {
        let [shorter, longer] = Self::candidates(numbers, universe);
        if longer.bytes() < shorter.bytes() { longer } else { shorter }
    }

    /// Returns the layout with low parts of `width` bits, if that width can be the best.
    pub(super) fn with_width(numbers: u64, universe: u64, width: u64) -> Option<Self> {
        let mut candidates = Self::candidates(numbers, universe).into_iter();
        candidates.find(|layout| u64::from(layout.width) == width)
    }

    /// Returns the two layouts of which one is the smallest. A longer low part has fewer buckets, and so
    /// smaller directories.
    fn candidates(numbers: u64, universe: u64) -> [Self; 2] {
        let width = (universe / numbers.max(1)).ilog2();
        [width, (width + 1).min(63)].map(|width| Self { numbers, universe, width })
    }

    /// Returns the bits of a low part.
    pub(super) fn width(self) -> u32 {
        self.width
    }

    fn buckets(self) -> u64 {
        ((self.universe - 1) >> self.width) + 1
    }

    fn high_bits(self) -> u64 {
        self.numbers + self.buckets()
    }

    fn lines(self) -> u64 {
        self.high_bits().div_ceil(LINE)
    }

    /// Returns the bits of a count of zeros.
    fn zeros_width(self) -> u32 {
        bits_of(self.lines() * LINE)
    }

    /// Returns the bits of the number of a line.
    fn line_width(self) -> u32 {
        bits_of(self.lines())
    }

    fn samples(self) -> u64 {
        self.buckets().div_ceil(SAMPLE)
    }

    /// Returns the words of `low`, `high`, `zeros` and `samples`.
    fn words(self) -> [u64; 4] {
        // At most 2^48 numbers, 2^49 buckets and 63 bits each, so no overflow.
        [
            (self.numbers * u64::from(self.width)).div_ceil(64),
            self.lines() * (LINE / 64),
            (self.lines() * u64::from(self.zeros_width())).div_ceil(64),
            (self.samples() * u64::from(self.line_width())).div_ceil(64),
        ]
    }

    /// Returns the bytes of the arrays, in whole cache lines.
    pub(super) fn bytes(self) -> u64 {
        self.words().iter().map(|words| lines(*words) * 64).sum()
    }
}

/// Returns the bits that `number` takes, at least 1.
fn bits_of(number: u64) -> u32 {
    (64 - number.leading_zeros()).max(1)
}

/// Distinct numbers in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EliasFano {
    layout: Layout,
    len: u64,
    low: Words,
    high: Words,
    zeros: Words,
    samples: Words,
}

impl EliasFano {
    /// Stores ascending numbers, of which there are at most as many as the layout is for. Calls `check`
    /// once per 2^20 numbers.
    pub(super) fn new(
        layout: Layout,
        numbers: &[u64],
        check: impl Fn() -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let [low, high, ..] = layout.words();
        let mut low = Words::zeroed(usize_words(low)?)?;
        let mut high = Words::zeroed(usize_words(high)?)?;
        let (lows, highs) = (low.to_mut(), high.to_mut());
        for (index, number) in (0..).zip(numbers) {
            if index % (1 << 20) == 0 {
                check()?;
            }
            set::set(highs, index + (number >> layout.width));
            if layout.width > 0 {
                packed::set(lows, layout.width, index, *number);
            }
        }
        let [zeros, samples] = directories(layout, &high)?;
        Ok(Self { layout, len: numbers.len() as u64, low, high, zeros, samples })
    }

    /// Returns how many numbers there are.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the words of all arrays.
    pub(super) fn words(&self) -> usize {
        [&self.low, &self.high, &self.zeros, &self.samples].iter().map(|words| words.len()).sum()
    }

    /// Returns the low part of number `index`, which is less than the capacity of the layout.
    #[inline(always)]
    fn low(&self, index: u64) -> u64 {
        match self.layout.width {
            0 => 0,
            width => packed::get(&self.low, width, index),
        }
    }

    /// Returns the bucket and the low part of a number below the universe.
    #[inline(always)]
    fn split(&self, number: u64) -> (u64, u64) {
        (number >> self.layout.width, number & packed::mask(self.layout.width))
    }

    /// Prefetches the sample that [`EliasFano::line`] reads.
    #[inline(always)]
    pub(super) fn prefetch_sample(&self, number: u64) {
        let sample = self.split(number).0.saturating_sub(1) / SAMPLE;
        prefetch(&self.samples, (sample * u64::from(self.layout.line_width()) / 64) as usize);
    }

    /// Prefetches the line in which the bucket of a number begins.
    #[inline(always)]
    pub(super) fn prefetch_line(&self, number: u64) {
        let line = match self.split(number).0 {
            0 => 0,
            bucket => self.line(bucket - 1),
        };
        prefetch(&self.high, (line * (LINE / 64)) as usize);
    }

    /// Returns the line that holds zero number `zero`; of a damaged array, some line.
    #[inline(always)]
    fn line(&self, zero: u64) -> u64 {
        let (sample, last) = (zero / SAMPLE, self.layout.lines() - 1);
        let line_at =
            |sample| packed::get(&self.samples, self.layout.line_width(), sample).min(last);
        let mut low = line_at(sample);
        let mut high = if sample + 1 < self.layout.samples() { line_at(sample + 1) } else { last };
        let width = self.layout.zeros_width();
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if packed::get(&self.zeros, width, middle) <= zero {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// Returns the place of zero number `zero` in `high`; of a damaged array, some place.
    #[inline(always)]
    fn select_zero(&self, zero: u64) -> u64 {
        let line = self.line(zero);
        let before = packed::get(&self.zeros, self.layout.zeros_width(), line);
        let mut rest = zero.saturating_sub(before);
        let first = line * (LINE / 64);
        for word in first..first + LINE / 64 {
            let zeros = !self.high[word as usize];
            let count = u64::from(zeros.count_ones());
            if rest < count {
                return word * 64 + u64::from(Portable.select(zeros, rest as u32));
            }
            rest -= count;
        }
        (first + LINE / 64) * 64 - 1
    }

    /// Returns the place of the first zero from `place` on, if it is near.
    #[inline(always)]
    fn near_zero(&self, place: u64) -> Option<u64> {
        let first = (place / 64) as usize;
        let mut skip = !packed::mask((place % 64) as u32);
        for (word, ones) in self.high.iter().enumerate().skip(first).take(NEAR) {
            let zeros = !ones & skip;
            if zeros != 0 {
                return Some(word as u64 * 64 + u64::from(zeros.trailing_zeros()));
            }
            skip = u64::MAX;
        }
        None
    }

    /// Returns the indices of the numbers in a bucket, `first..end`, both at most the number of numbers.
    #[inline(always)]
    fn bucket(&self, bucket: u64) -> (u64, u64) {
        let begin = if bucket == 0 { 0 } else { self.select_zero(bucket - 1) + 1 };
        let end = self.near_zero(begin).unwrap_or_else(|| self.select_zero(bucket));
        let index = |place: u64| place.saturating_sub(bucket).min(self.len);
        (index(begin), index(end))
    }

    /// Returns the first index of `first..end` whose low part is at least `low`, or `end`.
    #[inline(always)]
    fn lower_bound(&self, mut first: u64, mut end: u64, low: u64) -> u64 {
        while end.saturating_sub(first) > 8 {
            let middle = first.midpoint(end);
            if self.low(middle) < low {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        while first < end && self.low(first) < low {
            first += 1;
        }
        first
    }

    /// Prefetches the low parts of a number's bucket.
    #[inline(always)]
    pub(super) fn prefetch_low(&self, number: u64) {
        let (first, _) = self.bucket(self.split(number).0);
        prefetch(&self.low, (first * u64::from(self.layout.width) / 64) as usize);
    }

    /// Returns whether a number of `first..=last` is stored. `first` is at most `last`, which is less
    /// than the universe.
    #[inline(always)]
    pub(super) fn any_within(&self, first: u64, last: u64) -> bool {
        let ((bucket, low), (last_bucket, last_low)) = (self.split(first), self.split(last));
        let (begin, end) = self.bucket(bucket);
        let index = self.lower_bound(begin, end, low);
        if bucket == last_bucket {
            return index < end && self.low(index) <= last_low;
        }
        if index < end {
            return true;
        }
        let (last_begin, last_end) = self.bucket(last_bucket);
        last_begin > end || last_begin < last_end && self.low(last_begin) <= last_low
    }

    /// Adds the arrays to a file.
    pub(super) fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.words(LOW, &self.low);
        to.words(HIGH, &self.high);
        to.words(ZEROS, &self.zeros);
        to.words(SAMPLES, &self.samples);
    }

    /// Reads the arrays of `len` numbers.
    pub(super) fn read(from: &mut Reader, layout: Layout, len: u64) -> Result<Self, Error> {
        let [low, high, zeros, samples] = layout.words();
        Ok(Self {
            layout,
            len,
            low: from.words(LOW, low)?,
            high: from.words(HIGH, high)?,
            zeros: from.words(ZEROS, zeros)?,
            samples: from.words(SAMPLES, samples)?,
        })
    }

    /// Checks every word.
    pub(super) fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        if set::ones(&self.high) != self.len {
            return corrupt("the number of codes does not match the bits of `high`");
        }
        if !set::ends_at(&self.low, self.len * u64::from(self.layout.width)) {
            return corrupt("bits are set past the last low part");
        }
        let (mut index, mut least) = (0, 0);
        for (word, bits) in (0..).zip(self.high.iter()) {
            let mut bits = *bits;
            while bits != 0 {
                let bucket = word * 64 + u64::from(bits.trailing_zeros()) - index;
                bits &= bits - 1;
                if bucket >= self.layout.buckets() {
                    return corrupt("a code is past the last bucket");
                }
                let number = bucket << self.layout.width | self.low(index);
                if number < least || number >= self.layout.universe {
                    return corrupt("the codes do not ascend, or are out of range");
                }
                (index, least) = (index + 1, number + 1);
            }
        }
        match directories(self.layout, &self.high)? == [self.zeros.clone(), self.samples.clone()] {
            true => Ok(()),
            false => corrupt("a directory does not match the bits of `high`"),
        }
    }
}

/// Returns the arrays `zeros` and `samples` for the bits of `high`.
fn directories(layout: Layout, high: &[u64]) -> Result<[Words; 2], Error> {
    let [_, _, zeros, samples] = layout.words();
    let mut zeros = Words::zeroed(usize_words(zeros)?)?;
    let mut samples = Words::zeroed(usize_words(samples)?)?;
    let (mut before, mut sample) = (0, 0);
    for (line, words) in (0..).zip(high.chunks((LINE / 64) as usize)) {
        packed::set(zeros.to_mut(), layout.zeros_width(), line, before);
        before += LINE - set::ones(words);
        while sample < layout.samples() && sample * SAMPLE < before {
            packed::set(samples.to_mut(), layout.line_width(), sample, line);
            sample += 1;
        }
    }
    Ok([zeros, samples])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use tamis_bits::range::mix;

    /// Every range of small universes, and random ranges of larger ones, against a scan.
    #[test]
    fn ranges_agree_with_a_scan() {
        let check = |universe: u64, room: u64, numbers: &[u64], ranges: &[(u64, u64)]| {
            let stored = EliasFano::new(Layout::new(room, universe), numbers, || Ok(())).unwrap();
            stored.validate().unwrap();
            for (first, last) in ranges {
                let at = numbers.partition_point(|number| number < first);
                let expected = numbers.get(at).is_some_and(|number| number <= last);
                assert_eq!(stored.any_within(*first, *last), expected, "{first}..={last}");
            }
        };
        for universe in 1..20u64 {
            let ranges: Vec<_> =
                (0..universe).flat_map(|a| (a..universe).map(move |b| (a, b))).collect();
            for subset in 0..1u64 << universe.min(10) {
                let numbers: Vec<u64> = (0..universe).filter(|n| subset >> n & 1 == 1).collect();
                for room in [numbers.len() as u64, universe] {
                    check(universe, room, &numbers, &ranges);
                }
            }
        }
        for (universe, step, cluster) in [
            (1 << 20, 1000, 1),
            (1 << 40, 1 << 30, 700),
            (1 << 63, 1 << 52, 1),
            (90_000, 45_000, 40_000),
        ] {
            let mut numbers: Vec<u64> = (0..universe / step)
                .flat_map(|n| (0..cluster).map(move |at| n * step + mix(n) % (step - cluster) + at))
                .collect();
            numbers.sort_unstable();
            numbers.dedup();
            let ranges: Vec<_> = (0..20_000)
                .map(|n| {
                    let near = numbers[(mix(n) % numbers.len() as u64) as usize];
                    let first = near.saturating_sub(mix(n + 1) % 3).min(universe - 1);
                    let len = mix(n + 2) >> (mix(n + 3) % 64);
                    (first, first.saturating_add(len).min(universe - 1))
                })
                .collect();
            check(universe, numbers.len() as u64, &numbers, &ranges);
        }
    }

    /// The bits per number stay below log2(universe / numbers) + 2 and the directories.
    #[test]
    fn the_arrays_take_what_the_form_promises() {
        for numbers in [100_000u64, 10_000_000] {
            for step in 0..200u32 {
                let ratio = (1.0 + f64::from(step) / 5.0).exp2();
                let layout = Layout::new(numbers, (numbers as f64 * ratio) as u64);
                let bits = layout.bytes() as f64 * 8.0 / numbers as f64;
                let bound = ratio.log2() + 2.0;
                assert!(
                    bits <= bound * 1.01 + 0.2,
                    "{bits} bits at a ratio of {ratio}, not {bound}"
                );
            }
        }
    }
}
