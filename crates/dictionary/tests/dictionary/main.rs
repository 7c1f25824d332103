//! Tests of the dictionary over each store: against a model, with many threads, with faults and with crashes.

mod accesses;
mod claims;
mod common;
mod crash;
mod creation;
mod damage;
mod faults;
mod interleaving;
mod model;
mod module_order;
mod modules;
mod opening;
#[cfg(unix)]
mod server;
mod stores;
mod threads;
