//! Linear systems over GF(2) whose equations each touch two windows of 64 unknowns, anywhere.
//!
//! ```text
//! unknowns    │ word 0 │ word 1 │ word 2 │ word 3 │ word 4 │ …
//! row a            ▓▓▓▓▓▓▓▓▓                  ▓▓▓▓▓▓▓▓▓            = value a
//! row b         ▓▓▓▓▓▓▓▓▓        ▓▓▓▓▓▓▓▓▓                         = value b
//! ```
//!
//! Such a system is solvable with hardly more unknowns than equations, like one with random rows,
//! whereas a [`Band`](super::band::Band) needs more. The price is that rows fill up when they are
//! added to each other.
//!
//! Elimination processes the unknowns word by word. A row is expanded when its first word is
//! reached, so that at most a quarter of the `n` rows are expanded at a time. In each word:
//!
//! ```text
//!  expanded rows     ├─ up to 64 pivots, independent in this word: kept unchanged
//!                    └─ the others: adding a sum of pivots zeroes the whole word. Each group of 5
//!                       pivots has its 32 sums precomputed, so that this takes 13 additions
//! ```
//!
//! This is the *method of the four Russians*: 13 additions to a row instead of 32. The sums are
//! computed for one line of the pivots at a time, 26 KB, which fits into the L1 cache. Sums of whole
//! rows made systems of 3000 rows 25 % slower. With `n` rows there are about `n³ / 3800` additions of
//! words, eight at a time. A row that is not a pivot in the end has no unknowns left: either its
//! value is 0, or it contradicts the others.

use alloc::vec;
use alloc::vec::Vec;

use super::band::BAND;
use crate::OutOfMemory;
#[cfg(target_arch = "x86_64")]
use crate::cpu::{Feature, has};

/// An equation: the XOR of the unknowns whose coefficient is 1 is `value`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    /// The first slot of each window.
    pub slots: [u32; 2],
    /// The coefficients of each window, lowest first. Where windows overlap, coefficients are added.
    pub coefficients: [u64; 2],
    /// The sum.
    pub value: u64,
}

/// The number of words that are processed together: a cache line.
const TOGETHER: usize = 8;
/// The number of pivots in a group whose sums are all precomputed.
const PICK: usize = 5;
const SUMS: usize = 1 << PICK;
const PICKS: usize = BAND.div_ceil(PICK);

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([u64; TOGETHER]);

impl Line {
    #[inline(always)]
    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word ^= other);
    }
}

/// A system of equations with reusable memory. An expanded row consists of cache lines: a word for
/// each 64 coefficients, and the value in the very last word.
#[derive(Debug, Default)]
pub struct System {
    /// The number of words of unknowns.
    words: usize,
    /// The number of lines of a row.
    each: usize,
    /// The expanded rows.
    live: Vec<Line>,
    /// The pivots to add to each expanded row.
    needed: Vec<u64>,
    /// The pivots of the current word, and the sums of each group of them for one line.
    pivots: Vec<Line>,
    sums: Vec<Line>,
    /// The pivots of all words, without the lines before their word.
    done: Vec<Line>,
    /// How the columns of each word follow from its pivots.
    bases: Vec<Basis>,
}

impl System {
    /// Returns the bytes of memory that a system of `unknowns` unknowns takes while it is solved.
    pub fn bytes(unknowns: u64) -> u64 {
        let words = unknowns.div_ceil(BAND as u64) + TOGETHER as u64;
        // Half of the square of all pivots and a quarter of all rows, each row as given and as a
        // pivot, and the sums.
        words * (words * BAND as u64 * 6 + 6 * BAND as u64 * 8) + (PICKS * SUMS) as u64 * 64
    }

    /// Brings the rows into echelon form and returns how many contradict the others. `rows` is
    /// sorted by the first word of each row.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if an allocation fails.
    ///
    /// # Panics
    /// Panics if a coefficient that is 1 lies past the last word of unknowns.
    pub fn eliminate(&mut self, unknowns: usize, rows: &mut [Row]) -> Result<usize, OutOfMemory> {
        let words = unknowns.div_ceil(BAND);
        let each = (words + 1).div_ceil(TOGETHER);
        (self.words, self.each) = (words, each);
        rows.sort_by_key(Row::first_word);
        self.bases.clear();
        for (lines, rows) in
            [(&mut self.live, rows.len()), (&mut self.done, words * BAND), (&mut self.pivots, BAND)]
        {
            lines.clear();
            let bytes = (rows * each * size_of::<Line>()) as u64;
            lines.try_reserve(rows * each).map_err(|_| OutOfMemory { bytes })?;
        }
        self.pivots.resize(BAND * each, Line::default());
        self.sums.resize(PICKS * SUMS, Line::default());
        #[cfg(target_arch = "x86_64")]
        if has(Feature::AVX512_POPCNT) {
            // SAFETY: the machine has the instruction sets of the function, as tested above.
            return Ok(unsafe { eliminate_avx512(self, rows) });
        }
        Ok(eliminate(self, rows))
    }

    /// Writes unknowns of `width` bits that satisfy all rows but the contradicting ones to `out`, in
    /// blocks as [`Band::solve`](super::band::Band::solve) does. Unknowns that no row determines are
    /// 0.
    ///
    /// # Panics
    /// Panics if `out` does not have `width` words for each block.
    pub fn solve(&self, width: u32, out: &mut [u64]) {
        assert_eq!(
            out.len(),
            self.words * width as usize,
            "`out` needs `width` words for each block"
        );
        #[cfg(target_arch = "x86_64")]
        if has(Feature::AVX512_POPCNT) {
            // SAFETY: the machine has the instruction sets of the function, as tested above.
            return unsafe { solve_avx512(self, width as usize, out) };
        }
        solve(self, width as usize, out);
    }
}

impl Row {
    fn first_word(&self) -> usize {
        self.slots[0].min(self.slots[1]) as usize / BAND
    }

    /// Expands the row into lines that are zero.
    fn expand(&self, to: &mut [Line]) {
        for (slot, coefficients) in self.slots.into_iter().zip(self.coefficients) {
            let (word, shift) = (slot as usize / BAND, slot as usize % BAND);
            let high = coefficients >> 1 >> (BAND - 1 - shift);
            to[word / TOGETHER].0[word % TOGETHER] ^= coefficients << shift;
            if high != 0 {
                to[(word + 1) / TOGETHER].0[(word + 1) % TOGETHER] ^= high;
            }
        }
        to[to.len() - 1].0[TOGETHER - 1] = self.value;
    }
}

#[inline(always)]
fn eliminate(system: &mut System, rows: &[Row]) -> usize {
    let System { words, each, live, needed, pivots, sums, done, bases } = system;
    let each = *each;
    let mut rows = rows.iter().peekable();
    for word in 0..*words {
        // In every row the lines before `first` are zero now.
        let (first, place) = (word / TOGETHER, word % TOGETHER);
        while let Some(row) = rows.next_if(|row| row.first_word() == word) {
            let from = live.len();
            live.resize(from + each, Line::default());
            row.expand(&mut live[from..]);
        }
        let basis = find_pivots(live, pivots, each, first, place);
        let picks = basis.picks();
        needed.clear();
        needed.extend(live.chunks_exact(each).map(|row| {
            let coefficients = row[first].0[place];
            (0..PICKS).fold(0, |sum, i| sum ^ picks[i][pick(coefficients, i)])
        }));
        for line in first..each {
            add_up(pivots.chunks_exact(each).take(basis.len).map(|row| &row[line]), sums);
            let rows = live.chunks_exact_mut(each).map(|row| &mut row[line]);
            for (to, needed) in rows.zip(&*needed).filter(|(_, needed)| **needed != 0) {
                let mut sum = *to;
                (0..PICKS).for_each(|i| sum.add(&sums[i * SUMS + pick(*needed, i)]));
                *to = sum;
            }
        }
        pivots.chunks_exact(each).take(basis.len).for_each(|row| done.extend(&row[first..]));
        bases.push(basis);
    }
    live.chunks_exact(each).filter(|row| row[each - 1].0[TOGETHER - 1] != 0).count()
}

/// Returns the index of the sum of group `i` that `word` selects.
#[inline(always)]
fn pick(word: u64, i: usize) -> usize {
    (word >> (i * PICK)) as usize % SUMS
}

/// How the columns of a word follow from its pivots. This depends on that word of the pivots only,
/// so their rows stay unchanged.
#[derive(Clone, Debug)]
struct Basis {
    /// The number of pivots.
    len: usize,
    /// For each determined column, the word of a sum of pivots that has a 1 in this column and 0 in
    /// the other determined columns, and the set of those pivots. 0 for the other columns.
    heads: [u64; BAND],
    parts: [u64; BAND],
}

impl Basis {
    /// Adds the word of a row if it is independent of those before, and returns whether it is.
    #[inline(always)]
    fn try_add(&mut self, word: u64) -> bool {
        let (mut left, mut part) = (word, 1 << self.len);
        for column in 0..BAND {
            let met = (word >> column & 1).wrapping_neg();
            left ^= self.heads[column] & met;
            part ^= self.parts[column] & met;
        }
        if left == 0 {
            return false;
        }
        let own = left.trailing_zeros();
        for column in 0..BAND {
            let met = (self.heads[column] >> own & 1).wrapping_neg();
            self.heads[column] ^= left & met;
            self.parts[column] ^= part & met;
        }
        (self.heads[own as usize], self.parts[own as usize]) = (left, part);
        self.len += 1;
        true
    }

    /// Returns, for each group of columns and each pattern in it, the pivots whose sum zeroes it.
    #[inline(always)]
    fn picks(&self) -> [[u64; SUMS]; PICKS] {
        let mut picks = [[0; SUMS]; PICKS];
        for (i, sums) in picks.iter_mut().enumerate() {
            for sum in 1..SUMS {
                let part = self.parts.get(i * PICK + sum.trailing_zeros() as usize);
                sums[sum] = sums[sum & (sum - 1)] ^ part.unwrap_or(&0);
            }
        }
        picks
    }
}

/// Moves a maximal set of rows that are independent in this word to the pivots.
#[inline(always)]
fn find_pivots(
    live: &mut Vec<Line>,
    pivots: &mut [Line],
    each: usize,
    first: usize,
    place: usize,
) -> Basis {
    let mut basis = Basis { len: 0, heads: [0; BAND], parts: [0; BAND] };
    let mut from = 0;
    while from < live.len() && basis.len < BAND {
        let row = &live[from + first..from + each];
        let at = basis.len * each;
        if !basis.try_add(row[0].0[place]) {
            from += each;
            continue;
        }
        pivots[at + first..at + each].copy_from_slice(row);
        let last = live.len() - each;
        live.copy_within(last.., from);
        live.truncate(last);
    }
    basis
}

/// Computes all sums of the pivots of each group for one line.
#[inline(always)]
fn add_up<'a>(mut pivots: impl Iterator<Item = &'a Line>, sums: &mut [Line]) {
    for sums in sums.chunks_exact_mut(SUMS) {
        for pivot in 0..PICK {
            // Every sum so far, without and with this pivot.
            let (without, with) = sums.split_at_mut(1 << pivot);
            with[..without.len()].copy_from_slice(without);
            if let Some(line) = pivots.next() {
                with[..without.len()].iter_mut().for_each(|sum| sum.add(line));
            }
        }
    }
}

/// Solves from the last word to the first. The values of the pivots, less what the words after
/// contribute, determine the columns of this word.
#[inline(always)]
fn solve(system: &System, width: usize, out: &mut [u64]) {
    let each = system.each;
    // A row for each bit of the unknowns, as long as those of the system, with 0 in the place of the
    // value.
    let mut known = vec![Line::default(); width * each];
    let mut done = &system.done[..];
    for (word, basis) in system.bases.iter().enumerate().rev() {
        let (first, place) = (word / TOGETHER, word % TOGETHER);
        let len = each - first;
        let rows;
        (done, rows) = done.split_at(done.len() - basis.len * len);
        for (bit, known) in known.chunks_exact_mut(each).enumerate() {
            let mut left = 0;
            for (pivot, row) in rows.chunks_exact(len).enumerate() {
                let mut met = [0; TOGETHER];
                for (row, known) in row.iter().zip(&known[first..]) {
                    for (i, met) in met.iter_mut().enumerate() {
                        *met ^= row.0[i] & known.0[i];
                    }
                }
                let value = row[len - 1].0[TOGETHER - 1] >> bit;
                left |=
                    ((value ^ parity(met.into_iter().fold(0, |sum, met| sum ^ met))) & 1) << pivot;
            }
            let column = |column| parity(basis.parts[column] & left) << column;
            let solved = (0..BAND).fold(0, |solved, i| solved | column(i));
            known[first].0[place] = solved;
            out[word * width + bit] = solved;
        }
    }
}

#[inline(always)]
fn parity(word: u64) -> u64 {
    u64::from(word.count_ones() & 1)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq,popcnt")]
fn eliminate_avx512(system: &mut System, rows: &[Row]) -> usize {
    eliminate(system, rows)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq,popcnt")]
fn solve_avx512(system: &System, width: usize, out: &mut [u64]) {
    solve(system, width, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::mask;
    use crate::range::{mix, scale};

    /// Returns rows with random windows, some at word boundaries and one at the very end.
    fn rows(unknowns: usize, count: usize, width: u32, seed: u64) -> Vec<Row> {
        let cut = mask(unknowns.min(BAND) as u32);
        let windows = unknowns.div_ceil(BAND) as u64;
        let slot =
            |x| (scale(x, windows) as usize * BAND).min(unknowns.saturating_sub(BAND)) as u32;
        let row = |i: usize| {
            let x = mix((i as u64) << 24 ^ seed);
            Row {
                slots: [slot(x), slot(x << 32)],
                coefficients: [mix(x) & cut, mix(mix(x)) & cut],
                value: mix(x ^ 5) & mask(width),
            }
        };
        (0..count).map(row).collect()
    }

    /// Computes the sum of the unknowns whose coefficient is 1 by its definition.
    fn product(words: &[u64], width: u32, row: &Row) -> u64 {
        let mut sum = 0;
        for (slot, coefficients) in row.slots.into_iter().zip(row.coefficients) {
            for slot in (0..BAND).filter(|i| coefficients >> i & 1 == 1).map(|i| i + slot as usize)
            {
                for bit in 0..width as usize {
                    sum ^= (words[slot / BAND * width as usize + bit] >> (slot % BAND) & 1) << bit;
                }
            }
        }
        sum
    }

    #[test]
    fn what_contradicts_nothing_is_solved() {
        let mut system = System::default();
        for (unknowns, width) in
            [(1, 1), (2, 9), (63, 3), (64, 8), (65, 1), (130, 16), (700, 2), (449, 32), (1500, 7)]
        {
            for (count, seed) in [(0, 1), (unknowns / 2, 2), (unknowns, 3), (unknowns + 9, 4)] {
                let mut rows = rows(unknowns, count, width, seed);
                let clashes = system.eliminate(unknowns, &mut rows).unwrap();
                let mut words = vec![0; unknowns.div_ceil(BAND) * width as usize];
                system.solve(width, &mut words);
                let wrong = rows.iter().filter(|row| product(&words, width, row) != row.value);
                // A row without a pivot may agree with the solution in the end.
                assert!(wrong.count() <= clashes, "{unknowns} {width} {count}");
                assert!(count < unknowns || clashes < 9 + 9 + 8, "{clashes} clashes");
                assert!(count > unknowns / 2 || clashes == 0 || unknowns < 10);
                let mut last = words.iter().rev().take(width as usize);
                assert!(last.all(|word| *word <= mask(((unknowns - 1) % BAND) as u32 + 1)));
            }
        }
    }

    /// With two more unknowns than rows, 3 of 4 systems are solvable, like random ones.
    #[test]
    fn hardly_more_unknowns_than_rows_do() {
        let mut system = System::default();
        for unknowns in [20, 100, 200, 500, 1003] {
            let solved = (0..200).filter(|seed| {
                let mut rows = rows(unknowns, unknowns - 2, 32, seed << 8);
                system.eliminate(unknowns, &mut rows).unwrap() == 0
            });
            let solved = solved.count();
            assert!((125..=175).contains(&solved), "{solved} of 200 with {unknowns}");
        }
    }

    #[test]
    fn twins_agree() {
        let (mut one, mut other) = (System::default(), System::default());
        for (unknowns, width) in [(50, 3), (1000, 12)] {
            let mut rows = rows(unknowns, unknowns, width, 7);
            let clashes = one.eliminate(unknowns, &mut rows).unwrap();
            other.eliminate(unknowns, &mut []).unwrap();
            other.bases.clear();
            other.done.clear();
            assert_eq!(eliminate(&mut other, &rows), clashes);
            let mut words = vec![0; unknowns.div_ceil(BAND) * width as usize];
            let mut twin = words.clone();
            one.solve(width, &mut words);
            solve(&other, width as usize, &mut twin);
            assert_eq!(words, twin);
        }
    }
}
