//! Local search: probSAT with cached break counts for every variable.
//!
//! Pick a random unsatisfied clause, flip one of its variables, and repeat until no clause is unsatisfied. The
//! variable is drawn with weights that decrease with its *break count*: the number of clauses that the flip would
//! make unsatisfied, which are those whose only true literal is that of the variable. One word per clause
//!
//! ```text
//!   | number of true literals: 6 bits | xor of their variables: 26 bits |
//! ```
//!
//! is enough to update the break counts, because the xor of one variable is that variable. A flip visits the clauses
//! of a variable, k * m / n on average for m clauses and n variables, and does the same few operations for each,
//! without an unpredictable branch: the counter at the index given by the xor changes by 0 or 1. The index is
//! meaningful only if one literal is true; the counters are padded to a power of two, so that it is always in
//! bounds.
//!
//! probSAT is by Balint and Schoening, "Choosing probability distributions for stochastic local search and the role
//! of make versus break" (SAT 2012), the xor trick by Balint, Biere, Froehlich and Schoening (SAT 2014). They cache
//! break counts for k > 3 only; here the counts are cached for all k, because the cost of a flip is nearly constant.
//! As in their work, the number of clauses that a flip would satisfy is ignored.

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::range::scale;

use crate::formula::{Formula, Occurrences};
use crate::random::Rng;
use crate::row::Fall;
use crate::watch::{Meter, Why};

const COUNT_SHIFT: u32 = 26;
const ONE: u32 = 1 << COUNT_SHIFT;

/// The number of flips between two checks of the deadline: 10 ms where flips are slowest.
pub(crate) const CHECK_INTERVAL: u64 = 1 << 13;

/// The weight of each break count. Higher counts have the last weight.
#[derive(Debug)]
pub(crate) struct Weights([u64; 32]);

impl Weights {
    /// Computes the weights, as integers so that sums are exact, by operations that IEEE 754 defines exactly.
    pub(crate) fn new(fall: Fall) -> Self {
        const FULL: f64 = (1u64 << 40) as f64;
        let weight = |breaks: usize| match fall {
            Fall::Power(base) => FULL / (0..breaks).fold(1.0, |power, _| power * base),
            Fall::Square(offset) => {
                let ratio = 1.0 + breaks as f64 / offset;
                FULL / (ratio * ratio)
            }
        };
        Self(core::array::from_fn(|breaks| (weight(breaks) as u64).max(1)))
    }

    #[inline]
    fn get(&self, breaks: u32) -> u64 {
        self.0[breaks.min(31) as usize]
    }
}

/// A bias of the local search towards an assignment.
#[derive(Clone, Copy, Debug)]
pub struct Lean<'a> {
    /// The bias of each variable: towards true if positive, towards false if negative. Each step of 8 doubles the
    /// weight of a flip towards the value and halves that of a flip away from it. The bias is clamped to -32..=32.
    pub towards: &'a [i8],
    /// The number of flips of each local search over the whole formula that are biased. Later flips are not.
    pub flips: u64,
}

/// 2^(1/8), as three square roots give it.
const EIGHTH_OF_A_DOUBLING: f64 = 1.090_507_732_665_257_7;
/// The greatest bias that has an effect, in eighths of a doubling.
const MAX_LEAN: i8 = 32;

/// Returns the factors of weights: a weight is multiplied by `factors[32 + lean]` and divided by 2^16.
fn lean_factors() -> [u64; 2 * MAX_LEAN as usize + 1] {
    let power = |steps: usize| (0..steps).fold(1.0, |power, _| power * EIGHTH_OF_A_DOUBLING);
    core::array::from_fn(|at| (4096.0 * power(at)) as u64)
}

/// The state of a local search.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    formula: &'a Formula,
    occurrences: &'a Occurrences,
    values: Vec<bool>,
    /// One word per clause, as described above.
    states: Vec<u32>,
    /// The break count of each variable, padded to a power of two.
    breaks: Vec<u32>,
    unsatisfied: Vec<u32>,
    /// The position of each unsatisfied clause in `unsatisfied`.
    positions: Vec<u32>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(formula: &'a Formula, occurrences: &'a Occurrences) -> Self {
        Self {
            formula,
            occurrences,
            values: Vec::new(),
            states: vec![0; formula.clauses()],
            breaks: vec![0; (formula.vars() as usize).next_power_of_two()],
            unsatisfied: Vec::new(),
            positions: vec![0; formula.clauses()],
        }
    }

    /// Restarts from `values`.
    pub(crate) fn start(&mut self, values: Vec<bool>) {
        self.values = values;
        self.breaks.fill(0);
        self.unsatisfied.clear();
        for clause in 0..self.formula.clauses() {
            let mut state = 0;
            for code in self.formula.clause(clause) {
                if self.values[(code >> 1) as usize] == (code & 1 == 0) {
                    state = (state + ONE) ^ (code >> 1);
                }
            }
            self.states[clause] = state;
            match state >> COUNT_SHIFT {
                0 => {
                    self.positions[clause] = self.unsatisfied.len() as u32;
                    self.unsatisfied.push(clause as u32);
                }
                1 => self.breaks[(state - ONE) as usize] += 1,
                _ => {}
            }
        }
    }

    pub(crate) fn into_values(self) -> Vec<bool> {
        self.values
    }

    /// Returns the values. The walk must be restarted before it is used again.
    pub(crate) fn take_values(&mut self) -> Vec<bool> {
        core::mem::take(&mut self.values)
    }

    #[inline]
    pub(crate) fn value(&self, variable: usize) -> bool {
        self.values[variable]
    }

    /// Returns whether a flip of the variable would make no clause unsatisfied.
    #[inline]
    pub(crate) fn is_free(&self, variable: usize) -> bool {
        self.breaks[variable] == 0
    }

    /// Flips variables until every clause is satisfied or `budget` flips are spent. Returns whether every clause is
    /// satisfied.
    pub(crate) fn run(
        &mut self,
        weights: &Weights,
        lean: Option<Lean<'_>>,
        budget: u64,
        rng: &mut Rng,
        meter: &mut Meter<'_>,
    ) -> Result<bool, Why> {
        let factors = lean_factors();
        let budget = budget.min(meter.flips_left());
        let lean_flips = lean.map_or(0, |lean| lean.flips.min(budget));
        let mut spent = 0;
        meter.count_flips(0, self.unsatisfied.len())?;
        while spent < budget && !self.unsatisfied.is_empty() {
            let end = if spent < lean_flips { lean_flips } else { budget };
            let chunk = CHECK_INTERVAL.min(end - spent);
            let walked = match lean {
                Some(lean) if spent < lean_flips => self.flips(chunk, rng, |walk, variable| {
                    let mut towards = lean.towards[variable].clamp(-MAX_LEAN, MAX_LEAN);
                    if walk.values[variable] {
                        towards = -towards;
                    }
                    let weight = weights.get(walk.breaks[variable]);
                    ((weight * factors[(MAX_LEAN + towards) as usize]) >> 16).max(1)
                }),
                _ => self.flips(chunk, rng, |walk, variable| weights.get(walk.breaks[variable])),
            };
            spent += walked;
            meter.count_flips(walked, self.unsatisfied.len())?;
        }
        Ok(self.unsatisfied.is_empty())
    }

    /// Makes up to `flips` flips, until every clause is satisfied. Returns the number of flips made.
    #[inline]
    fn flips(&mut self, flips: u64, rng: &mut Rng, weigh: impl Fn(&Self, usize) -> u64) -> u64 {
        let mut sums = [0u64; crate::formula::MAX_LENGTH];
        for done in 0..flips {
            if self.unsatisfied.is_empty() {
                return done;
            }
            let pick = rng.below(self.unsatisfied.len() as u64) as usize;
            let clause = self.formula.clause(self.unsatisfied[pick] as usize);
            let mut sum = 0;
            for (place, code) in sums.iter_mut().zip(clause) {
                sum += weigh(self, (code >> 1) as usize);
                *place = sum;
            }
            let draw = scale(rng.next(), sum);
            let at = sums[..clause.len()].iter().filter(|sum| **sum <= draw).count();
            self.flip(clause[at] >> 1);
        }
        flips
    }

    /// Flips a variable.
    pub(crate) fn flip(&mut self, variable: u32) {
        let value = &mut self.values[variable as usize];
        *value = !*value;
        let now_true = 2 * variable + u32::from(!*value);
        let (mut satisfied, mut broken) = (0, 0);
        let breaks = &mut self.breaks[..];
        let mask = breaks.len() - 1;
        for clause in self.occurrences.of_literal(now_true) {
            let state = &mut self.states[*clause as usize];
            let before = *state;
            *state = (before + ONE) ^ variable;
            breaks[before as usize & mask] -= u32::from(before >> COUNT_SHIFT == 1);
            if before >> COUNT_SHIFT == 0 {
                satisfied += 1;
                let position = self.positions[*clause as usize];
                let last = self.unsatisfied.pop().unwrap_or_default();
                if let Some(hole) = self.unsatisfied.get_mut(position as usize) {
                    *hole = last;
                    self.positions[last as usize] = position;
                }
            }
        }
        for clause in self.occurrences.of_literal(now_true ^ 1) {
            let state = &mut self.states[*clause as usize];
            let after = (*state - ONE) ^ variable;
            *state = after;
            breaks[after as usize & mask] += u32::from(after >> COUNT_SHIFT == 1);
            if after >> COUNT_SHIFT == 0 {
                broken += 1;
                self.positions[*clause as usize] = self.unsatisfied.len() as u32;
                self.unsatisfied.push(*clause);
            }
        }
        breaks[variable as usize] = breaks[variable as usize] + satisfied - broken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Clauses;
    use crate::watch::Watch;

    #[test]
    fn an_eighth_of_a_doubling_is_three_square_roots() {
        assert_eq!(EIGHTH_OF_A_DOUBLING, 2f64.sqrt().sqrt().sqrt());
    }

    /// Checks the state of the search against a recount.
    fn check(walk: &Walk<'_>) {
        let formula = walk.formula;
        let mut breaks = vec![0; walk.breaks.len()];
        let mut unsatisfied = Vec::new();
        for clause in 0..formula.clauses() {
            let holds = |code: &&u32| walk.values[(**code >> 1) as usize] == (**code & 1 == 0);
            let trues: Vec<u32> =
                formula.clause(clause).iter().filter(holds).map(|code| code >> 1).collect();
            let xor = trues.iter().fold(0, |xor, variable| xor ^ variable);
            assert_eq!(walk.states[clause], ((trues.len() as u32) << COUNT_SHIFT) | xor);
            match trues[..] {
                [] => unsatisfied.push(clause as u32),
                [only] => breaks[only as usize] += 1,
                _ => {}
            }
        }
        assert_eq!(walk.breaks, breaks);
        for (position, clause) in walk.unsatisfied.iter().enumerate() {
            assert_eq!(walk.positions[*clause as usize] as usize, position);
        }
        let mut listed = walk.unsatisfied.clone();
        listed.sort_unstable();
        assert_eq!(listed, unsatisfied);
    }

    #[test]
    fn counts_are_correct_after_flips() {
        let mut formula = Formula::random(Clauses::Or, 5, 60, 800, 1).unwrap();
        for clause in [&[1][..], &[2, -3], &[4, 5, 6, 7, 8, 9, 10, 11, 12]] {
            formula.add(clause).unwrap();
        }
        let occurrences = Occurrences::of(&formula);
        let mut walk = Walk::new(&formula, &occurrences);
        let mut rng = Rng::new(3, 0);
        walk.start((0..60).map(|_| rng.coin()).collect());
        check(&walk);
        for _ in 0..300 {
            walk.flip(rng.below(60) as u32);
            check(&walk);
        }
        let (weights, watch) = (Weights::new(Fall::Power(3.5)), Watch::default());
        let towards = [20i8; 60];
        for flips in [1, 10, 100] {
            let lean = Some(Lean { towards: &towards, flips: 50 });
            let mut meter = Meter::new(&watch, u64::MAX, 0);
            walk.run(&weights, lean, flips, &mut rng, &mut meter).unwrap();
            check(&walk);
        }
    }

    #[test]
    fn weights_decrease_and_stay_positive() {
        for fall in [Fall::Power(2.5), Fall::Power(7.0), Fall::Square(0.7)] {
            let Weights(weights) = Weights::new(fall);
            assert_eq!(weights[0], 1 << 40);
            assert!(weights.windows(2).all(|pair| pair[0] >= pair[1] && pair[1] > 0));
        }
        let Weights(square) = Weights::new(Fall::Square(0.5));
        assert_eq!(square[1], (1u64 << 40) / 9);
        let factors = lean_factors();
        assert_eq!(factors[MAX_LEAN as usize], 1 << 16);
        assert!((factors[64] as f64 / factors[56] as f64 - 2.0).abs() < 1e-3);
    }
}
