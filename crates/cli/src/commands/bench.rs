//! `tamis bench`: measures every kind of filter.

use anyhow::Result;
use indicatif::ProgressBar;
use tamis_bench::{Options, compare, kinds, memory_bytes, table};

use crate::args::{Bench, with_underscores};
use crate::{memory, output};

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
    let contenders = kinds(&options)?;
    let needs = memory_bytes(&options, &contenders);
    memory::check_memory_of("the benchmark", needs, args.max_memory)?;
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
