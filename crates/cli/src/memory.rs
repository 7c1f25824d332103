//! The memory of the machine and of this process.

use std::fs;

use anyhow::{Result, bail};

use crate::number::show_size;

/// Checks that a filter of `bytes` fits in `limit` or, without a limit, in the available memory.
pub(crate) fn check_memory(bytes: u64, limit: Option<u64>) -> Result<()> {
    check_memory_of("the filter", bytes, limit)
}

/// Checks that `what`, which takes `bytes`, fits in `limit` or, without a limit, in the available memory.
pub(crate) fn check_memory_of(what: &str, bytes: u64, limit: Option<u64>) -> Result<()> {
    let needs = show_size(bytes);
    match (limit, available()) {
        (Some(limit), _) if bytes > limit => {
            bail!("{what} needs {needs}, but --max-memory is {}", show_size(limit))
        }
        (None, Some(free)) if bytes > free => {
            bail!("{what} needs {needs}, but only {} of memory are available", show_size(free))
        }
        _ => Ok(()),
    }
}

/// Returns the memory that can be allocated without swapping and within the limit of the address space
/// (`ulimit -v`), or `None` on systems other than Linux.
pub(crate) fn available() -> Option<u64> {
    let free = kibibytes("/proc/meminfo", "MemAvailable:")?;
    Some(address_space().map_or(free, |space| space.min(free)))
}

/// Returns what is left of the address space, or `None` if it is not limited.
fn address_space() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(kibibytes("/proc/self/status", "VmSize:")?))
}

/// Returns the peak resident memory of this process, or `None` on systems other than Linux.
pub(crate) fn peak() -> Option<u64> {
    kibibytes("/proc/self/status", "VmHWM:")
}

fn kibibytes(file: &str, field: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}
