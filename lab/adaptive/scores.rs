//! An adversary that remembers: it queries the same non-members in every sweep, and then those that
//! were accepted most often.

use std::cmp::Reverse;

use anyhow::Result;
use lab::{STRANGERS, Sheet};
use tamis::{HashId, Key, KeyHash, KeyHasher};

use crate::attacks::{KEYS, POOR};
use crate::guarded::Guarded;
use crate::{ADAPTIVE, Claims, form};

/// Non-members that are queried once per sweep.
const QUERIED: u64 = 8 * KEYS;
const SCORED: u64 = 600;
const MEASURED: u64 = 600;

fn hashes(from: u64, count: u64) -> impl Iterator<Item = KeyHash> {
    let hasher = KeyHasher::new(HashId::Secure, [68, 69]);
    (from..from + count).map(move |key| key.hash_with(&hasher))
}

/// Selects non-members by their scores over 600 sweeps and measures them over 600 further sweeps.
pub(crate) fn scores(claims: &mut Claims) -> Result<()> {
    let columns =
        ["filter", "stated / eps", "non-members", "queries", "accepted", "rate / stated", "sigma"];
    let mut sheet = Sheet::new("adaptive", "scores", &columns);
    let strangers: Vec<KeyHash> = hashes(STRANGERS, QUERIED).collect();
    for kind in ADAPTIVE {
        let mut guarded = Guarded::new(kind, hashes(0, KEYS).collect(), POOR)?;
        let stated = guarded.filter.figures().fpr;
        let mut fresh = hashes(STRANGERS + QUERIED, u64::MAX >> 1);
        let mut scores = vec![0u64; strangers.len()];
        let mut accepted = scores.clone();
        for sweep in 0..SCORED + MEASURED {
            let counts = if sweep < SCORED { &mut scores } else { &mut accepted };
            let before = guarded.counts.sweeps;
            for (x, count) in strangers.iter().zip(counts) {
                *count += u64::from(guarded.ask(*x)?);
            }
            while guarded.counts.sweeps == before {
                guarded.ask(fresh.next().unwrap_or(strangers[0]))?;
            }
        }
        let mut order: Vec<usize> = (0..strangers.len()).collect();
        order.sort_by_key(|x| Reverse(scores[*x]));
        let mut within = true;
        let mut highest = 0f64;
        for (name, parts) in
            [("all", 1), ("best 10 %", 10), ("best 1 %", 100), ("best 0.1 %", 1000)]
        {
            let best = &order[..strangers.len() / parts];
            let queries = best.len() as u64 * MEASURED;
            let passed: u64 = best.iter().map(|x| accepted[*x]).sum();
            let rate = passed as f64 / queries as f64 / stated;
            let sigma = 1.0 / (queries as f64 * stated).sqrt();
            within &= rate <= 1.0 + 4.75 * sigma;
            highest = highest.max(rate);
            let [of_eps, rate, sigma] = [stated / POOR, rate, sigma].map(form);
            sheet.row(&[&kind, &of_eps, &name, &queries, &passed, &rate, &sigma]);
        }
        let claim = format!("scores over 600 sweeps; {kind}");
        claims.add(claim, "best 0.1 % <= the stated rate (4.75 sigma)", form(highest), within);
    }
    sheet.finish("The non-members with the highest scores", "", "", false, Vec::new())
}
