//! `tamis dict`: an exact dictionary behind a filter that learns.

use std::time::Instant;

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use tamis::Broom;
use tamis_dictionary::store::{self, AnyStore};
use tamis_dictionary::{Dictionary, Op, Options, Stats};

use crate::args::{DictCommand, DictCreate, DictKeys, DictLoad, DictPut, DictStats, DictVerify};
use crate::errors::failure;
use crate::input::{Batch, Keys, Separator};
use crate::number::{show_rate, show_size};
use crate::{output, progress};

type Dict = Dictionary<Broom, AnyStore>;

pub(crate) fn run(command: &DictCommand) -> Result<bool> {
    match command {
        DictCommand::Create(args) => create(args).map(|()| true),
        DictCommand::Put(args) => put(args).map(|()| true),
        DictCommand::Get(args) => get(args),
        DictCommand::Delete(args) => delete(args),
        DictCommand::Load(args) => load(args).map(|()| true),
        DictCommand::Stats(args) => stats(args).map(|()| true),
        DictCommand::Verify(args) => verify(args),
    }
}

/// The place as messages name it: a password has no business there.
fn shown(place: &str) -> String {
    match (place.find("://"), place.rfind('@')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}{}", &place[..start + 3], &place[end + 1..])
        }
        _ => place.to_owned(),
    }
}

/// What the dictionary said, after the name of the place.
fn at<T>(place: &str, result: Result<T, tamis_dictionary::Error>) -> Result<T> {
    result.map_err(|error| failure(shown(place), &error))
}

fn tell(place: &str, notices: &[String]) {
    for notice in notices {
        output::message(format_args!("{}: {notice}", shown(place)));
    }
}

/// Opens, works and closes; a failure of the work is told rather than one of the closing.
fn with<T>(place: &str, work: impl FnOnce(&Dict) -> Result<T>) -> Result<T> {
    let dict = at(place, store::open(place).and_then(Dict::open))?;
    let told = dict.notices();
    tell(place, &told);
    let done = work(&dict);
    tell(place, &dict.notices()[told.len()..]);
    let closed = at(place, dict.close());
    done.and_then(|done| closed.map(|()| done))
}

fn create(args: &DictCreate) -> Result<()> {
    let options = Options::default().with_keys(args.keys).with_fpr(args.fpr).with_hash(args.hash);
    let store = store::create(&args.place, args.layout);
    let dict = at(&args.place, store.and_then(|store| Dict::create(store, options)))?;
    at(&args.place, dict.close())
}

fn put(args: &DictPut) -> Result<()> {
    let (key, value) = (args.key.as_encoded_bytes(), args.value.as_encoded_bytes());
    with(&args.place, |dict| at(&args.place, dict.put(key, value)).map(drop))
}

/// Does something with every key that is named, or with every line; whether anything came of one.
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

fn get(args: &DictKeys) -> Result<bool> {
    with(&args.place, |dict| {
        each_key(args, |key| {
            let Some(value) = at(&args.place, dict.get(key))? else { return Ok(false) };
            output::write(&[key, b"\t", &value, b"\n"].concat())?;
            Ok(true)
        })
    })
}

fn delete(args: &DictKeys) -> Result<bool> {
    with(&args.place, |dict| each_key(args, |key| at(&args.place, dict.delete(key))))
}

/// The key and the value of a line; the value may have tabs of its own.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let tab = memchr::memchr(b'\t', line)?;
    Some((&line[..tab], &line[tab + 1..]))
}

/// Bytes of lines that are one write, whole or not at all. A file is written anew wherever it changes, and
/// hashes are everywhere in it, so that larger writes are fewer rounds through all of it: 10^7 lines of 33
/// bytes wrote 7.5 GB to the disk and took 49 s of the processor, and with 1 MiB at a time 34 GB and 165 s.
/// A server does nothing else meanwhile, and gets what was read at a time.
const TOGETHER: usize = 16 << 20;

/// Keys and values of some lines, one after the other.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
    /// Of the files, for the progress bar.
    read: u64,
}

impl Lines {
    fn of(batch: &Batch<'_>) -> Result<Self> {
        let mut lines = Self { read: batch.read_bytes(), ..Self::default() };
        for (number, line) in (batch.first_line()..).zip(batch.lines()) {
            match split(line.key) {
                Some((key, value)) => {
                    lines.bytes.extend_from_slice(key);
                    let middle = lines.bytes.len();
                    lines.bytes.extend_from_slice(value);
                    lines.ends.push((middle, lines.bytes.len()));
                }
                None if line.key.is_empty() => {}
                None => bail!("{}:{number}: no tab between a key and its value", batch.name()),
            }
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

fn load(args: &DictLoad) -> Result<()> {
    let lines = Keys::open(&args.lines, Separator::Newline, false)?;
    let start = Instant::now();
    let together = if args.place.contains("://") { 0 } else { TOGETHER };
    let (loaded, new) = with(&args.place, |dict| {
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
            if waiting.iter().map(|lines: &Lines| lines.bytes.len()).sum::<usize>() >= together {
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

fn verify(args: &DictVerify) -> Result<bool> {
    let audit = with(&args.place, |dict| at(&args.place, dict.verify()))?;
    let (place, keys, stale) = (shown(&args.place), audit.keys, audit.stale);
    if audit.missing > 0 {
        bail!("{place}: the filter denied {} of {keys} keys; it was made anew", audit.missing);
    }
    output::print(format_args!("{place}: ok, {keys} keys, {stale} that only the filter has"))?;
    Ok(true)
}

fn stats(args: &DictStats) -> Result<()> {
    let (stats, layout) = with(&args.place, |dict| Ok((dict.stats(), dict.layout())))?;
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
            "window_strangers": stats.window_negatives,
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
        ("keys", format!("{} of {} that there is room for", stats.keys, stats.capacity)),
        ("filter", format!("{}, {bits} bits a key", show_size(stats.filter_bytes))),
        ("layout", layout.to_owned()),
        ("lookups", counts.lookups.to_string()),
        ("  negatives", format!("{}, without the store", counts.negatives)),
        ("  true positives", counts.true_positives.to_string()),
        ("  false positives", counts.false_positives.to_string()),
        ("rate of these", format!("{} of strangers", rate(stats.fpr()))),
        ("  lately", format!("{} of {}", rate(stats.window_fpr()), stats.window_negatives)),
        ("  asked for", rate(Some(stats.target_fpr))),
        ("repairs", format!("{}, {} by rehashing", counts.repairs, counts.rehashes)),
        ("  left out", format!("{}, {} impossible", counts.postponed, counts.impossible)),
        ("sweeps", format!("{} bins", counts.sweeps)),
        ("puts", format!("{}, {} surely new", counts.puts, counts.puts_new)),
        ("deletes", counts.deletes.to_string()),
        ("accesses", format!("{}", reads.iter().sum::<u64>() + counts.writes)),
        ("  to find", lookup.to_string()),
        ("  to repair", repair.to_string()),
        ("  to sweep", sweep.to_string()),
        ("  for the filter", filter.to_string()),
        ("  to write", counts.writes.to_string()),
        ("growths", counts.growths.to_string()),
        ("rebuilds", counts.rebuilds.to_string()),
        ("missing", counts.missing.to_string()),
    ];
    let lines: Vec<_> = rows.iter().map(|(name, value)| format!("{name:<19}{value}")).collect();
    lines.join("\n")
}
