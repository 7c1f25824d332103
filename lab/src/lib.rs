//! What the papers' folders share: keys, sheets of figures, plots.
//!
//! Each folder beside this one is a paper. Its program measures what the paper states, prints it,
//! and writes CSV and SVG next to itself; its README says what agreed and what did not.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use kuva::prelude::{Layout, LinePlot, Plot};
use tamis::{Filter, Hash, HashId, Hasher, Key};

/// Hashes of the integers from `from` on, under a fixed seed that `salt` changes.
pub fn hashes(salt: u64, from: u64, count: u64) -> Vec<Hash> {
    let hasher = Hasher::new(HashId::Fast, [salt, 0x7a3e]);
    (from..from + count).map(|key| key.hash(&hasher)).collect()
}

/// Integers from here on are strangers: members count up from 0.
pub const STRANGERS: u64 = 1 << 40;

/// The share of `keys` that the filter says yes to.
pub fn share_of_yes(filter: &impl Filter, keys: &[Hash]) -> f64 {
    let mut out = vec![false; keys.len()];
    filter.contains_each(keys, &mut out);
    out.iter().filter(|yes| **yes).count() as f64 / keys.len() as f64
}

/// A table of numbers, written as CSV and printed.
#[derive(Debug)]
pub struct Sheet {
    folder: PathBuf,
    name: &'static str,
    text: String,
}

impl Sheet {
    /// A sheet in `lab/FOLDER/NAME.csv`.
    pub fn new(folder: &str, name: &'static str, columns: &[&str]) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
        Self { folder, name, text: format!("{}\n", columns.join(",")) }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[&dyn std::fmt::Display]) {
        let cells: Vec<String> = cells.iter().map(ToString::to_string).collect();
        let _ = writeln!(self.text, "{}", cells.join(","));
    }

    /// Prints it, aligned, and writes it; `lines` become a plot beside it.
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

/// A line of a plot.
#[derive(Debug)]
pub struct Line {
    label: String,
    points: Vec<(f64, f64)>,
    dashed: bool,
}

impl Line {
    /// What was measured.
    pub fn measured(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), points, dashed: false }
    }

    /// What was calculated.
    pub fn calculated(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), points, dashed: true }
    }
}
