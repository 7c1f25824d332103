//! An exact dictionary, with an adaptive filter in front of a real store.

mod dictionary;
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
