//! `tamis demo`: builds, saves, opens and queries every kind of filter.
//!
//! Each kind runs twice, on 50000 words and on 10^6 integers. The keys are generated, and the same on
//! every machine.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result, ensure};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use tamis::{
    AnyFilter, BuildOptions, Capability, Filter, Goal, HashId, Key, KeyHash, KeyHasher, Keyed,
    Kind, Settings, Sizing,
};

const WORDS: usize = 50_000;
const INTEGERS: u64 = 1_000_000;
const NON_MEMBERS: u64 = 2_000_000;
/// The number of keys for a kind that is slow to build.
const SLOW_KEYS: usize = 20_000;
const FPR: f64 = 0.01;
/// The rates of the plot.
const RATES: [f64; 5] = [0.1, 0.01, 0.001, 0.0001, 0.00001];

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

pub(crate) fn run() -> Result<()> {
    let start = Instant::now();
    let folder = tempfile::tempdir().context("failed to create a temporary folder")?;
    let hasher = KeyHasher::new(HashId::Fast, [0x7461_6d69, 0x7320_6465]);
    let words = words();
    let letters: usize = words.iter().map(|word| word.len() + 1).sum();
    let bar = ProgressBar::new(2 * kinds().len() as u64)
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}")?);

    let hashes = Hashed {
        members: words.iter().map(|word| word.hash_with(&hasher)).collect(),
        non_members: words.iter().map(|word| misspelt(word).hash_with(&hasher)).collect(),
    };
    let mut of_words = Vec::new();
    for kind in kinds() {
        bar.set_message(format!("{kind}, words"));
        of_words.push(measure(kind, &hashes, hasher, folder.path())?);
        bar.inc(1);
    }
    let hashes = Hashed {
        members: (0..INTEGERS).map(|key| key.hash_with(&hasher)).collect(),
        non_members: (INTEGERS..INTEGERS + NON_MEMBERS).map(|key| key.hash_with(&hasher)).collect(),
    };
    let mut of_integers = Vec::new();
    for kind in kinds() {
        bar.set_message(format!("{kind}, integers"));
        of_integers.push(measure(kind, &hashes, hasher, folder.path())?);
        bar.inc(1);
    }
    bar.finish_and_clear();

    let title = |text: &str| anstream::println!("\n{BOLD}{text}{BOLD:#}\n");
    title(&format!(
        "{INTEGERS} integers, {NON_MEMBERS} non-members, false positive rate {} %",
        FPR * 100.0
    ));
    anstream::println!("{}\n{DIM}{}{DIM:#}", table(&of_integers), legend());
    title("Bits per key by false positive rate");
    anstream::println!("{}", plot());
    title("A spell checker");
    story(&words, letters, &of_words);
    let all = || of_words.iter().chain(&of_integers);
    let false_negatives: u64 = all().map(|one| one.false_negatives).sum();
    let lookups: u64 = all().map(|one| 2 * one.keys).sum();
    title("Summary");
    anstream::println!(
        "{} filters built, saved, opened and verified in {:.1} s.\n\
         {lookups} lookups of members, {false_negatives} false negatives.",
        2 * kinds().len(),
        start.elapsed().as_secs_f64()
    );
    ensure!(false_negatives == 0, "{false_negatives} false negatives");
    title("Next");
    anstream::println!("  tamis plan --keys 1000000 --fpr 0.001    {DIM}compare the kinds{DIM:#}");
    anstream::println!("  tamis build words.txt -o words.tamis     {DIM}build a filter{DIM:#}");
    anstream::println!(
        "  tamis query words.tamis probes.txt       {DIM}print the lines in it{DIM:#}"
    );
    Ok(())
}

/// Returns the kinds for new filters.
fn kinds() -> Vec<Kind> {
    Kind::ALL.iter().copied().filter(|kind| !kind.is_foreign() && !kind.is_exact()).collect()
}

/// Returns distinct pronounceable words.
fn words() -> Vec<String> {
    const ONSETS: [&str; 20] = [
        "b", "br", "c", "ch", "d", "f", "g", "gr", "h", "l", "m", "n", "p", "pl", "r", "s", "st",
        "t", "tr", "v",
    ];
    const VOWELS: [&str; 8] = ["a", "e", "i", "o", "u", "ai", "ea", "ou"];
    const ENDS: [&str; 8] = ["", "n", "r", "l", "s", "t", "nd", "m"];
    let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
    let mut words = std::collections::BTreeSet::new();
    for number in 0u64.. {
        if words.len() == WORDS {
            break;
        }
        let mut draw = hasher.int(number).hi;
        let mut pick = |from: &[&'static str]| {
            let at = (u128::from(draw) * from.len() as u128) >> 64;
            draw = draw.wrapping_mul(from.len() as u64);
            from[at as usize]
        };
        let syllables = 1 + [1, 1, 1, 2, 2, 0][number as usize % 6];
        let word = (0..syllables)
            .map(|_| [pick(&ONSETS), pick(&VOWELS), pick(&ENDS)].concat())
            .collect::<String>();
        words.insert(word);
    }
    words.into_iter().collect()
}

struct Hashed {
    members: Vec<KeyHash>,
    non_members: Vec<KeyHash>,
}

/// The measurements of a kind.
struct Measured {
    kind: Kind,
    keys: u64,
    bytes: u64,
    bits_per_key: f64,
    expected_fpr: f64,
    fpr: f64,
    false_negatives: u64,
    query_ns: f64,
    file_bytes: u64,
}

/// Builds, queries, saves, opens and queries one kind.
fn measure(kind: Kind, hashes: &Hashed, hasher: KeyHasher, folder: &Path) -> Result<Measured> {
    let members = match kind.is_slow_to_build() {
        true => &hashes.members[..SLOW_KEYS],
        false => &hashes.members[..],
    };
    let keys = members.len() as u64;
    let filter = kind
        .build(&Sizing::fpr(FPR).capacity(keys), &mut { members }, &BuildOptions::new())
        .with_context(|| format!("building a {kind} filter"))?;
    let mut false_negatives = keys - count_positives(&filter, members);
    let start = Instant::now();
    let false_positives = count_positives(&filter, &hashes.non_members);
    let non_members = hashes.non_members.len() as f64;
    let query_ns = start.elapsed().as_nanos() as f64 / non_members;

    let path = folder.join(format!("{kind}.tamis"));
    Keyed::new(hasher, filter).save(&path)?;
    let opened = Keyed::<AnyFilter>::open_verified(&path)?;
    false_negatives += keys - count_positives(opened.filter(), members);
    let figures = opened.filter().figures();
    Ok(Measured {
        kind,
        keys,
        bytes: figures.bytes,
        bits_per_key: figures.bits_per_key(),
        expected_fpr: figures.fpr,
        fpr: false_positives as f64 / non_members,
        false_negatives,
        query_ns,
        file_bytes: std::fs::metadata(&path)?.len(),
    })
}

fn count_positives(filter: &AnyFilter, keys: &[KeyHash]) -> u64 {
    let mut out = [false; 512];
    let mut positives = 0;
    for keys in keys.chunks(out.len()) {
        let out = &mut out[..keys.len()];
        filter.contains_batch(keys, out);
        positives += out.iter().filter(|yes| **yes).count() as u64;
    }
    positives
}

fn table(all: &[Measured]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "kind",
        "bits/key",
        "fpr",
        "measured",
        "false neg.",
        "query",
        "capabilities",
    ]);
    for one in all {
        let can = |can: &Capability| if one.kind.can(*can) { initial(*can) } else { '·' };
        table.add_row([
            one.kind.name().to_owned(),
            format!("{:.2}", one.bits_per_key),
            format!("{:.3} %", one.expected_fpr * 100.0),
            format!("{:.3} %", one.fpr * 100.0),
            one.false_negatives.to_string(),
            format!("{:.1} ns", one.query_ns),
            known_capabilities().iter().map(can).collect(),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Returns the capabilities that some kind has.
fn known_capabilities() -> Vec<Capability> {
    let known = |can: &Capability| kinds().iter().any(|kind| kind.can(*can));
    Capability::ALL.into_iter().filter(known).collect()
}

fn initial(can: Capability) -> char {
    can.name().chars().next().unwrap_or('?')
}

fn legend() -> String {
    let names: Vec<_> = known_capabilities().iter().map(|can| can.name()).collect();
    let slow = kinds().into_iter().filter(|kind| kind.is_slow_to_build()).map(Kind::name);
    let slow: Vec<_> = slow.collect();
    format!(
        "fpr: as planned; capabilities: {}; {} has {SLOW_KEYS} keys",
        names.join(", "),
        slow.join(", ")
    )
}

/// Plots bits per key: one row per false positive rate, one letter per kind.
///
/// ```text
///  1 in 10     │  ╵·   A  B
///  1 in 100    │       ╵·····   A B
/// ```
fn plot() -> String {
    const COLUMNS: usize = 60;
    const COLOURS: [AnsiColor; 6] = [
        AnsiColor::Green,
        AnsiColor::Blue,
        AnsiColor::Magenta,
        AnsiColor::Cyan,
        AnsiColor::Yellow,
        AnsiColor::Red,
    ];
    let bits = |kind: &Kind, fpr: f64| {
        let goal = Goal::KeysFpr { keys: INTEGERS, fpr };
        kind.plan(goal, &Settings::default()).ok().map(|figures| figures.bits_per_key())
    };
    // The axis ends at twice the lower bound of the last rate. Kinds beyond it are listed at the end
    // of the row.
    let most = 2.0 * -RATES[RATES.len() - 1].log2();
    let column = |bits: f64| (bits / most * (COLUMNS - 1) as f64).round() as usize;
    let letter = |index: usize| char::from(b'A' + index as u8);
    let colour = |index: usize| COLOURS[index % COLOURS.len()].on_default().bold();

    let mut out = String::new();
    for rate in RATES {
        let mut marks = vec![(' ', Style::new()); COLUMNS];
        let floor = column(-rate.log2());
        marks[..floor].fill(('░', DIM));
        marks[floor] = ('│', DIM);
        let mut beyond = String::new();
        for (index, kind) in kinds().iter().enumerate() {
            let Some(bits) = bits(kind, rate) else { continue };
            // If the column is taken, the mark moves to the right.
            let free = (column(bits)..COLUMNS).find(|at| marks[*at].0 == ' ');
            match free {
                Some(at) => marks[at] = (letter(index), colour(index)),
                None => beyond.push(letter(index)),
            }
        }
        let _ = write!(out, "{:>11} ", format!("1 in {:.0}", 1.0 / rate));
        for (mark, style) in marks {
            let _ = write!(out, "{style}{mark}{style:#}");
        }
        if !beyond.is_empty() {
            let _ = write!(out, "→{beyond}");
        }
        out.push('\n');
    }
    let _ = write!(out, "{:>11} ", "bits/key");
    for tick in 0..(most / 5.0) as usize {
        let width = column((tick + 1) as f64 * 5.0) - column(tick as f64 * 5.0);
        let _ = write!(out, "{:<width$}", tick * 5);
    }
    let _ = write!(out, "\n\n  {DIM}░│{DIM:#} log2(1/rate), the lower bound");
    for (index, kind) in kinds().iter().enumerate() {
        let gap = if index % 3 == 0 { "\n  " } else { "   " };
        let style = colour(index);
        let _ = write!(out, "{gap}{style}{}{style:#} {:<20}", letter(index), kind.name());
    }
    out
}

/// Replaces the middle letter by `k`, which no word has.
fn misspelt(word: &str) -> String {
    let at = word.len() / 2;
    [&word[..at], "k", &word[at + 1..]].concat()
}

fn story(words: &[String], letters: usize, all: &[Measured]) {
    let whole = all.iter().filter(|one| one.keys == WORDS as u64);
    let smallest = whole.min_by_key(|one| one.bytes).expect("the registry has kinds");
    let some: Vec<_> = words.iter().step_by(WORDS / 5).skip(1).map(String::as_str).collect();
    let kilobytes = |bytes: u64| bytes as f64 / 1000.0;
    anstream::println!(
        "{WORDS} generated words ({}, …)\nare {:.0} kB of text. A {} filter of them is {:.0} kB, \
         {:.1} times smaller,\nin memory and on disk. It accepts every word and {:.2} % of the \
         misspelt words.",
        some.join(", "),
        kilobytes(letters as u64),
        smallest.kind,
        kilobytes(smallest.file_bytes),
        letters as f64 / smallest.file_bytes as f64,
        smallest.fpr * 100.0,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_many_and_lower_case() {
        let words = words();
        assert_eq!(words.len(), WORDS);
        assert!(words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())));
        assert!(words.iter().all(|word| words.binary_search(&misspelt(word)).is_err()));
        assert!(words.iter().all(|word| (2..=18).contains(&word.len())));
    }

    #[test]
    fn the_plot_fits_80_columns_and_has_every_kind() {
        let plot = anstream::adapter::strip_str(&plot()).to_string();
        assert!(plot.lines().all(|line| line.chars().count() <= 80), "{plot}");
        assert!(kinds().iter().all(|kind| plot.contains(kind.name())));
    }
}
