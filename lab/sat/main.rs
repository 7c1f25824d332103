//! SAT filters: Tables 2 to 5 and Figure 1 of "Satisfiability-based Set Membership Filters"
//! (Weaver, Ray, Marek, Mayer and Walker, 2014), and a comparison with other filters.
//!
//! `cargo run --release -p tamis-lab --bin sat` takes some minutes. With `-- --long` it also builds
//! the cells of Table 2 that take longer than a few seconds, and queries 2^27 non-members instead
//! of 2^24. The name of a part, as in `-- table-2`, selects that part.
//! `... --bin sat -- CONSTRUCTION K LOG2_KEYS EFFICIENCY` measures one filter for a rate of 1/4.

mod outside;
mod paper;

use std::hint::black_box;
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use lab::{Line, STRANGERS, Sheet, hashes, processor_time};
use tamis::filters::sat::{Construction, Sat, SatShape};
use tamis::{
    AnyFilter, Bloom, BloomShape, Build, BuildOptions, Filter, KeyHash, Kind, Settings, Shape,
    Sizing, given,
};

use paper::{EFFICIENCIES, PLANES, TABLE_2, TABLE_3, TABLE_4, TABLE_5};

/// Salt of the hashes of the keys, which are integers.
const SALT: u64 = 17;
/// Highest efficiencies of Table 2, for k = 3 to 6, that build within seconds. Those above need
/// `--long`.
const QUICK: [f64; 4] = [0.79, 0.85, 0.85, 0.79];

const NAMES: [(&str, Construction); 4] = [
    ("sliced", Construction::Sliced),
    ("multi", Construction::Multi),
    ("single", Construction::Single),
    ("nae", Construction::Nae),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let [name, k, log_keys, efficiency] = words[..] {
        let known = NAMES.into_iter().find(|known| known.0 == name);
        let (_, construction) = known.context("expected sliced, multi, single or nae")?;
        let k = k.parse()?;
        let made = Made::new(construction, k, log_keys.parse()?, efficiency.parse()?)?;
        println!("{:.3} s, {}, {:?}", made.seconds, made.row(1 << 22).join(", "), made.shape());
        return Ok(());
    }
    let (long, part) = match words[..] {
        [] => (false, None),
        ["--long"] => (true, None),
        ["--long", part] => (true, Some(part)),
        [part] => (false, Some(part)),
        _ => bail!("expected [--long] [PART], or CONSTRUCTION K LOG2_KEYS EFFICIENCY"),
    };
    let parts: [(&str, Part); 8] = [
        ("figure-1", figure_1),
        ("query", query_times),
        ("table-5", table_5),
        ("efficiency", among_others),
        ("tables-3-4", tables_3_and_4),
        ("million", a_million),
        ("outside-solver", outside::outside_solver),
        ("table-2", table_2),
    ];
    if part.is_some_and(|part| parts.iter().all(|known| known.0 != part)) {
        bail!("expected one of the parts {}", parts.map(|known| known.0).join(", "));
    }
    let wanted = parts.iter().filter(|known| part.is_none_or(|part| part == known.0));
    wanted.map(|known| known.1).try_for_each(|make| make(long))
}

/// Makes some sheets, the long ones if the argument is `true`.
type Part = fn(bool) -> Result<()>;

/// A filter for a rate of about 1/4, and the time to build it on one thread.
struct Made {
    construction: Construction,
    k: u32,
    asked: f64,
    filter: Sat,
    seconds: f64,
}

impl Made {
    fn new(construction: Construction, k: u32, log_keys: u32, efficiency: f64) -> Result<Self> {
        let planes = planes(construction, k);
        let shape = SatShape::new(construction, k, planes, efficiency, 1 << log_keys)?;
        let members = hashes(SALT, 0, 1 << log_keys);
        let start = processor_time()?;
        let filter = Sat::build(shape, &members[..])?;
        let seconds = (processor_time()? - start) * 1e-9;
        if !members.iter().all(|key| filter.contains(*key)) {
            bail!("a member is denied");
        }
        Ok(Self { construction, k, asked: efficiency, filter, seconds })
    }

    fn shape(&self) -> &SatShape {
        self.filter.shape()
    }

    fn bits(&self) -> u64 {
        self.shape().figures().bytes * 8
    }

    /// Returns the first columns of the tables.
    fn row(&self, queries: u64) -> Vec<String> {
        let nominal = planned_rate(self.construction, self.k, self.shape().planes());
        let keys = self.shape().keys() as f64;
        let rate = let_in(&self.filter, queries);
        vec![
            name(self.construction).to_owned(),
            self.k.to_string(),
            self.shape().planes().to_string(),
            self.asked.to_string(),
            self.bits().to_string(),
            format!("{:.4}", -rate.log2() * keys / self.bits() as f64),
            format!("{:.3}", self.seconds),
            format!("{:.2}", rate * 100.0),
            format!("{:.2}", nominal * 100.0),
        ]
    }
}

fn name(construction: Construction) -> &'static str {
    NAMES.iter().find(|known| known.1 == construction).expect("all have one").0
}

/// Returns the number of solutions that the paper uses for a rate of about 1/4, or half as many for
/// *not all equal* formulas.
fn planes(construction: Construction, k: u32) -> u64 {
    let planes = PLANES[k as usize - 3];
    if construction == Construction::Nae { planes.div_ceil(2) } else { planes }
}

/// Returns the rate of independent solutions.
fn planned_rate(construction: Construction, k: u32, planes: u64) -> f64 {
    let stopped = if construction == Construction::Nae { 2.0 } else { 1.0 } * 0.5f64.powi(k as i32);
    (1.0 - stopped).powf(planes as f64)
}

/// Returns the fraction of `queries` non-members that the filter accepts.
fn let_in(filter: &impl Filter, queries: u64) -> f64 {
    const RUN: u64 = 1 << 16;
    let runs = queries.div_ceil(RUN);
    let yes = |run: u64| {
        let strangers = hashes(SALT, STRANGERS + run * RUN, RUN);
        strangers.iter().filter(|key| filter.contains(**key)).count() as u64
    };
    (0..runs).map(yes).sum::<u64>() as f64 / (runs * RUN) as f64
}

/// Returns the nanoseconds that these filters take to look up a non-member, one key at a time and
/// without hashing: medians over rounds in which the filters alternate.
fn times(filters: &[&dyn Fn(KeyHash) -> bool]) -> Vec<f64> {
    const ROUNDS: usize = 41;
    let strangers = hashes(SALT, STRANGERS, 1 << 14);
    let mut times = vec![Vec::new(); filters.len()];
    for _ in 0..ROUNDS {
        for (ask, times) in filters.iter().zip(&mut times) {
            let start = Instant::now();
            let yes = strangers.iter().filter(|key| ask(black_box(**key))).count();
            black_box(yes);
            times.push(start.elapsed().as_nanos() as f64 / strangers.len() as f64);
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    times.iter().map(|times| times[ROUNDS / 2]).collect()
}

/// Tabulates the efficiency above which random formulas have no solutions.
fn figure_1(_: bool) -> Result<()> {
    let mut sheet = Sheet::new("sat", "figure-1", &["k", "threshold", "paper's estimate"]);
    let (mut known, mut estimate) = (Vec::new(), Vec::new());
    for k in 3..=10u32 {
        let bits = -(1.0 - 0.5f64.powi(k as i32)).log2();
        let threshold = tamis_ksat::threshold(k as usize).map(|clauses| clauses * bits);
        let bound = (2f64.powi(k as i32) * 2f64.ln() - f64::from(k)) * bits;
        known.extend(threshold.map(|threshold| (f64::from(k), threshold)));
        estimate.push((f64::from(k), bound));
        let shown = threshold.map_or("-".to_owned(), |threshold| format!("{threshold:.4}"));
        sheet.row(&[&k, &shown, &format!("{bound:.4}")]);
    }
    let lines = vec![
        Line::calculated("threshold of random k-SAT", known),
        Line::calculated("the paper's (2^k ln 2 - k) clauses a variable", estimate),
    ];
    sheet.finish("Figure 1: the efficiency that can be reached", "k", "efficiency", false, lines)
}

/// Measures the paper's single-instance filters, and other constructions of the same size.
fn table_5(long: bool) -> Result<()> {
    let queries = if long { 1 << 27 } else { 1 << 24 };
    let columns = [
        "construction",
        "k",
        "s",
        "efficiency asked",
        "bits",
        "efficiency",
        "build s",
        "let in %",
        "independent %",
        "distance %",
        "query ns",
        "bloom ns",
        "paper build s",
        "paper bits",
        "paper let in %",
        "paper query ns",
    ];
    let mut sheet = Sheet::new("sat", "table-5", &columns);
    let bloom = bloom(14)?;
    for (construction, efficiency, ks) in [
        (Construction::Single, 0.75, 4..=6),
        (Construction::Sliced, 0.75, 4..=6),
        (Construction::Nae, 0.75, 4..=6),
        (Construction::Sliced, 0.85, 4..=5),
    ] {
        for k in ks {
            let made = Made::new(construction, k, 14, efficiency)?;
            let mut row = made.row(queries);
            let distance = made.filter.distance().context("the filter has keys")?;
            row.push(format!("{:.2}", distance * 100.0));
            let both = times(&[&|key| made.filter.contains(key), &|key| bloom.contains(key)]);
            row.extend(both.iter().map(|time| format!("{time:.1}")));
            let (seconds, bits, rate, query) = TABLE_5[k as usize - 4];
            row.extend([seconds.to_string(), bits.to_string(), rate.to_string()]);
            row.push(format!("{:.0}", f64::from(query) * 1e9 / 2f64.powi(27)));
            add(&mut sheet, &row);
        }
    }
    let title =
        "Table 5: filters of 2^14 keys; the paper's figures are of its single-instance ones";
    sheet.finish(title, "", "", false, Vec::new())
}

fn add(sheet: &mut Sheet, row: &[String]) {
    eprintln!("{}", row.join(" "));
    let cells: Vec<&dyn std::fmt::Display> = row.iter().map(|cell| cell as _).collect();
    sheet.row(&cells);
}

fn bloom(log_keys: u32) -> Result<Bloom> {
    let members = hashes(SALT, 0, 1 << log_keys);
    Ok(Bloom::build(BloomShape::fit(1 << log_keys, 0.25)?, &members[..])?)
}

/// Measures the seconds to build multi-instance filters, all solutions of each.
fn table_2(long: bool) -> Result<()> {
    let columns = ["k", "keys", "efficiency asked", "efficiency", "bits", "build s", "paper s"];
    let mut sheet = Sheet::new("sat", if long { "table-2-long" } else { "table-2" }, &columns);
    for k in 3..=6u32 {
        for (column, efficiency) in EFFICIENCIES.into_iter().enumerate() {
            for log_keys in 14..=17u32 {
                let paper = TABLE_2[k as usize - 3][log_keys as usize - 14][column];
                let past = paper.is_none();
                let quick = efficiency <= QUICK[k as usize - 3];
                // Beyond the paper, one column for k = 4 to 6; lab/ksat shows which loads are
                // solvable.
                let within = match (k, past) {
                    (_, false) => true,
                    (4 | 6, _) => efficiency == 0.91,
                    (5, _) => efficiency == 0.93,
                    _ => false,
                };
                if !(quick || long && within) {
                    continue;
                }
                let made = Made::new(Construction::Multi, k, log_keys, efficiency)?;
                let rate = planned_rate(made.construction, k, made.shape().planes());
                let reached = -rate.log2() * 2f64.powi(log_keys as i32) / made.bits() as f64;
                add(
                    &mut sheet,
                    &[
                        k.to_string(),
                        format!("2^{log_keys}"),
                        efficiency.to_string(),
                        format!("{reached:.4}"),
                        made.bits().to_string(),
                        format!("{:.2}", made.seconds),
                        paper.map_or("-".to_owned(), |seconds| seconds.to_string()),
                    ],
                );
            }
        }
    }
    let title = "Table 2: seconds to build multi-instance filters on one core";
    sheet.finish(title, "", "", false, Vec::new())
}

/// Compares sizes, and seconds for 2^27 queries, with Bloom filters. The paper's SAT filters have
/// its highest efficiency. Without `--long`, the measured ones have an efficiency that builds in
/// seconds.
fn tables_3_and_4(long: bool) -> Result<()> {
    let columns = [
        "k",
        "keys",
        "efficiency asked",
        "bloom bits",
        "multi bits",
        "paper bloom bits",
        "paper multi bits",
        "bloom s",
        "multi s",
        "sliced s",
        "paper bloom s",
        "paper multi s",
    ];
    let mut sheet =
        Sheet::new("sat", if long { "tables-3-4-long" } else { "tables-3-4" }, &columns);
    for k in 3..=6u32 {
        let efficiency = if long { [0.81, 0.89, 0.91, 0.89] } else { QUICK }[k as usize - 3];
        for log_keys in if long { 14..=17u32 } else { 14..=15 } {
            let (row, column) = (k as usize - 3, log_keys as usize - 14);
            let multi = Made::new(Construction::Multi, k, log_keys, efficiency)?;
            let sliced = Made::new(Construction::Sliced, k, log_keys, 0.75)?;
            let rate = planned_rate(Construction::Multi, k, multi.shape().planes());
            let members = hashes(SALT, 0, 1 << log_keys);
            let shape = BloomShape::fit(1 << log_keys, rate)?;
            let bloom = Bloom::build(shape.clone(), &members[..])?;
            let seconds =
                times(&[&|key| bloom.contains(key), &|key| multi.filter.contains(key), &|key| {
                    sliced.filter.contains(key)
                }]);
            let mut cells = vec![
                k.to_string(),
                format!("2^{log_keys}"),
                efficiency.to_string(),
                (shape.figures().bytes * 8).to_string(),
                multi.bits().to_string(),
            ];
            cells.extend(TABLE_3[row][column].map(|bits| bits.to_string()));
            cells.extend(seconds.iter().map(|ns| format!("{:.2}", ns * 1e-9 * 2f64.powi(27))));
            cells.extend(TABLE_4[row][column].map(|seconds| seconds.to_string()));
            add(&mut sheet, &cells);
        }
    }
    let title = "Tables 3 and 4: sizes, and seconds for 2^27 non-members";
    sheet.finish(title, "", "", false, Vec::new())
}

/// Measures a query of each construction and of a Bloom filter, alternating.
fn query_times(_: bool) -> Result<()> {
    let columns = ["keys", "k", "bloom ns", "sliced ns", "ratio", "multi ns"];
    let mut sheet = Sheet::new("sat", "query", &columns);
    for log_keys in [14, 17] {
        let bloom = bloom(log_keys)?;
        for k in 3..=7 {
            let sliced = Made::new(Construction::Sliced, k, log_keys, 0.7)?.filter;
            let multi = Made::new(Construction::Multi, k, log_keys, 0.7)?.filter;
            let times = times(&[&|key| bloom.contains(key), &|key| sliced.contains(key), &|key| {
                multi.contains(key)
            }]);
            let show = |time: f64| format!("{time:.1}");
            add(
                &mut sheet,
                &[
                    format!("2^{log_keys}"),
                    k.to_string(),
                    show(times[0]),
                    show(times[1]),
                    format!("{:.2}", times[1] / times[0]),
                    show(times[2]),
                ],
            );
        }
    }
    sheet.finish("Nanoseconds a query in the cache, at a rate of 1/4", "", "", false, Vec::new())
}

/// Measures efficiency against build time and query time, at a rate of 1/4 with 2^16 keys.
fn among_others(_: bool) -> Result<()> {
    const KEYS: u64 = 1 << 16;
    let sat =
        [("3", "0.79"), ("4", "0.75"), ("4", "0.85"), ("4", "0.89"), ("5", "0.85"), ("5", "0.89")];
    let others = ["bloom", "binary_fuse", "ribbon", "xorsat"];
    let mut all: Vec<(String, Kind, Settings)> = Vec::new();
    for name in others {
        all.push((name.to_owned(), name.parse()?, Settings::default()));
    }
    for (k, efficiency) in sat {
        let mut settings = Settings::default();
        settings.set("k", k);
        settings.set("efficiency", efficiency);
        all.push((format!("sat k={k} E={efficiency}"), Kind::Sat, settings));
    }
    let members = hashes(SALT, 0, KEYS);
    let mut built: Vec<(String, AnyFilter, f64)> = Vec::new();
    for (name, kind, settings) in all {
        let sizing = Sizing::fpr(0.25).capacity(KEYS).settings(settings);
        let build = || kind.build(&sizing, &mut &members[..], &BuildOptions::new());
        // Fast builds are repeated, because of the resolution of the clock.
        let rounds = if kind.is_slow_to_build() { 1 } else { 32 };
        let start = processor_time()?;
        let mut filter = build()?;
        for _ in 1..rounds {
            filter = build()?;
        }
        let spent = (processor_time()? - start) / (f64::from(rounds) * KEYS as f64);
        eprintln!("{name}: {spent:.0} ns a key");
        built.push((name, filter, spent));
    }
    let asks: Vec<Box<dyn Fn(KeyHash) -> bool>> = built
        .iter()
        .map(|(_, filter, _)| {
            let filter = filter.clone();
            Box::new(move |key| filter.contains(key)) as Box<dyn Fn(KeyHash) -> bool>
        })
        .collect();
    let asks: Vec<&dyn Fn(KeyHash) -> bool> = asks.iter().map(AsRef::as_ref).collect();
    let queries = times(&asks);
    let columns = ["filter", "bits a key", "rate", "efficiency", "build ns a key"];
    let mut building = Sheet::new("sat", "efficiency-build", &columns);
    let mut asking = Sheet::new("sat", "efficiency-query", &["filter", "efficiency", "query ns"]);
    let (mut by_build, mut by_query) = (Vec::new(), Vec::new());
    for ((name, filter, build), query) in built.into_iter().zip(queries) {
        let figures = filter.figures();
        let efficiency = -figures.fpr.log2() / figures.bits_per_key();
        let (bits, rate) =
            (format!("{:.3}", figures.bits_per_key()), format!("{:.4}", figures.fpr));
        let shown = format!("{efficiency:.4}");
        building.row(&[&name, &bits, &rate, &shown, &format!("{build:.0}")]);
        asking.row(&[&name, &shown, &format!("{query:.1}")]);
        by_build.push(Line::measured(name.clone(), vec![(efficiency, build)]));
        by_query.push(Line::measured(name, vec![(efficiency, query)]));
    }
    let title = "2^16 keys at a rate of 1/4: efficiency and the time to build";
    building.finish(title, "efficiency", "ns a key to build", true, by_build)?;
    let title = "2^16 keys at a rate of 1/4: efficiency and the time of a query";
    asking.finish(title, "efficiency", "ns a query", false, by_query)
}

/// Builds a filter of 10^6 keys on all processors.
fn a_million(_: bool) -> Result<()> {
    let columns = ["keys", "k", "efficiency asked", "efficiency", "threads", "wall s"];
    let mut sheet = Sheet::new("sat", "million", &columns);
    let keys = 1_000_000;
    let members = hashes(SALT, 0, keys);
    let shape = SatShape::new(Construction::Sliced, 4, PLANES[1], 0.80, keys)?;
    for threads in [1, available_parallelism()?.get()] {
        let start = Instant::now();
        let filter = Sat::build_with(
            &BuildOptions::new().threads(threads),
            given(shape.clone()),
            &members[..],
        )?;
        let wall = start.elapsed().as_secs_f64();
        let reached = format!("{:.4}", filter.shape().efficiency());
        let row = [keys.to_string(), "4".into(), "0.8".into(), reached, threads.to_string()];
        add(&mut sheet, &[&row[..], &[format!("{wall:.1}")]].concat());
    }
    sheet.finish("10^6 keys", "", "", false, Vec::new())
}
