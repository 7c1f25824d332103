//! One file a command.

pub(crate) mod add;
pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod comm;
pub(crate) mod completions;
pub(crate) mod count;
pub(crate) mod demo;
pub(crate) mod dict;
pub(crate) mod filters;
pub(crate) mod get;
pub(crate) mod info;
pub(crate) mod ksat;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod plan;
pub(crate) mod query;
pub(crate) mod remove;
pub(crate) mod set;
pub(crate) mod similar;
pub(crate) mod uniq;
pub(crate) mod verify;

use std::path::Path;

use anyhow::{Result, anyhow};
use tamis::{Capability, Kind};

use crate::entries::Found;
use crate::errors::failure;

/// Bits of memory for each key, if there is any.
fn bits_per_key(bytes: u64, keys: u64) -> Option<f64> {
    (keys > 0).then(|| bytes as f64 * 8.0 / keys as f64)
}

/// The share of so many bits a key without which there is no filter of this rate: 1 is the best there
/// can be. None where there is nothing to tell.
fn efficiency(bits: Option<f64>, fpr: f64) -> Option<f64> {
    bits.filter(|_| fpr > 0.0).map(|bits| -fpr.log2() / bits)
}

/// That the kind of the filter in this file can do what is asked.
fn require(kind: Kind, what: Capability, path: &Path) -> Result<()> {
    if kind.can(what) {
        return Ok(());
    }
    Err(failure(path.display(), &tamis::Error::Unsupported { kind, what }))
}

/// What a kind can do, by name.
fn names(kind: Kind) -> Vec<&'static str> {
    kind.capabilities().iter().map(|capability| capability.name()).collect()
}

/// Two keys that no static kind can tell apart: among 10^9 keys a chance of 3 %.
fn same_digest(first: &Found, second: &Found) -> anyhow::Error {
    anyhow!(
        "{} and {}: two keys with the same digest; build again with another --seed",
        first.place,
        second.place
    )
}
