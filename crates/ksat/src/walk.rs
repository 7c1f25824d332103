//! Local search: probSAT with every break count at hand.
//!
//! Take an unsatisfied clause at random, flip one of its variables, and go on until none is
//! left. The variable is drawn by weights that fall with its *break*: how many clauses would
//! become unsatisfied, which are those in which it alone is true. Per clause one word
//!
//! ```text
//!   | true literals: 6 bits | xor of their variables: 26 bits |
//! ```
//!
//! suffices to keep the counts up to date, since the xor of one variable is that variable. A flip
//! visits the clauses of a variable, k * m / n of them, and does the same few operations for
//! each, without a branch that the processor could guess wrongly: the counter at the xor's place
//! is changed by 0 or 1. The place means nothing unless one literal is true; the counters are
//! padded to a power of two so that it is always within.
//!
//! probSAT is by Balint and Schoening, "Choosing probability distributions for stochastic local
//! search and the role of make versus break" (SAT 2012), the xor trick by Balint, Biere, Froehlich and
//! Schoening (SAT 2014). There the counts are cached for k > 3 only; here the cost of a flip is so
//! even that it is done for all. How many clauses a flip would *make* plays no part, as in theirs.

use tamis_bits::range::scale;

use crate::formula::{Formula, Occurrences};
use crate::random::Rng;
use crate::table::Fall;
use crate::watch::{Meter, Why};

const COUNT_SHIFT: u32 = 26;
const ONE: u32 = 1 << COUNT_SHIFT;

/// Flips between two looks at the watch: 10 ms where flips are slowest.
const LOOK: u64 = 1 << 13;

/// The weight of each break count. Past the end the last one counts.
#[derive(Debug)]
pub(crate) struct Weights([u64; 32]);

impl Weights {
    /// Whole numbers, so that sums of them are exact; made by operations that IEEE fixes.
    pub(crate) fn new(fall: Fall) -> Self {
        const FULL: f64 = (1u64 << 40) as f64;
        let weight = |breaks: usize| match fall {
            Fall::Power(base) => FULL / (0..breaks).fold(1.0, |power, _| power * base),
            Fall::Square(offset) => {
                let from_zero = 1.0 + breaks as f64 / offset;
                FULL / (from_zero * from_zero)
            }
        };
        Self(std::array::from_fn(|breaks| (weight(breaks) as u64).max(1)))
    }

    #[inline]
    fn of(&self, breaks: u32) -> u64 {
        self.0[breaks.min(31) as usize]
    }
}

/// A preference among assignments.
#[derive(Clone, Copy, Debug)]
pub struct Lean<'a> {
    /// For each variable: towards true if positive, false if negative. Every 8 double the odds
    /// of a flip that way and halve those of a flip back; 32 is the most that counts.
    pub towards: &'a [i8],
    /// For so many flips of each walk over the whole formula; then only satisfying the clauses counts.
    pub flips: u64,
}

/// The greatest lean that counts, in eighths of a doubling.
const STEEPEST: i8 = 32;

/// Weights are multiplied by `octaves[32 + lean]` and divided by 2^16.
fn octaves() -> [u64; 2 * STEEPEST as usize + 1] {
    let eighth = 2f64.sqrt().sqrt().sqrt();
    let power = |steps: usize| (0..steps).fold(1.0, |power, _| power * eighth);
    std::array::from_fn(|at| (4096.0 * power(at)) as u64)
}

/// An assignment on its way.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    formula: &'a Formula,
    occurrences: &'a Occurrences,
    values: Vec<bool>,
    /// One word a clause, as drawn above.
    states: Vec<u32>,
    /// How many clauses each variable alone satisfies; padded to a power of two.
    breaks: Vec<u32>,
    unsatisfied: Vec<u32>,
    /// Where in `unsatisfied` a clause is, if it is there.
    places: Vec<u32>,
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
            places: vec![0; formula.clauses()],
        }
    }

    /// Begins anew from `values`.
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
                    self.places[clause] = self.unsatisfied.len() as u32;
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

    /// Walks until every clause is satisfied, which is true, or `budget` flips are spent.
    pub(crate) fn run(
        &mut self,
        weights: &Weights,
        lean: Option<Lean<'_>>,
        budget: u64,
        rng: &mut Rng,
        meter: &mut Meter<'_>,
    ) -> Result<bool, Why> {
        let octaves = octaves();
        let budget = budget.min(meter.flips_left());
        let leaning = lean.map_or(0, |lean| lean.flips.min(budget));
        let mut spent = 0;
        meter.flipped(0, self.unsatisfied.len())?;
        while spent < budget && !self.unsatisfied.is_empty() {
            let end = if spent < leaning { leaning } else { budget };
            let chunk = LOOK.min(end - spent);
            let walked = match lean {
                Some(lean) if spent < leaning => self.flips(chunk, rng, |walk, variable| {
                    let mut towards = lean.towards[variable].clamp(-STEEPEST, STEEPEST);
                    if walk.values[variable] {
                        towards = -towards;
                    }
                    let weight = weights.of(walk.breaks[variable]);
                    ((weight * octaves[(STEEPEST + towards) as usize]) >> 16).max(1)
                }),
                _ => self.flips(chunk, rng, |walk, variable| weights.of(walk.breaks[variable])),
            };
            spent += walked;
            meter.flipped(walked, self.unsatisfied.len())?;
        }
        Ok(self.unsatisfied.is_empty())
    }

    /// So many flips, or as many as it takes; how many they were.
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

    fn flip(&mut self, variable: u32) {
        let value = &mut self.values[variable as usize];
        *value = !*value;
        let now_true = 2 * variable + u32::from(!*value);
        let (mut gained, mut lost) = (0, 0);
        let breaks = &mut self.breaks[..];
        let within = breaks.len() - 1;
        for clause in self.occurrences.of_literal(now_true) {
            let state = &mut self.states[*clause as usize];
            let before = *state;
            *state = (before + ONE) ^ variable;
            breaks[before as usize & within] -= u32::from(before >> COUNT_SHIFT == 1);
            if before >> COUNT_SHIFT == 0 {
                gained += 1;
                let place = self.places[*clause as usize];
                let last = self.unsatisfied.pop().unwrap_or_default();
                if let Some(hole) = self.unsatisfied.get_mut(place as usize) {
                    *hole = last;
                    self.places[last as usize] = place;
                }
            }
        }
        for clause in self.occurrences.of_literal(now_true ^ 1) {
            let state = &mut self.states[*clause as usize];
            let after = (*state - ONE) ^ variable;
            *state = after;
            breaks[after as usize & within] += u32::from(after >> COUNT_SHIFT == 1);
            if after >> COUNT_SHIFT == 0 {
                lost += 1;
                self.places[*clause as usize] = self.unsatisfied.len() as u32;
                self.unsatisfied.push(*clause);
            }
        }
        breaks[variable as usize] = breaks[variable as usize] + gained - lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Clauses;
    use crate::watch::Watch;

    /// What the walk keeps is what one would count.
    fn check(walk: &Walk<'_>) {
        let formula = walk.formula;
        let mut breaks = vec![0; walk.breaks.len()];
        let mut unsatisfied = Vec::new();
        for clause in 0..formula.clauses() {
            let holds = |code: &&u32| walk.values[(**code >> 1) as usize] == (**code & 1 == 0);
            let yes: Vec<u32> =
                formula.clause(clause).iter().filter(holds).map(|code| code >> 1).collect();
            let xor = yes.iter().fold(0, |xor, variable| xor ^ variable);
            assert_eq!(walk.states[clause], ((yes.len() as u32) << COUNT_SHIFT) | xor);
            match yes[..] {
                [] => unsatisfied.push(clause as u32),
                [only] => breaks[only as usize] += 1,
                _ => {}
            }
        }
        assert_eq!(walk.breaks, breaks);
        for (place, clause) in walk.unsatisfied.iter().enumerate() {
            assert_eq!(walk.places[*clause as usize] as usize, place);
        }
        let mut listed = walk.unsatisfied.clone();
        listed.sort_unstable();
        assert_eq!(listed, unsatisfied);
    }

    #[test]
    fn counts_are_right_after_any_flips() {
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
    fn weights_fall_and_never_vanish() {
        for fall in [Fall::Power(2.5), Fall::Power(7.0), Fall::Square(0.7)] {
            let Weights(weights) = Weights::new(fall);
            assert_eq!(weights[0], 1 << 40);
            assert!(weights.windows(2).all(|pair| pair[0] >= pair[1] && pair[1] > 0));
        }
        let Weights(square) = Weights::new(Fall::Square(0.5));
        assert_eq!(square[1], (1u64 << 40) / 9);
        let octaves = octaves();
        assert_eq!(octaves[STEEPEST as usize], 1 << 16);
        assert!((octaves[64] as f64 / octaves[56] as f64 - 2.0).abs() < 1e-3);
    }
}
