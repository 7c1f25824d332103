//! Arbitrary and forged files as filters.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tamis_fuzz::read(bytes));
