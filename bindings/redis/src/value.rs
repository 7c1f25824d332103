//! The native type: what a key holds, and how the server saves, loads, copies, measures and frees it.

mod callbacks;
mod staged;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tamis::{AnyFilter, ChunkReader, Error, Keyed, Limits};

pub(crate) use self::callbacks::{module_type, register};
pub(crate) use self::staged::{Entry, Staged, build};
use crate::allocator;
use crate::failure::Failure;

/// The largest chunk of a filter in RDB files, append-only files, dumps and the replication stream: 1 MiB.
/// A bulk string may have 512 MB, but a large one blocks the server while it is sent.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// The filter of a key.
pub(crate) type Filter = Keyed<AnyFilter>;

/// What a key holds. A clone shares the memory of the original until one of them changes.
#[expect(clippy::large_enum_variant, reason = "each value has an allocation of its own")]
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A filter that answers.
    Filter(Held),
    /// The first bytes of a filter that is being loaded.
    Loading(Loading),
    /// The keys of a static filter that is not built yet.
    Staged(Staged),
}

/// A filter, and how far its growth has been checked against the memory caps.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Shared with the copies that `COPY` made, and with threads that read it. The first change copies it.
    filter: Arc<Filter>,
    /// The number of keys up to which the filter may grow without another check.
    pub(crate) checked_keys: u64,
}

impl Held {
    pub(crate) fn filter(&self) -> &Arc<Filter> {
        &self.filter
    }

    /// Returns the bytes that the server's allocator holds for the tables of the filter.
    pub(crate) fn table_memory(&self) -> u64 {
        allocator::table_memory(&self.filter)
    }

    /// Returns the filter, to change it.
    pub(crate) fn filter_mut(&mut self) -> Result<&mut Filter, Error> {
        if Arc::get_mut(&mut self.filter).is_none() {
            self.filter = Arc::new(self.filter.try_clone()?);
        }
        // The new allocation has one owner.
        Arc::get_mut(&mut self.filter).ok_or(Error::Poisoned)
    }
}

impl From<Filter> for Value {
    fn from(filter: Filter) -> Self {
        let checked_keys = filter.len().max(filter.capacity());
        Self::Filter(Held { filter: Arc::new(filter), checked_keys })
    }
}

impl Value {
    /// Returns the filter.
    pub(crate) fn filter(&self) -> Result<&Arc<Filter>, Failure> {
        match self {
            Self::Filter(held) => Ok(&held.filter),
            Self::Loading(_) => Err(STILL_LOADING),
            Self::Staged(_) => Err(NOT_BUILT),
        }
    }

    /// Returns the filter, to change it.
    pub(crate) fn held_mut(&mut self) -> Result<&mut Held, Failure> {
        match self {
            Self::Filter(held) => Ok(held),
            Self::Loading(_) => Err(STILL_LOADING),
            Self::Staged(_) => Err(NOT_BUILT),
        }
    }

    /// Returns the bytes of memory that the value takes.
    pub(crate) fn memory(&self) -> u64 {
        let tables = match self {
            Self::Filter(held) => held.table_memory() + size_of::<Filter>() as u64,
            Self::Loading(loading) => loading.received,
            Self::Staged(staged) => staged.memory(),
        };
        tables + size_of::<Self>() as u64
    }
}

const STILL_LOADING: Failure = Failure::text("the filter is still being loaded");
const NOT_BUILT: Failure = Failure::text("the filter is not built yet");

/// The first bytes of a filter, in the chunks in which they came. The filter is made when all are there.
#[derive(Clone, Debug)]
pub(crate) struct Loading {
    /// The number of this load, by which a thread recognises it.
    id: u64,
    /// Shared with the thread that makes the filter.
    chunks: Vec<Arc<[u8]>>,
    pub(crate) received: u64,
    /// The length of the filter's file, once the chunks tell it.
    total: Option<u64>,
}

impl Loading {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Relaxed), chunks: Vec::new(), received: 0, total: None }
    }

    /// Takes the next chunk. Returns how many bytes are missing, if that is known.
    ///
    /// # Errors
    /// If the bytes so far begin no filter, or one that is too large or shorter than they are.
    pub(crate) fn push(&mut self, chunk: &[u8], largest: u64) -> Result<Option<u64>, Failure> {
        if chunk.is_empty() {
            return Err(Failure::text("a chunk has at least 1 byte"));
        }
        self.chunks.push(chunk.into());
        self.received += chunk.len() as u64;
        if self.total.is_none() {
            // The length is in the header and the table of sections: less than 1 KiB.
            let begin: Vec<u8> = self.chunks().flatten().copied().take(4096).collect();
            self.total = match tamis::peek(&begin) {
                Ok(info) => Some(info.serialized_len),
                Err(Error::File(tamis::FileError::Truncated { .. })) => None,
                Err(error) => return Err(error.into()),
            };
        }
        let Some(total) = self.total else { return Ok(None) };
        if total > largest {
            let cap = format!("the filter has {total} bytes; max-filter-bytes is {largest}");
            return Err(cap.into());
        }
        match self.missing() {
            None => Err(Failure::text("more bytes than the filter has")),
            missing => Ok(missing),
        }
    }

    /// Returns how many bytes are missing, if that is known.
    pub(crate) fn missing(&self) -> Option<u64> {
        self.total?.checked_sub(self.received)
    }

    /// Makes the filter, after checking every byte. Each chunk is freed once it is read, unless another clone
    /// of this value has it.
    pub(crate) fn finish(self) -> Result<Filter, Failure> {
        let mut reader = ChunkReader::preallocating(&Limits { bytes: self.received });
        for chunk in self.chunks {
            reader.push(&chunk)?;
        }
        Ok(Keyed::verified(reader.finish()?)?)
    }

    /// Takes the last chunk back.
    pub(crate) fn pop(&mut self) -> Option<Arc<[u8]>> {
        let last = self.chunks.pop()?;
        self.received -= last.len() as u64;
        Some(last)
    }

    /// Returns which load this is, and how far it is.
    pub(crate) fn state(&self) -> (u64, u64) {
        (self.id, self.received)
    }

    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.chunks.iter().map(|chunk| &chunk[..])
    }
}
