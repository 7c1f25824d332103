//! Filters of other programs, in their own bytes: `import_filter`, `export`, and `build` with a format.

use std::path::PathBuf;
use std::str::FromStr;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use tamis::{AnyFilter, BuildOptions, KeyForms, KeyHash, Keyed};
use tamis_interop::{Error, Foreign, Format};

use crate::any::{Bytes, PyAnyFilter, into_object, wrap};
use crate::batch;
use crate::build::{Job, run};
use crate::column::{self, Keys};
use crate::errors::{exception, raise, raise_file};
use crate::handle::Handle;
use crate::keys::Whole;

/// Keys that are read from an iterator at a time.
const RUN: usize = 1 << 16;

/// Returns the exception for an error of the formats.
fn raise_foreign(error: Error) -> PyErr {
    let message = error.to_string();
    let name = match error {
        Error::Filter(error) => return raise(error),
        Error::Io(_) => return PyOSError::new_err(message),
        Error::Malformed { .. } | Error::Parquet(_) => "CorruptError",
        Error::Unsuitable { .. } => "MismatchError",
        _ => "InvalidInputError",
    };
    exception(name, message)
}

/// Returns the format with this name.
pub(crate) fn format(name: &str) -> PyResult<Format> {
    Format::from_str(name).map_err(raise_foreign)
}

/// Returns the one format whose structure the bytes have.
fn recognise(bytes: &[u8]) -> PyResult<Format> {
    let found = Format::recognise(bytes);
    let names = |formats: &[Format]| {
        formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
    };
    let message = match found[..] {
        [format] => return Ok(format),
        [] => format!(
            "the format is not recognised; if it is one of these, state it with format=: {}",
            names(Format::ALL)
        ),
        _ => format!("the bytes fit several formats; state one with format=: {}", names(&found)),
    };
    Err(exception("InvalidInputError", message))
}

/// What `import_filter` reads.
pub(crate) enum Source {
    Path(PathBuf),
    Bytes(Bytes),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Source {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() || object.hasattr("__fspath__")? {
            return Ok(Self::Path(object.extract()?));
        }
        Ok(Self::Bytes(object.extract()?))
    }
}

/// Reads a filter of another program from its bytes or its file: Parquet, Spark, Guava, FastFilter, rbloom,
/// DCSO, DataSketches, RedisBloom or the Rust crate bloomfilter.
///
/// The filter answers as it does in its program. Without `format` the format is recognised, except that
/// of rbloom. `int` keys are hashed as the program hashes a 64-bit integer; for other types, look up the
/// bytes that the program hashes. A file is mapped, and copied only if its layout requires it.
///
/// >>> import tamis
/// >>> data = tamis.build(["apple", "pear"], format="guava").export("guava")
/// >>> fruit = tamis.import_filter(data)
/// >>> "apple" in fruit, fruit.hash
/// (True, 'guava_murmur3')
#[pyfunction]
#[pyo3(signature = (data, format = None))]
pub(crate) fn import_filter(
    py: Python<'_>,
    data: Source,
    format: Option<&str>,
) -> PyResult<Py<PyAny>> {
    let stated = format.map(self::format).transpose()?;
    match (data, stated) {
        (Source::Path(path), Some(format)) => {
            let opened = py.detach(|| Keyed::<AnyFilter>::open_foreign(format, &path));
            let keyed = opened.map_err(|error| match error {
                Error::Io(error) => raise_file(&path)(tamis::FileError::Io(error).into()),
                error => raise_foreign(error),
            })?;
            let kind = keyed.kind();
            into_object(py, Handle::shared(keyed), kind)
        }
        (Source::Path(path), None) => {
            let bytes = py.detach(|| std::fs::read(&path));
            let bytes =
                bytes.map_err(|error| raise_file(&path)(tamis::FileError::Io(error).into()))?;
            read(py, &bytes, recognise(&bytes)?)
        }
        (Source::Bytes(bytes), stated) => {
            let bytes = bytes.as_ref();
            read(py, bytes, stated.map_or_else(|| recognise(bytes), Ok)?)
        }
    }
}

fn read(py: Python<'_>, bytes: &[u8], format: Format) -> PyResult<Py<PyAny>> {
    let keyed = py.detach(|| Keyed::<AnyFilter>::import(format, bytes)).map_err(raise_foreign)?;
    wrap(py, keyed)
}

/// Returns the bytes of a filter in a format.
pub(crate) fn export<'py>(
    py: Python<'py>,
    filter: &PyAnyFilter,
    format: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let format = self::format(format)?;
    let exported = py.detach(|| filter.handle.read().map(|state| state.get().export(format)));
    let bytes = exported.map_err(raise)?.map_err(raise_foreign)?;
    Ok(PyBytes::new(py, &bytes))
}

/// Builds a filter as the program of the format does, for `capacity` keys or as many as there are.
pub(crate) fn build(
    py: Python<'_>,
    keys: &Bound<'_, PyAny>,
    format: Format,
    fpr: f64,
    capacity: Option<Whole>,
    job: Job<'_>,
) -> PyResult<Py<PyAny>> {
    let hasher = format.hasher();
    let mut hashes: Vec<KeyHash> = Vec::new();
    let forms = match column::take(&hasher, keys)? {
        Keys::Columns(columns) => {
            let collect = || {
                batch::for_valid(&hasher, &columns, |run| {
                    hashes.extend_from_slice(run);
                    Ok(())
                })
            };
            py.detach(collect)?;
            columns.forms
        }
        Keys::Iterator(mut keys) => {
            let mut forms = KeyForms::NONE;
            while column::read_run(&hasher, &mut keys, RUN, &mut hashes, &mut forms)? {}
            forms
        }
    };
    let keys = capacity.map_or(hashes.len() as u64, |Whole(keys)| keys);
    let build = |options: &BuildOptions<'_>| format.build(keys, fpr, &mut &hashes[..], options);
    let built = run(py, job, None, |options, _| Ok(build(options)))?;
    wrap(py, built.map_err(raise_foreign)?.with_key_forms(forms))
}
