//! Arbitrary operations against the oracle.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tamis_fuzz::ops(bytes));
