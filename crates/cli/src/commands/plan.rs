//! `tamis plan`: ranks the kinds of filter for a job.

use anyhow::{Result, bail};
use serde_json::json;
use tamis::plan::{
    GROWN_KEYS, recommend, recommend_distinct, recommend_ranges, recommend_unknown, survey_unknown,
};
use tamis::{Advice, Capability, Error, Goal, Kind, Merit, Settings};

use crate::args::Plan;
use crate::number::{show_rate, show_size};
use crate::output;

pub(crate) fn run(args: &Plan) -> Result<()> {
    let mut needs = args.needs.clone();
    if args.range_length.is_some() && !needs.contains(&Capability::Range) {
        needs.push(Capability::Range);
    }
    let needs = &needs[..];
    let rank = |goal| match args.range_length {
        Some(length) => rank_ranges(goal, needs, length),
        None => rank(goal, needs, args.distinct),
    };
    let ranked = match (args.keys, args.fpr, args.bytes) {
        (Some(keys), None, None) => rank(Goal::KeysFpr { keys, fpr: 0.01 })?,
        (Some(keys), Some(fpr), None) => rank(Goal::KeysFpr { keys, fpr })?,
        (Some(keys), None, Some(bytes)) => rank(Goal::KeysBytes { keys, bytes })?,
        (None, Some(fpr), Some(bytes)) => rank(Goal::BytesFpr { bytes, fpr })?,
        (None, fpr, None) => unknown(fpr.unwrap_or(0.01), needs)?,
        _ => bail!("expected two of --keys, --fpr and --bytes, or --keys alone for a rate of 1 %"),
    };
    if args.json {
        return output::print_json(ranked.iter().map(|advice| {
            json!({
                "filter": advice.kind.name(),
                "keys": advice.figures.keys,
                "fpr": advice.figures.fpr,
                "bytes": advice.figures.bytes,
                "bits_per_key": advice.figures.bits_per_key(),
                "capabilities": super::names(advice.kind),
                "reason": reason(advice, args.keys.or(args.bytes)),
            })
        }));
    }
    let rows = ranked.iter().map(|advice| {
        let figures = &advice.figures;
        vec![
            advice.kind.to_string(),
            figures.keys.to_string(),
            show_rate(figures.fpr),
            show_size(figures.bytes),
            format!("{:.2}", figures.bits_per_key()),
            abilities(advice.kind),
            reason(advice, args.keys.or(args.bytes)),
        ]
    });
    let head = ["filter", "keys", "fpr", "size", "bits/key", "can", "why"];
    let mut text = output::table(&head, &[1, 2, 3, 4], rows.collect());
    for need in args.needs.iter().copied() {
        if let Some(advice) = survey_advice(need, &ranked) {
            text += &format!("\n\n{advice}");
        }
    }
    output::print(text)
}

/// Returns the capabilities of a kind for the table. Static kinds say that they cannot insert.
fn abilities(kind: Kind) -> String {
    let names = super::names(kind).join(" ");
    if kind.can(Capability::Static) { names.replace("static", "static (no insert)") } else { names }
}

/// Returns the merits of a kind and its figures, in words. Without a size the keys are unknown, and the
/// figures are those of a filter that has grown.
fn reason(advice: &Advice, size: Option<u64>) -> String {
    let grows = size.is_none();
    if grows && !advice.kind.can(Capability::Grow) {
        return "the choice of the survey: rebuilt in more memory each time it is full, which denies \
                earlier keys unless all of them can be read again"
            .to_owned();
    }
    let merits = advice.merits.iter().map(|merit| match merit {
        Merit::OnlyChoice => "the only kind that qualifies",
        Merit::LowestRate => "the fewest false positives in that memory",
        Merit::Smallest => "the smallest",
        Merit::LeastWork => "the least work per query",
        _ => "the best balance of memory and work",
    });
    let merits = merits.collect::<Vec<_>>().join(", ");
    let figures = format!(
        "{:.2} bits per key, work of {:.1} memory reads per query",
        advice.figures.bits_per_key(),
        advice.figures.query_cost
    );
    let grown = if grows { format!(", grown to {GROWN_KEYS} keys") } else { String::new() };
    let exact = match advice.kind.is_exact() {
        true => {
            "; it stores 128-bit hashes, whatever the length of the keys, and a non-member passes \
                 with probability below keys x 2^-128"
        }
        false => "",
    };
    match merits.is_empty() {
        true => format!("{figures}{grown}{exact}"),
        false => format!("{merits}; {figures}{grown}{exact}"),
    }
}

/// Returns the advice of the survey for a capability, where the ranking differs from it or adds to it.
fn survey_advice(need: Capability, ranked: &[Advice]) -> Option<String> {
    let pick = &ranked[0];
    match need {
        Capability::Count => {
            let its = ranked.iter().find(|advice| advice.kind == Kind::SpectralBloom)?;
            let (its, ours) = (its.figures.bits_per_key(), pick.figures.bits_per_key());
            (pick.kind != Kind::SpectralBloom).then(|| {
                format!(
                    "The survey recommends spectral_bloom for multisets: {its:.1} bits per key. {} takes \
                     {ours:.1} and miscounts a key only if another key has its fingerprint. Take \
                     spectral_bloom if copies far outnumber distinct keys: its size depends little on them.",
                    pick.kind
                )
            })
        }
        Capability::Window => {
            // The leading terms for a window of n keys and a slack of n/8.
            let fpr = pick.figures.fpr;
            let bound = -fpr.log2() + f64::max(3.0, (-fpr.log2()).log2());
            Some(format!(
                "The survey recommends the sliding Bloom filter of Naor and Yogev, with leading terms of \
                 {bound:.1} bits per key. {} is that filter with bins of 2 cache lines in place of its \
                 dictionary, so that no insertion waits for a sweep.",
                pick.kind
            ))
        }
        _ => None,
    }
}

/// Ranks the kinds for an unknown number of keys: those that grow, and the survey's choice.
fn unknown(fpr: f64, needs: &[Capability]) -> Result<Vec<Advice>> {
    if fpr == 0.0 {
        bail!("--fpr 0 needs --keys or --bytes: an exact set has a capacity");
    }
    let mut ranked = recommend_unknown(fpr, needs).or_else(|_| {
        rank(Goal::KeysFpr { keys: 1000, fpr }, &[needs, &[Capability::Grow]].concat(), false)
    })?;
    if needs.iter().all(|need| Kind::BloomG.can(*need)) {
        ranked.push(survey_unknown(fpr)?);
    }
    Ok(ranked)
}

/// Returns the recommended kind.
pub(crate) fn pick(goal: Goal, needs: &[Capability], distinct: bool) -> Result<Kind> {
    Ok(rank(goal, needs, distinct)?[0].kind)
}

/// Checks that a kind answers ranges.
pub(crate) fn require_ranges(kind: Kind) -> Result<()> {
    match kind.can(Capability::Range) {
        true => Ok(()),
        false => Err(Error::Unsupported { kind, capability: Capability::Range }.into()),
    }
}

/// Ranks the kinds that answer ranges of up to `length` integers.
fn rank_ranges(goal: Goal, needs: &[Capability], length: u64) -> Result<Vec<Advice>> {
    Ok(recommend_ranges(goal, needs, length)?)
}

/// Returns the library's ranking, or an error that says why no kind qualifies: each reason once.
fn rank(goal: Goal, needs: &[Capability], distinct: bool) -> Result<Vec<Advice>> {
    let ranked = if distinct { recommend_distinct(goal, needs) } else { recommend(goal, needs) };
    if let Ok(ranked) = ranked {
        return Ok(ranked);
    }
    let able = Kind::ALL.iter().filter(|kind| needs.iter().all(|need| kind.can(*need)));
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for kind in able {
        let Err(error) = kind.plan(goal, &Settings::default()) else { continue };
        let reason = match error {
            Error::Infeasible { why } => why.to_owned(),
            error => error.to_string(),
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, kinds)) => kinds.push(kind.name()),
            None => reasons.push((reason, vec![kind.name()])),
        }
    }
    match &reasons[..] {
        [] => {
            let needs: Vec<_> = needs.iter().map(|need| need.name()).collect();
            bail!("no kind of filter has all these capabilities: {}", needs.join(", "))
        }
        [(reason, _)] => bail!("no kind of filter qualifies: {reason}"),
        _ => {
            let reasons = reasons.iter().map(|(why, kinds)| format!("{}: {why}", kinds.join(", ")));
            bail!("no kind of filter qualifies: {}", reasons.collect::<Vec<_>>().join("; "))
        }
    }
}
