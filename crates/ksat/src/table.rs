//! Which parameters for which formula.

use crate::formula::{Formula, MAX_LENGTH};
use crate::rows::ROWS;
use crate::survey::{Decimation, MAX_CLAUSE};

/// How the weight of a variable in the walk falls with its break.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fall {
    /// By this factor for each.
    Power(f64),
    /// As 1 / (offset + breaks)^2.
    Square(f64),
}

/// How to go about a formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The weights of the walk.
    pub fall: Fall,
    /// Flips of the walk before survey propagation is tried; all of them, if it never is.
    pub opening: u64,
    /// What to try then, one after the other and again from the first.
    pub surveys: &'static [Decimation],
}

/// What was found best for one length of clauses and up to a number of variables: a line of the
/// table that `lab/ksat` writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) k: usize,
    pub(crate) nae: bool,
    pub(crate) vars: u32,
    pub(crate) fall: Fall,
    /// The load up to which the walk is quicker than survey propagation.
    pub(crate) easy: f64,
    /// The load from which decimation needs backtracking.
    pub(crate) hard: f64,
}

const BACKTRACKING: [Decimation; 2] =
    [Decimation { share: 0.03, back: 0.4 }, Decimation { share: 0.01, back: 0.4 }];
/// Half as long where it suffices.
const STRAIGHT_FIRST: [Decimation; 3] =
    [Decimation { share: 0.025, back: 0.0 }, BACKTRACKING[0], BACKTRACKING[1]];

/// A load of the table is that of a formula with up to one variable less than it takes.
const ROUNDING: f64 = 0.0025;

impl Plan {
    /// What was found best for formulas of this size, load and clause length.
    pub fn of(formula: &Formula) -> Self {
        let nae = formula.nae_clauses() > 0;
        let row = row(formula.usual_length(), nae, formula.vars());
        let load = formula.load();
        let vars = u64::from(formula.vars());
        let opening = match () {
            // Clauses that share all their variables say nothing new to a survey.
            () if nae || formula.usual_length() < 3 || formula.longest() > MAX_CLAUSE => u64::MAX,
            () if load < row.easy + ROUNDING => 2000 * vars,
            () => 10 * vars,
        };
        let surveys = if load < row.hard { &STRAIGHT_FIRST[..] } else { &BACKTRACKING[..] };
        Self { fall: row.fall, opening, surveys }
    }
}

fn row(k: usize, nae: bool, vars: u32) -> Row {
    let k = k.clamp(3, 7);
    let mut rows = ROWS.iter().filter(|row| row.k == k && row.nae == nae);
    let last = rows.clone().next_back().expect("the table has every length");
    *rows.find(|row| row.vars >= vars).unwrap_or(last)
}

/// The clauses per variable past which random formulas of `k` literals a clause have no solution, for
/// `k` of 3 to 7 (Mertens, Mezard and Zecchina, "Threshold values of random k-SAT from the cavity
/// method", 2006).
pub fn threshold(k: usize) -> Option<f64> {
    let known = [4.267, 9.931, 21.117, 43.37, 87.79];
    known.get(k.checked_sub(3)?).copied()
}

impl Formula {
    /// How much the clauses ask for, in bits a variable: one of k literals takes the
    /// share 2^-k of all assignments away, which is -log2(1 - 2^-k) bits. A NAE clause counts as
    /// its two.
    ///
    /// A random formula of a load near 1 has no solution: the threshold is at 0.822, 0.925, 0.967,
    /// 0.985 and 0.993 for k of 3 to 7. For a filter made of a solution the load is its efficiency.
    pub fn load(&self) -> f64 {
        let mut count = [0usize; MAX_LENGTH + 1];
        (0..self.clauses()).for_each(|clause| count[self.clause(clause).len()] += 1);
        let total: f64 = (1..=MAX_LENGTH).map(|length| count[length] as f64 * bits(length)).sum();
        total / f64::from(self.vars().max(1))
    }
}

/// -log2(1 - 2^-length), by its series: a library's logarithm may differ between machines.
fn bits(length: usize) -> f64 {
    let half_power = (0..length).fold(1.0, |power, _| power * 0.5);
    let mut power = 1.0;
    let series = (1..64).map(|term| {
        power *= half_power;
        power / f64::from(term)
    });
    series.sum::<f64>() / std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Clauses;

    #[test]
    fn the_series_is_the_logarithm() {
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
