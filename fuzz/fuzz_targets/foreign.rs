//! Arbitrary bytes as filters of other programs.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tamis_fuzz::foreign(bytes));
