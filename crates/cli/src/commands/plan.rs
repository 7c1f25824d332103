//! `tamis plan`: which kind for the job, and what it takes.

use anyhow::{Result, bail};
use serde_json::json;
use tamis::plan::recommend;
use tamis::{Advice, Capability, Goal, Kind, Settings};

use crate::args::{Need, Plan};
use crate::number::{show_rate, show_size};
use crate::output;

pub(crate) fn run(args: &Plan) -> Result<()> {
    let goal = match (args.keys, args.fpr, args.bytes) {
        (Some(keys), None, None) => Goal::KeysFpr { keys, fpr: 0.01 },
        (Some(keys), Some(fpr), None) => Goal::KeysFpr { keys, fpr },
        (Some(keys), None, Some(bytes)) => Goal::KeysBytes { keys, bytes },
        (None, Some(fpr), Some(bytes)) => Goal::BytesFpr { bytes, fpr },
        _ => bail!("give two of --keys, --fpr and --bytes, or --keys alone for a rate of 1 %"),
    };
    let ranked = rank(goal, &capabilities(&args.needs))?;
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
