//! Measures the solver of random k-SAT close to the threshold, and tunes its parameters.
//!
//! `cargo run --release -p tamis-lab --bin ksat` measures the cells of Table 2 of
//! "Satisfiability-based Set Membership Filters" (Weaver and others, 2014).
//! `... --bin ksat -- K LOG2_CLAUSES LOAD INSTANCES SECONDS` measures one cell.
//! `... --bin ksat -- tune` searches for the parameters and writes `crates/ksat/src/rows.rs`.

mod tune;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use lab::Sheet;
use tamis_ksat::{Clauses, Formula, Outcome, Plan, Progress, Settings, Watch, solve};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => table_2(),
        ["tune"] => tune::run(),
        [k, clauses, load, instances, seconds] => {
            let cell = Cell { k: k.parse()?, log_clauses: clauses.parse()?, load: load.parse()? };
            let tried = cell.measure(instances.parse()?, seconds.parse()?)?;
            println!("{cell:?}: {tried:?}, {:.4} s each", tried.seconds / tried.instances as f64);
            Ok(())
        }
        _ => bail!("expected no argument, `tune`, or K LOG2_CLAUSES LOAD INSTANCES SECONDS"),
    }
}

/// Returns the processor time of this thread in seconds, which other load on the machine does not
/// affect.
pub(crate) fn busy() -> Result<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: f64 = text.split(' ').next().context("an empty schedstat")?.parse()?;
    Ok(nanoseconds * 1e-9)
}

/// Returns the number of variables that gives this load.
pub(crate) fn variables(kind: Clauses, k: i32, clauses: usize, load: f64) -> u32 {
    let lost = if kind == Clauses::Nae { 2.0 } else { 1.0 } * 0.5f64.powi(k);
    (clauses as f64 * -(1.0 - lost).log2() / load) as u32
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    k: usize,
    log_clauses: u32,
    load: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Tried {
    instances: u64,
    solved: u64,
    seconds: f64,
    worst: f64,
    flips: u64,
    sweeps: u64,
}

impl Cell {
    fn measure(self, instances: u64, limit: f64) -> Result<Tried> {
        let clauses = 1 << self.log_clauses;
        let vars = variables(Clauses::Or, self.k as i32, clauses, self.load);
        let draw = |seed| Ok(Formula::random(Clauses::Or, self.k, vars, clauses, seed)?);
        try_all(instances, limit, None, draw)
    }
}

/// Solves random formulas, and gives up on each after `limit` seconds of processor time.
pub(crate) fn try_all(
    instances: u64,
    limit: f64,
    plan: Option<Plan>,
    draw: impl Fn(u64) -> Result<Formula>,
) -> Result<Tried> {
    let mut tried = Tried { instances, ..Tried::default() };
    for seed in 0..instances {
        let formula = draw(seed)?;
        let settings =
            Settings { seed, flips: u64::MAX, sweeps: u64::MAX, plan, ..Settings::default() };
        let start = busy()?;
        let cancel = AtomicBool::new(false);
        let late = |_: &Progress| {
            let late = busy().is_ok_and(|now| now - start > limit);
            cancel.store(late, Ordering::Relaxed);
        };
        let watch = Watch { cancel: Some(&cancel), progress: Some(&late), ..Watch::default() };
        let outcome = solve(&formula, &settings, &watch);
        let spent = busy()? - start;
        tried.seconds += spent;
        tried.worst = tried.worst.max(spent);
        let (flips, sweeps) = match outcome {
            Outcome::Solved(solution) => {
                tried.solved += 1;
                (solution.flips, solution.sweeps)
            }
            Outcome::GaveUp(gave_up) => (gave_up.flips, gave_up.sweeps),
            Outcome::Unsatisfiable => (0, 0),
        };
        tried.flips += flips;
        tried.sweeps += sweeps;
    }
    Ok(tried)
}

/// Seconds in the paper's Table 2 at a load, or `None` where it has a dash.
type Paper = [(f64, [Option<u32>; 4])];

fn table_2() -> Result<()> {
    let dash = [None; 4];
    let all = |seconds: [u32; 4]| seconds.map(Some);
    let rows: [(usize, u64, &Paper); 4] = [
        (
            3,
            11,
            &[
                (0.75, all([1, 1, 2, 7])),
                (0.79, all([2, 15, 67, 116])),
                (0.81, all([137, 101, 101, 120])),
            ],
        ),
        (
            4,
            22,
            &[
                (0.75, all([1, 1, 1, 4])),
                (0.85, all([2, 9, 26, 62])),
                (0.87, all([6, 19, 36, 74])),
                (0.89, all([39, 62, 71, 144])),
                (0.91, dash),
            ],
        ),
        (
            5,
            44,
            &[
                (0.75, all([1, 1, 3, 7])),
                (0.85, all([33, 96, 211, 484])),
                (0.89, all([285, 117, 222, 517])),
                (0.91, all([1436, 349, 548, 626])),
                (0.93, dash),
            ],
        ),
        (
            6,
            89,
            &[
                (0.75, all([1, 3, 7, 21])),
                (0.83, all([54, 110, 258, 579])),
                (0.87, all([115, 167, 324, 640])),
                (0.89, all([235, 389, 671, 1283])),
                (0.91, dash),
            ],
        ),
    ];
    let columns = [
        "k",
        "clauses",
        "load",
        "solved",
        "of",
        "mean s",
        "worst s",
        "Mflips",
        "sweeps",
        "filter of s",
        "its seconds",
        "paper's",
    ];
    let mut sheet = Sheet::new("ksat", "table-2", &columns);
    for (k, solutions, loads) in rows {
        for (load, paper) in loads {
            for (log_clauses, paper) in (14..).zip(paper) {
                let instances = [6, 4, 3, 2][log_clauses as usize - 14];
                let tried = Cell { k, log_clauses, load: *load }.measure(instances, 20.0)?;
                let mean = tried.seconds / tried.instances as f64;
                sheet.row(&[
                    &k,
                    &format!("2^{log_clauses}"),
                    load,
                    &tried.solved,
                    &tried.instances,
                    &format!("{mean:.4}"),
                    &format!("{:.4}", tried.worst),
                    &format!("{:.3}", tried.flips as f64 * 1e-6 / tried.instances as f64),
                    &(tried.sweeps / tried.instances),
                    &solutions,
                    &format!("{:.2}", mean * solutions as f64),
                    &paper.map_or("-".to_owned(), |seconds| seconds.to_string()),
                ]);
                eprintln!("k {k} 2^{log_clauses} {load}: {tried:?}");
            }
        }
    }
    let title = "Table 2: seconds to solve random formulas on one core";
    sheet.finish(title, "", "", false, Vec::new())
}
