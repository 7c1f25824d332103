//! `tamis uniq`: drops lines that occurred before, within a window.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use tamis::plan::solve;
use tamis::{
    AnyFilter, Build, Goal, HashId, KeyHash, KeyHasher, Keyed, Settings, Sliding, SlidingShape,
};

use crate::args::{Uniq, Window};
use crate::hashing::{Pool, hash_lines};
use crate::input::{Batch, Keys};
use crate::number::show_rate;
use crate::{files, memory, output, signals};

/// The default window in lines: 40 MiB at the default rate.
const WINDOW: u64 = 10_000_000;
/// The default false positive rate: the share of new lines that are dropped.
const FPR: f64 = 1e-6;
/// The time between checkpoints.
const PERIOD: Duration = Duration::from_secs(30);

/// The lines of a batch as they are printed, and their hashes.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    /// The end of each line with its separator.
    ends: Vec<u32>,
    hashes: Vec<KeyHash>,
}

impl Lines {
    /// Copies the text in one piece, since most lines are printed, and finds ends and hashes in one pass.
    fn read(&mut self, batch: &Batch<'_>, hasher: &KeyHasher) {
        let Self { text, ends, hashes } = self;
        text.clear();
        ends.clear();
        let Some(separator) = batch.separator().byte() else {
            hash_lines(batch, hasher, hashes);
            batch.each_line(|raw, end| {
                text.extend_from_slice(raw);
                text.push(end);
                ends.push(text.len() as u32);
            });
            return;
        };
        hashes.clear();
        let mut end = 0;
        for line in batch.lines() {
            hashes.push(hasher.bytes(line.key));
            end += line.raw.len() + 1;
            ends.push(end as u32);
        }
        text.extend_from_slice(batch.data());
        // The last line of a file may have no separator.
        text.resize(end, separator);
    }

    /// Appends the lines that were not seen to `fresh`, adjacent lines in one copy.
    fn collect(&self, seen: &[bool], fresh: &mut Vec<u8>) {
        let (mut from, mut start) = (0, 0);
        for (end, seen) in self.ends.iter().zip(seen) {
            let end = *end as usize;
            if *seen {
                fresh.extend_from_slice(&self.text[from..start]);
                from = end;
            }
            start = end;
        }
        fresh.extend_from_slice(&self.text[from..start]);
    }
}

pub(crate) fn run(args: &Uniq) -> Result<()> {
    let keyed = begin(args)?;
    let hasher = *keyed.hasher();
    let lines = Keys::open(&args.lines_from, args.form.separator(), false)?;
    let keyed = Arc::new(Mutex::new(keyed));
    if let Some(path) = &args.checkpoint {
        save_when_interrupted(Arc::clone(&keyed), path.clone());
    }

    let pool = Pool::<Lines>::default();
    let read = |batch: &Batch<'_>| {
        let mut lines = pool.take();
        lines.read(batch, &hasher);
        lines
    };
    let (mut seen, mut fresh, mut saved) = (Vec::new(), Vec::new(), Instant::now());
    let outcome = lines.each_batch(args.form.threads(), read, |lines| {
        // Locked until the lines are printed, so that a checkpoint never has lines that were not.
        let mut keyed = keyed.lock().unwrap_or_else(PoisonError::into_inner);
        let AnyFilter::Sliding(filter) = keyed.filter_mut() else {
            unreachable!("`begin` returns a sliding filter")
        };
        tamis::Window::advance(filter, now());
        seen.resize(lines.hashes.len(), false);
        tamis::Window::push_batch(filter, &lines.hashes, &mut seen);
        fresh.clear();
        lines.collect(&seen, &mut fresh);
        if !fresh.is_empty() {
            output::write(&fresh)?;
        }
        pool.give(lines);
        if let Some(path) = args.checkpoint.as_ref().filter(|_| saved.elapsed() >= PERIOD) {
            files::save(&keyed, path)?;
            saved = Instant::now();
        }
        Ok(())
    });
    // After an error too, since lines were printed before it.
    if let Some(path) = &args.checkpoint {
        files::save(&keyed.lock().unwrap_or_else(PoisonError::into_inner), path)?;
    }
    outcome
}

/// Opens the checkpoint if it exists, or creates an empty filter.
fn begin(args: &Uniq) -> Result<Keyed<AnyFilter>> {
    let mut settings = Settings::default();
    let keys = match args.window {
        Some(Window::Time(time)) => {
            settings.set("ticks", u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            args.keys.unwrap_or(WINDOW)
        }
        Some(Window::Lines(lines)) => lines,
        None => WINDOW,
    };
    if args.keys.is_some() && !matches!(args.window, Some(Window::Time(_))) {
        bail!("--keys needs a --window of time, such as --window 10min");
    }
    let shape: SlidingShape =
        solve(Goal::KeysFpr { keys, fpr: args.fpr.unwrap_or(FPR) }, &settings)?;
    if let Some(path) = &args.checkpoint {
        files::check_target(path)?;
        if path.exists() {
            let given = args.window.is_some() || args.fpr.is_some();
            return resume(args, path, given.then_some(&shape));
        }
    }
    memory::check_memory(tamis::Shape::figures(&shape).bytes, None)?;
    let filter = Sliding::build(shape, &[][..])?;
    let keyed = Keyed::new(KeyHasher::random(HashId::Fast), AnyFilter::Sliding(filter));
    Ok(keyed.with_key_forms(args.form.key_forms()))
}

/// Opens a checkpoint and checks that it has the window of `shape`.
fn resume(args: &Uniq, path: &Path, shape: Option<&SlidingShape>) -> Result<Keyed<AnyFilter>> {
    let keyed = files::open_to_change_for(path, args.form.key_forms())?;
    let name = path.display();
    match keyed.filter() {
        AnyFilter::Sliding(filter) if shape.is_none_or(|shape| shape == filter.shape()) => {
            Ok(keyed)
        }
        AnyFilter::Sliding(_) => {
            let figures = keyed.filter().figures();
            bail!(
                "{name}: the checkpoint has another --window, --fpr or --keys: {} lines at {}",
                figures.keys,
                show_rate(figures.fpr)
            )
        }
        other => bail!("{name}: not a checkpoint, but a {} filter", other.kind()),
    }
}

/// Returns the time in ticks of the filter's clock, milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Saves the filter and exits on the first interrupt. A second interrupt ends the program at once.
#[cfg(unix)]
fn save_when_interrupted(keyed: Arc<Mutex<Keyed<AnyFilter>>>, path: std::path::PathBuf) {
    use signal_hook::consts::{SIGINT, SIGTERM};

    // If the handler cannot be installed, an interrupt ends the program at once.
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) else { return };
    signals::finish_before_interrupts();
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let keyed = keyed.lock().unwrap_or_else(PoisonError::into_inner);
            let status = match files::save(&keyed, &path) {
                Ok(()) => 128 + signal,
                Err(error) => {
                    output::print_error(format_args!("{error:#}"));
                    2
                }
            };
            std::process::exit(status);
        }
    });
}

#[cfg(not(unix))]
fn save_when_interrupted(_: Arc<Mutex<Keyed<AnyFilter>>>, _: std::path::PathBuf) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_lines_are_collected() {
        let lines =
            Lines { text: b"a\nbb\n\nc\n".to_vec(), ends: vec![2, 5, 6, 8], hashes: vec![] };
        for mask in 0..16 {
            let seen: Vec<bool> = (0..4).map(|line| mask >> line & 1 == 1).collect();
            let mut fresh = Vec::new();
            lines.collect(&seen, &mut fresh);
            let words = ["a\n", "bb\n", "\n", "c\n"];
            let expected: String = words
                .iter()
                .zip(&seen)
                .filter(|(_, seen)| !**seen)
                .map(|(word, _)| *word)
                .collect();
            assert_eq!(fresh, expected.as_bytes());
        }
    }
}
