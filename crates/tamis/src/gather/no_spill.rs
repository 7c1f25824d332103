//! Without the feature `std` there are no files, and no memory limit that needs one.

use alloc::vec::Vec;
use core::convert::Infallible;
use core::ops::Range;

use super::Record;
use crate::error::Error;

/// A file of records, which does not exist.
#[derive(Debug)]
pub(super) struct Spill<const W: usize>(Infallible);

impl<const W: usize> Spill<W> {
    pub(super) fn len(&self, _: Range<usize>) -> u64 {
        match self.0 {}
    }

    pub(super) fn read(
        &self,
        _: Range<usize>,
        _: &mut Vec<Record<W>>,
        _: impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.0 {}
    }

    pub(super) fn damaged(&self) -> Error {
        match self.0 {}
    }
}
