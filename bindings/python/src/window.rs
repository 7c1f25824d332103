//! The most recent keys of a stream: the class `Window`.

use pyo3::PyClassInitializer;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tamis::{AnyFilter, Keyed, Kind};

use crate::any::PyAnyFilter;
use crate::batch;
use crate::column;
use crate::errors::raise;
use crate::handle::Handle;
use crate::keys::{Whole, hash_key};
use crate::options;

/// Remembers the last `capacity` keys of an endless stream, and forgets older ones.
///
/// >>> import tamis
/// >>> recent = tamis.Window(1000, fpr=0.001)
/// >>> recent.push("apple"), recent.push("apple")
/// (False, True)
#[pyclass(frozen, extends = PyAnyFilter, module = "tamis", name = "Window")]
pub(crate) struct PyWindow;

fn handle<'a>(window: &'a Bound<'_, PyWindow>) -> &'a Handle {
    &window.as_super().get().handle
}

#[pymethods]
impl PyWindow {
    #[new]
    #[pyo3(signature = (
        capacity, fpr = None, *, nbytes = None, bits_per_key = None, hash = "fast", seed = None,
        settings = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        capacity: Whole,
        fpr: Option<f64>,
        nbytes: Option<Whole>,
        bits_per_key: Option<f64>,
        hash: &str,
        seed: Option<u128>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let sizing = options::sizing(Some(capacity), fpr, nbytes, bits_per_key, settings)?;
        let hasher = options::hasher(hash, seed)?;
        let builder = Keyed::<AnyFilter>::builder(Kind::Sliding).sizing(sizing).hasher(&hasher);
        let keyed = py.detach(|| builder.empty()).map_err(raise)?;
        Ok(PyClassInitializer::from(PyAnyFilter { handle: Handle::new(keyed) }).add_subclass(Self))
    }

    /// Pushes a key and forgets keys that are too old. Returns whether it seemed to be in.
    fn push(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let handle = handle(slf);
        handle.change_key(slf.py(), hash_key(&handle.hasher, key)?, AnyFilter::push)
    }

    /// Pushes many keys in order. Returns for each whether it seemed to be in, as a NumPy array of bool.
    fn update<'py>(
        slf: &Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let handle = handle(slf);
        let keys = column::take_all(&handle.hasher, keys)?;
        let writer = handle.writer(slf.py());
        batch::change_bools(slf.py(), &handle.hasher, &keys, |hashes, seen| {
            let mut state = writer.write()?;
            state.change_by(keys.forms, |filter| filter.push_batch(hashes, seen))
        })
    }

    /// Sets the time in ticks, of a window that is measured in time.
    fn advance(slf: &Bound<'_, Self>, now: u64) -> PyResult<()> {
        handle(slf).change(slf.py(), |state| state.change()?.filter_mut().advance(now))
    }

    /// For how many keys, or ticks, a pushed key is certainly in.
    #[getter]
    fn window(slf: &Bound<'_, Self>) -> PyResult<u64> {
        let (window, _) = Self::lengths(slf)?;
        Ok(window)
    }

    /// After how many further keys, or ticks, it is certainly forgotten.
    #[getter]
    fn slack(slf: &Bound<'_, Self>) -> PyResult<u64> {
        let (_, slack) = Self::lengths(slf)?;
        Ok(slack)
    }
}

impl PyWindow {
    fn lengths(slf: &Bound<'_, Self>) -> PyResult<(u64, u64)> {
        handle(slf).query(slf.py(), |keyed| keyed.filter().window())?.map_err(raise)
    }
}
