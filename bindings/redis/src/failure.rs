//! Error replies.

use std::borrow::Cow;
use std::fmt;

use tamis::{Error, FileError};

/// Why a command was refused.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The number of arguments is wrong.
    Arity,
    /// The key holds a value of another type.
    WrongType,
    /// The library refused.
    Filter(Error),
    /// What the reply says after `ERR`.
    Message(Cow<'static, str>),
}

impl Failure {
    /// The key does not exist.
    pub(crate) const MISSING: Self = Self::text("not found");
    /// The key exists.
    pub(crate) const EXISTS: Self = Self::text("item exists");
    /// A word is not an option of the command, or its value is missing.
    pub(crate) const SYNTAX: Self = Self::text("syntax error");

    pub(crate) const fn text(text: &'static str) -> Self {
        Self::Message(Cow::Borrowed(text))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Filter(error)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::Filter(error.into())
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Message(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arity => f.write_str("ERR wrong number of arguments"),
            Self::WrongType => {
                f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            Self::Filter(error) => write!(f, "ERR {error}"),
            Self::Message(text) => write!(f, "ERR {text}"),
        }
    }
}
