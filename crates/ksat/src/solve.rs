//! The solver: a walk, then survey propagation and walks from where it leads.

use crate::formula::{Formula, Occurrences};
use crate::partial::{Partial, rename};
use crate::random::Rng;
use crate::survey::{End, MAX_CLAUSE, Survey};
use crate::table::Plan;
use crate::walk::{Lean, Walk, Weights};
use crate::watch::{Meter, Watch, Why};

/// What the answer depends on.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The same seed gives the same answer.
    pub seed: u64,
    /// Variables to flip before giving up.
    pub flips: u64,
    /// Passes of survey propagation; when they are spent the walk goes on alone.
    pub sweeps: u64,
    /// Where the first walk starts, if not at random.
    pub start: Option<&'a [bool]>,
    /// Which values to prefer while there is a choice.
    pub lean: Option<Lean<'a>>,
    /// The parameters, if not those of [`Plan::of`].
    pub plan: Option<Plan>,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Self { seed: 0, flips: 100_000_000, sweeps: 100_000, start: None, lean: None, plan: None }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An assignment that satisfies every clause.
    Solved(Solution),
    /// None was found. There may be one all the same.
    GaveUp(GaveUp),
}

impl Outcome {
    /// The assignment, if there is one.
    pub fn assignment(self) -> Option<Vec<bool>> {
        match self {
            Self::Solved(solution) => Some(solution.assignment),
            Self::GaveUp(_) => None,
        }
    }
}

/// A formula solved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// A value for each variable, checked against every clause.
    pub assignment: Vec<bool>,
    /// Variables flipped.
    pub flips: u64,
    /// Passes of survey propagation.
    pub sweeps: u64,
}

/// A formula not solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp {
    /// Why.
    pub why: Why,
    /// The fewest clauses that were unsatisfied at any time that was looked at.
    pub fewest: usize,
    /// Variables flipped.
    pub flips: u64,
    /// Passes of survey propagation.
    pub sweeps: u64,
}

/// Looks for an assignment that satisfies every clause.
///
/// # Panics
/// If `start` or `lean` has not a value for each variable.
pub fn solve(formula: &Formula, settings: &Settings<'_>, watch: &Watch<'_>) -> Outcome {
    let vars = formula.vars() as usize;
    assert!(settings.start.is_none_or(|start| start.len() == vars), "a value for every variable");
    assert!(
        settings.lean.is_none_or(|lean| lean.towards.len() == vars),
        "a lean for every variable"
    );
    let mut meter = Meter::new(watch, settings.flips, settings.sweeps);
    match simplified(formula, settings, &mut meter) {
        Ok(Some(assignment)) if formula.unsatisfied(&assignment) == 0 => {
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

/// Solves what is left when clauses of one literal have had their way and variables without
/// a clause are left out: formulas from files have such, random ones seldom.
fn simplified(
    formula: &Formula,
    settings: &Settings<'_>,
    meter: &mut Meter<'_>,
) -> Result<Option<Vec<bool>>, Why> {
    let unit = (0..formula.clauses()).any(|clause| formula.clause(clause).len() == 1);
    if !unit && formula.vars() as usize <= formula.literals() {
        return search(formula, settings, meter);
    }
    let (used, names) = rename(formula, |_| true, |_| true);
    let occurrences = Occurrences::of(&used);
    let mut partial = Partial::new(&used, &occurrences);
    // A contradiction here means that there is no solution. Not being one to say so, the solver
    // looks for one until its budget is spent.
    let contradiction = !partial.propagate();
    let (open, open_names) =
        if contradiction { rename(&used, |_| true, |_| true) } else { partial.residual() };
    let whole: Vec<usize> = open_names.iter().map(|name| names[*name as usize] as usize).collect();
    let start: Option<Vec<bool>> =
        settings.start.map(|start| whole.iter().map(|at| start[*at]).collect());
    let towards: Option<Vec<i8>> =
        settings.lean.map(|lean| whole.iter().map(|at| lean.towards[*at]).collect());
    let lean = settings.lean.and_then(|lean| Some(Lean { towards: towards.as_deref()?, ..lean }));
    let inner = Settings { start: start.as_deref(), lean, ..*settings };
    let Some(found) = search(&open, &inner, meter)? else { return Ok(None) };
    let mut all = match settings.start {
        Some(start) => start.to_vec(),
        None => vec![false; formula.vars() as usize],
    };
    for (at, name) in names.iter().enumerate() {
        if let Some(value) = partial.value(at) {
            all[*name as usize] = value;
        }
    }
    whole.into_iter().zip(found).for_each(|(at, value)| all[at] = value);
    Ok(Some(all))
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
    let coins = || (0..formula.vars()).map(|_| rng.coin()).collect();
    walk.start(settings.start.map_or_else(coins, <[bool]>::to_vec));
    if walk.run(&weights, settings.lean, plan.opening, &mut rng, meter)? {
        return Ok(Some(walk.into_values()));
    }
    let surveyed = formula.longest() <= MAX_CLAUSE && formula.nae_clauses() == 0;
    let mut surveys = plan.surveys.iter().filter(|_| surveyed).cycle();
    while let Some(how) = surveys.next()
        && meter.sweeps_left() > 0
        && meter.flips_left() > 0
    {
        let mut survey = Survey::new(formula, &occurrences, &mut rng);
        let end = survey.run(*how, meter)?;
        let mut values = survey.suggestion(&mut rng);
        if end == End::Silent && finish(&survey, &mut values, &weights, &mut rng, meter)? {
            return Ok(Some(values));
        }
        walk.start(values);
        let flips = survey.work / visits(formula);
        if walk.run(&weights, settings.lean, flips.max(1), &mut rng, meter)? {
            return Ok(Some(walk.into_values()));
        }
        if survey.partial.set() == 0 {
            // It had nothing to say and would not have more the next time.
            break;
        }
    }
    let found = walk.run(&weights, None, u64::MAX, &mut rng, meter)?;
    Ok(found.then(|| walk.into_values()))
}

/// Walks over what a survey has left. Where it has fixed the right variables that is easy, while a
/// walk over the whole formula would soon unfix them.
fn finish(
    survey: &Survey<'_>,
    values: &mut [bool],
    weights: &Weights,
    rng: &mut Rng,
    meter: &mut Meter<'_>,
) -> Result<bool, Why> {
    let (open, names) = survey.partial.residual();
    let occurrences = Occurrences::of(&open);
    let mut walk = Walk::new(&open, &occurrences);
    walk.start(names.iter().map(|name| values[*name as usize]).collect());
    let flips = survey.work / visits(&open) / 4;
    let found = walk.run(weights, None, flips.max(1), rng, meter)?;
    names.iter().zip(walk.into_values()).for_each(|(name, value)| values[*name as usize] = value);
    Ok(found)
}

/// Clauses that a flip visits, on average. Each costs about what a warning does, so a survey's
/// work divided by this is as many flips as take as long.
fn visits(formula: &Formula) -> u64 {
    (formula.literals() as u64 / u64::from(formula.vars().max(1))).max(1)
}
