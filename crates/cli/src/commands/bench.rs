//! `tamis bench`: measures every kind of filter.

use anyhow::Result;
use indicatif::ProgressBar;
use tamis_bench::{Options, compare, kinds, table};

use crate::args::{Bench, with_underscores};
use crate::{memory, output};

/// The memory that keys, non-members, answers and filters take, roughly.
const BYTES_PER_KEY: u64 = 64;

pub(crate) fn run(args: &Bench) -> Result<()> {
    let options = Options {
        filters: args.filter.iter().map(|name| with_underscores(name)).collect(),
        keys: args.keys,
        fpr: args.fpr,
        rounds: args.rounds,
        seed: args.seed,
        json: args.json,
        dynamic: args.dynamic,
        peak_of: args.peak_of.clone(),
    };
    memory::check_memory_of("the benchmark", args.keys.saturating_mul(BYTES_PER_KEY), None)?;
    let contenders = kinds(&options)?;
    let bar = ProgressBar::new(0);
    let progress = |done, steps| {
        bar.set_length(steps);
        bar.set_position(done);
    };
    let outcomes = compare(&options, &contenders, &progress)?;
    bar.finish_and_clear();
    match outcomes {
        Some(outcomes) if !options.json => output::print(table(&options, &outcomes)),
        _ => Ok(()),
    }
}
