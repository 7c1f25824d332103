//! Sets of unknown size: rate and memory as they grow, compared with the bound.

use anyhow::Result;
use lab::{Line, STRANGERS, Sheet, hashes, share_of_yes};
use tamis::{
    Build, Grow, Growing, HashId, Key, KeyHash, KeyHasher, Persist, ScalableBloom, Settings, plan,
};

const FIRST: u64 = 1000;
const FPR: f64 = 0.01;
/// Number of measured sizes between a size and its double.
const STEPS: u32 = 8;

/// Measurements of a filter as it grows.
struct Track {
    name: &'static str,
    rates: Vec<(f64, f64)>,
    bits: Vec<(f64, f64)>,
}

/// Measures filters that grow from 1000 keys to `most`.
pub(crate) fn growth(most: u64) -> Result<()> {
    let strangers = hashes(1, STRANGERS, 400_000);
    let named = most.to_string();
    let named = [("most", &named[..])];
    let tracks = [
        track::<Growing>("growing", &[], most, &strangers)?,
        track::<Growing>("growing with its largest size named", &named, most, &strangers)?,
        track::<ScalableBloom>("scalable_bloom", &[], most, &strangers)?,
    ];
    let name = if most > 10_000_000 { "growth-large" } else { "growth" };
    let plot = |what, column, of: fn(&Track) -> &[(f64, f64)], beside, title| {
        let mut sheet = Sheet::new("survey", format!("{name}-{what}"), &["keys", "filter", column]);
        let mut lines = Vec::new();
        for track in &tracks {
            for (log, value) in of(track) {
                sheet.row(&[&10f64.powf(*log).round(), &track.name, &format!("{value:.4}")]);
            }
            lines.push(Line::measured(track.name, of(track).to_vec()));
        }
        lines.push(beside);
        sheet.finish(title, "log10 of the keys", column, false, lines)
    };
    let beside = |label, of: fn(f64) -> f64| {
        let points = tracks[0].rates.iter().map(|(log, _)| (*log, of(*log)));
        Line::calculated(label, points.collect())
    };
    let title = "The rate of filters that grow from 1000 keys";
    let promise = beside("promised", |_| 100.0 * FPR);
    plot("rate", "false positives in %", |track| &track.rates, promise, title)?;
    let title = "The memory of filters that grow from 1000 keys at 1 %";
    let bound =
        beside("log2(1/fpr) + log2 log2 n", |log| -FPR.log2() + (log * 10f64.log2()).log2());
    plot("bits", "bits a key", |track| &track.bits, bound, title)
}

fn track<F: Build + Grow + Persist>(
    name: &'static str,
    settings: &[(&str, &str)],
    most: u64,
    strangers: &[KeyHash],
) -> Result<Track> {
    let mut all = Settings::default();
    settings.iter().for_each(|(name, value)| all.set(*name, *value));
    let goal = tamis::Goal::KeysFpr { keys: FIRST, fpr: FPR };
    let mut filter = F::build(plan::solve(goal, &all)?, &[][..])?;
    let hasher = KeyHasher::new(HashId::Fast, [1, 0x7a3e]);
    let mut track = Track { name, rates: Vec::new(), bits: Vec::new() };
    for step in 0.. {
        let size = (FIRST as f64 * (f64::from(step) / f64::from(STEPS)).exp2()).round() as u64;
        let size = size.min(most);
        let mut run = Vec::with_capacity(1 << 16);
        while filter.len() < size {
            let to = size.min(filter.len() + (1 << 16));
            run.clear();
            run.extend((filter.len()..to).map(|key| key.hash_with(&hasher)));
            filter.insert_batch(&run)?;
        }
        let log = (size as f64).log10();
        track.rates.push((log, 100.0 * share_of_yes(&filter, strangers)));
        track.bits.push((log, filter.bytes() as f64 * 8.0 / size as f64));
        if size == most {
            return Ok(track);
        }
    }
    Ok(track)
}
