//! The README's plot: bits per key against the false positive rate, from `Kind::plan`.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use tamis::{Goal, Kind, Settings};

const FILE: &str = "docs/bits-per-key.svg";
const KEYS: u64 = 1_000_000;
const TITLE: &str = "Bits per key of filters for 1,000,000 keys";

/// The kinds drawn, each with a colour that has a contrast of 4 or more on white and on black.
const KINDS: [(Kind, &str); 7] = [
    (Kind::SplitBlockBloom, "#d24d3e"),
    (Kind::Bloom, "#b2651c"),
    (Kind::TinySet, "#8c7a14"),
    (Kind::Cuckoo, "#2f8a4c"),
    (Kind::CountingQuotient, "#19838c"),
    (Kind::BinaryFuse, "#3b78cf"),
    (Kind::Ribbon, "#a158c4"),
];
/// The colour of text, axes and the lower bound.
const GREY: &str = "#757b83";

/// Rates go from 10^-1 to 10^-DECADES.
const DECADES: u32 = 6;
const SAMPLES_PER_DECADE: u32 = 100;
const MAX_BITS: f64 = 45.0;

const WIDTH: f64 = 780.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 600.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 380.0;
/// The least distance between the baselines of two labels.
const LABEL_HEIGHT: f64 = 17.0;

/// Writes the plot.
pub(crate) fn write() -> Result<()> {
    Ok(fs::write(FILE, svg()?)?)
}

/// Checks that the committed plot is the one that `write` would write.
pub(crate) fn check() -> Result<()> {
    let committed = fs::read_to_string(FILE).with_context(|| format!("failed to read {FILE}"))?;
    ensure!(committed == svg()?, "{FILE} is out of date: run cargo xtask plot");
    Ok(())
}

/// A curve: its name, its colour, and its points as decades and bits per key.
struct Curve {
    name: String,
    colour: &'static str,
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// Returns the curve of a kind, cut where it leaves the plot.
    fn of_kind(kind: Kind, colour: &'static str) -> Result<Self> {
        let mut points = Vec::new();
        for sample in SAMPLES_PER_DECADE..=DECADES * SAMPLES_PER_DECADE {
            let decades = f64::from(sample) / f64::from(SAMPLES_PER_DECADE);
            let goal = Goal::KeysFpr { keys: KEYS, fpr: 10_f64.powf(-decades) };
            let bits = kind.plan(goal, &Settings::default())?.bits_per_key();
            if bits > MAX_BITS {
                break;
            }
            points.push((decades, bits));
        }
        Ok(Self { name: kind.to_string(), colour, points })
    }

    /// Returns log2(1/rate), below which no filter of a static set can be.
    fn lower_bound() -> Self {
        let points = [1, DECADES].map(|decades| {
            let decades = f64::from(decades);
            (decades, decades * std::f64::consts::LOG2_10)
        });
        Self { name: "lower bound".to_owned(), colour: GREY, points: points.to_vec() }
    }

    fn end(&self) -> Result<(f64, f64)> {
        self.points.last().copied().with_context(|| format!("{} has no points", self.name))
    }
}

fn x(decades: f64) -> f64 {
    LEFT + (decades - 1.0) / f64::from(DECADES - 1) * (RIGHT - LEFT)
}

fn y(bits: f64) -> f64 {
    BOTTOM - bits / MAX_BITS * (BOTTOM - TOP)
}

fn svg() -> Result<String> {
    let mut curves = KINDS
        .iter()
        .map(|(kind, colour)| Curve::of_kind(*kind, colour))
        .collect::<Result<Vec<_>>>()?;
    curves.push(Curve::lower_bound());

    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"{GREY}\">\n\
         <title>{TITLE}, by false positive rate</title>\n"
    );
    axes(&mut out);
    for curve in &curves {
        let points = path(&curve.points);
        let dash = if curve.colour == GREY { " stroke-dasharray=\"5 4\"" } else { "" };
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{dash}/>",
            points, curve.colour
        );
    }
    labels(&mut out, &curves)?;
    out += "</svg>\n";
    Ok(out)
}

/// Returns the points of a polyline, without those on a level stretch between two others.
fn path(points: &[(f64, f64)]) -> String {
    let places: Vec<_> = points
        .iter()
        .map(|(decades, bits)| (format!("{:.1}", x(*decades)), format!("{:.1}", y(*bits))))
        .collect();
    let mut out = String::new();
    for (i, (x, y)) in places.iter().enumerate() {
        let level = |other: Option<&(String, String)>| other.is_some_and(|(_, height)| height == y);
        if i == 0 || !level(places.get(i - 1)) || !level(places.get(i + 1)) {
            let _ = write!(out, "{x},{y} ");
        }
    }
    out.trim_end().to_owned()
}

/// Draws grid lines, ticks and titles of both axes.
fn axes(out: &mut String) {
    let centre = f64::midpoint(LEFT, RIGHT);
    for bits in (0..=MAX_BITS as u32).step_by(5) {
        let y = y(f64::from(bits));
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"{GREY}\" stroke-opacity=\"0.3\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{bits}</text>",
            LEFT - 8.0,
            y + 4.5
        );
    }
    for decades in 1..=DECADES {
        let x = x(f64::from(decades));
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {TOP}V{BOTTOM}\" stroke=\"{GREY}\" stroke-opacity=\"0.3\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">10<tspan dy=\"-5\" font-size=\"10\">−{decades}</tspan></text>",
            BOTTOM + 20.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{centre}\" y=\"{:.1}\" text-anchor=\"middle\">false positive rate</text>\n\
         <text x=\"{LEFT}\" y=\"{:.1}\" font-size=\"14\" font-weight=\"600\">{TITLE}</text>",
        BOTTOM + 44.0,
        TOP - 16.0
    );
}

/// Writes each curve's name at its end: in the right margin, or to the left of an end inside the plot.
fn labels(out: &mut String, curves: &[Curve]) -> Result<()> {
    let mut margin = Vec::new();
    for curve in curves {
        let (decades, bits) = curve.end()?;
        if x(decades) < RIGHT {
            label(out, curve, x(decades) - 8.0, y(bits), "end");
        } else {
            margin.push((curve, y(bits)));
        }
    }
    margin.sort_by(|a, b| a.1.total_cmp(&b.1));
    let heights: Vec<_> = margin.iter().map(|(_, height)| *height).collect();
    for ((curve, _), height) in margin.iter().zip(spread(&heights)) {
        label(out, curve, RIGHT + 8.0, height, "start");
    }
    Ok(())
}

fn label(out: &mut String, curve: &Curve, x: f64, y: f64, anchor: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{}\" font-weight=\"600\" text-anchor=\"{anchor}\">{}</text>",
        y + 4.5,
        curve.colour,
        curve.name
    );
}

/// Moves ascending heights at least `LABEL_HEIGHT` apart: those that are too close become a group
/// around their mean.
fn spread(heights: &[f64]) -> Vec<f64> {
    let mut groups: Vec<Vec<f64>> = Vec::new();
    let first = |group: &[f64]| {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        mean - (group.len() - 1) as f64 / 2.0 * LABEL_HEIGHT
    };
    for height in heights {
        let mut group = vec![*height];
        while let Some(above) =
            groups.pop_if(|above| first(above) + above.len() as f64 * LABEL_HEIGHT > first(&group))
        {
            group = [above, group].concat();
        }
        groups.push(group);
    }
    groups
        .iter()
        .flat_map(|group| (0..group.len()).map(|i| first(group) + i as f64 * LABEL_HEIGHT))
        .collect()
}
