//! The command line of `tamis dict`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tamis::HashId;
use tamis_dictionary::Layout;

use super::parse;
use crate::number;

/// Store keys and values exactly, with a filter in memory that rejects absent keys
#[derive(Args, Debug)]
#[command(after_help = "\
WHERE is one of
  NAME.redb                          a file
  NAME                               a folder, written by fjall
  redis://HOST:PORT/#NAME            a Redis server; needs a build with --features redis
  postgres://USER@HOST/DATABASE#NAME a PostgreSQL server; needs a build with --features postgres
On a server, NAME selects one of several dictionaries.

The filter rejects most lookups of absent keys without reading the store. After a false positive
the filter is repaired, so the same key is rejected next time. Only one process can open a
dictionary at a time.

load and dump use lines of a key, a tab and a value. A backslash is written \\\\, a tab \\t, a line
feed \\n, a carriage return \\r, and any byte \\xHH. dump writes UTF-8 text and escapes all other bytes
and control characters, so load restores every entry. A line has at most 16 MiB.

Examples:
  tamis dict create --keys 10M stock.redb
  tamis dict load stock.redb stock.tsv.gz
  tamis dict get stock.redb apple
  tamis dict dump stock.redb | tamis dict load copy.redb
  tamis dict stats stock.redb")]
pub(crate) struct Dict {
    #[command(subcommand)]
    pub(crate) command: DictCommand,
    /// Memory limit for the filter in bytes [default: no limit]
    #[arg(long, global = true, value_name = "M", value_parser = number::size)]
    pub(crate) max_memory: Option<u64>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum DictCommand {
    /// Create an empty dictionary
    Create(DictCreate),
    /// Set the value of a key
    Put(DictPut),
    /// Print each key found, a tab and its value; exit status 1 if no key was found
    Get(DictKeys),
    /// Delete keys; exit status 1 if no key was found
    Delete(DictKeys),
    /// Put every line of the input: a key, a tab and a value
    Load(DictLoad),
    /// Write every entry as a line that `load` reads
    Dump(DictDump),
    /// Print sizes, rates and operation counts
    Stats(DictStats),
    /// Check every entry by its checksum, and the filter against every key
    Verify(DictVerify),
}

#[derive(Args, Debug)]
pub(crate) struct DictCreate {
    /// The dictionary: a file, a folder or a server, see `tamis dict --help`
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// Initial capacity of the filter in keys; it grows when more are put
    #[arg(long, value_name = "N", value_parser = parse::keys, default_value = "1e6")]
    pub(crate) keys: u64,
    /// False positive rate: the share of absent keys for which the store is read
    #[arg(long, value_name = "P", value_parser = parse::rate, default_value = "2^-8", allow_negative_numbers = true)]
    pub(crate) fpr: f64,
    /// Order of entries: by hash (`clustered`, a false positive costs 1 access) or by key with an
    /// index (`secondary`, 2 accesses)
    #[arg(long, value_name = "LAYOUT", default_value = "clustered", value_parser = parse::layout())]
    pub(crate) layout: Layout,
    /// Hash function: `secure` resists adversarial keys, `fast` does not
    #[arg(long, value_name = "HASH", default_value = "secure", value_parser = parse::hash())]
    pub(crate) hash: HashId,
}

#[derive(Args, Debug)]
pub(crate) struct DictPut {
    /// The dictionary
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// The key
    pub(crate) key: OsString,
    /// The value
    pub(crate) value: OsString,
}

#[derive(Args, Debug)]
pub(crate) struct DictKeys {
    /// The dictionary
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// The keys [default: the lines of standard input]
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct DictLoad {
    /// The dictionary
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// Files of lines; `-` is standard input [default: -]
    #[arg(value_name = "LINES")]
    pub(crate) lines: Vec<PathBuf>,
    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DictDump {
    /// The dictionary
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// The file of lines; `-` is standard output
    #[arg(value_name = "LINES", default_value = "-")]
    pub(crate) lines: PathBuf,
    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DictStats {
    /// The dictionary
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DictVerify {
    /// The dictionary
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
