//! Survey propagation: finds the variables that are frozen in most solutions, and fixes them.
//!
//! Close to the threshold the solutions form clusters. The *warning* of a clause to a variable is the fraction of
//! clusters in which all other literals of the clause are forced to be false, so that this one must be true. The
//! warning of clause a to variable i is the product over its other variables j of
//!
//! ```text
//!            (1 - O) S                 S  product of (1 - warning) over the other clauses that
//!   q  =  ---------------                 contain the same literal of j as a
//!          S + O - O S                 O  the same over the clauses that contain its negation
//! ```
//!
//! Warnings are updated until they converge. Then *decimation* fixes the variables with the strongest bias, unit
//! clauses are propagated, and the warnings converge again on the residual formula. This ends in one of two ways.
//! Either all warnings are trivial, and local search solves the residual formula at once. Or a clause becomes
//! unsatisfiable; even then the assignment is a far better start for local search than a random one.
//!
//! With *backtracking*, a fraction of the rounds unassigns the variables whose values now fit worst.
//!
//! Survey propagation is by Braunstein, Mezard and Zecchina (2005), backtracking by Marino, Parisi and
//! Ricci-Tersenghi (2016). Here 8 clauses of one length are updated at a time, each step a loop over 8 numbers that
//! compilers vectorise. The 8 clauses see each other's old warnings, which does not harm convergence. For each
//! literal the product of (1 - warning) over all its clauses is kept, which is S times the factor of the clause
//! itself. An update then takes one division for `q` and one to update the product. All operations are `+ - * /` on
//! 32-bit floats, which give the same result on every machine.

use alloc::vec;
use alloc::vec::Vec;

use crate::formula::{Formula, Occurrences};
use crate::partial::Partial;
use crate::random::Rng;
use crate::watch::{Meter, Why};

/// The longest clause that survey propagation supports.
pub(crate) const MAX_CLAUSE: usize = 8;
const LANES: usize = 8;
/// The strongest warning. A warning of 1 would make a product 0, from which no factor can be divided out.
const MAX_WARNING: f32 = 0.999_99;
/// The smallest product, to prevent underflow.
const MIN_PRODUCT: f32 = 1e-30;
/// The warnings have converged if none changes by more.
const CONVERGED: f32 = 0.01;
/// The maximum number of sweeps of a round.
const MAX_SWEEPS: u32 = 100;
/// The number of rounds that may fail to converge.
const MAX_UNCONVERGED: u32 = 12;
/// The number of sweeps after which all products are recomputed, against rounding errors.
const RECOMPUTE_INTERVAL: u32 = 8;
/// If no warning or no bias is stronger, the surveys are trivial and the residual formula is easy.
const TRIVIAL_WARNING: f32 = 0.04;
const TRIVIAL_BIAS: f32 = 0.01;

/// The parameters of decimation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decimation {
    /// The fraction of all variables that a round fixes.
    pub share: f64,
    /// The fraction of rounds that backtrack.
    pub back: f64,
}

/// How a run of survey propagation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All surveys are trivial.
    Trivial,
    /// A clause has become unsatisfiable.
    Contradiction,
    /// The warnings do not converge.
    Unconverged,
    /// All sweeps of the budget are spent.
    Spent,
}

/// The literals at the same position of 8 clauses, and the warnings to them.
#[derive(Clone, Copy, Debug)]
struct Row {
    codes: [u32; LANES],
    warnings: [f32; LANES],
}

/// The unsatisfied clauses of one length. A block of 8 clauses has one row per literal.
#[derive(Debug, Default)]
struct Group {
    rows: Vec<Row>,
    /// The position of each literal in the formula.
    edges: Vec<[u32; LANES]>,
    /// The number of clauses in the last block.
    lanes: usize,
}

impl Group {
    /// Adds a clause of `length` literals, given as position in the formula, code and warning. `unused` is the code of
    /// lanes without a clause.
    fn push(
        &mut self,
        length: usize,
        literals: impl Iterator<Item = (u32, u32, f32)>,
        unused: u32,
    ) {
        if self.lanes == LANES || self.rows.is_empty() {
            // Lanes without a clause refer to an extra variable that occurs in no clause.
            let row = Row { codes: [unused; LANES], warnings: [0.0; LANES] };
            self.rows.extend(core::iter::repeat_n(row, length));
            self.edges.extend(core::iter::repeat_n([u32::MAX; LANES], length));
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
    /// The warning to each literal of the formula.
    warnings: Vec<f32>,
    /// The product of each literal code. Those of the extra variable stay 1.
    products: Vec<f32>,
    groups: [Group; MAX_CLAUSE + 1],
    /// The number of warnings updated so far.
    pub(crate) work: u64,
}

impl<'a> Survey<'a> {
    pub(crate) fn new(formula: &'a Formula, occurrences: &'a Occurrences, rng: &mut Rng) -> Self {
        // Few enough that the products do not underflow, and strong enough that they differ widely: otherwise all
        // warnings vanish even on formulas with frozen variables.
        let warned = 20.0 * formula.vars() as f32 / formula.literals().max(1) as f32;
        let first = || if rng.unit_f32() < warned { rng.unit_f32() * 0.95 } else { 0.0 };
        Self {
            formula,
            occurrences,
            partial: Partial::new(formula, occurrences),
            warnings: core::iter::repeat_with(first).take(formula.literals()).collect(),
            products: vec![1.0; 2 * formula.vars() as usize + 2],
            groups: Default::default(),
            work: 0,
        }
    }

    /// Fixes variables until the run ends.
    pub(crate) fn run(
        &mut self,
        decimation: Decimation,
        meter: &mut Meter<'_>,
    ) -> Result<End, Why> {
        let vars = self.formula.vars() as usize;
        let step = ((vars as f64 * decimation.share) as usize).max(1);
        let mut unconverged = 0;
        let mut backtracks_due = 0.0;
        loop {
            if !self.partial.propagate() {
                return Ok(End::Contradiction);
            }
            let strongest = match self.converge(meter)? {
                Some((strongest, true)) => strongest,
                Some((strongest, false)) => {
                    unconverged += 1;
                    if unconverged > MAX_UNCONVERGED {
                        return Ok(End::Unconverged);
                    }
                    strongest
                }
                None => return Ok(End::Spent),
            };
            if strongest < TRIVIAL_WARNING {
                return Ok(End::Trivial);
            }
            backtracks_due += decimation.back;
            if backtracks_due >= 1.0 && self.partial.assigned() > 2 * step {
                backtracks_due -= 1.0;
                self.backtrack(step);
            } else if !self.fix(step) {
                return Ok(End::Trivial);
            }
        }
    }

    /// Updates warnings until they converge. Returns the strongest and whether they converged, or `None` if the sweeps
    /// are spent.
    fn converge(&mut self, meter: &mut Meter<'_>) -> Result<Option<(f32, bool)>, Why> {
        self.group_clauses();
        let rows: usize = self.groups.iter().map(|group| group.rows.len()).sum();
        let mut converged = rows == 0;
        for sweep in 0..MAX_SWEEPS {
            if converged {
                break;
            }
            if meter.sweeps_left() == 0 {
                return Ok(None);
            }
            if sweep % RECOMPUTE_INTERVAL == 0 {
                self.recompute_products();
            }
            converged = self.sweep() < CONVERGED;
            self.work += (rows * LANES) as u64;
            meter.count_sweep()?;
        }
        self.recompute_products();
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
        Ok(Some((strongest, converged)))
    }

    /// Groups the unsatisfied clauses by length.
    fn group_clauses(&mut self) {
        let unused = 2 * self.formula.vars();
        self.groups.iter_mut().for_each(|group| {
            group.rows.clear();
            group.edges.clear();
        });
        for clause in 0..self.formula.clauses() {
            let Some(open) = self.partial.unassigned_literals(clause) else { continue };
            let start = self.formula.start(clause) as u32;
            let literals = (start..).zip(self.formula.clause(clause)).filter_map(|(edge, code)| {
                let free = self.partial.value((code >> 1) as usize).is_none();
                free.then(|| (edge, *code, self.warnings[edge as usize]))
            });
            self.groups[usize::from(open)].push(usize::from(open), literals, unused);
        }
    }

    /// Computes every product from scratch.
    fn recompute_products(&mut self) {
        self.products.fill(1.0);
        for row in self.groups.iter().flat_map(|group| &group.rows) {
            for (code, warning) in row.codes.iter().zip(&row.warnings) {
                let product = &mut self.products[*code as usize];
                *product = (*product * (1.0 - warning)).max(MIN_PRODUCT);
            }
        }
    }

    /// Updates every warning once. Returns the greatest change.
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
                // Unit propagation leaves no unsatisfied clause of these lengths.
                _ => 0.0,
            });
        }
        change
    }

    /// Returns the fraction of clusters that force the variable true minus the fraction that force it false.
    fn bias(&self, variable: usize) -> f32 {
        bias(self.products[2 * variable], self.products[2 * variable + 1])
    }

    /// Returns the assigned values. Other variables get the value of their bias, or a random one.
    pub(crate) fn assignment(&self, rng: &mut Rng) -> Vec<bool> {
        let value = |variable| {
            self.partial.value(variable).unwrap_or_else(|| {
                let bias = self.bias(variable);
                if bias.abs() > TRIVIAL_BIAS { bias > 0.0 } else { rng.coin() }
            })
        };
        (0..self.formula.vars() as usize).map(value).collect()
    }

    /// Assigns the variables with the strongest bias. Returns false if no variable has a bias.
    fn fix(&mut self, step: usize) -> bool {
        let free = (0..self.formula.vars()).filter(|at| self.partial.value(*at as usize).is_none());
        let mut ranked: Vec<(f32, u32)> =
            free.map(|variable| (self.bias(variable as usize), variable)).collect();
        ranked.sort_unstable_by(|a, b| b.0.abs().total_cmp(&a.0.abs()).then(a.1.cmp(&b.1)));
        if ranked.first().is_none_or(|(bias, _)| bias.abs() < TRIVIAL_BIAS) {
            return false;
        }
        for (bias, variable) in ranked.into_iter().take(step) {
            // Propagation of earlier ones may have assigned it.
            if self.partial.value(variable as usize).is_none() {
                self.partial.assign(2 * variable + u32::from(bias < 0.0));
                if !self.partial.propagate() {
                    break;
                }
            }
        }
        true
    }

    /// Unassigns the variables whose values agree least with the current warnings.
    fn backtrack(&mut self, step: usize) {
        let mut ranked: Vec<(f32, u32)> = (0..self.formula.vars())
            .filter_map(|variable| {
                let value = self.partial.value(variable as usize)?;
                let bias = self.bias_if_free(variable);
                Some((if value { bias } else { -bias }, variable))
            })
            .collect();
        ranked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, variable) in ranked.into_iter().take(step) {
            self.partial.unassign(variable as usize);
        }
    }

    /// Returns the bias that an assigned variable would have if it were unassigned.
    fn bias_if_free(&self, variable: u32) -> f32 {
        let value = self.partial.value(variable as usize);
        let product = |code: u32| {
            let own = u8::from(value == Some(code & 1 == 0));
            let open = |clause: &&u32| self.partial.true_literals(**clause as usize) == own;
            let clauses = self.occurrences.of_literal(code).iter().filter(open);
            clauses.fold(1f32, |product, clause| {
                let warning = self.warning_if_free(*clause as usize, variable);
                (product * (1.0 - warning)).max(MIN_PRODUCT)
            })
        };
        bias(product(2 * variable), product(2 * variable + 1))
    }

    /// Returns the warning of a clause to a variable whose own literal is the only one that may satisfy the clause.
    fn warning_if_free(&self, clause: usize, variable: u32) -> f32 {
        let active = self.partial.unassigned_literals(clause).is_some();
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
        warning.min(MAX_WARNING)
    }
}

/// Returns the fraction of clusters that force a literal to be false. `same` and `opposite` are the products of the
/// literal and of its negation, `own` is the factor of the warning clause in `same`.
#[inline(always)]
fn forced(same: f32, opposite: f32, own: f32) -> f32 {
    let forced = (1.0 - opposite) * same;
    forced / (forced + opposite * own)
}

/// Returns the fraction of clusters that force a variable true minus the fraction that force it false, given the
/// products of its two literals.
fn bias(same: f32, opposite: f32) -> f32 {
    let (forced_true, forced_false, free) =
        ((1.0 - same) * opposite, (1.0 - opposite) * same, same * opposite);
    (forced_true - forced_false) / (forced_true + forced_false + free)
}

/// Updates every warning of the clauses of `L` literals. Returns the greatest change.
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
        // The product over all other literals: over those before, then times those after.
        let mut others = [[1f32; LANES]; L];
        let mut before = [1f32; LANES];
        for place in 0..L {
            others[place] = before;
            for lane in 0..LANES {
                before[lane] *= q[place][lane];
            }
        }
        let mut after = [1f32; LANES];
        for place in (0..L).rev() {
            for lane in 0..LANES {
                others[place][lane] *= after[lane];
                after[lane] *= q[place][lane];
            }
        }
        for (row, others) in block.iter_mut().zip(&others) {
            let mut factor = [0f32; LANES];
            for lane in 0..LANES {
                let old = row.warnings[lane];
                let new = if others[lane] < MAX_WARNING { others[lane] } else { MAX_WARNING };
                let moved = (new - old).abs();
                change[lane] = if moved > change[lane] { moved } else { change[lane] };
                factor[lane] = (1.0 - new) / (1.0 - old);
                row.warnings[lane] = new;
            }
            for lane in 0..LANES {
                let product = &mut products[row.codes[lane] as usize];
                let new = *product * factor[lane];
                *product =
                    if new < 1.0 { if new > MIN_PRODUCT { new } else { MIN_PRODUCT } } else { 1.0 };
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

    /// Computes a warning by its definition, from the products over all clauses but this one.
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
    fn converged_warnings_match_the_definition() {
        for (k, density, vars) in [(3, 4.2, 3000), (5, 20.0, 600)] {
            let clauses = (density * f64::from(vars)) as usize;
            let formula = Formula::random(Clauses::Or, k, vars, clauses, 4).unwrap();
            let occurrences = Occurrences::of(&formula);
            let mut survey = Survey::new(&formula, &occurrences, &mut Rng::new(1, 0));
            let watch = Watch::default();
            let mut meter = Meter::new(&watch, 0, 1000);
            let (strongest, converged) = survey.converge(&mut meter).unwrap().unwrap();
            assert!(converged && strongest > 0.1, "k = {k}: {strongest}");
            // Continue to the fixed point, where the definition holds.
            for _ in 0..100 {
                survey.converge(&mut meter).unwrap();
            }
            for edge in (0..formula.literals()).step_by(1 + formula.literals() / 50) {
                let expected = by_definition(&formula, &survey.warnings, edge);
                let found = f64::from(survey.warnings[edge]);
                assert!((found - expected).abs() < 2e-3, "k = {k}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn every_unsatisfied_clause_is_in_its_group() {
        let mut formula = Formula::random(Clauses::Or, 5, 100, 333, 4).unwrap();
        formula.add(&[1, 2]).unwrap();
        formula.add(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let occurrences = Occurrences::of(&formula);
        let mut survey = Survey::new(&formula, &occurrences, &mut Rng::new(1, 0));
        (0..20).for_each(|variable| survey.partial.assign(2 * variable));
        survey.group_clauses();
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
                        assert!(!core::mem::replace(&mut seen[*edge as usize], true));
                    }
                }
            }
        }
        for clause in 0..formula.clauses() {
            for (at, code) in formula.clause(clause).iter().enumerate() {
                let free = survey.partial.value((code >> 1) as usize).is_none();
                let expected = survey.partial.unassigned_literals(clause).is_some() && free;
                assert_eq!(seen[formula.start(clause) + at], expected);
            }
        }
    }
}
