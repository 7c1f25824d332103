//! Survey propagation: ask the clauses which variables are frozen, fix those, ask again.
//!
//! Close to the threshold the solutions lie in clusters. A clause *warns* a variable, with the
//! share of clusters in which all its other literals are forced to be false, so that this one must
//! be true. The warning of clause a to variable i is the product over its other variables j of
//!
//! ```text
//!            (1 - O) S                 S  product of (1 - warning) over the other clauses
//!   q  =  ---------------                 that j helps by the value that helps a
//!          S + O - O S                 O  the same over the clauses it helps by the other value
//! ```
//!
//! Warnings are passed until they settle. Then the variables with the strongest bias get their
//! value, clauses that are down to one literal force theirs, and the warnings settle again on
//! what is left. In the end either no warning is left to give, which leaves a formula that a
//! walk solves at once, or a clause has run out of literals: then too the assignment is
//! a far better place to start a walk from than a random one.
//!
//! With *backtracking* every so many rounds take back the values that look worst by now instead.
//!
//! Survey propagation is by Braunstein, Mezard and Zecchina (2005), backtracking by Marino, Parisi and
//! Ricci-Tersenghi (2016). Eight clauses of one length are updated at a time, each
//! step a loop over eight numbers that compilers turn into vector instructions; they see
//! each other's old warnings, which does not hurt. Kept for each literal is the product
//! of (1 - warning) over all its clauses, S times the clause's own factor: that costs one
//! division in `q` and one to bring the product up to date. Nothing but `+ - * /` on 32-bit floats,
//! which are the same everywhere.

use crate::formula::{Formula, Occurrences};
use crate::partial::Partial;
use crate::random::Rng;
use crate::watch::{Meter, Why};

/// Clauses longer than this are not for survey propagation.
pub(crate) const MAX_CLAUSE: usize = 8;
const LANES: usize = 8;
/// The strongest warning: a product with 1 - 1 in it could not be divided out again.
const CERTAIN: f32 = 0.999_99;
/// The smallest product, against underflow.
const TINY: f32 = 1e-30;
/// Settled when no warning changes by more.
const SETTLED: f32 = 0.01;
/// Sweeps before a round gives up settling.
const PATIENCE: u32 = 100;
/// Rounds that may go on without.
const UNSETTLED: u32 = 12;
/// Sweeps between two computations of all products from scratch, against rounding errors.
const RENEW: u32 = 8;
/// When no warning is stronger, or no bias, what is left is easy.
const SILENT_WARNING: f32 = 0.04;
const SILENT_BIAS: f32 = 0.01;

/// How survey propagation decimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decimation {
    /// The share of all variables that a round fixes.
    pub share: f64,
    /// The share of rounds that take values back.
    pub back: f64,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing is left to warn of.
    Silent,
    /// A clause has run out of literals.
    Contradiction,
    /// The warnings do not settle.
    Unsettled,
    /// The sweeps are spent.
    Spent,
}

/// Eight warnings at the same place of eight clauses.
#[derive(Clone, Copy, Debug)]
struct Row {
    codes: [u32; LANES],
    warnings: [f32; LANES],
}

/// The open clauses of one length: that many rows for every eight of them.
#[derive(Debug, Default)]
struct Group {
    rows: Vec<Row>,
    /// Where in the formula each of them is.
    edges: Vec<[u32; LANES]>,
    /// Clauses in the last eight.
    lanes: usize,
}

impl Group {
    /// Adds a clause's literals, of which there are `length`, each with its place in the formula.
    fn push(&mut self, length: usize, literals: impl Iterator<Item = (u32, u32, f32)>, none: u32) {
        if self.lanes == LANES || self.rows.is_empty() {
            // Lanes without a clause warn nobody: the last variable is in no clause.
            let row = Row { codes: [none; LANES], warnings: [0.0; LANES] };
            self.rows.extend(std::iter::repeat_n(row, length));
            self.edges.extend(std::iter::repeat_n([u32::MAX; LANES], length));
            self.lanes = 0;
        }
        let at = self.rows.len() - length;
        for (place, (edge, code, warning)) in literals.enumerate() {
            self.rows[at + place].codes[self.lanes] = code;
            self.rows[at + place].warnings[self.lanes] = warning;
            self.edges[at + place][self.lanes] = edge;
        }
        self.lanes += 1;
    }
}

#[derive(Debug)]
pub(crate) struct Survey<'a> {
    formula: &'a Formula,
    occurrences: &'a Occurrences,
    pub(crate) partial: Partial<'a>,
    /// One for each literal of the formula.
    warnings: Vec<f32>,
    /// One for each literal of a variable; those of an extra variable stay 1.
    products: Vec<f32>,
    groups: [Group; MAX_CLAUSE + 1],
    /// Warnings updated so far.
    pub(crate) work: u64,
}

impl<'a> Survey<'a> {
    pub(crate) fn new(formula: &'a Formula, occurrences: &'a Occurrences, rng: &mut Rng) -> Self {
        // So few that the products do not underflow, so strong that they differ widely: else
        // all falls silent where there is much to say.
        let warned = 20.0 * formula.vars() as f32 / formula.literals().max(1) as f32;
        let first = || if rng.unit() < warned { rng.unit() * 0.95 } else { 0.0 };
        Self {
            formula,
            occurrences,
            partial: Partial::new(formula, occurrences),
            warnings: std::iter::repeat_with(first).take(formula.literals()).collect(),
            products: vec![1.0; 2 * formula.vars() as usize + 2],
            groups: Default::default(),
            work: 0,
        }
    }

    /// Fixes variables until one of the ends is reached.
    pub(crate) fn run(&mut self, how: Decimation, meter: &mut Meter<'_>) -> Result<End, Why> {
        let vars = self.formula.vars() as usize;
        let step = ((vars as f64 * how.share) as usize).max(1);
        let mut unsettled = 0;
        let mut owed = 0.0;
        loop {
            if !self.partial.propagate() {
                return Ok(End::Contradiction);
            }
            let strongest = match self.settle(meter)? {
                Some((strongest, true)) => strongest,
                Some((strongest, false)) => {
                    unsettled += 1;
                    if unsettled > UNSETTLED {
                        return Ok(End::Unsettled);
                    }
                    strongest
                }
                None => return Ok(End::Spent),
            };
            if strongest < SILENT_WARNING {
                return Ok(End::Silent);
            }
            owed += how.back;
            if owed >= 1.0 && self.partial.set() > 2 * step {
                owed -= 1.0;
                self.take_back(step);
            } else if !self.fix(step) {
                return Ok(End::Silent);
            }
        }
    }

    /// Passes warnings until they settle; the strongest, and whether they did. Nothing if the
    /// sweeps are spent.
    fn settle(&mut self, meter: &mut Meter<'_>) -> Result<Option<(f32, bool)>, Why> {
        self.gather();
        let rows: usize = self.groups.iter().map(|group| group.rows.len()).sum();
        let mut settled = rows == 0;
        for sweep in 0..PATIENCE {
            if settled {
                break;
            }
            if meter.sweeps_left() == 0 {
                return Ok(None);
            }
            if sweep % RENEW == 0 {
                self.renew();
            }
            settled = self.sweep() < SETTLED;
            self.work += (rows * LANES) as u64;
            meter.swept()?;
        }
        self.renew();
        let mut strongest = 0f32;
        for group in &self.groups {
            for (row, edges) in group.rows.iter().zip(&group.edges) {
                for (warning, edge) in row.warnings.iter().zip(edges) {
                    if let Some(kept) = self.warnings.get_mut(*edge as usize) {
                        *kept = *warning;
                        strongest = strongest.max(*warning);
                    }
                }
            }
        }
        Ok(Some((strongest, settled)))
    }

    /// Sorts the open clauses by length.
    fn gather(&mut self) {
        let none = 2 * self.formula.vars();
        self.groups.iter_mut().for_each(|group| {
            group.rows.clear();
            group.edges.clear();
        });
        for clause in 0..self.formula.clauses() {
            let Some(open) = self.partial.open(clause) else { continue };
            let start = self.formula.start(clause) as u32;
            let literals = (start..).zip(self.formula.clause(clause)).filter_map(|(edge, code)| {
                let free = self.partial.value((code >> 1) as usize).is_none();
                free.then(|| (edge, *code, self.warnings[edge as usize]))
            });
            self.groups[usize::from(open)].push(usize::from(open), literals, none);
        }
    }

    /// Computes every product from scratch.
    fn renew(&mut self) {
        self.products.fill(1.0);
        for row in self.groups.iter().flat_map(|group| &group.rows) {
            for (code, warning) in row.codes.iter().zip(&row.warnings) {
                let product = &mut self.products[*code as usize];
                *product = (*product * (1.0 - warning)).max(TINY);
            }
        }
    }

    /// Passes every warning once; the greatest change.
    fn sweep(&mut self) -> f32 {
        let mut change = 0f32;
        let products = &mut self.products[..];
        for (length, group) in self.groups.iter_mut().enumerate() {
            let rows = &mut group.rows[..];
            change = change.max(match length {
                2 => sweep::<2>(rows, products),
                3 => sweep::<3>(rows, products),
                4 => sweep::<4>(rows, products),
                5 => sweep::<5>(rows, products),
                6 => sweep::<6>(rows, products),
                7 => sweep::<7>(rows, products),
                8 => sweep::<8>(rows, products),
                // Propagation leaves none of these open.
                _ => 0.0,
            });
        }
        change
    }

    /// How much more of the clusters have the variable true than false.
    fn bias(&self, variable: usize) -> f32 {
        lean(self.products[2 * variable], self.products[2 * variable + 1])
    }

    /// The values so far; for the others what they lean to, or a coin.
    pub(crate) fn suggestion(&self, rng: &mut Rng) -> Vec<bool> {
        let value = |variable| {
            self.partial.value(variable).unwrap_or_else(|| {
                let bias = self.bias(variable);
                if bias.abs() > SILENT_BIAS { bias > 0.0 } else { rng.coin() }
            })
        };
        (0..self.formula.vars() as usize).map(value).collect()
    }

    /// Gives the variables of the strongest bias their value; false if none has any.
    fn fix(&mut self, step: usize) -> bool {
        let free = (0..self.formula.vars()).filter(|at| self.partial.value(*at as usize).is_none());
        let mut ranked: Vec<(f32, u32)> =
            free.map(|variable| (self.bias(variable as usize), variable)).collect();
        ranked.sort_unstable_by(|a, b| b.0.abs().total_cmp(&a.0.abs()).then(a.1.cmp(&b.1)));
        if ranked.first().is_none_or(|(bias, _)| bias.abs() < SILENT_BIAS) {
            return false;
        }
        for (bias, variable) in ranked.into_iter().take(step) {
            // Those before it may have forced it, or come to a contradiction.
            if self.partial.value(variable as usize).is_none() {
                self.partial.assign(2 * variable + u32::from(bias < 0.0));
                if !self.partial.propagate() {
                    break;
                }
            }
        }
        true
    }

    /// Takes back the values that the clauses now warn against most, or hold to least.
    fn take_back(&mut self, step: usize) {
        let mut ranked: Vec<(f32, u32)> = (0..self.formula.vars())
            .filter_map(|variable| {
                let value = self.partial.value(variable as usize)?;
                let bias = self.bias_if_free(variable);
                Some((if value { bias } else { -bias }, variable))
            })
            .collect();
        ranked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, variable) in ranked.into_iter().take(step) {
            self.partial.release(variable as usize);
        }
    }

    /// The bias that a variable with a value would have without it.
    fn bias_if_free(&self, variable: u32) -> f32 {
        let value = self.partial.value(variable as usize);
        let product = |code: u32| {
            let own = u8::from(value == Some(code & 1 == 0));
            let open = |clause: &&u32| self.partial.satisfied_by(**clause as usize) == own;
            let clauses = self.occurrences.of_literal(code).iter().filter(open);
            clauses.fold(1f32, |product, clause| {
                let warning = self.warning_if_free(*clause as usize, variable);
                (product * (1.0 - warning)).max(TINY)
            })
        };
        lean(product(2 * variable), product(2 * variable + 1))
    }

    /// The warning of a clause to a variable, whose own literal is all that may satisfy it.
    fn warning_if_free(&self, clause: usize, variable: u32) -> f32 {
        let active = self.partial.open(clause).is_some();
        let start = self.formula.start(clause);
        let others = self.formula.clause(clause).iter().enumerate();
        let free = others.filter(|(_, code)| {
            let other = **code >> 1;
            other != variable && self.partial.value(other as usize).is_none()
        });
        let warning = free.fold(1f32, |product, (place, code)| {
            let own = if active { self.warnings[start + place] } else { 0.0 };
            let same = self.products[*code as usize];
            let opposite = self.products[(code ^ 1) as usize];
            product * forced(same, opposite, 1.0 - own)
        });
        warning.min(CERTAIN)
    }
}

/// The share of clusters that force a literal false, of which `same` and `opposite` are the
/// products, `own` being the factor in `same` of the clause that asks.
#[inline(always)]
fn forced(same: f32, opposite: f32, own: f32) -> f32 {
    let forced = (1.0 - opposite) * same;
    forced / (forced + opposite * own)
}

/// The share of clusters that force a variable true, less those that force it false.
fn lean(same: f32, opposite: f32) -> f32 {
    let (yes, no, free) = ((1.0 - same) * opposite, (1.0 - opposite) * same, same * opposite);
    (yes - no) / (yes + no + free)
}

/// Passes every warning of the clauses of `L` literals; the greatest change.
fn sweep<const L: usize>(rows: &mut [Row], products: &mut [f32]) -> f32 {
    let mut change = [0f32; LANES];
    for block in rows.as_chunks_mut::<L>().0 {
        let mut q = [[0f32; LANES]; L];
        for (row, q) in block.iter().zip(&mut q) {
            let mut same = [0f32; LANES];
            let mut opposite = [0f32; LANES];
            for lane in 0..LANES {
                let code = row.codes[lane] as usize;
                same[lane] = products[code];
                opposite[lane] = products[code ^ 1];
            }
            for lane in 0..LANES {
                q[lane] = forced(same[lane], opposite[lane], 1.0 - row.warnings[lane]);
            }
        }
        // Products of all the others: of those before, then times those behind.
        let mut others = [[1f32; LANES]; L];
        let mut before = [1f32; LANES];
        for place in 0..L {
            others[place] = before;
            for lane in 0..LANES {
                before[lane] *= q[place][lane];
            }
        }
        let mut behind = [1f32; LANES];
        for place in (0..L).rev() {
            for lane in 0..LANES {
                others[place][lane] *= behind[lane];
                behind[lane] *= q[place][lane];
            }
        }
        for (row, others) in block.iter_mut().zip(&others) {
            let mut factor = [0f32; LANES];
            for lane in 0..LANES {
                let old = row.warnings[lane];
                let new = if others[lane] < CERTAIN { others[lane] } else { CERTAIN };
                let moved = (new - old).abs();
                change[lane] = if moved > change[lane] { moved } else { change[lane] };
                factor[lane] = (1.0 - new) / (1.0 - old);
                row.warnings[lane] = new;
            }
            for lane in 0..LANES {
                let product = &mut products[row.codes[lane] as usize];
                let new = *product * factor[lane];
                *product = if new < 1.0 { if new > TINY { new } else { TINY } } else { 1.0 };
            }
        }
    }
    change.into_iter().fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Clauses;
    use crate::watch::Watch;

    /// A warning by the definition: for each other literal, the products over all clauses but
    /// this one.
    fn by_definition(formula: &Formula, warnings: &[f32], edge: usize) -> f64 {
        let clause = (0..formula.clauses()).rfind(|at| formula.start(*at) <= edge).unwrap();
        let start = formula.start(clause);
        let others = formula.clause(clause).iter().enumerate().filter(|(at, _)| start + at != edge);
        let product = |code: u32| -> f64 {
            let codes = formula.codes().iter().enumerate();
            let within = start..start + formula.clause(clause).len();
            let ours = codes.filter(|(at, other)| **other == code && !within.contains(at));
            ours.map(|(at, _)| 1.0 - f64::from(warnings[at])).product()
        };
        others
            .map(|(_, code)| {
                let (same, opposite) = (product(*code), product(code ^ 1));
                (1.0 - opposite) * same / (same + opposite - same * opposite)
            })
            .product()
    }

    #[test]
    fn settled_warnings_are_those_of_the_definition() {
        for (k, density, vars) in [(3, 4.2, 3000), (5, 20.0, 600)] {
            let clauses = (density * f64::from(vars)) as usize;
            let formula = Formula::random(Clauses::Or, k, vars, clauses, 4).unwrap();
            let occurrences = Occurrences::of(&formula);
            let mut survey = Survey::new(&formula, &occurrences, &mut Rng::new(1, 0));
            let watch = Watch::default();
            let mut meter = Meter::new(&watch, 0, 1000);
            let (strongest, settled) = survey.settle(&mut meter).unwrap().unwrap();
            assert!(settled && strongest > 0.1, "k = {k}: {strongest}");
            // Go on until nothing moves, which is where definition and sweep must meet.
            for _ in 0..100 {
                survey.settle(&mut meter).unwrap();
            }
            for edge in (0..formula.literals()).step_by(1 + formula.literals() / 50) {
                let expected = by_definition(&formula, &survey.warnings, edge);
                let found = f64::from(survey.warnings[edge]);
                assert!((found - expected).abs() < 2e-3, "k = {k}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn every_open_clause_is_in_its_group() {
        let mut formula = Formula::random(Clauses::Or, 5, 100, 333, 4).unwrap();
        formula.add(&[1, 2]).unwrap();
        formula.add(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let occurrences = Occurrences::of(&formula);
        let mut survey = Survey::new(&formula, &occurrences, &mut Rng::new(1, 0));
        (0..20).for_each(|variable| survey.partial.assign(2 * variable));
        survey.gather();
        let mut seen = vec![false; formula.literals()];
        for (length, group) in survey.groups.iter().enumerate() {
            assert_eq!(group.rows.len(), group.edges.len());
            assert!(length == 0 || group.rows.len().is_multiple_of(length));
            for (row, edges) in group.rows.iter().zip(&group.edges) {
                for (code, edge) in row.codes.iter().zip(edges) {
                    if *edge == u32::MAX {
                        assert_eq!(*code, 200);
                    } else {
                        assert_eq!(formula.codes()[*edge as usize], *code);
                        assert!(!std::mem::replace(&mut seen[*edge as usize], true));
                    }
                }
            }
        }
        for clause in 0..formula.clauses() {
            for (at, code) in formula.clause(clause).iter().enumerate() {
                let free = survey.partial.value((code >> 1) as usize).is_none();
                let expected = survey.partial.open(clause).is_some() && free;
                assert_eq!(seen[formula.start(clause) + at], expected);
            }
        }
    }
}
