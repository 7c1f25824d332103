//! Filters to and from a server, in chunks.

use std::hash::{BuildHasher, RandomState};

use redis::{Value, cmd};
use tamis::{AnyFilter, ChunkReader, ErrorKind, Keyed, Limits};

use crate::{Connection, Error};

/// The size of a chunk: 1 MiB.
const CHUNK_BYTES: usize = 1 << 20;

/// After this time in milliseconds the server deletes the temporary key of a client that was interrupted.
const LIFETIME_MS: u64 = 600_000;

/// Moves a key to another one, for good. A script is atomic on single servers and on clusters.
const SWAP: &str = "redis.call('PERSIST', KEYS[1]) return redis.call('RENAME', KEYS[1], KEYS[2])";

/// Loads a filter into a key. It replaces what the key held in one step, once the whole filter is there.
///
/// Calls `on_progress` with the number of bytes that were sent and with that of all bytes.
///
/// # Errors
/// Those of `TAMIS.LOAD` and of the connection; the key is then unchanged. The server deletes the bytes of an
/// interrupted load after 10 minutes.
pub fn push(
    connection: &mut Connection,
    key: &str,
    filter: &Keyed<AnyFilter>,
    on_progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    stage(connection, key, filter, on_progress)?.swap_in(connection)
}

/// A filter that was loaded into a temporary key.
pub(crate) struct StagedFilter<'a> {
    temporary: String,
    key: &'a str,
}

impl StagedFilter<'_> {
    /// Moves the filter to its key.
    pub(crate) fn swap_in(&self, connection: &mut Connection) -> Result<(), Error> {
        connection.query(cmd("EVAL").arg(SWAP).arg(2).arg(&self.temporary).arg(self.key))
    }

    /// Deletes the filter.
    pub(crate) fn discard(&self, connection: &mut Connection) {
        // Without a connection the server deletes it later.
        let _ = connection.query::<()>(cmd("UNLINK").arg(&self.temporary));
    }
}

/// Loads a filter into a temporary key of the same slot as `key`.
pub(crate) fn stage<'a>(
    connection: &mut Connection,
    key: &'a str,
    filter: &Keyed<AnyFilter>,
    mut on_progress: impl FnMut(u64, u64),
) -> Result<StagedFilter<'a>, Error> {
    let staged = StagedFilter { temporary: temporary_key(key, "push"), key };
    check_module(connection, &staged.temporary)?;
    let (mut offset, total) = (0, filter.serialized_len());
    let sent = filter.write_chunks(CHUNK_BYTES, |chunk| {
        let (mut load, mut expire) = (cmd("TAMIS.LOAD"), cmd("PEXPIRE"));
        load.arg(&staged.temporary).arg(offset).arg(&chunk[..]);
        expire.arg(&staged.temporary).arg(LIFETIME_MS);
        connection.query_all(vec![load, expire])?;
        offset += chunk.len() as u64;
        on_progress(offset, total);
        Ok::<_, Error>(())
    });
    if let Err(error) = sent {
        staged.discard(connection);
        return Err(error);
    }
    Ok(staged)
}

/// Checks that the server has the module. A server without it replies with the bytes of a chunk, which are not
/// the text that an error must be.
fn check_module(connection: &mut Connection, key: &str) -> Result<(), Error> {
    match connection.query::<Value>(cmd("TAMIS.INFO").arg(key)) {
        Err(error @ Error::NoModule) => Err(error),
        // The key does not exist.
        _ => Ok(()),
    }
}

/// Returns the filter of a key, after checking every byte. Of a filter that changes while it is read, the server
/// makes a copy first.
///
/// Calls `on_progress` with the number of bytes that were received and with that of all bytes.
///
/// # Errors
/// Those of `TAMIS.DUMP` and of the connection; [`Error::Filter`] if the bytes are not a valid filter.
pub fn pull(
    connection: &mut Connection,
    key: &str,
    mut on_progress: impl FnMut(u64, u64),
) -> Result<Keyed<AnyFilter>, Error> {
    match read(connection, key, &mut on_progress) {
        Err(Error::Filter(error)) if error.kind() == ErrorKind::Corrupt => {}
        done => return done,
    }
    let copy = temporary_key(key, "pull");
    connection.query::<()>(cmd("COPY").arg(key).arg(&copy))?;
    connection.query::<()>(cmd("PEXPIRE").arg(&copy).arg(LIFETIME_MS))?;
    let filter = read(connection, &copy, &mut on_progress);
    // Without a connection the server deletes it later.
    let _ = connection.query::<()>(cmd("UNLINK").arg(&copy));
    filter
}

fn read(
    connection: &mut Connection,
    key: &str,
    mut on_progress: impl FnMut(u64, u64),
) -> Result<Keyed<AnyFilter>, Error> {
    let mut reader = ChunkReader::new(&Limits::default());
    let (mut offset, mut total) = (0, 0);
    loop {
        let (next, chunk): (u64, Vec<u8>) =
            connection.query(cmd("TAMIS.DUMP").arg(key).arg(offset))?;
        if offset == 0 {
            total = tamis::peek(&chunk)?.serialized_len;
        }
        reader.push(&chunk)?;
        on_progress(offset + chunk.len() as u64, total);
        if next == 0 {
            return Ok(Keyed::verified(reader.finish()?)?);
        }
        offset = next;
    }
}

/// Returns the name of a new key in the same slot as `key`.
fn temporary_key(key: &str, purpose: &str) -> String {
    let random = RandomState::new().hash_one(key);
    format!("{{{}}}:{purpose}:{random:016x}", tag(key))
}

/// Returns the part of a key that decides its slot: what is between the first braces, or all.
fn tag(key: &str) -> &str {
    let inner = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    inner.map_or(key, |(tag, _)| if tag.is_empty() { key } else { tag })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_those_of_clusters() {
        let tags = ["plain", "a{b}c", "{}x", "a{b", "{a}{b}"].map(tag);
        assert_eq!(tags, ["plain", "b", "{}x", "a{b", "a"]);
    }
}
