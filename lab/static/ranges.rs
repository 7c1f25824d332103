//! `grafite`: bits per key against the bound, and the rate against the length of a range.

use anyhow::Result;
use lab::{Line, STRANGERS, Sheet, hashes};
use tamis::plan::solve;
use tamis::{Build, BuildOptions, Goal, Grafite, Range, Settings, Shape};

/// The most ranges of each sort that are queried in each filter, one after each key.
const PROBES: u64 = 10_000;
/// Filters with seeds of their own, over which the rate is measured.
const SEEDS: u64 = 50;

pub(crate) fn ranges(keys: u64) -> Result<()> {
    let columns = [
        "keys",
        "range length",
        "fpr",
        "bits a key",
        "bound",
        "over the bound",
        "queried length",
        "stated",
        "uniform",
        "after a key",
    ];
    let mut sheet = Sheet::new("static", "ranges", &columns);
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    for (length, fpr) in [(1u64, 0.01), (16, 0.01), (32, 0.01), (32, 0.001), (1024, 0.01)] {
        let settings = Settings::new().with("range_length", length);
        let shape = solve::<<Grafite as Build>::Shape>(Goal::KeysFpr { keys, fpr }, &settings)?;
        let bits = shape.figures().bits_per_key();
        let bound = (length as f64 / fpr).log2() + 2.0;
        for queried in queried_lengths(length) {
            let (mut passed, mut asked, mut stated) = ([0u64; 2], [0u64; 2], 0.0);
            for seed in 0..SEEDS {
                // The hash `fast` is a source of random numbers here.
                let members = hashes(seed, 0, keys);
                let strangers = hashes(seed, STRANGERS, PROBES);
                let options = BuildOptions::new().seed([seed, 0x7a3e]);
                let filter = Grafite::build_with(&options, |_| Ok(shape.clone()), &members[..])?;
                stated = filter.fpr_of_range(queried);
                let mut sorted: Vec<u64> = members.iter().map(|member| member.hi).collect();
                sorted.sort_unstable();
                for (uniform, member) in strangers.iter().zip(&members) {
                    for (at, first) in
                        [uniform.hi, member.hi.wrapping_add(1)].into_iter().enumerate()
                    {
                        let last = first.saturating_add(queried - 1);
                        let next = sorted.partition_point(|number| *number < first);
                        if sorted.get(next).is_none_or(|number| *number > last) {
                            asked[at] += 1;
                            passed[at] += u64::from(filter.contains_range(first, last));
                        }
                    }
                }
            }
            let rates = [0, 1].map(|at| passed[at] as f64 / asked[at] as f64);
            let cells = [bits, bound, bits / bound - 1.0].map(|number| format!("{number:.3}"));
            let shown = [stated, rates[0], rates[1]].map(|rate| format!("{rate:.6}"));
            sheet.row(&[
                &keys, &length, &fpr, &cells[0], &cells[1], &cells[2], &queried, &shown[0],
                &shown[1], &shown[2],
            ]);
            if length == 32 && fpr == 0.01 {
                for (line, rate) in lines.iter_mut().zip([stated, rates[0], rates[1]]) {
                    line.push((queried as f64, rate));
                }
            }
        }
    }
    let [stated, uniform, after] = lines;
    let lines = vec![
        Line::calculated("stated bound", stated),
        Line::measured("uniform ranges", uniform),
        Line::measured("ranges right after a key", after),
    ];
    let title = "grafite for ranges of 32 integers at 1 %: rate by length";
    sheet.finish(title, "integers in the range", "false positive rate", true, lines)
}

/// Returns 1, a quarter of the planned length, the planned length and 4 times that.
fn queried_lengths(length: u64) -> Vec<u64> {
    let mut lengths = vec![1, length / 4, length, 4 * length];
    lengths.retain(|length| *length > 0);
    lengths.dedup();
    lengths
}
