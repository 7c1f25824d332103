//! Keys with values: the class `Map`.

use pyo3::PyClassInitializer;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tamis::{KeyForms, KeyHash, Keyed, Kind};

use crate::any::PyAnyFilter;
use crate::batch;
use crate::build::{Job, run};
use crate::column;
use crate::errors::raise;
use crate::handle::Handle;
use crate::keys::{Whole, hash_key};
use crate::options;

/// A map from keys to whole numbers that stores no keys. The set of keys is fixed; values can change.
///
/// A key that is not in the set is reported as absent, except for a share `fpr` of them, which get some
/// value. `entries` is a dict, an iterable of pairs, or a pair of columns: keys and values.
///
/// >>> import tamis
/// >>> stock = tamis.Map({"apple": 3, "pear": 70}, fpr=0.001)
/// >>> stock["pear"]
/// 70
/// >>> stock["apple"] = 4
/// >>> stock.get("apple")
/// 4
#[pyclass(frozen, extends = PyAnyFilter, module = "tamis", name = "Map")]
pub(crate) struct PyMap;

fn handle<'a>(map: &'a Bound<'_, PyMap>) -> &'a Handle {
    &map.as_super().get().handle
}

/// The hashes of keys with their values, and the forms of the keys.
type Entries = (Vec<(KeyHash, u64)>, KeyForms);

/// Reads the entries of a dict, of pairs, or of two columns.
fn read_entries(hasher: &tamis::KeyHasher, entries: &Bound<'_, PyAny>) -> PyResult<Entries> {
    if let Ok(columns) = entries.cast::<PyTuple>()
        && columns.len() == 2
        && columns.get_item(0)?.hasattr("__len__")?
        && columns.get_item(0)?.cast::<PyTuple>().is_err()
    {
        return read_columns(hasher, &columns.get_item(0)?, &columns.get_item(1)?);
    }
    let (mut read, mut forms) = (Vec::new(), KeyForms::NONE);
    let items = match entries.hasattr("items")? {
        true => entries.call_method0("items")?,
        false => entries.clone(),
    };
    for pair in items.try_iter()? {
        let (key, Whole(value)): (Bound<'_, PyAny>, Whole) = pair?.extract()?;
        let hashed = hash_key(hasher, &key)?;
        forms = forms.union(hashed.form);
        read.push((hashed.hash, value));
    }
    Ok((read, forms))
}

fn read_columns(
    hasher: &tamis::KeyHasher,
    keys: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
) -> PyResult<Entries> {
    let keys = column::take_all(hasher, keys)?;
    let values: Vec<Whole> =
        values.try_iter()?.map(|value| value?.extract()).collect::<PyResult<_>>()?;
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
    let entries = hashes.into_iter().zip(values).map(|(hash, Whole(value))| (hash, value));
    Ok((entries.collect(), keys.forms))
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
        let (entries, forms) = read_entries(&hasher, entries)?;
        let job = Job { threads, progress, ..Job::default() };
        let filter = run(py, job, None, |options, _| {
            Kind::Bloomier.build_map(&sizing, &mut &entries[..], options)
        })?;
        let keyed = Keyed::new(hasher, filter).with_key_forms(forms);
        Ok(PyClassInitializer::from(PyAnyFilter { handle: Handle::new(keyed) }).add_subclass(Self))
    }

    /// Returns the value of a key, or `default` if the key is certainly not in the map.
    #[pyo3(signature = (key, default = None))]
    fn get(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let (py, handle) = (slf.py(), handle(slf));
        let hash = hash_key(&handle.hasher, key)?.hash;
        match handle.query(py, |keyed| keyed.filter().get(hash))?.map_err(raise)? {
            Some(value) => Ok(Some(value.into_pyobject(py)?.into_any().unbind())),
            None => Ok(default),
        }
    }

    fn __getitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let handle = handle(slf);
        let hash = hash_key(&handle.hasher, key)?.hash;
        let value = handle.query(slf.py(), |keyed| keyed.filter().get(hash))?.map_err(raise)?;
        value.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __setitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, value: Whole) -> PyResult<()> {
        let Whole(value) = value;
        let handle = handle(slf);
        let hash = hash_key(&handle.hasher, key)?.hash;
        let change =
            |state: &mut crate::handle::State| state.change()?.filter_mut().set(hash, value);
        match handle.change(slf.py(), change)? {
            Some(_) => Ok(()),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Returns the values of many keys as a NumPy array of uint64, with `default` for keys that are
    /// certainly not in the map.
    #[pyo3(signature = (keys, default = 0, *, threads = None))]
    fn lookup<'py>(
        slf: &Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
        default: u64,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let handle = handle(slf);
        let keys = column::take_all(&handle.hasher, keys)?;
        handle.query(slf.py(), |keyed| keys.check_form(keyed))?.map_err(raise)?;
        batch::map_numbers(slf.py(), &handle.hasher, &keys, threads, |hashes, values| {
            let mut found = vec![None; hashes.len()];
            handle.read()?.get().filter().get_batch(hashes, &mut found)?;
            let found = found.into_iter().map(|value| value.unwrap_or(default));
            values.iter_mut().zip(found).for_each(|(out, value)| *out = value);
            Ok(())
        })
    }

    /// The width of a value in bits.
    #[getter]
    fn value_bits(slf: &Bound<'_, Self>) -> PyResult<u32> {
        handle(slf).query(slf.py(), |keyed| keyed.filter().value_bits())?.map_err(raise)
    }
}
