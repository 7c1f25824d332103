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

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::capability::Capability;
    use crate::filters::{Bloom, Grafite, GrafiteShape};
    use crate::hash::{Key, KeyHash, KeyHasher};
    use crate::kind::Kind;
    use crate::options::BuildOptions;
    use crate::shape::Shape;
    use crate::traits::Build;

    /// Ranges of keys, with all kinds of bounds.
    #[test]
    fn keys_have_ranges() {
        let builder = || Keyed::<Grafite>::builder().fpr(1e-6).set("range_length", 1000);
        let signed = builder().build([-50i64, 7, i64::MIN, i64::MAX]).unwrap();
        assert!(
            signed.contains_range(-60i64..-40).unwrap()
                && signed.contains_range(-60i64..100).unwrap()
        );
        assert!(
            !signed.contains_range(-49i64..7).unwrap()
                && !signed.contains_range(-70..=-51).unwrap()
        );
        assert!(signed.contains_range(i64::MIN..=-i64::MAX).unwrap());
        assert!(!signed.contains_range(i64::MIN + 1..i64::MIN + 500).unwrap());
        assert!(
            signed.contains(&7u8) && signed.contains_range(7u8..=7).unwrap(),
            "one key of two types"
        );
        assert!(
            signed.contains_range::<i64>(..).unwrap()
                && signed.contains_range(i64::MAX - 1..).unwrap()
        );
        for empty in [5..5u64, u64::MAX..u64::MAX] {
            assert!(!signed.contains_range(empty).unwrap());
        }
        let above = (core::ops::Bound::Excluded(u64::MAX), core::ops::Bound::Unbounded);
        assert!(!signed.contains_range(above).unwrap());
        #[expect(clippy::reversed_empty_ranges, reason = "it is an error")]
        let reversed = signed.contains_range(7i64..=6).unwrap_err();
        assert!(matches!(reversed, Error::ReversedRange));

        let text = builder().build(["apple", "pear", "strawberry jam"]).unwrap();
        assert!(
            text.contains_range("app".."apq").unwrap()
                && text.contains_range("pear"..="pear").unwrap()
        );
        assert!(!text.contains_range("pear\0x".."pear\0z").unwrap(), "other 8 bytes");
        assert!(text.contains_range("pear".."pear\0").unwrap(), "`pear` itself is in");
        assert!(text.contains_range("strawberry a"..="strawberry b").unwrap(), "the same 8 bytes");
        assert!(!text.contains_range("pear\0\0\0\x01".."pear\0\0\0\x09").unwrap());
        let ends =
            [String::from("pear")..String::from("pearl"), String::from("a")..String::from("a")];
        assert_eq!(text.contains_range_batch(&ends).unwrap(), [true, false]);
        assert!(text.fpr_of_range(1000) <= 1e-6 && text.fpr_of_range(2000) > 1e-6);
        assert_eq!(text.fpr_of_range(u64::MAX), 1.0);
    }

    /// `ordered` is for this kind, and this kind is for `ordered`.
    #[test]
    fn other_hashes_are_refused() {
        for kind in Kind::ALL {
            let builder = Keyed::<AnyFilter>::builder(*kind).hash(HashId::Ordered);
            match builder.build(0..10u64) {
                Ok(filter) => assert!(filter.contains_range(3..5u64).unwrap()),
                Err(Error::Hash { kind: told, hash: "ordered" }) => {
                    assert!(told == *kind && !kind.can(Capability::Range));
                }
                Err(error) => panic!("{error}"),
            }
        }
        for hash in [HashId::Fast, HashId::Secure] {
            let refused = Keyed::<Grafite>::builder().hash(hash).build(0..10u64);
            assert!(matches!(refused, Err(Error::Hash { kind: Kind::Grafite, .. })));
        }
        // A filter of hashes from elsewhere answers single keys.
        let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
        let hashes: Vec<KeyHash> = (0..10u64).map(|key| key.hash_with(&hasher)).collect();
        let filter = Grafite::build(GrafiteShape::fit(10, 0.01).unwrap(), &hashes[..]).unwrap();
        let keyed = Keyed::new(hasher, filter);
        assert!(keyed.contains(&3u64));
        assert!(matches!(keyed.contains_range(3..5u64), Err(Error::Hash { .. })));
        // A file of another kind cannot claim `ordered`.
        let bloom = Keyed::<Bloom>::build(0..10u64, 0.01).unwrap().into_parts().1;
        let bytes = Keyed::new(KeyHasher::new(HashId::Ordered, [1, 2]), bloom).to_bytes().unwrap();
        assert!(matches!(Keyed::<AnyFilter>::from_bytes(&bytes), Err(Error::Hash { .. })));
    }

    /// The seed of the hasher is the key of the codes.
    #[test]
    fn a_builder_passes_its_seed_on() {
        let keys: Vec<KeyHash> = (0..100).map(|hi| KeyHash { hi: hi * 999, lo: 0 }).collect();
        let build = |seed| {
            let options = BuildOptions::new().seed(seed);
            Grafite::build_with(&options, |len| GrafiteShape::fit(len, 0.01), &keys[..]).unwrap()
        };
        let keyed = Keyed::<Grafite>::builder().seed([8, 9]);
        let keyed = keyed.build((0..100u64).map(|key| key * 999)).unwrap();
        assert!(*keyed.filter() == build([8, 9]) && *keyed.filter() != build([0, 0]));
    }
}
