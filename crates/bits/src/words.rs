//! An array of `u64` that starts on a cache line, wherever it lives.
//!
//! ```text
//!           ptr ──► ┌──────── 64 B ────────┬──────── 64 B ────────┬── …
//!           len     │ w0 w1 w2 w3 … w7     │ w8 …                 │
//!           owner   └──────────────────────┴──────────────────────┴── …
//!                   heap (small) · anonymous map with huge pages (large) · a mapped file
//! ```
//!
//! One type serves all three, so a filter is written once: reading goes through `ptr` and `len`
//! without asking who owns the memory, and the first write to a mapped file copies it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{Mmap, MmapMut};

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;
/// Words of a cache line.
pub const LINE_WORDS: usize = LINE_BYTES / 8;

/// From this size on an array is an anonymous map that asks for huge pages: a random access to a
/// table larger than the TLB's reach otherwise pays for a page walk as well as for the line.
const MAP_FROM: usize = 4 << 20;

/// Whole cache lines that `len` words take: what [`Words::zeroed`] really allocates.
pub const fn lines(len: u64) -> u64 {
    len.div_ceil(LINE_WORDS as u64)
}

/// Memory for a table could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// How much was asked for.
    pub bytes: u64,
}

/// A file, mapped for reading.
///
/// As with every mapped file, another process that truncates it kills the reader, and one that
/// writes into it changes what is read. `tamis` never does either: it writes beside and renames.
#[derive(Debug)]
pub struct Mapping(Mmap);

impl Mapping {
    /// Maps the whole of `file`.
    pub fn new(file: &File) -> io::Result<Arc<Self>> {
        // SAFETY: the map is read-only and private to this value. That nobody else truncates or
        // rewrites the file while it is mapped is the documented duty of the caller's system.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Arc::new(Self(map)))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Debug)]
enum Owner {
    Heap,
    /// Boxed, so that [`Words`] are half a cache line.
    Anonymous(#[expect(dead_code, reason = "kept for its drop, which unmaps")] Box<MmapMut>),
    File(Arc<Mapping>),
}

/// An array of words: its own memory, or part of a mapped file.
#[derive(Debug)]
pub struct Words {
    ptr: NonNull<u64>,
    len: usize,
    owner: Owner,
}

// SAFETY: `Words` owns its memory, or shares read-only memory through an `Arc`; writing needs
// `&mut self`. It is a `Box<[u64]>` in all but name.
unsafe impl Send for Words {}
// SAFETY: as above: through `&self` the memory is only read.
unsafe impl Sync for Words {}

impl Words {
    /// `len` words, all zero.
    pub fn zeroed(len: usize) -> Result<Self, OutOfMemory> {
        let too_big = OutOfMemory { bytes: (len as u64).saturating_mul(8) };
        if len == 0 {
            return Ok(Self { ptr: NonNull::dangling(), len, owner: Owner::Heap });
        }
        let bytes = len.div_ceil(LINE_WORDS).checked_mul(LINE_BYTES).ok_or(too_big)?;
        if bytes >= MAP_FROM && !cfg!(miri) {
            let mut map = MmapMut::map_anon(bytes).map_err(|_| too_big)?;
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage); // a wish: without it all works, slower
            let ptr = NonNull::new(map.as_mut_ptr().cast()).ok_or(too_big)?;
            return Ok(Self { ptr, len, owner: Owner::Anonymous(Box::new(map)) });
        }
        let layout = Self::layout(len).ok_or(too_big)?;
        // SAFETY: `layout` has a size above zero, since `len` is.
        let ptr = unsafe { alloc_zeroed(layout) };
        Ok(Self { ptr: NonNull::new(ptr.cast()).ok_or(too_big)?, len, owner: Owner::Heap })
    }

    /// A copy of `words`.
    pub fn copy_of(words: &[u64]) -> Result<Self, OutOfMemory> {
        let mut copy = Self::zeroed(words.len())?;
        copy.to_mut().copy_from_slice(words);
        Ok(copy)
    }

    /// `len` words from byte `offset` of a mapped file, without a copy where the machine is
    /// little-endian and the place aligned. `None` if the file does not reach so far.
    pub fn mapped(
        map: &Arc<Mapping>,
        offset: usize,
        len: usize,
    ) -> Option<Result<Self, OutOfMemory>> {
        let end = len.checked_mul(8)?.checked_add(offset)?;
        let bytes = map.bytes().get(offset..end)?;
        let ptr = bytes.as_ptr().cast::<u64>();
        if cfg!(target_endian = "little") && ptr.is_aligned() && len > 0 {
            let ptr = NonNull::new(ptr.cast_mut())?;
            return Some(Ok(Self { ptr, len, owner: Owner::File(Arc::clone(map)) }));
        }
        Some(Self::from_le_bytes(bytes))
    }

    /// The words that little-endian `bytes` spell; a rest of fewer than 8 bytes is left out.
    pub fn from_le_bytes(bytes: &[u8]) -> Result<Self, OutOfMemory> {
        let (chunks, _) = bytes.as_chunks::<8>();
        let mut words = Self::zeroed(chunks.len())?;
        for (word, chunk) in words.to_mut().iter_mut().zip(chunks) {
            *word = u64::from_le_bytes(*chunk);
        }
        Ok(words)
    }

    /// Reads `len` little-endian words. Large arrays are mapped lazily, so an input that promises
    /// more than it holds costs address space, not memory.
    pub fn read_from(input: &mut impl io::Read, len: usize) -> io::Result<Self> {
        let mut words = Self::zeroed(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut bytes = [0u8; 8192];
        for chunk in words.to_mut().chunks_mut(1024) {
            let bytes = &mut bytes[..chunk.len() * 8];
            input.read_exact(bytes)?;
            let (le, _) = bytes.as_chunks::<8>();
            for (word, le) in chunk.iter_mut().zip(le) {
                *word = u64::from_le_bytes(*le);
            }
        }
        Ok(words)
    }

    /// `len` of these words from `at` on: of a mapped file still where they lie, else a copy.
    ///
    /// # Panics
    /// If they are not so many.
    pub fn part(&self, at: usize, len: usize) -> Result<Self, OutOfMemory> {
        let part = &self[at..][..len];
        match &self.owner {
            Owner::File(map) if len > 0 => {
                let ptr = NonNull::from(part).cast();
                Ok(Self { ptr, len, owner: Owner::File(Arc::clone(map)) })
            }
            _ => Self::copy_of(part),
        }
    }

    /// The words, to write to. Words of a mapped file are copied first.
    ///
    /// # Panics
    /// If there is no memory for that copy; [`Words::own`] asks first.
    #[inline]
    pub fn to_mut(&mut self) -> &mut [u64] {
        self.own().expect("memory for a copy of a mapped file");
        // SAFETY: not a file's, so the memory is ours alone: `len` initialised words at `ptr`.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// Copies the words of a mapped file into memory of their own.
    #[inline]
    pub fn own(&mut self) -> Result<(), OutOfMemory> {
        if let Owner::File(_) = self.owner {
            *self = Self::copy_of(self)?;
        }
        Ok(())
    }

    /// Whether the words still lie in a mapped file.
    pub fn is_mapped(&self) -> bool {
        matches!(self.owner, Owner::File(_))
    }

    pub(crate) fn as_ptr(&self) -> *mut u64 {
        self.ptr.as_ptr()
    }

    fn layout(len: usize) -> Option<Layout> {
        let bytes = len.div_ceil(LINE_WORDS).checked_mul(LINE_BYTES)?;
        Layout::from_size_align(bytes, LINE_BYTES).ok()
    }
}

impl Deref for Words {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        // SAFETY: `len` initialised words at `ptr`, kept alive by `owner`, not written to while
        // `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl Clone for Words {
    fn clone(&self) -> Self {
        match &self.owner {
            Owner::File(map) => {
                Self { ptr: self.ptr, len: self.len, owner: Owner::File(Arc::clone(map)) }
            }
            _ => Self::copy_of(self).expect("memory for a clone"),
        }
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Words {}

impl Drop for Words {
    fn drop(&mut self) {
        if let (Owner::Heap, true, Some(layout)) =
            (&self.owner, self.len > 0, Self::layout(self.len))
        {
            // SAFETY: allocated in `zeroed` with this very layout.
            unsafe { dealloc(self.ptr.as_ptr().cast(), layout) };
        }
    }
}

/// Hands `to` the little-endian bytes of `words`: in one piece where the machine is little-endian,
/// else converted piece by piece.
pub fn each_le_chunk<E>(
    words: &[u64],
    mut to: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    if cfg!(target_endian = "little") {
        // SAFETY: any initialised memory may be seen as bytes.
        return to(unsafe {
            std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words))
        });
    }
    let mut bytes = Vec::with_capacity(8192);
    for chunk in words.chunks(1024) {
        bytes.clear();
        bytes.extend(chunk.iter().flat_map(|word| word.to_le_bytes()));
        to(&bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_on_a_line_and_is_zero() {
        for len in [0, 1, 7, 8, 9, 1000, MAP_FROM / 8, MAP_FROM / 8 + 3] {
            let words = Words::zeroed(len).unwrap();
            assert_eq!(words.len(), len);
            assert!(len == 0 || words.as_ptr().cast::<[u8; LINE_BYTES]>().addr() % LINE_BYTES == 0);
            assert!(words.iter().all(|word| *word == 0));
        }
    }

    #[test]
    fn absurd_sizes_are_refused() {
        for len in [usize::MAX, usize::MAX / 8, usize::MAX / 64] {
            assert!(Words::zeroed(len).is_err());
        }
    }

    #[test]
    fn bytes_there_and_back() {
        let words = Words::copy_of(&[1, u64::MAX, 0x0102_0304_0506_0708]).unwrap();
        let mut bytes = Vec::new();
        each_le_chunk(&words, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok::<_, ()>(())
        })
        .unwrap();
        assert_eq!(bytes[16..], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(Words::from_le_bytes(&bytes).unwrap(), words);
        assert_eq!(Words::read_from(&mut &bytes[..], 3).unwrap(), words);
        assert!(Words::read_from(&mut &bytes[..], 4).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps a file")]
    fn mapped_words_copy_on_write() {
        let path = std::env::temp_dir().join(format!("tamis-bits-{}", std::process::id()));
        std::fs::write(&path, [7u8; 128]).unwrap();
        let map = Mapping::new(&File::open(&path).unwrap()).unwrap();
        let mut words = Words::mapped(&map, 64, 8).unwrap().unwrap();
        let twin = words.clone();
        assert!(words.is_mapped() && Words::mapped(&map, 64, 9).is_none());
        assert!(Words::mapped(&map, usize::MAX, 1).is_none());
        words.to_mut()[0] = 1;
        assert!(!words.is_mapped() && words[0] == 1 && twin[0] == 0x0707_0707_0707_0707);
        let part = twin.part(5, 3).unwrap();
        assert!(part.is_mapped() && part == Words::copy_of(&twin[5..]).unwrap());
        let mut part = words.part(0, 2).unwrap();
        part.to_mut()[1] = 2;
        assert!(part[0] == 1 && words[1] == twin[1] && words.part(8, 0).unwrap().is_empty());
        let unaligned = Words::mapped(&map, 3, 2).unwrap().unwrap();
        assert!(!unaligned.is_mapped() && unaligned[1] == twin[0]);
        std::fs::remove_file(path).unwrap();
    }
}
