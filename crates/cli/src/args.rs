//! The command line: commands, options and their help texts.

mod delta;
mod dict;
#[cfg(test)]
mod examples;
mod foreign;
mod parse;
mod plan;
mod resize;
mod sat;
pub(crate) mod server;
mod similar;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use tamis::{Capability, HashId, KeyForms};
use tamis_interop::{Format, KeyType};

use crate::input::Separator;
use crate::{files, number};

pub(crate) use delta::{Diff, Patch};
pub(crate) use dict::{
    Dict, DictCommand, DictCreate, DictDump, DictKeys, DictLoad, DictPut, DictStats, DictVerify,
};
pub(crate) use foreign::{Export, Import};
pub(crate) use parse::{ExportTo, KindOrAuto, OnOverflow, Window, with_underscores};
pub(crate) use plan::Plan;
pub(crate) use resize::{List, Resize};
pub(crate) use sat::{Ksat, Sat, SatCommand, SatExport};
pub(crate) use similar::{Passages, Similar};

const EXAMPLES: &str = "\
Examples:
  tamis build words.txt -o words.tamis       build a filter of every line, 1 % false positives
  tamis query words.tamis text.txt           print the lines that are probably words
  tamis query -v words.tamis text.txt        print the lines that are certainly not words
  tamis plan --keys 1e9 --fpr 0.1%           compare the memory of all kinds for 10^9 keys
  tamis filters                              list all kinds of filter

Exit status: 0 success or a match, 1 no match, 2 an error.";

/// Build, query and plan approximate membership filters
///
/// A filter answers whether a key is in a set, from a few bits per key. A negative answer is certain;
/// a positive answer is wrong at a rate that you choose.
#[derive(Parser, Debug)]
#[command(name = "tamis", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Build(Box<Build>),
    Query(Query),
    Add(Add),
    Remove(Remove),
    Count(Count),
    Get(Get),
    Set(Set),
    Uniq(Uniq),
    Comm(Comm),
    Merge(Merge),
    Resize(Resize),
    List(List),
    Import(Import),
    Export(Export),
    Diff(Diff),
    Patch(Patch),
    Similar(Similar),
    Info(Info),
    Verify(Verify),
    #[command(flatten)]
    Server(server::Server),
    Filters(Filters),
    Plan(Plan),
    Dict(Dict),
    Ksat(Ksat),
    Sat(Sat),
    Bench(Bench),
    #[cfg(feature = "explore")]
    Explore(Explore),
    /// Build, save, open and query every kind of filter, and print a summary
    Demo,
    Completions(Completions),
    Man(Man),
}

/// The format of key files, and the number of threads.
#[derive(Args, Debug)]
pub(crate) struct Form {
    /// Keys end with a zero byte instead of a line feed
    #[arg(short = '0', long = "null")]
    pub(crate) nul: bool,
    /// Keys are raw 64-bit integers, 8 bytes each, little-endian
    #[arg(long, conflicts_with = "nul")]
    pub(crate) u64: bool,
    /// Number of threads [default: all processors]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

impl Form {
    pub(crate) fn separator(&self) -> Separator {
        match self {
            Self { u64: true, .. } => Separator::U64,
            Self { nul: true, .. } => Separator::Nul,
            _ => Separator::Newline,
        }
    }

    /// Returns the form of the keys, as filters record it.
    pub(crate) fn key_forms(&self) -> KeyForms {
        if self.u64 { KeyForms::INTEGERS } else { KeyForms::BYTES }
    }

    pub(crate) fn threads(&self) -> usize {
        let all = || available_parallelism().map_or(1, NonZeroUsize::get);
        // More than 1024 threads add buffers but no speed.
        self.threads.map_or_else(all, NonZeroUsize::get).min(1024)
    }

    /// Checks that keys are lines, which can hold a value. Raw integers cannot.
    pub(crate) fn require_lines(&self) -> Result<()> {
        if self.u64 {
            bail!("--u64 cannot be used here: raw integers have no values");
        }
        Ok(())
    }
}

/// Build a filter from keys, and look up every key before saving it
#[derive(Args, Debug)]
#[command(after_help = "\
Key files have one key per line. Empty lines are skipped, and a carriage return before the line
feed is not part of the key, nor is a byte order mark at the start. gzip and zstd are recognised by
their first bytes and decompressed. Files are read in blocks and may be larger than memory.

Keys are read 3 times: to count, to build and to check. Standard input is first copied to a
temporary file. A static kind given by --filter reads keys once: it holds 8 bytes per key, in
memory or, beyond --max-memory, in an unnamed temporary file, and counts and checks its own copy.

--max-memory limits the whole process, with about 10 MB per thread for reading. The set of
--distinct may take as much once more.

Keys may repeat. Static kinds and `exact` drop repeated keys, and other kinds keep them, so that a
key must be removed as often as it was inserted. Kinds that hold only a few copies of a key
(`tamis filters` lists them) are not chosen without --distinct; with --filter, a key that occurs too
often is an error.

Without --filter the best kind is chosen as by `tamis plan`. With --keys only kinds that can insert
are considered, and with --needs only kinds with these capabilities.

Counts, sizes and rates can be written as 1e6, 10M, 64KiB, 0.1%, 1/1000 or 2^-8.

Examples:
  tamis build words.txt -o words.tamis
  tamis build --fpr 0.1% --filter bloom a.txt b.txt.gz -o both.tamis
  sort -u log | tamis build --keys 10M -o seen.tamis      capacity for `tamis add`
  tamis build --bytes 64MiB --hash secure users.txt -o users.tamis
  tamis build --u64 ids.bin -o ids.tamis
  tamis build --fpr 0 users.txt -o users.tamis            an exact set of 128-bit hashes
  tamis build --range-length 100 --type int64 times.txt -o times.tamis
  tamis build --values stock.tsv -o stock.tamis           values for `tamis get`
  tamis build --deny never.txt --fpr 2^-8 spam.txt -o spam.tamis
  tamis build --filter sat --k 5 --efficiency 0.85 --fpr 25% words.txt -o words.tamis
  tamis build --format guava words.txt -o words.bin       a filter of another program")]
pub(crate) struct Build {
    /// Files of keys; `-` is standard input [default: -]
    #[arg(value_name = "KEYS")]
    pub(crate) keys_from: Vec<PathBuf>,
    /// File to write the filter to; `-` is standard output
    #[arg(short, long, value_name = "F")]
    pub(crate) output: PathBuf,
    /// Write a filter of another program, as that program would make it for the keys and --fpr
    #[arg(long, value_name = "FORMAT", value_parser = parse::format(), conflicts_with_all = [
        "filter", "bits_per_key", "bytes", "needs", "set", "k", "efficiency", "construction",
        "values", "deny", "hash", "seed", "distinct"])]
    pub(crate) format: Option<Format>,
    /// Type of the keys, such as int64: lines are numbers in decimal. With --format it decides how the
    /// program hashes them [default: utf8]
    #[arg(long = "type", value_name = "TYPE", value_parser = parse::key_type(),
        conflicts_with_all = ["u64", "values", "deny", "distinct"])]
    pub(crate) key_type: Option<KeyType>,
    /// Kind of filter; `auto` takes the first kind that `tamis plan` lists
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = parse::kind_or_auto())]
    pub(crate) filter: KindOrAuto,
    /// False positive rate: the share of non-members that the filter accepts; 0 makes an exact set
    /// [default: 1%]
    #[arg(long, value_name = "P", value_parser = parse::rate_or_zero, allow_negative_numbers = true,
        group = "space")]
    pub(crate) fpr: Option<f64>,
    /// Size of the filter in bits per key
    #[arg(long, value_name = "B", value_parser = number::bits, allow_negative_numbers = true, group = "space")]
    pub(crate) bits_per_key: Option<f64>,
    /// Size of the filter in bytes
    #[arg(long, value_name = "N", value_parser = number::size, group = "space")]
    pub(crate) bytes: Option<u64>,
    /// Capacity in keys, to add more keys later [default: the number of keys read]
    #[arg(long, value_name = "N", value_parser = parse::keys, allow_negative_numbers = true)]
    pub(crate) keys: Option<u64>,
    /// With `--filter auto`: capabilities that the filter must have, separated by commas [default:
    /// none, or insert with --keys]
    #[arg(long, value_name = "NEEDS", value_delimiter = ',', value_parser = parse::need())]
    pub(crate) needs: Vec<Capability>,
    /// A setting of the kind; `tamis filters` lists them
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::setting)]
    pub(crate) set: Vec<(String, String)>,
    /// With `--filter sat`: literals per clause, 3 to 7 [default: 4]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub(crate) k: Option<String>,
    /// With `--filter sat`: information-theoretic minimum over actual size, below 1. Building slows
    /// down with it, steeply from 0.85 on [default: 0.75]
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    pub(crate) efficiency: Option<String>,
    /// With `--filter sat`: sliced, multi, single or nae [default: sliced]
    #[arg(long, value_name = "NAME")]
    pub(crate) construction: Option<String>,
    /// With `--filter sat`: solutions of the formula that `tamis sat export` wrote for these keys
    #[arg(long, value_name = "FILE", requires = "seed", conflicts_with_all = ["values", "deny", "keys"])]
    pub(crate) solution: Vec<PathBuf>,
    /// The filter answers ranges (`tamis query --range`): up to this many integers at the rate of --fpr
    #[arg(long, value_name = "L", value_parser = number::count, conflicts_with_all = ["format", "values", "deny"])]
    pub(crate) range_length: Option<u64>,
    /// Stop after this many seconds and save nothing [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds, allow_negative_numbers = true)]
    pub(crate) time_limit: Option<Duration>,
    /// Read lines of a key, a tab and a value, which `tamis get` prints. If all values are integers
    /// (17, -17 or 0x11) they are stored as such, else all are stored as text
    #[arg(long, conflicts_with_all = ["u64", "keys", "needs", "deny"])]
    pub(crate) values: bool,
    /// File of keys that the filter must reject, in the format of KEYS
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "needs"])]
    pub(crate) deny: Vec<PathBuf>,
    /// Hash function: `secure` resists adversarial keys, `fast` does not [default: fast; secure for exact,
    /// and ordered for a filter that answers ranges]
    #[arg(long, value_name = "HASH", value_parser = parse::hash())]
    pub(crate) hash: Option<HashId>,
    /// Seed of the hash function, 32 hexadecimal digits. Filters that are merged or compared must
    /// have the same seed [default: random]
    #[arg(long, value_name = "HEX", value_parser = number::seed)]
    pub(crate) seed: Option<[u64; 2]>,
    /// Memory limit in bytes [default: the available memory]
    #[arg(long, value_name = "M", value_parser = number::size)]
    pub(crate) max_memory: Option<u64>,
    /// Folder for temporary files of a static kind [default: the folder of F]
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Insert each key once: drop repeated keys, in 17 to 34 bytes of memory per key. Static kinds
    /// always do, in less memory
    #[arg(long)]
    pub(crate) distinct: bool,
    /// Do not look up every key before saving. Static kinds always do
    #[arg(long)]
    pub(crate) no_verify: bool,
    #[command(flatten)]
    pub(crate) form: Form,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Print the lines that the filter accepts
#[derive(Args, Debug)]
#[command(after_help = "\
Lines are printed unchanged and in order, as soon as each block of input is read. A line that is
printed may be a false positive; with -v every printed line is certainly not a member. Use -0 or
--u64 if the filter was built with it. Integers are printed in decimal.

With --range or --ranges the filter must be built with --range-length. `A..B` is the keys from A up
to but not including B, `A..=B` includes B, as in Rust. Ends are integers if the filter holds
integers. A text counts by its first 8 bytes. A range that is printed may hold no key, at the false
positive rate up to the range length of the filter and in proportion beyond it; one that is not
printed holds none.

With --column the filter is a Parquet file. Each key that a row group may hold is printed with a
tab and the numbers of those row groups; a row group without a filter may hold any key.

Exit status: 0 if a line was selected, 1 if none was, 2 an error.

Examples:
  tamis query words.tamis text.txt
  tamis query --format guava --type int64 ids.bin ids.txt
  tamis query events.parquet --column user.id ids.txt
  tamis query --range 1000..2000 times.tamis && echo probably
  tail -f log | tamis query -v seen.tamis      print only lines that are certainly new
  tamis query -q seen.tamis <<< apple && echo probably")]
pub(crate) struct Query {
    /// The filter; `-` is standard input
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Files of keys to look up; `-` is standard input [default: -]
    #[arg(value_name = "PROBES")]
    pub(crate) probes: Vec<PathBuf>,
    /// Print the lines that are certainly not members
    #[arg(short = 'v', long)]
    pub(crate) invert: bool,
    /// Print only the number of lines
    #[arg(short, long)]
    pub(crate) count: bool,
    /// Print one JSON object per line that is selected, or with -c one object
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,
    /// Print nothing, and exit at the first line selected
    #[arg(short, long, conflicts_with = "count")]
    pub(crate) quiet: bool,
    /// Skip the checksums, so that a large file opens at once
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Ask whether a key of this range may be a member, instead of PROBES; may be repeated
    #[arg(long, value_name = "A..B", allow_hyphen_values = true,
        conflicts_with_all = ["probes", "ranges", "format", "column", "key_type", "u64", "nul"])]
    pub(crate) range: Vec<String>,
    /// The lines of PROBES are ranges
    #[arg(long, conflicts_with_all = ["format", "column", "key_type", "u64"])]
    pub(crate) ranges: bool,
    /// F is a filter of another program
    #[arg(long, value_name = "FORMAT", value_parser = parse::format())]
    pub(crate) format: Option<Format>,
    /// F is a Parquet file, and this its column
    #[arg(long, value_name = "NAME", conflicts_with_all = ["format", "u64"])]
    pub(crate) column: Option<String>,
    /// Type of the keys, which decides how another program hashes them [default: utf8, or the type of
    /// the column]
    #[arg(long = "type", value_name = "TYPE", value_parser = parse::key_type(), conflicts_with = "u64")]
    pub(crate) key_type: Option<KeyType>,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Insert keys into a filter
#[derive(Args, Debug)]
#[command(after_help = "\
The filter must be of a kind that can insert, with free capacity: see --keys of `tamis build`. A key
that is already in the filter is inserted again. On an error the file is left unchanged.

Example:
  tamis add seen.tamis today.txt")]
pub(crate) struct Add {
    #[command(flatten)]
    pub(crate) change: Change,
    /// Insert each key of KEYS once: drop repeated keys. Takes 17 to 34 bytes of memory per key
    #[arg(long)]
    pub(crate) distinct: bool,
}

/// Remove keys from a filter
#[derive(Args, Debug)]
#[command(after_help = "\
Remove only keys that were inserted. Removing a non-member that the filter accepts can delete a
member; non-members that the filter rejects are counted and reported. On an error the file is left
unchanged.

Exit status: 0 if a key was removed, 1 if none was, 2 an error.

Example:
  tamis remove seen.tamis expired.txt")]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) change: Change,
}

/// Arguments of `add`, `remove` and `set`.
#[derive(Args, Debug)]
pub(crate) struct Change {
    /// The filter; `-` is standard input
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Files of keys; `-` is standard input [default: -]
    #[arg(value_name = "KEYS")]
    pub(crate) keys_from: Vec<PathBuf>,
    /// File to write the changed filter to; `-` is standard output [default: F]
    #[arg(short, long, value_name = "G")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: Form,
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

impl Change {
    pub(crate) fn target(&self) -> &PathBuf {
        self.output.as_ref().unwrap_or(&self.filter)
    }

    /// Checks, before any work, what goes to standard output and comes from standard input, and that
    /// the target can be written.
    pub(crate) fn check(&self) -> Result<()> {
        files::check_stdin(std::slice::from_ref(&self.filter), Some(&self.keys_from))?;
        files::check_json(self.target(), self.json)?;
        files::check_target(self.target())
    }
}

/// Print each line with its count: the count, a tab and the line
#[derive(Args, Debug)]
#[command(after_help = "\
A count is never too low and sometimes too high. `>15` means that the counter is saturated at 15.

Exit status: 0 if a count is above 0, 1 if none is, 2 an error.

Example:
  tamis count visits.tamis users.txt")]
pub(crate) struct Count {
    /// The filter; `-` is standard input
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Files of keys to look up; `-` is standard input [default: -]
    #[arg(value_name = "PROBES")]
    pub(crate) probes: Vec<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Print each line that the filter accepts, a tab and its value
#[derive(Args, Debug)]
#[command(after_help = "\
The filter must be built with `tamis build --values`. Integers are printed in decimal, other values
as they were given. A non-member is accepted at the false positive rate, with an arbitrary value.

Exit status: 0 if a line was printed, 1 if none was, 2 an error.

Examples:
  tamis get stock.tamis names.txt
  tamis get --json stock.tamis <<< apple")]
pub(crate) struct Get {
    /// The filter; `-` is standard input
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Files of keys to look up; `-` is standard input [default: -]
    #[arg(value_name = "PROBES")]
    pub(crate) probes: Vec<PathBuf>,
    /// Print the lines that are certainly not members
    #[arg(short = 'v', long)]
    pub(crate) invert: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Skip the checksums, so that a large file opens at once
    #[arg(long)]
    pub(crate) no_check: bool,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Change the values of keys in a filter built with --values
#[derive(Args, Debug)]
#[command(after_help = "\
KEYS has lines of a key, a tab and a value, as for `tamis build --values`. If a key occurs twice,
its last value is stored. A key that is certainly not a member is an error. A non-member that the
filter accepts overwrites the value of a member. On an error the file is left unchanged.

A map of integers takes those in the range that `tamis info` prints; build it with a larger
--set value_bits=B for a larger range. A map of text takes only the values that it was built with.

Example:
  tamis set stock.tamis changes.tsv")]
pub(crate) struct Set {
    #[command(flatten)]
    pub(crate) change: Change,
}

/// Drop repeated lines of a stream, in fixed memory
#[derive(Args, Debug)]
#[command(after_help = "\
A line is dropped if it occurred within the last --window lines, or within
that time. Every repeat within the window is dropped. A line is forgotten at
the latest when 1/8 of the window more has passed. A new line is dropped at
the rate of --fpr. Lines are printed unchanged and in order, as soon as each
block of input is read.

A window of time has room for --keys distinct lines and 1/8 more. What
happens to a new line that finds no room is set by --on-overflow:
  grow   add a filter of twice the size; older filters are dropped when they
         have expired. The rate of --fpr holds for all filters together.
         Beyond --max-memory, stop with an error
  stop   stop with an error after the lines before it are printed
  pass   print the line and do not remember it. A warning is printed once,
         and the number of such lines at the end
A window of lines has room for its lines; a line that finds none, 1 in 10^12,
is printed and not remembered, or stops the command if that is set.

With --checkpoint the window is read from FILE at the start, and written every
30 s, at the end, and on SIGINT or SIGTERM (exit status 130 or 143). FILE has
only lines that were printed before, and synced if the output is a file. After
a crash, a full disk or a power failure, run the command again on the same
input from its start, or from any point before the crash: the position in the
input is not stored. No line is lost. Lines that were printed after the last
checkpoint are printed again. The output of the crashed run may end in a part
of a line; that line is printed again, too. A pipe has a line as soon as it
was written to the pipe, even if no process reads it. One process at a time
can use FILE; it locks FILE.lock.

Examples:
  tail -f log | tamis uniq                       the last 10^7 lines
  tail -f log | tamis uniq --window 10min        lines not seen for 10 minutes
  tamis uniq --window 1M --fpr 1e-9 a.txt b.txt.gz
  tamis uniq --checkpoint seen.tamis < today.txt continue the previous run")]
pub(crate) struct Uniq {
    /// Files of lines; `-` is standard input [default: -]
    #[arg(value_name = "LINES")]
    pub(crate) lines_from: Vec<PathBuf>,
    /// Length of the window: a number of lines, or a time such as 90s, 10min, 2h or 7d [default: 10M]
    #[arg(long, value_name = "N|TIME", value_parser = parse::window, allow_negative_numbers = true)]
    pub(crate) window: Option<Window>,
    /// False positive rate: the share of new lines that are dropped [default: 1e-6]
    #[arg(long, value_name = "P", value_parser = parse::rate, allow_negative_numbers = true)]
    pub(crate) fpr: Option<f64>,
    /// With a window of time: distinct lines per window that memory is planned for [default: 10M]
    #[arg(long, value_name = "N", value_parser = parse::keys, allow_negative_numbers = true)]
    pub(crate) keys: Option<u64>,
    /// What to do with a new line that finds no room in the window
    #[arg(long, value_name = "ACTION", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) on_overflow: OnOverflow,
    /// Memory limit of the window in bytes [default: the available memory]
    #[arg(long, value_name = "M", value_parser = number::size)]
    pub(crate) max_memory: Option<u64>,
    /// Read the window from this file if it exists, and write it back
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// At the end, print the number of dropped lines on standard error
    #[arg(long)]
    pub(crate) count_dropped: bool,
    /// At the end, print the numbers of lines as a JSON object on standard error
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Print lines in two columns: certainly not members, and probably members
#[derive(Args, Debug)]
#[command(after_help = "\
Works like comm(1) with a filter as the second file. Lines of the second column start with a tab,
unless the first column is hidden.

Exit status: 0 if the second column has a line, 1 if it has none, 2 an error.

Examples:
  tamis comm words.tamis text.txt
  tamis comm -1 words.tamis text.txt           print probable members only, as `tamis query`
  tamis comm --json words.tamis text.txt       print counts and the expected false positives")]
pub(crate) struct Comm {
    /// The filter; `-` is standard input
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Files of keys; `-` is standard input [default: -]
    #[arg(value_name = "KEYS")]
    pub(crate) keys_from: Vec<PathBuf>,
    /// Hide the first column: lines that are certainly not members
    #[arg(short = '1')]
    pub(crate) hide_new: bool,
    /// Hide the second column: lines that are probably members
    #[arg(short = '2')]
    pub(crate) hide_maybe: bool,
    /// Print only the number of lines of each column
    #[arg(short, long)]
    pub(crate) count: bool,
    /// Print only the number of lines of each column, as a JSON object
    #[arg(long, conflicts_with = "count")]
    pub(crate) json: bool,
    /// Skip the checksums, so that a large file opens at once
    #[arg(long)]
    pub(crate) no_check: bool,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Merge filters into a filter of all their keys
#[derive(Args, Debug)]
#[command(after_help = "\
The filters must have the same kind, shape, hash and seed, and the capacity for the keys of all.
quotient, counting_quotient and hash_compaction also merge after `tamis resize`, and quotient and
exact at any sizes: the result has the larger capacity and the shorter fingerprints.
With --force a union of bit arrays may exceed the capacity. Its file then states the estimated
number of keys as its capacity, and the false positive rate of that many keys.

Example:
  seed=$(openssl rand -hex 16)
  tamis build --seed $seed --keys 1M monday.txt -o monday.tamis
  tamis build --seed $seed --keys 1M tuesday.txt -o tuesday.tamis
  tamis merge monday.tamis tuesday.tamis -o both.tamis")]
pub(crate) struct Merge {
    /// The filters, at least 2; `-` is standard input
    #[arg(value_name = "FILTERS", required = true, num_args = 2..)]
    pub(crate) filters: Vec<PathBuf>,
    /// File to write the result to; `-` is standard output
    #[arg(short, long, value_name = "F")]
    pub(crate) output: PathBuf,
    /// Intersect instead: accept only keys that every filter accepts
    #[arg(long, conflicts_with = "force")]
    pub(crate) intersect: bool,
    /// Write a union that exceeds the capacity, at a higher false positive rate (bloom, bloom_g,
    /// split_block_bloom)
    #[arg(long)]
    pub(crate) force: bool,
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

/// Print the kind, size, rates and capabilities of a filter, or the filters of a Parquet file
#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The filter, or a Parquet file; `-` is standard input
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check the checksums and the structure of filter files
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The filters; `-` is standard input
    #[arg(value_name = "F", required = true)]
    pub(crate) filters: Vec<PathBuf>,
    /// Print one JSON object per file
    #[arg(long)]
    pub(crate) json: bool,
}

/// Serve a page that chooses, tries and looks inside filters, and print its address
///
/// Only programs on this machine can reach it, and nothing leaves it. Ctrl-C ends it.
#[cfg(feature = "explore")]
#[derive(Args, Debug)]
pub(crate) struct Explore {
    /// A filter to open in the page
    #[arg(value_name = "F")]
    pub(crate) filter: Option<PathBuf>,
    /// Port of 127.0.0.1 [default: any free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
}

/// List all kinds of filter with their capabilities, settings and bits per key
#[derive(Args, Debug)]
pub(crate) struct Filters {
    /// Print one JSON object per kind
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure time and memory of the kinds of filter on this machine
#[derive(Args, Debug)]
#[command(after_help = "\
Keys are 64-bit integers, and every time includes hashing them. Times are nanoseconds per key, the
median over the rounds; the factor after a time compares it with the fastest filter of the column.
On a shared machine compare the factors, not the times. With `all`, kinds that take minutes to
build are skipped above 100000 keys.

Examples:
  tamis bench --keys 10M --fpr 0.1%
  tamis bench --filter bloom,cuckoo --rounds 101 --json")]
pub(crate) struct Bench {
    /// Kinds to measure, separated by commas
    #[arg(long, value_name = "A,B|all", value_delimiter = ',', default_value = "all")]
    pub(crate) filter: Vec<String>,
    /// Number of keys
    #[arg(long, value_name = "N", default_value = "1M", value_parser = number::count)]
    pub(crate) keys: u64,
    /// False positive rate to build for
    #[arg(long, value_name = "P", default_value = "1%", value_parser = number::rate)]
    pub(crate) fpr: f64,
    /// Number of rounds, 1 to 10000
    #[arg(long, value_name = "R", default_value_t = 31,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) rounds: usize,
    /// Seed of the keys and of the hash functions
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Memory limit in bytes [default: the available memory]
    #[arg(long, value_name = "M", value_parser = number::size)]
    pub(crate) max_memory: Option<u64>,
    /// Print one JSON object per kind, with the peak memory of a build
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure each kind also through the run-time dispatch that other languages use
    #[arg(long)]
    pub(crate) dynamic: bool,
    /// Print the peak memory of building this kind, in bytes
    #[arg(long, value_name = "FILTER", hide = true)]
    pub(crate) peak_of: Option<String>,
}

/// Print shell completions
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tamis completions bash > ~/.local/share/bash-completion/completions/tamis")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tamis man --dir ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Write the pages of all commands to this folder instead
    #[arg(long, value_name = "D")]
    pub(crate) dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// A longer line would be wrapped a second time, and leave a line of one word.
    #[test]
    fn help_texts_fit_the_width() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines() {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
