//! The options of `import` and `export`.

use std::path::PathBuf;

use clap::Args;
use tamis_interop::Format;

use super::parse::{self, ExportTo};

const FORMATS: &str = "\
Formats:
  parquet        Apache Parquet: the filter of a column, bare or in a Parquet file
  spark_v1       Apache Spark, BloomFilter version 1
  spark_v2       Apache Spark 4.1 and later, BloomFilter version 2
  guava          Guava, BloomFilter.writeTo
  fuse8, fuse16  FastFilter, binary fuse filters of 8 or 16 bits
  rbloom         the Python package rbloom
  dcso           DCSO bloom, and poppy version 1
  datasketches   Apache DataSketches, BloomFilter
  redisbloom     RedisBloom, the data of BF.SCANDUMP; experimental
  bloomfilter    the Rust crate bloomfilter 3, and valkey-bloom

A filter keeps the hash function of its program, so that it answers as there. It cannot be converted
to another format, which has another hash function, without its keys.";

/// Read a filter of another program and write it as a .tamis file
#[derive(Args, Debug)]
#[command(after_help = join(FORMATS, "

Examples:
  tamis import seen.bin --from guava -o seen.tamis
  tamis import events.parquet --column user.id -o ids.tamis"))]
pub(crate) struct Import {
    /// The filter, or a Parquet file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// File to write the filter to; `-` is standard output
    #[arg(short, long, value_name = "F")]
    pub(crate) output: PathBuf,
    /// Format of FILE [default: recognised by its structure]
    #[arg(long, value_name = "FORMAT", value_parser = parse::format(), hide_possible_values = true)]
    pub(crate) from: Option<Format>,
    /// Column of a Parquet file
    #[arg(long, value_name = "NAME")]
    pub(crate) column: Option<String>,
    /// Row group of a Parquet file, from 0 on [default: the union of all]
    #[arg(long, value_name = "N", requires = "column")]
    pub(crate) row_group: Option<usize>,
    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Write a filter in the format of another program, or the Bloom filter inside a filter that counts
#[derive(Args, Debug)]
#[command(after_help = join(FORMATS, "

`--to bloom` writes a .tamis file: the plain Bloom filter of a counting_bloom, spectral_bloom or
removable_spectral_bloom, which has the same answers in less memory (a fifth of a counting_bloom),
to send to peers that only look keys up.

Examples:
  tamis export cache.tamis --to bloom -o peers.tamis
  tamis export seen.tamis --to guava -o seen.bin
  tamis export ids.tamis --to parquet --fpr 1% -o ids.sbbf"))]
pub(crate) struct Export {
    /// The filter; `-` is standard input
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Format to write
    #[arg(long, value_name = "FORMAT", value_parser = parse::export_to(), hide_possible_values = true)]
    pub(crate) to: ExportTo,
    /// File to write to; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// With `--to parquet`: fold the filter to the smallest size that keeps this false positive rate
    #[arg(long, value_name = "P", value_parser = parse::rate, allow_negative_numbers = true)]
    pub(crate) fpr: Option<f64>,
    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Joins two texts.
fn join(first: &str, second: &str) -> String {
    format!("{first}{second}")
}
