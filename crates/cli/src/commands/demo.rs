//! `tamis demo`: every filter at work.
//!
//! The same for each kind, twice: on a list of words and on a million integers. Build, ask for
//! every member, ask for strangers, save, open, verify, ask again. Nothing is read but what is
//! made here, and the same seed makes the same demo everywhere.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result, ensure};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use tamis::{
    AnyFilter, Capability, Goal, HashId, Hashes, Key, KeyHash, KeyHasher, Keyed, Kind, Settings,
};

const WORDS: usize = 50_000;
const INTEGERS: u64 = 1_000_000;
const STRANGERS: u64 = 2_000_000;
/// A kind that searches for its filter takes a hundred times as long to build: it gets the first of
/// the keys.
const SEARCHED: usize = 20_000;
const FPR: f64 = 0.01;
/// The rates of the plot.
const RATES: [f64; 5] = [0.1, 0.01, 0.001, 0.0001, 0.00001];

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

pub(crate) fn run() -> Result<()> {
    let start = Instant::now();
    let folder = tempfile::tempdir().context("a folder for the demo's files")?;
    let hasher = KeyHasher::new(HashId::Fast, [0x7461_6d69, 0x7320_6465]);
    let words = words();
    let letters: usize = words.iter().map(|word| word.len() + 1).sum();
    let bar = ProgressBar::new(2 * Kind::ALL.len() as u64)
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}")?);

    let hashes = Hashed {
        members: words.iter().map(|word| word.hash_with(&hasher)).collect(),
        strangers: words.iter().map(|word| misspelt(word).hash_with(&hasher)).collect(),
    };
    let mut of_words = Vec::new();
    for kind in Kind::ALL {
        bar.set_message(format!("{kind}, words"));
        of_words.push(seen(*kind, &hashes, hasher, folder.path())?);
        bar.inc(1);
    }
    let hashes = Hashed {
        members: (0..INTEGERS).map(|key| key.hash_with(&hasher)).collect(),
        strangers: (INTEGERS..INTEGERS + STRANGERS).map(|key| key.hash_with(&hasher)).collect(),
    };
    let mut of_integers = Vec::new();
    for kind in Kind::ALL {
        bar.set_message(format!("{kind}, integers"));
        of_integers.push(seen(*kind, &hashes, hasher, folder.path())?);
        bar.inc(1);
    }
    bar.finish_and_clear();

    let title = |text: &str| anstream::println!("\n{BOLD}{text}{BOLD:#}\n");
    title(&format!("{INTEGERS} integers, {STRANGERS} strangers, at most {} % let in", FPR * 100.0));
    anstream::println!("{}\n{DIM}{}{DIM:#}", table(&of_integers), legend());
    title("Bits a key, by how many strangers are let in");
    anstream::println!("{}", plot());
    title("A spell checker");
    story(&words, letters, &of_words);
    let denied: u64 = of_words.iter().chain(&of_integers).map(|seen| seen.denied).sum();
    let asked: u64 = of_words.iter().chain(&of_integers).map(|seen| 2 * seen.keys).sum();
    title("All in all");
    anstream::println!(
        "{} filters built, saved, opened and verified in {:.1} s.\n\
         {asked} times a member was asked for, {denied} times it was denied.",
        2 * Kind::ALL.len(),
        start.elapsed().as_secs_f64()
    );
    ensure!(denied == 0, "a member was denied");
    title("Next");
    anstream::println!(
        "  tamis plan --keys 1000000 --fpr 0.001    {DIM}which filter, and how large{DIM:#}"
    );
    anstream::println!("  tamis build words.txt -o words.tamis     {DIM}one of your own{DIM:#}");
    anstream::println!(
        "  tamis query words.tamis probes.txt       {DIM}which lines may be in it{DIM:#}"
    );
    Ok(())
}

/// Pronounceable words, none twice, always the same.
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
    strangers: Vec<KeyHash>,
}

/// What was seen of a kind.
struct Seen {
    kind: Kind,
    keys: u64,
    bytes: u64,
    bits_per_key: f64,
    promised: f64,
    let_in: f64,
    denied: u64,
    query_ns: f64,
    file_bytes: u64,
}

/// Puts one kind through all of it.
fn seen(kind: Kind, hashes: &Hashed, hasher: KeyHasher, folder: &Path) -> Result<Seen> {
    let members = match kind {
        Kind::Sat => &hashes.members[..SEARCHED],
        _ => &hashes.members[..],
    };
    let keys = members.len() as u64;
    let goal = Goal::KeysFpr { keys, fpr: FPR };
    let filter = kind
        .build(1, goal, &Settings::default(), Hashes::new(members.iter().copied()))
        .with_context(|| format!("building a {kind} filter"))?;
    let mut denied = keys - answers(&filter, members);
    let start = Instant::now();
    let yes = answers(&filter, &hashes.strangers);
    let strangers = hashes.strangers.len() as f64;
    let query_ns = start.elapsed().as_nanos() as f64 / strangers;

    let path = folder.join(format!("{kind}.tamis"));
    Keyed::new(hasher, filter).save(&path)?;
    let opened = Keyed::<AnyFilter>::open_verified(&path)?;
    denied += keys - answers(opened.filter(), members);
    let figures = opened.filter().figures();
    Ok(Seen {
        kind,
        keys,
        bytes: figures.bytes,
        bits_per_key: figures.bits_per_key(),
        promised: figures.fpr,
        let_in: yes as f64 / strangers,
        denied,
        query_ns,
        file_bytes: std::fs::metadata(&path)?.len(),
    })
}

fn answers(filter: &AnyFilter, keys: &[KeyHash]) -> u64 {
    let mut out = [false; 512];
    let mut yes = 0;
    for keys in keys.chunks(out.len()) {
        let out = &mut out[..keys.len()];
        filter.contains_batch(keys, out);
        yes += out.iter().filter(|yes| **yes).count() as u64;
    }
    yes
}

fn table(all: &[Seen]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["kind", "bits/key", "promised", "let in", "denied", "query", "can"]);
    for seen in all {
        let can = |can: &Capability| if seen.kind.can(*can) { initial(*can) } else { '·' };
        table.add_row([
            seen.kind.name().to_owned(),
            format!("{:.2}", seen.bits_per_key),
            format!("{:.3} %", seen.promised * 100.0),
            format!("{:.3} %", seen.let_in * 100.0),
            seen.denied.to_string(),
            format!("{:.1} ns", seen.query_ns),
            known_capabilities().iter().map(can).collect(),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Those that some kind has.
fn known_capabilities() -> Vec<Capability> {
    let known = |can: &Capability| Kind::ALL.iter().any(|kind| kind.can(*can));
    Capability::ALL.into_iter().filter(known).collect()
}

fn initial(can: Capability) -> char {
    can.name().chars().next().unwrap_or('?')
}

fn legend() -> String {
    let names: Vec<_> = known_capabilities().iter().map(|can| can.name()).collect();
    format!("can: {}; sat has {SEARCHED} of the keys", names.join(", "))
}

/// Bits a key against the rate: a line of marks a rate, from 0 to as many bits as the columns take.
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
    // Twice the bound at the last rate; what lies further right is only named.
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
        for (index, kind) in Kind::ALL.iter().enumerate() {
            let Some(bits) = bits(kind, rate) else { continue };
            // A place that is taken already sends the next one on to the right.
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
    let _ = write!(out, "{:>11} ", "bits a key");
    for tick in 0..(most / 5.0) as usize {
        let width = column((tick + 1) as f64 * 5.0) - column(tick as f64 * 5.0);
        let _ = write!(out, "{:<width$}", tick * 5);
    }
    let _ = write!(out, "\n\n  {DIM}░│{DIM:#} log2(1/rate), which nobody gets below");
    for (index, kind) in Kind::ALL.iter().enumerate() {
        let gap = if index % 3 == 0 { "\n  " } else { "   " };
        let style = colour(index);
        let _ = write!(out, "{gap}{style}{}{style:#} {:<20}", letter(index), kind.name());
    }
    out
}

/// One letter of the word made into one that no word here has.
fn misspelt(word: &str) -> String {
    let at = word.len() / 2;
    [&word[..at], "k", &word[at + 1..]].concat()
}

fn story(words: &[String], letters: usize, all: &[Seen]) {
    let whole = all.iter().filter(|seen| seen.keys == WORDS as u64);
    let smallest = whole.min_by_key(|seen| seen.bytes).expect("there are kinds");
    let some: Vec<_> = words.iter().step_by(WORDS / 5).skip(1).map(String::as_str).collect();
    let kilobytes = |bytes: u64| bytes as f64 / 1000.0;
    anstream::println!(
        "{WORDS} made-up words ({}, …)\nare {:.0} kB of text. A {} filter of them is {:.0} kB, \
         {:.1} times less,\nin memory as on disk. It passes {:.2} % of the misspelt ones, \
         and every right one.",
        some.join(", "),
        kilobytes(letters as u64),
        smallest.kind,
        kilobytes(smallest.file_bytes),
        letters as f64 / smallest.file_bytes as f64,
        smallest.let_in * 100.0,
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
        assert!(Kind::ALL.iter().all(|kind| plot.contains(kind.name())));
    }
}
