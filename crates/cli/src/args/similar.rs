//! The options of `similar`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail};
use clap::Args;

use crate::number;

/// How `--passages` splits a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passages {
    Lines,
    Paragraphs,
    Words(NonZeroUsize),
}

impl FromStr for Passages {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "lines" => Ok(Self::Lines),
            "paragraphs" => Ok(Self::Paragraphs),
            _ => match text.strip_suffix("words").unwrap_or(text).trim().parse() {
                Ok(count) => Ok(Self::Words(count)),
                Err(_) => bail!("expected lines, paragraphs or a number of words"),
            },
        }
    }
}

/// Print the similarity of sets, 0 to 1, or the passages of texts that are most alike
#[derive(Args, Debug)]
#[command(after_help = "\
Sets are given by filters of the same kind, shape, hash and seed, and compared by the normalised
dot product of their bits. Disjoint sets give a value slightly above 0, because bits collide by
chance; larger filters give values closer to 0.

With --passages texts are given. They are split into passages, and each passage into words or
shingles. Printed are the estimated Jaccard index (common tokens over all tokens of both) and the
cosine (common tokens over the geometric mean of both numbers), each with its standard error, and
where the passages begin. Among more than 1000 passages, those are compared that agree in a band
of min-hashes: 99 % of the pairs with a Jaccard index of --min are found, and more of those that
are more alike. Passages with the same tokens are compared with the first of them.

Examples:
  tamis similar --passages --shingle 3 --min 0.7 *.txt
  for text in a b c; do
    tr -cs '[:alpha:]' '\\n' < $text.txt | sort -u |
      tamis build --filter bloom --seed 0x1 --keys 10k -o $text.tamis
  done
  tamis similar a.tamis b.tamis c.tamis")]
pub(crate) struct Similar {
    /// The filters, at least 2, or with --passages texts; `-` is standard input
    #[arg(value_name = "FILES", required = true)]
    pub(crate) filters: Vec<PathBuf>,
    /// Compare passages of texts
    #[arg(long)]
    pub(crate) passages: bool,
    /// What a passage is: lines, paragraphs (up to a blank line), or a number of words
    #[arg(long, value_name = "BY", default_value = "paragraphs", requires = "passages")]
    pub(crate) passage: Passages,
    /// Words of a token
    #[arg(long, value_name = "N", default_value = "1", requires = "passages")]
    pub(crate) shingle: NonZeroUsize,
    /// Least Jaccard index of the pairs
    #[arg(long, value_name = "X", default_value = "0.5", value_parser = likeness,
        requires = "passages", allow_negative_numbers = true)]
    pub(crate) min: f64,
    /// Most pairs to print
    #[arg(long, value_name = "N", default_value = "10", value_parser = top, requires = "passages")]
    pub(crate) top: usize,
    /// Print one JSON object per pair
    #[arg(long)]
    pub(crate) json: bool,
}

fn likeness(text: &str) -> Result<f64> {
    match text.parse() {
        Ok(value) if (0.05..=1.0).contains(&value) => Ok(value),
        _ => bail!("expected a number from 0.05 to 1"),
    }
}

fn top(text: &str) -> Result<usize> {
    match number::count(text) {
        Ok(count) if (1..=10_000_000).contains(&count) => Ok(count as usize),
        _ => bail!("expected a number from 1 to 10M"),
    }
}
