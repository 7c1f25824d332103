//! Keys with values: the class `Map`.

use pyo3::PyClassInitializer;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use tamis::{Error, KeyForms, KeyHash, Keyed, Kind, Value, ValueSource, ValueType};

use crate::any::PyAnyFilter;
use crate::batch;
use crate::build::{Job, run};
use crate::column;
use crate::errors::raise;
use crate::handle::Handle;
use crate::keys::{Integer, Whole, hash_key};
use crate::options;

/// A map from keys to values that stores no keys. The set of keys is fixed; values can change.
///
/// Values are all `int` (of any sign, 64 bits), all `bytes` or all `str`. Files store byte strings, so the
/// value of a `str` is returned as `bytes`, its UTF-8 form, before saving as well as after. A map of byte
/// strings stores each distinct one once, and a key can be set only to one of them.
///
/// A key that is not in the set is reported as absent, except for a share `fpr` of them, which get some
/// value. `entries` is a dict, an iterable of pairs, or a pair of columns: keys and values.
///
/// >>> import tamis
/// >>> stock = tamis.Map({"apple": 3, "pear": -70}, fpr=0.001)
/// >>> stock["pear"]
/// -70
/// >>> stock["apple"] = 4
/// >>> stock.get("apple")
/// 4
/// >>> colour = tamis.Map({"apple": "red", "pear": "green"}, fpr=0.001)
/// >>> colour["pear"].decode()
/// 'green'
#[pyclass(frozen, extends = PyAnyFilter, module = "tamis", name = "Map", generic)]
pub(crate) struct PyMap;

fn handle<'a>(map: &'a Bound<'_, PyMap>) -> &'a Handle {
    &map.as_super().get().handle
}

/// A value, and the name of its Python type.
fn read_value(value: &Bound<'_, PyAny>) -> PyResult<(&'static str, Value)> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(("str", Value::from(text.to_str()?)));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(("bytes", Value::from(bytes.as_bytes())));
    }
    let Integer(number) = value.extract()?;
    Ok(("int", Value::Integer(number)))
}

/// Returns a value as a Python object.
fn as_object<'py>(py: Python<'py>, value: Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Integer(number) => number.into_pyobject(py)?.into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
    })
}

/// The values of a map that is to be built, all of one Python type, in the order of their keys.
#[derive(Default)]
struct Values {
    name: Option<&'static str>,
    integers: Vec<i128>,
    bytes: Vec<Vec<u8>>,
}

impl Values {
    fn push(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (name, value) = read_value(value)?;
        let first = *self.name.get_or_insert(name);
        if first != name {
            let message = format!(
                "the values of a map are all int, all str or all bytes, but these are {first} and {name}"
            );
            return Err(PyTypeError::new_err(message));
        }
        match value {
            Value::Integer(number) => self.integers.push(number),
            Value::Bytes(bytes) => self.bytes.push(bytes),
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.integers.len() + self.bytes.len()
    }

    fn with_keys(self, hashes: Vec<KeyHash>) -> Pairs {
        match self.name {
            None | Some("int") => Pairs::Integers(hashes.into_iter().zip(self.integers).collect()),
            Some(_) => Pairs::Bytes(hashes.into_iter().zip(self.bytes).collect()),
        }
    }
}

/// The hashes of keys with their values.
enum Pairs {
    Integers(Vec<(KeyHash, i128)>),
    Bytes(Vec<(KeyHash, Vec<u8>)>),
}

/// Reads the entries of a dict, of pairs, or of two columns. Returns them with the forms of the keys.
fn read_entries(
    hasher: &tamis::KeyHasher,
    entries: &Bound<'_, PyAny>,
) -> PyResult<(Pairs, KeyForms)> {
    if let Ok(columns) = entries.cast::<PyTuple>()
        && columns.len() == 2
        && columns.get_item(0)?.hasattr("__len__")?
        && columns.get_item(0)?.cast::<PyTuple>().is_err()
    {
        return read_columns(hasher, &columns.get_item(0)?, &columns.get_item(1)?);
    }
    let (mut hashes, mut values, mut forms) = (Vec::new(), Values::default(), KeyForms::NONE);
    let items = match entries.hasattr("items")? {
        true => entries.call_method0("items")?,
        false => entries.clone(),
    };
    for pair in items.try_iter()? {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
        let hashed = hash_key(hasher, &key)?;
        forms = forms.union(hashed.form);
        hashes.push(hashed.hash);
        values.push(&value)?;
    }
    Ok((values.with_keys(hashes), forms))
}

fn read_columns(
    hasher: &tamis::KeyHasher,
    keys: &Bound<'_, PyAny>,
    column: &Bound<'_, PyAny>,
) -> PyResult<(Pairs, KeyForms)> {
    let keys = column::take_all(hasher, keys)?;
    let mut values = Values::default();
    for value in column.try_iter()? {
        values.push(&value?)?;
    }
    if keys.valid_len() != keys.len() {
        return Err(PyTypeError::new_err("a key of a map must not be null"));
    }
    if keys.len() != values.len() {
        let (keys, values) = (keys.len(), values.len());
        return Err(PyTypeError::new_err(format!("{keys} keys, but {values} values")));
    }
    let mut hashes = Vec::with_capacity(values.len());
    batch::for_valid(hasher, &keys, |run| {
        hashes.extend_from_slice(run);
        Ok(())
    })?;
    Ok((values.with_keys(hashes), keys.forms))
}

/// What `lookup` returns for a type of values.
enum Lookup {
    /// An array of `uint64`.
    Unsigned,
    /// An array of `int64`.
    Signed,
    /// An array of objects.
    Objects,
}

impl Lookup {
    fn of(values: ValueType) -> Self {
        match values {
            ValueType::Integers { min: 0.., .. } => Self::Unsigned,
            ValueType::Integers { max, .. } if i64::try_from(max).is_ok() => Self::Signed,
            _ => Self::Objects,
        }
    }
}

#[pymethods]
impl PyMap {
    #[new]
    #[pyo3(signature = (
        entries, fpr = None, *, nbytes = None, bits_per_key = None, hash = "fast", seed = None,
        settings = None, threads = None, progress = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        entries: &Bound<'_, PyAny>,
        fpr: Option<f64>,
        nbytes: Option<Whole>,
        bits_per_key: Option<f64>,
        hash: &str,
        seed: Option<u128>,
        settings: Option<&Bound<'_, PyDict>>,
        threads: Option<usize>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let sizing = options::sizing(None, fpr, nbytes, bits_per_key, settings)?;
        let hasher = options::hasher(hash, seed)?;
        let (pairs, forms) = read_entries(&hasher, entries)?;
        let job = Job { threads, progress, ..Job::default() };
        let filter = run(py, job, None, |options, _| {
            let (mut integers, mut strings): (&[_], &[_]) = match &pairs {
                Pairs::Integers(integers) => (integers, &[]),
                Pairs::Bytes(strings) => (&[], strings),
            };
            let source = match pairs {
                Pairs::Integers(_) => ValueSource::Integers(&mut integers),
                Pairs::Bytes(_) => ValueSource::Bytes(&mut strings),
            };
            Kind::Bloomier.build_values(&sizing, source, options)
        })?;
        let keyed = Keyed::new(hasher, filter).with_key_forms(forms);
        Ok(PyClassInitializer::from(PyAnyFilter { handle: Handle::new(keyed) }).add_subclass(Self))
    }

    /// Returns the value of a key, or `default` if the key is certainly not in the map.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let handle = handle(slf);
        let hash = hash_key(&handle.hasher, key)?.hash;
        match handle.query(slf.py(), |keyed| keyed.filter().get_value(hash))?.map_err(raise)? {
            Some(value) => as_object(slf.py(), value).map(Some),
            None => Ok(default),
        }
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::get(slf, key, None)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __setitem__(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (_, value) = read_value(value)?;
        let handle = handle(slf);
        let hash = hash_key(&handle.hasher, key)?.hash;
        let change =
            |state: &mut crate::handle::State| state.change()?.filter_mut().set_value(hash, &value);
        match handle.change(slf.py(), change)? {
            Some(_) => Ok(()),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Returns the values of many keys as a NumPy array, with `default` for keys that are certainly not in
    /// the map.
    ///
    /// The array is of uint64, of int64 if the map can hold negative numbers, and of objects if its values
    /// are byte strings or exceed int64. A null has the value 0, or `default` in an array of objects.
    #[pyo3(signature = (keys, default = None, *, threads = None))]
    fn lookup<'py>(
        slf: &Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, handle) = (slf.py(), handle(slf));
        let keys = column::take_all(&handle.hasher, keys)?;
        let check = |keyed: &Keyed<tamis::AnyFilter>| -> Result<Lookup, Error> {
            keys.check_form(keyed)?;
            Ok(Lookup::of(keyed.filter().as_map()?.value_type()))
        };
        let lookup = handle.query(py, check)?.map_err(raise)?;
        let (dtype, default) = match (lookup, &default) {
            (Lookup::Objects, _) => {
                let values = batch::map_values(py, &handle.hasher, &keys, |hash| {
                    handle.read()?.get().filter().get_value(hash)
                })?;
                return batch::object_array(
                    py,
                    values.into_iter().map(|value| match value {
                        Some(value) => as_object(py, value),
                        None => Ok(default.clone().unwrap_or_else(|| py.None().into_bound(py))),
                    }),
                );
            }
            (Lookup::Unsigned, None) => ("uint64", 0),
            (Lookup::Unsigned, Some(default)) => ("uint64", default.extract()?),
            (Lookup::Signed, None) => ("int64", 0),
            (Lookup::Signed, Some(default)) => ("int64", default.extract::<i64>()? as u64),
        };
        batch::map_numbers(py, &handle.hasher, &keys, threads, dtype, |hashes, values| {
            let (mut found, guard) = (vec![None; hashes.len()], handle.read()?);
            let map = guard.get().filter().as_map()?;
            map.get_batch(hashes, &mut found);
            for (out, number) in values.iter_mut().zip(found) {
                *out = match number.and_then(|number| map.value_of(number)) {
                    Some(Value::Integer(value)) => value as u64,
                    _ => default,
                };
            }
            Ok(())
        })
    }

    /// The width of a value in bits: of a byte string, of the number that stands for it.
    #[getter]
    fn value_bits(slf: &Bound<'_, Self>) -> PyResult<u32> {
        handle(slf).query(slf.py(), |keyed| keyed.filter().value_bits())?.map_err(raise)
    }
}
