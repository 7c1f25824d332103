//! Fingerprints and sizes of a filter whose kind is known only at run time.

use alloc::boxed::Box;

use super::AnyFilter;
use crate::error::Error;

impl AnyFilter {
    /// Returns its fingerprints with their counts: see [`List::list`](crate::List::list).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn list(&self) -> Result<Box<dyn Iterator<Item = (u64, u64)> + '_>, Error> {
        Ok(self.as_list()?.list())
    }

    /// Returns the bits of its largest possible fingerprint: see
    /// [`List::fingerprint_bits`](crate::List::fingerprint_bits).
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn fingerprint_bits(&self) -> Result<u32, Error> {
        Ok(self.as_list()?.fingerprint_bits())
    }

    /// Changes its capacity: see [`Resize::resize`](crate::Resize::resize).
    ///
    /// # Errors
    /// As [`Resize::resize`](crate::Resize::resize); the filter is then unchanged.
    pub fn resize(&mut self, keys: u64, fpr: Option<f64>) -> Result<(), Error> {
        self.as_resize_mut()?.resize(keys, fpr)
    }
}
