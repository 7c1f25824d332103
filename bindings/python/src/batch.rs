//! Operations on many keys, without the interpreter and on all cores.

use std::ops::Range;
use std::thread;

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict};
use tamis::{Error, KeyHash, KeyHasher, Value};

use crate::column::{Column, Columns};
use crate::errors::Failure;

/// Keys that are hashed at a time: their hashes stay in the first-level cache.
const RUN: usize = 512;
/// The least number of keys for which a thread is started.
const THREAD_KEYS: usize = 1 << 15;

/// Returns the number of threads for `keys` keys: `threads`, or all cores.
fn thread_count(threads: Option<usize>, keys: usize) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    threads.unwrap_or_else(cores).clamp(1, (keys / THREAD_KEYS).max(1))
}

/// Calls `each` with the hashes of `rows` in runs, with the column and the rows that they come from.
fn each_run(
    hasher: &KeyHasher,
    keys: &Columns,
    rows: Range<usize>,
    mut each: impl FnMut(&[KeyHash], &Column, Range<usize>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut hashes = Vec::with_capacity(RUN);
    keys.pieces(rows, RUN, |column, rows| {
        hashes.clear();
        column.hash(hasher, rows.clone(), &mut hashes)?;
        each(&hashes, column, rows)
    })
}

/// Calls `answer` with the hashes of all keys in runs and their part of the answers, on several threads.
/// An answer is `WIDTH` bytes. The answer for a null is 0.
fn answer_all<const WIDTH: usize>(
    hasher: &KeyHasher,
    keys: &Columns,
    threads: Option<usize>,
    out: &mut [u8],
    answer: impl Fn(&[KeyHash], &mut [[u8; WIDTH]]) -> Result<(), Error> + Sync,
) -> Result<(), Failure> {
    let (out, _) = out.as_chunks_mut::<WIDTH>();
    let total = out.len();
    let work = |start: usize, out: &mut [[u8; WIDTH]]| {
        let mut rest = &mut out[..];
        each_run(hasher, keys, start..start + rest.len(), |hashes, column, rows| {
            let (run, more) = std::mem::take(&mut rest).split_at_mut(hashes.len());
            rest = more;
            answer(hashes, run)?;
            column.validity(rows, |at, valid| {
                if !valid {
                    run[at] = [0; WIDTH];
                }
            });
            Ok(())
        })
    };
    let threads = thread_count(threads, total);
    if threads == 1 {
        return work(0, out);
    }
    let share = total.div_ceil(threads);
    thread::scope(|scope| {
        let work = &work;
        let parts = out.chunks_mut(share).enumerate();
        let parts: Vec<_> =
            parts.map(|(part, out)| scope.spawn(move || work(part * share, out))).collect();
        parts.into_iter().try_for_each(|part| {
            part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// Makes a NumPy array of `len` elements of `dtype`, each `WIDTH` bytes, and fills it with answers.
fn array_of<'py, const WIDTH: usize>(
    py: Python<'py>,
    len: usize,
    dtype: &str,
    fill: impl FnOnce(&mut [u8]) -> Result<(), Failure> + Send,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyByteArray::new_with(py, len * WIDTH, |out| Ok(py.detach(|| fill(out))?))?;
    let arguments = PyDict::new(py);
    arguments.set_item("dtype", dtype)?;
    py.import("numpy")?.call_method("frombuffer", (bytes,), Some(&arguments))
}

/// Returns a NumPy array of `bool` with the answers to all keys. `answer` is called from several threads.
pub(crate) fn map_bools<'py>(
    py: Python<'py>,
    hasher: &KeyHasher,
    keys: &Columns,
    threads: Option<usize>,
    answer: impl Fn(&[KeyHash], &mut [bool]) -> Result<(), Error> + Send + Sync,
) -> PyResult<Bound<'py, PyAny>> {
    array_of::<1>(py, keys.len(), "bool", |out| {
        answer_all::<1>(hasher, keys, threads, out, |hashes, out| {
            let mut found = [false; RUN];
            let found = &mut found[..hashes.len()];
            answer(hashes, found)?;
            out.iter_mut().zip(found).for_each(|(out, found)| *out = [u8::from(*found)]);
            Ok(())
        })
    })
}

/// Returns a NumPy array of `dtype`, integers of 64 bits, with the answers to all keys.
pub(crate) fn map_numbers<'py>(
    py: Python<'py>,
    hasher: &KeyHasher,
    keys: &Columns,
    threads: Option<usize>,
    dtype: &str,
    answer: impl Fn(&[KeyHash], &mut [u64]) -> Result<(), Error> + Send + Sync,
) -> PyResult<Bound<'py, PyAny>> {
    array_of::<8>(py, keys.len(), dtype, |out| {
        answer_all::<8>(hasher, keys, threads, out, |hashes, out| {
            let mut numbers = [0; RUN];
            let numbers = &mut numbers[..hashes.len()];
            answer(hashes, numbers)?;
            out.iter_mut().zip(numbers).for_each(|(out, number)| *out = number.to_ne_bytes());
            Ok(())
        })
    })
}

/// Returns the values of all keys, on one thread. A null has none.
pub(crate) fn map_values(
    py: Python<'_>,
    hasher: &KeyHasher,
    keys: &Columns,
    answer: impl Fn(KeyHash) -> Result<Option<Value>, Error> + Send + Sync,
) -> PyResult<Vec<Option<Value>>> {
    let mut values = Vec::new();
    py.detach(|| {
        each_run(hasher, keys, 0..keys.len(), |hashes, column, rows| {
            let start = values.len();
            for hash in hashes {
                values.push(answer(*hash)?);
            }
            column.validity(rows, |at, valid| {
                if !valid {
                    values[start + at] = None;
                }
            });
            Ok(())
        })
    })?;
    Ok(values)
}

/// Returns a NumPy array of objects.
pub(crate) fn object_array<'py>(
    py: Python<'py>,
    objects: impl ExactSizeIterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = py.import("numpy")?.call_method1("empty", (objects.len(), "object"))?;
    for (at, object) in objects.enumerate() {
        array.set_item(at, object?)?;
    }
    Ok(array)
}

/// Returns a NumPy array of `bool` with what `change` says of each key, in order, on one thread. Nulls are
/// left out, and their answer is `False`.
pub(crate) fn change_bools<'py>(
    py: Python<'py>,
    hasher: &KeyHasher,
    keys: &Columns,
    change: impl FnMut(&[KeyHash], &mut [bool]) -> Result<(), Error> + Send,
) -> PyResult<Bound<'py, PyAny>> {
    array_of::<1>(py, keys.len(), "bool", move |out| {
        let mut rest = out;
        let mut change = change;
        each_run(hasher, keys, 0..keys.len(), |hashes, column, rows| {
            let (run, more) = std::mem::take(&mut rest).split_at_mut(hashes.len());
            rest = more;
            let mut places: Vec<usize> = Vec::new();
            let mut has_nulls = false;
            column.validity(rows, |at, valid| {
                has_nulls |= !valid;
                if valid {
                    places.push(at);
                }
            });
            let mut answers = [false; RUN];
            if has_nulls {
                let valid: Vec<KeyHash> = places.iter().map(|at| hashes[*at]).collect();
                change(&valid, &mut answers[..valid.len()])?;
                places.iter().zip(answers).for_each(|(at, answer)| run[*at] = u8::from(answer));
            } else {
                change(hashes, &mut answers[..hashes.len()])?;
                run.iter_mut().zip(answers).for_each(|(out, answer)| *out = u8::from(answer));
            }
            Ok(())
        })
    })
}

/// Calls `each` with the hashes of all keys that are not null, in order.
pub(crate) fn for_valid(
    hasher: &KeyHasher,
    keys: &Columns,
    mut each: impl FnMut(&[KeyHash]) -> Result<(), Error>,
) -> Result<(), Failure> {
    let mut done = 0;
    each_run(hasher, keys, 0..keys.len(), |hashes, column, rows| {
        let mut valid: Option<Vec<KeyHash>> = None;
        column.validity(rows, |at, is_valid| {
            let valid = valid.get_or_insert_default();
            if is_valid {
                valid.push(hashes[at]);
            }
        });
        let hashes = valid.as_deref().unwrap_or(hashes);
        each(hashes).map_err(|error| after(error, done))?;
        done += hashes.len() as u64;
        Ok(())
    })
}

/// Adds the keys of earlier runs to what an error states.
pub(crate) fn after(error: Error, keys: u64) -> Error {
    match error {
        Error::Full { inserted } => Error::Full { inserted: inserted + keys },
        error => error,
    }
}
