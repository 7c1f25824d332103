//! The options of `diff` and `patch`.

use std::path::PathBuf;

use clap::Args;

/// Write what changed from one filter to another, compressed
#[derive(Args, Debug)]
#[command(after_help = "\
`tamis patch A D` makes B of A and D, byte for byte. D is small if A and B have the same shape,
hash and seed, and B has a few keys more or fewer. After 1 % of new keys D takes about 4 % of a
bloom filter, and half of a full counting_quotient, in which most entries move. D is compressed by
zstd. A and B are read into memory.

Example: send a filter once, and then only what changed
  tamis export cache.tamis --to bloom -o new.tamis
  tamis diff sent.tamis new.tamis -o changes
  tamis patch received.tamis changes          on the other machine")]
pub(crate) struct Diff {
    /// The old filter; `-` is standard input
    #[arg(value_name = "A")]
    pub(crate) base: PathBuf,
    /// The new filter; `-` is standard input
    #[arg(value_name = "B")]
    pub(crate) target: PathBuf,
    /// File to write the changes to; `-` is standard output
    #[arg(short, long, value_name = "D")]
    pub(crate) output: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Make a new filter of an old one and the changes that `tamis diff` wrote
#[derive(Args, Debug)]
#[command(after_help = "\
The checksum of A must be the one in D: changes between other files are refused, and the file is
left unchanged. The result is the file that `tamis diff` read, byte for byte.

Example:
  tamis patch received.tamis changes")]
pub(crate) struct Patch {
    /// The old filter; `-` is standard input
    #[arg(value_name = "A")]
    pub(crate) base: PathBuf,
    /// The changes; `-` is standard input
    #[arg(value_name = "D")]
    pub(crate) delta: PathBuf,
    /// File to write the new filter to; `-` is standard output [default: A]
    #[arg(short, long, value_name = "B")]
    pub(crate) output: Option<PathBuf>,
    /// Memory limit for the new filter in bytes [default: the available memory]
    #[arg(long, value_name = "M", value_parser = crate::number::size)]
    pub(crate) max_memory: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
