//! `tamis dict`: an exact dictionary behind an adaptive filter.

mod escape;

use std::borrow::Cow;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use serde_json::{Map, Value, json};
use tamis::Broom;
use tamis_dictionary::store::{self, AnyStore};
use tamis_dictionary::{Dictionary, Error, Op, Options, Stats};

use self::escape::{escape, unescape};
use crate::args::{
    Dict as DictArgs, DictCommand, DictCreate, DictDump, DictKeys, DictLoad, DictPut, DictStats,
    DictVerify,
};
use crate::errors::failure;
use crate::files::is_dash;
use crate::input::{Batch, Keys, MAX_KEY, Separator};
use crate::number::{show_rate, show_size};
use crate::{output, progress};

type Dict = Dictionary<Broom, AnyStore>;

pub(crate) fn run(args: &DictArgs) -> Result<bool> {
    let limit = args.max_memory;
    let done = match &args.command {
        DictCommand::Create(args) => create(args, limit).map(|()| true),
        DictCommand::Put(args) => put(args, limit).map(|()| true),
        DictCommand::Get(args) => get(args, limit),
        DictCommand::Delete(args) => delete(args, limit),
        DictCommand::Load(args) => load(args, limit).map(|()| true),
        DictCommand::Dump(args) => dump(args, limit).map(|()| true),
        DictCommand::Stats(args) => stats(args, limit).map(|()| true),
        DictCommand::Verify(args) => verify(args, limit),
    };
    match done {
        Err(error) if error.is::<ReaderGone>() => Ok(true),
        done => done,
    }
}

/// The reader of standard output has closed the pipe. The command ends without an error, after it has closed
/// the dictionary.
#[derive(Debug)]
struct ReaderGone;

impl std::fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("standard output is closed")
    }
}

impl std::error::Error for ReaderGone {}

/// Returns the error of writing to `name`.
fn write_failure(name: &str, error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => failure(name, &error),
    }
}

/// Returns the location for messages, without user name and password.
fn shown(place: &str) -> String {
    match (place.find("://"), place.rfind('@')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}{}", &place[..start + 3], &place[end + 1..])
        }
        _ => place.to_owned(),
    }
}

/// Adds the location to an error of the dictionary.
fn at<T>(place: &str, result: Result<T, Error>) -> Result<T> {
    result.map_err(|error| match error {
        Error::Filter(tamis::Error::MemoryLimit { limit, needs }) => {
            let (limit, needs) = (show_size(limit), show_size(needs));
            anyhow!("{}: the filter needs {needs}, but --max-memory is {limit}", shown(place))
        }
        error => failure(shown(place), &error),
    })
}

fn print_notices(place: &str, notices: &[String]) {
    for notice in notices {
        output::message(format_args!("{}: {notice}", shown(place)));
    }
}

/// Opens a dictionary with at most `limit` bytes for its filter, calls `work` and closes it. An error of `work`
/// precedes one of closing.
fn with<T>(place: &str, limit: Option<u64>, work: impl FnOnce(&Dict) -> Result<T>) -> Result<T> {
    let limit = limit.unwrap_or(u64::MAX);
    let opened = store::open(place).and_then(|store| Dict::open_within(store, limit));
    let dict = at(place, opened)?;
    let notices = dict.notices();
    print_notices(place, &notices);
    let done = work(&dict);
    print_notices(place, &dict.notices()[notices.len()..]);
    let closed = at(place, dict.close());
    done.and_then(|done| closed.map(|()| done))
}

fn create(args: &DictCreate, limit: Option<u64>) -> Result<()> {
    let options = Options::default()
        .with_keys(args.keys)
        .with_fpr(args.fpr)
        .with_hash(args.hash)
        .with_max_memory(limit.unwrap_or(u64::MAX));
    let store = store::create(&args.place, args.layout);
    let dict = at(&args.place, store.and_then(|store| Dict::create(store, options)))?;
    at(&args.place, dict.close())
}

fn put(args: &DictPut, limit: Option<u64>) -> Result<()> {
    let (key, value) = (args.key.as_encoded_bytes(), args.value.as_encoded_bytes());
    with(&args.place, limit, |dict| at(&args.place, dict.put(key, value)).map(drop))
}

/// Calls `act` with every key of the arguments, or else with every line of standard input. Returns whether one
/// of the calls returned true.
fn each_key(args: &DictKeys, mut act: impl FnMut(&[u8]) -> Result<bool>) -> Result<bool> {
    let mut any = false;
    if !args.keys.is_empty() {
        for key in &args.keys {
            any |= act(key.as_encoded_bytes())?;
        }
        return Ok(any);
    }
    let keys = Keys::open(&[], Separator::Newline, false)?;
    let owned = |batch: &Batch<'_>| batch.keys().map(<[u8]>::to_vec).collect::<Vec<_>>();
    keys.each_batch(1, owned, |batch| {
        for key in batch {
            any |= act(&key)?;
        }
        Ok(())
    })?;
    Ok(any)
}

fn get(args: &DictKeys, limit: Option<u64>) -> Result<bool> {
    with(&args.place, limit, |dict| {
        each_key(args, |key| {
            let Some(value) = at(&args.place, dict.get(key))? else { return Ok(false) };
            let mut out = io::stdout().lock();
            let written = out.write_all(&[key, b"\t", &value, b"\n"].concat());
            let written = written.and_then(|()| out.flush());
            written.map_err(|error| write_failure("standard output", error))?;
            Ok(true)
        })
    })
}

fn delete(args: &DictKeys, limit: Option<u64>) -> Result<bool> {
    with(&args.place, limit, |dict| each_key(args, |key| at(&args.place, dict.delete(key))))
}

type Bytes<'a> = Cow<'a, [u8]>;

/// Splits a line at its first tab and removes the escapes. A value may contain tabs.
fn split(line: &[u8]) -> Result<(Bytes<'_>, Bytes<'_>), String> {
    let tab = memchr::memchr(b'\t', line).ok_or("no tab between a key and its value")?;
    Ok((unescape(&line[..tab])?, unescape(&line[tab + 1..])?))
}

/// The bytes of lines that are written at once, wholly or not at all. A file of redb is rewritten wherever it
/// changes, and the hashes of keys are everywhere in it, so larger writes take fewer rounds: 10^7 lines of 33
/// bytes wrote 7.5 GB to the disk and took 49 s of processor time, and with 1 MiB at a time 34 GB and 165 s.
/// A server does nothing else during a write, so it gets one batch of lines at a time.
const WRITE_BYTES: usize = 16 << 20;

/// Keys and values of some lines, one after the other.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// The end of each key and of each value.
    ends: Vec<(usize, usize)>,
    /// The bytes read from the files, for the progress bar.
    read: u64,
}

impl Lines {
    fn of(batch: &Batch<'_>) -> Result<Self> {
        let mut lines = Self { read: batch.read_bytes(), ..Self::default() };
        for (number, line) in (batch.first_line()..).zip(batch.lines()) {
            if line.key.is_empty() {
                continue;
            }
            let (key, value) =
                split(line.key).map_err(|error| anyhow!("{}:{number}: {error}", batch.name()))?;
            lines.bytes.extend_from_slice(&key);
            let middle = lines.bytes.len();
            lines.bytes.extend_from_slice(&value);
            lines.ends.push((middle, lines.bytes.len()));
        }
        Ok(lines)
    }

    fn ops(&self) -> impl Iterator<Item = Op<'_>> {
        let starts = [0].into_iter().chain(self.ends.iter().map(|(_, end)| *end));
        starts.zip(&self.ends).map(|(start, (middle, end))| {
            Op::Put(&self.bytes[start..*middle], &self.bytes[*middle..*end])
        })
    }
}

fn load(args: &DictLoad, limit: Option<u64>) -> Result<()> {
    let lines = Keys::open(&args.lines, Separator::Newline, false)?;
    let start = Instant::now();
    let write_bytes = if args.place.contains("://") { 0 } else { WRITE_BYTES };
    let (loaded, new) = with(&args.place, limit, |dict| {
        let bar = progress::bar("loading", &lines, args.quiet);
        let (mut loaded, mut new) = (0, 0);
        let mut write = |some: &[Lines]| {
            let ops: Vec<_> = some.iter().flat_map(Lines::ops).collect();
            let had = at(&args.place, dict.write(&ops))?;
            loaded += had.len();
            new += had.iter().filter(|had| !**had).count();
            bar.inc(some.iter().map(|lines| lines.read).sum());
            anyhow::Ok(())
        };
        let mut waiting = Vec::new();
        let done = lines.each_batch(1, Lines::of, |read| {
            waiting.push(read?);
            if waiting.iter().map(|lines: &Lines| lines.bytes.len()).sum::<usize>() >= write_bytes {
                write(&waiting)?;
                waiting.clear();
            }
            Ok(())
        });
        let done = done.and_then(|()| write(&waiting));
        bar.finish_and_clear();
        done.map(|()| (loaded, new))
    })?;
    if !args.quiet {
        let seconds = start.elapsed().as_secs_f64();
        let rate = loaded as f64 / seconds;
        let place = shown(&args.place);
        output::message(format_args!(
            "{place}: {loaded} lines, {new} new keys; {seconds:.1} s, {rate:.0} lines/s"
        ));
    }
    Ok(())
}

fn dump(args: &DictDump, limit: Option<u64>) -> Result<()> {
    let skipped = match is_dash(&args.lines) {
        true => dump_to(args, limit, "standard output", io::stdout().lock())?,
        false => {
            let (name, mut dumped) = (args.lines.display().to_string(), Ok(0));
            // The file gets its name when it is complete.
            let saved = tamis_format::save(&args.lines, |out| {
                dumped = dump_to(args, limit, &name, out);
                dumped.as_ref().map(drop).map_err(|error| io::Error::other(error.to_string()))
            });
            let skipped = dumped?;
            saved.map_err(|error| failure(&name, &error))?;
            skipped
        }
    };
    if skipped > 0 {
        bail!("{}: {skipped} entries were skipped; all others were dumped", shown(&args.place));
    }
    Ok(())
}

/// Writes every entry as a line. Skips entries that are damaged or too long, reports each, and returns their number.
fn dump_to(args: &DictDump, limit: Option<u64>, name: &str, out: impl Write) -> Result<u64> {
    let place = shown(&args.place);
    let mut out = BufWriter::with_capacity(1 << 16, out);
    with(&args.place, limit, |dict| {
        let hidden = args.quiet || name == "standard output" && io::stdout().is_terminal();
        let bar = progress::entries("dumping", dict.stats().keys, hidden);
        let (mut line, mut skipped) = (Vec::new(), 0);
        for entry in dict.iter() {
            let (key, value) = match entry {
                Err(error @ Error::Damaged { .. }) => {
                    output::message(format_args!("{place}: {error}"));
                    skipped += 1;
                    continue;
                }
                entry => at(&args.place, entry)?,
            };
            line.clear();
            escape(&key, &mut line);
            line.push(b'\t');
            escape(&value, &mut line);
            if line.len() > MAX_KEY {
                let key = key.escape_ascii();
                let most = MAX_KEY >> 20;
                output::message(format_args!(
                    "{place}: the line of key \"{key}\" is longer than {most} MiB"
                ));
                skipped += 1;
                continue;
            }
            line.push(b'\n');
            out.write_all(&line).map_err(|error| write_failure(name, error))?;
            bar.inc(1);
        }
        out.flush().map_err(|error| write_failure(name, error))?;
        bar.finish_and_clear();
        Ok(skipped)
    })
}

fn verify(args: &DictVerify, limit: Option<u64>) -> Result<bool> {
    let audit = with(&args.place, limit, |dict| at(&args.place, dict.verify()))?;
    let place = shown(&args.place);
    let (keys, stale) = (audit.keys, audit.stale);
    if args.json {
        let text = |key: &Vec<u8>| {
            let mut escaped = Vec::new();
            escape(key, &mut escaped);
            String::from_utf8_lossy(&escaped).into_owned()
        };
        output::print_json([json!({
            "ok": audit.is_ok(),
            "keys": keys,
            "damaged": audit.damaged,
            "damaged_keys": audit.damaged_keys.iter().map(text).collect::<Vec<_>>(),
            "lost": audit.lost,
            "missing": audit.missing,
            "stale": stale,
        })])?;
    } else {
        for key in &audit.damaged_keys {
            let key = key.escape_ascii();
            output::message(format_args!("{place}: the entry of key \"{key}\" is damaged"));
        }
    }
    let mut faults = Vec::new();
    if audit.damaged > 0 {
        faults.push(format!("{} entries in the store are damaged", audit.damaged));
    }
    if audit.lost > 0 {
        faults.push(format!("the store has lost {} entries", audit.lost));
    }
    if audit.missing > 0 {
        let missing = audit.missing;
        faults.push(format!("the filter rejected {missing} of {keys} keys and was rebuilt"));
    }
    if !faults.is_empty() {
        bail!("{place}: {}", faults.join("; "));
    }
    if !args.json {
        output::print(format_args!("{place}: ok, {keys} keys, {stale} stale keys in the filter"))?;
    }
    Ok(true)
}

fn stats(args: &DictStats, limit: Option<u64>) -> Result<()> {
    let (stats, layout) = with(&args.place, limit, |dict| Ok((dict.stats(), dict.layout())))?;
    let bits = super::bits_per_key(stats.filter_bytes, stats.keys);
    if args.json {
        let mut object = Map::new();
        let figures = json!({
            "keys": stats.keys,
            "capacity": stats.capacity,
            "layout": layout.name(),
            "filter_bytes": stats.filter_bytes,
            "bits_per_key": bits,
            "shards": stats.shards,
            "target_fpr": stats.target_fpr,
            "fpr": stats.fpr(),
            "window_fpr": stats.window_fpr(),
            "window_non_members": stats.window_negatives,
        });
        object.extend(figures.as_object().cloned().unwrap_or_default());
        let counts = stats.counts.named().map(|(name, count)| (name.to_owned(), count.into()));
        object.extend(counts);
        return output::print_json([Value::Object(object)]);
    }
    output::print(table(&stats, layout.name(), bits))
}

fn table(stats: &Stats, layout: &str, bits: Option<f64>) -> String {
    let counts = &stats.counts;
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), show_rate);
    let reads = [counts.reads_lookup, counts.reads_repair, counts.reads_sweep, counts.reads_filter];
    let [lookup, repair, sweep, filter] = reads;
    let bits = bits.map_or("-".into(), |bits| format!("{bits:.2}"));
    let rows = [
        ("keys", format!("{}, capacity {}", stats.keys, stats.capacity)),
        ("filter", format!("{}, {bits} bits per key", show_size(stats.filter_bytes))),
        ("layout", layout.to_owned()),
        ("lookups", counts.lookups.to_string()),
        ("  negatives", format!("{}, without an access", counts.negatives)),
        ("  true positives", counts.true_positives.to_string()),
        ("  false positives", counts.false_positives.to_string()),
        ("fpr", format!("{} of non-members", rate(stats.fpr()))),
        ("  recent", format!("{} of {}", rate(stats.window_fpr()), stats.window_negatives)),
        ("  target", rate(Some(stats.target_fpr))),
        ("repairs", format!("{}, {} by rehashing", counts.repairs, counts.rehashes)),
        ("  not made", format!("{} postponed, {} impossible", counts.postponed, counts.impossible)),
        ("sweeps", format!("{} bins", counts.sweeps)),
        ("puts", format!("{}, {} certainly new", counts.puts, counts.puts_new)),
        ("deletes", counts.deletes.to_string()),
        ("accesses", format!("{}", reads.iter().sum::<u64>() + counts.writes)),
        ("  lookups", lookup.to_string()),
        ("  repairs", repair.to_string()),
        ("  sweeps", sweep.to_string()),
        ("  filter", filter.to_string()),
        ("  writes", counts.writes.to_string()),
        ("growths", counts.growths.to_string()),
        ("rebuilds", counts.rebuilds.to_string()),
        ("missing", counts.missing.to_string()),
        ("lost", counts.lost.to_string()),
    ];
    let lines: Vec<_> = rows.iter().map(|(name, value)| format!("{name:<19}{value}")).collect();
    lines.join("\n")
}
