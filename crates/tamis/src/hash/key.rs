//! The trait [`Key`] and the types that are keys.

use alloc::borrow::Cow;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use tamis_format::KeyForms;

use super::{KeyHash, KeyHasher};

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
