//! Values of keys, of a kind that is known only at run time.

use super::AnyFilter;
use crate::error::Error;
use crate::hash::KeyHash;
use crate::traits::Map;
use crate::values::Value;

impl AnyFilter {
    /// Returns the filter as a map of unsigned integers.
    fn as_unsigned_map(&self) -> Result<&dyn Map, Error> {
        let map = self.as_map()?;
        match map.value_type() {
            holds if holds.is_unsigned() => Ok(map),
            holds => Err(Error::ValueType { holds }),
        }
    }
}

/// Operations of maps. Each is [`Error::Unsupported`] for other kinds.
impl AnyFilter {
    /// Returns a key's value, an unsigned integer: see [`Map::get`].
    ///
    /// # Errors
    /// [`Error::ValueType`] for a map of other values.
    pub fn get(&self, key: KeyHash) -> Result<Option<u64>, Error> {
        Ok(self.as_unsigned_map()?.get(key))
    }

    /// Returns the values of keys, unsigned integers: see [`Map::get_batch`].
    ///
    /// # Errors
    /// [`Error::ValueType`] for a map of other values.
    pub fn get_batch(&self, keys: &[KeyHash], out: &mut [Option<u64>]) -> Result<(), Error> {
        self.as_unsigned_map()?.get_batch(keys, out);
        Ok(())
    }

    /// Replaces a key's value, an unsigned integer: see [`Map::set`].
    ///
    /// # Errors
    /// [`Error::Value`] if the value is too wide, [`Error::ValueType`] for a map of other values.
    pub fn set(&mut self, key: KeyHash, value: u64) -> Result<Option<u64>, Error> {
        self.as_unsigned_map()?;
        self.as_map_mut()?.set(key, value)
    }

    /// Returns a key's value: see [`Map::get_value`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn get_value(&self, key: KeyHash) -> Result<Option<Value>, Error> {
        Ok(self.as_map()?.get_value(key))
    }

    /// Replaces a key's value: see [`Map::set_value`].
    ///
    /// # Errors
    /// As [`Map::number_of`].
    pub fn set_value(&mut self, key: KeyHash, value: &Value) -> Result<Option<Value>, Error> {
        self.as_map_mut()?.set_value(key, value)
    }

    /// Returns the width of a value in bits.
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn value_bits(&self) -> Result<u32, Error> {
        Ok(self.as_map()?.value_bits())
    }
}
