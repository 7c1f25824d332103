//! Changed files of every kind, and every operation on those that open.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tamis_fuzz::hostile(bytes);
});
