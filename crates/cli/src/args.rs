//! The command line: every option, and the words that explain it.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use tamis::plan::{check_fpr, check_keys};
use tamis::{Capability, HashId, Kind};
use tamis_dictionary::Layout;

use crate::input::Separator;
use crate::{bench, demo, number};

const EXAMPLES: &str = "\
Examples:
  tamis build words.txt -o words.tamis       a filter of every line, 1 % false positives
  tamis query words.tamis text.txt           the lines of text.txt that may be words
  tamis query -v words.tamis text.txt        those that surely are not
  tamis plan --keys 1e9 --fpr 0.1%           what a billion keys would take
  tamis filters                              every kind there is

Exit status: 0 something matched or all went well, 1 nothing matched, 2 an error.";

/// Is it in the set? A filter answers from little memory: no is certain, yes is nearly so
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
    Similar(Similar),
    Info(Info),
    Verify(Verify),
    Filters(Filters),
    Plan(Plan),
    Dict(Dict),
    Ksat(Ksat),
    /// Measure what each kind of filter costs on this machine
    Bench(bench::Args),
    /// Show every kind of filter at work
    Demo(demo::Args),
    Completions(Completions),
    Man(Man),
}

/// How key files are written and read.
#[derive(Args, Debug)]
pub(crate) struct Form {
    /// Keys end with a zero byte instead of a line feed
    #[arg(short = '0', long = "null")]
    pub(crate) nul: bool,
    /// Keys are raw 64-bit integers, eight bytes each, little-endian
    #[arg(long, conflicts_with = "nul")]
    pub(crate) u64: bool,
    /// Threads to work on [default: as many as the machine has]
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

    pub(crate) fn threads(&self) -> usize {
        let all = || available_parallelism().map_or(1, NonZeroUsize::get);
        // Past a thousand there are only more buffers, no more processors.
        self.threads.map_or_else(all, NonZeroUsize::get).min(1024)
    }
}

/// Build a filter from keys, and ask it for every one of them before it is saved
#[derive(Args, Debug)]
#[command(after_help = "\
Key files hold one key a line; empty lines are no keys, and a carriage return before the line feed
is not part of one. Files that end in .gz or .zst are unpacked. Keys are read in pieces, so a file
may be larger than memory.

Keys are read three times: to count, to build, to check; standard input is first copied to a
temporary file. A static kind that is named reads them once: it counts and checks what it gathered,
8 bytes a key, in memory or, where --max-memory is short of that, in a file without a name. Its
limit is for all the program takes; that of the other kinds is for the filter alone, to which
reading adds some 10 MB a thread.

Without --filter the best of all kinds is built, unless --needs or --keys ask for one that can be
added to.

Counts, sizes and rates may be written as 1e6, 10M, 64KiB, 0.1%, 1/1000 or 2^-8.

Examples:
  tamis build words.txt -o words.tamis
  tamis build --fpr 0.1% --filter bloom a.txt b.txt.gz -o both.tamis
  sort -u log | tamis build --keys 10M -o seen.tamis      room for ten million, to add to
  tamis build --bytes 64MiB --hash secure users.txt -o users.tamis
  tamis build --u64 ids.bin -o ids.tamis
  tamis build --values stock.tsv -o stock.tamis           to ask with `tamis get`
  tamis build --deny never.txt --fpr 2^-8 spam.txt -o spam.tamis
  tamis build --filter sat --k 5 --efficiency 0.85 --fpr 25% words.txt -o words.tamis")]
pub(crate) struct Build {
    /// Files of keys; `-` or none is standard input
    #[arg(value_name = "KEYS")]
    pub(crate) keys_from: Vec<PathBuf>,
    /// Where to save the filter
    #[arg(short, long, value_name = "F")]
    pub(crate) output: PathBuf,
    /// The kind of filter; `auto` takes what `tamis plan` puts first
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = kind_or_auto())]
    pub(crate) filter: KindOrAuto,
    /// The share of strangers that may pass for members [default: 1%]
    #[arg(long, value_name = "P", value_parser = rate, allow_negative_numbers = true, group = "space")]
    pub(crate) fpr: Option<f64>,
    /// Memory for each key
    #[arg(long, value_name = "B", value_parser = number::bits, allow_negative_numbers = true, group = "space")]
    pub(crate) bits_per_key: Option<f64>,
    /// Memory in all
    #[arg(long, value_name = "N", value_parser = number::size, group = "space")]
    pub(crate) bytes: Option<u64>,
    /// Make room for this many keys, to add the others later [default: as many as there are]
    #[arg(long, value_name = "N", value_parser = keys, allow_negative_numbers = true)]
    pub(crate) keys: Option<u64>,
    /// With `--filter auto`: what the filter must be able to do, as for `tamis plan` [default:
    /// nothing more, but insert with --keys]
    #[arg(long, value_name = "NEEDS", value_delimiter = ',', value_parser = need())]
    pub(crate) needs: Vec<Need>,
    /// A setting of the kind, as `tamis filters` lists them
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, String)>,
    /// With `--filter sat`, literals a clause: 3 to 7 [default: 4]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub(crate) k: Option<String>,
    /// With `--filter sat`, the share of the memory that cannot be saved: more takes longer to
    /// build, from 0.85 on much longer [default: 0.75]
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    pub(crate) efficiency: Option<String>,
    /// With `--filter sat`: sliced, multi, single or nae [default: sliced]
    #[arg(long, value_name = "NAME")]
    pub(crate) construction: Option<String>,
    /// With `--filter sat`, give up after so many seconds, and save nothing
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) time_limit: Option<Duration>,
    /// Lines are a key, a tab and a number (17 or 0x11), which `tamis get` tells of the key
    #[arg(long, conflicts_with_all = ["u64", "keys", "needs", "deny"])]
    pub(crate) values: bool,
    /// Keys that shall never pass for members, in the form of KEYS
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "needs"])]
    pub(crate) deny: Vec<PathBuf>,
    /// How keys become numbers: `secure` where others choose the keys and must not find out
    /// which of them collide
    #[arg(long, value_name = "HASH", default_value = "fast", value_parser = hash())]
    pub(crate) hash: HashId,
    /// The seed of the hash, 32 hexadecimal digits: filters to merge or compare must share one
    /// [default: random]
    #[arg(long, value_name = "HEX", value_parser = number::seed)]
    pub(crate) seed: Option<[u64; 2]>,
    /// Take no more memory than this, or refuse [default: the memory that is available]
    #[arg(long, value_name = "M", value_parser = number::size)]
    pub(crate) max_memory: Option<u64>,
    /// Where a static kind lays keys aside for which there is no memory [default: the folder of F]
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Do not ask the filter for every key before saving it; a static kind does so in any case
    #[arg(long)]
    pub(crate) no_verify: bool,
    #[command(flatten)]
    pub(crate) form: Form,
    /// Print what was built as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Print the lines that may be members
#[derive(Args, Debug)]
#[command(after_help = "\
Lines come out as they went in, in the same order, as soon as they are known. Give -0 or --u64 if
the filter was built so; integers are printed as decimal numbers.

Examples:
  tamis query words.tamis text.txt
  tail -f log | tamis query -v seen.tamis      only what is surely new
  tamis query -q seen.tamis <<< apple && echo perhaps")]
pub(crate) struct Query {
    /// The filter
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Files of keys to look for; `-` or none is standard input
    #[arg(value_name = "PROBES")]
    pub(crate) probes: Vec<PathBuf>,
    /// Print the lines that surely are not members
    #[arg(short = 'v', long)]
    pub(crate) invert: bool,
    /// Print only how many
    #[arg(short, long)]
    pub(crate) count: bool,
    /// Print nothing: the exit status tells whether there was any
    #[arg(short, long, conflicts_with = "count")]
    pub(crate) quiet: bool,
    /// Trust the file's contents: open it at once, however large
    #[arg(long)]
    pub(crate) no_check: bool,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Add keys to a filter that can take more
#[derive(Args, Debug)]
#[command(after_help = "\
The filter is replaced as a whole or, on any error, not at all. It takes as many keys as it was
built for: see --keys of `tamis build`.")]
pub(crate) struct Add {
    #[command(flatten)]
    pub(crate) change: Change,
}

/// Remove keys from a filter that can forget
#[derive(Args, Debug)]
#[command(after_help = "\
Remove only what was added. A stranger that passes for a member may take a member with it; one
that is surely not in is counted and reported. Exit status 1 if nothing was removed.")]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) change: Change,
}

/// What `add`, `remove` and `set` are told.
#[derive(Args, Debug)]
pub(crate) struct Change {
    /// The filter
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Files of keys; `-` or none is standard input
    #[arg(value_name = "KEYS")]
    pub(crate) keys_from: Vec<PathBuf>,
    /// Save here and leave F as it is
    #[arg(short, long, value_name = "G")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: Form,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl Change {
    pub(crate) fn target(&self) -> &PathBuf {
        self.output.as_ref().unwrap_or(&self.filter)
    }
}

/// Print how often each line is in, as a count, a tab and the line
#[derive(Args, Debug)]
#[command(after_help = "\
A count is never too low, and now and then too high. `>15` means more than the 15 that can be told.
Exit status 1 if no line was in.")]
pub(crate) struct Count {
    /// The filter
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Files of keys to look for; `-` or none is standard input
    #[arg(value_name = "PROBES")]
    pub(crate) probes: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Print each line that may be a key, a tab and its value
#[derive(Args, Debug)]
#[command(after_help = "\
The filter is one of `tamis build --values`. A stranger passes for a key, with some value, as rarely as
its rate says. Exit status 1 if no line was printed.

Examples:
  tamis get stock.tamis <<< apple
  tamis get -v stock.tamis orders.txt          only what is surely not in stock")]
pub(crate) struct Get {
    /// The filter
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Files of keys to look for; `-` or none is standard input
    #[arg(value_name = "PROBES")]
    pub(crate) probes: Vec<PathBuf>,
    /// Print the lines that surely are no keys
    #[arg(short = 'v', long)]
    pub(crate) invert: bool,
    /// Print one JSON object for each line
    #[arg(long)]
    pub(crate) json: bool,
    /// Trust the file's contents: open it at once, however large
    #[arg(long)]
    pub(crate) no_check: bool,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Give keys of a filter with values other values
#[derive(Args, Debug)]
#[command(after_help = "\
KEYS are lines of a key, a tab and a value, as for `tamis build --values`; of a key that comes twice the last
value stays. Only set what is a key: a stranger that passes for one may write over a key's value.
One that surely is none is an error. The filter is replaced as a whole or, on any error, not at all.")]
pub(crate) struct Set {
    #[command(flatten)]
    pub(crate) change: Change,
}

/// Drop the lines of a stream that came before, in fixed memory
#[derive(Args, Debug)]
#[command(after_help = "\
A line is dropped if it came among the last N lines, or within the time, of --window: always then. It is
forgotten for certain when an eighth as many more have come, or an eighth of the time has gone by. A new line
is dropped by mistake as rarely as --fpr says. Lines come out as they went in, as soon as they are known.

With --checkpoint what was seen is kept from one run to the next: it is read at the beginning, and written every
half a minute, at the end, and when the program is interrupted. After a crash what came since it was last
written may be printed again.

Examples:
  tail -f log | tamis uniq                         the last 10 million lines
  tail -f log | tamis uniq --window 10min          what has not been said for ten minutes
  tamis uniq --window 1M --fpr 1e-9 a.txt b.txt.gz
  tamis uniq --checkpoint seen.tamis < today.txt   and tomorrow on from there")]
pub(crate) struct Uniq {
    /// Files of lines; `-` or none is standard input
    #[arg(value_name = "LINES")]
    pub(crate) lines_from: Vec<PathBuf>,
    /// How far back to look: a number of lines, or a time such as 90s, 10min, 2h or 7d [default: 10M]
    #[arg(long, value_name = "N|TIME", value_parser = window, allow_negative_numbers = true)]
    pub(crate) window: Option<Window>,
    /// The share of new lines that may be dropped by mistake [default: 1e-6]
    #[arg(long, value_name = "P", value_parser = rate, allow_negative_numbers = true)]
    pub(crate) fpr: Option<f64>,
    /// With a window of time: how many different lines may come in it; more of them raise the
    /// share that is dropped by mistake [default: 10M]
    #[arg(long, value_name = "N", value_parser = keys, allow_negative_numbers = true)]
    pub(crate) keys: Option<u64>,
    /// Go on where this file says, if it is there, and keep it up to date
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Print lines in two columns: those that surely are no members, and those that may be
#[derive(Args, Debug)]
#[command(after_help = "\
As comm(1) with a filter for the second file: lines of the second column begin with a tab, unless the first is
left out. Exit status 1 if no line may be a member.

Examples:
  tamis comm words.tamis text.txt
  tamis comm -1 words.tamis text.txt           only what may be in: as `tamis query`
  tamis comm --json words.tamis text.txt       how many of each, and how many false positives to expect")]
pub(crate) struct Comm {
    /// The filter
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Files of keys; `-` or none is standard input
    #[arg(value_name = "KEYS")]
    pub(crate) keys_from: Vec<PathBuf>,
    /// Leave out the first column: lines that surely are no members
    #[arg(short = '1')]
    pub(crate) hide_new: bool,
    /// Leave out the second column: lines that may be members
    #[arg(short = '2')]
    pub(crate) hide_maybe: bool,
    /// Print only how many lines each column would have
    #[arg(short, long)]
    pub(crate) count: bool,
    /// Print only how many lines each column would have, as JSON
    #[arg(long, conflicts_with = "count")]
    pub(crate) json: bool,
    /// Trust the file's contents: open it at once, however large
    #[arg(long)]
    pub(crate) no_check: bool,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Merge filters into one of all their keys
#[derive(Args, Debug)]
#[command(after_help = "\
Filters can be merged if they are of one kind, size, hash and seed, and if the keys of all fit:

  seed=$(openssl rand -hex 16)
  tamis build --seed $seed --keys 1M monday.txt -o monday.tamis
  tamis build --seed $seed --keys 1M tuesday.txt -o tuesday.tamis
  tamis merge monday.tamis tuesday.tamis -o both.tamis")]
pub(crate) struct Merge {
    /// The filters
    #[arg(value_name = "FILTERS", required = true, num_args = 2..)]
    pub(crate) filters: Vec<PathBuf>,
    /// Where to save the result
    #[arg(short, long, value_name = "F")]
    pub(crate) output: PathBuf,
    /// Keep only what may be in all of them
    #[arg(long)]
    pub(crate) intersect: bool,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Tell how alike sets are: the normalised dot product of their filters, 0 to 1
#[derive(Args, Debug)]
#[command(after_help = "\
To compare texts, make a filter of the words of each, all of one kind, seed and size:

  for text in a b c; do
    tr -cs '[:alpha:]' '\\n' < $text.txt | sort -u |
      tamis build --filter bloom --seed 0x1 --keys 10k -o $text.tamis
  done
  tamis similar a.tamis b.tamis c.tamis

Sets without a common key come out a little above 0, since some of their bits meet by chance: the
larger the filters, the closer to 0.")]
pub(crate) struct Similar {
    /// The filters
    #[arg(value_name = "FILTERS", required = true, num_args = 2..)]
    pub(crate) filters: Vec<PathBuf>,
    /// Print one JSON object for each pair
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tell what is in a filter file
#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The filter
    #[arg(value_name = "F")]
    pub(crate) filter: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check every checksum and the structure of filter files
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The filters
    #[arg(value_name = "F", required = true)]
    pub(crate) filters: Vec<PathBuf>,
}

/// List every kind of filter: what it can do, and its bits per key at four rates
#[derive(Args, Debug)]
pub(crate) struct Filters {
    /// Print one JSON object for each kind
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compare the kinds of filter for a job, the pick first
#[derive(Args, Debug)]
#[command(after_help = "\
Give two of --keys, --fpr and --bytes; --keys alone means a rate of 1 %. With neither --keys nor
--bytes the number of keys is not known, and the filter grows.

Examples:
  tamis plan --keys 1e9 --fpr 0.1%           how much memory?
  tamis plan --keys 10M --bytes 16MiB        which rate?
  tamis plan --bytes 1GiB --fpr 1/1000       how many keys?
  tamis plan --fpr 1%                        nobody knows how many
  tamis plan --keys 1M --needs remove,count")]
pub(crate) struct Plan {
    /// How many keys
    #[arg(long, value_name = "N", value_parser = keys, allow_negative_numbers = true)]
    pub(crate) keys: Option<u64>,
    /// The share of strangers that may pass for members
    #[arg(long, value_name = "P", value_parser = rate, allow_negative_numbers = true)]
    pub(crate) fpr: Option<f64>,
    /// Memory in all
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub(crate) bytes: Option<u64>,
    /// What the filter must be able to do; `static`: nothing but answer, for keys known in advance
    #[arg(long, value_name = "NEEDS", value_delimiter = ',', value_parser = need())]
    pub(crate) needs: Vec<Need>,
    /// Print one JSON object for each kind
    #[arg(long)]
    pub(crate) json: bool,
}

/// Keep keys and values on disk or in a server, exactly, behind a filter that learns
#[derive(Args, Debug)]
#[command(after_help = "\
WHERE is a file that ends in .redb, any other name for a folder (fjall), redis://HOST:PORT/ or
postgres://USER@HOST/DATABASE; of a server, #NAME at the end says which of its dictionaries, and the
command must be built with --features redis or postgres. Keys that are not there are answered from
memory, without touching the store, but for the few that the filter lets in; each of these is let in
once. One process at a time has a dictionary open.

Examples:
  tamis dict create --keys 10M stock.redb
  tamis dict load stock.redb stock.tsv.gz
  tamis dict get stock.redb apple
  tamis dict stats stock.redb")]
pub(crate) struct Dict {
    #[command(subcommand)]
    pub(crate) command: DictCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum DictCommand {
    /// Make an empty dictionary
    Create(DictCreate),
    /// Give a key a value
    Put(DictPut),
    /// Print each key that is there, a tab and its value; exit status 1 if none is
    Get(DictKeys),
    /// Take keys out; exit status 1 if none was there
    Delete(DictKeys),
    /// Put every line: a key, a tab and a value
    Load(DictLoad),
    /// Tell what has happened, and how large everything is
    Stats(DictStats),
    /// Compare the filter with every key of the store
    Verify(DictVerify),
}

#[derive(Args, Debug)]
pub(crate) struct DictCreate {
    /// The dictionary
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// Room for this many keys in the filter, which grows if there are more
    #[arg(long, value_name = "N", value_parser = keys, default_value = "1e6")]
    pub(crate) keys: u64,
    /// The share of strangers for which the store is asked
    #[arg(long, value_name = "P", value_parser = rate, default_value = "2^-8", allow_negative_numbers = true)]
    pub(crate) fpr: f64,
    /// Entries in the order of hashes (`clustered`: a false positive costs one access), or of keys,
    /// with an index (`secondary`: two)
    #[arg(long, value_name = "LAYOUT", default_value = "clustered", value_parser = layout())]
    pub(crate) layout: Layout,
    /// How keys become numbers: `fast` only where nobody picks keys to hurt you
    #[arg(long, value_name = "HASH", default_value = "secure", value_parser = hash())]
    pub(crate) hash: HashId,
}

#[derive(Args, Debug)]
pub(crate) struct DictPut {
    /// The dictionary
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// The key
    pub(crate) key: OsString,
    /// Its value
    pub(crate) value: OsString,
}

#[derive(Args, Debug)]
pub(crate) struct DictKeys {
    /// The dictionary
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// The keys; without any, the lines of standard input
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct DictLoad {
    /// The dictionary
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// Files of lines; `-` or none is standard input
    #[arg(value_name = "LINES")]
    pub(crate) lines: Vec<PathBuf>,
    /// Say nothing but errors
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
}

/// Solve a formula of random clauses, in a DIMACS file
#[derive(Args, Debug)]
#[command(after_help = "\
Prints `s SATISFIABLE` and the solution in `v` lines, or `s UNKNOWN`: that there is no solution it
cannot find out. Made for random clauses of 3 to 7 literals; others may be among them. The same
seed and number of flips give the same answer on every machine. Files that end in .gz or .zst are
unpacked.

Exit status: 0 solved, 1 gave up, 2 an error.

Examples:
  tamis ksat formula.cnf
  tamis ksat --timeout 60 --seed 2 hard.cnf.gz -o solution.txt")]
pub(crate) struct Ksat {
    /// The formula; `-` or none is standard input
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub(crate) formula: PathBuf,
    /// Where to write the answer [default: standard output]
    #[arg(short, long, value_name = "F")]
    pub(crate) output: Option<PathBuf>,
    /// Another seed, another search
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Give up after changing a variable so many times
    #[arg(long, value_name = "N", value_parser = flips, default_value = "1e9")]
    pub(crate) flips: u64,
    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Print completions for a shell
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
pub(crate) struct Man {
    /// Write the page of every command into this folder instead
    #[arg(long, value_name = "D")]
    pub(crate) dir: Option<PathBuf>,
}

/// `--filter` of `build`: no kind is `auto`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindOrAuto(pub(crate) Option<Kind>);

/// One of `--needs`: no capability is `static`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need(pub(crate) Option<Capability>);

fn kind_or_auto() -> impl TypedValueParser<Value = KindOrAuto> {
    let names = std::iter::once("auto").chain(Kind::ALL.iter().map(|kind| kind.name()));
    PossibleValuesParser::new(names).map(|name| KindOrAuto(name.parse().ok()))
}

fn need() -> impl TypedValueParser<Value = Need> {
    let names = Capability::ALL.iter().map(|capability| capability.name());
    PossibleValuesParser::new(names.chain(["static"])).map(|name| Need(name.parse().ok()))
}

fn hash() -> impl TypedValueParser<Value = HashId> {
    let names = [HashId::Fast, HashId::Secure].map(HashId::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<HashId>())
}

fn layout() -> impl TypedValueParser<Value = Layout> {
    let layouts = [Layout::Clustered, Layout::Secondary];
    PossibleValuesParser::new(layouts.map(Layout::name)).map(move |name| {
        layouts.into_iter().find(|layout| layout.name() == name).expect("one of them")
    })
}

fn setting(text: &str) -> anyhow::Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => anyhow::bail!("not of the form name=value"),
    }
}

/// A rate that the library takes: learnt before any key is read.
fn rate(text: &str) -> anyhow::Result<f64> {
    let rate = number::rate(text)?;
    check_fpr(rate)?;
    Ok(rate)
}

fn keys(text: &str) -> anyhow::Result<u64> {
    let keys = number::count(text)?;
    check_keys(keys)?;
    Ok(keys)
}

/// `--window` of `uniq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Lines(u64),
    Time(Duration),
}

fn window(text: &str) -> anyhow::Result<Window> {
    if let Some(time) = number::time(text) {
        return Ok(Window::Time(time?));
    }
    let lines = number::count(text).map_err(|_| {
        anyhow::anyhow!("not a number of lines above 0, such as 10M, nor a time, such as 10min")
    })?;
    check_keys(lines)?;
    Ok(Window::Lines(lines))
}

fn flips(text: &str) -> anyhow::Result<u64> {
    number::count(text).map_err(|_| anyhow::anyhow!("not a number of flips, such as 1e9 or 100M"))
}

fn seconds(text: &str) -> anyhow::Result<Duration> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| anyhow::anyhow!("not a number of seconds, such as 60 or 0.5"))
}
