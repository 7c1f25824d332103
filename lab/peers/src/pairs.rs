//! Pairs of a filter of tamis and a similar one, for `cargo xtask peers --readme`.

use anyhow::{Context, Result};
use tamis::{Goal, Kind};
use tamis_bench::{Metric, Options, Outcome, compare, kind};

use crate::{against, growth, is_rival, peers, statics};

/// The ratio of sizes from which a pair is also measured at equal sizes.
const LARGER: f64 = 1.2;

/// Prints one line per pair: the names, the bits per key of both and the ratio of each metric; the ratios
/// of hits and misses at equal sizes if the other filter is larger by [`LARGER`]. A value that does not
/// exist is `-`.
pub fn print(options: &Options, ours: &[Outcome], all: &[Outcome]) -> Result<()> {
    let bits = |outcome: &Outcome| outcome.bytes as f64 * 8.0 / options.keys as f64;
    for ours in ours {
        for other in all.iter().filter(|other| is_rival(ours, other)) {
            let ratios = Metric::ALL.map(|metric| against(ours, other, metric));
            let mut fields = vec![ours.name.clone(), other.name.clone()];
            fields.extend([bits(ours), bits(other)].map(|bits| format!("{bits:.2}")));
            fields.extend(ratios.map(|ratio| cell(ratio.map(|ratio| ratio.median))));
            let larger = other.bytes as f64 / ours.bytes as f64;
            let equal =
                if larger > LARGER { at_equal_size(options, ours, other)? } else { [None; 2] };
            fields.extend(equal.map(cell));
            println!("{}", fields.join("\t"));
        }
    }
    Ok(())
}

fn cell(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// Measures hits and misses of a pair again, with a filter of tamis for as many more keys as make it as
/// large as the other one. Returns no ratios for filters that grow or that have no such size.
fn at_equal_size(options: &Options, ours: &Outcome, other: &Outcome) -> Result<[Option<f64>; 2]> {
    let Ok(kind_of_ours) = ours.name.parse::<Kind>() else { return Ok([None; 2]) };
    let larger = other.bytes as f64 / ours.bytes as f64;
    let goal = Goal::KeysFpr { keys: (options.keys as f64 * larger) as u64, fpr: options.fpr };
    let Ok(roomy) = kind(kind_of_ours, goal, options.hasher()) else { return Ok([None; 2]) };
    let mut all = peers::all(options)?;
    all.extend(growth::all(options));
    all.extend(statics::all());
    let other = all.into_iter().find(|one| one.name() == other.name).context("a filter is gone")?;
    let options = Options { filters: vec!["all".to_owned()], ..options.clone() };
    let outcomes = compare(&options, &[roomy, other], &|_, _| ())?.context("nothing was timed")?;
    let [roomy, other] = &outcomes[..] else { return Ok([None; 2]) };
    Ok([Metric::Hit, Metric::Miss].map(|metric| Some(against(roomy, other, metric)?.median)))
}
