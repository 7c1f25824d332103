//! One logical filter over many keys.

use redis::{Cmd, RedisError, Value, cmd};
use tamis::{AnyFilter, Keyed};

use crate::{Connection, Error, files};

/// A filter in several keys, which lie in different slots of a cluster.
///
/// The shard of an item is `crc32(item) * shards >> 32`, and its key is `name:{shard}`. The Python helper
/// `tamis_redis.py` does the same. The number of shards is part of the filter: choose it once, some times the
/// number of nodes that the cluster may grow to.
#[derive(Clone, Debug)]
pub struct ShardedFilter {
    name: String,
    shards: u32,
}

impl ShardedFilter {
    /// The largest number of shards: a cluster has so many slots.
    pub const MAX_SHARDS: u32 = 16384;

    /// Names a filter in `shards` keys.
    ///
    /// # Panics
    /// Panics unless there are 1 to [`MAX_SHARDS`](Self::MAX_SHARDS) shards.
    pub fn new(name: impl Into<String>, shards: u32) -> Self {
        assert!((1..=Self::MAX_SHARDS).contains(&shards), "a filter has 1 to 16384 shards");
        Self { name: name.into(), shards }
    }

    /// Returns the key of a shard.
    pub fn key(&self, shard: u32) -> String {
        format!("{}:{{{shard}}}", self.name)
    }

    /// Returns the shard of an item.
    pub fn shard(&self, item: &[u8]) -> u32 {
        ((u64::from(crc32fast::hash(item)) * u64::from(self.shards)) >> 32) as u32
    }

    /// Makes the shards of a filter for `capacity` items in all. Without it, [`add`](Self::add) makes filters
    /// that grow.
    ///
    /// # Errors
    /// Those of `TAMIS.RESERVE`.
    pub fn reserve(
        &self,
        connection: &mut Connection,
        kind: tamis::Kind,
        capacity: u64,
        fpr: f64,
    ) -> Result<(), Error> {
        // Items are spread at random: a shard gets a few more than its part.
        let part = capacity.div_ceil(self.shards.into());
        let part = if self.shards > 1 { part + 4 * part.isqrt() + 1 } else { part };
        let commands = (0..self.shards).map(|shard| {
            let mut command = cmd("TAMIS.RESERVE");
            command.arg(self.key(shard)).arg(kind.name()).arg(part).arg(fpr);
            command
        });
        connection.query_all(commands.collect())?;
        Ok(())
    }

    /// Adds items. Returns for each whether it was certainly new.
    ///
    /// # Errors
    /// Those of `TAMIS.MADD`; items of other shards may be in.
    pub fn add<K: AsRef<[u8]>>(
        &self,
        connection: &mut Connection,
        items: &[K],
    ) -> Result<Vec<bool>, Error> {
        self.each(connection, "TAMIS.MADD", items)
    }

    /// Returns for each item whether it may be in the filter. `false` is certain.
    ///
    /// # Errors
    /// Those of `TAMIS.MEXISTS`.
    pub fn contains<K: AsRef<[u8]>>(
        &self,
        connection: &mut Connection,
        items: &[K],
    ) -> Result<Vec<bool>, Error> {
        self.each(connection, "TAMIS.MEXISTS", items)
    }

    /// Removes items that were added. Returns for each whether it was in.
    ///
    /// # Errors
    /// Those of `TAMIS.REM`.
    pub fn remove<K: AsRef<[u8]>>(
        &self,
        connection: &mut Connection,
        items: &[K],
    ) -> Result<Vec<bool>, Error> {
        self.each(connection, "TAMIS.REM", items)
    }

    /// Deletes all shards.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn delete(&self, connection: &mut Connection) -> Result<(), Error> {
        let unlink = |shard| {
            let mut command = cmd("UNLINK");
            command.arg(self.key(shard));
            command
        };
        connection.query_all((0..self.shards).map(unlink).collect())?;
        Ok(())
    }

    /// Loads one filter into each shard, in order. Filter `i` must hold the items whose
    /// [`shard`](Self::shard) is `i`. All are loaded before the first replaces what its key held.
    ///
    /// Calls `on_progress` with the number of bytes that were sent and with that of all bytes.
    ///
    /// # Errors
    /// Those of [`push`](crate::push). [`Error::Partial`] if the connection failed while the filters were
    /// swapped in; before that, all keys are unchanged.
    ///
    /// # Panics
    /// Panics unless there are as many filters as shards.
    pub fn push(
        &self,
        connection: &mut Connection,
        filters: &[Keyed<AnyFilter>],
        mut on_progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        assert_eq!(filters.len(), self.shards as usize, "each shard has one filter");
        let keys: Vec<String> = (0..self.shards).map(|shard| self.key(shard)).collect();
        let total = filters.iter().map(Keyed::serialized_len).sum();
        let (mut staged, mut before) = (Vec::new(), 0);
        for (key, filter) in keys.iter().zip(filters) {
            let progress = |done, _| on_progress(before + done, total);
            match files::stage(connection, key, filter, progress) {
                Ok(filter) => staged.push(filter),
                Err(error) => {
                    staged.iter().for_each(|filter| filter.discard(connection));
                    return Err(error);
                }
            }
            before += filter.serialized_len();
        }
        for (replaced, filter) in (0..).zip(&staged) {
            if let Err(error) = filter.swap_in(connection) {
                let error = Box::new(error);
                return Err(Error::Partial { replaced, shards: self.shards, error });
            }
        }
        Ok(())
    }

    /// Sends one command for each shard that has items, all at once.
    fn each<K: AsRef<[u8]>>(
        &self,
        connection: &mut Connection,
        name: &str,
        items: &[K],
    ) -> Result<Vec<bool>, Error> {
        let mut places = vec![Vec::new(); self.shards as usize];
        for (index, item) in items.iter().enumerate() {
            places[self.shard(item.as_ref()) as usize].push(index);
        }
        let used = || (0..).zip(&places).filter(|(_, indexes)| !indexes.is_empty());
        let command = |(shard, indexes): (u32, &Vec<usize>)| -> Cmd {
            let mut command = cmd(name);
            command.arg(self.key(shard));
            for index in indexes {
                command.arg(items[*index].as_ref());
            }
            command
        };
        let replies = connection.query_all(used().map(command).collect())?;
        let mut out = vec![false; items.len()];
        for ((_, indexes), reply) in used().zip(replies) {
            // An array can hold errors: that the filter is full.
            let reply = reply.extract_error().map_err(Error::from)?;
            let reply: Vec<Value> = redis::from_redis_value(reply).map_err(RedisError::from)?;
            for (index, value) in indexes.iter().zip(reply) {
                out[*index] = redis::from_redis_value(value).map_err(RedisError::from)?;
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Python helper's tests read the same file.
    #[test]
    fn shards_are_those_of_other_languages() {
        let vectors = include_str!("../../../testdata/contract/shards.csv");
        for line in vectors.lines().skip(1) {
            let [item, shards, shard] = line.split(',').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let byte = |at| u8::from_str_radix(&item[at..at + 2], 16).unwrap();
            let item: Vec<u8> = (0..item.len()).step_by(2).map(byte).collect();
            let filter = ShardedFilter::new("seen", shards.parse().unwrap());
            assert_eq!(filter.shard(&item).to_string(), shard, "{line}");
            assert_eq!(filter.key(filter.shard(&item)), format!("seen:{{{shard}}}"));
        }
        assert!(vectors.lines().count() > 50);
    }
}
