//! Filters that are built from all their keys: the function `build`.
//!
//! A build runs on a thread of its own. The thread that called it stays in charge of everything that needs
//! the interpreter: it reads iterators, reports progress, and looks for Ctrl-C.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, path::PathBuf};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator};
use tamis::{
    AnyFilter, BuildOptions, Capability, Error, HashId, KeyForms, KeyHash, KeyHasher, KeySource,
    Keyed, Kind, Sizing, Source, plan,
};

use crate::any::wrap;
use crate::batch;
use crate::column::{self, Columns, Keys};
use crate::errors::{Failure, exception, raise};
use crate::foreign;
use crate::keys::Whole;
use crate::options;

/// How often the calling thread looks for Ctrl-C and reports progress.
const TICK: Duration = Duration::from_millis(50);
/// Keys that are read from an iterator, or hashed, at a time.
const RUN: usize = 1 << 16;

/// The options of a build, as the caller gives them.
#[derive(Default)]
pub(crate) struct Job<'py> {
    pub(crate) threads: Option<usize>,
    pub(crate) progress: Option<Bound<'py, PyAny>>,
    pub(crate) max_memory: Option<u64>,
    pub(crate) scratch: Option<PathBuf>,
    pub(crate) time_limit: Option<f64>,
}

/// Keys that an iterator yields, for a build on another thread.
pub(crate) struct Feed<'a> {
    pub(crate) hasher: &'a KeyHasher,
    pub(crate) keys: Py<PyIterator>,
    pub(crate) forms: &'a mut KeyForms,
}

/// The source of a build whose keys come from the calling thread: it asks for a run and waits for it.
struct Requests {
    ask: Sender<()>,
    runs: Receiver<Vec<KeyHash>>,
    run: Vec<KeyHash>,
}

impl Source<KeyHash> for Requests {
    fn next_run(&mut self) -> Result<&[KeyHash], Error> {
        let ended = || Error::Source("the keys could not be read".into());
        self.ask.send(()).map_err(|_| ended())?;
        self.run = self.runs.recv().map_err(|_| ended())?;
        Ok(&self.run)
    }
}

/// Returns the callable that is told about progress: the one that is given, or a bar for `True`.
fn reporter(py: Python<'_>, progress: Option<Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    match progress {
        None => Ok(None),
        Some(progress) if progress.is_callable() => Ok(Some(progress.unbind())),
        Some(progress) if progress.is_truthy()? => {
            Ok(Some(py.import("tamis._progress")?.getattr("Bar")?.call0()?.unbind()))
        }
        Some(_) => Ok(None),
    }
}

/// Runs `build` on another thread, with options that the job states and a source of the keys of `feed`.
pub(crate) fn run<R: Send>(
    py: Python<'_>,
    job: Job<'_>,
    mut feed: Option<Feed<'_>>,
    build: impl FnOnce(&BuildOptions<'_>, &mut dyn KeySource) -> Result<R, Error> + Send,
) -> PyResult<R> {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let threads = job.threads.unwrap_or_else(cores);
    let (placed, keys, cancel) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let note = |progress: &tamis::Progress| {
        placed.store(progress.placed, Relaxed);
        keys.store(progress.keys, Relaxed);
    };
    let mut options = BuildOptions::new().threads(threads).cancel(&cancel).on_progress(&note);
    if let Some(bytes) = job.max_memory {
        options = options.max_memory(bytes, job.scratch.unwrap_or_else(env::temp_dir));
    }
    if let Some(seconds) = job.time_limit {
        let limit = Duration::try_from_secs_f64(seconds).map_err(|_| {
            let message = format!("time_limit must be a number of seconds, not {seconds}");
            exception("InvalidInputError", message)
        })?;
        options = options.time_limit(limit);
    }
    let report = reporter(py, job.progress)?;
    let (ask, asked) = channel();
    let (send, runs) = channel();

    let tick = |last: &mut Instant| -> PyResult<()> {
        if last.elapsed() < TICK {
            return Ok(());
        }
        *last = Instant::now();
        Python::attach(|py| {
            py.check_signals()?;
            match &report {
                Some(report) => {
                    report.call1(py, (placed.load(Relaxed), keys.load(Relaxed))).map(drop)
                }
                None => Ok(()),
            }
        })
    };
    let mut serve = |run: &mut Vec<KeyHash>| -> PyResult<()> {
        let Some(feed) = &mut feed else { return Ok(()) };
        Python::attach(|py| {
            let mut keys = feed.keys.bind(py).clone();
            // An empty run would end the keys: read on past runs of nothing but None.
            while column::read_run(feed.hasher, &mut keys, RUN, run, feed.forms)? && run.is_empty()
            {
            }
            Ok(())
        })
    };
    let built = py.detach(|| {
        thread::scope(|scope| {
            let options = &options;
            let worker = scope.spawn(move || {
                let mut source = Requests { ask, runs, run: Vec::new() };
                build(options, &mut source)
            });
            let mut last = Instant::now();
            let watched = loop {
                let mut step = || match asked.recv_timeout(TICK) {
                    Ok(()) => {
                        let mut run = Vec::new();
                        serve(&mut run)?;
                        // The build may have ended for another reason.
                        let _ = send.send(run);
                        tick(&mut last).map(|()| true)
                    }
                    Err(RecvTimeoutError::Timeout) => tick(&mut last).map(|()| true),
                    Err(RecvTimeoutError::Disconnected) => Ok(false),
                };
                match step() {
                    Ok(true) => {}
                    Ok(false) => break Ok(()),
                    Err(error) => {
                        cancel.store(true, Relaxed);
                        break Err(error);
                    }
                }
            };
            // Ends the source, if the build waits for keys.
            drop((send, asked));
            let built = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            watched.map_err(Failure::from)?;
            built.map_err(Failure::from)
        })
    })?;
    if let Some(report) = &report {
        let done = keys.load(Relaxed).max(placed.load(Relaxed));
        report.call1(py, (done, done))?;
        if report.bind(py).hasattr("close")? {
            report.call_method0(py, "close")?;
        }
    }
    Ok(built)
}

/// A source of keys in memory.
struct ColumnSource<'a> {
    hasher: &'a KeyHasher,
    keys: &'a Columns,
    at: usize,
    run: Vec<KeyHash>,
}

impl Source<KeyHash> for ColumnSource<'_> {
    fn next_run(&mut self) -> Result<&[KeyHash], Error> {
        self.run.clear();
        while self.run.is_empty() && self.at < self.keys.len() {
            let end = self.keys.len().min(self.at + RUN);
            let (hasher, run) = (self.hasher, &mut self.run);
            let read = self.keys.pieces(self.at..end, RUN, |column, rows| {
                let first = run.len();
                column.hash(hasher, rows.clone(), run)?;
                let mut kept = first;
                let mut has_nulls = false;
                column.validity(rows, |at, valid| {
                    has_nulls = true;
                    if valid {
                        run[kept] = run[first + at];
                        kept += 1;
                    }
                });
                if has_nulls {
                    run.truncate(kept);
                }
                Ok::<_, Failure>(())
            });
            read.map_err(|failure| match failure {
                Failure::Filter(error) => error,
                Failure::Keys(message) => Error::Source(message.into()),
                Failure::Python(error) => Error::Source(error.into()),
            })?;
            self.at = end;
        }
        Ok(&self.run)
    }
}

/// Returns the best kind for a set that is built at once and has the capabilities `needs`.
fn best_kind(sizing: &Sizing, keys: u64, mut needs: Vec<Capability>) -> Result<Kind, Error> {
    if needs.is_empty() {
        needs.push(Capability::Static);
    }
    let ranked = plan::recommend(sizing.goal(keys), &needs)?;
    let quick = ranked.iter().find(|advice| {
        !advice.kind.is_slow_to_build()
            && ![Capability::Map, Capability::Window].iter().any(|other| advice.kind.can(*other))
    });
    Ok(quick.unwrap_or(&ranked[0]).kind)
}

/// Builds a filter from all its keys, which are read once: a NumPy array, an Arrow column or any iterable.
///
/// Without `kind`, the best static kind is taken: static filters are the smallest, and cannot change.
/// Keys of `deny` never pass. With `format`, the filter is made as another program makes it, for `export`:
/// see `import_filter`; `kind`, `hash` and the like then follow from the format. `progress` is called with the number of keys that are placed and of all
/// keys; `True` shows a bar. Ctrl-C stops the build.
///
/// >>> import tamis
/// >>> words = tamis.build(["apple", "pear"], fpr=0.001)
/// >>> "pear" in words
/// True
#[pyfunction]
#[pyo3(signature = (
    keys, fpr = None, *, kind = None, needs = None, capacity = None, nbytes = None, bits_per_key = None,
    deny = None, format = None, hash = None, seed = None, settings = None, threads = None, max_memory = None,
    scratch = None, time_limit = None, progress = None
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn build(
    py: Python<'_>,
    keys: &Bound<'_, PyAny>,
    fpr: Option<f64>,
    kind: Option<&str>,
    needs: Option<Vec<String>>,
    capacity: Option<Whole>,
    nbytes: Option<Whole>,
    bits_per_key: Option<f64>,
    deny: Option<&Bound<'_, PyAny>>,
    format: Option<&str>,
    hash: Option<&str>,
    seed: Option<u128>,
    settings: Option<&Bound<'_, PyDict>>,
    threads: Option<usize>,
    max_memory: Option<Whole>,
    scratch: Option<PathBuf>,
    time_limit: Option<f64>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let max_memory = max_memory.map(|Whole(bytes)| bytes);
    let job = Job { threads, progress, max_memory, scratch, time_limit };
    if let Some(format) = format {
        let follows = [
            ("kind", kind.is_some()),
            ("needs", needs.is_some()),
            ("nbytes", nbytes.is_some()),
            ("bits_per_key", bits_per_key.is_some()),
            ("deny", deny.is_some()),
            ("hash", hash.is_some()),
            ("seed", seed.is_some()),
            ("settings", settings.is_some()),
        ];
        if let Some((name, _)) = follows.iter().find(|(_, is_given)| *is_given) {
            let message = format!("{name} follows from the format and cannot be given with it");
            return Err(exception("InvalidInputError", message));
        }
        let format = foreign::format(format)?;
        return foreign::build(py, keys, format, fpr.unwrap_or(0.01), capacity, job);
    }
    let sizing = options::sizing(capacity, fpr, nbytes, bits_per_key, settings)?;
    let needs = options::capabilities(needs)?;
    let kind = kind.map(options::kind).transpose()?;
    let default_hash = match kind {
        Some(kind) => kind.default_hash(),
        None if needs.contains(&Capability::Range) => HashId::Ordered,
        None => HashId::Fast,
    };
    let hash = hash.unwrap_or(default_hash.name());
    let hasher = options::hasher(hash, seed)?;
    let keys = column::take(&hasher, keys)?;
    let count = match &keys {
        Keys::Columns(columns) => columns.valid_len(),
        Keys::Iterator(keys) => keys.size_hint().0,
    };
    // An iterator of unknown length is taken for a large one.
    let count = if count == 0 { plan::GROWN_KEYS } else { count as u64 };
    let denied = deny.map(|keys| column::take_all(&hasher, keys)).transpose()?;
    let kind = match (kind, &denied) {
        (Some(kind), _) => kind,
        (None, Some(_)) => Kind::Guarded,
        (None, None) => best_kind(&sizing, count, needs).map_err(raise)?,
    };
    if kind.can(Capability::Window) {
        return Err(PyTypeError::new_err("a window is not built: make it with tamis.Window"));
    }
    let denied = match denied {
        None => None,
        Some(denied) => {
            let mut hashes = Vec::new();
            batch::for_valid(&hasher, &denied, |run| {
                hashes.extend_from_slice(run);
                Ok(())
            })?;
            Some(hashes)
        }
    };
    let make = |options: &BuildOptions<'_>, keys: &mut dyn KeySource| match &denied {
        None => {
            let builder = Keyed::<AnyFilter>::builder(kind).sizing(sizing.clone()).hasher(&hasher);
            builder.options(options.clone()).build_hashes(keys)
        }
        Some(denied) => {
            let filter = kind.build_denying(&sizing, keys, &mut &denied[..], options)?;
            Ok(Keyed::new(hasher, filter))
        }
    };
    let keyed = match keys {
        Keys::Columns(columns) => {
            let keyed = run(py, job, None, |options, _| {
                let (keys, hasher) = (&columns, &hasher);
                make(options, &mut ColumnSource { hasher, keys, at: 0, run: Vec::new() })
            })?;
            keyed.with_key_forms(columns.forms)
        }
        Keys::Iterator(keys) => {
            let mut forms = KeyForms::NONE;
            let feed = Feed { hasher: &hasher, keys: keys.unbind(), forms: &mut forms };
            let keyed = run(py, job, Some(feed), make)?;
            keyed.with_key_forms(forms)
        }
    };
    wrap(py, keyed)
}
