//! An exact dictionary with an adaptive filter in front of a real store.
//!
//! ```
//! use tamis_dictionary::{Dictionary, Layout, Options, store::RedbStore};
//! use tamis::Broom;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("stock.redb");
//! let store = RedbStore::create(&path, Layout::Clustered)?;
//! let stock = Dictionary::<Broom, _>::create(store, Options::default())?;
//! stock.put(b"apple", b"3")?;
//! assert_eq!(stock.get(b"apple")?, Some(b"3".to_vec()));
//! assert_eq!(stock.get(b"pear")?, None); // the disk was not asked
//! stock.close()?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  get(x) ──► filter: surely not ──────────────────────────► None          most strangers end here
//!               │ perhaps
//!               ▼
//!             store: there it is ──────────────────────────► the value
//!               │ no, and these are the members around it
//!               ▼
//!             filter: does not let x in again ─────────────► None          1 stranger of 256
//! ```
//!
//! Asking a store for what it does not have costs a read of the disk, or a round trip. A filter in memory
//! answers nearly all such queries; the few it lets in by mistake cost the access that they would have cost
//! anyway. A static filter makes the same mistakes for ever, so that a key which is asked for often, or by
//! somebody who wishes you ill, costs an access each time. This one is told: in the [clustered
//! layout](Layout::Clustered) what it must know for that comes with the answer, and a false positive costs
//! the one access that found it out (1.04 with the sweeps, see [`Adapt`](tamis::Adapt)).
//!
//! | operation | accesses to the store |
//! | --- | --- |
//! | `get` of what is not there | 0, but for the rate; then 1, or 2 in the secondary layout |
//! | `get` of what is there | 1 |
//! | `put` | 1 write, no read |
//! | `delete` | 1 write; none of what is surely not there |
//!
//! # What holds
//!
//! * **Answers are exact**: the store decides. The filter lets in all that the store has: a key is let in
//!   before it is put, and denied only after it is deleted, under a lock over both. A repair is made only
//!   from a reading during which nothing was written nearby.
//! * **A write that fails** may have been done or not, as the store pleases. Its keys count as members until
//!   that is known.
//! * **After a crash** the filter is made anew by one scan of the keys. [`close`](Dictionary::close) saves it
//!   in the store itself, in parts that carry their number, a generation and checksums: what is damaged, old
//!   or another's is made anew, and [told](Dictionary::notices).
//! * **One process** has a dictionary open, any number of its threads use it. A second one is refused; one
//!   that lost its hold on a server without noticing may write no more ([`Error::Fenced`]).
//! * **Growing** is part by part: each of 16 to 1024 shards is made larger by a scan of its own keys, while
//!   the others go on.
//!
//! The seed of the hash is in the store: who can read it can find keys that pass for others. Who can only ask
//! cannot, with [`HashId::Secure`](tamis::HashId::Secure), which is the default.
//!
//! # Where it does not pay
//!
//! Where the store answers from memory anyway, a filter saves little. Where few strangers come again and
//! again, a small cache of them before a static filter does as well. It pays where a miss is dear, strangers
//! are many, and some of them persistent.
//!
//! `engine.rs` has the operations, `shard.rs` the locks, `state.rs` what is noted in the store,
//! [`store`] the stores. Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, *Bloom Filters, Adaptivity, and
//! the Dictionary Problem*, 2018.

mod dictionary;
mod engine;
mod error;
mod shard;
mod state;
mod stats;
pub mod store;

pub use dictionary::{Audit, Dictionary, Entries, Guard, Op, Options, Policy};
pub use error::Error;
pub use state::VERSION;
pub use stats::{Counts, Stats};
pub use store::{Layout, Store};
