//! Tests of the dictionary over each store: against a model, with many threads, with faults and with crashes.

mod accesses;
mod common;
mod crash;
mod faults;
mod model;
mod module_order;
mod modules;
mod opening;
#[cfg(unix)]
mod server;
mod stores;
mod threads;
