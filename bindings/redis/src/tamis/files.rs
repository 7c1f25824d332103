//! A filter as the bytes of a `.tamis` file, in chunks.

use crate::arguments::{Words, bytes, number};
use crate::failure::Failure;
use crate::limits;
use crate::server::{Argument, Context};
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
    match load_chunk(context, name, offset, chunk.bytes())? {
        Some(missing) => context.reply_integer(missing),
        None => context.reply_null(),
    }
    Ok(())
}

/// Takes a chunk of a filter's bytes, and makes the filter once all are there. Returns how many bytes are
/// missing, if the chunks so far tell. A chunk that does not belong to a filter ends the load.
pub(crate) fn load_chunk(
    context: &Context,
    name: &Argument,
    offset: u64,
    chunk: &[u8],
) -> Result<Option<u64>, Failure> {
    let mut key = context.key_mut(name)?;
    let begun = key.value().is_some();
    let mut loading = match key.value_mut() {
        Some(Value::Filter(_)) => return Err(Failure::EXISTS),
        Some(Value::Loading(loading)) if offset == loading.received && offset > 0 => {
            std::mem::take(loading)
        }
        Some(Value::Loading(loading)) if offset > 0 => {
            return Err(format!("the next chunk has the offset {}", loading.received).into());
        }
        // The build of staged keys reaches replicas as the bytes of the filter.
        Some(Value::Staged(_)) if !(offset == 0 && context.is_replayed()) => {
            return Err(Failure::EXISTS);
        }
        None if offset > 0 => return Err(Failure::text("the first chunk has the offset 0")),
        _ => Loading::default(),
    };
    let largest = if context.is_replayed() { u64::MAX } else { limits::filter_bytes() };
    let result = loading.push(chunk, largest).and_then(|missing| {
        let total = missing.map(|missing| missing.saturating_add(loading.received));
        limits::check(context, total.unwrap_or(0), loading.received)?;
        match missing {
            Some(0) => Ok((loading.finish()?.into(), missing)),
            _ => Ok((Value::Loading(loading), missing)),
        }
    });
    match result {
        Ok((value, missing)) => {
            key.set(value);
            context.replicate_verbatim();
            Ok(missing)
        }
        Err(failure) => {
            if begun {
                key.delete();
                context.replicate("DEL", &[name.bytes()]);
            }
            Err(failure)
        }
    }
}

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
