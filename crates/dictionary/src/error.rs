//! The error type of the crate.

use std::fmt;

/// The error of a dictionary or store operation.
///
/// If a write fails, the store may have applied all of it, part of it or nothing. Later lookups return what
/// the store holds; the filter accepts the keys in every case.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The store failed or could not be reached.
    Store {
        /// The name of the store.
        store: &'static str,
        /// The store's error.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another dictionary has the store open.
    InUse,
    /// Another dictionary has taken over the store; this one must neither read nor write.
    Fenced,
    /// The server has lost acknowledged writes, so that the filter no longer matches the store.
    LostWrites,
    /// There is no dictionary at this location.
    NotFound,
    /// The creation of a dictionary at this location was interrupted.
    Unfinished,
    /// The location already holds a dictionary or other data.
    AlreadyExists,
    /// The dictionary has an unsupported version.
    Version {
        /// The version in the store.
        found: u64,
        /// The version that this crate supports: [`VERSION`](crate::VERSION).
        supported: u64,
    },
    /// The dictionary was created with other types than it is opened with.
    Mismatch {
        /// The property that differs.
        what: &'static str,
    },
    /// The dictionary's data in the store is damaged.
    Corrupt {
        /// A description of the damage.
        what: &'static str,
    },
    /// An entry in the store is damaged.
    Damaged {
        /// The key of the entry, as the store returned it.
        key: Vec<u8>,
        /// A description of the damage.
        what: &'static str,
    },
    /// The location is invalid, or its store is not compiled in.
    Location {
        /// The reason.
        reason: &'static str,
    },
    /// A key is longer than the store supports.
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// The greatest length that the store supports.
        max: u64,
    },
    /// The filter could not be built.
    Filter(tamis::Error),
}

/// The category of an [`Error`], for callers that map errors to exceptions or exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store failed or could not be reached. A retry may succeed.
    Store,
    /// Another dictionary has the store open or has taken it over.
    InUse,
    /// There is no dictionary at the location, or only an unfinished one.
    NotFound,
    /// The location is not empty.
    AlreadyExists,
    /// The dictionary has another version or another kind of filter.
    Incompatible,
    /// The data in the store is damaged or lost.
    Corrupt,
    /// An argument is invalid: the location, or a key that is too long.
    InvalidInput,
    /// The filter could not be built.
    Filter,
}

impl Error {
    /// Wraps the error of a store.
    pub fn store(
        store: &'static str,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Store { store, error: error.into() }
    }

    /// Returns the category of the error.
    ///
    /// # Examples
    ///
    /// ```
    /// use tamis::Broom;
    /// use tamis_dictionary::{Dictionary, ErrorKind, Layout, store::MemoryStore};
    ///
    /// let empty = MemoryStore::new(Layout::Clustered);
    /// let error = Dictionary::<Broom, _>::open(empty).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store { .. } => ErrorKind::Store,
            Self::InUse | Self::Fenced => ErrorKind::InUse,
            Self::NotFound | Self::Unfinished => ErrorKind::NotFound,
            Self::AlreadyExists => ErrorKind::AlreadyExists,
            Self::Version { .. } | Self::Mismatch { .. } => ErrorKind::Incompatible,
            Self::Corrupt { .. } | Self::Damaged { .. } | Self::LostWrites => ErrorKind::Corrupt,
            Self::Location { .. } | Self::TooLong { .. } => ErrorKind::InvalidInput,
            Self::Filter(_) => ErrorKind::Filter,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store { store, error } => {
                write!(f, "{store}: {error}")?;
                // Many drivers give the cause only in the chain of sources.
                let mut source = error.source();
                while let Some(cause) = source {
                    write!(f, ": {cause}")?;
                    source = cause.source();
                }
                Ok(())
            }
            Self::InUse => write!(f, "in use by another dictionary"),
            Self::Fenced => write!(f, "another dictionary has taken over the store"),
            Self::LostWrites => {
                write!(f, "the server has lost acknowledged writes; open the dictionary again")
            }
            Self::NotFound => write!(f, "no dictionary here"),
            Self::Unfinished => {
                write!(f, "the creation of this dictionary was interrupted; create it again")
            }
            Self::AlreadyExists => write!(f, "a dictionary or other data already exists here"),
            Self::Version { found, supported } => {
                write!(f, "dictionary version {found} is not supported, only version {supported}")
            }
            Self::Mismatch { what } => write!(f, "the dictionary has a different {what}"),
            Self::Corrupt { what } => write!(f, "corrupt dictionary: {what}"),
            Self::Damaged { key, what } => {
                write!(f, "the entry of key \"{}\" is damaged: {what}", key.escape_ascii())
            }
            Self::Location { reason } => write!(f, "{reason}"),
            Self::TooLong { what, bytes, max } => {
                write!(f, "the {what} has {bytes} bytes; the store supports at most {max}")
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
