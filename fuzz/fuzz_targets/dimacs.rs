//! Arbitrary formulas.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tamis_fuzz::dimacs(bytes));
