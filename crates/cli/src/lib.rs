//! The command `tamis`, as a library: `main.rs` only calls [`run`].

pub mod bench;
pub mod demo;
mod input;
