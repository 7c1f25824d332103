//! The tables and figures of "TinySet: An Access Efficient Self Adjusting Bloom Filter
//! Construction" (Einziger, Friedman, 2015), compared with the printed ones.
//!
//! `cargo run --release -p tamis-lab --bin tinyset`

mod analysis;
mod comparators;

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use analysis::{Block, array_for};
use anyhow::Result;
use comparators::{
    Blocked, Capped, LIST_ENTRY, LISTED, Probes, bloom_bits, bloom_rate, bloom_rate_with, d_left,
    rank_indexed, vi_counting,
};
use lab::{Line, STRANGERS, Sheet, hashes, share_of_yes};
use tamis::{
    Bloom, BloomShape, Build, CountingBloom, CountingBloomShape, Cuckoo, Filter, Insert, KeyHash,
    Quotient, RemovableTinySet, RemovableTinySetShape, Remove, Shape, TinySet, TinySetShape,
};

const RATES: [f64; 3] = [1e-2, 1e-3, 1e-4];
const FOLDER: &str = "tinyset";

fn main() -> Result<()> {
    table_1()?;
    table_2()?;
    table_3()?;
    table_4()?;
    table_5()?;
    table_6()?;
    overflow()?;
    figure_10()?;
    figure_11()?;
    figure_12()?;
    figure_13()?;
    figure_14()?;
    figure_15()
}

const BLOCKS: u64 = 3000;

/// Returns the measured rate of a filter with blocks of this size and `mean` keys in each.
fn measure(block: Block, mean: f64, strangers: &[KeyHash]) -> Result<f64> {
    let (bits, chains) = ((block.array + block.chains) as u64, block.chains as u64);
    let members = hashes(11, 0, (mean * BLOCKS as f64) as u64);
    let shape = TinySetShape::new(BLOCKS, bits, members.len() as u64)?.with_chains(chains)?;
    Ok(share_of_yes(&TinySet::build(shape, &members[..])?, strangers))
}

/// Returns the filter that the planner makes for `load` keys and `load` chains per block: its bits
/// per key, the rate that it states, and the measured rate.
fn by_load<F: Build>(load: u64, rate: f64, strangers: &[KeyHash]) -> Result<(f64, f64, f64)> {
    let settings = tamis::Settings::new().with("load", load).with("chains", load);
    let goal = tamis::Goal::KeysFpr { keys: load * BLOCKS, fpr: rate };
    let shape: F::Shape = tamis::plan::solve(goal, &settings)?;
    let figures = shape.figures();
    let filter = F::build(shape, &hashes(11, 0, load * BLOCKS)[..])?;
    Ok((figures.bits_per_key(), figures.fpr, share_of_yes(&filter, strangers)))
}

/// Returns the bits per key of rank-indexed hashing, the rate that it is made for and the measured
/// rate. If keys can be removed, half of them are removed and inserted again before.
fn rank(rate: f64, counter: u32, strangers: &[KeyHash]) -> Result<(f64, f64)> {
    let sizes = rank_indexed::Sizes::for_rate(rate, counter);
    let mut filter = rank_indexed::RankIndexed::new(sizes);
    let members = hashes(11, 0, filter.capacity());
    anyhow::ensure!(members.iter().all(|key| filter.insert(*key)), "it ran out of cells");
    if counter > 0 {
        let half = &members[..members.len() / 2];
        anyhow::ensure!(half.iter().all(|key| filter.remove(*key)), "a member was denied");
        anyhow::ensure!(half.iter().all(|key| filter.insert(*key)), "it ran out of cells");
    }
    anyhow::ensure!(members.iter().all(|key| filter.contains(*key)), "a member was denied");
    let yes = strangers.iter().filter(|key| filter.contains(**key)).count();
    Ok((sizes.bits(), yes as f64 / strangers.len() as f64))
}

/// Returns enough non-members to measure a rate within 3 %, up to a limit.
fn enough(rate: f64) -> Vec<KeyHash> {
    hashes(11, STRANGERS, ((2000.0 / rate) as u64).clamp(1_000_000, 4_000_000))
}

/// Measures bits per key for a fixed number of keys per block, whose size follows.
fn table_1() -> Result<()> {
    let columns =
        ["rate", "keys a block", "paper", "ours", "calculated", "rate stated", "measured"];
    let mut sheet = Sheet::new(FOLDER, "table-1", &columns);
    let paper = [
        (16, ["10.1", "15.1", "19.5"]),
        (32, ["9.5", "13.5", "17.5"]),
        (64, ["9.1", "12.8", "16.6"]),
        (128, ["9", "12.5", "16.2"]),
    ];
    for (at, rate) in RATES.into_iter().enumerate() {
        let strangers = enough(rate);
        for (keys, paper) in paper {
            let (bits, stated, measured) = by_load::<TinySet>(keys, rate, &strangers)?;
            let array = array_for(rate, keys as f64, keys as usize, false);
            let calculated = (array + keys as f64) / keys as f64;
            let cells = [two(bits), two(calculated), form(stated), form(measured)];
            sheet.row(&[&rate, &keys, &paper[at], &cells[0], &cells[1], &cells[2], &cells[3]]);
        }
        // One block with all keys has a bit for each chain, one for each end, and the record.
        let single = two(2.0 - rate.log2());
        sheet.row(&[&rate, &"all", &["8.4", "12", "15.3"][at], &"", &single, &"", &""]);
    }
    sheet.finish("Table 1: bits a key by keys a block, chains = keys", "", "", false, Vec::new())
}

/// Returns the nanoseconds per key: the median over short pieces, few of which are interrupted by
/// other load.
fn time(keys: &[KeyHash], mut work: impl FnMut(&[KeyHash])) -> f64 {
    let one = |piece: &[KeyHash]| {
        let start = Instant::now();
        work(piece);
        start.elapsed().as_secs_f64() * 1e9 / piece.len() as f64
    };
    let mut times: Vec<f64> = keys.chunks(500).map(one).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Times in nanoseconds per key while a filter fills up.
struct Filling {
    /// Insertion, at each step.
    add: Vec<f64>,
    /// Lookup of the keys of the step.
    query: Vec<f64>,
    /// Lookup of all keys in the end, one by one and in batches.
    single: f64,
    batch: f64,
}

const STEP: usize = 62_500;

fn fill<F: Build + Insert>(shape: &F::Shape, members: &[KeyHash]) -> Result<Filling> {
    let mut filter = F::build(shape.clone(), &[][..])?;
    let ask = |filter: &F, keys: &[KeyHash]| {
        time(keys, |piece| {
            black_box(piece.iter().filter(|key| filter.contains(**key)).count());
        })
    };
    let (mut add, mut query) = (Vec::new(), Vec::new());
    for keys in members.chunks(STEP) {
        add.push(time(keys, |piece| {
            piece.iter().for_each(|key| filter.insert(*key).expect("room"));
        }));
        query.push(ask(&filter, keys));
    }
    let mut out = [false; 500];
    let batch = time(members, |piece| {
        filter.contains_batch(piece, &mut out);
        black_box(&out);
    });
    Ok(Filling { add, query, single: ask(&filter, members), batch })
}

fn tiny(keys: u64, rate: f64, bits: u64) -> Result<TinySetShape> {
    let mut settings = tamis::Settings::default();
    settings.set("block", bits);
    Ok(tamis::plan::solve(tamis::Goal::KeysFpr { keys, fpr: rate }, &settings)?)
}

fn table_2() -> Result<()> {
    const KEYS: u64 = 1_000_000;
    let columns =
        ["rate", "filter", "paper: add", "paper: query", "add", "query", "query in batches"];
    let mut sheet = Sheet::new(FOLDER, "table-2", &columns);
    let members = hashes(12, 0, KEYS);
    for (at, rate) in RATES.into_iter().enumerate() {
        let bloom = fill::<Bloom>(&BloomShape::fit(KEYS, rate)?, &members)?;
        let small = fill::<TinySet>(&tiny(KEYS, rate, 256)?, &members)?;
        let usual = fill::<TinySet>(&tiny(KEYS, rate, 512)?, &members)?;
        let free = |keys: u64| -> Result<Filling> {
            let settings = tamis::Settings::new().with("load", keys).with("chains", keys);
            let goal = tamis::Goal::KeysFpr { keys: KEYS, fpr: rate };
            fill::<TinySet>(&tamis::plan::solve(goal, &settings)?, &members)
        };
        for (name, paper, filling) in [
            ("bloom", [(650, 690), (960, 980), (1330, 1290)][at], bloom),
            ("tinyset 256 (paper: 32I)", (280, 50), small),
            ("tinyset 512 (paper: 64I)", [(340, 80), (340, 80), (350, 80)][at], usual),
            ("tinyset 32I", (280, 50), free(32)?),
            ("tinyset 64I", [(340, 80), (340, 80), (350, 80)][at], free(64)?),
        ] {
            let add = filling.add.iter().sum::<f64>() / filling.add.len() as f64;
            let cells = [add, filling.single, filling.batch].map(|ns| format!("{ns:.0}"));
            sheet.row(&[&rate, &name, &paper.0, &paper.1, &cells[0], &cells[1], &cells[2]]);
        }
    }
    sheet.finish("Table 2: nanoseconds a key, 10^6 keys", "", "", false, Vec::new())
}

fn table_3() -> Result<()> {
    let columns = ["rate", "filter", "paper", "ours", "rate measured"];
    let mut sheet = Sheet::new(FOLDER, "table-3", &columns);
    const KEYS: u64 = 200_000;
    for (at, rate) in RATES.into_iter().enumerate() {
        let strangers = enough(rate);
        let (bits, _, measured) = by_load::<TinySet>(64, rate, &strangers)?;
        let paper = ["9.1", "12.8", "16.6"][at];
        sheet.row(&[&rate, &"TinySet 64I", &paper, &two(bits), &form(measured)]);
        let (bits, measured) = rank(rate, 0, &strangers)?;
        let paper = ["10.6", "14.4", "18.2"][at];
        sheet.row(&[&rate, &"rank-indexed", &paper, &two(bits), &form(measured)]);
        let bits = bloom_bits(rate);
        let k = (bits * std::f64::consts::LN_2).round() as u32;
        let shape = BloomShape::new((bits * KEYS as f64) as u64, k, KEYS)?;
        let measured = share_of_yes(&Bloom::build(shape, &hashes(11, 0, KEYS)[..])?, &strangers);
        sheet.row(&[&rate, &"bloom", &["9.6", "14.4", "19.1"][at], &two(bits), &form(measured)]);
        for (name, (bits, measured)) in [
            ("cuckoo", ours::<Cuckoo>(KEYS, rate, &strangers)?),
            ("quotient", ours::<Quotient>(KEYS, rate, &strangers)?),
        ] {
            sheet.row(&[&rate, &name, &"", &two(bits), &form(measured)]);
        }
        sheet.row(&[&rate, &"lower bound", &["6.4", "10", "13.3"][at], &two(-rate.log2()), &""]);
    }
    sheet.finish("Table 3: bits a key, keys are only added", "", "", false, Vec::new())
}

/// Returns the bits per key of a kind of tamis that is planned for the rate, and its measured rate.
fn ours<F: Build>(keys: u64, rate: f64, strangers: &[KeyHash]) -> Result<(f64, f64)> {
    let shape = F::Shape::fit(keys, rate)?;
    let bits = shape.figures().bits_per_key();
    Ok((bits, share_of_yes(&F::build(shape, &hashes(11, 0, keys)[..])?, strangers)))
}

fn table_4() -> Result<()> {
    let columns = ["rate", "filter", "paper", "ours", "rate measured", "rate calculated there"];
    let mut sheet = Sheet::new(FOLDER, "table-4", &columns);
    let members = hashes(11, 0, 24 << 13);
    for (at, rate) in RATES.into_iter().enumerate() {
        let strangers = enough(rate);
        let (bits, stated, measured) = by_load::<RemovableTinySet>(64, rate, &strangers)?;
        let cells = [two(bits), form(measured), form(stated)];
        let paper = ["9.5", "13.2", "16.9"][at];
        sheet.row(&[&rate, &"TinySet 64I", &paper, &cells[0], &cells[1], &cells[2]]);
        let (bits, measured) = rank(rate, 2, &strangers)?;
        let cells = [two(bits), form(measured), form(rate)];
        let paper = ["13", "16.8", "20.6"][at];
        sheet.row(&[&rate, &"rank-indexed", &paper, &cells[0], &cells[1], &cells[2]]);
        // Remainders have whole bits: take the rate nearest to the goal.
        let width = (24.0 / rate).log2().round() as u32;
        let (measured, _) = d_left::measure(width, &members, &strangers);
        let there = 24.0 / f64::from(width).exp2();
        sheet.row(&[
            &rate,
            &"d-left",
            &["17.6", "22.3", "26.4"][at],
            &two(d_left::bits(rate)),
            &form(measured),
            &form(there),
        ]);
        let bits = vi_counting::counters(rate).0 * vi_counting::COUNTER;
        let measured = form(vi_counting::measure(rate, &members, &strangers));
        let paper = ["25", "37.8", "50"][at];
        sheet.row(&[&rate, &"variable increments", &paper, &two(bits), &measured, &form(rate)]);
        let bits = bloom_bits(rate);
        let keys = members.len() as u64;
        let k = (bits * std::f64::consts::LN_2).round() as u32;
        let shape = CountingBloomShape::new((bits * keys as f64) as u64, k, 4, keys)?;
        let filter = CountingBloom::build(shape, &members[..])?;
        let measured = form(share_of_yes(&filter, &strangers));
        sheet.row(&[&rate, &"4-bit counting", &"", &two(4.0 * bits), &measured, &form(rate)]);
    }
    sheet.finish("Table 4: bits a key, keys may be removed", "", "", false, Vec::new())
}

fn table_5() -> Result<()> {
    let columns = [
        "rate",
        "chains",
        "keys a chain",
        "paper: bits",
        "bits",
        "calculated",
        "measured",
        "calculated: removable",
        "measured: removable",
        "4.3 as printed",
    ];
    let mut sheet = Sheet::new(FOLDER, "table-5", &columns);
    for (rate, chains, load, paper) in [
        (1e-2, 80, 0.7, "9.1"),
        (1e-2, 64, 0.87, "9.2"),
        (1e-3, 64, 0.61, "13.1"),
        (1e-4, 64, 0.45, "17.7"),
    ] {
        fixed_block(&mut sheet, 512, rate, chains, load, paper)?;
    }
    sheet.finish("Table 5: blocks of 64 bytes", "", "", false, Vec::new())
}

/// Adds a row of tables 5 and 6.
fn fixed_block(
    sheet: &mut Sheet,
    bits: u64,
    rate: f64,
    chains: usize,
    load: f64,
    paper: &str,
) -> Result<()> {
    const BLOCKS: u64 = 20_000;
    let strangers = enough(rate);
    let mean = load * chains as f64;
    let keys = (mean * BLOCKS as f64) as u64;
    let array = bits as usize - chains;
    let plain = Block { array, chains, removable: false };
    let removable = Block { array: array - 1, chains, removable: true };
    let members = hashes(11, 0, keys);
    let shape = TinySetShape::new(BLOCKS, bits, keys)?.with_chains(chains as u64)?;
    let measured = share_of_yes(&TinySet::build(shape, &members[..])?, &strangers);
    let shape = RemovableTinySetShape::new(BLOCKS, bits, keys)?.with_chains(chains as u64)?;
    let filter = RemovableTinySet::build(shape, &members[..])?;
    let measured = [measured, share_of_yes(&filter, &strangers)];
    sheet.row(&[
        &rate,
        &chains,
        &load,
        &paper,
        &two(bits as f64 / mean),
        &form(plain.mean_rate(mean)),
        &form(measured[0]),
        &form(removable.mean_rate(mean)),
        &form(measured[1]),
        &form(plain.printed_rate(mean)),
    ]);
    Ok(())
}

fn table_6() -> Result<()> {
    let columns = [
        "rate",
        "chains",
        "keys a chain",
        "paper: bits",
        "bits",
        "calculated",
        "measured",
        "calculated: removable",
        "measured: removable",
        "4.3 as printed",
    ];
    let mut sheet = Sheet::new(FOLDER, "table-6", &columns);
    for (rate, load, paper) in [(1e-2, 0.84, "9.5"), (1e-3, 0.57, "14"), (1e-4, 0.41, "19.6")] {
        fixed_block(&mut sheet, 256, rate, 32, load, paper)?;
    }
    sheet.finish("Table 6: blocks of 32 bytes", "", "", false, Vec::new())?;
    let columns = [
        "rate",
        "filter",
        "probes",
        "paper",
        "calculated",
        "with its list",
        "k",
        "rate measured",
        "listed",
    ];
    let mut sheet = Sheet::new(FOLDER, "table-6-others", &columns);
    let members = hashes(11, 0, 500_000);
    for (at, rate) in RATES.into_iter().enumerate() {
        let strangers = enough(rate);
        for (name, balanced, paper) in [
            ("balanced", true, ["10.4", "17", "24"][at]),
            ("blocked", false, ["10.9", "17.4", "27.5"][at]),
        ] {
            for (how, probes) in [("Bloom's", Probes::Bloom), ("best", Probes::Best)] {
                let filter = Blocked::for_rate(rate, probes, balanced);
                let (measured, listed) = filter.measure(&members, &strangers);
                let list = if balanced { LISTED * LIST_ENTRY } else { 0.0 };
                sheet.row(&[
                    &rate,
                    &name,
                    &how,
                    &paper,
                    &two(filter.bits),
                    &two(filter.bits + list),
                    &filter.k,
                    &form(measured),
                    &format!("{listed:.4}"),
                ]);
            }
        }
    }
    sheet.finish("Table 6: the others in blocks of 32 bytes", "", "", false, Vec::new())
}

/// Measures what the overflow list of balanced filters, which sections 2.1 and 5.4 suggest, saves in
/// TinySet.
fn overflow() -> Result<()> {
    let columns =
        ["rate", "bits a block", "without list", "with list", "cap", "listed", "rate measured"];
    let mut sheet = Sheet::new(FOLDER, "overflow", &columns);
    for bits in [256, 512] {
        for rate in RATES {
            let without = Capped::for_rate(rate, bits, false);
            let with = Capped::for_rate(rate, bits, true);
            let (measured, listed) = with.measure(bits as u64, &enough(rate))?;
            let cells = [two(without.bits), two(with.bits), format!("{listed:.4}")];
            let [plain, list, listed] = &cells;
            sheet.row(&[&rate, &bits, plain, list, &with.cap, listed, &form(measured)]);
        }
    }
    sheet.finish("An overflow list: bits a key, its entries included", "", "", false, Vec::new())
}

/// Measures rate against bits per key for a fixed number of keys per block.
fn figure_10() -> Result<()> {
    let columns = ["bits a key", "16I", "32I", "64I", "128I", "64I measured", "bloom"];
    let mut sheet = Sheet::new(FOLDER, "figure-10", &columns);
    let sizes = [16, 32, 64, 128];
    let mut lines = vec![Vec::new(); 6];
    for bits in 6..=18 {
        let block =
            |keys: usize| Block { array: (bits - 1) * keys, chains: keys, removable: false };
        let mut row: Vec<f64> = sizes.map(|keys| block(keys).mean_rate(keys as f64)).to_vec();
        row.push(measure(block(64), 64.0, &enough(row[2]))?);
        row.push(bloom_rate(bits as f64));
        lines.iter_mut().zip(&row).for_each(|(line, rate)| line.push((bits as f64, *rate)));
        let cells: Vec<String> = row.into_iter().map(form).collect();
        sheet.row(&[&bits, &cells[0], &cells[1], &cells[2], &cells[3], &cells[4], &cells[5]]);
    }
    let mut lines = lines.into_iter();
    let mut next = || lines.next().unwrap_or_default();
    let plots = vec![
        Line::calculated("16 keys a block", next()),
        Line::calculated("32", next()),
        Line::calculated("64", next()),
        Line::calculated("128", next()),
        Line::measured("64, measured", next()),
        Line::calculated("bloom", next()),
    ];
    sheet.finish(
        "Figure 10: rate by keys a block",
        "bits a key",
        "false positive rate",
        true,
        plots,
    )
}

/// Measures the time of 62,500 operations while 10^6 keys are inserted, at 0.1 %.
fn figure_11() -> Result<()> {
    const KEYS: u64 = 1_000_000;
    let members = hashes(13, 0, KEYS);
    let columns =
        ["keys", "bloom add", "256 add", "512 add", "bloom query", "256 query", "512 query"];
    let mut sheet = Sheet::new(FOLDER, "figure-11", &columns);
    let fillings = [
        fill::<Bloom>(&BloomShape::fit(KEYS, 1e-3)?, &members)?,
        fill::<TinySet>(&tiny(KEYS, 1e-3, 256)?, &members)?,
        fill::<TinySet>(&tiny(KEYS, 1e-3, 512)?, &members)?,
    ];
    let [bloom, small, usual] = &fillings;
    let lines = [
        ("bloom: add", &bloom.add),
        ("tinyset 256: add", &small.add),
        ("tinyset 512: add", &usual.add),
        ("bloom: query", &bloom.query),
        ("tinyset 256: query", &small.query),
        ("tinyset 512: query", &usual.query),
    ];
    for step in 0..bloom.add.len() {
        let cells = lines.map(|(_, times)| format!("{:.0}", times[step]));
        let keys = (step + 1) * STEP;
        sheet.row(&[&keys, &cells[0], &cells[1], &cells[2], &cells[3], &cells[4], &cells[5]]);
    }
    let lines = lines.map(|(name, times)| {
        let points = times.iter().enumerate();
        Line::measured(name, points.map(|(i, ns)| ((i + 1) as f64 * STEP as f64, *ns)).collect())
    });
    let lines = lines.into_iter().collect();
    sheet.finish("Figure 11: time while filling up, at 0.1 %", "keys", "ns a key", false, lines)
}

/// Compares analysis, measurement and Bloom for 40 keys per block of 64 chains.
fn figure_12() -> Result<()> {
    let columns = ["bits a key", "calculated", "measured", "bloom", "bloom / calculated"];
    let mut sheet = Sheet::new(FOLDER, "figure-12", &columns);
    let mut lines = vec![Vec::new(); 3];
    for tenths in [60, 65, 70, 71, 75, 79, 85, 90, 100, 110, 120, 130, 140, 150, 160, 170, 180, 190]
    {
        let bits = f64::from(tenths) / 10.0;
        let block =
            Block { array: (bits * 40.0).round() as usize - 64, chains: 64, removable: false };
        let calculated = block.mean_rate(40.0);
        let row = [calculated, measure(block, 40.0, &enough(calculated))?, bloom_rate(bits)];
        lines.iter_mut().zip(row).for_each(|(line, rate)| line.push((bits, rate)));
        let cells = row.map(form);
        sheet.row(&[&bits, &cells[0], &cells[1], &cells[2], &two(row[2] / calculated)]);
    }
    let mut lines = lines.into_iter();
    let mut next = || lines.next().unwrap_or_default();
    let plots = vec![
        Line::calculated("TinySet, calculated", next()),
        Line::measured("TinySet, measured", next()),
        Line::calculated("bloom", next()),
    ];
    sheet.finish("Figure 12: 40 keys a block", "bits a key", "false positive rate", true, plots)
}

/// Compares blocks of fixed size with Bloom, blocked and balanced filters.
fn figure_13() -> Result<()> {
    let columns =
        ["bits a key", "tinyset 512", "tinyset 256", "bloom", "blocked", "balanced and list"];
    let mut sheet = Sheet::new(FOLDER, "figure-13", &columns);
    let (members, strangers) = (hashes(14, 0, 500_000), hashes(14, STRANGERS, 2_000_000));
    let mut lines = vec![Vec::new(); 5];
    for bits in (8..=20).step_by(2) {
        let wide = bits as f64;
        let filter = |block: u64| -> Result<f64> {
            let keys = members.len() as u64;
            let shape = TinySetShape::new(keys * bits / block, block, keys)?;
            Ok(share_of_yes(&TinySet::build(shape, &members[..])?, &strangers))
        };
        let others = |balanced: bool| {
            let list = if balanced { LISTED * LIST_ENTRY } else { 0.0 };
            Blocked::with(wide - list, Probes::Best, balanced).measure(&members, &strangers).0
        };
        let shape = BloomShape::new(
            bits * 500_000,
            (wide * std::f64::consts::LN_2).round() as u32,
            500_000,
        )?;
        let bloom = share_of_yes(&Bloom::build(shape, &members[..])?, &strangers);
        let row = [filter(512)?, filter(256)?, bloom, others(false), others(true)];
        lines.iter_mut().zip(row).for_each(|(line, rate)| line.push((wide, rate)));
        let cells = row.map(form);
        sheet.row(&[&bits, &cells[0], &cells[1], &cells[2], &cells[3], &cells[4]]);
    }
    let labels = [
        "tinyset, 512 bits",
        "tinyset, 256 bits",
        "bloom",
        "blocked, 256 bits",
        "balanced, 256 bits",
    ];
    let plots = labels.into_iter().zip(lines).map(|(label, points)| Line::measured(label, points));
    sheet.finish(
        "Figure 13: blocks of fixed size",
        "bits a key",
        "false positive rate",
        true,
        plots.collect(),
    )
}

/// Measures 1000 blocks sized for 38,000 keys and filled beyond that.
fn figure_14() -> Result<()> {
    const BLOCKS: u64 = 1000;
    const PROBES: u32 = 9;
    let columns =
        ["keys", "tinyset stated", "tinyset measured", "bloom calculated", "bloom measured"];
    let mut sheet = Sheet::new(FOLDER, "figure-14", &columns);
    let strangers = hashes(15, STRANGERS, 2_000_000);
    let shape = TinySetShape::new(BLOCKS, 512, 38_000)?;
    let mut tiny = TinySet::new(shape.clone())?;
    let mut bloom = Bloom::new(BloomShape::new(BLOCKS * 512, PROBES, 1_000_000)?)?;
    let mut lines = vec![Vec::new(); 4];
    let mut before = 0;
    for keys in (20_000..=90_000).step_by(2_000) {
        for key in hashes(15, before, keys - before) {
            tiny.insert(key)?;
            bloom.insert(key)?;
        }
        before = keys;
        let row = [
            shape.fpr_at(tiny.len()),
            share_of_yes(&tiny, &strangers),
            bloom_rate_with(BLOCKS as f64 * 512.0 / keys as f64, PROBES as i32),
            share_of_yes(&bloom, &strangers),
        ];
        lines.iter_mut().zip(row).for_each(|(line, rate)| line.push((keys as f64, rate)));
        let cells = row.map(form);
        sheet.row(&[&keys, &cells[0], &cells[1], &cells[2], &cells[3]]);
    }
    let mut lines = lines.into_iter();
    let mut next = || lines.next().unwrap_or_default();
    let plots = vec![
        Line::calculated("tinyset, stated", next()),
        Line::measured("tinyset, measured", next()),
        Line::calculated("bloom, calculated", next()),
        Line::measured("bloom, measured", next()),
    ];
    sheet.finish(
        "Figure 14: past the load it is made for",
        "keys",
        "false positive rate",
        true,
        plots,
    )
}

/// Measures slots that are freed and kept, as a fraction of the keys, while keys are inserted and
/// removed.
fn figure_15() -> Result<()> {
    const BLOCKS: u64 = 2000;
    let columns =
        ["keys a block", "removed", "oldest first", "at random", "paper", "denied", "rate"];
    let mut sheet = Sheet::new(FOLDER, "figure-15", &columns);
    let mut plots = Vec::new();
    for mean in [39, 44, 56] {
        let keys = BLOCKS * mean;
        let run = |oldest_first: bool| -> Result<Vec<(u64, f64, usize, f64)>> {
            let shape = RemovableTinySetShape::new(BLOCKS, 512, keys)?;
            let all = hashes(16, 0, 11 * keys);
            let mut filter = RemovableTinySet::build(shape, &all[..keys as usize])?;
            let mut live: VecDeque<KeyHash> = all[..keys as usize].iter().copied().collect();
            let strangers = hashes(16, STRANGERS, 200_000);
            let mut rows = Vec::new();
            for (step, key) in (1..).zip(&all[keys as usize..]) {
                filter.insert(*key)?;
                live.push_back(*key);
                if !oldest_first {
                    live.swap(0, ((u128::from(key.hi) * u128::from(keys)) >> 64) as usize);
                }
                let gone = live.pop_front().expect("there are keys");
                anyhow::ensure!(filter.remove(gone), "a member was denied");
                if step % (keys / 4) == 0 {
                    let freed = filter.slots() as f64 / keys as f64 - 1.0;
                    let denied = live.iter().filter(|key| !filter.contains(**key)).count();
                    let percent = step * 100 / keys;
                    rows.push((percent, freed * 100.0, denied, share_of_yes(&filter, &strangers)));
                }
            }
            Ok(rows)
        };
        let (oldest, random) = (run(true)?, run(false)?);
        let points = |rows: &[(u64, f64, usize, f64)]| {
            rows.iter().map(|row| (row.0 as f64, row.1)).collect::<Vec<_>>()
        };
        plots.push(Line::measured(format!("{mean} keys a block, oldest first"), points(&oldest)));
        plots.push(Line::measured(format!("{mean} keys a block, at random"), points(&random)));
        for (oldest, random) in oldest.iter().zip(&random) {
            let paper = match oldest.0 {
                50 => "11",
                100 => "16",
                1000 => "35",
                200 | 500 => "",
                _ => continue,
            };
            let cells = [format!("{:.1}", oldest.1), format!("{:.1}", random.1)];
            let percent = format!("{} %", oldest.0);
            let denied = oldest.2 + random.2;
            sheet.row(&[&mean, &percent, &cells[0], &cells[1], &paper, &denied, &form(random.3)]);
        }
    }
    sheet.finish(
        "Figure 15: freed slots, in percent of the keys",
        "keys removed, in percent of the keys",
        "freed slots, in percent of the keys",
        false,
        plots,
    )
}

fn form(rate: f64) -> String {
    format!("{rate:.2e}")
}

fn two(number: f64) -> String {
    format!("{number:.2}")
}
