//! One operation of one filter in a function of its own, for a program that counts instructions.

use std::hint::black_box;

use anyhow::{Context, Result};
use tamis_bench::{Contender, Keys, Options};

/// The lookups that are counted. A build is one of all keys.
const QUERIES: u64 = 10_000;

/// An operation to count.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Operation {
    Build,
    Hit,
    Miss,
}

/// Runs an operation of the first contender, and prints the number of keys of it.
pub fn run(
    options: &Options,
    contenders: &[Box<dyn Contender>],
    operation: Operation,
) -> Result<()> {
    let contender = contenders.first().context("no filter is selected")?;
    let keys = Keys::members_only(options.keys + QUERIES, options.seed).members;
    let (members, non_members) = keys.split_at(options.keys as usize);
    if let Operation::Build = operation {
        counted(|| contender.build(members))?;
        println!("{}", members.len());
        return Ok(());
    }
    let filter = contender.build(members)?;
    let hits: Vec<u64> =
        (0..QUERIES).map(|i| members[(i * 7_919 % options.keys) as usize]).collect();
    let queries = if let Operation::Hit = operation { &hits[..] } else { non_members };
    black_box(counted(|| filter.count(queries)));
    println!("{QUERIES}");
    Ok(())
}

/// Runs `operation` where callgrind counts.
#[inline(never)]
fn counted<R>(operation: impl FnOnce() -> R) -> R {
    black_box(operation())
}
