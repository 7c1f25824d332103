//! The options of `resize` and `list`.

use std::path::PathBuf;

use clap::Args;

use super::parse;
use crate::number;

/// Change the capacity of a filter, without its keys
#[derive(Args, Debug)]
#[command(after_help = "\
quotient, counting_quotient and hash_compaction store fingerprints, which fit tables of other
sizes. A larger table has more slots and as many bits fewer in each. The fingerprints stay the
same, so the false positive rate depends on the keys in the filter: after 8 times as many keys it
is 8 times as high. With --fpr the fingerprints lose the bits that this rate does not need, for
good. hash_compaction cannot shorten them. counting_quotient halves only an even number of slots.
exact stores whole hashes of 128 bits, and its rate hardly changes.

On an error the file is left unchanged.

Examples:
  tamis resize seen.tamis --keys 10M
  tamis resize seen.tamis --keys 1M --fpr 1% -o small.tamis")]
pub(crate) struct Resize {
    /// The filter; `-` is standard input
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// The new capacity in keys, at least those in the filter
    #[arg(long, value_name = "N", value_parser = parse::keys, allow_negative_numbers = true)]
    pub(crate) keys: u64,
    /// Shorten the fingerprints to this false positive rate at N keys [default: keep them]
    #[arg(long, value_name = "P", value_parser = parse::rate, allow_negative_numbers = true)]
    pub(crate) fpr: Option<f64>,
    /// File to write the filter to; `-` is standard output [default: F]
    #[arg(short, long, value_name = "G")]
    pub(crate) output: Option<PathBuf>,
    /// Memory limit for the filter in bytes [default: the available memory]
    #[arg(long, value_name = "M", value_parser = number::size)]
    pub(crate) max_memory: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Print the fingerprints of a filter in ascending order, with their counts
#[derive(Args, Debug)]
#[command(after_help = "\
Each line has a fingerprint in hexadecimal, a tab, and the number of copies. A fingerprint stands
for all keys whose hashes begin with it; keys cannot be recovered from it. Of exact the first 64
bits of the hashes are listed, each with the number of its keys.

Example:
  tamis list seen.tamis | sort -k2 -nr | head      the fingerprints with most copies")]
pub(crate) struct List {
    /// The filter; `-` is standard input
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Print one JSON object per fingerprint
    #[arg(long)]
    pub(crate) json: bool,
}
