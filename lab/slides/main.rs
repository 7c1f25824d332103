//! Measures what "Approximate Membership Queries" (Madeira, 2022) states.
//!
//! `cargo run --release -p tamis-lab --bin slides`

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use lab::{Entrant, Line, STRANGERS, Sheet, build_times, entrant, hashes, share_of_yes};
use tamis::{
    BinaryFuse, Bloom, BloomShape, Build, CountingBloom, CountingBloomShape, CountingQuotient,
    CountingQuotientShape, Cuckoo, Filter, Goal, Insert, KeyHash, Quotient, QuotientShape, Remove,
    SetOps, Shape, Xor,
};
use tamis_bench::{Contender, Keys, Metric, measure};

const KEYS: u64 = 1_000_000;

fn main() -> Result<()> {
    rate_by_k()?;
    overflow()?;
    deletion()?;
    similarity()?;
    quotient_size()?;
    quotient_speed()?;
    xor_size()?;
    xor_speed()
}

/// Measures false positives against the number of bits that a key sets, at 8 bits of memory per
/// key.
fn rate_by_k() -> Result<()> {
    let columns = ["k", "slides", "textbook", "exact", "measured"];
    let mut sheet = Sheet::new("slides", "rate-by-k", &columns);
    let members = hashes(1, 0, KEYS);
    let strangers = hashes(1, STRANGERS, 4 * KEYS);
    let (mut textbook_line, mut measured_line) = (Vec::new(), Vec::new());
    for k in 1..=16 {
        let shape = BloomShape::new(8 * KEYS, k, KEYS)?;
        let textbook = (1.0 - (-f64::from(k) / 8.0).exp()).powi(k.cast_signed());
        let exact = shape.figures().fpr;
        let measured = share_of_yes(&Bloom::build(shape, &members[..])?, &strangers);
        let slides = match k {
            1 => "0.1175",
            2 => "0.0493",
            _ => "",
        };
        sheet.row(&[
            &k,
            &slides,
            &format!("{textbook:.4}"),
            &format!("{exact:.4}"),
            &format!("{measured:.4}"),
        ]);
        textbook_line.push((f64::from(k), textbook));
        measured_line.push((f64::from(k), measured));
    }
    sheet.finish(
        "False positives against bits set a key, 8 bits of memory a key",
        "bits set a key (k)",
        "false positive rate",
        true,
        vec![
            Line::calculated("textbook", textbook_line),
            Line::measured("measured", measured_line),
        ],
    )?;
    println!("\n  the best k is 8 ln 2 = {:.2}", 8.0 * std::f64::consts::LN_2);
    Ok(())
}

/// Compares the calculated and measured fraction of saturated counters, by width, in a filter of 1
/// %.
fn overflow() -> Result<()> {
    let columns =
        ["bits", "largest count", "calculated fraction full", "measured fraction full", "counters"];
    let mut sheet = Sheet::new("slides", "counter-overflow", &columns);
    let (mut calculated_line, mut measured_line) = (Vec::new(), Vec::new());
    for width in 2..=6u32 {
        let shape = CountingBloomShape::new(9_585_059, 7, width, KEYS)?;
        let counters = shape.counters();
        let most = (1u32 << width) - 1;
        let calculated = shape.stuck(KEYS);
        let filter = CountingBloom::build(shape, &hashes(2, 0, KEYS)[..])?;
        let measured = filter.stuck() as f64 / counters as f64;
        let cells = [format!("{calculated:.3e}"), format!("{measured:.3e}")];
        sheet.row(&[&width, &most, &cells[0], &cells[1], &counters]);
        calculated_line.push((f64::from(width), calculated));
        if measured > 0.0 {
            measured_line.push((f64::from(width), measured));
        }
    }
    sheet.finish(
        "Counters that are full, in a counting Bloom filter of 1 %",
        "bits a counter",
        "fraction of counters",
        true,
        vec![
            Line::calculated("Poisson tail", calculated_line),
            Line::measured("measured", measured_line),
        ],
    )
}

/// Counts members denied after half of the members were deleted, by counter width.
fn deletion() -> Result<()> {
    let mut sheet = Sheet::new(
        "slides",
        "deletion",
        &["bits", "deleted", "members left", "denied", "still said yes to"],
    );
    let keys = hashes(3, 0, KEYS);
    let (gone, left) = keys.split_at(keys.len() / 2);
    for width in [2, 3, 4, 8] {
        let mut filter =
            CountingBloom::build(CountingBloomShape::new(9_585_059, 7, width, KEYS)?, &keys[..])?;
        for key in gone {
            filter.remove(*key);
        }
        let denied = left.iter().filter(|key| !filter.contains(**key)).count();
        let stays = share_of_yes(&filter, gone);
        sheet.row(&[&width, &gone.len(), &left.len(), &denied, &format!("{stays:.5}")]);
    }
    sheet.finish("Deleting members never denies another", "", "", false, Vec::new())
}

/// Compares the normalised dot product of two filters with the similarity of their sets.
fn similarity() -> Result<()> {
    const WORDS: u64 = 2_000;
    let mut sheet = Sheet::new(
        "slides",
        "similarity",
        &["words in common", "cosine of the sets", "dot product of the filters"],
    );
    let (mut sets, mut filters) = (Vec::new(), Vec::new());
    let filter = |from: u64| -> Result<Bloom> {
        let mut filter = Bloom::new(BloomShape::fit(WORDS, 0.001)?)?;
        filter.insert_batch(&hashes(4, from, WORDS))?;
        Ok(filter)
    };
    let first = filter(0)?;
    for tenth in 0..=10 {
        let common = WORDS * tenth / 10;
        let similarity = first.similarity(&filter(WORDS - common)?)?;
        let cosine = common as f64 / WORDS as f64;
        sheet.row(&[&common, &format!("{cosine:.1}"), &format!("{similarity:.3}")]);
        sets.push((cosine, cosine));
        filters.push((cosine, similarity));
    }
    sheet.finish(
        "Similarity of two texts of 2000 words, from their Bloom filters",
        "fraction of words in common",
        "normalised dot product",
        false,
        vec![Line::calculated("of the sets", sets), Line::measured("of the filters", filters)],
    )
}

/// Compares bits per key of quotient filters with those of a Bloom filter of the same rate.
fn quotient_size() -> Result<()> {
    /// Slots of the table. The number of keys sets the load factor.
    const SLOTS: u32 = 20;
    let columns = [
        "bits of a remainder",
        "load",
        "rate stated",
        "rate measured",
        "Bloom bits a key",
        "quotient bits a key",
        "quotient / Bloom",
        "counting_quotient / Bloom",
    ];
    let mut sheet = Sheet::new("slides", "quotient-size", &columns);
    let mut lines = Vec::new();
    let strangers = hashes(5, STRANGERS, 4 * KEYS);
    let mut compact = Vec::new();
    for (label, hundredths) in [("90 % full", 90), ("75 % full", 75), ("46 % full", 46)] {
        let keys = (1u64 << SLOTS) * hundredths / 100;
        let members = hashes(5, 0, keys);
        let mut line = Vec::new();
        for remainder in [4, 6, 8, 10, 12, 14, 16] {
            let filter =
                Quotient::build(QuotientShape::new(SLOTS, remainder, keys)?, &members[..])?;
            let figures = filter.shape().figures();
            let bloom = BloomShape::fit(keys, figures.fpr)?.figures().bits_per_key();
            let counting =
                CountingQuotientShape::fit(keys, figures.fpr)?.figures().bits_per_key() / bloom;
            let ratio = figures.bits_per_key() / bloom;
            sheet.row(&[
                &remainder,
                &format!("0.{hundredths}"),
                &format!("{:.3e}", figures.fpr),
                &format!("{:.3e}", share_of_yes(&filter, &strangers)),
                &format!("{bloom:.2}"),
                &format!("{:.2}", figures.bits_per_key()),
                &format!("{ratio:.2}"),
                &format!("{counting:.2}"),
            ]);
            line.push((-figures.fpr.log2(), ratio));
            if hundredths == 90 {
                compact.push((-figures.fpr.log2(), counting));
            }
        }
        lines.push(Line::measured(format!("quotient, {label}"), line));
    }
    lines.push(Line::measured("counting_quotient", compact));
    lines.push(Line::calculated("the slides' 20 %", vec![(4.0, 1.2), (17.0, 1.2)]));
    sheet.finish(
        "Memory of quotient filters over that of a Bloom filter of the same rate",
        "rate, as log2 of its inverse",
        "quotient / Bloom",
        false,
        lines,
    )
}

/// Measures operations per second, one at a time, as a filter fills. The three filters alternate,
/// and each time is the median over short pieces, so that other load on the machine disturbs few of
/// them.
fn quotient_speed() -> Result<()> {
    const ROUNDS: u64 = 3;
    const TENTHS: u64 = 10;
    const QUERIES: usize = 1 << 15;
    let columns = [
        "fraction of the keys in",
        "operation",
        "bloom",
        "quotient",
        "counting_quotient",
        "quotient / bloom",
        "counting_quotient / bloom",
    ];
    let mut sheet = Sheet::new("slides", "quotient-speed", &columns);
    let keys = (1u64 << 22) * 9 / 10;
    let quotient = QuotientShape::new(22, 8, keys)?;
    let fpr = quotient.figures().fpr;
    let (bloom, counting) = (BloomShape::fit(keys, fpr)?, CountingQuotientShape::fit(keys, fpr)?);
    // Seconds per operation in each piece, by tenth and operation, then by filter.
    let mut times = vec![[const { Vec::new() }; 3]; 3 * TENTHS as usize];
    for round in 0..ROUNDS {
        let (members, strangers) =
            (hashes(6 + round, 0, keys), hashes(6 + round, STRANGERS, QUERIES as u64));
        let mut each: [Box<dyn Step>; 3] = [
            Box::new(Bloom::new(bloom.clone())?),
            Box::new(Quotient::new(quotient.clone())?),
            Box::new(CountingQuotient::new(counting.clone())?),
        ];
        for (tenth, new) in members.chunks(members.len().div_ceil(TENTHS as usize)).enumerate() {
            let known = (tenth + 1) * new.len();
            let hits: Vec<KeyHash> =
                (0..QUERIES).map(|i| members[i.wrapping_mul(7919) * 31 % known]).collect();
            for turn in 0..3 {
                let kind = (turn + round as usize) % 3;
                let seconds = each[kind].step(new, &hits, &strangers)?;
                for (operation, seconds) in seconds.into_iter().enumerate() {
                    times[3 * tenth + operation][kind].extend(seconds);
                }
            }
        }
    }
    let mut lines = vec![Vec::new(); 6];
    for (row, kinds) in times.iter_mut().enumerate() {
        let operation = ["insert", "look up a member", "look up a non-member"][row % 3];
        let share = (row / 3 + 1) as f64 / TENTHS as f64;
        let rates = kinds.each_mut().map(|seconds| {
            seconds.sort_by(f64::total_cmp);
            1e-6 / seconds[seconds.len() / 2]
        });
        sheet.row(&[
            &format!("{share:.1}"),
            &operation,
            &format!("{:.1}", rates[0]),
            &format!("{:.1}", rates[1]),
            &format!("{:.1}", rates[2]),
            &format!("{:.2}", rates[1] / rates[0]),
            &format!("{:.2}", rates[2] / rates[0]),
        ]);
        lines[row % 3].push((share, rates[1] / rates[0]));
        lines[3 + row % 3].push((share, rates[2] / rates[0]));
    }
    let labels = [
        "quotient, insert",
        "quotient, hit",
        "quotient, miss",
        "counting_quotient, insert",
        "counting_quotient, hit",
        "counting_quotient, miss",
    ];
    let mut lines: Vec<Line> =
        labels.into_iter().zip(lines).map(|(label, line)| Line::measured(label, line)).collect();
    lines.push(Line::calculated("the slides, insert", vec![(0.1, 3.48), (1.0, 3.48)]));
    lines.push(Line::calculated("the slides, lookup", vec![(0.1, 1.05), (1.0, 1.05)]));
    sheet.finish(
        "Speed of quotient filters over that of a Bloom filter of the same rate",
        "fraction of the keys inserted",
        "operations a second, over Bloom's",
        false,
        lines,
    )
}

/// A filter whose operations are timed.
trait Step {
    /// Inserts keys, looks up members, looks up non-members, and returns the seconds per operation
    /// of each in every piece.
    fn step(
        &mut self,
        new: &[KeyHash],
        hits: &[KeyHash],
        strangers: &[KeyHash],
    ) -> Result<[Vec<f64>; 3]>;
}

impl<F: Insert> Step for F {
    fn step(
        &mut self,
        new: &[KeyHash],
        hits: &[KeyHash],
        strangers: &[KeyHash],
    ) -> Result<[Vec<f64>; 3]> {
        let inserted = pieces(new, |keys| Ok(keys.iter().try_for_each(|key| self.insert(*key))?));
        let ask = |keys| {
            pieces(keys, |keys| {
                black_box(keys.iter().filter(|key| self.contains(**key)).count());
                Ok(())
            })
        };
        Ok([inserted?, ask(hits)?, ask(strangers)?])
    }
}

/// Returns the seconds per key that `work` takes, for each 1024 keys.
fn pieces(keys: &[KeyHash], mut work: impl FnMut(&[KeyHash]) -> Result<()>) -> Result<Vec<f64>> {
    let time = |keys: &[KeyHash]| {
        let start = Instant::now();
        work(keys)?;
        Ok(start.elapsed().as_secs_f64() / keys.len() as f64)
    };
    keys.chunks(1024).map(time).collect()
}

/// A filter, and the memory over the bound that the slides state.
type Stated = (Box<dyn Entrant>, Option<f64>);

/// Returns the filters of the xor and binary fuse papers and those that they compare with, at 2^-8.
fn late(keys: u64) -> Result<Vec<Stated>> {
    let goal = Goal::KeysFpr { keys, fpr: 1.0 / 256.0 };
    Ok(vec![
        (entrant::<Xor>("xor", goal, &[])?, Some(0.23)),
        (entrant::<BinaryFuse>("binary_fuse 3", goal, &[])?, Some(0.13)),
        (entrant::<BinaryFuse>("binary_fuse 4", goal, &[("arity", "4")])?, Some(0.08)),
        (entrant::<Xor>("xor plus", goal, &[("plus", "1")])?, None),
        (entrant::<Bloom>("bloom", goal, &[])?, Some(0.44)),
        (entrant::<Cuckoo>("cuckoo", goal, &[])?, None),
    ])
}

/// Measures memory over the bound, by the number of keys.
fn xor_size() -> Result<()> {
    let columns = ["keys", "filter", "slides", "bits a key", "over the bound"];
    let mut sheet = Sheet::new("slides", "xor-size", &columns);
    let mut lines = Vec::new();
    for power in 2..=8u32 {
        for (i, (entrant, slides)) in late(10u64.pow(power))?.into_iter().enumerate() {
            let over = entrant.over();
            sheet.row(&[
                &format!("1e{power}"),
                &entrant.name(),
                &slides.map_or(String::new(), |over| over.to_string()),
                &format!("{:.3}", entrant.figures().bits_per_key()),
                &format!("{over:.3}"),
            ]);
            if lines.len() == i {
                lines.push((entrant.name().to_owned(), Vec::new()));
            }
            lines[i].1.push((f64::from(power), 100.0 * over));
        }
    }
    let mut lines: Vec<Line> =
        lines.into_iter().map(|(name, line)| Line::measured(name, line)).collect();
    for percent in [23.0, 13.0, 8.0] {
        let line = vec![(2.0, percent), (8.0, percent)];
        lines.push(Line::calculated(format!("the slides' {percent} %"), line));
    }
    sheet.finish(
        "Memory over the bound at a rate of 2^-8",
        "keys, as log10",
        "per cent",
        false,
        lines,
    )
}

/// Measures the time over the xor filter's and the false positive rate. The filters alternate, and
/// the build time is processor time.
fn xor_speed() -> Result<()> {
    const ROUNDS: usize = 31;
    let columns = [
        "keys",
        "filter",
        "rate measured",
        "build / xor",
        "member / xor",
        "non-member / xor",
        "member in a batch / xor",
        "non-member in a batch / xor",
    ];
    let mut sheet = Sheet::new("slides", "xor-speed", &columns);
    let mut lines = Vec::new();
    for power in 4..=7u32 {
        let entrants: Vec<Box<dyn Entrant>> =
            late(10u64.pow(power))?.into_iter().map(|(entrant, _)| entrant).collect();
        let builds = build_times(&entrants)?;
        let contenders: Vec<Box<dyn Contender>> =
            entrants.into_iter().map(|entrant| entrant as Box<dyn Contender>).collect();
        let keys = Keys::new(10u64.pow(power), 1.0 / 256.0, ROUNDS, 10);
        let outcomes = measure(&contenders, &keys, ROUNDS, &|| ())?;
        for (i, outcome) in outcomes.iter().enumerate() {
            let build = builds[i] / builds[0];
            let [_, hit, miss, hits, misses] = Metric::ALL.map(|metric| {
                let ratio = outcome.ratio(metric, &outcomes[0], metric);
                ratio.map_or(String::new(), |ratio| format!("{:.2}", ratio.median))
            });
            let rate = outcome.fpr.map_or(String::new(), |fpr| format!("{fpr:.3e}"));
            let (keys, times) = (format!("1e{power}"), format!("{build:.2}"));
            sheet.row(&[&keys, &outcome.name, &rate, &times, &hit, &miss, &hits, &misses]);
            if lines.len() == i {
                lines.push((outcome.name.clone(), Vec::new()));
            }
            lines[i].1.push((f64::from(power), build));
        }
    }
    let mut lines: Vec<Line> =
        lines.into_iter().map(|(name, line)| Line::measured(name, line)).collect();
    lines.push(Line::calculated("the slides' half", vec![(4.0, 0.5), (7.0, 0.5)]));
    sheet.finish(
        "Time to build at a rate of 2^-8, over that of the xor filter",
        "keys, as log10",
        "time / xor's",
        false,
        lines,
    )
}
