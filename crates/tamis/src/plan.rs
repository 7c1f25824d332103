//! Planning: which kind suits a goal.
//!
//! [`solve`] finds the shape of one kind from any two of keys, false positive rate and bytes;
//! [`recommend`] compares the kinds.

use alloc::vec;
use alloc::vec::Vec;

pub use crate::limits::{MAX_BYTES, MAX_KEYS, MIN_FPR};
pub use crate::shape::{check_fpr, check_keys, solve};

use crate::capability::Capability;
use crate::error::Error;
use crate::kind::{Copies, Kind};
use crate::settings::Settings;
use crate::shape::{Figures, Goal};

/// A kind that meets a goal, with its figures and merits.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Advice {
    /// The kind.
    pub kind: Kind,
    /// What it promises for the goal.
    pub figures: Figures,
    /// In what it is the best of the list; empty for most.
    pub merits: Vec<Merit>,
}

/// Something in which a kind is the best of those that meet a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Merit {
    /// No other kind meets the goal.
    OnlyChoice,
    /// It has the lowest false positive rate in the given memory.
    LowestRate,
    /// It takes the least memory.
    Smallest,
    /// Its queries do the least work.
    LeastWork,
    /// It is first by memory times work, without being best in either.
    BestBalance,
}

/// Returns every kind that has the capabilities `needs` and meets the goal, best first.
///
/// If the goal states the memory, the best kind has the lowest rate or holds the most keys. Otherwise
/// kinds are ranked by memory times work: a filter of twice the size is better only if its queries touch
/// much less memory. One random cache line per query counts as an eighth of the size, about what it
/// costs in a cache that other data needs too. If keys are inserted, removed or counted, kinds that hold
/// only a few copies of a key ([`Copies::Bounded`]) come last: [`recommend_distinct`] ranks them with
/// the others. Kinds that adapt without sustaining their rate ([`Kind::sustains_rate`]) come last too, if
/// `needs` has [`Capability::Adapt`].
///
/// # Errors
/// If no kind meets the goal, the error of the last one that was tried.
pub fn recommend(goal: Goal, needs: &[Capability]) -> Result<Vec<Advice>, Error> {
    let changes = [Capability::Insert, Capability::Remove, Capability::Count];
    let unfit = |kind: Kind| {
        kind.copies() == Copies::Bounded && changes.iter().any(|change| needs.contains(change))
    };
    rank(goal, needs, &Settings::default(), unfit)
}

/// Returns what [`recommend`] returns, for keys that are inserted once each.
///
/// # Errors
/// As [`recommend`].
pub fn recommend_distinct(goal: Goal, needs: &[Capability]) -> Result<Vec<Advice>, Error> {
    rank(goal, needs, &Settings::default(), |_| false)
}

/// Returns every kind that answers ranges, has the capabilities `needs` and meets the goal for ranges of
/// up to `range_length` integers, best first. The other functions leave these kinds out, unless `needs`
/// names [`Capability::Range`]: they need keys in order.
///
/// # Errors
/// As [`recommend`].
pub fn recommend_ranges(
    goal: Goal,
    needs: &[Capability],
    range_length: u64,
) -> Result<Vec<Advice>, Error> {
    let needs: Vec<Capability> = needs.iter().copied().chain([Capability::Range]).collect();
    rank(goal, &needs, &Settings::new().with("range_length", range_length), |_| false)
}

/// Ranks the kinds that have the capabilities `needs` and meet the goal; `unfit` kinds come last.
fn rank(
    goal: Goal,
    needs: &[Capability],
    settings: &Settings,
    unfit: impl Fn(Kind) -> bool,
) -> Result<Vec<Advice>, Error> {
    let (mut advice, mut refusal) = (Vec::new(), None);
    let ranges = needs.contains(&Capability::Range);
    let able = |kind: &&Kind| {
        !kind.is_foreign()
            && (ranges || !kind.can(Capability::Range))
            && needs.iter().all(|need| kind.can(*need))
    };
    for kind in Kind::ALL.iter().filter(able) {
        match kind.plan(goal, settings) {
            Ok(figures) => advice.push(Advice { kind: *kind, figures, merits: Vec::new() }),
            Err(error) => refusal = Some(error),
        }
    }
    if advice.is_empty() {
        return Err(
            refusal.unwrap_or(Error::Infeasible { why: "no kind has all these capabilities" })
        );
    }
    let forgets = |kind: Kind| needs.contains(&Capability::Adapt) && !kind.sustains_rate();
    let unfit = |kind| unfit(kind) || forgets(kind);
    advice.sort_by(|a, b| {
        let fit = unfit(a.kind).cmp(&unfit(b.kind));
        let scores = score(goal, &a.figures).total_cmp(&score(goal, &b.figures));
        fit.then(scores).then(a.figures.query_cost.total_cmp(&b.figures.query_cost))
    });
    judge(goal, &mut advice);
    Ok(advice)
}

/// The capacity that a filter of unknown size starts with.
pub const FIRST_KEYS: u64 = 1000;
/// The size at which kinds for sets of unknown size are compared.
pub const GROWN_KEYS: u64 = 1_000_000;

/// Returns every kind that has the capabilities `needs` and grows from [`FIRST_KEYS`] keys to any number
/// at this rate, best first, with its figures at [`GROWN_KEYS`]. Ranked as by [`recommend`].
///
/// # Errors
/// As [`recommend`].
pub fn recommend_unknown(fpr: f64, needs: &[Capability]) -> Result<Vec<Advice>, Error> {
    let goal = Goal::KeysFpr { keys: FIRST_KEYS, fpr };
    let needs: Vec<Capability> = needs.iter().copied().chain([Capability::Grow]).collect();
    let mut advice = recommend(goal, &needs)?;
    for entry in &mut advice {
        entry.figures = entry.kind.plan_grown(goal, &Settings::default(), GROWN_KEYS)?;
    }
    advice.sort_by(|a, b| score(goal, &a.figures).total_cmp(&score(goal, &b.figures)));
    judge(goal, &mut advice);
    Ok(advice)
}

/// Returns the kind that the survey by Szabo-Wexler recommends for a set of unknown size, with the
/// figures of a filter that is made for [`GROWN_KEYS`] at once. [`recommend_unknown`] does not: each
/// time that it is full it must be rebuilt in more memory from all keys.
///
/// # Errors
/// If `fpr` is out of range.
pub fn survey_unknown(fpr: f64) -> Result<Advice, Error> {
    let kind = Kind::BloomG;
    let figures = kind.plan(Goal::KeysFpr { keys: GROWN_KEYS, fpr }, &Settings::default())?;
    Ok(Advice { kind, figures, merits: Vec::new() })
}

/// The lower the better.
fn score(goal: Goal, figures: &Figures) -> f64 {
    match goal {
        Goal::KeysFpr { .. } => figures.bits_per_key() * (1.0 + figures.query_cost / 8.0),
        Goal::KeysBytes { .. } => figures.fpr,
        Goal::BytesFpr { .. } => -(figures.keys as f64),
    }
}

/// Sets the merits of a ranked list.
fn judge(goal: Goal, advice: &mut [Advice]) {
    let lowest = |measure: &dyn Fn(&Figures) -> f64| {
        let measures = advice.iter().map(|entry| measure(&entry.figures));
        measures.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
    };
    let (size, size_merit): (&dyn Fn(&Figures) -> f64, _) = match goal {
        Goal::KeysBytes { .. } => (&|figures| figures.fpr, Merit::LowestRate),
        _ => (&Figures::bits_per_key, Merit::Smallest),
    };
    let (smallest, quickest) = (lowest(size), lowest(&|figures| figures.query_cost));
    let only = advice.len() == 1;
    for (index, entry) in advice.iter_mut().enumerate() {
        entry.merits = if only {
            vec![Merit::OnlyChoice]
        } else {
            let smallest = (smallest == Some(index)).then_some(size_merit);
            let quickest = (quickest == Some(index)).then_some(Merit::LeastWork);
            smallest.into_iter().chain(quickest).collect()
        };
        if index == 0 && entry.merits.is_empty() {
            entry.merits.push(Merit::BestBalance);
        }
    }
}
