//! Errors of the library as Python exceptions.
//!
//! The classes are defined in `tamis/_errors.py`, one for each kind of error.

use std::path::Path;

use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use tamis::{Error, ErrorKind, FileError};

/// What can fail while the interpreter is released.
pub(crate) enum Failure {
    /// The library returned an error.
    Filter(Error),
    /// The keys have a type that is not supported.
    Keys(String),
    /// Python raised an exception.
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Filter(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Filter(error) => raise(error),
            Failure::Keys(message) => PyTypeError::new_err(message),
            Failure::Python(error) => error,
        }
    }
}

/// Returns an exception of the class `name` of `tamis/_errors.py`.
pub(crate) fn exception(name: &str, message: String) -> PyErr {
    let make = |py: Python<'_>| -> PyResult<PyErr> {
        let class = py.import("tamis._errors")?.getattr(name)?;
        Ok(PyErr::from_value(class.call1((message,))?))
    };
    Python::attach(|py| make(py).unwrap_or_else(|error| error))
}

/// Returns the exception for an error of the library.
pub(crate) fn raise(error: Error) -> PyErr {
    let message = error.to_string();
    let name = match error.kind() {
        ErrorKind::InvalidInput => "InvalidInputError",
        ErrorKind::Full => "FullError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Mismatch => "MismatchError",
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::OutOfMemory => "OutOfMemoryError",
        ErrorKind::Stopped => "StoppedError",
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::Io => return PyOSError::new_err(message),
        _ => "TamisError",
    };
    exception(name, message)
}

/// Returns the exception for an error with a file. An error of the operating system has its number and
/// the file's name, so that Python raises `FileNotFoundError` and the like.
pub(crate) fn raise_file(path: &Path) -> impl FnOnce(Error) -> PyErr {
    move |error| {
        let Error::File(FileError::Io(io)) = &error else { return raise(error) };
        let name = path.as_os_str().to_os_string();
        match io.raw_os_error() {
            Some(code) => PyOSError::new_err((code, io.to_string(), name)),
            None => PyOSError::new_err(format!("{}: {io}", path.display())),
        }
    }
}
