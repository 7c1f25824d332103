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

/// A store, if it was compiled in; if not, how to have it.
macro_rules! made {
    ($feature:literal, $store:ident::$make:ident($($argument:ident),+)) => {{
        #[cfg(feature = $feature)]
        let made = super::$store::$make($($argument),+).map(|store| Box::new(store) as AnyStore);
        #[cfg(not(feature = $feature))]
        let made = {
            let _ = ($($argument),+);
            let why = concat!("built without ", $feature, ": build with --features ", $feature);
            Err(Error::Unknown { why })
        };
        made
    }};
}

/// A new store: a file that ends in `.redb`, else a folder, `redis://HOST/` or `postgres://HOST/BASE`;
/// of a server, `#NAME` says which of its dictionaries.
pub fn create(place: &str, layout: Layout) -> Result<AnyStore, Error> {
    match kind(place) {
        Kind::Redb => made!("redb", RedbStore::create(place, layout)),
        Kind::Fjall => made!("fjall", FjallStore::create(place, layout)),
        Kind::Redis => made!("redis", RedisStore::create(place, layout)),
        Kind::Postgres => made!("postgres", PostgresStore::create(place, layout)),
    }
}

/// A store that is there.
pub fn open(place: &str) -> Result<AnyStore, Error> {
    match kind(place) {
        Kind::Redb => made!("redb", RedbStore::open(place)),
        Kind::Fjall => made!("fjall", FjallStore::open(place)),
        Kind::Redis => made!("redis", RedisStore::open(place)),
        Kind::Postgres => made!("postgres", PostgresStore::open(place)),
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
