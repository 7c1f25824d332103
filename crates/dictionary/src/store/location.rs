//! The choice of a store by its location.

use std::path::Path;

use super::{Layout, Store};
use crate::error::Error;

/// A store whose type is chosen at run time, by [`create`] or [`open`].
pub type AnyStore = Box<dyn Store>;

/// The type of store that a location names.
enum Kind {
    Redb,
    Fjall,
    Redis,
    Postgres,
}

fn kind(location: &str) -> Kind {
    let path = Path::new(location);
    match location.split_once("://") {
        Some(("redis" | "redis+unix", _)) => Kind::Redis,
        Some(("postgres" | "postgresql", _)) => Kind::Postgres,
        _ if path.is_file() => Kind::Redb,
        _ if path.extension().is_some_and(|ending| ending == "redb") && !path.is_dir() => {
            Kind::Redb
        }
        _ => Kind::Fjall,
    }
}

/// Calls a constructor of a store, or returns an error if the store is not compiled in.
macro_rules! boxed {
    ($feature:literal, $store:ident::$make:ident($($argument:ident),+)) => {{
        #[cfg(feature = $feature)]
        let store = super::$store::$make($($argument),+).map(|store| Box::new(store) as AnyStore);
        #[cfg(not(feature = $feature))]
        let store = {
            let _ = ($($argument),+);
            let reason = concat!("built without ", $feature, ": build with --features ", $feature);
            Err(Error::Location { reason })
        };
        store
    }};
}

/// Creates a store. The location is one of
///
/// | location | store |
/// | --- | --- |
/// | a path with the extension `.redb` | a file, `RedbStore` |
/// | another path | a folder, `FjallStore` |
/// | `redis://HOST:PORT/NUMBER#NAME` | `RedisStore` |
/// | `postgres://USER@HOST/DATABASE#NAME` | `PostgresStore` |
///
/// `NAME` is the name of the dictionary on the server, `tamis` by default.
///
/// # Errors
///
/// Returns [`Error::AlreadyExists`] if the location holds data, [`Error::Location`] if it is invalid or its
/// store is not compiled in, and errors of the store.
///
/// # Examples
///
/// ```no_run
/// use tamis::Broom;
/// use tamis_dictionary::{Dictionary, Layout, Options, store};
///
/// let store = store::create("stock.redb", Layout::Clustered)?;
/// let stock = Dictionary::<Broom, _>::create(store, Options::default())?;
/// # Ok::<_, tamis_dictionary::Error>(())
/// ```
pub fn create(location: &str, layout: Layout) -> Result<AnyStore, Error> {
    match kind(location) {
        Kind::Redb => boxed!("redb", RedbStore::create(location, layout)),
        Kind::Fjall => boxed!("fjall", FjallStore::create(location, layout)),
        Kind::Redis => boxed!("redis", RedisStore::create(location, layout)),
        Kind::Postgres => boxed!("postgres", PostgresStore::create(location, layout)),
    }
}

/// Opens an existing store at a location as for [`create`].
///
/// # Errors
///
/// Returns [`Error::NotFound`] if the location holds no store, [`Error::Location`] if it is invalid or its
/// store is not compiled in, and errors of the store.
pub fn open(location: &str) -> Result<AnyStore, Error> {
    match kind(location) {
        Kind::Redb => boxed!("redb", RedbStore::open(location)),
        Kind::Fjall => boxed!("fjall", FjallStore::open(location)),
        Kind::Redis => boxed!("redis", RedisStore::open(location)),
        Kind::Postgres => boxed!("postgres", PostgresStore::open(location)),
    }
}

/// Splits a location on a server into the server's address and the name of the dictionary, which follows a
/// `#` and is `tamis` by default.
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(super) fn split_name(location: &str) -> Result<(&str, &str), Error> {
    let (address, name) = location.split_once('#').unwrap_or((location, "tamis"));
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || name.len() > 40 || !name.bytes().all(is_valid) {
        return Err(Error::Location {
            reason: "a dictionary's name is 1 to 40 lowercase letters, digits and underscores",
        });
    }
    Ok((address, name))
}
