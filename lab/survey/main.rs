//! Measures what "Approximate Membership of Sets: A Survey" (Szabo-Wexler) states.
//!
//! `cargo run --release -p tamis-lab --bin survey` runs everything. `-- choices` compares only
//! choices of filters, `-- memory` only the memory of all kinds, `-- window` only the sliding window,
//! `-- growth` only filters that grow, and `-- growth 100000000` lets them grow to 10^8 keys.

mod choice;
mod growth;
mod spectral;
mod window;

use anyhow::Result;
use lab::{Line, STRANGERS, Sheet, hashes, share_of_yes};
use tamis::{
    Bloom, BloomG, BloomGShape, BloomShape, Build, Goal, HashCompaction, HashCompactionShape, Kind,
    Settings, Shape,
};

const KEYS: u64 = 1_000_000;
/// Number of keys to which filters of unknown size grow.
const GROWN: u64 = 10_000_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["choices"] => choice::choices(),
        ["memory"] => recommendation(),
        ["window"] => window::run(),
        ["growth"] => growth::growth(GROWN),
        ["growth", most] => growth::growth(most.parse()?),
        _ => {
            bloom_g()?;
            hash_compaction()?;
            recommendation()?;
            choice::choices()?;
            spectral::run()?;
            window::run()?;
            growth::growth(GROWN)
        }
    }
}

/// Compares Bloom-g with Bloom at equal memory: the survey's formula, the corrected formula, the
/// exact calculation, and the measurement.
fn bloom_g() -> Result<()> {
    let columns = [
        "bits a key",
        "filter",
        "k",
        "survey's formula",
        "with the exponent g",
        "exact",
        "measured",
    ];
    let mut sheet = Sheet::new("survey", "bloom-g", &columns);
    let (members, strangers) = (hashes(1, 0, KEYS), hashes(1, STRANGERS, 10 * KEYS));
    let mut lines: Vec<Vec<(f64, f64)>> = vec![Vec::new(); 4];
    for bits in [8u64, 10, 12, 16, 20] {
        let best = (1..=20)
            .map(|k| BloomShape::new(bits * KEYS, k, KEYS))
            .collect::<Result<Vec<_>, _>>()?;
        let best = least(best);
        let exact = best.figures().fpr;
        let measured = share_of_yes(&Bloom::build(best.clone(), &members[..])?, &strangers);
        sheet.row(&[&bits, &"bloom", &best.probes(), &"", &"", &form(exact), &form(measured)]);
        lines[0].push((bits as f64, measured));
        for g in 1..=3u32 {
            let words = bits * KEYS / 64;
            let shapes = (1..=6).map(|each| BloomGShape::new(words, 64, g, each * g, KEYS));
            let shape = least(shapes.collect::<Result<Vec<_>, _>>()?);
            let k = shape.probes();
            let word = word_rate(words, 64, g, k);
            let exact = shape.figures().fpr;
            let measured = share_of_yes(&BloomG::build(shape, &members[..])?, &strangers);
            let name = format!("bloom_g g={g}");
            let mended = word.powi(g.cast_signed());
            sheet.row(&[
                &bits,
                &name,
                &k,
                &form(word),
                &form(mended),
                &form(exact),
                &form(measured),
            ]);
            lines[g as usize].push((bits as f64, measured));
        }
    }
    let labels = ["bloom", "bloom_g, 1 word", "bloom_g, 2 words", "bloom_g, 3 words"];
    let lines = labels
        .into_iter()
        .zip(lines)
        .map(|(label, points)| Line::measured(label, points))
        .collect();
    sheet.finish(
        "Bloom-g with words of 64 bits against Bloom",
        "bits a key",
        "false positive rate",
        true,
        lines,
    )
}

/// Returns the probability that one word of a Bloom-g filter accepts a non-member, by the survey's
/// formula.
fn word_rate(words: u64, word_bits: u32, g: u32, k: u32) -> f64 {
    let (l, w, each) = (words as f64, f64::from(word_bits), f64::from(k) / f64::from(g));
    let mean = f64::from(g) * KEYS as f64 / l;
    let mut weight = (-mean).exp();
    let mut sum = 0.0;
    for c in 0..400 {
        let c = f64::from(c);
        sum += weight * (1.0 - (1.0 - 1.0 / w).powf(c * each)).powf(each);
        weight *= mean / (c + 1.0);
    }
    sum
}

/// Measures the error rate of hash compaction, which is n 2^-l, not 2^-l.
fn hash_compaction() -> Result<()> {
    let mut sheet =
        Sheet::new("survey", "hash-compaction", &["l", "survey: 2^-l", "n 2^-l", "measured"]);
    const KEYS: u64 = 1 << 16;
    let (members, strangers) = (hashes(2, 0, KEYS), hashes(2, STRANGERS, 4_000_000));
    let (mut stated, mut measured_line) = (Vec::new(), Vec::new());
    for l in [16, 18, 20, 22, 24, 26] {
        let shape = HashCompactionShape::new(KEYS * 5 / 4, l, KEYS)?;
        let filter = HashCompaction::build(shape, &members[..])?;
        let expected = (KEYS as f64 / f64::from(l).exp2()).min(1.0);
        let measured = share_of_yes(&filter, &strangers);
        sheet.row(&[&l, &form((-f64::from(l)).exp2()), &form(expected), &form(measured)]);
        stated.push((f64::from(l), (-f64::from(l)).exp2()));
        measured_line.push((f64::from(l), measured));
    }
    sheet.finish(
        "Hash compaction of 65536 keys",
        "bits of a digest (l)",
        "false positive rate",
        true,
        vec![Line::calculated("survey: 2^-l", stated), Line::measured("measured", measured_line)],
    )
}

/// Compares the survey's choice, Bloom-g, with all kinds, by memory at 1 % and 0.1 %.
fn recommendation() -> Result<()> {
    let mut sheet = Sheet::new(
        "survey",
        "memory",
        &["filter", "bits a key at 1 %", "at 0.1 %", "memory reads a query at 1 %"],
    );
    for kind in Kind::ALL.iter().filter(|kind| !kind.is_foreign()) {
        let plan = |fpr| kind.plan(Goal::KeysFpr { keys: KEYS, fpr }, &Settings::default());
        let (one, tenth) = (plan(0.01)?, plan(0.001)?);
        let cells = [one.bits_per_key(), tenth.bits_per_key(), one.query_cost]
            .map(|cell| format!("{cell:.2}"));
        sheet.row(&[&kind.name(), &cells[0], &cells[1], &cells[2]]);
    }
    sheet.finish("What the kinds cost", "", "", false, Vec::new())
}

fn least<S: Shape>(shapes: Vec<S>) -> S {
    let best = shapes.into_iter().min_by(|a, b| a.figures().fpr.total_cmp(&b.figures().fpr));
    best.expect("there are shapes to choose from")
}

fn form(rate: f64) -> String {
    format!("{rate:.3e}")
}
