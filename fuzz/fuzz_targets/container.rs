//! Arbitrary bytes as a container.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tamis_fuzz::container(bytes));
