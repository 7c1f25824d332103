//! The error type.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
#[cfg(feature = "std")]
use std::{io, path::PathBuf};

use tamis_format::KeyForms;

use crate::capability::{Capability, UnknownName};
use crate::kind::Kind;
use crate::limits::MIN_FPR;
use crate::values::ValueType;

/// An error of this library. The operation that failed has changed and lost nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The false positive rate is not in `MIN_FPR..1`, nor 0 of a kind that
    /// [is exact](crate::Kind::is_exact).
    Fpr(f64),
    /// A number exceeds what any filter supports.
    Limit {
        /// The quantity.
        what: &'static str,
        /// The number that was requested.
        asked: u64,
        /// The largest that is supported.
        most: u64,
    },
    /// No shape of this kind meets the goal.
    Infeasible {
        /// The reason.
        why: &'static str,
    },
    /// The kind has no such setting, or the setting does not accept the value.
    Setting {
        /// The setting.
        name: String,
        /// The value that it was given.
        value: String,
        /// The values that it accepts.
        takes: &'static str,
    },
    /// A required option of a builder is missing.
    Missing {
        /// The option.
        what: &'static str,
    },
    /// An insertion did not fit: the filter is full.
    Full {
        /// The keys of the batch that were inserted before.
        inserted: u64,
    },
    /// There are more keys than the filter is made for.
    Capacity {
        /// The number of keys that it is made for.
        capacity: u64,
    },
    /// Two filters cannot be combined.
    Mismatch {
        /// What differs.
        what: &'static str,
    },
    /// A part of a build is wrong, or does not belong with the others.
    Part {
        /// The number of the part.
        part: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A solution of another solver does not satisfy the formula of a filter.
    Unsatisfied {
        /// The number of the solution, from 1.
        solution: u64,
        /// The number of the first clause that it violates, from 1.
        clause: u64,
    },
    /// The kind does not have this capability.
    Unsupported {
        /// The kind.
        kind: Kind,
        /// The capability.
        capability: Capability,
    },
    /// The filter holds keys of another form.
    KeyForm {
        /// The form of its keys.
        holds: KeyForms,
        /// The form of the key that was given.
        given: KeyForms,
    },
    /// One key is on two lists, or has two values.
    Conflict {
        /// The key's [`KeyHash::hi`](crate::KeyHash).
        digest: u64,
        /// The contradiction.
        what: &'static str,
    },
    /// The kind does not work with this hash function: `ordered` is for kinds that answer ranges, and
    /// they work with no other.
    Hash {
        /// The kind.
        kind: Kind,
        /// The name of the hash function.
        hash: &'static str,
    },
    /// A range begins after its end.
    ReversedRange,
    /// A value is wider than the filter's values.
    Value {
        /// The value.
        value: u64,
        /// The width of the filter's values in bits.
        bits: u32,
    },
    /// The map's values are of another type or range, or it does not have this byte string.
    ValueType {
        /// The values that it holds.
        holds: ValueType,
    },
    /// The integers of a map lie outside -2^63 to 2^64 - 1, or span 2^64 or more.
    IntegerSpan,
    /// An allocation failed.
    Memory {
        /// Its size.
        bytes: u64,
    },
    /// The build cannot be done within the memory limit.
    MemoryLimit {
        /// The limit in bytes.
        limit: u64,
        /// The bytes that the build needs.
        needs: u64,
    },
    /// The build was cancelled or reached its deadline.
    Stopped {
        /// The reason.
        why: &'static str,
        /// Keys that were placed by then.
        placed: u64,
        /// The number of keys.
        keys: u64,
    },
    /// A thread panicked while it changed this part of a [`Shared`](crate::Shared) filter.
    Poisoned,
    /// Keys could not be written to the scratch folder, or read back.
    #[cfg(feature = "std")]
    Scratch {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The operating system has no random bits for a seed.
    #[cfg(feature = "std")]
    Random(io::Error),
    /// There is no filter, hash or capability with this name or number.
    Unknown(UnknownName),
    /// An older version of this library wrote the bytes, in a form that is no longer read.
    Outdated {
        /// What has changed since then.
        what: &'static str,
    },
    /// A file or buffer could not be read or written.
    File(tamis_format::Error),
    /// The source of the keys failed.
    Source(Box<dyn core::error::Error + Send + Sync>),
}

/// The class of an [`Error`], for callers that map errors to exceptions or replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A parameter is out of range, unknown or missing.
    InvalidInput,
    /// The filter is full, or there are more keys than it is made for.
    Full,
    /// The kind cannot do this.
    Unsupported,
    /// Two filters, two parts of one, or a filter and a key, do not belong together.
    Mismatch,
    /// Two keys contradict each other.
    Conflict,
    /// Memory ran out, or the memory limit is too low.
    OutOfMemory,
    /// The build was cancelled or reached its deadline.
    Stopped,
    /// A thread panicked while it changed a shared filter.
    Poisoned,
    /// The bytes are not a valid `.tamis` file.
    Corrupt,
    /// Reading or writing failed.
    Io,
    /// The source of the keys failed.
    Source,
}

impl Error {
    /// Returns the class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Fpr(_)
            | Self::Limit { .. }
            | Self::Infeasible { .. }
            | Self::Setting { .. }
            | Self::Missing { .. }
            | Self::Hash { .. }
            | Self::ReversedRange
            | Self::Value { .. }
            | Self::ValueType { .. }
            | Self::IntegerSpan
            | Self::Unknown(_)
            | Self::Unsatisfied { .. }
            | Self::Outdated { .. } => ErrorKind::InvalidInput,
            Self::Full { .. } | Self::Capacity { .. } => ErrorKind::Full,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Mismatch { .. } | Self::Part { .. } | Self::KeyForm { .. } => ErrorKind::Mismatch,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Memory { .. } | Self::MemoryLimit { .. } => ErrorKind::OutOfMemory,
            Self::Stopped { .. } => ErrorKind::Stopped,
            Self::Poisoned => ErrorKind::Poisoned,
            #[cfg(feature = "std")]
            Self::Scratch { .. } | Self::Random(_) | Self::File(tamis_format::Error::Io(_)) => {
                ErrorKind::Io
            }
            Self::File(_) => ErrorKind::Corrupt,
            Self::Source(_) => ErrorKind::Source,
        }
    }
}

impl Error {
    /// The same after `keys` keys of a batch that were inserted before.
    pub(crate) fn after(self, keys: usize) -> Self {
        match self {
            Self::Full { inserted } => Self::Full { inserted: inserted + keys as u64 },
            error => error,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fpr(fpr) => {
                write!(
                    f,
                    "the false positive rate must be at least {MIN_FPR:e} and below 1, not {fpr:?}"
                )?;
                match *fpr == 0.0 {
                    true => f.write_str("; of all kinds only `exact` takes 0"),
                    false => Ok(()),
                }
            }
            Self::Limit { what, asked, most } => {
                write!(f, "{asked} {what} requested, at most {most} supported")
            }
            Self::Infeasible { why } => write!(f, "no such filter is possible: {why}"),
            Self::Setting { name, value, takes } => {
                write!(f, "invalid setting {name}={value}: it accepts {takes}")
            }
            Self::Missing { what } => write!(f, "{what} must be given"),
            Self::Full { inserted: 0 } => write!(f, "the filter is full"),
            Self::Full { inserted } => {
                write!(f, "the filter is full: only {inserted} keys of the batch were inserted")
            }
            Self::Capacity { capacity } => {
                write!(f, "more keys than the {capacity} that the filter is made for")
            }
            Self::Mismatch { what } => write!(f, "the filters differ in their {what}"),
            Self::Part { part, what } => write!(f, "part {part} {what}"),
            Self::Unsatisfied { solution, clause } => {
                write!(f, "solution {solution} does not satisfy clause {clause} of its formula")
            }
            Self::Unsupported { kind, capability } => {
                let able: Vec<_> =
                    Kind::ALL.iter().filter(|k| k.can(*capability)).map(|k| k.name()).collect();
                write!(
                    f,
                    "{kind} does not support {capability}; these kinds do: {}",
                    able.join(", ")
                )
            }
            Self::KeyForm { holds, given } => {
                write!(
                    f,
                    "the keys of this filter are {holds}, but the key given is of the form {given}"
                )
            }
            Self::Conflict { digest, what } => {
                write!(f, "the key with the digest {digest:016x} is {what}")
            }
            Self::Hash { kind, hash } => match kind.can(Capability::Range) {
                true => write!(f, "{kind} needs the hash `ordered`, not `{hash}`"),
                false => write!(f, "{kind} needs hashes without order, not `{hash}`"),
            },
            Self::ReversedRange => write!(f, "the range begins after its end"),
            Self::Value { value, bits } => {
                write!(f, "the value {value} does not fit in the {bits} bits of a value")
            }
            Self::ValueType { holds } => write!(f, "the values of this map are {holds}"),
            Self::IntegerSpan => {
                write!(f, "integers must lie between -2^63 and 2^64 - 1, and span less than 2^64")
            }
            Self::Memory { bytes } => write!(f, "failed to allocate {bytes} bytes"),
            Self::MemoryLimit { limit, needs } => {
                write!(
                    f,
                    "{limit} bytes of memory are too few: at least {needs} bytes are required"
                )
            }
            Self::Stopped { why, placed, keys } => {
                write!(f, "{why} after {placed} of {keys} keys")
            }
            Self::Poisoned => {
                write!(f, "a thread panicked while it changed this part of the shared filter")
            }
            #[cfg(feature = "std")]
            Self::Scratch { folder, error } => {
                write!(f, "scratch file in {}: {error}", folder.display())
            }
            #[cfg(feature = "std")]
            Self::Random(error) => {
                write!(f, "the operating system has no random bits for a seed: {error}")
            }
            Self::Unknown(unknown) => write!(f, "{unknown}"),
            Self::Outdated { what } => {
                write!(f, "written by an older version of tamis ({what}): build it again")
            }
            Self::File(error) => write!(f, "{error}"),
            Self::Source(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::File(error) => Some(error),
            Self::Source(error) => Some(error.as_ref()),
            #[cfg(feature = "std")]
            Self::Scratch { error, .. } | Self::Random(error) => Some(error),
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

/// The filter is full. The key, or the rest of the batch, was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Full {
    /// The keys of the batch that were inserted before; 0 for a single key.
    pub inserted: u64,
}

impl Full {
    /// Nothing was inserted.
    pub(crate) const NONE: Self = Self { inserted: 0 };

    /// The same after `keys` keys of a batch that were inserted.
    pub(crate) fn after(self, keys: usize) -> Self {
        Self { inserted: self.inserted + keys as u64 }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Error::from(*self).fmt(f)
    }
}

impl core::error::Error for Full {}

impl From<UnknownName> for Error {
    fn from(unknown: UnknownName) -> Self {
        Self::Unknown(unknown)
    }
}

impl From<Full> for Error {
    fn from(full: Full) -> Self {
        Self::Full { inserted: full.inserted }
    }
}
