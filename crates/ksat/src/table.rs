//! The choice of parameters for a formula.

use crate::formula::{Formula, MAX_LENGTH};
use crate::row::{Fall, Row};
use crate::rows::ROWS;
use crate::survey::{Decimation, MAX_CLAUSE};

/// The parameters of the solver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The weights of the local search.
    pub fall: Fall,
    /// The flips of the local search before survey propagation, or `u64::MAX` for no survey propagation.
    pub opening: u64,
    /// The parameters of the surveys, tried in order and cyclically.
    pub surveys: &'static [Decimation],
}

const BACKTRACKING: [Decimation; 2] =
    [Decimation { share: 0.03, back: 0.4 }, Decimation { share: 0.01, back: 0.4 }];
/// Tries decimation without backtracking first, which takes half the time where it succeeds.
const DECIMATION_FIRST: [Decimation; 3] =
    [Decimation { share: 0.025, back: 0.0 }, BACKTRACKING[0], BACKTRACKING[1]];

/// The tolerance of a load in the table: the number of variables for a load is rounded.
const LOAD_TOLERANCE: f64 = 0.0025;

impl Plan {
    /// Returns the best parameters measured for formulas of this size, load and clause length.
    pub fn of(formula: &Formula) -> Self {
        let nae = formula.nae_clauses() > 0;
        let row = row(formula.most_common_length(), nae, formula.vars());
        let load = formula.load();
        let vars = u64::from(formula.vars());
        let opening = match () {
            // Survey propagation does not work on NAE clauses, which share all their variables.
            () if nae || formula.most_common_length() < 3 || formula.max_length() > MAX_CLAUSE => {
                u64::MAX
            }
            () if load < row.easy + LOAD_TOLERANCE => 2000 * vars,
            () => 10 * vars,
        };
        let surveys = if load < row.hard { &DECIMATION_FIRST[..] } else { &BACKTRACKING[..] };
        Self { fall: row.fall, opening, surveys }
    }
}

fn row(k: usize, nae: bool, vars: u32) -> Row {
    let k = k.clamp(3, 7);
    let mut rows = ROWS.iter().filter(|row| row.k == k && row.nae == nae);
    let last = rows.clone().next_back().expect("the table has rows for every length");
    *rows.find(|row| row.vars >= vars).unwrap_or(last)
}

/// Returns the satisfiability threshold in clauses per variable, for `k` of 3 to 7. Large random formulas with more
/// clauses have no solution (Mertens, Mezard and Zecchina, "Threshold values of random k-SAT from the cavity
/// method", 2006).
pub fn threshold(k: usize) -> Option<f64> {
    let known = [4.267, 9.931, 21.117, 43.37, 87.79];
    known.get(k.checked_sub(3)?).copied()
}

impl Formula {
    /// Returns the load: the information in the clauses, in bits per variable. A clause of k literals excludes the
    /// fraction 2^-k of all assignments, which is -log2(1 - 2^-k) bits. A NAE clause counts as its two clauses.
    ///
    /// The threshold is at a load of 0.822, 0.925, 0.967, 0.985 and 0.993 for k of 3 to 7. The load of a formula is
    /// the efficiency of a filter built from its solutions.
    pub fn load(&self) -> f64 {
        let mut count = [0usize; MAX_LENGTH + 1];
        (0..self.clauses()).for_each(|clause| count[self.clause(clause).len()] += 1);
        let total: f64 = (1..=MAX_LENGTH).map(|length| count[length] as f64 * bits(length)).sum();
        total / f64::from(self.vars().max(1))
    }
}

/// Returns -log2(1 - 2^-length), by its series, because the logarithm of the standard library may differ between
/// machines.
fn bits(length: usize) -> f64 {
    let half_power = (0..length).fold(1.0, |power, _| power * 0.5);
    let mut power = 1.0;
    let series = (1..64).map(|term| {
        power *= half_power;
        power / f64::from(term)
    });
    series.sum::<f64>() / core::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Clauses;

    #[test]
    fn the_series_equals_the_logarithm() {
        for length in 1..=20 {
            let exact = -(1.0 - 0.5f64.powi(length as i32)).log2();
            assert!((bits(length) - exact).abs() < 1e-12 * exact.max(1e-3), "{length}");
        }
    }

    #[test]
    fn every_formula_has_a_row() {
        for nae in [false, true] {
            for k in 0..64 {
                for vars in [1, 1000, 1 << 26] {
                    let row = row(k, nae, vars);
                    assert_eq!((row.k, row.nae), (k.clamp(3, 7), nae));
                }
            }
        }
        let order = |a: &Row, b: &Row| (a.k, a.nae) != (b.k, b.nae) || a.vars < b.vars;
        assert!(ROWS.windows(2).all(|pair| order(&pair[0], &pair[1])));
    }

    #[test]
    fn below_the_threshold_the_load_is_below_one() {
        for k in 3..=7 {
            let clauses = (threshold(k).unwrap() * 1000.0) as usize;
            let load = Formula::random(Clauses::Or, k, 1000, clauses, 1).unwrap().load();
            assert!(load > 0.8 && load < 1.0, "{k}: {load}");
        }
        assert_eq!((threshold(0), threshold(2), threshold(8)), (None, None, None));
    }
}
