//! Common parts of the experiments: keys, sheets of figures, plots.
//!
//! Each folder beside this one belongs to a paper or a question. Its program measures what the
//! paper states, prints it, and writes CSV and SVG files into the folder. Its README compares the
//! results with the paper.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use kuva::prelude::{Layout, LinePlot, Plot, ScatterPlot};
use tamis::{
    Build, BuildOptions, Figures, Filter, Goal, HashId, Hashes, Key, KeyHash, KeyHasher, Persist,
    Settings, Shape, given, plan,
};
use tamis_bench::{Contender, KindContender};

/// Returns the hashes of `count` integers from `from` on, with a fixed seed that `salt` changes.
pub fn hashes(salt: u64, from: u64, count: u64) -> Vec<KeyHash> {
    let hasher = KeyHasher::new(HashId::Fast, [salt, 0x7a3e]);
    (from..from + count).map(|key| key.hash_with(&hasher)).collect()
}

/// First of the integers that are used as non-members. Members count up from 0.
pub const STRANGERS: u64 = 1 << 40;

/// Returns the fraction of `keys` that the filter accepts.
pub fn share_of_yes(filter: &impl Filter, keys: &[KeyHash]) -> f64 {
    let mut out = vec![false; keys.len()];
    filter.contains_batch(keys, &mut out);
    out.iter().filter(|yes| **yes).count() as f64 / keys.len() as f64
}

/// A kind of tamis as a contender of the bench harness.
pub trait Entrant: Contender {
    /// Returns the figures of its shape.
    fn figures(&self) -> Figures;

    /// Builds the filter from the integers below `figures().keys`. The integers are generated
    /// during the build and not held in memory.
    fn stream(&self, threads: usize) -> Result<()>;

    /// Returns the memory overhead: bits per key / log2(1 / fpr) - 1.
    fn over(&self) -> f64 {
        over(self.figures().bits_per_key(), self.figures().fpr)
    }
}

/// Returns `bits_per_key` / log2(1 / `fpr`) - 1.
pub fn over(bits_per_key: f64, fpr: f64) -> f64 {
    bits_per_key / -fpr.log2() - 1.0
}

/// Returns a kind of tamis with `settings`, sized for `goal`.
///
/// # Errors
///
/// Returns an error if the kind cannot meet `goal`.
pub fn entrant<F: Build + Persist + 'static>(
    name: &'static str,
    goal: Goal,
    settings: &[(&str, &str)],
) -> Result<Box<dyn Entrant>> {
    let mut all = Settings::default();
    for (name, value) in settings {
        all.set(*name, *value);
    }
    let hasher = KeyHasher::new(HashId::Fast, [9, 0x7a3e]);
    Ok(Box::new(KindContender::<F> { name, shape: plan::solve(goal, &all)?, hasher }))
}

impl<F: Build + Persist + 'static> Entrant for KindContender<F> {
    fn figures(&self) -> Figures {
        self.shape.figures()
    }

    fn stream(&self, threads: usize) -> Result<()> {
        let keys = Hashes::new((0..self.figures().keys).map(|key| key.hash_with(&self.hasher)));
        let options = BuildOptions::new().threads(threads);
        F::build_with(&options, given(self.shape.clone()), keys)?;
        Ok(())
    }
}

/// Returns the processor time to build each entrant on one thread, in nanoseconds per key: medians
/// over rounds in which the entrants alternate.
pub fn build_times(entrants: &[Box<dyn Entrant>]) -> Result<Vec<f64>> {
    const ROUNDS: usize = 5;
    let mut times = vec![Vec::new(); entrants.len()];
    // The first round is not counted, because it requests memory from the system.
    for round in 0..=ROUNDS {
        for (entrant, times) in entrants.iter().zip(&mut times) {
            // The clock may lag by some milliseconds, so small filters are built many times in a
            // row.
            let keys = entrant.figures().keys;
            let in_a_row = (1 << 20) / keys + 1;
            let start = processor_time()?;
            (0..in_a_row).try_for_each(|_| entrant.stream(1))?;
            if round > 0 {
                times.push((processor_time()? - start) / (keys * in_a_row) as f64);
            }
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    };
    Ok(times.into_iter().map(median).collect())
}

/// Returns the processor time of this thread in nanoseconds, which other load on the machine does
/// not affect. Works only on Linux.
pub fn processor_time() -> Result<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().context("no processor time")?.parse()?)
}

/// A table of numbers, written as CSV and printed.
#[derive(Debug)]
pub struct Sheet {
    folder: PathBuf,
    name: String,
    text: String,
}

impl Sheet {
    /// Creates a sheet for `lab/FOLDER/NAME.csv`.
    pub fn new(folder: &str, name: impl Into<String>, columns: &[&str]) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
        Self { folder, name: name.into(), text: format!("{}\n", columns.join(",")) }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[&dyn std::fmt::Display]) {
        let cells: Vec<String> = cells.iter().map(ToString::to_string).collect();
        let _ = writeln!(self.text, "{}", cells.join(","));
    }

    /// Prints the sheet, aligned, and writes it. `lines` become a plot beside it.
    pub fn finish(self, title: &str, x: &str, y: &str, log: bool, lines: Vec<Line>) -> Result<()> {
        println!("\n{title}\n");
        let rows: Vec<Vec<&str>> = self.text.lines().map(|row| row.split(',').collect()).collect();
        let width = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.len()).max().unwrap_or(0)
        };
        for row in &rows {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(i, cell)| format!("{cell:>w$}", w = width(i)))
                .collect();
            println!("  {}", cells.join("  "));
        }
        fs::write(self.folder.join(format!("{}.csv", self.name)), &self.text)?;
        if lines.is_empty() {
            return Ok(());
        }
        let colours = [
            "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999",
        ];
        let plots: Vec<Plot> = lines
            .into_iter()
            .zip(colours.into_iter().cycle())
            .map(|(line, colour)| {
                if let [point] = line.points[..] {
                    let dot = ScatterPlot::new().with_data([point]).with_color(colour);
                    return Plot::Scatter(dot.with_legend(line.label).with_size(4.0));
                }
                let plot = LinePlot::new()
                    .with_data(line.points)
                    .with_color(colour)
                    .with_legend(line.label)
                    .with_stroke_width(2.0);
                Plot::Line(if line.dashed { plot.with_dashed() } else { plot })
            })
            .collect();
        let layout =
            Layout::auto_from_plots(&plots).with_title(title).with_x_label(x).with_y_label(y);
        let layout = if log { layout.with_log_y() } else { layout };
        let svg = kuva::render_to_svg(plots, layout);
        fs::write(self.folder.join(format!("{}.svg", self.name)), svg)?;
        Ok(())
    }
}

/// A line of a plot, or a dot if it has only one point.
#[derive(Debug)]
pub struct Line {
    label: String,
    points: Vec<(f64, f64)>,
    dashed: bool,
}

impl Line {
    /// Returns a solid line, for measured values.
    pub fn measured(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), points, dashed: false }
    }

    /// Returns a dashed line, for calculated values.
    pub fn calculated(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), points, dashed: true }
    }
}
