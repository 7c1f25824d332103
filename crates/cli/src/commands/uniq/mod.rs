//! `tamis uniq`: drops lines that occurred before, within a window.
//!
//! | module | contents |
//! | --- | --- |
//! | `lines` | a batch of lines and their hashes |
//! | `chain` | the window, which grows |
//! | `checkpoint` | the file of the window, and its lock |
//! | `stream` | pushes, prints, saves, in this order |

mod chain;
mod checkpoint;
mod lines;
mod stream;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow, bail};

use self::chain::{Chain, Plan};
use self::checkpoint::Checkpoint;
use self::lines::Lines;
use self::stream::{Stream, Target};
use crate::args::{Uniq, Window};
use crate::errors::failure;
use crate::hashing::Pool;
use crate::input::{Batch, Keys};
use crate::output;

/// The time between checkpoints.
const PERIOD: Duration = Duration::from_secs(30);

pub(crate) fn run(args: &Uniq) -> Result<()> {
    if args.keys.is_some() && !matches!(args.window, Some(Window::Time(_))) {
        bail!("--keys needs a --window of time, such as --window 10min");
    }
    let checkpoint = args.checkpoint.as_deref().map(Checkpoint::lock).transpose()?;
    let chain = begin(args, checkpoint.as_ref())?;
    let hasher = *chain.hasher();
    let lines = Keys::open(&args.lines_from, args.form.separator(), false)?;
    let has_end = checkpoint.is_some() || args.count_dropped || args.json;
    let target = Outputs { checkpoint };
    let stream = Arc::new(Mutex::new(Some(Stream::new(chain, target, args.on_overflow, PERIOD))));
    if has_end {
        finish_when_interrupted(Arc::clone(&stream), args);
    }

    let pool = Pool::<Lines>::default();
    let read = |batch: &Batch<'_>| {
        let mut lines = pool.take();
        lines.read(batch, &hasher);
        lines
    };
    let outcome = lines.each_batch(args.form.threads(), read, |lines| {
        let outcome = lock(&stream).as_mut().map_or(Ok(()), |stream| stream.push(&lines, now()));
        pool.give(lines);
        outcome
    });
    // After an error too, since lines were printed before it. Takes the stream, so that an interrupt
    // from now on has nothing left to save.
    let Some(mut stream) = lock(&stream).take() else { return outcome };
    let saved = stream.save();
    stream.report(args.count_dropped, args.json);
    outcome.and(saved)
}

/// Continues with the checkpoint if it exists, or creates an empty window.
fn begin(args: &Uniq, checkpoint: Option<&Checkpoint>) -> Result<Chain> {
    let Uniq { window, keys, fpr, max_memory, .. } = *args;
    let plan = Plan { window, keys, fpr, max_memory };
    if let Some(checkpoint) = checkpoint
        && let Some(filters) = checkpoint.load(args.form.key_forms(), max_memory)?
    {
        return Chain::resume(filters, &plan)
            .map_err(|error| anyhow!("{}: {error:#}", checkpoint.path().display()));
    }
    Chain::new(&plan, args.form.key_forms())
}

/// Standard output and the checkpoint.
struct Outputs {
    checkpoint: Option<Checkpoint>,
}

impl Target for Outputs {
    fn write(&mut self, lines: &[u8]) -> Result<()> {
        output::write(lines)
    }

    fn sync(&mut self) -> Result<()> {
        match self.checkpoint {
            Some(_) => sync_output().map_err(|error| failure("standard output", &error)),
            None => Ok(()),
        }
    }

    fn save(&mut self, chain: &Chain) -> Result<()> {
        self.checkpoint.as_ref().map_or(Ok(()), |checkpoint| checkpoint.save(chain.filters()))
    }
}

/// Syncs standard output if it is a file, so that a power failure cannot lose lines that the
/// checkpoint has.
#[cfg(unix)]
fn sync_output() -> io::Result<()> {
    use std::os::fd::AsFd;
    let file = std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?);
    if file.metadata()?.is_file() { file.sync_data() } else { Ok(()) }
}

#[cfg(not(unix))]
fn sync_output() -> io::Result<()> {
    Ok(())
}

/// Returns the time in ticks of the filter's clock, milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A stream that is taken out by the thread that ends the command.
type SharedStream = Mutex<Option<Stream<Outputs>>>;

fn lock(stream: &SharedStream) -> MutexGuard<'_, Option<Stream<Outputs>>> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On the first interrupt, saves the window, prints the report and exits. Waits until the lines of
/// the current batch are printed. A second interrupt ends the program at once.
#[cfg(unix)]
fn finish_when_interrupted(stream: Arc<SharedStream>, args: &Uniq) {
    use signal_hook::consts::{SIGINT, SIGTERM};

    // If the handler cannot be installed, an interrupt ends the program at once.
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) else { return };
    crate::signals::finish_before_interrupts();
    let (count_dropped, json) = (args.count_dropped, args.json);
    std::thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        // Locked until the exit, so that no further line is printed.
        let mut guard = lock(&stream);
        let Some(mut stream) = guard.take() else { return };
        let status = match stream.save() {
            Ok(()) => 128 + signal,
            Err(error) => {
                output::print_error(format_args!("{error:#}"));
                2
            }
        };
        stream.report(count_dropped, json);
        // Removes the lock file.
        drop(stream);
        std::process::exit(status);
    });
}

#[cfg(not(unix))]
fn finish_when_interrupted(_: Arc<SharedStream>, _: &Uniq) {}
