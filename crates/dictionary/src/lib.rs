//! An exact key-value dictionary: an adaptive filter in memory in front of a store on disk or on a server.
//!
//! ```
//! use tamis::Broom;
//! use tamis_dictionary::{Dictionary, Layout, Options, store::RedbStore};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("stock.redb");
//! let store = RedbStore::create(&path, Layout::Clustered)?;
//! let stock = Dictionary::<Broom, _>::create(store, Options::default())?;
//! stock.put(b"apple", b"3")?;
//! assert_eq!(stock.get(b"apple")?, Some(b"3".to_vec()));
//! assert_eq!(stock.get(b"pear")?, None); // the filter rejects it; the file is not read
//! stock.close()?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  get(x) ──► filter: absent ──────────────────────────────► None          255 of 256 non-members
//!               │ maybe present
//!               ▼
//!             store: found ────────────────────────────────► Some(value)
//!               │ not found; returns the member keys near x
//!               ▼
//!             filter: adapts, rejects x from now on ───────► None          1 of 256 non-members
//! ```
//!
//! A lookup of an absent key costs a plain store one disk read or one network round trip. The filter rejects
//! most lookups of absent keys without touching the store. A false positive costs the access that the lookup
//! would have cost without a filter.
//!
//! A static filter repeats its false positives: a key that passes once passes every time, so a frequent key
//! or an attacker's key costs one access per lookup. This dictionary repairs the filter after each false
//! positive. In the [clustered layout](Layout::Clustered) the repair needs no further access, because the
//! member keys that it needs are returned by the access that found the false positive. Sweeps included, a
//! false positive costs 1.04 accesses (see [`Adapt`](tamis::Adapt)).
//!
//! | operation | accesses to the store |
//! | --- | --- |
//! | `get` of an absent key | 0; on a false positive 1, or 2 in the secondary layout |
//! | `get` of a present key | 1 |
//! | `put` | 1 write, no read |
//! | `delete` | 1 write; 0 if the filter rejects the key |
//!
//! # Guarantees
//!
//! * **Answers are exact.** The store decides. The filter accepts every key that the store holds: a key is
//!   inserted into the filter before it is put into the store, and removed from the filter only after it is
//!   deleted from the store, under one write lock over both. A repair is applied only if no write to its
//!   shard intervened since the members were read.
//! * **A failed write** may or may not have reached the store. Its keys stay in the filter until the outcome
//!   is known.
//! * **After a crash** the filter is rebuilt by one scan of the keys. [`close`](Dictionary::close) saves the
//!   filter in the store, in shards with a number, a generation and checksums. A shard that is damaged, old
//!   or from another dictionary is rebuilt, and [`notices`](Dictionary::notices) reports it.
//! * **Damage** in the store is an error, not an answer. Every stored value ends with a checksum of key and
//!   value, 4 bytes. [`verify`](Dictionary::verify) reports damaged entries, and entries that the filter holds
//!   and the store has lost.
//! * **One process** has a dictionary open; any number of its threads use it. A second process gets
//!   [`Error::InUse`]. On a server a process may lose its claim without noticing: another process takes over,
//!   the server is restored from an old backup, the connection breaks. It answers nothing without a
//!   confirmation of its claim within the [lease](Store::lease) of 5 s. So it denies a key that the new
//!   process has put for at most 5 s, and then gets [`Error::Fenced`], [`Error::LostWrites`] or an error of the
//!   store.
//! * **Creation** is all or nothing. If it fails the store is removed. If the process is killed, `open` returns
//!   [`Error::Unfinished`], and the next creation succeeds.
//! * **The filter grows** shard by shard: each of 16 to 1024 shards is enlarged by a scan of its own keys,
//!   while the other shards stay in use.
//!
//! The hash seed is stored in the store: anyone who can read the store can choose keys that collide with
//! others. With [`HashId::Secure`](tamis::HashId::Secure), the default, a client that can only make queries
//! cannot.
//!
//! # When not to use it
//!
//! A filter saves little if the store answers from memory. If only a few absent keys recur, a small cache of
//! them in front of a static filter does as well. The dictionary pays off if a miss is expensive, absent keys
//! are many, and some of them recur.
//!
//! # Modules
//!
//! Each module imports only from those above it; `tests/dictionary/modules.rs` checks this.
//!
//! | module | contents |
//! | --- | --- |
//! | `error` | [`Error`], [`ErrorKind`] |
//! | `random` | random numbers of the operating system |
//! | [`store`] | the [`Store`] trait and its implementations |
//! | `stats` | counters, [`Stats`], [`Audit`] |
//! | `options` | [`Options`], [`Policy`], [`Op`], [`DictionaryFilter`] |
//! | `shard` | one part of the filter and its locks |
//! | `manifest` | the metadata records that the dictionary keeps in its store |
//! | `engine` | the operations, [`Entries`] |
//! | `dictionary` | [`Dictionary`] |
//!
//! # Reference
//!
//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, *Bloom Filters, Adaptivity, and the Dictionary
//! Problem*, 2018.

mod dictionary;
mod engine;
mod error;
mod manifest;
mod options;
mod random;
mod shard;
mod stats;
pub mod store;

pub use dictionary::Dictionary;
pub use engine::Entries;
pub use error::{Error, ErrorKind};
pub use manifest::VERSION;
pub use options::{DictionaryFilter, Op, Options, Policy};
pub use stats::{Audit, Counts, Stats};
pub use store::{Layout, Store};

// The examples of these pages are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/dictionary.md")]
struct DictionaryPage;
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes/protect-a-database.md")]
struct ProtectADatabase;
