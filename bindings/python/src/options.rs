//! Arguments that several functions take: the size of a filter, its hash function, its kind.

use std::str::FromStr;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt};
use tamis::{Capability, Error, HashId, KeyHasher, Kind, SettingValue, Sizing};

use crate::errors::{exception, raise};
use crate::keys::Whole;

/// Returns the size that the arguments state.
pub(crate) fn sizing(
    capacity: Option<Whole>,
    fpr: Option<f64>,
    nbytes: Option<Whole>,
    bits_per_key: Option<f64>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Sizing> {
    let mut sizing = match (fpr, nbytes, bits_per_key) {
        (fpr, None, None) => Sizing::fpr(fpr.unwrap_or(0.01)),
        (None, Some(Whole(bytes)), None) => Sizing::bytes(bytes),
        (None, None, Some(bits)) if bits > 0.0 && bits.is_finite() => Sizing::bits_per_key(bits),
        (None, None, Some(bits)) => {
            let message = format!("bits_per_key must be a number above 0, not {bits}");
            return Err(exception("InvalidInputError", message));
        }
        _ => {
            let message = "expected one of fpr, nbytes and bits_per_key".to_owned();
            return Err(exception("InvalidInputError", message));
        }
    };
    if let Some(Whole(keys)) = capacity {
        sizing = sizing.capacity(keys);
    }
    for (name, value) in settings.into_iter().flatten() {
        sizing = sizing.set(name.extract::<String>()?, setting(&value)?);
    }
    Ok(sizing)
}

/// Returns the value of a setting.
fn setting(value: &Bound<'_, PyAny>) -> PyResult<SettingValue> {
    if value.is_instance_of::<PyInt>()
        && !value.is_instance_of::<PyBool>()
        && let Ok(number) = value.extract::<u64>()
    {
        return Ok(SettingValue::Integer(number));
    }
    match value.extract::<f64>() {
        Ok(number) => Ok(SettingValue::Real(number)),
        Err(_) => Ok(SettingValue::parse(&value.str()?.to_string_lossy())),
    }
}

/// Returns the hash function `hash` with this seed, or with a random one.
pub(crate) fn hasher(hash: &str, seed: Option<u128>) -> PyResult<KeyHasher> {
    let id = HashId::from_str(hash).map_err(|error| raise(error.into()))?;
    match seed {
        Some(seed) => Ok(KeyHasher::new(id, [(seed >> 64) as u64, seed as u64])),
        None => KeyHasher::random(id).map_err(raise),
    }
}

/// Returns the kind with this name.
pub(crate) fn kind(name: &str) -> PyResult<Kind> {
    Kind::from_str(name).map_err(|error| raise(error.into()))
}

/// Returns the capabilities with these names.
pub(crate) fn capabilities(names: Option<Vec<String>>) -> PyResult<Vec<Capability>> {
    let names = names.unwrap_or_default();
    let parsed = names.iter().map(|name| Capability::from_str(name));
    parsed.collect::<Result<_, _>>().map_err(|error| raise(Error::from(error)))
}
