//! A filter as the bytes of a `.tamis` file, in chunks.

use std::sync::Arc;

use crate::arguments::{Words, bytes, number};
use crate::background::{self, Reply, SMALL_BYTES, Server};
use crate::failure::Failure;
use crate::limits;
use crate::server::{Argument, Context, Key};
use crate::value::{CHUNK_BYTES, Filter, Loading, Value};

use super::Done;

/// The largest chunk that `TAMIS.DUMP` returns: 64 MiB.
const MAX_DUMP_BYTES: usize = 64 << 20;

/// `TAMIS.DUMP key offset [COUNT bytes]`
pub(crate) fn dump(context: &Context, arguments: &[Argument]) -> Done {
    let [name, offset, words @ ..] = arguments else { return Err(Failure::Arity) };
    let words = bytes(words);
    let mut words = Words::new(&words);
    let mut count = CHUNK_BYTES;
    while let Some(word) = words.next() {
        if !word.eq_ignore_ascii_case(b"COUNT") {
            return Err(Failure::SYNTAX);
        }
        count = words.number("the count")?;
    }
    let count = count.clamp(1, MAX_DUMP_BYTES);
    let offset = number(offset.bytes(), "the offset")?;
    let (chunk, end) = dump_chunk(context, name, offset, count)?;
    let next = offset.saturating_add(chunk.len() as u64);
    context.reply_array(2);
    context.reply_integer(if next < end { next } else { 0 });
    context.reply_bytes(&chunk);
    Ok(())
}

/// Returns the bytes of a filter from `offset` on, and its length.
pub(crate) fn dump_chunk(
    context: &Context,
    name: &Argument,
    offset: u64,
    count: usize,
) -> Result<(Vec<u8>, u64), Failure> {
    let key = context.key(name)?;
    let filter = key.value().ok_or(Failure::MISSING)?.filter()?;
    Ok((filter.read_at(offset, count), filter.serialized_len()))
}

/// `TAMIS.LOAD key offset bytes`
pub(crate) fn load(context: &Context, arguments: &[Argument]) -> Done {
    let [name, offset, chunk] = arguments else { return Err(Failure::Arity) };
    let offset = number(offset.bytes(), "the offset")?;
    load_chunk(context, name, offset, chunk.bytes(), |missing| match missing {
        Some(missing) => Reply::Integer(missing),
        None => Reply::Null,
    })
}

/// Takes a chunk of a filter's bytes, and replies by `reply` how many bytes are missing, if the chunks so far
/// tell. A chunk that does not belong to a filter ends the load. Once all bytes are there, a thread checks them
/// and makes the filter.
pub(crate) fn load_chunk(
    context: &Context,
    name: &Argument,
    offset: u64,
    chunk: &[u8],
    reply: fn(Option<u64>) -> Reply,
) -> Done {
    let mut key = context.key_mut(name)?;
    let exists = key.value().is_some();
    let mut loading = match key.value_mut() {
        Some(Value::Filter(_)) => return Err(Failure::EXISTS),
        Some(Value::Loading(loading)) if offset == loading.received && offset > 0 => {
            std::mem::replace(loading, Loading::new())
        }
        Some(Value::Loading(loading)) if offset > 0 => {
            return Err(format!("the next chunk has the offset {}", loading.received).into());
        }
        // The build of staged keys reaches replicas as the bytes of the filter.
        Some(Value::Staged(_)) if !(offset == 0 && context.is_replayed()) => {
            return Err(Failure::EXISTS);
        }
        None if offset > 0 => return Err(Failure::text("the first chunk has the offset 0")),
        _ => Loading::new(),
    };
    let largest = if context.is_replayed() { u64::MAX } else { limits::filter_bytes() };
    let at_once = context.must_not_block();
    let result = loading.push(chunk, largest).and_then(|missing| {
        let total = missing.map(|missing| missing.saturating_add(loading.received));
        limits::check(context, total.unwrap_or(0), loading.received)?;
        match missing {
            Some(0) if at_once || loading.received < SMALL_BYTES => Ok(loading.finish()?.into()),
            _ => Ok(Value::Loading(loading)),
        }
    });
    let value = match result {
        Ok(value) => value,
        Err(failure) => {
            if exists {
                end_load(context, &mut key, name.bytes());
            }
            return Err(failure);
        }
    };
    let missing = match &value {
        Value::Loading(loading) => loading.missing(),
        _ => Some(0),
    };
    match value {
        Value::Loading(mut loading) if missing == Some(0) => {
            // The key has the chunks before the last until a thread has checked all.
            let all = loading.clone();
            let last = loading.pop();
            let job = Load { name: name.bytes().to_vec(), begun: loading.state(), all, last };
            put(&mut key, Value::Loading(loading));
            drop(key);
            background::start(context, false, move |server| {
                job.run(server)?;
                Ok(reply(Some(0)))
            })
        }
        value => {
            put(&mut key, value);
            context.replicate_verbatim();
            reply(missing).send(context);
            Ok(())
        }
    }
}

/// Stores a value in place, so that the key's time to live stays. Returns what the key held.
fn put(key: &mut Key<'_>, new: Value) -> Option<Value> {
    match key.value_mut() {
        Some(value) => Some(std::mem::replace(value, new)),
        None => {
            key.set(new);
            None
        }
    }
}

fn end_load(context: &Context, key: &mut Key<'_>, name: &[u8]) {
    key.delete();
    context.replicate("DEL", &[name]);
}

/// The last chunk of a filter.
struct Load {
    name: Vec<u8>,
    /// What the key holds: the state of the load before the last chunk.
    begun: (u64, u64),
    all: Loading,
    last: Option<Arc<[u8]>>,
}

impl Load {
    /// Makes the filter and stores it, unless the key changes meanwhile.
    fn run(self, server: &Server<'_>) -> Done {
        let Self { name, begun, all, last } = self;
        let made = all.finish();
        // The chunks are freed after the server goes on.
        let chunks = server.locked(|context| {
            let mut key = context.key_named(&name)?;
            match key.value() {
                Some(Value::Loading(now)) if now.state() == begun => {}
                _ => return Err(CHANGED),
            }
            let chunks = match made {
                Ok(filter) => put(&mut key, filter.into()),
                Err(failure) => {
                    end_load(context, &mut key, &name);
                    return Err(failure);
                }
            };
            let (offset, last) = (begun.1.to_string(), last.as_deref().unwrap_or_default());
            context.replicate("TAMIS.LOAD", &[&name, offset.as_bytes(), last]);
            Ok(chunks)
        })?;
        drop(chunks);
        Ok(())
    }
}

const CHANGED: Failure = Failure::text("the key changed while its filter was checked");

/// Sends a filter to replicas and the append-only file, as commands that load it.
pub(crate) fn replicate_filter(context: &Context, name: &[u8], filter: &Filter) {
    let mut offset = 0u64;
    let sent: Result<(), std::convert::Infallible> = filter.write_chunks(CHUNK_BYTES, |chunk| {
        context.replicate("TAMIS.LOAD", &[name, offset.to_string().as_bytes(), &chunk]);
        offset += chunk.len() as u64;
        Ok(())
    });
    let Ok(()) = sent;
}
