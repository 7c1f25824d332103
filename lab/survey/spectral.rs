//! Spectral Bloom filters: the fraction of wrong counts, by method, at equal memory.

use anyhow::Result;
use lab::{Line, Sheet, hashes};
use tamis::{
    Build, Count, Insert, KeyHash, RemovableSpectralBloom, RemovableSpectralBloomShape, Shape,
    SpectralBloom, SpectralBloomShape,
};

const KEYS: u64 = 50_000;
const STREAM: u64 = 1_000_000;
const PROBES: u32 = 5;
const WIDTH: u32 = 20;
/// Counters that the keys set, for each counter of the filter.
const LOAD: f64 = 0.7;
/// Number of streams of each kind, over which the results are averaged.
const ROUNDS: u64 = 5;

/// Returns the counts and the order of a stream in which key `i` appears in proportion to 1 / (i +
/// 1)^skew, and at least once.
fn stream(skew: f64, seed: u64) -> (Vec<u64>, Vec<u32>) {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += (rank as f64).powf(-skew);
            sum
        })
        .collect();
    let mut order: Vec<u32> = (0..KEYS as u32).collect();
    let chance = hashes(seed, 0, STREAM - KEYS);
    order.extend(chance.iter().map(|hash| {
        let at = hash.hi as f64 / 2f64.powi(64) * sum;
        sums.partition_point(|below| *below <= at).min(KEYS as usize - 1) as u32
    }));
    // Shuffled, so that the first copies of all keys do not come first.
    for (last, hash) in (1..order.len()).rev().zip(hashes(seed + 1, 0, STREAM)) {
        order.swap(last, (hash.hi % (last as u64 + 1)) as usize);
    }
    let mut counts = vec![0; KEYS as usize];
    order.iter().for_each(|key| counts[*key as usize] += 1);
    (counts, order)
}

/// Returns the fraction of keys whose count is wrong. Checks that none is too low.
fn wrong(
    mut filter: impl Insert + Count,
    keys: &[KeyHash],
    counts: &[u64],
    order: &[u32],
) -> Result<f64> {
    for key in order {
        filter.insert(keys[*key as usize])?;
    }
    let told = keys.iter().map(|key| filter.count(*key));
    let wrong = told.zip(counts).map(|(told, count)| {
        assert!(told >= *count, "a count of {told} instead of {count}");
        u64::from(told != *count)
    });
    Ok(wrong.sum::<u64>() as f64 / keys.len() as f64)
}

pub(crate) fn run() -> Result<()> {
    let columns = ["counters", "method", "bits a key", "skew 0", "skew 0.5", "skew 1", "skew 1.5"];
    let mut sheet = Sheet::new("survey", "spectral", &columns);
    let skews = [0.0, 0.5, 1.0, 1.5];
    let streams: Vec<Vec<_>> = skews
        .iter()
        .map(|skew| (0..ROUNDS).map(|round| stream(*skew, 100 + 10 * round)).collect())
        .collect();
    let mut lines = Vec::new();
    // The counters at this load, and as many as fit into the memory of the recurring minimum
    // method.
    let plain = (f64::from(PROBES) * KEYS as f64 / LOAD) as u64;
    let beside = RemovableSpectralBloomShape::new(plain, PROBES, WIDTH, STREAM, KEYS / 5 / 8 + 1)?;
    let more = beside.figures().bytes * 8 / u64::from(WIDTH);
    for (name, counters) in [("a load of 0.7", plain), ("the memory of recurring minimum", more)] {
        for method in ["minimum selection", "minimal increase", "recurring minimum"] {
            if method == "recurring minimum" && counters != more {
                continue;
            }
            let increase = SpectralBloomShape::new(counters, PROBES, WIDTH, KEYS)?;
            let selection = RemovableSpectralBloomShape::new(counters, PROBES, WIDTH, STREAM, 0)?;
            let bytes = match method {
                "minimal increase" => increase.figures().bytes,
                "minimum selection" => selection.figures().bytes,
                _ => beside.figures().bytes,
            };
            let mut shares = Vec::new();
            for streams in &streams {
                let mut sum = 0.0;
                for (round, (counts, order)) in (0..).zip(streams) {
                    let keys = hashes(200 + round, 0, KEYS);
                    sum += match method {
                        "minimal increase" => {
                            let filter = SpectralBloom::build(increase.clone(), &[][..])?;
                            wrong(filter, &keys, counts, order)?
                        }
                        "minimum selection" => {
                            let filter = RemovableSpectralBloom::build(selection.clone(), &[][..])?;
                            wrong(filter, &keys, counts, order)?
                        }
                        _ => {
                            let filter = RemovableSpectralBloom::build(beside.clone(), &[][..])?;
                            wrong(filter, &keys, counts, order)?
                        }
                    };
                }
                shares.push(sum / ROUNDS as f64);
            }
            let cells: Vec<String> =
                shares.iter().map(|share| format!("{:.2} %", share * 100.0)).collect();
            let bits = format!("{:.1}", bytes as f64 * 8.0 / KEYS as f64);
            sheet.row(&[&name, &method, &bits, &cells[0], &cells[1], &cells[2], &cells[3]]);
            let points = skews.iter().zip(&shares).map(|(skew, share)| (*skew, share * 100.0));
            let label = if counters == plain {
                format!("{method}, {plain} counters")
            } else {
                method.into()
            };
            lines.push(Line::measured(label, points.collect()));
        }
    }
    sheet.finish(
        "Wrong counts of a spectral Bloom filter, 5 counters a key",
        "skew of the stream (Zipf)",
        "% of keys whose count is wrong",
        false,
        lines,
    )
}
