//! Measures filters side by side. `tamis bench`, `lab` and `lab/peers` share this harness.
//!
//! | file | contents |
//! | --- | --- |
//! | `harness.rs` | [`Contender`], [`Keys`], the timed rounds ([`measure`]) and their [`Outcome`]s |
//! | `kinds.rs` | every kind of the registry as a [`Contender`] |
//! | `comparison.rs` | [`Options`], [`compare`], and results as a [`table`] and as JSON |
//!
//! The crate does not parse a command line: each program fills in [`Options`] from its own flags.

mod comparison;
mod harness;
mod kinds;

pub use comparison::{Options, compare, memory_bytes, table};
pub use harness::{
    Built, Contender, Keys, Metric, Outcome, Ratio, measure, measure_steps, peak_bytes, race,
};
pub use kinds::{KindContender, kind, kinds};
