//! The trait [`Key`] and the types that are keys.

use alloc::borrow::Cow;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use core::cmp::Ordering;
use core::ops::{Bound, RangeBounds};

use tamis_format::KeyForms;

use super::{HashId, KeyHash, KeyHasher};
use crate::error::Error;

/// A key: a value with one hash that is the same on every machine and in every language.
///
/// Strings and bytes hash by their bytes, so `"a"` and `b"a"` are one key. Integers of all types hash by
/// value, so `7u8` and `7i64` are one key; `char` and `bool` hash as integers. A tuple hashes the hashes
/// of its parts.
///
/// To hash a struct, implement this trait by a tuple of its fields:
///
/// ```
/// use tamis::{Bloom, Key, KeyForms, KeyHash, KeyHasher, Keyed};
///
/// struct Edge { from: u64, to: u64, label: String }
///
/// impl Key for Edge {
///     const FORM: KeyForms = KeyForms::TUPLES;
///
///     fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
///         (self.from, self.to, &*self.label).hash_with(hasher)
///     }
/// }
///
/// let edge = Edge { from: 1, to: 2, label: "road".into() };
/// let mut seen = Keyed::<Bloom>::with_capacity(1000, 0.01)?;
/// seen.insert(&edge)?;
/// assert!(seen.contains(&(1, 2, "road")));
/// # Ok::<_, tamis::Error>(())
/// ```
///
/// `std::hash::Hash` is not used: it feeds other bytes on other machines and compilers.
pub trait Key {
    /// The form of such keys, which files record.
    const FORM: KeyForms;

    /// Returns the key's hash.
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash;
}

macro_rules! bytes_keys {
    ($($(#[$generics:meta])? [$($parameters:tt)*] $type:ty, $self:ident => $bytes:expr;)*) => { $(
        impl<$($parameters)*> Key for $type {
            const FORM: KeyForms = KeyForms::BYTES;

            #[inline]
            fn hash_with(&$self, hasher: &KeyHasher) -> KeyHash {
                hasher.bytes($bytes)
            }
        }
    )* };
}
bytes_keys! {
    [] [u8], self => self;
    [const N: usize] [u8; N], self => self;
    [] Vec<u8>, self => self;
    [] str, self => self.as_bytes();
    [] String, self => self.as_bytes();
}

macro_rules! integer_keys {
    ($($integer:ty),*) => { $(
        impl Key for $integer {
            const FORM: KeyForms = KeyForms::INTEGERS;

            #[inline]
            fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
                // Signed integers are extended by their sign, all others by zeros.
                #[allow(clippy::cast_lossless, reason = "one cast for all integer types")]
                hasher.int(*self as u64)
            }
        }
    )* };
}
integer_keys!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, char, bool);

impl Key for u128 {
    const FORM: KeyForms = KeyForms::INTEGERS;

    /// A number below 2^64 hashes like a `u64`, a larger one like its two halves.
    #[inline]
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        match u64::try_from(*self) {
            Ok(small) => hasher.int(small),
            Err(_) => hasher.pair(hasher.int(*self as u64), hasher.int((self >> 64) as u64)),
        }
    }
}

impl Key for i128 {
    const FORM: KeyForms = KeyForms::INTEGERS;

    /// A number of the range of `i64` or `u64` hashes like those, any other like its two halves.
    #[inline]
    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        match (i64::try_from(*self), u64::try_from(*self)) {
            (Ok(small), _) => hasher.int(small as u64),
            (_, Ok(large)) => hasher.int(large),
            _ => hasher.pair(hasher.int(*self as u64), hasher.int((self >> 64) as u64)),
        }
    }
}

macro_rules! pointer_keys {
    ($([$($parameters:tt)*] $pointer:ty, $key:ident;)*) => { $(
        impl<$($parameters)*> Key for $pointer {
            const FORM: KeyForms = $key::FORM;

            #[inline]
            fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
                (**self).hash_with(hasher)
            }
        }
    )* };
}
pointer_keys! {
    [K: Key + ?Sized] &K, K;
    [K: Key + ?Sized] Box<K>, K;
    [K: Key + ?Sized] Rc<K>, K;
    [K: Key + ?Sized] Arc<K>, K;
    [K: Key + ToOwned + ?Sized] Cow<'_, K>, K;
}

macro_rules! tuple_keys {
    ($($first:ident $($rest:ident)*;)*) => { $(
        impl<$first: Key, $($rest: Key),*> Key for ($first, $($rest,)*) {
            const FORM: KeyForms = KeyForms::TUPLES;

            fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
                #[expect(non_snake_case, reason = "a part has the name of its type")]
                let ($first, $($rest,)*) = self;
                let all = hasher.pair($first.hash_with(hasher), KeyHash { hi: 0, lo: 0 });
                $( let all = hasher.pair(all, $rest.hash_with(hasher)); )*
                all
            }
        }
    )* };
}
tuple_keys! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

/// A key whose order [`HashId::Ordered`] keeps: an integer of at most 64 bits, a string or bytes.
///
/// The number of an integer is its value as 64-bit two's complement. A range of signed integers from
/// negative to positive ones wraps around, from large numbers to small ones. The number of a string is its
/// first 8 bytes, big-endian, with zeros after a shorter one: keys that share 8 bytes have one number.
///
/// This trait is sealed.
pub trait OrderedKey: Key + PartialOrd + sealed::Number {}

impl<K: Key + PartialOrd + sealed::Number + ?Sized> OrderedKey for K {}

mod sealed {
    /// What a range needs to know about the numbers of a type of keys.
    pub trait Number {
        /// The numbers of the least and of the greatest key.
        const ENDS: [u64; 2];
        /// Whether each key has a number of its own.
        const DISTINCT: bool;

        /// Returns whether all keys below this one have smaller numbers.
        fn is_least_of_number(&self) -> bool {
            true
        }
    }
}

use sealed::Number;

/// Returns the first 8 bytes as a big-endian number.
pub(super) fn prefix(bytes: &[u8]) -> u64 {
    let mut prefix = [0; 8];
    let len = bytes.len().min(8);
    prefix[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(prefix)
}

macro_rules! integer_numbers {
    ($($integer:ident),*) => { $(
        impl Number for $integer {
            #[allow(clippy::cast_lossless, reason = "one cast for all integer types")]
            const ENDS: [u64; 2] = [$integer::MIN as u64, $integer::MAX as u64];
            const DISTINCT: bool = true;
        }
    )* };
}
integer_numbers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, char);

macro_rules! bytes_numbers {
    ($([$($parameters:tt)*] $type:ty;)*) => { $(
        impl<$($parameters)*> Number for $type {
            const ENDS: [u64; 2] = [0, u64::MAX];
            const DISTINCT: bool = false;

            /// Zeros pad a short string, so those with its number have more zeros at their end.
            fn is_least_of_number(&self) -> bool {
                let bytes: &[u8] = self.as_ref();
                bytes.len() <= 8 && bytes.last() != Some(&0)
            }
        }
    )* };
}
bytes_numbers! {
    [] [u8];
    [const N: usize] [u8; N];
    [] Vec<u8>;
    [] str;
    [] String;
}

impl<K: Number + ?Sized> Number for &K {
    const ENDS: [u64; 2] = K::ENDS;
    const DISTINCT: bool = K::DISTINCT;

    fn is_least_of_number(&self) -> bool {
        (**self).is_least_of_number()
    }
}

/// Returns the first and the last number of a range of keys, or `None` if no key is in it.
///
/// # Errors
/// [`Error::ReversedRange`] if the range begins after its end.
pub(crate) fn number_range<K: OrderedKey>(
    range: &impl RangeBounds<K>,
) -> Result<Option<(u64, u64)>, Error> {
    let (hasher, [least, greatest]) = (KeyHasher::new(HashId::Ordered, [0; 2]), K::ENDS);
    // Counted from the least key, numbers have the order of the keys.
    let place = |key: &K| key.hash_with(&hasher).hi.wrapping_sub(least);
    let (start, end) = (range.start_bound(), range.end_bound());
    if let (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) =
        (start, end)
    {
        match a.partial_cmp(b) {
            Some(Ordering::Less) => {}
            Some(Ordering::Equal) => {
                let has_key = matches!((start, end), (Bound::Included(_), Bound::Included(_)));
                let number = place(a).wrapping_add(least);
                return Ok(has_key.then_some((number, number)));
            }
            _ => return Err(Error::ReversedRange),
        }
    }
    let first = match start {
        Bound::Included(key) => Some(place(key)),
        Bound::Excluded(key) if K::DISTINCT => place(key).checked_add(1),
        Bound::Excluded(key) => Some(place(key)),
        Bound::Unbounded => Some(0),
    };
    let last = match end {
        Bound::Included(key) => Some(place(key)),
        Bound::Excluded(key) if key.is_least_of_number() => place(key).checked_sub(1),
        Bound::Excluded(key) => Some(place(key)),
        Bound::Unbounded => Some(greatest.wrapping_sub(least)),
    };
    let numbers = |first: u64, last: u64| (first.wrapping_add(least), last.wrapping_add(least));
    Ok(match (first, last) {
        (Some(first), Some(last)) if first <= last => Some(numbers(first, last)),
        _ => None,
    })
}
