//! Arrow arrays through the PyCapsule interface, without a copy: pyarrow, polars, pandas, DuckDB.

use std::ffi::{CStr, CString};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, NullArray, make_array};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use tamis::{KeyForms, KeyHash, KeyHasher};

use crate::errors::Failure;

/// Returns the chunks of an object with the methods of the PyCapsule interface, or `None` if it has none.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<ArrayRef>>> {
    let chunks = if object.hasattr("__arrow_c_stream__")? {
        import_stream(&object.call_method0("__arrow_c_stream__")?)?
    } else if object.hasattr("__arrow_c_array__")? {
        vec![import_array(&object.call_method0("__arrow_c_array__")?)?]
    } else {
        return Ok(None);
    };
    chunks.into_iter().map(only_column).collect::<PyResult<_>>().map(Some)
}

/// Returns the column of a table with one column; any other array is a column itself.
fn only_column(array: ArrayRef) -> PyResult<ArrayRef> {
    let Some(table) = array.as_struct_opt() else { return Ok(array) };
    match table.columns() {
        [column] if table.null_count() == 0 => Ok(Arc::clone(column)),
        columns => {
            let count = columns.len();
            Err(PyTypeError::new_err(format!("expected one column of keys, not {count} columns")))
        }
    }
}

/// Returns the pointer of a capsule.
fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    Ok(capsule.cast::<PyCapsule>()?.pointer_checked(Some(name))?.as_ptr().cast())
}

fn import_array(capsules: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let capsules = capsules.cast::<PyTuple>()?;
    let schema = capsules.get_item(0)?;
    let schema: *mut FFI_ArrowSchema = pointer(&schema, c"arrow_schema")?;
    let array = capsules.get_item(1)?;
    let array: *mut FFI_ArrowArray = pointer(&array, c"arrow_array")?;
    // SAFETY: the capsule's name says what it points to. Its contents are moved out, and the capsule is
    // left released.
    let schema = unsafe { FFI_ArrowSchema::from_raw(schema) };
    // SAFETY: as above.
    let array = unsafe { FFI_ArrowArray::from_raw(array) };
    take_array(array, &schema)
}

/// Returns whether a column, or the only column of a table, has no type. Polars exports such columns, also those of
/// a frame without rows, with a buffer that the standard does not have and that `from_ffi` refuses.
fn is_untyped(schema: &FFI_ArrowSchema) -> bool {
    let mut children = schema.children();
    match schema.format() {
        "n" => true,
        "+s" => {
            children.next().is_some_and(|child| child.format() == "n") && children.next().is_none()
        }
        _ => false,
    }
}

fn take_array(array: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> PyResult<ArrayRef> {
    if is_untyped(schema) {
        return Ok(Arc::new(NullArray::new(array.len())));
    }
    // SAFETY: the producer promises an array of this schema, as the Arrow C data interface requires.
    let data = unsafe { from_ffi(array, schema) };
    let mut data = data.map_err(|error| PyTypeError::new_err(error.to_string()))?;
    data.align_buffers();
    Ok(make_array(data))
}

fn import_stream(capsule: &Bound<'_, PyAny>) -> PyResult<Vec<ArrayRef>> {
    let stream: *mut FFI_ArrowArrayStream = pointer(capsule, c"arrow_array_stream")?;
    // SAFETY: the capsule's name says what it points to. Its contents are moved out, and the capsule is
    // left released.
    let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
    let released = || PyValueError::new_err("the Arrow stream is already consumed");
    let get_schema = stream.get_schema.ok_or_else(released)?;
    let get_next = stream.get_next.ok_or_else(released)?;
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream is not released, and `schema` is empty.
    let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
    check(&mut stream, code)?;
    let mut chunks = Vec::new();
    loop {
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream is not released, and `array` is empty.
        let code = unsafe { get_next(&raw mut stream, &raw mut array) };
        check(&mut stream, code)?;
        if array.is_released() {
            return Ok(chunks);
        }
        chunks.push(take_array(array, &schema)?);
    }
}

/// Turns the result of a function of the stream into an exception.
fn check(stream: &mut FFI_ArrowArrayStream, code: i32) -> PyResult<()> {
    if code == 0 {
        return Ok(());
    }
    let text = stream.get_last_error.map(|get_last_error| {
        // SAFETY: the stream is not released.
        let text = unsafe { get_last_error(stream) };
        if text.is_null() {
            return CString::default();
        }
        // SAFETY: the text ends with a zero byte and is valid until the next call.
        unsafe { CStr::from_ptr(text) }.to_owned()
    });
    let text = text.unwrap_or_default();
    Err(PyValueError::new_err(format!("the Arrow stream failed: {}", text.to_string_lossy())))
}

/// Returns the form of the keys of a column, or an error if its type cannot be a key.
pub(crate) fn form(data_type: &DataType) -> Result<KeyForms, Failure> {
    match data_type {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Ok(KeyForms::BYTES),
        DataType::Dictionary(_, values) => form(values),
        // A column without a value has keys of no form.
        DataType::Null => Ok(KeyForms::NONE),
        integers if integers.is_integer() => Ok(KeyForms::INTEGERS),
        other => Err(Failure::Keys(format!(
            "a key is text, binary or an integer, not {other}: cast the column first"
        ))),
    }
}

/// Appends the hashes of some rows of a column that [`form`] accepts. A null has any hash.
pub(crate) fn hash(
    hasher: &KeyHasher,
    array: &dyn Array,
    rows: Range<usize>,
    out: &mut Vec<KeyHash>,
) {
    macro_rules! integers {
        ($($type:ident),*) => {
            match array.data_type() {
                $( &<$type as arrow_array::types::ArrowPrimitiveType>::DATA_TYPE => {
                    let values = &array.as_primitive::<$type>().values()[rows];
                    // Signed integers are extended by their sign, others by zeros.
                    #[allow(clippy::cast_lossless, reason = "one cast for all integer types")]
                    out.extend(values.iter().map(|value| hasher.int(*value as u64)));
                    return;
                } )*
                _ => {}
            }
        };
    }
    integers!(
        Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type
    );
    macro_rules! bytes {
        ($array:expr) => {{
            let (offsets, data) = ($array.value_offsets(), $array.value_data());
            let ends = offsets[rows.start..=rows.end].windows(2);
            out.extend(ends.map(|ends| hasher.bytes(&data[ends[0] as usize..ends[1] as usize])));
        }};
    }
    match array.data_type() {
        DataType::Utf8 => bytes!(array.as_string::<i32>()),
        DataType::LargeUtf8 => bytes!(array.as_string::<i64>()),
        DataType::Binary => bytes!(array.as_binary::<i32>()),
        DataType::LargeBinary => bytes!(array.as_binary::<i64>()),
        DataType::Utf8View => {
            let array = array.as_string_view();
            out.extend(rows.map(|row| hasher.bytes(array.value(row).as_bytes())));
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            out.extend(rows.map(|row| hasher.bytes(array.value(row))));
        }
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            out.extend(rows.map(|row| hasher.bytes(array.value(row))));
        }
        _ => out.extend(rows.map(|_| KeyHash { hi: 0, lo: 0 })),
    }
}

/// Returns the hashes of all rows of a dictionary column, whose values are hashed once each.
pub(crate) fn hash_dictionary(hasher: &KeyHasher, array: &dyn Array) -> Option<Vec<KeyHash>> {
    let dictionary = array.as_any_dictionary_opt()?;
    let values = dictionary.values();
    let mut hashes = Vec::with_capacity(values.len());
    hash(hasher, values, 0..values.len(), &mut hashes);
    let none = KeyHash { hi: 0, lo: 0 };
    if hashes.is_empty() {
        return Some(vec![none; array.len()]);
    }
    let indices = dictionary.normalized_keys();
    Some(indices.into_iter().map(|index| hashes.get(index).copied().unwrap_or(none)).collect())
}
