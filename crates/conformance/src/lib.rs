//! What every filter must pass.
