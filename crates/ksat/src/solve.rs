//! The solver: local search, then survey propagation and local search from the assignments it suggests.

use alloc::vec;
use alloc::vec::Vec;

use crate::formula::{Formula, Occurrences};
use crate::partial::{Partial, restrict};
use crate::random::Rng;
use crate::survey::{End, MAX_CLAUSE, Survey};
use crate::table::Plan;
use crate::walk::{Lean, Walk, Weights};
use crate::watch::{Meter, Watch, Why};

/// The seed, the budget and the parameters of the solver.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The seed. The same seed gives the same answer.
    pub seed: u64,
    /// The number of flips after which the solver gives up.
    pub flips: u64,
    /// The number of sweeps of survey propagation. When they are spent, only the local search continues.
    pub sweeps: u64,
    /// The assignment from which the first local search starts. `None` means a random one.
    pub start: Option<&'a [bool]>,
    /// A bias of the local search towards some values.
    pub lean: Option<Lean<'a>>,
    /// The parameters. `None` means those of [`Plan::of`].
    pub plan: Option<Plan>,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Self { seed: 0, flips: 100_000_000, sweeps: 100_000, start: None, lean: None, plan: None }
    }
}

/// The result of [`solve()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An assignment that satisfies every clause.
    Solved(Solution),
    /// No assignment was found. One may exist nevertheless.
    GaveUp(GaveUp),
    /// No assignment exists: propagating unit clauses ended in a contradiction.
    Unsatisfiable,
}

impl Outcome {
    /// Returns the assignment, if one was found.
    pub fn assignment(self) -> Option<Vec<bool>> {
        match self {
            Self::Solved(solution) => Some(solution.assignment),
            Self::GaveUp(_) | Self::Unsatisfiable => None,
        }
    }
}

/// A solution of a formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The value of each variable, checked against every clause.
    pub assignment: Vec<bool>,
    /// The number of flips.
    pub flips: u64,
    /// The number of sweeps of survey propagation.
    pub sweeps: u64,
}

/// The state in which the solver gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp {
    /// The reason.
    pub why: Why,
    /// The fewest unsatisfied clauses at any check of the progress.
    pub fewest: usize,
    /// The number of flips.
    pub flips: u64,
    /// The number of sweeps of survey propagation.
    pub sweeps: u64,
}

/// Searches for an assignment that satisfies every clause.
///
/// # Panics
/// Panics if `start` or `lean` does not have one value per variable.
pub fn solve(formula: &Formula, settings: &Settings<'_>, watch: &Watch<'_>) -> Outcome {
    let vars = formula.vars() as usize;
    assert!(
        settings.start.is_none_or(|start| start.len() == vars),
        "the start needs one value per variable"
    );
    assert!(
        settings.lean.is_none_or(|lean| lean.towards.len() == vars),
        "the lean needs one value per variable"
    );
    let mut meter = Meter::new(watch, settings.flips, settings.sweeps);
    match solve_simplified(formula, settings, &mut meter) {
        Ok(Search::Unsatisfiable) => Outcome::Unsatisfiable,
        Ok(Search::Found(assignment)) if formula.unsatisfied(&assignment) == 0 => {
            let (flips, sweeps) = (meter.progress.flips, meter.progress.sweeps);
            Outcome::Solved(Solution { assignment, flips, sweeps })
        }
        ended => {
            let why = ended.err().unwrap_or(Why::Budget);
            let (flips, sweeps) = (meter.progress.flips, meter.progress.sweeps);
            let fewest = meter.progress.fewest.min(formula.clauses());
            Outcome::GaveUp(GaveUp { why, fewest, flips, sweeps })
        }
    }
}

/// The result of a search that was not stopped.
enum Search {
    Found(Vec<bool>),
    NotFound,
    Unsatisfiable,
}

impl From<Option<Vec<bool>>> for Search {
    fn from(found: Option<Vec<bool>>) -> Self {
        found.map_or(Self::NotFound, Self::Found)
    }
}

/// Propagates unit clauses, leaves out unused variables and solves the residual formula. Formulas from files often
/// have unit clauses and unused variables, random formulas rarely.
fn solve_simplified(
    formula: &Formula,
    settings: &Settings<'_>,
    meter: &mut Meter<'_>,
) -> Result<Search, Why> {
    let has_units = (0..formula.clauses()).any(|clause| formula.clause(clause).len() == 1);
    if !has_units && formula.vars() as usize <= formula.literals() {
        return search(formula, settings, meter).map(Into::into);
    }
    let (used, used_vars) = restrict(formula, |_| true, |_| true);
    let occurrences = Occurrences::of(&used);
    let mut partial = Partial::new(&used, &occurrences);
    if !partial.propagate() {
        return Ok(Search::Unsatisfiable);
    }
    let (residual, residual_vars) = partial.residual();
    let original: Vec<usize> =
        residual_vars.iter().map(|variable| used_vars[*variable as usize] as usize).collect();
    let start: Option<Vec<bool>> =
        settings.start.map(|start| original.iter().map(|at| start[*at]).collect());
    let towards: Option<Vec<i8>> =
        settings.lean.map(|lean| original.iter().map(|at| lean.towards[*at]).collect());
    let lean = settings.lean.and_then(|lean| Some(Lean { towards: towards.as_deref()?, ..lean }));
    let inner = Settings { start: start.as_deref(), lean, ..*settings };
    let Some(found) = search(&residual, &inner, meter)? else { return Ok(Search::NotFound) };
    let mut all = match settings.start {
        Some(start) => start.to_vec(),
        None => vec![false; formula.vars() as usize],
    };
    for (at, variable) in used_vars.iter().enumerate() {
        if let Some(value) = partial.value(at) {
            all[*variable as usize] = value;
        }
    }
    original.into_iter().zip(found).for_each(|(at, value)| all[at] = value);
    Ok(Search::Found(all))
}

fn search(
    formula: &Formula,
    settings: &Settings<'_>,
    meter: &mut Meter<'_>,
) -> Result<Option<Vec<bool>>, Why> {
    let plan = settings.plan.unwrap_or_else(|| Plan::of(formula));
    let weights = Weights::new(plan.fall);
    let occurrences = Occurrences::of(formula);
    let mut rng = Rng::new(settings.seed, 0);
    let mut walk = Walk::new(formula, &occurrences);
    let random = || (0..formula.vars()).map(|_| rng.coin()).collect();
    walk.start(settings.start.map_or_else(random, <[bool]>::to_vec));
    if walk.run(&weights, settings.lean, plan.opening, &mut rng, meter)? {
        return Ok(Some(walk.into_values()));
    }
    let can_survey = formula.max_length() <= MAX_CLAUSE && formula.nae_clauses() == 0;
    let mut surveys = plan.surveys.iter().filter(|_| can_survey).cycle();
    while let Some(decimation) = surveys.next()
        && meter.sweeps_left() > 0
        && meter.flips_left() > 0
    {
        let mut survey = Survey::new(formula, &occurrences, &mut rng);
        let end = survey.run(*decimation, meter)?;
        let mut values = survey.assignment(&mut rng);
        if end == End::Trivial && solve_residual(&survey, &mut values, &weights, &mut rng, meter)? {
            return Ok(Some(values));
        }
        walk.start(values);
        let flips = survey.work / clauses_per_variable(formula);
        if walk.run(&weights, settings.lean, flips.max(1), &mut rng, meter)? {
            return Ok(Some(walk.into_values()));
        }
        if survey.partial.assigned() == 0 {
            // Survey propagation fixed no variable, and a repetition would not either.
            break;
        }
    }
    let found = walk.run(&weights, None, u64::MAX, &mut rng, meter)?;
    Ok(found.then(|| walk.into_values()))
}

/// Runs local search on the residual formula of a survey. This is easy if the survey fixed the right variables,
/// while local search on the whole formula would soon flip them.
fn solve_residual(
    survey: &Survey<'_>,
    values: &mut [bool],
    weights: &Weights,
    rng: &mut Rng,
    meter: &mut Meter<'_>,
) -> Result<bool, Why> {
    let (residual, variables) = survey.partial.residual();
    let occurrences = Occurrences::of(&residual);
    let mut walk = Walk::new(&residual, &occurrences);
    walk.start(variables.iter().map(|variable| values[*variable as usize]).collect());
    let flips = survey.work / clauses_per_variable(&residual) / 4;
    let found = walk.run(weights, None, flips.max(1), rng, meter)?;
    for (variable, value) in variables.iter().zip(walk.into_values()) {
        values[*variable as usize] = value;
    }
    Ok(found)
}

/// Returns the average number of clauses that a flip visits. A visit costs about as much as one update of a warning,
/// so the work of a survey divided by this number gives the flips that take the same time.
fn clauses_per_variable(formula: &Formula) -> u64 {
    (formula.literals() as u64 / u64::from(formula.vars().max(1))).max(1)
}
