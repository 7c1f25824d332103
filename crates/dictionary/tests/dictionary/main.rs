//! The dictionary over each of its stores: against a model, by many threads, with faults, and killed.

mod accesses;
mod common;
mod crash;
mod faults;
mod model;
mod opening;
#[cfg(unix)]
mod server;
mod stores;
mod threads;
