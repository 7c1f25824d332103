//! `tamis plan`: which kind for the job, and what it takes.

use anyhow::{Result, bail};
use serde_json::json;
use tamis::plan::{recommend, recommend_unknown, survey_unknown};
use tamis::{Advice, Capability, Goal, Kind, Settings};

use crate::args::{Need, Plan};
use crate::number::{show_rate, show_size};
use crate::output;

pub(crate) fn run(args: &Plan) -> Result<()> {
    let needs = capabilities(&args.needs);
    let ranked = match (args.keys, args.fpr, args.bytes) {
        (Some(keys), None, None) => rank(Goal::KeysFpr { keys, fpr: 0.01 }, &needs)?,
        (Some(keys), Some(fpr), None) => rank(Goal::KeysFpr { keys, fpr }, &needs)?,
        (Some(keys), None, Some(bytes)) => rank(Goal::KeysBytes { keys, bytes }, &needs)?,
        (None, Some(fpr), Some(bytes)) => rank(Goal::BytesFpr { bytes, fpr }, &needs)?,
        (None, fpr, None) => unknown(fpr.unwrap_or(0.01), &needs)?,
        _ => bail!("give two of --keys, --fpr and --bytes, or --keys alone for a rate of 1 %"),
    };
    if args.json {
        return output::print_json(ranked.iter().map(|advice| {
            json!({
                "filter": advice.kind.name(),
                "keys": advice.figures.keys,
                "fpr": advice.figures.fpr,
                "bytes": advice.figures.bytes,
                "bits_per_key": advice.figures.bits_per_key(),
                "reason": advice.reason,
            })
        }));
    }
    let rows = ranked.iter().map(|Advice { kind, figures, reason }| {
        vec![
            kind.to_string(),
            figures.keys.to_string(),
            show_rate(figures.fpr),
            show_size(figures.bytes),
            format!("{:.2}", figures.bits_per_key()),
            reason.clone(),
        ]
    });
    let head = ["filter", "keys", "fpr", "size", "bits/key", "why"];
    output::print(output::table(&head, &[1, 2, 3, 4], rows.collect()))
}

/// How many keys there will be is not known: kinds that grow, and the survey's choice beside them.
fn unknown(fpr: f64, needs: &[Capability]) -> Result<Vec<Advice>> {
    let mut ranked = recommend_unknown(fpr, needs).or_else(|_| {
        rank(Goal::KeysFpr { keys: 1000, fpr }, &[needs, &[Capability::Grow]].concat())
    })?;
    if needs.iter().all(|need| Kind::BloomG.can(*need)) {
        ranked.push(survey_unknown(fpr)?);
    }
    Ok(ranked)
}

/// What is needed; `static` is nothing.
pub(crate) fn capabilities(needs: &[Need]) -> Vec<Capability> {
    needs.iter().filter_map(|need| need.0).collect()
}

/// The kind to take.
pub(crate) fn pick(goal: Goal, needs: &[Capability]) -> Result<Kind> {
    Ok(rank(goal, needs)?[0].kind)
}

/// The library's ranking, or in one line what each kind is missing.
fn rank(goal: Goal, needs: &[Capability]) -> Result<Vec<Advice>> {
    if let Ok(ranked) = recommend(goal, needs) {
        return Ok(ranked);
    }
    let refusals = Kind::ALL.iter().filter_map(|kind| {
        let lacks: Vec<_> =
            needs.iter().filter(|need| !kind.can(**need)).map(|need| need.name()).collect();
        if !lacks.is_empty() {
            return Some(format!("{kind} lacks {}", lacks.join(", ")));
        }
        let error = kind.plan(goal, &Settings::default()).err()?;
        Some(format!("{kind}: {error}"))
    });
    bail!("no kind of filter will do: {}", refusals.collect::<Vec<_>>().join("; "))
}
