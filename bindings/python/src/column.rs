//! Many keys at once: NumPy arrays, Arrow columns, and what any iterable yields.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyString};
use tamis::{AnyFilter, Error, KeyForms, KeyHash, KeyHasher, Keyed};

use crate::arrow;
use crate::errors::Failure;
use crate::keys::hash_key;

/// Many keys, as the caller gives them.
pub(crate) enum Keys<'py> {
    /// Keys in memory, which can be read without the interpreter.
    Columns(Columns),
    /// Keys that an iterator yields.
    Iterator(Bound<'py, PyIterator>),
}

/// Keys in memory.
pub(crate) struct Columns {
    pub(crate) columns: Vec<Column>,
    pub(crate) forms: KeyForms,
    /// Whether the keys are of one type that the caller states, as those of an array are.
    typed: bool,
}

/// Keys in one piece of memory.
pub(crate) enum Column {
    /// An array of integers.
    Integers(Integers),
    /// A NumPy array of byte strings of one length, padded with zeros.
    Bytes(PyUntypedBuffer),
    /// A NumPy array of strings of one length, 4 bytes per character, padded with zeros.
    Text(PyUntypedBuffer),
    /// An Arrow array.
    Arrow(ArrayRef),
    /// Keys that are hashed already. Those that are `None` are not valid.
    Hashes { hashes: Vec<KeyHash>, valid: Option<Vec<bool>> },
}

macro_rules! integers {
    ($($name:ident $type:ty),*) => {
        /// A contiguous array of integers of native byte order.
        pub(crate) enum Integers { $( $name(PyBuffer<$type>), )* }

        impl Integers {
            fn get(array: &Bound<'_, PyAny>) -> PyResult<Self> {
                $( if let Ok(buffer) = PyBuffer::<$type>::get(array) {
                    return Ok(Self::$name(buffer));
                } )*
                Err(PyTypeError::new_err("expected an array of integers of at most 64 bits"))
            }

            fn len(&self) -> usize {
                match self { $( Self::$name(buffer) => buffer.item_count(), )* }
            }

            fn hash(&self, hasher: &KeyHasher, rows: Range<usize>, out: &mut Vec<KeyHash>) {
                match self { $( Self::$name(buffer) => {
                    let Some(values) = buffer.as_slice_ptr() else { return };
                    // SAFETY: the exporter keeps the memory in place while `buffer` is held. Callers are
                    // told not to change an array while it is read.
                    let values: &[$type] = unsafe { values.as_ref() };
                    // Signed integers are extended by their sign, others by zeros.
                    #[allow(clippy::cast_lossless, reason = "one cast for all integer types")]
                    out.extend(values[rows].iter().map(|value| hasher.int(*value as u64)));
                } )* }
            }
        }
    };
}
integers!(I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64);

/// Returns the bytes of a contiguous buffer.
pub(crate) fn bytes_of(buffer: &PyUntypedBuffer) -> &[u8] {
    if buffer.len_bytes() == 0 {
        return &[];
    }
    // SAFETY: the buffer is contiguous, and its exporter keeps the memory in place while it is held.
    // Callers are told not to change an array while it is read.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes()) }
}

/// Returns the text of a NumPy string in `buffer`.
fn utf8<'a>(padded: &[u8], text: &'a mut String) -> Result<&'a str, Failure> {
    text.clear();
    let (characters, _) = padded.as_chunks::<4>();
    let length = characters.iter().rposition(|word| *word != [0; 4]).map_or(0, |last| last + 1);
    for word in &characters[..length] {
        let character = char::from_u32(u32::from_ne_bytes(*word));
        let invalid = || Failure::Keys("a key is not valid Unicode: it has a surrogate".to_owned());
        text.push(character.ok_or_else(invalid)?);
    }
    Ok(text)
}

impl Column {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Integers(integers) => integers.len(),
            Self::Bytes(buffer) | Self::Text(buffer) => buffer.item_count(),
            Self::Arrow(array) => array.len(),
            Self::Hashes { hashes, .. } => hashes.len(),
        }
    }

    /// Returns the number of rows that are not null.
    fn valid_len(&self) -> usize {
        match self {
            Self::Arrow(array) => array.len() - array.logical_null_count(),
            Self::Hashes { valid: Some(valid), .. } => valid.iter().filter(|valid| **valid).count(),
            _ => self.len(),
        }
    }

    /// Calls `each` for each of `rows` with its position in `rows` and whether it is not null. Does
    /// nothing if no row is null.
    pub(crate) fn validity(&self, rows: Range<usize>, mut each: impl FnMut(usize, bool)) {
        match self {
            Self::Arrow(array) => {
                if let Some(nulls) = array.logical_nulls() {
                    let start = rows.start;
                    rows.for_each(|row| each(row - start, nulls.is_valid(row)));
                }
            }
            Self::Hashes { valid: Some(valid), .. } => {
                valid[rows].iter().enumerate().for_each(|(at, valid)| each(at, *valid));
            }
            _ => {}
        }
    }

    /// Appends the hashes of `rows`. A null has any hash.
    pub(crate) fn hash(
        &self,
        hasher: &KeyHasher,
        rows: Range<usize>,
        out: &mut Vec<KeyHash>,
    ) -> Result<(), Failure> {
        match self {
            Self::Integers(integers) => integers.hash(hasher, rows, out),
            Self::Bytes(buffer) => {
                let (bytes, width) = (bytes_of(buffer), buffer.item_size());
                out.extend(rows.map(|row| {
                    let padded = &bytes[row * width..(row + 1) * width];
                    let length =
                        padded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                    hasher.bytes(&padded[..length])
                }));
            }
            Self::Text(buffer) => {
                let (bytes, width) = (bytes_of(buffer), buffer.item_size());
                let mut text = String::new();
                for row in rows {
                    let text = utf8(&bytes[row * width..(row + 1) * width], &mut text)?;
                    out.push(hasher.bytes(text.as_bytes()));
                }
            }
            Self::Arrow(array) => arrow::hash(hasher, array, rows, out),
            Self::Hashes { hashes, .. } => out.extend_from_slice(&hashes[rows]),
        }
        Ok(())
    }
}

impl Columns {
    pub(crate) fn len(&self) -> usize {
        self.columns.iter().map(Column::len).sum()
    }

    pub(crate) fn valid_len(&self) -> usize {
        self.columns.iter().map(Column::valid_len).sum()
    }

    /// Checks that an array has keys of a form that the filter holds. Keys of another form are all
    /// absent, and a caller that looks up a whole array of them has made a mistake.
    pub(crate) fn check_form(&self, keyed: &Keyed<AnyFilter>) -> Result<(), Error> {
        if self.typed && self.len() > 0 { keyed.check_key_form(self.forms) } else { Ok(()) }
    }

    /// Calls `each` with pieces of at most `step` rows that make up `rows`.
    pub(crate) fn pieces<E>(
        &self,
        rows: Range<usize>,
        step: usize,
        mut each: impl FnMut(&Column, Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut first = 0;
        for column in &self.columns {
            let end = first + column.len();
            let (mut at, to) = (rows.start.max(first), rows.end.min(end));
            while at < to {
                let next = to.min(at + step);
                each(column, at - first..next - first)?;
                at = next;
            }
            first = end;
        }
        Ok(())
    }

    fn from_arrow(hasher: &KeyHasher, chunks: Vec<ArrayRef>) -> PyResult<Self> {
        let mut forms = KeyForms::NONE;
        let mut columns = Vec::with_capacity(chunks.len());
        for array in chunks {
            forms = forms.union(arrow::form(array.data_type())?);
            columns.push(match arrow::hash_dictionary(hasher, &array) {
                None => Column::Arrow(array),
                Some(hashes) => {
                    let valid = array.logical_nulls().map(|nulls| nulls.iter().collect());
                    Column::Hashes { hashes, valid }
                }
            });
        }
        Ok(Self { columns, forms, typed: true })
    }

    /// Reads an iterator to its end.
    pub(crate) fn from_iterator(
        hasher: &KeyHasher,
        keys: &Bound<'_, PyIterator>,
    ) -> PyResult<Self> {
        let mut forms = KeyForms::NONE;
        let mut hashes = Vec::with_capacity(keys.size_hint().0.min(1 << 24));
        let mut valid: Option<Vec<bool>> = None;
        for key in keys {
            let key = key?;
            if key.is_none() {
                valid.get_or_insert_with(|| vec![true; hashes.len()]).push(false);
                hashes.push(KeyHash { hi: 0, lo: 0 });
                continue;
            }
            let hashed = hash_key(hasher, &key)?;
            forms = forms.union(hashed.form);
            hashes.push(hashed.hash);
            if let Some(valid) = &mut valid {
                valid.push(true);
            }
        }
        Ok(Self { columns: vec![Column::Hashes { hashes, valid }], forms, typed: false })
    }
}

/// Reads at most `most` keys from an iterator and leaves out `None`. Returns whether there are more.
pub(crate) fn read_run(
    hasher: &KeyHasher,
    keys: &mut Bound<'_, PyIterator>,
    most: usize,
    run: &mut Vec<KeyHash>,
    forms: &mut KeyForms,
) -> PyResult<bool> {
    for _ in 0..most {
        let Some(key) = keys.next() else { return Ok(false) };
        let key = key?;
        if !key.is_none() {
            let hashed = hash_key(hasher, &key)?;
            *forms = forms.union(hashed.form);
            run.push(hashed.hash);
        }
    }
    Ok(true)
}

/// Takes many keys as the caller gives them.
pub(crate) fn take<'py>(hasher: &KeyHasher, keys: &Bound<'py, PyAny>) -> PyResult<Keys<'py>> {
    if keys.is_instance_of::<PyString>() || keys.is_instance_of::<PyBytes>() {
        let name = keys.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "expected many keys, not one {name}: put it in a list"
        )));
    }
    if let Some(chunks) = arrow::import(keys)? {
        return Ok(Keys::Columns(Columns::from_arrow(hasher, chunks)?));
    }
    if keys.hasattr("__array_interface__")? {
        return from_numpy(keys);
    }
    let module = keys.get_type().module()?;
    if module.to_str()?.starts_with("pandas.") {
        let from_pandas = pyo3::types::PyDict::new(keys.py());
        from_pandas.set_item("from_pandas", true)?;
        let array =
            keys.py().import("pyarrow")?.call_method("array", (keys,), Some(&from_pandas))?;
        return take(hasher, &array);
    }
    Ok(Keys::Iterator(keys.try_iter()?))
}

/// Takes all keys, reading an iterator to its end.
pub(crate) fn take_all(hasher: &KeyHasher, keys: &Bound<'_, PyAny>) -> PyResult<Columns> {
    match take(hasher, keys)? {
        Keys::Columns(columns) => Ok(columns),
        Keys::Iterator(keys) => Columns::from_iterator(hasher, &keys),
    }
}

fn from_numpy<'py>(array: &Bound<'py, PyAny>) -> PyResult<Keys<'py>> {
    let dimensions: usize = array.getattr("ndim")?.extract()?;
    if dimensions != 1 {
        return Err(PyTypeError::new_err(format!(
            "expected an array of 1 dimension, not {dimensions}"
        )));
    }
    let dtype = array.getattr("dtype")?;
    let kind: char = dtype.getattr("kind")?.extract()?;
    let plain = || {
        let dtype = dtype.call_method1("newbyteorder", ("=",))?;
        array.py().import("numpy")?.call_method1("require", (array, dtype, ("C", "A")))
    };
    let (column, forms) = match kind {
        'i' | 'u' => (Column::Integers(Integers::get(&plain()?)?), KeyForms::INTEGERS),
        'S' => (Column::Bytes(PyUntypedBuffer::get(&plain()?)?), KeyForms::BYTES),
        'U' => (Column::Text(PyUntypedBuffer::get(&plain()?)?), KeyForms::BYTES),
        // Python objects, and strings of any length.
        'O' | 'T' => return Ok(Keys::Iterator(array.call_method0("tolist")?.try_iter()?)),
        _ => {
            return Err(PyTypeError::new_err(format!(
                "a key is text, bytes or an integer, not {dtype}: convert the array first"
            )));
        }
    };
    Ok(Keys::Columns(Columns { columns: vec![column], forms, typed: true }))
}
