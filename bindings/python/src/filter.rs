//! Sets of keys: the class `Filter`.

use pyo3::PyClassInitializer;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tamis::{AnyFilter, Capability, Error, KeyForms, Keyed, Kind, Sizing, plan};

use crate::any::{PyAnyFilter, wrap};
use crate::batch;
use crate::column::{self, Keys};
use crate::errors::raise;
use crate::handle::Handle;
use crate::keys::{Whole, hash_key};
use crate::options;

/// Keys that are read from an iterator at a time.
const ITERATOR_RUN: usize = 1 << 13;

/// A set of keys that may report a non-member as a member, at a rate that you choose, and never denies a
/// member.
///
/// Keys are str, bytes or int. `kind` is one of `tamis.kinds()`; without it the best kind for `needs` is
/// taken. Without `capacity` the filter grows.
///
/// >>> import tamis
/// >>> seen = tamis.Filter(capacity=1_000_000, fpr=0.01)
/// >>> seen.add("apple")
/// >>> "apple" in seen
/// True
#[pyclass(frozen, extends = PyAnyFilter, module = "tamis", name = "Filter")]
pub(crate) struct PyFilter;

/// Returns the best kind that inserts and has the capabilities `needs`.
fn best_kind(sizing: &Sizing, fpr: f64, mut needs: Vec<Capability>) -> Result<Kind, Error> {
    needs.push(Capability::Insert);
    let ranked = match sizing.given_capacity() {
        Some(keys) => plan::recommend(sizing.goal(keys), &needs)?,
        None => plan::recommend_unknown(fpr, &needs)?,
    };
    Ok(ranked[0].kind)
}

fn handle<'a>(filter: &'a Bound<'_, PyFilter>) -> &'a Handle {
    &filter.as_super().get().handle
}

#[pymethods]
impl PyFilter {
    #[new]
    #[pyo3(signature = (
        capacity = None, fpr = None, *, kind = None, needs = None, nbytes = None, bits_per_key = None,
        hash = None, seed = None, settings = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        capacity: Option<Whole>,
        fpr: Option<f64>,
        kind: Option<&str>,
        needs: Option<Vec<String>>,
        nbytes: Option<Whole>,
        bits_per_key: Option<f64>,
        hash: Option<&str>,
        seed: Option<u128>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let sizing = options::sizing(capacity, fpr, nbytes, bits_per_key, settings)?;
        let needs = options::capabilities(needs)?;
        let kind = match kind {
            Some(name) => options::kind(name)?,
            None => best_kind(&sizing, fpr.unwrap_or(0.01), needs).map_err(raise)?,
        };
        if !kind.can(Capability::Insert) {
            return Err(raise(Error::Unsupported { kind, capability: Capability::Insert }));
        }
        let hasher = options::hasher(hash.unwrap_or(kind.default_hash().name()), seed)?;
        let builder = Keyed::<AnyFilter>::builder(kind).sizing(sizing).hasher(&hasher);
        let keyed = py.detach(|| builder.empty()).map_err(raise)?;
        Ok(PyClassInitializer::from(PyAnyFilter { handle: Handle::new(keyed) }).add_subclass(Self))
    }

    /// Inserts a key.
    fn add(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let handle = handle(slf);
        handle.change_key(slf.py(), hash_key(&handle.hasher, key)?, AnyFilter::insert)
    }

    /// Inserts a key unless the filter seems to hold it. Returns whether it was certainly new.
    fn add_new(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let handle = handle(slf);
        handle.change_key(slf.py(), hash_key(&handle.hasher, key)?, |filter, hash| {
            let mut new = [false];
            filter.insert_new_batch(&[hash], &mut new)?;
            Ok(new[0])
        })
    }

    /// Inserts many keys: a NumPy array, an Arrow column or any iterable. None is left out.
    ///
    /// If the filter gets full, the keys before the first that did not fit are in.
    fn update(slf: &Bound<'_, Self>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, handle) = (slf.py(), handle(slf));
        match column::take(&handle.hasher, keys)? {
            Keys::Columns(keys) => {
                let writer = handle.writer(py);
                let insert = || {
                    batch::for_valid(&handle.hasher, &keys, |hashes| {
                        let mut state = writer.write()?;
                        state.change_by(keys.forms, |filter| filter.insert_batch(hashes))
                    })
                };
                Ok(py.detach(insert)?)
            }
            Keys::Iterator(mut keys) => {
                let (mut run, mut done) = (Vec::new(), 0);
                loop {
                    run.clear();
                    let mut forms = KeyForms::NONE;
                    let (hasher, most) = (&handle.hasher, ITERATOR_RUN);
                    let more = column::read_run(hasher, &mut keys, most, &mut run, &mut forms);
                    let writer = handle.writer(py);
                    let inserted = py.detach(|| {
                        writer.write()?.change_by(forms, |filter| filter.insert_batch(&run))
                    });
                    inserted.map_err(|error| raise(batch::after(error, done)))?;
                    done += run.len() as u64;
                    if !more? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Inserts the keys that the filter does not seem to hold. Returns for each whether it was certainly
    /// new, as a NumPy array of bool. Of duplicates the first is new.
    ///
    /// >>> import tamis
    /// >>> seen = tamis.Filter(1000)
    /// >>> seen.update_new(["apple", "pear", "apple"]).tolist()
    /// [True, True, False]
    fn update_new<'py>(
        slf: &Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let handle = handle(slf);
        let keys = column::take_all(&handle.hasher, keys)?;
        let writer = handle.writer(slf.py());
        batch::change_bools(slf.py(), &handle.hasher, &keys, |hashes, new| {
            let mut state = writer.write()?;
            state.change_by(keys.forms, |filter| filter.insert_new_batch(hashes, new))
        })
    }

    /// Removes a key that was inserted. Returns whether it seemed to be in.
    ///
    /// Remove only what was inserted: removing a false positive may remove a member.
    fn discard(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let handle = handle(slf);
        let hash = hash_key(&handle.hasher, key)?.hash;
        handle.change(slf.py(), |state| state.change()?.filter_mut().remove(hash))
    }

    /// Removes a key that was inserted. Raises KeyError if it is certainly not in.
    ///
    /// Remove only what was inserted: removing a false positive may remove a member.
    fn remove(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match Self::discard(slf, key)? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Removes many keys that were inserted. Returns for each whether it seemed to be in, as a NumPy array
    /// of bool.
    fn difference_update<'py>(
        slf: &Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let handle = handle(slf);
        let keys = column::take_all(&handle.hasher, keys)?;
        let writer = handle.writer(slf.py());
        batch::change_bools(slf.py(), &handle.hasher, &keys, |hashes, removed| {
            writer.write()?.change()?.filter_mut().remove_batch(hashes, removed)
        })
    }

    /// Returns how often a key was inserted, or more. 2**64 - 1 stands for more than the filter can count.
    fn count(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let handle = handle(slf);
        let hash = hash_key(&handle.hasher, key)?.hash;
        handle.query(slf.py(), |keyed| keyed.filter().count(hash))?.map_err(raise)
    }

    /// Returns the counts of many keys, as a NumPy array of uint64.
    #[pyo3(signature = (keys, *, threads = None))]
    fn counts<'py>(
        slf: &Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let handle = handle(slf);
        let keys = column::take_all(&handle.hasher, keys)?;
        batch::map_numbers(slf.py(), &handle.hasher, &keys, threads, "uint64", |hashes, counts| {
            handle.read()?.get().filter().count_batch(hashes, counts)
        })
    }

    /// Removes all keys. Shape, hash and seed stay.
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        handle(slf).change(slf.py(), |state| state.change()?.clear())
    }

    /// Returns an empty filter of the same shape, hash and seed, which can be merged with this one.
    fn empty_like(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (py, handle) = (slf.py(), handle(slf));
        wrap(py, py.detach(|| handle.read()?.get().empty_like()).map_err(raise)?)
    }

    fn __ior__(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<()> {
        let (own, other) = (handle(slf), handle(other));
        own.combine(slf.py(), other, Keyed::<AnyFilter>::merge)
    }

    fn __or__(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        combined(slf, other, Keyed::<AnyFilter>::merge)
    }

    fn __iand__(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<()> {
        let (own, other) = (handle(slf), handle(other));
        own.combine(slf.py(), other, Keyed::<AnyFilter>::intersect)
    }

    fn __and__(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        combined(slf, other, Keyed::<AnyFilter>::intersect)
    }

    /// Returns how alike two filters of the same shape, hash and seed are: 0 for nothing in common, 1 for
    /// equal.
    fn similarity(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<f64> {
        let (own, other) = (handle(slf), handle(other));
        let similarity = || own.compare(other, Keyed::<AnyFilter>::similarity);
        slf.py().detach(similarity).map_err(raise)
    }

    /// Estimates the number of distinct keys.
    fn cardinality(slf: &Bound<'_, Self>) -> PyResult<f64> {
        handle(slf).query(slf.py(), Keyed::<AnyFilter>::cardinality)?.map_err(raise)
    }
}

/// Returns a copy of a filter, combined with another one.
fn combined(
    filter: &Bound<'_, PyFilter>,
    other: &Bound<'_, PyFilter>,
    combine: fn(&mut Keyed<AnyFilter>, &Keyed<AnyFilter>) -> Result<(), Error>,
) -> PyResult<Py<PyAny>> {
    let (py, own, other) = (filter.py(), handle(filter), handle(other));
    let keyed = py.detach(|| {
        own.compare(other, |own, other| {
            let mut result = own.try_clone()?;
            result.make_owned()?;
            combine(&mut result, other)?;
            Ok(result)
        })
    });
    wrap(py, keyed.map_err(raise)?)
}
