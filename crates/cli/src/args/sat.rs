//! The options of `ksat` and `sat`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tamis::HashId;

use super::{Form, parse};
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

/// Write the formula of a SAT filter, for any solver
#[derive(Args, Debug)]
pub(crate) struct Sat {
    #[command(subcommand)]
    pub(crate) command: SatCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SatCommand {
    Export(SatExport),
}

/// Write the formula of a filter to be, in DIMACS format
#[derive(Args, Debug)]
#[command(after_help = "\
Each key is a clause of each of the filter's s formulas, the planes. All planes are written as one
formula, with variables 1 to n for the first plane, n + 1 to 2n for the second, and so on. --plane
writes one of them, so that several solvers can work at once. The constructions single and nae
have one formula, of which the filter needs s solutions that differ.

`tamis build --filter sat` makes the filter of the solutions. It takes the same keys and options,
and --solution: a file of one solution of all planes, or of s solutions. There are at most 2^15 -
1 keys, for multi, single and nae 2^18 - 1.

Example:
  tamis sat export words.txt --seed 0x1 --fpr 25% -o words.cnf
  kissat words.cnf > words.sol
  tamis build words.txt --filter sat --seed 0x1 --fpr 25% --solution words.sol -o words.tamis")]
pub(crate) struct SatExport {
    /// Files of keys; `-` is standard input [default: -]
    #[arg(value_name = "KEYS")]
    pub(crate) keys_from: Vec<PathBuf>,
    /// File to write the formula to; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Write the formula of this plane alone, from 0 on
    #[arg(long, value_name = "P")]
    pub(crate) plane: Option<u64>,
    /// False positive rate: the share of non-members that the filter accepts
    #[arg(long, value_name = "P", default_value = "1%", value_parser = parse::rate, allow_negative_numbers = true)]
    pub(crate) fpr: f64,
    /// A setting of `sat`: k, efficiency, construction, s, n
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::setting)]
    pub(crate) set: Vec<(String, String)>,
    /// Hash function: `secure` resists adversarial keys, `fast` does not
    #[arg(long, value_name = "HASH", default_value = "fast", value_parser = parse::hash())]
    pub(crate) hash: HashId,
    /// Seed of the hash function, 32 hexadecimal digits, as for `tamis build`
    #[arg(long, value_name = "HEX", value_parser = number::seed)]
    pub(crate) seed: [u64; 2],
    #[command(flatten)]
    pub(crate) form: Form,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
