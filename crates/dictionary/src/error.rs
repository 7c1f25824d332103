//! What can go wrong, in one type.

use std::fmt;

/// Why something could not be done.
///
/// After a failed write it is not known which part of it the store has done: it may be any, and will
/// be told when the keys are asked for. The filter is right in either case.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The store did not answer, or refused.
    Store {
        /// Which store.
        store: &'static str,
        /// What it said.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another dictionary has this store open.
    InUse,
    /// Another dictionary took the store over: this one may write no more.
    Fenced,
    /// There is no dictionary.
    Missing,
    /// There is a dictionary already, or something else.
    Exists,
    /// A dictionary of another version.
    Version {
        /// The one that was found; this program has [`VERSION`](crate::VERSION).
        found: u64,
    },
    /// The store holds a dictionary of another kind than was asked for.
    Mismatch {
        /// What differs.
        what: &'static str,
    },
    /// What the store holds about the dictionary makes no sense.
    Corrupt {
        /// What is wrong.
        what: &'static str,
    },
    /// No store of this kind was compiled in, or there is no such place.
    Unknown {
        /// Why not.
        why: &'static str,
    },
    /// Longer than the store takes.
    TooLong {
        /// Of what.
        what: &'static str,
        /// How long it is.
        bytes: u64,
        /// How long it may be.
        most: u64,
    },
    /// The filter could not be made.
    Filter(tamis::Error),
}

impl Error {
    /// Wraps what a store said.
    pub fn store(
        store: &'static str,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Store { store, error: error.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store { store, error } => {
                write!(f, "{store}: {error}")?;
                // Many a driver says no more than that it failed, and its source why.
                let mut source = error.source();
                while let Some(cause) = source {
                    write!(f, ": {cause}")?;
                    source = cause.source();
                }
                Ok(())
            }
            Self::InUse => write!(f, "in use by another dictionary"),
            Self::Fenced => write!(f, "another dictionary has taken the store over"),
            Self::Missing => write!(f, "no dictionary here"),
            Self::Exists => write!(f, "there is something here already"),
            Self::Version { found } => {
                let known = crate::VERSION;
                write!(f, "a dictionary of version {found}; this program knows version {known}")
            }
            Self::Mismatch { what } => write!(f, "the dictionary has another {what}"),
            Self::Corrupt { what } => write!(f, "damaged: {what}"),
            Self::Unknown { why } => write!(f, "{why}"),
            Self::TooLong { what, bytes, most } => {
                write!(f, "a {what} of {bytes} bytes; the store takes {most}")
            }
            Self::Filter(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Filter(error) => Some(error),
            _ => None,
        }
    }
}

impl From<tamis::Error> for Error {
    fn from(error: tamis::Error) -> Self {
        Self::Filter(error)
    }
}
