//! One library for every approximate membership filter.
//!
//! A filter answers *is this key in the set?* from far less memory than the set takes. It may say
//! yes to a stranger, as rarely as you like; it never says no to a member.
//!
//! ```
//! use tamis::{Keyed, SplitBlockBloom};
//!
//! let mut seen = Keyed::<SplitBlockBloom>::with_capacity(1_000_000, 0.01)?;
//! seen.insert("apple")?;
//! assert!(seen.contains("apple"));
//! # let path = std::env::temp_dir().join(format!("tamis-doc-{}.tamis", std::process::id()));
//! seen.save(&path)?;
//! let seen = Keyed::<SplitBlockBloom>::open(&path)?; // mapped: instant, however large
//! assert!(seen.contains("apple"));
//! # std::fs::remove_file(path)?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # The pieces
//!
//! * [`Keyed<F>`] is what you hold: a [`KeyHasher`] and a filter. It takes strings, bytes and integers.
//! * The [filters] deal in [`KeyHash`]es: 128 bits a key. What they can do are traits: [`Insert`],
//!   [`Remove`], [`Count`], [`Merge`], [`SetOps`], [`Overfill`], [`Grow`], [`Window`], [`Static`],
//!   [`Map`], [`Adapt`], [`Persist`].
//! * A [`Shape`] is a filter's geometry. [`plan::solve`] finds it from any two of keys, false
//!   positive rate and bytes; [`plan::recommend`] compares the kinds.
//! * [`AnyFilter`] and [`Kind`] serve where the kind is known only when the program runs.
//!
//! # What holds
//!
//! * A member is never denied: after any sequence of operations, through saving and opening.
//! * A filter that is full says so ([`Full`]) and is unchanged; it does not quietly get worse. Kinds
//!   that go on instead say that too ([`Overfill`]), and [`Shape::fpr_at`] tells how much worse;
//!   kinds that [`Grow`] do not get worse.
//! * The same keys, seed and shape give the same bytes, on any machine and any number of threads.
//! * A seed is random unless you give one. Where others choose the keys, use [`HashId::Secure`].
//! * A damaged or hostile file is an [`Error`], never a panic and never a large allocation.

mod any;
mod error;
mod filter;
pub mod filters;
mod gather;
mod hash;
mod keyed;
pub mod plan;

pub use error::{Error, Full};
pub use filter::{
    Adapt, Build, BuildOptions, Count, EntrySource, Filter, Grow, Hashes, Insert, KeySource, Map,
    Merge, Overfill, Persist, Progress, Remove, Repair, Search, SetOps, Static, Window,
};
pub use filters::adaptive_bloom::AdaptiveBloomShape;
pub use filters::adaptive_quotient::AdaptiveQuotientShape;
pub use filters::binary_fuse::BinaryFuseShape;
pub use filters::bloom::{BloomShape, SharedBloom};
pub use filters::bloom_g::BloomGShape;
pub use filters::bloomier::BloomierShape;
pub use filters::broom::BroomShape;
pub use filters::counting_bloom::CountingBloomShape;
pub use filters::counting_quotient::CountingQuotientShape;
pub use filters::cuckoo::CuckooShape;
pub use filters::growing::GrowingShape;
pub use filters::guarded::GuardedShape;
pub use filters::hash_compaction::HashCompactionShape;
pub use filters::morton::MortonShape;
pub use filters::quotient::QuotientShape;
pub use filters::removable_spectral_bloom::RemovableSpectralBloomShape;
pub use filters::removable_tinyset::RemovableTinySetShape;
pub use filters::ribbon::RibbonShape;
pub use filters::sat::SatShape;
pub use filters::scalable_bloom::ScalableBloomShape;
pub use filters::sliding::SlidingShape;
pub use filters::spectral_bloom::SpectralBloomShape;
pub use filters::split_block_bloom::SplitBlockBloomShape;
pub use filters::tinyset::TinySetShape;
pub use filters::xor::XorShape;
pub use filters::xorsat::XorSatShape;
pub use filters::{
    AdaptiveBloom, AdaptiveQuotient, AnyFilter, BinaryFuse, Bloom, BloomG, Bloomier, Broom,
    CountingBloom, CountingQuotient, Cuckoo, Growing, Guarded, HashCompaction, Kind, Morton,
    Quotient, Registered, RemovableSpectralBloom, RemovableTinySet, Ribbon, Sat, ScalableBloom,
    Sliding, SpectralBloom, SplitBlockBloom, TinySet, Xor, XorSat,
};
pub use hash::{HashId, Key, KeyHash, KeyHasher, Probes};
pub use keyed::{Keyed, Stored};
pub use plan::{Advice, Capability, Figures, Goal, Setting, Settings, Shape};
pub use tamis_format::{Limits, Reader, Writer};

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
