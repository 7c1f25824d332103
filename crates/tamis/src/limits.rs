//! Limits of every filter.

/// The largest number of keys of any filter.
pub const MAX_KEYS: u64 = 1 << 48;
/// The largest size of any filter in bytes.
pub const MAX_BYTES: u64 = 1 << 50;
/// The smallest false positive rate that any filter can be made for.
pub const MIN_FPR: f64 = 1e-15;
