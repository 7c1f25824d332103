//! Ranges of keys, and the hash function that keeps the order of keys.

use super::{AnyFilter, Registered};
use crate::capability::Capability;
use crate::error::Error;
use crate::hash::HashId;
use crate::kind::Kind;
use crate::traits::Range;

impl Kind {
    /// Returns the hash function that a builder uses unless it is told otherwise: `ordered` for kinds
    /// that answer ranges, `secure` for exact ones, whose rate needs all 128 bits of a hash, and `fast` for
    /// all others.
    pub fn default_hash(self) -> HashId {
        match self {
            _ if self.can(Capability::Range) => HashId::Ordered,
            _ if self.is_exact() => HashId::Secure,
            _ => HashId::Fast,
        }
    }

    /// Checks that filters of this kind work with hashes of this function. Kinds that answer ranges need
    /// [`HashId::Ordered`]. All others need uniform hashes, which `ordered` does not make.
    ///
    /// # Errors
    /// [`Error::Hash`] if they do not.
    pub fn check_hash(self, hash: HashId) -> Result<(), Error> {
        match self.can(Capability::Range) == (hash == HashId::Ordered) {
            true => Ok(()),
            false => Err(Error::Hash { kind: self, hash: hash.name() }),
        }
    }
}

/// Ranges. Each operation is [`Error::Unsupported`] for a kind that lacks it.
impl AnyFilter {
    /// Returns the filter as one that answers ranges.
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn as_range(&self) -> Result<&dyn Range, Error> {
        let kind = self.kind();
        dispatch!(self, filter => filter.as_range())
            .ok_or(Error::Unsupported { kind, capability: Capability::Range })
    }

    /// Returns whether a number from `first` to `last` may be a member: see [`Range::contains_range`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn contains_range(&self, first: u64, last: u64) -> Result<bool, Error> {
        Ok(self.as_range()?.contains_range(first, last))
    }

    /// Answers many ranges: see [`Range::contains_range_batch`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn contains_range_batch(
        &self,
        ranges: &[(u64, u64)],
        out: &mut [bool],
    ) -> Result<(), Error> {
        self.as_range()?.contains_range_batch(ranges, out);
        Ok(())
    }
}
