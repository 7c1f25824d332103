//! "Bloom Filters, Adaptivity, and the Dictionary Problem" (Bender, Farach-Colton, Goswami, Johnson,
//! McCauley, Singh): what it claims, measured.
//!
//! `cargo run --release -p tamis-lab --bin adaptive`; with `-- --long` larger sizes, and a thousand
//! million members asked for; with `-- soak 1e9` only that; with `-- scores` or
//! `-- forgetting` only that attack; with `-- levels` only the levels of Theorem 20.

mod attacks;
mod guarded;
mod levels;
mod scores;

use std::fmt::Display;

use anyhow::{Result, bail};
use lab::{Line, STRANGERS, Sheet, hashes};
use tamis::plan::solve;
use tamis::{
    AdaptiveBloom, AdaptiveBloomShape, AnyFilter, Broom, BroomShape, Build, Filter, Goal, Insert,
    Kind, Remove, Settings, Shape, Sizing,
};

use crate::attacks::{KEYS, POOR};
use crate::guarded::{Guarded, Inside};

const ADAPTIVE: [Kind; 3] = [Kind::Broom, Kind::AdaptiveBloom, Kind::AdaptiveQuotient];
const STATIC: [Kind; 3] = [Kind::Bloom, Kind::Cuckoo, Kind::Quotient];
const KINDS: [Kind; 6] = [
    Kind::Broom,
    Kind::AdaptiveBloom,
    Kind::AdaptiveQuotient,
    Kind::Bloom,
    Kind::Cuckoo,
    Kind::Quotient,
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut claims =
        Claims(Sheet::new("adaptive", "claims", &["claim", "statement", "measured", "holds"]));
    let long = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--long"] => true,
        ["forgetting"] => return attacks::forgetting(&mut claims),
        ["levels"] => return levels::levels(&mut claims),
        ["scores"] => return scores::scores(&mut claims),
        ["soak", lookups] => return attacks::soak(lookups.parse::<f64>()? as u64, &mut claims),
        _ => bail!("adaptive [--long | forgetting | levels | scores | soak LOOKUPS]"),
    };
    fresh(if long { 2_000_000 } else { 200_000 }, &mut claims)?;
    equal(if long { 2_000_000 } else { 200_000 })?;
    space(if long { 5_000_000 } else { 300_000 }, &mut claims)?;
    sustained(&mut claims)?;
    theorems(&mut claims)?;
    levels::levels(&mut claims)?;
    attacks::replay(&mut claims)?;
    attacks::mix(&mut claims)?;
    attacks::forgetting(&mut claims)?;
    attacks::shares(&mut claims)?;
    attacks::churn(&mut claims)?;
    attacks::streams()?;
    scores::scores(&mut claims)?;
    attacks::soak(if long { 1_000_000_000 } else { 12_000_000 }, &mut claims)?;
    claims.0.finish("Claim by claim", "", "", false, Vec::new())
}

/// The table of what was claimed and what was found.
struct Claims(Sheet);

impl Claims {
    fn add(&mut self, claim: impl Display, statement: &str, measured: impl Display, holds: bool) {
        self.0.row(&[&claim, &statement, &measured, &if holds { "yes" } else { "no" }]);
    }
}

/// Four digits are enough.
fn form(number: f64) -> String {
    if number != 0.0 && number.abs() < 0.001 {
        format!("{number:.2e}")
    } else {
        format!("{number:.4}")
    }
}

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, most: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(most)) >> 64) as u64
    }

    fn share(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Strangers that were never asked for.
fn fresh(keys: u64, claims: &mut Claims) -> Result<()> {
    let columns = ["filter", "eps", "bits a key", "asked", "let in", "let in / eps", "4 sigma"];
    let mut sheet = Sheet::new("adaptive", "fresh", &columns);
    let members = hashes(1, 0, keys);
    for eps in [1.0 / 64.0, 1.0 / 256.0, 1.0 / 4096.0] {
        let asked = (4000.0 / eps) as u64;
        let four_sigma = 4.0 / (asked as f64 * eps).sqrt();
        for kind in KINDS {
            let mut guarded = Guarded::new(kind, members.clone(), eps)?;
            for chunk in 0..asked / 8192 + 1 {
                let from = chunk * 8192;
                for x in hashes(1, STRANGERS + from, (asked - from).min(8192)) {
                    guarded.ask(x)?;
                }
            }
            let rate = guarded.counts.since(&Default::default(), eps);
            let (bits, passed) = (form(guarded.bits_a_key()), guarded.counts.passed);
            let cells = [form(eps), form(rate), form(four_sigma)];
            sheet.row(&[&kind, &cells[0], &bits, &asked, &passed, &cells[1], &cells[2]]);
            if ADAPTIVE.contains(&kind) {
                let claim = format!("Def 1; fresh; {kind} 1/{}", 1.0 / eps);
                claims.add(claim, "<= eps (4 sigma)", cells[1].clone(), rate <= 1.0 + four_sigma);
            }
        }
    }
    sheet.finish("Strangers that were never asked for", "", "", false, Vec::new())
}

/// What the memory of a broom buys elsewhere: strangers that were never asked for, and nothing else.
fn equal(keys: u64) -> Result<()> {
    let columns = ["memory of a broom at", "filter", "bits a key", "asked", "let in", "rate"];
    let mut sheet = Sheet::new("adaptive", "equal", &columns);
    let members = hashes(6, 0, keys);
    for eps in [1.0 / 64.0, 1.0 / 256.0, 1.0 / 4096.0] {
        let bytes = Guarded::new(Kind::Broom, members.clone(), eps)?.filter.figures().bytes;
        let asked = (4000.0 / eps) as u64;
        for kind in KINDS.into_iter().chain([Kind::CountingQuotient]) {
            let sizing = match kind {
                Kind::Broom => Sizing::fpr(eps),
                _ => Sizing::bytes(bytes),
            };
            let mut guarded = Guarded::fitting(kind, &sizing.capacity(keys), members.clone())?;
            for chunk in 0..asked / 8192 + 1 {
                let from = chunk * 8192;
                for x in hashes(6, STRANGERS + from, (asked - from).min(8192)) {
                    guarded.ask(x)?;
                }
            }
            let passed = guarded.counts.passed;
            let cells = [eps, guarded.bits_a_key(), passed as f64 / asked as f64].map(form);
            sheet.row(&[&cells[0], &kind, &cells[1], &asked, &passed, &cells[2]]);
        }
    }
    sheet.finish("In the memory of a broom", "", "", false, Vec::new())
}

/// Theorem 2 and Lemmas 13 to 18: memory, lines, and what does not fit into bins, before and after ten
/// times as many insertions and removals as there are keys.
fn space(keys: u64, claims: &mut Claims) -> Result<()> {
    let columns = [
        "lines a bin",
        "eps",
        "when",
        "bits a key",
        "lines a stranger",
        "lines a member",
        "outside %",
        "calculated %",
        "overflow line mean",
        "most",
        "of",
        "stash",
        "entries",
    ];
    let mut sheet = Sheet::new("adaptive", "space", &columns);
    let sizes = [(1, 64, 10.5), (1, 256, 13.2), (1, 4096, 18.6)];
    let sizes = sizes.into_iter().chain([(2, 64, 9.8), (2, 256, 12.4), (2, 4096, 17.4)]);
    for (lines, power, most) in sizes {
        let eps = 1.0 / f64::from(power);
        let mut settings = Settings::default();
        settings.set("lines", lines);
        let shape: BroomShape = solve(Goal::KeysFpr { keys, fpr: eps }, &settings)?;
        let mut present = hashes(2, 0, keys);
        let mut broom = Broom::build(shape.clone(), &present[..])?;
        let planned = broom.stashed().1;
        let expected = outside(&shape) * shape.bins() as f64 / keys as f64;
        let bits = shape.figures().bits_per_key();
        let of_two = if lines == 2 { "; bins of two lines" } else { "" };
        let name = |what: &str| format!("{what} 1/{power}{of_two}");
        claims.add(name("Thm 2.3; bits a key;"), &format!("<= {most}"), form(bits), bits <= most);
        for when in ["built", "after 10 n changes"] {
            if when != "built" {
                let mut random = Random(3);
                for key in (1..=10).flat_map(|round| hashes(2, round * keys, keys)) {
                    let at = random.below(keys) as usize;
                    let old = std::mem::replace(&mut present[at], key);
                    anyhow::ensure!(broom.remove(old), "a member was denied");
                    broom.insert(key)?;
                }
                let denied = present.iter().filter(|key| !broom.contains(**key)).count();
                claims.add(name("Thm 2; churn;"), "no member denied", denied, denied == 0);
            }
            let inside = Inside::of(&broom)?;
            let share = inside.outside as f64 / keys as f64;
            let member = inside.member_lines;
            let (mean, fullest, room) = inside.fill;
            let (stash, entries) = broom.stashed();
            let cells =
                [eps, bits, inside.lines, member, 100.0 * share, 100.0 * expected, mean].map(form);
            let [eps, bits, strangers, members, share_shown, expected_shown, mean] = &cells;
            sheet.row(&[
                &lines,
                eps,
                &when,
                bits,
                strangers,
                members,
                share_shown,
                expected_shown,
                mean,
                &fullest,
                &room,
                &stash,
                &entries,
            ]);
            let what = |lemma: &str| name(&format!("{lemma}; {when};"));
            // Of bins of two lines the second is one more.
            let [no, yes] = if lines == 1 { [1.05, 1.10] } else { [2.05, 2.10] };
            let holds = inside.lines <= no;
            claims.add(what("Thm 2.1; lines a stranger"), &format!("<= {no}"), strangers, holds);
            let holds = member <= yes;
            claims.add(what("Thm 2.1; lines a member"), &format!("<= {yes}"), members, holds);
            // A key more for a bin that is full sends one outside.
            let insertion = 1.0 + if when == "built" { share } else { inside.full };
            let holds = insertion <= 1.1;
            claims.add(what("Thm 2.2; lines an insertion"), "<= 1.1", form(insertion), holds);
            let near = (share - expected).abs() <= 0.1 * expected + 5.0 / keys as f64;
            let measured = format!("{share_shown} % of {expected_shown} %");
            claims.add(what("Lemmas 13-15; outside"), "as calculated +-10 %", measured, near);
            let measured = format!("{stash} of {entries}");
            claims.add(what("Lemmas 16-17; stash"), "never grows", measured, entries == planned);
        }
    }
    sheet.finish("A broom filter's memory", "", "", false, Vec::new())
}

/// Keys of a bin that do not fit into it, the number of keys in a bin being Poisson.
fn outside(shape: &BroomShape) -> f64 {
    let load = shape.keys() as f64 / shape.bins() as f64;
    let mut chance = (-load).exp();
    let mut mean = 0.0;
    for count in 1..400 {
        chance *= load / f64::from(count);
        mean += chance * (f64::from(count) - f64::from(shape.slots())).max(0.0);
    }
    mean
}

/// Lemmas 5 to 10: fresh strangers without end. Rates in windows, what a sweep takes, what bins learn.
fn sustained(claims: &mut Claims) -> Result<()> {
    const WINDOWS: u64 = 32;
    let columns =
        ["filter", "window", "let in / eps", "sweeps", "bits learnt a key", "most in a bin"];
    let mut sheet = Sheet::new("adaptive", "sustained", &columns);
    let mut lines = Vec::new();
    for kind in ADAPTIVE {
        let mut guarded = Guarded::new(kind, hashes(3, 0, KEYS), POOR)?;
        let window = (KEYS as f64 / POOR / 8.0) as u64;
        let four_sigma = 4.0 / (window as f64 * POOR).sqrt();
        let (mut points, mut worst) = (Vec::new(), 0f64);
        let (mut bits, mut most_bits, mut most_salts) = (0.0, 0, 0);
        let mut ends = Vec::new();
        for number in 0..WINDOWS {
            let before = guarded.counts;
            for x in hashes(3, STRANGERS + number * window, window) {
                let sweeps = guarded.counts.sweeps;
                guarded.ask(x)?;
                if guarded.counts.sweeps > sweeps {
                    ends.push((guarded.counts.passed, guarded.counts.asked));
                }
            }
            let rate = guarded.counts.since(&before, POOR);
            worst = worst.max(rate);
            points.push((number as f64 / 8.0, rate));
            let mut learnt = [String::new(), String::new()];
            if kind == Kind::Broom {
                let inside = Inside::of(guarded.broom()?)?;
                let a_key = inside.bits as f64 / KEYS as f64;
                learnt = [form(a_key), inside.most_bits.to_string()];
                bits += a_key / WINDOWS as f64;
                most_bits = most_bits.max(inside.most_bits);
                most_salts = most_salts.max(inside.most_salts);
            }
            let [a_key, most] = &learnt;
            sheet.row(&[&kind, &number, &form(rate), &guarded.counts.sweeps, a_key, most]);
        }
        let counts = guarded.counts;
        let claim = format!("Lemma 7; {kind}; {} sweeps", counts.sweeps);
        claims.add(claim, "each window <= eps (4 sigma)", form(worst), worst <= 1.0 + four_sigma);
        let accesses = (counts.passed + counts.renewed) as f64 / counts.passed as f64;
        let claim = format!("Thm 2.4; {kind}; ranges read a false positive");
        claims.add(claim, "<= 1.05", form(accesses), accesses <= 1.05);
        if kind == Kind::Broom {
            // From the first beginning to the last.
            let (first, last) = (ends[0], ends[ends.len() - 1]);
            let cycles = (ends.len() - 1) as f64;
            let found = (last.0 - first.0) as f64 / cycles / KEYS as f64;
            let asked = (last.1 - first.1) as f64 / cycles / KEYS as f64 * POOR;
            let holds = (0.47..=0.501).contains(&found);
            claims.add("Lemma 5; false positives a sweep", "n/2 (n at k = 1)", form(found), holds);
            claims.add("Lemmas 9-10; queries a sweep", ">= n/2 / eps", form(asked), asked >= 0.5);
            let all = counts.rehashed as f64 / counts.passed as f64;
            claims.add("Lemma 6; bits learnt a key", "O(1): <= 0.2", form(bits), bits <= 0.2);
            claims.add("Lemma 8; most in a bin", "O(log n): <= 75", most_bits, most_bits <= 75);
            let statement = "< 63";
            claims.add("re-salts; most of a bin", statement, most_salts, most_salts < 63);
            claims.add("re-salts; a false positive", "<= 0.5", form(all), all <= 0.5);
        }
        lines.push(Line::measured(kind.to_string(), points));
    }
    let title = "New strangers without end, 10^4 keys, 1/32";
    sheet.finish(title, "queries eps / n", "let in / eps", false, lines)
}

/// Theorems 19 and 20: n queries, each repeated as long as it gets in.
fn theorems(claims: &mut Claims) -> Result<()> {
    for (power, at_least) in [(2, 3), (3, 2), (6, 1), (8, 1)] {
        let eps = f64::exp2(-f64::from(power));
        let members = hashes(4, 0, KEYS);
        let shape = AdaptiveBloomShape::for_repairs(KEYS, eps, (KEYS as f64 * eps) as u64)?;
        let filter = AdaptiveBloom::build(shape.clone(), &members[..])?;
        let mut guarded = Guarded::of(AnyFilter::AdaptiveBloom(filter), members);
        queries_of(&mut guarded, eps, claims, &format!("Thm 19; {} levels;", shape.depth()))?;
        let holds = shape.depth() >= at_least;
        let statement = format!(">= {at_least}");
        claims.add(format!("Thm 19; levels 1/{}", 1.0 / eps), &statement, shape.depth(), holds);
        let bits = guarded.bits_a_key() / f64::from(power);
        claims.add(
            format!("Thm 19; bits a key / log2(1/eps) 1/{}", 1.0 / eps),
            "O(1): <= 2.5",
            form(bits),
            bits <= 2.5,
        );
        let mut guarded = Guarded::new(Kind::AdaptiveQuotient, hashes(4, 0, KEYS), eps)?;
        queries_of(&mut guarded, eps, claims, "Thm 20;")?;
        let plain = Guarded::new(Kind::Quotient, hashes(4, 0, KEYS), eps)?.bits_a_key();
        let more = guarded.bits_a_key() - plain;
        let claim = format!("Thm 20; bits over a plain quotient filter 1/{}", 1.0 / eps);
        claims.add(claim, "o(log 1/eps): <= 1", form(more), more <= 1.0);
    }
    Ok(())
}

fn queries_of(guarded: &mut Guarded, eps: f64, claims: &mut Claims, what: &str) -> Result<()> {
    let mut random = Random(5);
    let (mut old, mut number) = (Vec::new(), 0);
    for query in 0..KEYS {
        // Half of them repeat what got in.
        let repeat = query % 2 == 1 && !old.is_empty();
        let x = if repeat {
            old[random.below(old.len() as u64) as usize]
        } else {
            number += 1;
            hashes(4, STRANGERS + number, 1)[0]
        };
        if guarded.ask(x)? {
            old.push(x);
        }
    }
    let rate = guarded.counts.since(&Default::default(), eps);
    let bound = 1.0 + 4.0 / (KEYS as f64 * eps).sqrt();
    let claim = |which: &str| format!("{what} {which} 1/{}", 1.0 / eps);
    claims.add(claim("n queries half repeated"), "<= eps (4 sigma)", form(rate), rate <= bound);
    let counts = guarded.counts;
    claims.add(claim("repairs refused"), "none", counts.impossible, counts.impossible == 0);
    let denied = guarded.denied();
    claims.add(claim("members denied"), "none", denied, denied == 0);
    Ok(())
}
