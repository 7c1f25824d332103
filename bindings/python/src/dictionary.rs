//! An exact dictionary behind a filter: the class `Dictionary`.

use std::path::Path;
use std::sync::{PoisonError, RwLock};

use pyo3::exceptions::{
    PyFileExistsError, PyFileNotFoundError, PyKeyError, PyOSError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use tamis::{Broom, HashId};
use tamis_dictionary::store::{self, AnyStore, MemoryStore};
use tamis_dictionary::{Dictionary, Error, ErrorKind, Layout, Op, Options};

use crate::errors::{exception, raise};
use crate::keys::{Whole, as_bytes};

/// Entries that an iterator reads at a time.
const PAGE: usize = 512;

type Inner = Dictionary<Broom, AnyStore>;

/// An exact dictionary on disk, with a filter in memory that rejects most lookups of absent keys without
/// touching the disk, and that repairs itself after each false positive.
///
/// `path` is a file that ends in .redb, or a folder. The dictionary is created if there is none. Without a
/// path it lies in memory. Keys and values are bytes; str is stored as UTF-8.
///
/// >>> import tamis
/// >>> with tamis.Dictionary() as stock:
/// ...     stock["apple"] = "3"
/// ...     stock["apple"], "pear" in stock
/// (b'3', False)
#[pyclass(frozen, module = "tamis", name = "Dictionary")]
pub(crate) struct PyDictionary {
    /// `None` once it is closed.
    inner: RwLock<Option<Inner>>,
    /// For `repr`.
    place: String,
}

/// Returns the exception for an error of a dictionary.
fn raise_store(error: Error) -> PyErr {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::NotFound => PyFileNotFoundError::new_err(message),
        ErrorKind::AlreadyExists => PyFileExistsError::new_err(message),
        ErrorKind::Store => PyOSError::new_err(message),
        ErrorKind::InUse => exception("InUseError", message),
        ErrorKind::Incompatible => exception("MismatchError", message),
        ErrorKind::Corrupt => exception("CorruptError", message),
        ErrorKind::InvalidInput => exception("InvalidInputError", message),
        _ => match error {
            Error::Filter(error) => raise(error),
            _ => exception("TamisError", message),
        },
    }
}

impl PyDictionary {
    /// Calls `action` with the open dictionary, without the interpreter.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        action: impl FnOnce(&Inner) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let done = py.detach(|| {
            let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
            inner.as_ref().map(action)
        });
        let closed = || PyValueError::new_err("the dictionary is closed");
        done.ok_or_else(closed)?.map_err(raise_store)
    }
}

#[pymethods]
impl PyDictionary {
    #[new]
    #[pyo3(signature = (path = None, *, capacity = None, fpr = None, hash = "secure", layout = "clustered"))]
    fn new(
        py: Python<'_>,
        path: Option<std::path::PathBuf>,
        capacity: Option<Whole>,
        fpr: Option<f64>,
        hash: &str,
        layout: &str,
    ) -> PyResult<Self> {
        let layout = match layout {
            "clustered" => Layout::Clustered,
            "secondary" => Layout::Secondary,
            _ => {
                let message = format!("layout must be clustered or secondary, not {layout}");
                return Err(exception("InvalidInputError", message));
            }
        };
        let hash: HashId = hash.parse().map_err(|error: tamis::UnknownName| raise(error.into()))?;
        let mut options = Options::default().with_hash(hash);
        if let Some(Whole(keys)) = capacity {
            options = options.with_keys(keys);
        }
        if let Some(fpr) = fpr {
            options = options.with_fpr(fpr);
        }
        let place =
            path.as_ref().map_or_else(|| "memory".to_owned(), |path| path.display().to_string());
        let inner = py.detach(|| open(path.as_deref(), layout, options)).map_err(raise_store)?;
        Ok(Self { inner: RwLock::new(Some(inner)), place })
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = as_bytes(key, "key of a dictionary")?;
        self.with(key.py(), |inner| inner.contains(name))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let name = as_bytes(key, "key of a dictionary")?;
        match self.with(key.py(), |inner| inner.get(name))? {
            Some(value) => Ok(PyBytes::new(key.py(), &value)),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Returns the value of a key, or `default` if there is none.
    #[pyo3(signature = (key, default = None))]
    fn get(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let name = as_bytes(key, "key of a dictionary")?;
        match self.with(key.py(), |inner| inner.get(name))? {
            Some(value) => Ok(Some(PyBytes::new(key.py(), &value).into_any().unbind())),
            None => Ok(default),
        }
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let name = as_bytes(key, "key of a dictionary")?;
        let value = as_bytes(value, "value of a dictionary")?;
        self.with(key.py(), |inner| inner.put(name, value)).map(drop)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let name = as_bytes(key, "key of a dictionary")?;
        match self.with(key.py(), |inner| inner.delete(name))? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Sets the values of many keys at once: all or none. `entries` is a mapping or an iterable of pairs.
    fn update(&self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        let items = match entries.hasattr("items")? {
            true => entries.call_method0("items")?,
            false => entries.clone(),
        };
        let pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> =
            items.try_iter()?.map(|pair| pair?.extract()).collect::<PyResult<_>>()?;
        let ops = pairs.iter().map(|(key, value)| {
            let key = as_bytes(key, "key of a dictionary")?;
            Ok(Op::Put(key, as_bytes(value, "value of a dictionary")?))
        });
        let ops: Vec<Op<'_>> = ops.collect::<PyResult<_>>()?;
        self.with(py, |inner| inner.write(&ops)).map(drop)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let keys = self.with(py, |inner| Ok(inner.stats().keys))?;
        Ok(usize::try_from(keys).unwrap_or(usize::MAX))
    }

    /// Returns an iterator over the keys, in the order of the store.
    fn __iter__(slf: &Bound<'_, Self>) -> PyEntries {
        PyEntries::new(slf, |py, (key, _)| PyBytes::new(py, key).into_any())
    }

    /// Returns an iterator over the keys, in the order of the store.
    fn keys(slf: &Bound<'_, Self>) -> PyEntries {
        Self::__iter__(slf)
    }

    /// Returns an iterator over the values, in the order of the store.
    fn values(slf: &Bound<'_, Self>) -> PyEntries {
        PyEntries::new(slf, |py, (_, value)| PyBytes::new(py, value).into_any())
    }

    /// Returns an iterator over pairs of key and value, in the order of the store.
    fn items(slf: &Bound<'_, Self>) -> PyEntries {
        PyEntries::new(slf, |py, (key, value)| {
            let pair = [PyBytes::new(py, key), PyBytes::new(py, value)];
            PyTuple::new(py, pair).map_or_else(|_| py.None().into_bound(py), Bound::into_any)
        })
    }

    /// Returns counters and sizes by name, such as `false_positives` and `filter_bytes`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.with(py, |inner| Ok(inner.stats()))?;
        let named = PyDict::new(py);
        for (name, count) in stats.counts.named() {
            named.set_item(name, count)?;
        }
        named.set_item("keys", stats.keys)?;
        named.set_item("capacity", stats.capacity)?;
        named.set_item("filter_bytes", stats.filter_bytes)?;
        named.set_item("target_fpr", stats.target_fpr)?;
        named.set_item("fpr", stats.fpr())?;
        Ok(named)
    }

    /// Checks every entry by its checksum, and the filter against every key. Returns the number of keys.
    /// Raises CorruptError if an entry is damaged or lost.
    fn verify(&self, py: Python<'_>) -> PyResult<u64> {
        let audit = self.with(py, Inner::verify)?;
        if audit.is_ok() {
            return Ok(audit.keys);
        }
        let message = format!("{} entries are damaged and {} are lost", audit.damaged, audit.lost);
        Err(exception("CorruptError", message))
    }

    /// Saves the filter and closes the dictionary. A dictionary that was not closed reads all its keys
    /// when it is opened again.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| {
            let inner = self.inner.write().unwrap_or_else(PoisonError::into_inner).take();
            inner.map_or(Ok(()), Inner::close)
        });
        closed.map_err(raise_store)
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let stats = self.with(py, |inner| Ok(inner.stats()));
        match stats {
            Ok(stats) => format!("<tamis.Dictionary {}: {} keys>", self.place, stats.keys),
            Err(_) => format!("<tamis.Dictionary {}: closed>", self.place),
        }
    }
}

/// Opens the dictionary at a path, or creates it.
fn open(path: Option<&Path>, layout: Layout, options: Options) -> Result<Inner, Error> {
    let Some(path) = path else {
        return Inner::create(Box::new(MemoryStore::new(layout)), options);
    };
    let not_text = Error::Location { reason: "the path is not valid Unicode" };
    let location = path.to_str().ok_or(not_text)?;
    match store::open(location).and_then(Inner::open) {
        Err(Error::NotFound | Error::Unfinished) => {
            Inner::create(store::create(location, layout)?, options)
        }
        opened => opened,
    }
}

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// An iterator over the entries of a dictionary. Entries that are written during the iteration may or may
/// not be included.
#[pyclass(frozen, module = "tamis", name = "_Entries")]
pub(crate) struct PyEntries {
    dictionary: Py<PyDictionary>,
    page: std::sync::Mutex<Page>,
    show: for<'py> fn(Python<'py>, &Entry) -> Bound<'py, PyAny>,
}

/// The entries that were read and not yet yielded.
#[derive(Default)]
struct Page {
    entries: std::vec::IntoIter<Entry>,
    last: Option<Vec<u8>>,
}

impl PyEntries {
    fn new(
        dictionary: &Bound<'_, PyDictionary>,
        show: for<'py> fn(Python<'py>, &Entry) -> Bound<'py, PyAny>,
    ) -> Self {
        Self { dictionary: dictionary.clone().unbind(), page: Default::default(), show }
    }
}

#[pymethods]
impl PyEntries {
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let dictionary = self.dictionary.get();
        let entry = dictionary.with(py, |inner| {
            let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
            if page.entries.len() == 0 {
                let entries = match &page.last {
                    Some(last) => inner.iter_after(last),
                    None => inner.iter(),
                };
                let entries = entries.take(PAGE).collect::<Result<Vec<_>, _>>()?;
                if let Some((key, _)) = entries.last() {
                    page.last = Some(key.clone());
                }
                page.entries = entries.into_iter();
            }
            Ok(page.entries.next())
        })?;
        Ok(entry.map(|entry| (self.show)(py, &entry)))
    }
}
