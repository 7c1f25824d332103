//! What can be wrong with a file.

use std::fmt;
use std::io;

/// Why bytes are not a `.tamis` file that this version reads.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The input could not be read, or the output not written.
    Io(io::Error),
    /// It does not begin as a `.tamis` file does.
    Foreign,
    /// It is of a later version of the format.
    Version {
        /// The file's.
        found: u16,
        /// The latest that is read here.
        newest: u16,
    },
    /// It ends too early.
    Truncated {
        /// Bytes that the header promises.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// Something in it is not as it must be.
    Corrupt {
        /// The byte at which the wrong thing begins.
        at: u64,
        /// Which thing.
        what: &'static str,
    },
    /// It asks for more than the reader allows.
    Limit {
        /// Of what.
        what: &'static str,
        /// How much.
        asked: u64,
        /// How much is allowed.
        most: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Foreign => write!(f, "not a .tamis file"),
            Self::Version { found, newest } => {
                write!(f, "format version {found} is newer than {newest}, the newest read here")
            }
            Self::Truncated { expected, found } => {
                write!(f, "truncated: {found} of {expected} bytes")
            }
            Self::Corrupt { at, what } => write!(f, "corrupt at byte {at}: {what}"),
            Self::Limit { what, asked, most } => {
                write!(f, "{asked} {what} asked for, at most {most} allowed")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
