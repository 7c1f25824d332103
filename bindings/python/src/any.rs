//! What filters, maps and windows have in common.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use pyo3::{PyClassInitializer, ffi};
use tamis::{AnyFilter, Capability, Keyed, Kind, SettingValue};

use crate::batch;
use crate::column;
use crate::errors::{raise, raise_file};
use crate::filter::PyFilter;
use crate::foreign;
use crate::handle::Handle;
use crate::keys::hash_key;
use crate::map::PyMap;
use crate::show;
use crate::window::PyWindow;

/// What a filter, a map and a window have in common: lookups, bytes and files.
///
/// Several threads may use one object at a time.
#[pyclass(frozen, subclass, module = "tamis", name = "AnyFilter")]
pub(crate) struct PyAnyFilter {
    pub(crate) handle: Handle,
}

/// Makes the Python object for a filter: a `Map`, a `Window` or a `Filter`.
pub(crate) fn into_object(py: Python<'_>, handle: Handle, kind: Kind) -> PyResult<Py<PyAny>> {
    let base = PyClassInitializer::from(PyAnyFilter { handle });
    Ok(if kind.can(Capability::Map) {
        Py::new(py, base.add_subclass(PyMap))?.into_any()
    } else if kind.can(Capability::Window) {
        Py::new(py, base.add_subclass(PyWindow))?.into_any()
    } else {
        Py::new(py, base.add_subclass(PyFilter))?.into_any()
    })
}

/// Makes the Python object for a filter with tables in memory of its own.
pub(crate) fn wrap(py: Python<'_>, keyed: Keyed<AnyFilter>) -> PyResult<Py<PyAny>> {
    let kind = keyed.kind();
    into_object(py, Handle::new(keyed), kind)
}

impl PyAnyFilter {
    /// Returns the bytes of the `.tamis` file.
    fn bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.handle.read()?.get().to_bytes()).map_err(raise)?;
        Ok(PyBytes::new(py, &bytes))
    }

    pub(crate) fn read<R>(
        &self,
        py: Python<'_>,
        query: impl FnOnce(&Keyed<AnyFilter>) -> R + Send,
    ) -> PyResult<R> {
        self.handle.query(py, query)
    }
}

#[pymethods]
impl PyAnyFilter {
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let hashed = hash_key(&self.handle.hasher, key)?;
        self.handle.query(key.py(), |keyed| keyed.contains_hash(hashed.hash))
    }

    /// Returns for each key whether it may be a member, as a NumPy array of bool.
    ///
    /// Keys are a NumPy array, an Arrow column (pyarrow, polars, pandas, DuckDB) or any iterable. The
    /// interpreter is released and all cores are used, unless `threads` says otherwise. None is reported
    /// as absent.
    ///
    /// >>> import tamis
    /// >>> fruit = tamis.build(["apple", "pear"])
    /// >>> fruit.contains(["apple", None, "pear"]).tolist()
    /// [True, False, True]
    #[pyo3(signature = (keys, *, threads = None))]
    fn contains<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let handle = &self.handle;
        let keys = column::take_all(&handle.hasher, keys)?;
        handle.query(py, |keyed| keys.check_form(keyed))?.map_err(raise)?;
        batch::map_bools(py, &handle.hasher, &keys, threads, |hashes, found| {
            handle.read()?.get().contains_hashes(hashes, found);
            Ok(())
        })
    }

    /// Returns whether a key from `first` to `last`, both included, may be a member. Only kinds with the
    /// capability `range` can.
    ///
    /// >>> import tamis
    /// >>> times = tamis.build([1000, 5000], 1e-9, kind="grafite", settings={"range_length": 100})
    /// >>> times.contains_range(950, 1050), times.contains_range(2000, 2099)
    /// (True, False)
    fn contains_range(
        &self,
        py: Python<'_>,
        first: &Bound<'_, PyAny>,
        last: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let hasher = &self.handle.hasher;
        let reversed = first.gt(last)?;
        let [first, last] = [hash_key(hasher, first)?, hash_key(hasher, last)?];
        let within = self.handle.query(py, |keyed| {
            keyed.filter().as_range()?;
            keyed.kind().check_hash(hasher.id())?;
            keyed.check_key_form(first.form)?;
            if reversed {
                return Err(tamis::Error::ReversedRange);
            }
            keyed.filter().contains_range(first.hash.hi, last.hash.hi)
        });
        within?.map_err(raise)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let len = self.read(py, Keyed::len)?;
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.read(py, |keyed| !keyed.is_empty())
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        let other = &other.get().handle;
        let equal = py.detach(|| self.handle.compare(other, |own, other| Ok(own == other)));
        Ok(equal.map_err(raise)?.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    /// Returns the bytes of the `.tamis` file.
    ///
    /// >>> import tamis
    /// >>> fruit = tamis.build(["apple", "pear"])
    /// >>> tamis.from_bytes(fruit.to_bytes()) == fruit
    /// True
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.bytes(py)
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.bytes(py)
    }

    /// Exports the bytes of the `.tamis` file as they are now.
    ///
    /// # Safety
    /// `view` is what the interpreter passes to `bf_getbuffer`.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let py = slf.py();
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is null"));
        }
        let bytes = slf.get().bytes(py)?;
        // SAFETY: `view` is valid for writes. It refers to the `bytes` object, which releases it.
        match unsafe { ffi::PyObject_GetBuffer(bytes.as_ptr(), view, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(py)),
        }
    }

    /// Writes a `.tamis` file. An older file of that name is replaced at once, or kept if writing fails.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.handle.read()?.get().save(&path)).map_err(raise_file(&path))
    }

    /// Returns the bytes of a filter that another program made, or `build` with a format, in that program's
    /// format. The hash function of a filter cannot be changed, so other filters have no such bytes.
    ///
    /// >>> import tamis
    /// >>> fruit = tamis.build(["apple", "pear"], capacity=1000, format="spark_v2")
    /// >>> fruit.add("plum")
    /// >>> len(fruit.export("spark_v2"))
    /// 1216
    fn export<'py>(&self, py: Python<'py>, format: &str) -> PyResult<Bound<'py, PyBytes>> {
        foreign::export(py, self, format)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let from_bytes = py.import("tamis")?.getattr("from_bytes")?;
        (from_bytes, (self.bytes(py)?,)).into_pyobject(py)
    }

    /// Returns a copy, which can change on its own.
    fn copy(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let handle = py.detach(|| self.handle.copy()).map_err(raise)?;
        into_object(py, handle, self.read(py, Keyed::kind)?)
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.copy(py)
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.copy(py)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let name = slf.get_type().name()?;
        let name = name.to_str().unwrap_or("AnyFilter");
        slf.get().read(slf.py(), |keyed| show::text(name, keyed))
    }

    /// Returns the figures and a bar of the load for notebooks.
    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        let name = slf.get_type().name()?;
        let name = name.to_str().unwrap_or("AnyFilter");
        slf.get().read(slf.py(), |keyed| show::html(name, keyed))
    }

    /// The kind of filter, such as `"cuckoo"`: see `tamis.kinds()`.
    #[getter]
    fn kind(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.read(py, |keyed| keyed.kind().name())
    }

    /// What the kind can do beside answering queries.
    #[getter]
    fn capabilities<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let kind = self.read(py, Keyed::kind)?;
        PyTuple::new(py, kind.capabilities().iter().map(|capability| capability.name()))
    }

    /// The number of keys that the filter is made for.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> PyResult<u64> {
        self.read(py, Keyed::<AnyFilter>::capacity)
    }

    /// The expected false positive rate with the present number of keys.
    #[getter]
    fn fpr(&self, py: Python<'_>) -> PyResult<f64> {
        self.read(py, Keyed::<AnyFilter>::fpr)
    }

    /// The size of the tables in bytes.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.read(py, Keyed::bytes)
    }

    /// The hash function: `"fast"`, `"secure"`, or that of another program.
    #[getter]
    fn hash(&self) -> &'static str {
        self.handle.hasher.id().name()
    }

    /// The seed of the hash function. Filters can be merged only if they have the same seed. Keep it
    /// secret if others choose the keys.
    #[getter]
    fn seed(&self) -> u128 {
        let [high, low] = self.handle.hasher.seed();
        u128::from(high) << 64 | u128::from(low)
    }

    /// The parameters of the tables, such as `m` and `k` of a Bloom filter.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parameters = PyDict::new(py);
        for (name, value) in self.read(py, |keyed| keyed.filter().parameters())? {
            match value {
                SettingValue::Integer(value) => parameters.set_item(name, value)?,
                SettingValue::Real(value) => parameters.set_item(name, value)?,
                value => parameters.set_item(name, value.to_string())?,
            }
        }
        Ok(parameters)
    }
}

/// Opens a `.tamis` file. The file is mapped, so that opening takes no time at any size.
///
/// With `verify`, every byte is checked first. A file from a source that is not trusted should be
/// verified.
#[pyfunction]
#[pyo3(signature = (path, *, verify = false))]
pub(crate) fn open(py: Python<'_>, path: PathBuf, verify: bool) -> PyResult<Py<PyAny>> {
    let open = if verify { Keyed::open_verified } else { Keyed::<AnyFilter>::open };
    let keyed = py.detach(|| open(&path)).map_err(raise_file(&path))?;
    let kind = keyed.kind();
    into_object(py, Handle::shared(keyed), kind)
}

/// Makes a filter from the bytes of a `.tamis` file, and checks every byte.
#[pyfunction]
pub(crate) fn from_bytes(py: Python<'_>, data: Bytes) -> PyResult<Py<PyAny>> {
    let keyed = py.detach(|| Keyed::<AnyFilter>::from_bytes(data.as_ref())).map_err(raise)?;
    wrap(py, keyed)
}

/// Makes a filter that queries the bytes of a `.tamis` file in place, without a copy. Like `open`, it does
/// not check every byte.
#[pyfunction]
pub(crate) fn from_buffer(py: Python<'_>, data: PyBackedBytes) -> PyResult<Py<PyAny>> {
    let keyed = py.detach(|| Keyed::<AnyFilter>::from_shared(Arc::new(data))).map_err(raise)?;
    let kind = keyed.kind();
    into_object(py, Handle::shared(keyed), kind)
}

/// The bytes of any object with the buffer protocol.
pub(crate) enum Bytes {
    /// A `bytes` object.
    Borrowed(PyBackedBytes),
    /// A copy of a `bytearray`, a `memoryview` or another buffer, which may change.
    Copied(Vec<u8>),
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Bytes {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyBytes>() {
            return Ok(Self::Borrowed(object.extract()?));
        }
        let buffer = PyUntypedBuffer::get(&object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer is not contiguous"));
        }
        Ok(Self::Copied(column::bytes_of(&buffer).to_vec()))
    }
}
