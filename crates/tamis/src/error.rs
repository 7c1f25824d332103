//! What can go wrong, in one type.

use std::path::PathBuf;
use std::{fmt, io};

use crate::filters::Kind;
use crate::plan::{Capability, MIN_FPR};

/// Why something could not be done. Nothing was changed or lost by the attempt.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A false positive rate outside of `MIN_FPR..1`.
    Fpr(f64),
    /// More was asked for than any filter here takes.
    Limit {
        /// Of what.
        what: &'static str,
        /// How much.
        asked: u64,
        /// The most there can be.
        most: u64,
    },
    /// No shape of this kind meets the goal.
    Infeasible {
        /// What stands in the way.
        why: &'static str,
    },
    /// A setting that the kind does not have, or a value that the setting does not take.
    Setting {
        /// The setting.
        name: String,
        /// What it was given.
        value: String,
        /// What it takes.
        takes: &'static str,
    },
    /// The filter holds as many keys as it was made for.
    Full {
        /// How many.
        keys: u64,
    },
    /// Two filters cannot be combined.
    Mismatch {
        /// What differs.
        what: &'static str,
    },
    /// This kind of filter cannot do that.
    Unsupported {
        /// The kind.
        kind: Kind,
        /// What it cannot do.
        what: Capability,
    },
    /// One key is told two things that cannot both hold.
    Conflict {
        /// The key's [`KeyHash::hi`](crate::KeyHash).
        digest: u64,
        /// What it is told.
        what: &'static str,
    },
    /// A value of more bits than the filter has for one.
    Value {
        /// The value.
        value: u64,
        /// Bits that there are.
        bits: u32,
    },
    /// Memory for the filter could not be had.
    Memory {
        /// How much was asked for.
        bytes: u64,
    },
    /// The limit of memory does not do for this build.
    MemoryLimit {
        /// The limit.
        limit: u64,
        /// What would do.
        needs: u64,
    },
    /// A build was stopped by its time limit or by whoever may cancel it.
    Stopped {
        /// What stopped it.
        why: &'static str,
        /// Keys that were placed by then.
        placed: u64,
        /// Of how many.
        keys: u64,
    },
    /// Keys could not be laid aside on disk.
    Scratch {
        /// The folder that was to take them.
        folder: PathBuf,
        /// Why it did not.
        error: io::Error,
    },
    /// No filter, or no hash, of this name or number.
    Unknown {
        /// `filter` or `hash`.
        what: &'static str,
        /// Its name or number.
        name: String,
    },
    /// The file is not what it should be.
    File(tamis_format::Error),
    /// The keys could not be read.
    Source(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fpr(fpr) => {
                write!(f, "a false positive rate lies between {MIN_FPR:e} and 1, not at {fpr:?}")
            }
            Self::Limit { what, asked, most } => {
                write!(f, "{asked} {what} asked for, at most {most} allowed")
            }
            Self::Infeasible { why } => write!(f, "no such filter: {why}"),
            Self::Setting { name, value, takes } => {
                write!(f, "setting {name}={value}: it takes {takes}")
            }
            Self::Full { keys } => write!(f, "full: the filter was made for {keys} keys"),
            Self::Mismatch { what } => write!(f, "the filters differ in their {what}"),
            Self::Unsupported { kind, what } => {
                let able: Vec<_> =
                    Kind::ALL.iter().filter(|k| k.can(*what)).map(|k| k.name()).collect();
                write!(f, "a {kind} filter cannot {what}; these can: {}", able.join(", "))
            }
            Self::Conflict { digest, what } => {
                write!(f, "the key with the digest {digest:016x} is {what}")
            }
            Self::Value { value, bits } => {
                write!(f, "the value {value} takes more than the {bits} bits that there are")
            }
            Self::Memory { bytes } => write!(f, "{bytes} bytes of memory could not be had"),
            Self::MemoryLimit { limit, needs } => {
                write!(f, "{limit} bytes of memory are too few for this build: {needs} would do")
            }
            Self::Stopped { why, placed, keys } => {
                write!(f, "{why}: {placed} of {keys} keys were placed")
            }
            Self::Scratch { folder, error } => {
                write!(f, "laying keys aside in {}: {error}", folder.display())
            }
            Self::Unknown { what, name } => write!(f, "no {what} is called {name}"),
            Self::File(error) => write!(f, "{error}"),
            Self::Source(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(error) => Some(error),
            Self::Source(error) => Some(error.as_ref()),
            Self::Scratch { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<tamis_format::Error> for Error {
    fn from(error: tamis_format::Error) -> Self {
        Self::File(error)
    }
}

impl From<tamis_bits::OutOfMemory> for Error {
    fn from(error: tamis_bits::OutOfMemory) -> Self {
        Self::Memory { bytes: error.bytes }
    }
}

/// The filter holds all it was made for, and is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the filter is full")
    }
}

impl std::error::Error for Full {}
