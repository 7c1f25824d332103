//! The command `plan`.

use clap::Args;
use tamis::Capability;

use super::parse;
use crate::number;

/// Compare the kinds of filter for a job, the recommended one first
#[derive(Args, Debug)]
#[command(after_help = "\
Give two of --keys, --fpr and --bytes. --keys alone means a rate of 1 %. Without --keys and --bytes
the number of keys is unknown, and only kinds that grow are listed.

Examples:
  tamis plan --keys 1e9 --fpr 0.1%           how much memory?
  tamis plan --keys 10M --bytes 16MiB        which false positive rate?
  tamis plan --bytes 1GiB --fpr 1/1000       how many keys?
  tamis plan --fpr 1%                        unknown number of keys
  tamis plan --keys 1M --fpr 0               an exact set: false positives below N x 2^-128
  tamis plan --keys 1M --needs remove,count
  tamis plan --keys 1M --range-length 100    filters of ranges of up to 100 integers")]
pub(crate) struct Plan {
    /// Number of keys
    #[arg(long, value_name = "N", value_parser = parse::keys, allow_negative_numbers = true)]
    pub(crate) keys: Option<u64>,
    /// False positive rate: the share of non-members that the filter accepts; 0 for an exact set
    #[arg(long, value_name = "P", value_parser = parse::rate_or_zero, allow_negative_numbers = true)]
    pub(crate) fpr: Option<f64>,
    /// Size of the filter in bytes
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub(crate) bytes: Option<u64>,
    /// Capabilities that the filter must have, separated by commas
    #[arg(long, value_name = "NEEDS", value_delimiter = ',', value_parser = parse::need())]
    pub(crate) needs: Vec<Capability>,
    /// The filter answers ranges: up to this many integers at the false positive rate
    #[arg(long, value_name = "L", value_parser = number::count)]
    pub(crate) range_length: Option<u64>,
    /// Each key is inserted once, so kinds that hold only a few copies of a key are as good as others
    #[arg(long)]
    pub(crate) distinct: bool,
    /// Print one JSON object per kind
    #[arg(long)]
    pub(crate) json: bool,
}
