//! Linear systems over GF(2) whose equations each touch 64 neighbouring unknowns.
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
//! A window of 64 slots lies in one or two blocks, which for widths up to 8 are two neighbouring cache
//! lines. [`super::dot`] computes dot products with windows.

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

/// A source of rows for [`Band::insert_interleaved`].
pub trait Lane {
    /// Returns the next row: its first slot, its coefficients from there on, the lowest of which must be
    /// 1, and its value.
    fn next_row(&mut self) -> Option<(usize, u64, u64)>;

    /// Receives the outcome of the row that [`next_row`](Self::next_row) returned last. It may remove rows of
    /// its own lane from `band`.
    fn settle(&mut self, row: Row, band: &mut Band);
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
            if let Some(row) = self.step(&mut start, &mut coefficients, &mut value) {
                return row;
            }
        }
    }

    /// Puts a row into its first slot, or adds the row in that slot to it.
    #[inline(always)]
    fn step(&mut self, start: &mut usize, coefficients: &mut u64, value: &mut u64) -> Option<Row> {
        let [other, other_value] = self.rows[*start];
        if other == 0 {
            self.rows[*start] = [*coefficients, *value];
            return Some(Row::Placed(*start));
        }
        *coefficients ^= other;
        *value ^= other_value;
        if *coefficients == 0 {
            return Some(if *value == 0 { Row::Implied } else { Row::Clash });
        }
        let zeros = coefficients.trailing_zeros();
        *coefficients >>= zeros;
        *start += zeros as usize;
        None
    }

    /// Inserts all rows of the lanes, one addition of each lane in turn. An addition waits for a load that
    /// depends on the addition before, so 4 lanes take 0.7 of the time that they take one after the other.
    ///
    /// The lanes must not touch common slots: then the system does not depend on the order of the lanes.
    ///
    /// # Panics
    /// Panics if a coefficient lies past the last slot.
    pub fn insert_interleaved<const N: usize>(&mut self, lanes: [&mut impl Lane; N]) {
        let mut lanes = lanes;
        let mut rows = lanes.each_mut().map(|lane| lane.next_row());
        // As long as no lane ends, the rows stay in registers.
        if let Some(mut all) = all(rows) {
            rows = 'interleaved: loop {
                for i in 0..N {
                    let (start, coefficients, value) = &mut all[i];
                    let Some(row) = self.step(start, coefficients, value) else { continue };
                    lanes[i].settle(row, self);
                    match lanes[i].next_row() {
                        Some(next) => all[i] = next,
                        None => {
                            let mut rest = all.map(Some);
                            rest[i] = None;
                            break 'interleaved rest;
                        }
                    }
                }
            };
        }
        for (lane, mut row) in lanes.into_iter().zip(rows) {
            while let Some((start, coefficients, value)) = row {
                let settled = self.insert(start, coefficients, value);
                lane.settle(settled, self);
                row = lane.next_row();
            }
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

/// Returns the rows if no one is missing.
fn all<T: Copy, const N: usize>(rows: [Option<T>; N]) -> Option<[T; N]> {
    let whole = rows.iter().all(Option::is_some);
    whole.then(|| rows.map(|row| row.expect("no row is missing")))
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

#[cfg(test)]
mod tests {
    use super::super::dot::tests::product;
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

    /// A lane that removes its last row whenever one clashes.
    struct Stack<'a>(&'a [(usize, u64, u64)], Vec<usize>);

    impl Lane for Stack<'_> {
        fn next_row(&mut self) -> Option<(usize, u64, u64)> {
            self.0.split_off_first().copied()
        }

        fn settle(&mut self, row: Row, band: &mut Band) {
            match row {
                Row::Placed(slot) => self.1.push(slot),
                Row::Implied => {}
                Row::Clash => self.1.pop().into_iter().for_each(|slot| band.remove(slot)),
            }
        }
    }

    #[test]
    fn lanes_in_turn_give_the_system_of_one_after_the_other() {
        // Also an empty lane, and lanes of unlike length.
        for counts in [[70, 70, 70], [70, 0, 300], [1, 200, 64]] {
            let lanes: Vec<Vec<_>> = (0..3)
                .map(|lane| {
                    let own = rows(128, counts[lane], lane as u64);
                    own.map(|(start, c, v)| (start + 128 * lane, c, v & 3)).collect()
                })
                .collect();
            let [a, b, c] = [0, 1, 2].map(|i| Stack(&lanes[i], Vec::new()));
            let (mut sequential, mut interleaved) =
                (Band::new(384).unwrap(), Band::new(384).unwrap());
            for rows in &lanes {
                sequential.insert_interleaved([&mut Stack(rows, Vec::new())]);
            }
            let mut all = [a, b, c];
            interleaved.insert_interleaved(all.each_mut());
            assert_eq!(sequential.rows, interleaved.rows);
            let slots: usize = all.iter().map(|lane| lane.1.len()).sum();
            assert_eq!(interleaved.rows.iter().filter(|row| row[0] != 0).count(), slots);
        }
    }

    #[test]
    fn free_unknowns_are_those_of_the_caller() {
        let mut words = [0; 2 * 32];
        Band::new(128).unwrap().solve(32, |slot| mix(slot as u64), &mut words);
        for slot in 0..65 {
            assert_eq!(product(&words, 32, slot, 1), mix(slot as u64) & mask(32));
        }
    }

    #[test]
    fn both_versions_solve_alike() {
        let (rows, mut twin) = (Band::new(320).unwrap(), vec![0; 5 * 20]);
        let mut words = twin.clone();
        rows.solve(20, |slot| mix(slot as u64), &mut words);
        solve(&rows.rows, 20, |slot| mix(slot as u64), &mut twin);
        assert_eq!(words, twin);
    }
}
