//! Which store a name means.

use std::path::Path;

use super::{Layout, Store};
use crate::error::Error;

/// A store of whatever kind.
pub type AnyStore = Box<dyn Store>;

/// The kinds of names there are.
enum Kind {
    Redb,
    Fjall,
    Redis,
    Postgres,
}

fn kind(place: &str) -> Kind {
    let path = Path::new(place);
    match place.split_once("://") {
        Some(("redis" | "redis+unix", _)) => Kind::Redis,
        Some(("postgres" | "postgresql", _)) => Kind::Postgres,
        _ if path.is_file() => Kind::Redb,
        _ if path.extension().is_some_and(|ending| ending == "redb") && !path.is_dir() => {
            Kind::Redb
        }
        _ => Kind::Fjall,
    }
}

#[allow(unused_macros)] // with every store there is none to miss
macro_rules! missing {
    ($name:literal) => {
        Err(Error::Unknown { why: concat!("built without the store ", $name) })
    };
}

/// A new store: a file that ends in `.redb`, else a folder, `redis://HOST/` or `postgres://HOST/BASE`;
/// of a server, `#NAME` says which of its dictionaries.
pub fn create(place: &str, layout: Layout) -> Result<AnyStore, Error> {
    match kind(place) {
        #[cfg(feature = "redb")]
        Kind::Redb => Ok(Box::new(super::RedbStore::create(place, layout)?)),
        #[cfg(not(feature = "redb"))]
        Kind::Redb => missing!("redb"),
        #[cfg(feature = "fjall")]
        Kind::Fjall => Ok(Box::new(super::FjallStore::create(place, layout)?)),
        #[cfg(not(feature = "fjall"))]
        Kind::Fjall => missing!("fjall"),
        _ if layout == Layout::Secondary => {
            Err(Error::Unknown { why: "a server's entries lie in the clustered layout" })
        }
        #[cfg(feature = "postgres")]
        Kind::Postgres => Ok(Box::new(super::PostgresStore::create(place)?)),
        _ => open(place),
    }
}

/// A store that is there.
pub fn open(place: &str) -> Result<AnyStore, Error> {
    match kind(place) {
        #[cfg(feature = "redb")]
        Kind::Redb => Ok(Box::new(super::RedbStore::open(place)?)),
        #[cfg(not(feature = "redb"))]
        Kind::Redb => missing!("redb"),
        #[cfg(feature = "fjall")]
        Kind::Fjall => Ok(Box::new(super::FjallStore::open(place)?)),
        #[cfg(not(feature = "fjall"))]
        Kind::Fjall => missing!("fjall"),
        #[cfg(feature = "redis")]
        Kind::Redis => Ok(Box::new(super::RedisStore::open(place)?)),
        #[cfg(not(feature = "redis"))]
        Kind::Redis => missing!("redis"),
        #[cfg(feature = "postgres")]
        Kind::Postgres => Ok(Box::new(super::PostgresStore::open(place)?)),
        #[cfg(not(feature = "postgres"))]
        Kind::Postgres => missing!("postgres"),
    }
}

/// A server's address, and the name of the dictionary there: what follows a `#`, or `tamis`.
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(super) fn split_name(place: &str) -> Result<(&str, &str), Error> {
    let (address, name) = place.split_once('#').unwrap_or((place, "tamis"));
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || name.len() > 40 || !name.bytes().all(plain) {
        return Err(Error::Unknown {
            why: "a dictionary's name is up to 40 small letters, digits and underscores",
        });
    }
    Ok((address, name))
}
