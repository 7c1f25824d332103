//! One library for every approximate membership filter.
//!
//! A filter answers *is this key in the set?* from far less memory than the set takes. It may report a
//! non-member as a member, at a false positive rate that you choose; it never denies a member.
//!
//! ```
//! use tamis::{Keyed, SplitBlockBloom};
//!
//! let mut seen = Keyed::<SplitBlockBloom>::with_capacity(1_000_000, 0.01)?;
//! seen.insert("apple")?;
//! assert!(seen.contains("apple"));
//! # let path = std::env::temp_dir().join(format!("tamis-doc-{}.tamis", std::process::id()));
//! seen.save(&path)?;
//! let seen = Keyed::<SplitBlockBloom>::open(&path)?; // mapped, not read: instant at any size
//! assert!(seen.contains("apple"));
//! # std::fs::remove_file(path).unwrap();
//! # Ok::<_, tamis::Error>(())
//! ```
//!
//! # Overview
//!
//! * [`Keyed<F>`] is what you hold: a [`KeyHasher`] and a filter. It takes strings, bytes, integers and
//!   tuples, and [`Keyed::builder`] makes it.
//! * The [filters] work on [`KeyHash`]es, 128 bits per key. Their abilities are traits: [`Insert`],
//!   [`Remove`], [`Count`], [`Merge`], [`SetOps`], [`List`], [`Resize`], [`Overfill`], [`Grow`],
//!   [`Window`], [`Static`], [`Map`], [`Deny`], [`Range`], [`Adapt`], [`Persist`].
//! * [`AnyFilter`] and [`Kind`] are for kinds that are known only at run time. `Keyed<AnyFilter>` has every
//!   operation of every kind; one that its kind lacks is [`Error::Unsupported`].
//! * [`BuildParts`] builds a static filter in parts, on several machines.
//! * A [`Shape`] is a filter's geometry. [`plan::solve`] finds it from any two of keys, false positive
//!   rate and bytes; [`plan::recommend`] compares the kinds.
//!
//! # Guarantees
//!
//! * A filter never denies a member: after any sequence of operations, through saving and opening.
//! * A full filter returns [`Full`] and is unchanged; its rate does not rise silently. Kinds that accept
//!   more keys say so ([`Overfill`]), and [`Shape::fpr_at`] states the rate; kinds that [`Grow`] keep
//!   their rate.
//! * The same keys, seed and shape give the same bytes, on any machine and any number of threads.
//! * The seed is random unless you set it. Where others choose the keys, use [`HashId::Secure`].
//! * A damaged or hostile file is an [`Error`], never a panic and never a large allocation.
//!
//! # Feature flags
//!
//! | feature | default | enables |
//! | --- | --- | --- |
//! | `std` | yes | files, threads, memory limits, time limits, random seeds, detection of SIMD instructions |
//! | `libm` | no | floating-point functions in Rust; required without `std` |
//! | `serde` | no | `Serialize` and `Deserialize` for [`Keyed`], as the bytes of a `.tamis` file |
//!
//! Without `std` the crate is `no_std` with `alloc`: it queries, inserts, builds on one thread, and reads
//! and writes bytes in memory. A builder then needs a seed ([`Builder::seed`]). The sizes of filters come
//! from floating-point functions, which may differ in the last bit between `std` and `libm`. The two can
//! therefore make tables of slightly different sizes from the same goal; either reads the bytes of the
//! other.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

#[cfg(not(any(feature = "std", feature = "libm")))]
compile_error!("enable the feature `std` or the feature `libm`");

mod any;
mod capability;
mod container;
mod error;
pub mod filters;
mod gather;
mod hash;
mod inspect;
mod keyed;
mod kind;
mod limits;
#[cfg(not(feature = "std"))]
mod math;
mod options;
mod parts;
pub mod plan;
mod registry;
mod settings;
mod shape;
#[cfg(feature = "std")]
mod shared;
mod sizing;
mod source;
mod sync;
mod traits;
mod values;

pub use any::{
    AnyFilter, BuildDenyingFn, BuildMapFn, BuildValuesFn, CombineFn, CompareFn, Registered,
};

pub use capability::{Capability, UnknownName};
pub use container::{Container, FileInfo, peek};
pub use error::{Error, ErrorKind, Full};
pub use filters::*;
pub use gather::PartRange;
pub use hash::{HashId, Key, KeyHash, KeyHasher, OrderedKey, Probes};
pub use inspect::{Cell, CellTable, Inspect, Step};
pub use keyed::{Builder, Keyed};
pub use kind::{Copies, Kind};
pub use options::{BuildOptions, Progress, Search};
pub use parts::{BuildParts, GatheredPart, Part};
pub use plan::{Advice, Merit};
pub use settings::{Parameters, Setting, SettingValue, Settings};
pub use shape::{Figures, Goal, Shape};
#[cfg(feature = "std")]
pub use shared::{Share, Shared};
pub use sizing::Sizing;
pub use source::{EntrySource, Hashes, KeySource, Source, ValueSource};
pub use tamis_bits::{BytesOwner, TableMemory, set_table_memory, table_memory};
pub use tamis_format::{
    ChunkReader, Error as FileError, Header, KeyForms, Limits, Name, Reader, Writer,
};
pub use traits::{
    Adapt, Build, BuildMap, Count, Deny, Filter, Grow, Insert, List, Map, Merge, Overfill, Persist,
    Range, Remove, Repair, Resize, SetOps, Static, Window, given,
};
pub use values::{Value, ValueType};

// The examples of these pages are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../../../docs/getting-started.md")]
struct GettingStarted;
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes/dedup-a-log.md")]
struct DedupALog;
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes/ship-a-deny-list.md")]
struct ShipADenyList;
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes/split-a-join.md")]
struct SplitAJoin;
