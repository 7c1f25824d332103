//! Dot products over GF(2) of windows of 64 slots with a solution, with the best instructions of the
//! machine.
//!
//! ```text
//! block b = slots 64b … 64b+63:   │ bit 0 of each │ bit 1 of each │ … │ bit r-1 of each │   r words
//!
//! window     block b      & low coefficients  ─┐
//!            block b + 1  & high coefficients ─┴─ XOR ──► parity of each word = bits of the product
//! ```
//!
//! Eight words are computed at a time. With AVX-512 a word's parity is its population count. With AVX2
//! the halves of each word are added until one bit remains.
//!
//! Testing for instructions and calling a function costs as much as a dot product. Callers therefore pass
//! a whole lookup as a [`Task`], which is compiled three times; [`run`] picks one.

#[cfg(target_arch = "x86_64")]
use crate::cpu::{Feature, has};

use super::band::BAND;
use crate::words::Words;

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

/// Unknowns of a number of bits, in blocks.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    words: &'a [u64],
    width: u32,
    /// Whole blocks in `words`.
    blocks: u64,
}

impl<'a> View<'a> {
    /// Takes unknowns of `width` bits.
    #[inline(always)]
    pub fn new(words: &'a [u64], width: u32) -> Self {
        Self { words, width, blocks: blocks_of(words, width) }
    }
}

fn blocks_of(words: &[u64], width: u32) -> u64 {
    (words.len() as u64).checked_div(width.into()).unwrap_or(0)
}

/// The same in memory of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    words: Words,
    width: u32,
    blocks: u64,
}

impl Solution {
    /// Takes unknowns of `width` bits.
    pub fn new(words: Words, width: u32) -> Self {
        Self { blocks: blocks_of(&words, width), words, width }
    }

    /// Returns a view of the unknowns.
    #[inline(always)]
    pub fn view(&self) -> View<'_> {
        View { words: &self.words, width: self.width, blocks: self.blocks }
    }
}

impl core::ops::Deref for Solution {
    type Target = Words;

    #[inline(always)]
    fn deref(&self) -> &Words {
        &self.words
    }
}

/// Evaluates equations.
pub trait Dot: Copy {
    /// Returns whether an equation holds for a solution.
    ///
    /// # Panics
    /// Panics if a window reaches past the end.
    fn holds<const W: usize>(self, solution: View<'_>, question: Question<W>) -> bool;
}

/// Work that uses [`Dot`]. [`Task::work`] and the functions it calls must be `#[inline(always)]`, or they
/// are compiled for the baseline only.
pub trait Task {
    /// The result.
    type Output;

    /// Does the work.
    fn work(self, dot: impl Dot) -> Self::Output;
}

/// Runs `task` with the best instructions of the machine.
#[inline(always)]
pub fn run<T: Task>(task: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    if has(Feature::AVX512_POPCNT) {
        // SAFETY: the machine has the instruction sets of the function, as tested above.
        return unsafe { with_avx512(task) };
    }
    #[cfg(target_arch = "x86_64")]
    if has(Feature::AVX2_BMI2) {
        // SAFETY: as above.
        return unsafe { with_avx2(task) };
    }
    portable(task)
}

/// Not inlined, because it would share registers with the other versions.
#[inline(never)]
fn portable<T: Task>(task: T) -> T::Output {
    task.work(Portable)
}

/// Returns whether an equation holds for a solution.
///
/// # Panics
/// Panics if a window reaches past the end.
#[inline(always)]
pub fn holds<const W: usize>(solution: View<'_>, question: Question<W>) -> bool {
    run(HoldsOne(solution, question))
}

struct HoldsOne<'a, const W: usize>(View<'a>, Question<W>);

impl<const W: usize> Task for HoldsOne<'_, W> {
    type Output = bool;

    #[inline(always)]
    fn work(self, dot: impl Dot) -> bool {
        dot.holds(self.0, self.1)
    }
}

/// Sets `out[i]` to whether equation `i` holds, as [`holds`] does.
///
/// # Panics
/// Panics if a window reaches past the end, or if `out` is shorter than `questions`.
pub fn holds_batch<const W: usize>(
    solution: View<'_>,
    questions: &[Question<W>],
    out: &mut [bool],
) {
    assert!(out.len() >= questions.len(), "`out` is shorter than `questions`");
    run(HoldsBatch(solution, questions, out));
}

struct HoldsBatch<'a, const W: usize>(View<'a>, &'a [Question<W>], &'a mut [bool]);

impl<const W: usize> Task for HoldsBatch<'_, W> {
    type Output = ();

    #[inline(always)]
    fn work(self, dot: impl Dot) {
        let Self(solution, questions, out) = self;
        for (question, out) in questions.iter().zip(out) {
            *out = dot.holds(solution, *question);
        }
    }
}

/// Plain Rust for every machine. It defines the results.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Dot for Portable {
    #[inline(always)]
    fn holds<const W: usize>(self, solution: View<'_>, question: Question<W>) -> bool {
        holds_portable(solution, question)
    }
}

/// Returns the coefficients of a window for each of the blocks that it lies in.
#[inline(always)]
fn halves(slot: u64, coefficients: u64) -> [u64; 2] {
    let shift = slot as usize % BAND;
    [coefficients << shift, coefficients >> 1 >> (BAND - 1 - shift)]
}

/// Stops at the first bit that differs, which rejects most non-members early.
#[inline(always)]
fn holds_portable<const W: usize>(solution: View<'_>, question: Question<W>) -> bool {
    let View { words, width, .. } = solution;
    let width = width as usize;
    let windows: [_; W] = core::array::from_fn(|i| {
        let (slot, halves) =
            (question.slots[i], halves(question.slots[i], question.coefficients[i]));
        // A window that is exactly one block has no second one: the first stands for it.
        let (first, second) = (slot as usize / BAND, if slot % 64 == 0 { 0 } else { width });
        (&words[first * width..][..second + width], second, halves)
    });
    (0..width).all(|column| {
        let met = windows.iter().fold(0, |met, (blocks, second, [low, high])| {
            met ^ blocks[column] & low ^ blocks[second + column] & high
        });
        u64::from(met.count_ones() & 1) == question.value >> column & 1
    })
}

/// Does the same for windows in the last block.
#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
fn holds_at_end<const W: usize>(solution: View<'_>, question: Question<W>) -> bool {
    holds_portable(solution, question)
}

/// The number of columns that are computed together.
#[cfg(target_arch = "x86_64")]
const TOGETHER: usize = 8;

/// The first word of each block of a window, and the coefficients for each.
#[cfg(target_arch = "x86_64")]
type Blocks = ([*const u64; 2], [u64; 2]);

/// Returns the blocks of each window, or `None` if a second block would lie past the end. All words of
/// the blocks lie in the solution.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn blocks<const W: usize>(solution: View<'_>, question: &Question<W>) -> Option<[Blocks; W]> {
    let View { words, width, blocks } = solution;
    let mut all = [([words.as_ptr(); 2], [0; 2]); W];
    for (i, (at, of_each)) in all.iter_mut().enumerate() {
        let first = question.slots[i] / BAND as u64;
        if first + 1 >= blocks {
            return None;
        }
        at[0] = words.as_ptr().wrapping_add((first * u64::from(width)) as usize);
        at[1] = at[0].wrapping_add(width as usize);
        *of_each = halves(question.slots[i], question.coefficients[i]);
    }
    Some(all)
}

/// Returns whether `agree` holds for all columns, in groups of 8. It is called with the first column of a
/// group and the expected bits. The last group begins at column `width - 8`, so that it does not reach
/// past the blocks.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn all_groups(width: usize, value: u64, agree: impl Fn(usize, u64) -> bool) -> bool {
    let later = |column: usize| {
        let column = column.min(width - TOGETHER);
        agree(column, value >> column)
    };
    agree(0, value) && (width <= TOGETHER || (TOGETHER..width).step_by(TOGETHER).all(later))
}

/// A value of this type proves that the machine has AVX-512 with VPOPCNTDQ.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Dot for Avx512 {
    #[inline(always)]
    fn holds<const W: usize>(self, solution: View<'_>, question: Question<W>) -> bool {
        // SAFETY: only `with_avx512` makes an `Avx512`, and it runs only on machines that have it.
        unsafe { holds_avx512(solution, question) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn with_avx512<T: Task>(task: T) -> T::Output {
    task.work(Avx512(()))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn holds_avx512<const W: usize>(solution: View<'_>, question: Question<W>) -> bool {
    use core::arch::x86_64::{_mm512_loadu_epi64, _mm512_maskz_loadu_epi64};
    let Some(windows) = blocks(solution, &question) else {
        return holds_at_end(solution, question);
    };
    let width = solution.width as usize;
    if width < TOGETHER {
        let columns = 0xff >> (TOGETHER - width);
        // SAFETY: loads only the words of `columns`, which are those of a block.
        let load = |block: *const u64| unsafe { _mm512_maskz_loadu_epi64(columns, block.cast()) };
        return parities_avx512(&windows, load) == question.value as u8 & columns;
    }
    all_groups(width, question.value, |column, value| {
        // SAFETY: a block has the 8 words from `column` on, which is at most `width - 8`.
        let load =
            |block: *const u64| unsafe { _mm512_loadu_epi64(block.wrapping_add(column).cast()) };
        parities_avx512(&windows, load) == value as u8
    })
}

/// Returns the parities of 8 columns. `load` reads them from a block.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn parities_avx512(
    windows: &[Blocks],
    load: impl Fn(*const u64) -> core::arch::x86_64::__m512i,
) -> u8 {
    use core::arch::x86_64::{
        _mm512_and_si512, _mm512_popcnt_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
        _mm512_test_epi64_mask, _mm512_xor_si512,
    };
    let mut met = _mm512_setzero_si512();
    for ([first, second], [low, high]) in windows {
        let low = _mm512_and_si512(load(*first), _mm512_set1_epi64(low.cast_signed()));
        let high = _mm512_and_si512(load(*second), _mm512_set1_epi64(high.cast_signed()));
        met = _mm512_xor_si512(met, _mm512_xor_si512(low, high));
    }
    _mm512_test_epi64_mask(_mm512_popcnt_epi64(met), _mm512_set1_epi64(1))
}

/// A value of this type proves that the machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Dot for Avx2 {
    #[inline(always)]
    fn holds<const W: usize>(self, solution: View<'_>, question: Question<W>) -> bool {
        // SAFETY: only `with_avx2` makes an `Avx2`, and it runs only on machines that have it.
        unsafe { holds_avx2(solution, question) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn with_avx2<T: Task>(task: T) -> T::Output {
    task.work(Avx2(()))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn holds_avx2<const W: usize>(solution: View<'_>, question: Question<W>) -> bool {
    use core::arch::x86_64::{
        _mm256_and_si256, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_loadu_si256,
        _mm256_movemask_ps, _mm256_permute4x64_epi64, _mm256_set1_epi64x, _mm256_setzero_si256,
        _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_xor_si256,
    };
    const HALF: usize = TOGETHER / 2;
    let width = solution.width as usize;
    if width < HALF {
        return holds_portable(solution, question);
    }
    let Some(windows) = blocks(solution, &question) else {
        return holds_at_end(solution, question);
    };
    // The dot products of four columns from `column` on, which is at most `width - 4`.
    let met = |column: usize| {
        let mut met = _mm256_setzero_si256();
        for ([first, second], [low, high]) in windows {
            // SAFETY: a block has the 4 words from `column` on.
            let first = unsafe { _mm256_loadu_si256(first.wrapping_add(column).cast()) };
            // SAFETY: as above.
            let second = unsafe { _mm256_loadu_si256(second.wrapping_add(column).cast()) };
            let low = _mm256_and_si256(first, _mm256_set1_epi64x(low.cast_signed()));
            let high = _mm256_and_si256(second, _mm256_set1_epi64x(high.cast_signed()));
            met = _mm256_xor_si256(met, _mm256_xor_si256(low, high));
        }
        _mm256_castsi256_ps(met)
    };
    let parities = |column, next| {
        let (a, b) = (met(column), met(next));
        let low = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b));
        let high = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b));
        let mut sums = _mm256_xor_si256(low, high);
        sums = _mm256_xor_si256(sums, _mm256_slli_epi32::<16>(sums));
        sums = _mm256_xor_si256(sums, _mm256_slli_epi32::<8>(sums));
        sums = _mm256_xor_si256(sums, _mm256_slli_epi32::<4>(sums));
        sums = _mm256_xor_si256(sums, _mm256_slli_epi32::<2>(sums));
        sums = _mm256_xor_si256(sums, _mm256_slli_epi32::<1>(sums));
        // The shuffles have put columns 4 and 5 before columns 2 and 3.
        let sums = _mm256_permute4x64_epi64::<0b11_01_10_00>(sums);
        _mm256_movemask_ps(_mm256_castsi256_ps(sums)) as u8
    };
    if width < TOGETHER {
        // The second four columns are the last four.
        let next = width - HALF;
        let value = question.value & 0xf | (question.value >> next & 0xf) << HALF;
        return parities(0, next) == value as u8;
    }
    all_groups(width, question.value, |column, value| {
        parities(column, column + HALF) == value as u8
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::range::mix;

    /// Computes the dot product by its definition.
    pub(in crate::gf2) fn product(
        words: &[u64],
        width: u32,
        start: usize,
        coefficients: u64,
    ) -> u64 {
        let unknown = |slot: usize| {
            (0..width as usize).fold(0, |value, j| {
                value | (words[slot / BAND * width as usize + j] >> (slot % BAND) & 1) << j
            })
        };
        (0..BAND).filter(|i| coefficients >> i & 1 == 1).fold(0, |sum, i| sum ^ unknown(start + i))
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
        let solution = View::new(words, width);
        holds_batch(solution, &questions, &mut out);
        for (i, question) in questions.iter().enumerate() {
            assert_eq!(out[i], i % 2 == 0, "width {width}, {question:?}");
            assert_eq!(holds(solution, *question), out[i]);
            assert_eq!(holds_portable(solution, *question), out[i]);
            #[cfg(target_arch = "x86_64")]
            if has(Feature::AVX2_BMI2) {
                // SAFETY: the machine has the instruction sets of the function, as tested above.
                assert_eq!(unsafe { holds_avx2(solution, *question) }, out[i]);
            }
        }
    }

    #[test]
    fn a_window_past_the_end_panics() {
        for slot in [65, 128, 1 << 40, u64::MAX] {
            for slots in [[slot, 0], [0, slot]] {
                let question = Question { slots, coefficients: [1; 2], value: 0 };
                assert!(
                    std::panic::catch_unwind(|| holds(View::new(&[0; 16], 8), question)).is_err()
                );
                assert!(
                    std::panic::catch_unwind(|| holds(View::new(&[0; 4], 2), question)).is_err()
                );
            }
        }
    }
}
