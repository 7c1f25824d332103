//! Memory caps, from the arguments of the module, checked before memory is allocated.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::allocator;
use crate::failure::Failure;
use crate::server::Context;

/// The cap for one filter that holds unless an argument sets another: 8 GiB.
const DEFAULT_FILTER_BYTES: u64 = 8 << 30;

static FILTER_BYTES: AtomicU64 = AtomicU64::new(DEFAULT_FILTER_BYTES);
static TOTAL_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);

/// The largest filter in bytes.
pub(crate) fn filter_bytes() -> u64 {
    FILTER_BYTES.load(Relaxed)
}

/// The most that all filters together may take in bytes.
pub(crate) fn total_bytes() -> u64 {
    TOTAL_BYTES.load(Relaxed)
}

/// Reads the module's arguments: `max-filter-bytes N max-total-bytes N`, with `kb`, `mb` or `gb` after N.
pub(crate) fn configure(arguments: &[&[u8]]) -> Result<(), String> {
    let (pairs, rest) = arguments.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("module arguments come in pairs of a name and a value".into());
    }
    for [name, value] in pairs {
        let bytes = parse_bytes(value)
            .ok_or_else(|| format!("invalid size {}", String::from_utf8_lossy(value)))?;
        match name.to_ascii_lowercase().as_slice() {
            b"max-filter-bytes" => FILTER_BYTES.store(bytes, Relaxed),
            b"max-total-bytes" => TOTAL_BYTES.store(bytes, Relaxed),
            _ => return Err(format!("unknown argument {}", String::from_utf8_lossy(name))),
        }
    }
    Ok(())
}

fn parse_bytes(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let units = [("kb", 10), ("mb", 20), ("gb", 30)];
    let (digits, shift) = units
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
        .unwrap_or((&text, 0));
    digits.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

/// Checks that a filter of `bytes` bytes, of which `held` are allocated already, is within the caps.
/// Commands of the master and of the append-only file are never refused.
pub(crate) fn check(context: &Context, bytes: u64, held: u64) -> Result<(), Failure> {
    let total = allocator::used().saturating_add(bytes.saturating_sub(held));
    let refusal = if bytes > filter_bytes() {
        format!("the filter needs {bytes} bytes; max-filter-bytes is {}", filter_bytes())
    } else if total > total_bytes() {
        format!("all filters would need {total} bytes; max-total-bytes is {}", total_bytes())
    } else {
        return Ok(());
    };
    if context.is_replayed() { Ok(()) } else { Err(refusal.into()) }
}
