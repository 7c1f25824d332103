//! Errors.

use std::fmt;

use redis::RedisError;

/// An error of a server, a connection or a filter.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The address of the server is not a URL such as `redis://HOST:PORT/`.
    Address,
    /// The server does not have the tamis module.
    NoModule,
    /// The server replied with an error, or the connection failed.
    Server(RedisError),
    /// The bytes that the server sent are not a valid filter.
    Filter(tamis::Error),
    /// Some shards of a filter were replaced, and the others were not.
    Partial {
        /// The number of shards that were replaced, the first ones.
        replaced: u32,
        /// The number of shards.
        shards: u32,
        /// Why the next shard was not replaced.
        error: Box<Error>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("the address is not of the form redis://HOST:PORT/"),
            Self::NoModule => f.write_str("the server does not have the tamis module"),
            Self::Server(error) => match (error.code(), error.detail()) {
                (Some("ERR"), Some(text)) => f.write_str(text),
                (Some(code), Some(text)) => write!(f, "{code} {text}"),
                _ => f.write_str(&error.to_string().replace('\n', " ")),
            },
            Self::Filter(error) => error.fmt(f),
            Self::Partial { replaced, shards, error } => {
                write!(f, "{error}; {replaced} of {shards} shards were replaced")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Address | Self::NoModule => None,
            Self::Server(error) => Some(error),
            Self::Filter(error) => Some(error),
            Self::Partial { error, .. } => Some(error),
        }
    }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        let first = error.clone().into_server_errors().and_then(|all| all.first().cloned());
        let error = first.map_or(error, |(_, first)| first.into());
        match error.detail() {
            Some(text) if text.starts_with("unknown command 'TAMIS.") => Self::NoModule,
            _ => Self::Server(error),
        }
    }
}

impl From<tamis::Error> for Error {
    fn from(error: tamis::Error) -> Self {
        Self::Filter(error)
    }
}

impl From<tamis::FileError> for Error {
    fn from(error: tamis::FileError) -> Self {
        Self::Filter(error.into())
    }
}
