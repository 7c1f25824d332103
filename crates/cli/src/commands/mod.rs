//! One file per command, and what several commands share.

pub(crate) mod add;
pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod comm;
pub(crate) mod completions;
pub(crate) mod count;
pub(crate) mod demo;
pub(crate) mod dict;
pub(crate) mod diff;
#[cfg(feature = "explore")]
pub(crate) mod explore;
pub(crate) mod export;
pub(crate) mod filters;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod info;
pub(crate) mod ksat;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod parquet;
pub(crate) mod patch;
pub(crate) mod plan;
pub(crate) mod query;
mod ranges;
pub(crate) mod remove;
pub(crate) mod resize;
pub(crate) mod sat;
pub(crate) mod server;
pub(crate) mod set;
pub(crate) mod similar;
pub(crate) mod uniq;
pub(crate) mod verify;

use std::path::Path;

use anyhow::{Result, anyhow};
use tamis::{Capability, Kind};

use crate::entries::Found;
use crate::errors::failure;
use crate::files;

/// Returns the bits per key, or `None` without keys.
fn bits_per_key(bytes: u64, keys: u64) -> Option<f64> {
    (keys > 0).then(|| bytes as f64 * 8.0 / keys as f64)
}

/// Returns the efficiency: the information-theoretic minimum over the actual size.
fn efficiency(bits: Option<f64>, fpr: f64) -> Option<f64> {
    bits.filter(|_| fpr > 0.0).map(|bits| -fpr.log2() / bits)
}

/// Returns what a message says about repeated keys that were dropped.
fn dropped(keys: u64) -> String {
    match keys {
        0 => String::new(),
        1 => ", dropped 1 duplicate".into(),
        _ => format!(", dropped {keys} duplicates"),
    }
}

/// Checks that the kind of the filter in `path` has a capability.
fn require(kind: Kind, capability: Capability, path: &Path) -> Result<()> {
    if kind.can(capability) {
        return Ok(());
    }
    Err(failure(files::name(path), &tamis::Error::Unsupported { kind, capability }))
}

/// Returns the names of a kind's capabilities.
fn names(kind: Kind) -> Vec<&'static str> {
    kind.capabilities().iter().map(|capability| capability.name()).collect()
}

/// Returns the error for two keys with the same 64-bit digest, which no static kind can distinguish.
/// Among 10^9 keys its probability is 3 %.
fn same_digest(first: &Found, second: &Found) -> anyhow::Error {
    anyhow!(
        "{} and {}: two keys have the same 64-bit hash; build again with another --seed",
        first.place,
        second.place
    )
}
