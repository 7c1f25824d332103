//! The options of `similar`.

use std::path::PathBuf;

use clap::Args;

/// Print the similarity of sets, 0 to 1: the normalised dot product of their filters
#[derive(Args, Debug)]
#[command(after_help = "\
The filters must have the same kind, shape, hash and seed. Disjoint sets give a value slightly above
0, because bits collide by chance; larger filters give values closer to 0.

Example: compare texts by their words
  for text in a b c; do
    tr -cs '[:alpha:]' '\\n' < $text.txt | sort -u |
      tamis build --filter bloom --seed 0x1 --keys 10k -o $text.tamis
  done
  tamis similar a.tamis b.tamis c.tamis")]
pub(crate) struct Similar {
    /// The filters, at least 2; `-` is standard input
    #[arg(value_name = "FILTERS", required = true, num_args = 2..)]
    pub(crate) filters: Vec<PathBuf>,
    /// Print one JSON object per pair
    #[arg(long)]
    pub(crate) json: bool,
}
