//! Linear systems over GF(2), the field of two elements, in which addition is XOR.
//!
//! [`band`] solves systems whose equations each touch one window of 64 neighbouring unknowns.
//! [`windows`] solves systems whose equations touch two windows anywhere. Both lay out solutions
//! in the same way, and [`dot`] evaluates equations on either.

pub mod band;
pub mod dot;
pub mod windows;
