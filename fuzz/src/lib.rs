//! What the fuzzers call.
