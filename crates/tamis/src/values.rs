//! The values of a map: integers or byte strings.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// A value of a map.
///
/// A map holds values of one type. Integers lie between -2^63 and 2^64 - 1, and those of one map span
/// less than 2^64. Where that does not hold, or some values are byte strings, all are byte strings, and
/// an integer becomes its decimal digits.
///
/// ```
/// use tamis::Value;
/// assert_eq!(Value::from(-7), Value::Integer(-7));
/// assert_eq!(Value::from("red").to_string(), "red");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// An integer.
    Integer(i128),
    /// A byte string, which may be empty.
    Bytes(Vec<u8>),
}

impl Value {
    /// Returns the byte string, or the decimal digits of the integer.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Integer(number) => number.to_string().into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl fmt::Display for Value {
    /// Writes the integer in decimal, or the byte string as text, with U+FFFD in place of what is not
    /// UTF-8.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).fmt(f),
        }
    }
}

macro_rules! from_integers {
    ($($type:ty)*) => { $(
        impl From<$type> for Value {
            fn from(number: $type) -> Self {
                Self::Integer(number.into())
            }
        }
    )* };
}

from_integers!(u8 u16 u32 u64 i8 i16 i32 i64 i128);

macro_rules! from_bytes {
    ($($type:ty)*) => { $(
        impl From<$type> for Value {
            fn from(bytes: $type) -> Self {
                Self::Bytes(bytes.into())
            }
        }
    )* };
}

from_bytes!(&str String &[u8] Vec<u8>);

/// The type of a map's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// Integers, each in this range: those that can be set.
    Integers {
        /// The smallest.
        min: i128,
        /// The largest.
        max: i128,
    },
    /// Byte strings. Only those that the map was built with can be set.
    Bytes {
        /// The number of distinct byte strings.
        distinct: u64,
    },
}

impl ValueType {
    /// Returns whether the values are integers from 0 on, which [`Map::get`](crate::Map::get) returns.
    pub(crate) fn is_unsigned(self) -> bool {
        matches!(self, Self::Integers { min: 0, .. })
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integers { min, max } => write!(f, "integers from {min} to {max}"),
            Self::Bytes { distinct: 1 } => write!(f, "one byte string"),
            Self::Bytes { distinct } => write!(f, "{distinct} distinct byte strings"),
        }
    }
}

/// Returns the smallest and the largest of `integers` if one map can hold them all: see [`Value`].
pub(crate) fn integer_range(integers: impl Iterator<Item = i128>) -> Option<(i128, i128)> {
    let (mut min, mut max) = (i128::MAX, i128::MIN);
    for number in integers {
        (min, max) = (min.min(number), max.max(number));
    }
    if max < min {
        return Some((0, 0));
    }
    let (lowest, highest) = (i64::MIN.into(), u64::MAX.into());
    (min >= lowest && max <= highest && max - min <= highest).then_some((min, max))
}
