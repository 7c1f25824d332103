//! Search for the solver's parameters.
//!
//! For each clause length and two sizes, three questions are answered in this order. Which weights
//! take the fewest flips at a load that suits the walk? Up to which load is the walk faster than
//! survey propagation? From which load on does decimation without backtracking fail more often than
//! not?

use std::fmt::Write as _;
use std::fs;

use anyhow::Result;
use tamis_ksat::{Clauses, Decimation, Fall, Formula, Plan};

use crate::{Tried, try_all, variables};

const NEVER: u64 = u64::MAX;
const STRAIGHT: &[Decimation] = &[Decimation { share: 0.025, back: 0.0 }];

/// What to try for one clause length.
struct Length {
    k: usize,
    kind: Clauses,
    falls: &'static [Fall],
    /// Loads that the walk solves with some effort, for small formulas and for large ones.
    walk_load: [f64; 2],
    /// Ascending loads at which walk and survey propagation are compared.
    ladder: &'static [f64],
    /// Ascending loads at which decimation is tried.
    steep: &'static [f64],
}

use Fall::{Power, Square};

const LENGTHS: [Length; 10] = [
    Length {
        k: 3,
        kind: Clauses::Or,
        falls: &[
            Square(0.6),
            Square(0.7),
            Square(0.8),
            Square(0.9),
            Power(2.3),
            Power(2.5),
            Power(2.7),
        ],
        walk_load: [0.785, 0.78],
        ladder: &[0.77, 0.78, 0.785, 0.79, 0.795, 0.8],
        steep: &[0.805, 0.81, 0.815],
    },
    Length {
        k: 4,
        kind: Clauses::Or,
        falls: &[Power(2.6), Power(2.75), Power(2.9), Power(3.05), Power(3.2)],
        walk_load: [0.86, 0.84],
        ladder: &[0.81, 0.83, 0.84, 0.85, 0.86, 0.87],
        steep: &[0.88, 0.89, 0.9, 0.91],
    },
    Length {
        k: 5,
        kind: Clauses::Or,
        falls: &[Power(3.2), Power(3.5), Power(3.8), Power(4.1), Power(4.4)],
        walk_load: [0.83, 0.81],
        ladder: &[0.79, 0.81, 0.82, 0.83, 0.84, 0.85],
        steep: &[0.89, 0.9, 0.91, 0.92, 0.93],
    },
    Length {
        k: 6,
        kind: Clauses::Or,
        falls: &[Power(3.8), Power(4.2), Power(4.6), Power(5.0), Power(5.4)],
        walk_load: [0.8, 0.76],
        ladder: &[0.73, 0.75, 0.77, 0.79, 0.81, 0.83],
        steep: &[0.87, 0.88, 0.89, 0.9],
    },
    Length {
        k: 7,
        kind: Clauses::Or,
        falls: &[Power(4.6), Power(5.2), Power(5.8), Power(6.4), Power(7.0)],
        walk_load: [0.76, 0.71],
        ladder: &[0.68, 0.7, 0.72, 0.74, 0.76, 0.78],
        steep: &[0.82, 0.84, 0.86, 0.88],
    },
    nae(3, &[Power(2.5), Power(2.8), Power(3.1), Power(3.5)], [0.73, 0.72]),
    nae(4, &[Power(3.2), Power(3.6), Power(4.0), Power(4.5)], [0.78, 0.77]),
    nae(5, &[Power(3.8), Power(4.2), Power(4.6), Power(5.0)], [0.8, 0.77]),
    nae(6, &[Power(4.4), Power(4.8), Power(5.2), Power(5.6)], [0.76, 0.72]),
    nae(7, &[Power(4.2), Power(4.8), Power(5.4), Power(6.0)], [0.72, 0.68]),
];

/// Returns the entry of a *not all equal* length, which has no survey propagation to compare with.
const fn nae(k: usize, falls: &'static [Fall], walk_load: [f64; 2]) -> Length {
    Length { k, kind: Clauses::Nae, falls, walk_load, ladder: &[], steep: &[] }
}

/// Clauses of the small and of the large formulas, and the number of formulas of each size.
const SIZES: [(usize, u64); 2] = [(1 << 14, 12), (1 << 17, 3)];

impl Length {
    fn vars(&self, clauses: usize, load: f64) -> u32 {
        variables(self.kind, self.k as i32, clauses, load)
    }

    fn try_plan(&self, size: (usize, u64), load: f64, limit: f64, plan: Plan) -> Result<Tried> {
        let (clauses, instances) = size;
        let vars = self.vars(clauses, load);
        try_all(instances, limit, Some(plan), |seed| {
            Ok(Formula::random(self.kind, self.k, vars, clauses, 100 + seed)?)
        })
    }

    /// Returns the row for formulas of this size.
    fn row(&self, size: (usize, u64), walk_load: f64, most: &str) -> Result<String> {
        let walk = |fall| Plan { fall, opening: NEVER, surveys: STRAIGHT };
        let mut best = (u64::MAX, self.falls[0]);
        for fall in self.falls {
            let tried = self.try_plan(size, walk_load, 4.0, walk(*fall))?;
            eprintln!(
                "k {} {:?} {} at {walk_load}, {fall:?}: {tried:?}",
                self.k, self.kind, size.0
            );
            // A formula that was given up counts as 10 times the work.
            let cost = tried.flips + 10 * (tried.instances - tried.solved) * tried.flips;
            best = if cost < best.0 { (cost, *fall) } else { best };
        }
        let fall = best.1;
        let mut easy = self.ladder.first().map_or(1.0, |first| first - 0.01);
        for load in self.ladder {
            let walked = self.try_plan(size, *load, 4.0, walk(fall))?;
            let survey = Plan { fall, opening: 1, surveys: STRAIGHT };
            let surveyed = self.try_plan(size, *load, 4.0, survey)?;
            eprintln!("k {} {} at {load}: walk {walked:?}, survey {surveyed:?}", self.k, size.0);
            if walked.solved < walked.instances || walked.seconds > surveyed.seconds {
                break;
            }
            easy = *load;
        }
        let mut hard = 1.0;
        for load in self.steep {
            // About the time of two attempts.
            let limit = (size.0 * self.k) as f64 * 2e-6;
            let plan = Plan { fall, opening: 1, surveys: STRAIGHT };
            let tried = self.try_plan(size, *load, limit, plan)?;
            eprintln!("k {} {} at {load}: straight {tried:?}", self.k, size.0);
            if 2 * tried.solved < tried.instances {
                hard = *load;
                break;
            }
        }
        let (k, nae) = (self.k, self.kind == Clauses::Nae);
        Ok(format!(
            "    Row {{ k: {k}, nae: {nae}, vars: {most}, fall: Fall::{fall:?}, easy: {easy:?}, hard: {hard:?} }},"
        ))
    }
}

pub(crate) fn run() -> Result<()> {
    let mut rows = String::new();
    for length in &LENGTHS {
        // A formula counts as small up to about the geometric mean of the two sizes.
        let middle = length.vars(SIZES[0].0 * 3, length.walk_load[0]).to_string();
        for ((size, load), most) in
            SIZES.into_iter().zip(length.walk_load).zip([&middle, "u32::MAX"])
        {
            let row = length.row(size, load, most)?;
            println!("{row}");
            writeln!(rows, "{row}")?;
        }
    }
    let count = LENGTHS.len() * SIZES.len();
    let text = format!(
        "//! Written by `cargo run --release -p tamis-lab --bin ksat -- tune`.\n\n\
         use crate::row::{{Fall, Row}};\n\n\
         #[rustfmt::skip]\n\
         pub(crate) const ROWS: [Row; {count}] = [\n{rows}];\n"
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/ksat/src/rows.rs");
    Ok(fs::write(path, text)?)
}
