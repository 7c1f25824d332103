//! Linear systems over GF(2) whose equations each touch 64 neighbouring unknowns, and dot products
//! with their solutions.
//!
//! ```text
//! unknowns   0 1 2 3 …                                    a row: 64 coefficients from `start` on,
//! row a        1 0 1 1 0 … 1                              the first of them 1, and a value
//! row b          1 1 0 1 1 … 0
//! row c              1 0 1 1 1 … 1          Σ coefficients · unknowns = value, for each of r bits
//! ```
//!
//! A [`Band`] takes rows one by one and keeps them in echelon form: slot `i` holds the row whose
//! first 1 is at `i`. If the slot of a new row is taken, the row in it is added to the new row, which
//! moves its first 1 to the right. In the end it finds a free slot or becomes zero. Rows in slots
//! never change, so the last rows can be removed again by emptying their slots.
//!
//! Solving runs from the last slot to the first. The unknowns have `width` bits each, and their
//! layout serves dot products with windows of 64 slots:
//!
//! ```text
//! block b = slots 64b … 64b+63:   │ bit 0 of each │ bit 1 of each │ … │ bit r-1 of each │   r words
//! ```
//!
//! A window of 64 slots lies in one or two blocks. For widths up to 8 those are two neighbouring
//! cache lines. A dot product takes two ANDs, a XOR and a parity for each bit, for eight bits at a
//! time in a 512-bit register.

use alloc::vec::Vec;

use crate::OutOfMemory;
#[cfg(target_arch = "x86_64")]
use crate::cpu::{Feature, has};

/// The number of unknowns that a row touches, of slots in a block, and of bits in a word.
pub const BAND: usize = 64;

/// What [`Band::insert`] did with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// The row is in this slot.
    Placed(usize),
    /// The row follows from those in the system.
    Implied,
    /// The row contradicts those in the system and was not inserted.
    Clash,
}

/// Rows in echelon form.
#[derive(Debug)]
pub struct Band {
    /// The coefficients from the slot on, whose lowest bit belongs to the slot itself, and the value.
    /// A free slot has no coefficients.
    rows: Vec<[u64; 2]>,
}

impl Band {
    /// Makes a system of `slots` unknowns without rows.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the allocation fails.
    pub fn new(slots: usize) -> Result<Self, OutOfMemory> {
        let mut rows = Vec::new();
        let bytes = (slots as u64).saturating_mul(16);
        rows.try_reserve_exact(slots).map_err(|_| OutOfMemory { bytes })?;
        rows.resize(slots, [0; 2]);
        Ok(Self { rows })
    }

    /// Empties every slot.
    pub fn clear(&mut self) {
        self.rows.fill([0; 2]);
    }

    /// Inserts the row with `coefficients` from slot `start` on, the lowest of which must be 1.
    ///
    /// # Panics
    /// Panics if a coefficient lies past the last slot.
    #[inline]
    pub fn insert(&mut self, mut start: usize, mut coefficients: u64, mut value: u64) -> Row {
        debug_assert!(coefficients & 1 == 1, "the lowest coefficient is 0");
        loop {
            let [other, other_value] = self.rows[start];
            if other == 0 {
                self.rows[start] = [coefficients, value];
                return Row::Placed(start);
            }
            coefficients ^= other;
            value ^= other_value;
            if coefficients == 0 {
                return if value == 0 { Row::Implied } else { Row::Clash };
            }
            let zeros = coefficients.trailing_zeros();
            coefficients >>= zeros;
            start += zeros as usize;
        }
    }

    /// Removes a row. All rows inserted after it must have been removed before.
    #[inline]
    pub fn remove(&mut self, slot: usize) {
        self.rows[slot] = [0; 2];
    }

    /// Writes unknowns of `width` bits that satisfy all rows to `out`, in blocks. `free` returns the
    /// unknown of a free slot.
    ///
    /// # Panics
    /// Panics if the slots are not whole blocks, or if `out` does not have `width` words for each.
    pub fn solve(&self, width: u32, free: impl Fn(usize) -> u64 + Copy, out: &mut [u64]) {
        assert!(self.rows.len().is_multiple_of(BAND), "the slots are not whole blocks");
        assert_eq!(
            out.len(),
            self.rows.len() / BAND * width as usize,
            "`out` needs `width` words for each block"
        );
        #[cfg(target_arch = "x86_64")]
        if has(Feature::AVX512_POPCNT) {
            // SAFETY: the machine has the instruction sets of the function, as tested above.
            return unsafe { solve_avx512(&self.rows, width, free, out) };
        }
        solve(&self.rows, width, free, out);
    }
}

/// The number of columns that are computed together.
const TOGETHER: usize = 8;

/// Solves from the last slot to the first, eight columns at a time. `ahead[j]` holds bit `j` of the
/// 64 unknowns from the slot on. At the first slot of a block it is a word of the block.
#[inline(always)]
fn solve(rows: &[[u64; 2]], width: u32, free: impl Fn(usize) -> u64, out: &mut [u64]) {
    let width = width as usize;
    for column in (0..width).step_by(TOGETHER) {
        let mut ahead = [0u64; TOGETHER];
        for (slot, [coefficients, value]) in rows.iter().enumerate().rev() {
            let known = if *coefficients == 0 { free(slot) } else { *value };
            let known = known >> column;
            for (j, ahead) in ahead.iter_mut().enumerate() {
                *ahead <<= 1;
                let rest = u64::from((*ahead & coefficients).count_ones());
                *ahead |= (rest ^ known >> j) & 1;
            }
            if slot % BAND == 0 {
                let block = &mut out[slot / BAND * width..][column..width];
                block.iter_mut().zip(ahead).for_each(|(word, ahead)| *word = ahead);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq,popcnt")]
fn solve_avx512(rows: &[[u64; 2]], width: u32, free: impl Fn(usize) -> u64, out: &mut [u64]) {
    solve(rows, width, free, out);
}

/// An equation to evaluate on a solution: the sum of the dot products of `WINDOWS` windows is `value`.
#[derive(Clone, Copy, Debug)]
pub struct Question<const WINDOWS: usize> {
    /// The first slot of each window.
    pub slots: [u64; WINDOWS],
    /// The coefficients of each window, lowest first.
    pub coefficients: [u64; WINDOWS],
    /// The expected sum. Bits above the width of the unknowns are ignored.
    pub value: u64,
}

impl<const WINDOWS: usize> Default for Question<WINDOWS> {
    fn default() -> Self {
        Self { slots: [0; WINDOWS], coefficients: [0; WINDOWS], value: 0 }
    }
}

/// Returns the words of the one or two blocks that a window lies in, the index at which the second
/// begins, and the coefficients for each. If the window is exactly one block, the second is the
/// first again, with coefficients of 0.
#[inline(always)]
fn window(words: &[u64], width: usize, slot: u64, coefficients: u64) -> (&[u64], usize, [u64; 2]) {
    let (block, shift) = (slot as usize / BAND, slot as usize % BAND);
    let (first, second) = (block * width, if shift == 0 { 0 } else { width });
    let low = coefficients << shift;
    let high = coefficients >> 1 >> (BAND - 1 - shift);
    (&words[first..first + second + width], second, [low, high])
}

/// Returns whether an equation holds for a solution of `width` bits.
///
/// # Panics
/// Panics if a window reaches past the end.
#[inline(always)]
pub fn holds<const W: usize>(words: &[u64], width: u32, question: Question<W>) -> bool {
    #[cfg(target_arch = "x86_64")]
    if has(Feature::AVX512_POPCNT) {
        let Question { slots, coefficients, value } = question;
        // SAFETY: the machine has the instruction sets of the function, as tested above.
        return unsafe { holds_avx512(words, width, slots, coefficients, value) };
    }
    holds_portable(words, width, &question)
}

/// Stops at the first bit that differs, which rejects most non-members early.
#[inline(always)]
fn holds_portable<const W: usize>(words: &[u64], width: u32, question: &Question<W>) -> bool {
    let width = width as usize;
    let windows: [_; W] =
        core::array::from_fn(|i| window(words, width, question.slots[i], question.coefficients[i]));
    (0..width).all(|column| {
        let met = windows.iter().fold(0, |met, (blocks, second, [low, high])| {
            met ^ blocks[column] & low ^ blocks[second + column] & high
        });
        u64::from(met.count_ones() & 1) == question.value >> column & 1
    })
}

/// Takes its arguments in registers. That, one check of the bounds and the one-byte cache in
/// [`crate::cpu`] reduced a query of a table in the cache from 12.6 to 9.8 ns.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn holds_avx512<const W: usize>(
    words: &[u64],
    width: u32,
    slots: [u64; W],
    coefficients: [u64; W],
    value: u64,
) -> bool {
    use core::arch::x86_64::{
        _mm512_and_si512, _mm512_maskz_loadu_epi64, _mm512_popcnt_epi64, _mm512_set1_epi64,
        _mm512_setzero_si512, _mm512_test_epi64_mask, _mm512_xor_si512,
    };
    let width = width as usize;
    let windows: [_; W] = core::array::from_fn(|i| window(words, width, slots[i], coefficients[i]));
    let one = _mm512_set1_epi64(1);
    let agree = |column: usize| {
        let columns = 0xffu8 >> TOGETHER.saturating_sub(width - column);
        let mut met = _mm512_setzero_si512();
        for (blocks, second, [low, high]) in windows {
            // SAFETY: `column` is less than `width`, and each block has `width` words.
            let first = unsafe { blocks.as_ptr().add(column) };
            // SAFETY: as above, because the last block begins at `second`.
            let second = unsafe { first.add(second) };
            // SAFETY: loads only the words of `columns`, none of which lies past the block.
            let first = unsafe { _mm512_maskz_loadu_epi64(columns, first.cast()) };
            // SAFETY: as above.
            let second = unsafe { _mm512_maskz_loadu_epi64(columns, second.cast()) };
            let low = _mm512_and_si512(first, _mm512_set1_epi64(low.cast_signed()));
            let high = _mm512_and_si512(second, _mm512_set1_epi64(high.cast_signed()));
            met = _mm512_xor_si512(met, _mm512_xor_si512(low, high));
        }
        let product = _mm512_test_epi64_mask(_mm512_popcnt_epi64(met), one);
        product == (value >> column) as u8 & columns
    };
    agree(0) && (width <= TOGETHER || (TOGETHER..width).step_by(TOGETHER).all(agree))
}

/// Sets `out[i]` to whether equation `i` holds, as [`holds`] does.
///
/// # Panics
/// Panics if a window reaches past the end, or if `out` is shorter than `questions`.
pub fn holds_batch<const W: usize>(
    words: &[u64],
    width: u32,
    questions: &[Question<W>],
    out: &mut [bool],
) {
    assert!(out.len() >= questions.len(), "`out` is shorter than `questions`");
    #[cfg(target_arch = "x86_64")]
    if has(Feature::AVX512_POPCNT) {
        // SAFETY: the machine has the instruction sets of the function, as tested above.
        return unsafe { holds_batch_avx512(words, width, questions, out) };
    }
    for (question, out) in questions.iter().zip(out) {
        *out = holds_portable(words, width, question);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn holds_batch_avx512<const W: usize>(
    words: &[u64],
    width: u32,
    questions: &[Question<W>],
    out: &mut [bool],
) {
    for (question, out) in questions.iter().zip(out) {
        let Question { slots, coefficients, value } = *question;
        *out = holds_avx512(words, width, slots, coefficients, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::mask;
    use crate::range::{mix, scale};

    /// Returns rows with random starts, coefficients and values.
    fn rows(slots: usize, count: u64, seed: u64) -> impl Iterator<Item = (usize, u64, u64)> {
        let starts = (slots - BAND + 1) as u64;
        (0..count).map(move |i| {
            let x = mix(i << 20 | seed);
            (scale(x, starts) as usize, mix(x) | 1, mix(x ^ 5))
        })
    }

    /// Computes the dot product by its definition.
    fn product(words: &[u64], width: u32, start: usize, coefficients: u64) -> u64 {
        let unknown = |slot: usize| {
            (0..width as usize).fold(0, |value, j| {
                value | (words[slot / BAND * width as usize + j] >> (slot % BAND) & 1) << j
            })
        };
        (0..BAND).filter(|i| coefficients >> i & 1 == 1).fold(0, |sum, i| sum ^ unknown(start + i))
    }

    #[test]
    fn every_system_that_is_accepted_is_solved() {
        for width in [1, 2, 5, 7, 8, 9, 16, 31, 32, 64] {
            for (slots, seed) in [(64, 1), (128, 2), (192, 3), (640, 4), (6400, 5)] {
                let mut band = Band::new(slots).unwrap();
                let mut kept = Vec::new();
                let (mut implied, mut clashes) = (0, 0);
                for (start, coefficients, value) in rows(slots, slots as u64 * 11 / 10, seed) {
                    let value = value & mask(width);
                    match band.insert(start, coefficients, value) {
                        Row::Placed(slot) => assert!((start..start + slots).contains(&slot)),
                        Row::Implied => implied += 1,
                        Row::Clash => {
                            clashes += 1;
                            continue;
                        }
                    }
                    kept.push((start, coefficients, value));
                }
                assert!(clashes > 0 && (width > 2 || implied > 0), "more rows than unknowns");
                let mut words = vec![0; slots / BAND * width as usize];
                band.solve(width, |slot| mix(slot as u64), &mut words);
                for (start, coefficients, value) in kept {
                    assert_eq!(product(&words, width, start, coefficients), value);
                }
            }
        }
    }

    #[test]
    fn removed_rows_leave_no_trace() {
        let mut band = Band::new(640).unwrap();
        let mut rows = rows(640, 500, 6);
        rows.by_ref().take(300).for_each(|(s, c, v)| _ = band.insert(s, c, v));
        let before = band.rows.clone();
        let placed: Vec<_> = rows.map(|(s, c, v)| band.insert(s, c, v)).collect();
        for row in placed.into_iter().rev() {
            if let Row::Placed(slot) = row {
                band.remove(slot);
            }
        }
        assert_eq!(band.rows, before);
        band.clear();
        assert_eq!(band.rows, [[0; 2]; 640]);
    }

    #[test]
    fn free_unknowns_are_those_of_the_caller() {
        let mut words = [0; 2 * 32];
        Band::new(128).unwrap().solve(32, |slot| mix(slot as u64), &mut words);
        for slot in 0..65 {
            assert_eq!(product(&words, 32, slot, 1), mix(slot as u64) & mask(32));
        }
    }

    /// Compares all versions with the definition, for windows at every slot of a block, the last too.
    #[test]
    fn versions_agree() {
        for width in 1..=64 {
            let blocks = 5;
            let words: Vec<u64> = (0..blocks * u64::from(width)).map(mix).collect();
            versions_agree_on::<1>(&words, width);
            versions_agree_on::<2>(&words, width);
        }
        let (rows, mut twin) = (Band::new(320).unwrap(), vec![0; 5 * 20]);
        let mut words = twin.clone();
        rows.solve(20, |slot| mix(slot as u64), &mut words);
        solve(&rows.rows, 20, |slot| mix(slot as u64), &mut twin);
        assert_eq!(words, twin);
    }

    fn versions_agree_on<const W: usize>(words: &[u64], width: u32) {
        let starts = words.len() / width as usize * BAND - BAND + 1;
        let questions: Vec<Question<W>> = (0..starts)
            .map(|start| {
                let slots = core::array::from_fn(|i| (start * (i * 6 + 1) % starts) as u64);
                let coefficients = core::array::from_fn(|i| mix(start as u64 ^ 77 << i));
                let value = (0..W).fold(0, |sum, i| {
                    sum ^ product(words, width, slots[i] as usize, coefficients[i])
                });
                // Every other value is wrong in one bit.
                let wrong = (start as u64 % 2) << (mix(start as u64) % u64::from(width));
                Question { slots, coefficients, value: value ^ wrong }
            })
            .collect();
        let mut out = vec![false; questions.len()];
        holds_batch(words, width, &questions, &mut out);
        for (i, question) in questions.iter().enumerate() {
            assert_eq!(out[i], i % 2 == 0, "width {width}, {question:?}");
            assert_eq!(holds(words, width, *question), out[i]);
            assert_eq!(holds_portable(words, width, question), out[i]);
        }
    }

    #[test]
    fn a_window_past_the_end_panics() {
        for slot in [65, 128, 1 << 40, u64::MAX] {
            for slots in [[slot, 0], [0, slot]] {
                let question = Question { slots, coefficients: [1; 2], value: 0 };
                assert!(std::panic::catch_unwind(|| holds(&[0; 16], 8, question)).is_err());
            }
        }
    }
}
