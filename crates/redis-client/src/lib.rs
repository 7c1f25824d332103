//! A client of the tamis module for Redis and Valkey (docs/redis.md).
//!
//! * [`Connection`] is a connection to a server or to all nodes of a cluster.
//! * [`ShardedFilter`] spreads one filter over many keys, and so over the nodes of a cluster.
//! * [`push`] loads a filter into a key, and [`pull`] reads it back, in chunks.
//!
//! ```no_run
//! use tamis_redis_client::{Connection, ShardedFilter};
//!
//! let mut connection = Connection::open("redis://127.0.0.1/")?;
//! let seen = ShardedFilter::new("seen", 64);
//! seen.add(&mut connection, &["apple", "pear"])?;
//! assert_eq!(seen.contains(&mut connection, &["apple"])?, [true]);
//! # Ok::<_, tamis_redis_client::Error>(())
//! ```

mod connection;
mod error;
mod files;
mod sharded;

pub use connection::Connection;
pub use error::Error;
pub use files::{pull, push};
pub use sharded::ShardedFilter;
