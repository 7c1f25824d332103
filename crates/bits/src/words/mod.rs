//! An array of `u64` that starts on a cache line if it owns its memory.
//!
//! ```text
//!           ptr ──► ┌──────── 64 B ────────┬──────── 64 B ────────┬── …
//!           len     │ w0 w1 w2 w3 … w7     │ w8 …                 │
//!           owner   └──────────────────────┴──────────────────────┴── …
//!                   heap · anonymous map with huge pages · shared buffer (a mapped file, ...)
//! ```
//!
//! Filters use one type for all three. Reading goes through `ptr` and `len` regardless of the
//! owner. The first write to a shared buffer copies it.

use alloc::alloc::{alloc_zeroed, dealloc};
use alloc::vec::Vec;
use core::alloc::Layout;
use core::ops::Deref;
use core::ptr::NonNull;

mod builder;
mod memory;
mod shared;

pub use builder::WordsBuilder;
pub use memory::{OutOfMemory, TableMemory, set_table_memory, table_memory};
pub use shared::{BytesOwner, SharedBytes};

/// The number of bytes in a cache line.
pub const LINE_BYTES: usize = 64;
/// The number of words in a cache line.
pub const LINE_WORDS: usize = LINE_BYTES / 8;

/// Returns the number of cache lines that `len` words take, which is what [`Words::zeroed`]
/// allocates.
pub const fn lines(len: u64) -> u64 {
    len.div_ceil(LINE_WORDS as u64)
}

#[derive(Debug)]
enum Owner {
    /// Memory of the global allocator, or none if the array is empty.
    Heap,
    /// Boxed, so that [`Words`] take half a cache line.
    #[cfg(feature = "std")]
    Anonymous(#[expect(dead_code, reason = "dropping it unmaps the memory")] Box<memmap2::MmapMut>),
    Shared(SharedBytes),
}

/// An array of words that owns its memory or lies in a shared buffer.
#[derive(Debug)]
pub struct Words {
    ptr: NonNull<u64>,
    len: usize,
    owner: Owner,
}

// SAFETY: `Words` own their memory like a `Box<[u64]>`, or read a buffer that is `Send` and
// `Sync`. Writing needs `&mut self`.
unsafe impl Send for Words {}
// SAFETY: as above: through `&self` the memory is only read.
unsafe impl Sync for Words {}

impl Words {
    /// Allocates `len` words that are zero.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the allocation fails.
    pub fn zeroed(len: usize) -> Result<Self, OutOfMemory> {
        let too_big = OutOfMemory { bytes: (len as u64).saturating_mul(8) };
        if len == 0 {
            return Ok(Self { ptr: NonNull::dangling(), len, owner: Owner::Heap });
        }
        let layout = Self::layout(len).ok_or(too_big)?;
        #[cfg(feature = "std")]
        if memory::is_lazily_mapped(layout.size()) {
            let mut map = memmap2::MmapMut::map_anon(layout.size()).map_err(|_| too_big)?;
            // If the kernel declines, everything works, more slowly.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            let ptr = NonNull::new(map.as_mut_ptr().cast()).ok_or(too_big)?;
            return Ok(Self { ptr, len, owner: Owner::Anonymous(Box::new(map)) });
        }
        // SAFETY: the size of `layout` is not zero, because `len` is not.
        let ptr = unsafe { alloc_zeroed(layout) };
        Ok(Self { ptr: NonNull::new(ptr.cast()).ok_or(too_big)?, len, owner: Owner::Heap })
    }

    /// Copies `words`.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the allocation fails.
    pub fn copy_of(words: &[u64]) -> Result<Self, OutOfMemory> {
        let mut copy = Self::zeroed(words.len())?;
        copy.to_mut().copy_from_slice(words);
        Ok(copy)
    }

    /// Takes `len` words from byte `offset` of `bytes` on. They are not copied if the machine is
    /// little-endian and their address is a multiple of 8. Returns `None` if the buffer ends
    /// before them.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if a copy is needed and its allocation fails.
    pub fn shared(
        bytes: &SharedBytes,
        offset: usize,
        len: usize,
    ) -> Option<Result<Self, OutOfMemory>> {
        let end = len.checked_mul(8)?.checked_add(offset)?;
        let part = bytes.get(offset..end)?;
        let ptr = NonNull::from(part).cast::<u64>();
        if cfg!(target_endian = "little") && ptr.is_aligned() && len > 0 {
            return Some(Ok(Self { ptr, len, owner: Owner::Shared(bytes.clone()) }));
        }
        Some(Self::from_le_bytes(part))
    }

    /// Copies little-endian words out of `bytes`. Fewer than 8 bytes at the end are ignored.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the allocation fails.
    pub fn from_le_bytes(bytes: &[u8]) -> Result<Self, OutOfMemory> {
        let (chunks, _) = bytes.as_chunks::<8>();
        let mut words = Self::zeroed(chunks.len())?;
        for (word, chunk) in words.to_mut().iter_mut().zip(chunks) {
            *word = u64::from_le_bytes(*chunk);
        }
        Ok(words)
    }

    /// Reads `len` little-endian words. Memory is taken as bytes arrive (see [`WordsBuilder`]).
    ///
    /// # Errors
    /// Returns the error of `input`, `UnexpectedEof` if it ends early, and `OutOfMemory` if an
    /// allocation fails.
    #[cfg(feature = "std")]
    pub fn read_from(input: &mut impl std::io::Read, len: usize) -> std::io::Result<Self> {
        let no_memory = |_| std::io::ErrorKind::OutOfMemory;
        let mut builder = WordsBuilder::new(len).map_err(no_memory)?;
        let mut bytes = [0u8; 8192];
        while builder.missing() > 0 {
            let wanted = builder.missing().min(bytes.len() as u64) as usize;
            input.read_exact(&mut bytes[..wanted])?;
            builder.push(&bytes[..wanted]).map_err(no_memory)?;
        }
        builder.finish().ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }

    /// Returns `len` of these words from index `at` on. Words in a shared buffer stay there,
    /// others are copied.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the allocation of a copy fails.
    ///
    /// # Panics
    /// Panics if the range does not lie in the array.
    pub fn part(&self, at: usize, len: usize) -> Result<Self, OutOfMemory> {
        let part = &self[at..][..len];
        match &self.owner {
            Owner::Shared(bytes) if len > 0 => {
                let ptr = NonNull::from(part).cast();
                Ok(Self { ptr, len, owner: Owner::Shared(bytes.clone()) })
            }
            _ => Self::copy_of(part),
        }
    }

    /// Clones the words. Words in a shared buffer stay there, others are copied.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the allocation of a copy fails.
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        self.part(0, self.len)
    }

    /// Returns the words for writing. Words in a shared buffer are copied first.
    ///
    /// # Panics
    /// Panics if the allocation of that copy fails. After [`Words::make_owned`] it cannot.
    #[inline]
    pub fn to_mut(&mut self) -> &mut [u64] {
        self.make_owned().expect("failed to allocate a copy of shared words");
        // SAFETY: the words are not shared now, so `ptr` leads to `len` initialised words that
        // only `self` can reach.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// Copies words in a shared buffer into memory of their own, so that they can be written to.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the allocation fails; the words stay in the buffer then.
    #[inline]
    pub fn make_owned(&mut self) -> Result<(), OutOfMemory> {
        if self.is_shared() {
            *self = Self::copy_of(self)?;
        }
        Ok(())
    }

    /// Returns whether the words lie in a shared buffer, such as a mapped file.
    #[inline]
    pub fn is_shared(&self) -> bool {
        matches!(self.owner, Owner::Shared(_))
    }

    /// Returns the bytes of memory that the array holds: whole cache lines, or 0 if the words lie
    /// in a shared buffer.
    pub fn heap_bytes(&self) -> u64 {
        if self.is_shared() { 0 } else { lines(self.len as u64) * LINE_BYTES as u64 }
    }

    /// Returns the address and the layout of the array's memory, or `None` if the array is empty or
    /// its memory is not that of the global allocator.
    pub fn allocation(&self) -> Option<(NonNull<u8>, Layout)> {
        match self.owner {
            Owner::Heap if self.len > 0 => Some((self.ptr.cast(), Self::layout(self.len)?)),
            _ => None,
        }
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
        unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl Clone for Words {
    /// Clones the words. [`Words::try_clone`] does the same without the panic.
    ///
    /// # Panics
    /// Panics if the allocation fails.
    fn clone(&self) -> Self {
        self.try_clone().expect("failed to allocate a clone")
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
        if let Some((start, layout)) = self.allocation() {
            // SAFETY: `zeroed` allocated the memory with the same layout.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

/// Returns `words` as little-endian bytes without a copy, or `None` on a big-endian machine.
#[inline]
pub fn as_le_bytes(words: &[u64]) -> Option<&[u8]> {
    if cfg!(target_endian = "big") {
        return None;
    }
    // SAFETY: the bytes of initialised words are initialised, and bytes need no alignment.
    Some(unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) })
}

/// Passes the little-endian bytes of `words` to `to`: in one call on a little-endian machine, else
/// converted piece by piece.
///
/// # Errors
/// Returns the first error of `to`.
pub fn each_le_chunk<E>(
    words: &[u64],
    mut to: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    if let Some(bytes) = as_le_bytes(words) {
        return to(bytes);
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
    use alloc::sync::Arc;

    #[test]
    fn starts_on_a_line_and_is_zero() {
        for len in [0, 1, 7, 8, 9, 1000, (4 << 20) / 8 - 1, (4 << 20) / 8, (4 << 20) / 8 + 3] {
            let words = Words::zeroed(len).unwrap();
            assert_eq!(words.len(), len);
            assert!(len == 0 || words.as_ptr().addr().is_multiple_of(LINE_BYTES));
            assert_eq!(words.heap_bytes(), len.div_ceil(8) as u64 * 64);
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
        #[cfg(feature = "std")]
        assert_eq!(Words::read_from(&mut &bytes[..], 3).unwrap(), words);
        #[cfg(feature = "std")]
        assert!(Words::read_from(&mut &bytes[..], 4).is_err());
    }

    #[test]
    fn is_half_a_line() {
        assert!(size_of::<Words>() <= 32);
    }

    /// A buffer of 16 words, of bytes 7, whose first byte lies at a multiple of 8 plus `offset`.
    fn buffer(offset: usize) -> SharedBytes {
        struct Aligned(Words, usize);
        impl AsRef<[u8]> for Aligned {
            fn as_ref(&self) -> &[u8] {
                &as_le_bytes(&self.0).unwrap()[self.1..][..128]
            }
        }
        let words = Words::copy_of(&[0x0707_0707_0707_0707; 17]).unwrap();
        SharedBytes::new(Arc::new(Aligned(words, offset)))
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn shared_words_copy_on_write() {
        let bytes = buffer(0);
        let mut words = Words::shared(&bytes, 64, 8).unwrap().unwrap();
        let twin = words.try_clone().unwrap();
        assert!(words.is_shared() && twin.is_shared() && twin.heap_bytes() == 0);
        assert!(Words::shared(&bytes, 64, 9).is_none());
        assert!(Words::shared(&bytes, usize::MAX, 1).is_none());
        assert!(Words::shared(&bytes, 0, usize::MAX).is_none());
        words.to_mut()[0] = 1;
        assert!(!words.is_shared() && words[0] == 1 && twin[0] == 0x0707_0707_0707_0707);
        assert_eq!(words.heap_bytes(), 64);
        assert!(!words.try_clone().unwrap().is_shared());
        let part = twin.part(5, 3).unwrap();
        assert!(part.is_shared() && part == Words::copy_of(&twin[5..]).unwrap());
        let mut part = words.part(0, 2).unwrap();
        part.to_mut()[1] = 2;
        assert!(part[0] == 1 && words[1] == twin[1] && words.part(8, 0).unwrap().is_empty());
        drop(bytes);
        assert_eq!(twin[7], 0x0707_0707_0707_0707, "the words keep the buffer alive");
    }

    #[test]
    fn unaligned_buffers_are_copied() {
        for offset in 1..8 {
            let bytes = buffer(offset);
            let copy = Words::shared(&bytes, 0, 16).unwrap().unwrap();
            assert!(!copy.is_shared() && copy[..] == [0x0707_0707_0707_0707; 16]);
            assert!(Words::shared(&bytes, 8 - offset, 15).unwrap().unwrap().is_shared());
        }
        let unaligned = Words::shared(&buffer(0), 3, 2).unwrap().unwrap();
        assert!(!unaligned.is_shared() && unaligned[1] == 0x0707_0707_0707_0707);
    }

    #[test]
    fn every_owner_of_bytes_serves() {
        static BYTES: [u8; 24] = [3; 24];
        let owners: [Arc<BytesOwner>; 4] = [
            Arc::new(vec![3u8; 24]),
            Arc::new(Box::<[u8]>::from([3u8; 24])),
            Arc::new([3u8; 24]),
            Arc::new(&BYTES[..]),
        ];
        for owner in owners {
            let words = Words::shared(&SharedBytes::from(owner), 0, 3).unwrap().unwrap();
            assert_eq!(words[..], [0x0303_0303_0303_0303; 3]);
        }
        let empty = SharedBytes::new(Arc::new(Vec::new()));
        assert!(Words::shared(&empty, 0, 0).unwrap().unwrap().is_empty());
        assert!(Words::shared(&empty, 0, 1).is_none());
    }

    /// An owner whose `as_ref` alternates between a long and a short slice.
    #[test]
    fn an_unstable_owner_is_asked_once() {
        use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
        struct Unstable([u8; 64], AtomicU8);
        impl AsRef<[u8]> for Unstable {
            fn as_ref(&self) -> &[u8] {
                let calls = self.1.fetch_add(1, Relaxed);
                if calls == 0 { &self.0 } else { &[] }
            }
        }
        let bytes = SharedBytes::new(Arc::new(Unstable([5; 64], AtomicU8::new(0))));
        for _ in 0..2 {
            assert!(bytes.len() == 64 && Words::shared(&bytes, 0, 8).unwrap().unwrap().len() == 8);
        }
    }

    #[cfg(feature = "std")]
    #[test]
    #[cfg_attr(miri, ignore = "maps a file")]
    fn a_file_is_mapped() {
        let path = std::env::temp_dir().join(format!("tamis-bits-{}", std::process::id()));
        std::fs::write(&path, [7u8; 128]).unwrap();
        let map = SharedBytes::map(&std::fs::File::open(&path).unwrap()).unwrap();
        let words = Words::shared(&map, 64, 8).unwrap().unwrap();
        assert!(words.is_shared() == cfg!(target_endian = "little"));
        assert_eq!(words[..], [0x0707_0707_0707_0707; 8]);
        std::fs::remove_file(path).unwrap();
    }
}
