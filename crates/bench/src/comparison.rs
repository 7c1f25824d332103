//! One comparison: what is measured, and how the results are shown.

use std::io::Write;
use std::process::Command;

use anyhow::{Result, bail};
use comfy_table::{CellAlignment, Table, presets};
use tamis::{Goal, HashId, KeyHasher, UnknownName};

use crate::harness::{self, Contender, Keys, Metric, Outcome};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The contenders to measure: full names, first words of names, or `all`.
    pub filters: Vec<String>,
    /// The number of keys.
    pub keys: u64,
    /// The false positive rate that the filters are built for.
    pub fpr: f64,
    /// The number of rounds. Each reported time is the median over them.
    pub rounds: usize,
    /// Selects the keys and seeds the hash functions.
    pub seed: u64,
    /// Print one JSON object per contender.
    pub json: bool,
    /// Measure each kind also through `AnyFilter`, whose kind is known only at run time.
    pub dynamic: bool,
    /// Build only the contender of this name, and print the peak memory of that build in bytes.
    pub peak_of: Option<String>,
}

impl Options {
    /// Returns whether [`Options::filters`] selects the contender `name`.
    pub fn selects(&self, name: &str) -> bool {
        self.filters.iter().any(|filter| selects(filter, name))
    }

    /// Returns the goal that the filters are built for.
    pub fn goal(&self) -> Goal {
        Goal::KeysFpr { keys: self.keys, fpr: self.fpr }
    }

    /// Returns the hasher of the kinds of tamis.
    pub fn hasher(&self) -> KeyHasher {
        KeyHasher::new(HashId::Fast, [self.seed, !self.seed])
    }
}

/// Returns whether `filter` is `all`, the name itself or the first word of the name.
fn selects(filter: &str, name: &str) -> bool {
    filter == "all" || filter == name || name.split(' ').next() == Some(filter)
}

/// Returns the bytes of memory that [`compare`] needs: see [`Contender::table_bytes`].
pub fn memory_bytes(options: &Options, contenders: &[Box<dyn Contender>]) -> u64 {
    harness::measure_bytes(contenders, options.keys, options.fpr, options.rounds)
}

/// Measures the contenders and, with [`Options::json`], prints one JSON object per contender.
///
/// `progress` receives the number of steps done and the number of all steps. Returns `None` with
/// [`Options::peak_of`], where nothing is timed.
///
/// # Errors
///
/// Returns an error if [`Options::filters`] has a name that no contender has, or if a contender
/// cannot be built.
pub fn compare(
    options: &Options,
    contenders: &[Box<dyn Contender>],
    progress: &dyn Fn(u64, u64),
) -> Result<Option<Vec<Outcome>>> {
    let known = |filter: &str| contenders.iter().any(|one| selects(filter, one.name()));
    if let Some(name) = options.filters.iter().find(|filter| !known(filter)) {
        bail!(UnknownName::new("filter", name.clone()));
    }
    if let Some(name) = &options.peak_of {
        print_peak(options, contenders, name)?;
        return Ok(None);
    }
    let steps =
        harness::measure_steps(contenders.len(), options.keys as usize, options.rounds) as u64;
    let done = std::cell::Cell::new(0);
    let tick = || {
        done.set(done.get() + 1);
        progress(done.get(), steps);
    };
    let keys = Keys::new(options.keys, options.fpr, options.rounds, options.seed);
    let outcomes = harness::measure(contenders, &keys, options.rounds, &tick)?;
    if options.json {
        let mut out = std::io::stdout().lock();
        for (outcome, contender) in outcomes.iter().zip(contenders) {
            let peak = if contender.is_filter() { peak_of(&outcome.name) } else { None };
            writeln!(out, "{}", json(options, outcome, peak))?;
        }
    }
    Ok(Some(outcomes))
}

fn print_peak(options: &Options, contenders: &[Box<dyn Contender>], name: &str) -> Result<()> {
    let Some(contender) = contenders.iter().find(|contender| contender.name() == name) else {
        return Ok(());
    };
    let keys = Keys::members_only(options.keys, options.seed);
    if let Some(peak) = harness::peak_bytes(contender.as_ref(), &keys)? {
        writeln!(std::io::stdout(), "{peak}")?;
    }
    Ok(())
}

/// Starts this program again with `--peak-of NAME`, and reads the peak memory that it prints.
///
/// A new process is needed because memory that was allocated and freed before may be reused
/// without raising the peak.
fn peak_of(name: &str) -> Option<u64> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    let output =
        command.args(std::env::args_os().skip(1)).args(["--peak-of", name]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn bits_per_key(options: &Options, outcome: &Outcome) -> f64 {
    outcome.bytes as f64 * 8.0 / options.keys as f64
}

fn json(options: &Options, outcome: &Outcome, peak: Option<u64>) -> serde_json::Value {
    let bits_per_key = bits_per_key(options, outcome);
    let fpr = outcome.fpr;
    serde_json::json!({
        "filter": outcome.name,
        "keys": options.keys,
        "target_fpr": options.fpr,
        "fpr": fpr,
        "false_negatives": outcome.false_negatives,
        "bits_per_key": bits_per_key,
        "overhead": fpr.filter(|fpr| *fpr > 0.0).map(|fpr| bits_per_key / -fpr.log2()),
        "build_ns": outcome.time(Metric::Build),
        "hit_ns": outcome.time(Metric::Hit),
        "miss_ns": outcome.time(Metric::Miss),
        "hit_batch_ns": outcome.time(Metric::HitBatch),
        "miss_batch_ns": outcome.time(Metric::MissBatch),
        "peak_bytes_per_key": peak.map(|peak| peak as f64 / options.keys as f64),
    })
}

/// Formats the outcomes as a table: nanoseconds per key, and the ratio to the fastest filter.
pub fn table(options: &Options, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "filter",
        "bits/key",
        "fpr",
        "false neg.",
        "build",
        "hit",
        "miss",
        "hit, batch",
        "miss, batch",
        "huge pages",
    ]);
    let filters = || outcomes.iter().filter(|outcome| outcome.fpr.is_some());
    for outcome in outcomes {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let mut row = vec![
            outcome.name.clone(),
            format!("{:.2}", bits_per_key(options, outcome)),
            or_dash(outcome.fpr.map(|fpr| format!("{:.4} %", fpr * 100.0))),
            or_dash(outcome.false_negatives.map(|count| count.to_string())),
        ];
        for metric in Metric::ALL {
            let fastest = filters().min_by(|a, b| {
                let time = |outcome: &Outcome| outcome.time(metric).unwrap_or(f64::INFINITY);
                time(a).total_cmp(&time(b))
            });
            let ratio = fastest.and_then(|fastest| outcome.ratio(metric, fastest, metric));
            let cell = outcome.time(metric).zip(ratio);
            row.push(or_dash(
                cell.map(|(time, ratio)| format!("{time:.1} ns {:5.2}×", ratio.median)),
            ));
        }
        let share = outcome.huge_bytes.map(|huge| huge as f64 / outcome.bytes.max(1) as f64);
        row.push(or_dash(share.map(|share| format!("{:.0} %", share.min(1.0) * 100.0))));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(filters: &[&str]) -> Options {
        Options {
            filters: filters.iter().map(|filter| (*filter).to_owned()).collect(),
            keys: 1000,
            fpr: 0.01,
            rounds: 2,
            seed: 1,
            json: false,
            dynamic: false,
            peak_of: None,
        }
    }

    fn contenders(options: &Options) -> Vec<Box<dyn Contender>> {
        let kinds = [tamis::Kind::Bloom, tamis::Kind::Xor].into_iter();
        let selected = kinds.filter(|kind| options.selects(kind.name()));
        let contender = |kind| crate::kind(kind, options.goal(), options.hasher()).unwrap();
        selected.map(contender).collect()
    }

    #[test]
    fn filters_are_selected_by_name_by_first_word_or_all() {
        assert!(options(&["all"]).selects("bloom"));
        assert!(options(&["xor", "qfilter"]).selects("qfilter sorted"));
        assert!(options(&["qfilter sorted"]).selects("qfilter sorted"));
        assert!(!options(&["bloom"]).selects("bloom_g"));
    }

    #[test]
    fn a_name_that_no_contender_has_is_an_error() {
        let options = options(&["bloom", "blom"]);
        let contenders = contenders(&options);
        let error = compare(&options, &contenders, &|_, _| ()).unwrap_err();
        assert!(error.to_string().contains("blom"), "{error}");
    }

    #[test]
    fn progress_ends_at_the_number_of_steps() {
        let options = options(&["bloom", "xor"]);
        let contenders = contenders(&options);
        let last = std::cell::Cell::new((0, 1));
        let progress = |done, all| last.set((done, all));
        let outcomes = compare(&options, &contenders, &progress).unwrap().unwrap();
        assert_eq!(last.get().0, last.get().1);
        assert_eq!(outcomes.len(), 2);
        assert!(table(&options, &outcomes).to_string().contains("xor"));
        assert_eq!(json(&options, &outcomes[0], Some(2000))["peak_bytes_per_key"], 2.0);
    }
}
