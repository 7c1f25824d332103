//! Why bytes are not a `.tamis` file.

use core::fmt;

use tamis_bits::OutOfMemory;

/// Why bytes are not a `.tamis` file that this version reads.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Reading the input or writing the output failed.
    #[cfg(feature = "std")]
    Io(std::io::Error),
    /// The bytes do not begin as a `.tamis` file does.
    Foreign,
    /// The bytes do not begin as a delta does.
    NotDelta,
    /// The delta was made from another base.
    OtherBase,
    /// The file has a later version of the format.
    Version {
        /// The version of the file.
        found: u16,
        /// The latest version that this reader knows.
        newest: u16,
    },
    /// The bytes end too early.
    Truncated {
        /// The number of bytes needed, as far as the bytes at hand tell.
        expected: u64,
        /// The number of bytes at hand.
        found: u64,
    },
    /// A value is not allowed, or contradicts another one.
    Corrupt {
        /// The byte at which the value begins, where it is known.
        at: Option<u64>,
        /// What is wrong.
        what: &'static str,
    },
    /// The file exceeds a limit of the reader.
    Limit {
        /// What is limited.
        what: &'static str,
        /// How much of it the file has.
        asked: u64,
        /// How much of it is allowed.
        most: u64,
    },
    /// An allocation failed.
    OutOfMemory {
        /// The size of the allocation.
        bytes: u64,
    },
}

impl Error {
    /// Returns [`Error::Corrupt`] without a place.
    pub fn corrupt(what: &'static str) -> Self {
        Self::Corrupt { at: None, what }
    }

    pub(crate) fn corrupt_at(at: u64, what: &'static str) -> Self {
        Self::Corrupt { at: Some(at), what }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "std")]
            Self::Io(error) => write!(f, "{error}"),
            Self::Foreign => write!(f, "not a .tamis file"),
            Self::NotDelta => write!(f, "not a delta of .tamis files"),
            Self::OtherBase => write!(f, "the delta was made from another file"),
            Self::Version { found, newest } => {
                write!(f, "format version {found} is not supported, the newest known is {newest}")
            }
            Self::Truncated { expected, found } => {
                write!(f, "truncated: {found} of {expected} bytes")
            }
            Self::Corrupt { at: Some(at), what } => write!(f, "corrupt at byte {at}: {what}"),
            Self::Corrupt { at: None, what } => write!(f, "corrupt: {what}"),
            Self::Limit { what, asked, most } => {
                write!(f, "{asked} {what} exceed the limit of {most}")
            }
            Self::OutOfMemory { bytes } => OutOfMemory { bytes: *bytes }.fmt(f),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            #[cfg(feature = "std")]
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(feature = "std")]
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<OutOfMemory> for Error {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory { bytes: error.bytes }
    }
}
