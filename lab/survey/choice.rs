//! Compares the survey's choice of a filter with the recommendation of tamis, by what is known
//! about the keys.

use anyhow::Result;
use lab::{STRANGERS, Sheet, hashes};
use tamis::plan::{Advice, FIRST_KEYS, recommend, recommend_distinct, recommend_unknown};
use tamis::{AnyFilter, BuildOptions, Capability, Filter, Goal, KeyHash, Kind, Sizing};

const KEYS: u64 = 1_000_000;
const WINDOW: u64 = 100_000;
const FPR: f64 = 0.01;

/// A filter after all keys, the members that it should contain, and a remark.
struct Outcome {
    filter: AnyFilter,
    members: std::ops::Range<usize>,
    remark: &'static str,
}

pub(crate) fn choices() -> Result<()> {
    let columns = [
        "situation",
        "whose choice",
        "filter",
        "bits a key",
        "measured",
        "members denied",
        "remark",
    ];
    let mut sheet = Sheet::new("survey", "choices", &columns);
    let (keys, strangers) = (hashes(7, 0, KEYS), hashes(7, STRANGERS, KEYS));
    let share = |filter: &AnyFilter, keys: &[KeyHash], of: bool| {
        let mut out = vec![false; keys.len()];
        filter.contains_batch(keys, &mut out);
        100.0 * out.iter().filter(|yes| **yes == of).count() as f64 / keys.len() as f64
    };
    let mut row = |situation: &str, whose: &str, outcome: Outcome| {
        let Outcome { filter, members, remark } = outcome;
        let bits = filter.figures().bytes as f64 * 8.0 / members.len() as f64;
        let cells = [
            format!("{bits:.2}"),
            format!("{:.3} %", share(&filter, &strangers, true)),
            format!("{:.1} %", share(&filter, &keys[members], false)),
        ];
        let name = filter.kind().name();
        sheet.row(&[&situation, &whose, &name, &cells[0], &cells[1], &cells[2], &remark]);
    };

    use Capability::{Count, Insert, Remove, Window};
    let all = |kind: Kind, remark| -> Result<Outcome> {
        let filter = build(kind, KEYS, &keys)?;
        Ok(Outcome { filter, members: 0..keys.len(), remark })
    };
    // Of a multiset the keys repeat, of the others each comes once.
    let pick = |needs: &[Capability]| -> Result<Kind> {
        let goal = Goal::KeysFpr { keys: KEYS, fpr: FPR };
        let repeat = needs.contains(&Count);
        first(if repeat { recommend(goal, needs)? } else { recommend_distinct(goal, needs)? })
    };
    let known = "static: all keys at hand";
    row(known, "ours", all(pick(&[])?, "")?);
    row(known, "survey's", all(Kind::BloomG, "")?);
    let number = "dynamic: their number known";
    row(number, "ours", all(pick(&[Insert])?, "")?);
    row(number, "survey's", all(Kind::BloomG, "")?);
    let go = "dynamic: they come and go";
    row(go, "ours", all(pick(&[Insert, Remove])?, "")?);
    row(go, "survey's", all(Kind::BloomG, "cannot remove")?);
    let unknown = "dynamic: their number unknown";
    let kind = first(recommend_unknown(FPR, &[Insert])?)?;
    row(
        unknown,
        "ours",
        Outcome { filter: grown(kind, &keys)?, members: 0..keys.len(), remark: "" },
    );
    row(unknown, "survey's", begun_anew(&keys)?);
    let multiset = "multiset: how often each";
    row(multiset, "ours", all(pick(&[Count])?, "")?);
    row(multiset, "survey's", all(Kind::SpectralBloom, "")?);
    let window = "the last 100000 of them";
    let kind = first(recommend(Goal::KeysFpr { keys: WINDOW, fpr: FPR }, &[Window])?)?;
    let members = keys.len() - WINDOW as usize..keys.len();
    let remark = "the survey's too";
    row(window, "ours", Outcome { filter: build(kind, WINDOW, &keys)?, members, remark });
    let exact = "no false positives";
    let kind = first(recommend(Goal::KeysFpr { keys: KEYS, fpr: 0.0 }, &[Insert, Remove])?)?;
    row(exact, "ours", all(kind, "the survey's complete dictionary, of 128-bit hashes")?);
    sheet.finish("The same million keys at 1 %", "", "", false, Vec::new())
}

fn first(ranked: Vec<Advice>) -> Result<Kind> {
    Ok(ranked[0].kind)
}

fn build(kind: Kind, size: u64, keys: &[KeyHash]) -> Result<AnyFilter> {
    let sizing = Sizing::fpr(FPR).capacity(size);
    Ok(kind.build(&sizing, &mut { keys }, &BuildOptions::new())?)
}

/// Builds a filter with a small first capacity that grows to all keys.
fn grown(kind: Kind, keys: &[KeyHash]) -> Result<AnyFilter> {
    let mut filter = build(kind, FIRST_KEYS, &[])?;
    filter.insert_batch(keys)?;
    Ok(filter)
}

/// Builds the filter that remains if a full filter is replaced by an empty one of twice its
/// capacity.
fn begun_anew(keys: &[KeyHash]) -> Result<Outcome> {
    let mut size = FIRST_KEYS as usize;
    let mut from = 0;
    while keys.len() - from > size {
        from += size;
        size *= 2;
    }
    let filter = build(Kind::BloomG, size as u64, &keys[from..])?;
    Ok(Outcome { filter, members: 0..keys.len(), remark: "thrown out when full" })
}
