//! Filters that several machines build together: what `tamis.spark` stands on.

use std::thread;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use tamis::{
    AnyFilter, BinaryFuse, Build, BuildOptions, BuildParts, Capability, Error, KeyForms, KeyHash,
    Keyed, Kind, Limits, Part, PartRange, Ribbon, Sizing, Xor, XorSat,
};

use crate::any::{PyAnyFilter, wrap};
use crate::batch;
use crate::column;
use crate::errors::{exception, raise};
use crate::keys::Whole;
use crate::options;

/// Evaluates an expression with the filter type of a kind that is built in parts.
macro_rules! with_kind {
    ($kind:expr, $filter:ident => $body:expr) => {
        match $kind {
            Kind::BinaryFuse => {
                type $filter = BinaryFuse;
                $body
            }
            Kind::Ribbon => {
                type $filter = Ribbon;
                $body
            }
            Kind::Xor => {
                type $filter = Xor;
                $body
            }
            Kind::XorSat => {
                type $filter = XorSat;
                $body
            }
            other => {
                let message = format!(
                    "{other} is not built in parts; binary_fuse, ribbon, xor and xorsat are"
                );
                return Err(exception("UnsupportedError", message));
            }
        }
    };
}

/// Returns the digests of keys, 64 bits each, as a NumPy array of uint64. A null has any digest.
#[pyfunction]
#[pyo3(name = "_digests")]
pub(crate) fn digests<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    hash: &str,
    seed: u128,
) -> PyResult<(Bound<'py, PyAny>, u64)> {
    let hasher = options::hasher(hash, Some(seed))?;
    let keys = column::take_all(&hasher, keys)?;
    let digests = batch::map_numbers(py, &hasher, &keys, Some(1), "uint64", |hashes, digests| {
        digests.iter_mut().zip(hashes).for_each(|(digest, hash)| *digest = hash.hi);
        Ok(())
    })?;
    Ok((digests, keys.forms.bits()))
}

fn hashes_of(digests: &[u64]) -> Vec<KeyHash> {
    digests.iter().map(|digest| KeyHash { hi: *digest, lo: 0 }).collect()
}

fn all_cores() -> BuildOptions<'static> {
    BuildOptions::new().threads(thread::available_parallelism().map_or(1, usize::from))
}

/// Returns the number of distinct digests of a part.
#[pyfunction]
#[pyo3(name = "_count_part")]
pub(crate) fn count_part(
    py: Python<'_>,
    digests: PyBuffer<u64>,
    index: u64,
    parts: u64,
) -> PyResult<u64> {
    let digests = digests.to_vec(py)?;
    let count = || -> Result<u64, Error> {
        let range = PartRange::new(index, parts)?;
        Ok(Xor::gather_part(&BuildOptions::new(), range, &hashes_of(&digests)[..])?.len())
    };
    py.detach(count).map_err(raise)
}

/// Solves a part of a filter of `total` keys. Returns its bytes.
#[pyfunction]
#[pyo3(name = "_solve_part", signature = (kind, digests, index, parts, total, fpr, settings))]
#[expect(clippy::too_many_arguments, reason = "arguments of one job")]
pub(crate) fn solve_part<'py>(
    py: Python<'py>,
    kind: &str,
    digests: PyBuffer<u64>,
    index: u64,
    parts: u64,
    total: u64,
    fpr: f64,
    settings: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyBytes>> {
    fn solve<F: BuildParts>(
        digests: &[u64],
        range: PartRange,
        sizing: &Sizing,
        total: u64,
    ) -> Result<Vec<u8>, Error> {
        let options = BuildOptions::new();
        let gathered = F::gather_part(&options, range, &hashes_of(digests)[..])?;
        gathered.solve(&options, &sizing.shape(total)?, total)?.to_bytes()
    }
    let digests = digests.to_vec(py)?;
    let sizing = options::sizing(None, Some(fpr), None, None, settings)?;
    let range = PartRange::new(index, parts).map_err(raise)?;
    let bytes = with_kind!(options::kind(kind)?, F => {
        py.detach(|| solve::<F>(&digests, range, &sizing, total))
    });
    Ok(PyBytes::new(py, &bytes.map_err(raise)?))
}

/// Makes the filter of `total` keys from all its parts.
#[pyfunction]
#[pyo3(name = "_assemble", signature = (kind, parts, total, fpr, settings, hash, seed, forms))]
#[expect(clippy::too_many_arguments, reason = "arguments of one job")]
pub(crate) fn assemble(
    py: Python<'_>,
    kind: &str,
    parts: Vec<PyBackedBytes>,
    total: u64,
    fpr: f64,
    settings: Option<&Bound<'_, PyDict>>,
    hash: &str,
    seed: u128,
    forms: u64,
) -> PyResult<Py<PyAny>> {
    fn finish<F: BuildParts + Build + Into<AnyFilter>>(
        parts: &[PyBackedBytes],
        sizing: &Sizing,
        total: u64,
    ) -> Result<AnyFilter, Error> {
        let parts =
            parts.iter().map(|part| Part::from_bytes(part)).collect::<Result<Vec<_>, _>>()?;
        F::assemble(&all_cores(), sizing.shape(total)?, parts).map(Into::into)
    }
    let sizing = options::sizing(None, Some(fpr), None, None, settings)?;
    let hasher = options::hasher(hash, Some(seed))?;
    let filter = with_kind!(options::kind(kind)?, F => {
        py.detach(|| finish::<F>(&parts, &sizing, total))
    });
    let keyed = Keyed::new(hasher, filter.map_err(raise)?);
    wrap(py, keyed.with_key_forms(KeyForms::from_bits(forms).unwrap_or_default()))
}

/// Returns the shape, hash and seed of a filter as bytes, for workers whose filters are merged with it.
#[pyfunction]
#[pyo3(name = "_template")]
pub(crate) fn template<'py>(
    py: Python<'py>,
    filter: &Bound<'py, PyAnyFilter>,
) -> PyResult<Bound<'py, PyBytes>> {
    let filter = filter.get();
    let kind = filter.read(py, Keyed::kind)?;
    if !kind.can(Capability::Merge) {
        return Err(raise(Error::Unsupported { kind, capability: Capability::Merge }));
    }
    let bytes = py.detach(|| filter.handle.read()?.get().to_template()).map_err(raise)?;
    Ok(PyBytes::new(py, &bytes))
}

/// Makes an empty filter from the bytes of `_template`, of at most `limit` bytes.
#[pyfunction]
#[pyo3(name = "_from_template")]
pub(crate) fn from_template(
    py: Python<'_>,
    data: PyBackedBytes,
    limit: Whole,
) -> PyResult<Py<PyAny>> {
    let limits = Limits { bytes: limit.0 };
    let keyed = py.detach(|| Keyed::<AnyFilter>::from_template(&data, &limits)).map_err(raise)?;
    wrap(py, keyed)
}
