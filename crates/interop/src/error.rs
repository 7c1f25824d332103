//! The error type.

use std::fmt;

use tamis::{AnyFilter, Keyed};

use crate::{Format, KeyType};

/// Why foreign bytes were not read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not a filter of this format.
    Malformed {
        /// The format.
        format: Format,
        /// What is wrong with the bytes.
        what: &'static str,
    },
    /// The filter cannot be written in this format.
    Unsuitable {
        /// The format.
        format: Format,
        /// The reason.
        why: String,
    },
    /// The Parquet file cannot be read, or has no such filter.
    Parquet(String),
    /// There is no format with this name.
    UnknownFormat(String),
    /// A key is not of the stated type.
    Key {
        /// The type.
        key_type: KeyType,
        /// The text of the key.
        text: String,
    },
    /// There is no type of keys with this name.
    UnknownType(String),
    /// The filter cannot be made.
    Filter(tamis::Error),
    /// A file cannot be read.
    Io(std::io::Error),
}

/// Returns [`Error::Malformed`].
pub(crate) fn malformed(format: Format, what: &'static str) -> Error {
    Error::Malformed { format, what }
}

/// Returns [`Error::Unsuitable`] for a filter whose keys another function has hashed.
pub(crate) fn other_hash(format: Format, filter: &Keyed<AnyFilter>) -> Error {
    let (has, needs) = (filter.hasher().id().name(), format.hasher().id().name());
    let why = format!(
        "its keys are hashed by {has} and not by {needs}, and the hash of a filter cannot be changed \
         without its keys"
    );
    Error::Unsuitable { format, why }
}

/// Returns [`Error::Unsuitable`] for a filter of another kind.
pub(crate) fn other_kind(format: Format, filter: &Keyed<AnyFilter>) -> Error {
    let why = format!("it is of the kind {}, which the format does not have", filter.kind());
    Error::Unsuitable { format, why }
}

/// Returns [`Error::Unsuitable`].
pub(crate) fn unsuitable(format: Format, why: &str) -> Error {
    Error::Unsuitable { format, why: why.into() }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { format, what } => write!(f, "not a {format} filter: {what}"),
            Self::Unsuitable { format, why } => {
                write!(f, "the filter cannot be written as {format}: {why}")
            }
            Self::Parquet(what) => f.write_str(what),
            Self::UnknownFormat(name) => {
                let known: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
                write!(f, "there is no format `{name}`; known are {}", known.join(", "))
            }
            Self::Key { key_type, text } => write!(f, "`{text}` is not of the type {key_type}"),
            Self::UnknownType(name) => {
                let known: Vec<_> = KeyType::ALL.iter().map(|key_type| key_type.name()).collect();
                write!(f, "there is no type `{name}`; known are {}", known.join(", "))
            }
            Self::Filter(error) => write!(f, "{error}"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Their texts are those of the errors inside.
            Self::Filter(error) => error.source(),
            Self::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl From<tamis::Error> for Error {
    fn from(error: tamis::Error) -> Self {
        Self::Filter(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}
