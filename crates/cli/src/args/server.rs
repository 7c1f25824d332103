//! The options of `push`, `pull` and `shard`.

#![cfg_attr(
    not(feature = "redis"),
    allow(dead_code, reason = "only a build with the feature reads the options")
)]

use std::path::PathBuf;

use clap::{Args, Subcommand};

const MAX_SHARDS: i64 = 16384;

#[derive(Subcommand, Debug)]
pub(crate) enum Server {
    Push(Push),
    Pull(Pull),
    Shard(Shard),
}

/// Load a filter into a key of a Redis or Valkey server
#[derive(Args, Debug)]
#[command(after_help = "\
The server must have the tamis module (docs/redis.md). The filter replaces what the key held in one
step, once all of it is there; after an interrupt the key is unchanged. A node of a cluster leads to
the other nodes. Needs a build with --features redis.

Several filters are the shards of one: KEY:{0}, KEY:{1} and so on. Build them from the files that
`tamis shard` writes.

Examples:
  tamis push words.tamis redis://127.0.0.1:6379/#words
  tamis push words.0.tamis words.1.tamis words.2.tamis redis://127.0.0.1:6379/#words")]
pub(crate) struct Push {
    /// The filter, or the shards of one in order; `-` is standard input
    #[arg(value_name = "F", required = true)]
    pub(crate) filters: Vec<PathBuf>,
    /// The server and the key: redis://HOST:PORT/#KEY
    #[arg(value_name = "LOCATION")]
    pub(crate) location: String,
    /// Print no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Write the filter of a key of a Redis or Valkey server to a file
#[derive(Args, Debug)]
#[command(after_help = "\
The server must have the tamis module (docs/redis.md). A filter that changes while it is read is
copied on the server first. Needs a build with --features redis.

Examples:
  tamis pull redis://127.0.0.1:6379/#words -o words.tamis
  tamis pull redis://127.0.0.1:6379/#words --shards 3 -o words.{}.tamis")]
pub(crate) struct Pull {
    /// The server and the key: redis://HOST:PORT/#KEY
    #[arg(value_name = "LOCATION")]
    pub(crate) location: String,
    /// File to write the filter to; `-` is standard output. With --shards a name with {}, which
    /// becomes the number of the shard
    #[arg(short, long, value_name = "F")]
    pub(crate) output: PathBuf,
    /// The number of shards of the filter: KEY:{0}, KEY:{1} and so on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_SHARDS))]
    pub(crate) shards: Option<u32>,
    /// Print no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Split keys into files for the shards of a filter on Redis or Valkey servers
#[derive(Args, Debug)]
#[command(after_help = "\
Key files are those of `tamis build`. The client helpers look for a key in the shard whose file it
is in (docs/redis.md). Needs a build with --features redis.

Example:
  tamis shard words.txt --shards 3 -o words.{}.txt
  for i in 0 1 2; do tamis build words.$i.txt -o words.$i.tamis; done
  tamis push words.0.tamis words.1.tamis words.2.tamis redis://127.0.0.1:6379/#words")]
pub(crate) struct Shard {
    /// Files of keys; `-` is standard input [default: -]
    #[arg(value_name = "KEYS")]
    pub(crate) keys: Vec<PathBuf>,
    /// The number of shards
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_SHARDS))]
    pub(crate) shards: u32,
    /// File name with {}, which becomes the number of the shard
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}
