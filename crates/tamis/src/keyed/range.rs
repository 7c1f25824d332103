//! Ranges of keys.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeBounds;

use super::Keyed;
use crate::any::AnyFilter;
use crate::error::Error;
use crate::hash::{HashId, OrderedKey, number_range};
use crate::traits::{Filter, Range};

/// Answers one range.
fn contains_range<F: Filter, K: OrderedKey>(
    keyed: &Keyed<F>,
    filter: &dyn Range,
    range: &impl RangeBounds<K>,
) -> Result<bool, Error> {
    check(keyed)?;
    let numbers = number_range(range)?;
    Ok(numbers.is_some_and(|(first, last)| filter.contains_range(first, last)))
}

/// Answers many ranges.
fn contains_range_batch<F: Filter, K: OrderedKey>(
    keyed: &Keyed<F>,
    filter: &dyn Range,
    ranges: &[impl RangeBounds<K>],
) -> Result<Vec<bool>, Error> {
    check(keyed)?;
    let numbers = ranges.iter().map(|range| number_range(range)).collect::<Result<Vec<_>, _>>()?;
    let filled: Vec<(u64, u64)> = numbers.iter().copied().flatten().collect();
    let mut answers = vec![false; filled.len()];
    filter.contains_range_batch(&filled, &mut answers);
    let mut answers = answers.into_iter();
    Ok(numbers.iter().map(|numbers| numbers.is_some() && answers.next() == Some(true)).collect())
}

/// Checks that the keys were hashed in order.
fn check<F: Filter>(keyed: &Keyed<F>) -> Result<(), Error> {
    match keyed.hasher.id() {
        HashId::Ordered => Ok(()),
        id => Err(Error::Hash { kind: keyed.filter.sealed_kind(), hash: id.name() }),
    }
}

impl<F: Range> Keyed<F> {
    /// Returns whether a key of `range` may be a member: see [`Range::contains_range`]. An empty range, such
    /// as `5..5`, holds no key.
    ///
    /// ```
    /// use tamis::{Grafite, Keyed};
    ///
    /// let keys = Keyed::<Grafite>::builder().set("range_length", 100).build([-50i64, 7, 9000])?;
    /// assert!(keys.contains_range(-60..0)? && keys.contains_range(7..=7)?);
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ReversedRange`] if the range begins after its end, and [`Error::Hash`] if the keys were not
    /// hashed with [`HashId::Ordered`].
    pub fn contains_range<K: OrderedKey>(&self, range: impl RangeBounds<K>) -> Result<bool, Error> {
        contains_range(self, &self.filter, &range)
    }

    /// Returns for each range whether one of its keys may be a member, faster than one by one.
    ///
    /// # Errors
    /// As [`Keyed::contains_range`].
    pub fn contains_range_batch<K: OrderedKey>(
        &self,
        ranges: &[impl RangeBounds<K>],
    ) -> Result<Vec<bool>, Error> {
        contains_range_batch(self, &self.filter, ranges)
    }

    /// Returns an upper bound of the rate of ranges of `length` keys: see [`Range::fpr_of_range`].
    pub fn fpr_of_range(&self, length: u64) -> f64 {
        self.filter.fpr_of_range(length)
    }
}

impl Keyed<AnyFilter> {
    /// Returns whether a key of `range` may be a member: see [`Range::contains_range`]. An empty range, such
    /// as `5..5`, holds no key.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a kind without ranges, [`Error::ReversedRange`] if the range begins after
    /// its end, and [`Error::Hash`] if the keys were not hashed with [`HashId::Ordered`].
    pub fn contains_range<K: OrderedKey>(&self, range: impl RangeBounds<K>) -> Result<bool, Error> {
        contains_range(self, self.filter.as_range()?, &range)
    }

    /// Returns for each range whether one of its keys may be a member, faster than one by one.
    ///
    /// # Errors
    /// As [`Keyed::contains_range`].
    pub fn contains_range_batch<K: OrderedKey>(
        &self,
        ranges: &[impl RangeBounds<K>],
    ) -> Result<Vec<bool>, Error> {
        contains_range_batch(self, self.filter.as_range()?, ranges)
    }

    /// Returns an upper bound of the rate of ranges of `length` keys: see [`Range::fpr_of_range`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn fpr_of_range(&self, length: u64) -> Result<f64, Error> {
        Ok(self.filter.as_range()?.fpr_of_range(length))
    }
}
