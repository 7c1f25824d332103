//! Python objects as keys.

use std::ffi::c_int;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};
use tamis::{KeyForms, KeyHash, KeyHasher};

/// The hash of a key and the form of the key.
#[derive(Clone, Copy)]
pub(crate) struct HashedKey {
    pub(crate) hash: KeyHash,
    pub(crate) form: KeyForms,
}

/// Hashes a key: `str` by its UTF-8 bytes, `bytes` by their value, `int` by value.
#[inline]
pub(crate) fn hash_key(hasher: &KeyHasher, key: &Bound<'_, PyAny>) -> PyResult<HashedKey> {
    // An exact type is compared in place. The flags of a subclass take a call to read.
    if let Ok(text) = key.cast_exact::<PyString>() {
        return Ok(of_bytes(hasher, text.to_str()?.as_bytes()));
    }
    if key.is_exact_instance_of::<PyInt>() {
        return hash_int(hasher, key);
    }
    hash_other(hasher, key)
}

#[inline]
fn of_bytes(hasher: &KeyHasher, bytes: &[u8]) -> HashedKey {
    HashedKey { hash: hasher.bytes(bytes), form: KeyForms::BYTES }
}

/// Hashes a Python `int`.
fn hash_int(hasher: &KeyHasher, key: &Bound<'_, PyAny>) -> PyResult<HashedKey> {
    let mut overflow: c_int = 0;
    // SAFETY: `key` is an `int`, and the interpreter is attached.
    let signed = unsafe { ffi::PyLong_AsLongLongAndOverflow(key.as_ptr(), &raw mut overflow) };
    let value = match overflow {
        0 => signed as u64,
        _ => key.extract::<u64>().map_err(|_| {
            PyOverflowError::new_err("an integer key must be at least -2**63 and below 2**64")
        })?,
    };
    Ok(HashedKey { hash: hasher.int(value), form: KeyForms::INTEGERS })
}

/// Hashes a key of a less usual type: `bytes`, NumPy integers, `bytearray`, `memoryview`, and subclasses of
/// `str`, `bytes` and `int`.
#[inline(never)]
fn hash_other(hasher: &KeyHasher, key: &Bound<'_, PyAny>) -> PyResult<HashedKey> {
    if let Ok(bytes) = key.cast::<PyBytes>() {
        return Ok(of_bytes(hasher, bytes.as_bytes()));
    }
    if let Ok(text) = key.cast::<PyString>() {
        return Ok(of_bytes(hasher, text.to_str()?.as_bytes()));
    }
    if !key.is_instance_of::<PyBool>() {
        if key.is_instance_of::<PyInt>() {
            return hash_int(hasher, key);
        }
        if key.hasattr("__index__")? {
            let int = key.call_method0("__index__")?;
            if int.is_instance_of::<PyInt>() {
                return hash_int(hasher, &int);
            }
        }
    }
    if let Ok(buffer) = PyBuffer::<u8>::get(key) {
        return Ok(of_bytes(hasher, &buffer.to_vec(key.py())?));
    }
    Err(refuse(key))
}

/// Returns the exception for an object that is no key.
fn refuse(key: &Bound<'_, PyAny>) -> PyErr {
    let why = if key.is_instance_of::<PyBool>() {
        ": True and 1 would be one key; convert it with int() or str()"
    } else if key.is_instance_of::<PyFloat>() {
        ": floats that print alike can differ; convert it with int() or str()"
    } else {
        ""
    };
    let name = key.get_type().name();
    let name = name.map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("a key is str, bytes or int, not {name}{why}"))
}

/// Returns the bytes of a `str` or `bytes`, for callers whose keys are byte strings.
pub(crate) fn as_bytes<'a>(object: &'a Bound<'_, PyAny>, what: &str) -> PyResult<&'a [u8]> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes());
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    let name = object.get_type().name()?;
    Err(PyTypeError::new_err(format!("a {what} is str or bytes, not {name}")))
}

/// A whole number, given as an `int` or as a `float` such as `1e6`.
#[derive(Clone, Copy)]
pub(crate) struct Whole(pub(crate) u64);

impl<'a, 'py> FromPyObject<'a, 'py> for Whole {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let refuse = |object: Borrowed<'_, '_, PyAny>| -> PyErr {
            let message = match object.repr() {
                Ok(text) => format!("expected a whole number of at least 0, not {text}"),
                Err(error) => return error,
            };
            crate::errors::exception("InvalidInputError", message)
        };
        if object.is_instance_of::<PyFloat>() {
            let number: f64 = object.extract()?;
            let fits = number.fract() == 0.0 && (0.0..=2f64.powi(53)).contains(&number);
            return if fits { Ok(Self(number as u64)) } else { Err(refuse(object)) };
        }
        if object.is_instance_of::<PyBool>() || !object.hasattr("__index__")? {
            let name = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("expected a whole number, not {name}")));
        }
        object.extract().map(Self).map_err(|_| refuse(object))
    }
}

/// An integer of any sign, given as an `int` or as a `float` such as `-1e6`.
#[derive(Clone, Copy)]
pub(crate) struct Integer(pub(crate) i128);

impl<'a, 'py> FromPyObject<'a, 'py> for Integer {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyFloat>() {
            let number: f64 = object.extract()?;
            if number.fract() == 0.0 && number.abs() <= 2f64.powi(53) {
                return Ok(Self(number as i128));
            }
            let message = format!("expected a whole number, not {number:?}");
            return Err(crate::errors::exception("InvalidInputError", message));
        }
        if object.is_instance_of::<PyBool>() || !object.hasattr("__index__")? {
            let name = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("a value is int, str or bytes, not {name}")));
        }
        object.extract().map(Self).map_err(|_| crate::errors::raise(tamis::Error::IntegerSpan))
    }
}
