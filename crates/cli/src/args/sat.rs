//! The options of `ksat`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::parse;
use crate::number;

/// Solve a random k-SAT formula in DIMACS format
#[derive(Args, Debug)]
#[command(after_help = "\
Prints `s SATISFIABLE` and the solution in `v` lines, `s UNKNOWN`, or `s UNSATISFIABLE` if the unit
clauses contradict each other; other contradictions are not found. The solver is tuned for random
clauses of 3 to 7 literals and accepts other lengths. The same seed and number of flips give the
same answer on every machine. gzip and zstd are recognised and decompressed.

Exit status: 0 solved, 1 not solved, 2 an error.

Examples:
  tamis ksat formula.cnf
  tamis ksat --timeout 60 --seed 2 hard.cnf.gz -o solution.txt")]
pub(crate) struct Ksat {
    /// The formula; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) formula: PathBuf,
    /// File to write the answer to [default: standard output]
    #[arg(short, long, value_name = "F")]
    pub(crate) output: Option<PathBuf>,
    /// Seed of the search
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Stop after this many flips of a variable
    #[arg(long, value_name = "N", value_parser = parse::flips, default_value = "1e9")]
    pub(crate) flips: u64,
    /// Stop after this many seconds [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// Memory limit in bytes [default: the available memory]
    #[arg(long, value_name = "M", value_parser = number::size)]
    pub(crate) max_memory: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
