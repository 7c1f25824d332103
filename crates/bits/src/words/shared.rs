//! Read-only byte buffers with any owner.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

/// An owner of bytes that several threads may read: a `Vec<u8>`, a `&'static [u8]`, a mapped
/// file, a buffer of Arrow or of another language.
pub type BytesOwner = dyn AsRef<[u8]> + Send + Sync;

/// A read-only byte buffer, shared through an [`Arc`] with its owner.
///
/// Cloning is cheap. The buffer is alive as long as one clone, or one [`Words`](crate::Words) cut
/// out of it, is.
///
/// `as_ref` of the owner is called once, in [`SharedBytes::new`], so an owner that returns another
/// slice on each call does no harm.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use tamis_bits::{SharedBytes, Words};
///
/// let bytes = SharedBytes::new(Arc::new(vec![1u8; 64]));
/// let words = Words::shared(&bytes, 8, 2).expect("the range lies in the buffer")?;
/// assert_eq!(words[..], [0x0101_0101_0101_0101; 2]);
/// assert!(Words::shared(&bytes, 8, 8).is_none());
/// # Ok::<(), tamis_bits::OutOfMemory>(())
/// ```
#[derive(Clone)]
pub struct SharedBytes(Arc<Buffer>);

struct Buffer {
    start: NonNull<u8>,
    len: usize,
    /// Keeps the bytes alive.
    _owner: Arc<BytesOwner>,
}

// SAFETY: a `Buffer` is a shared borrow of its owner and the owner's `Arc`. The owner is `Send`
// and `Sync`, and the bytes are only read.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl SharedBytes {
    /// Shares the bytes of `owner`.
    pub fn new(owner: Arc<BytesOwner>) -> Self {
        let bytes = (*owner).as_ref();
        let (start, len) = (NonNull::from(bytes).cast(), bytes.len());
        Self(Arc::new(Buffer { start, len, _owner: owner }))
    }

    /// Maps the whole of `file` for reading.
    ///
    /// If another process truncates the file, reading the map raises a signal; if it writes to
    /// the file, the bytes change. `tamis` does neither: it writes a new file and renames it.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    #[cfg(feature = "std")]
    pub fn map(file: &std::fs::File) -> std::io::Result<Self> {
        // SAFETY: the map is read-only. The documentation makes it the caller's duty that no
        // process truncates or writes to the file while it is mapped.
        let map = unsafe { memmap2::Mmap::map(file) }?;
        Ok(Self::new(Arc::new(map)))
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Buffer { start, len, .. } = *self.0;
        // SAFETY: `start` and `len` are the slice that one call of the owner's `as_ref` borrowed
        // from `&owner`. That borrow is valid as long as the owner is neither dropped nor borrowed
        // mutably. The `Arc` in the buffer prevents the first, and also the second, because
        // `Arc::get_mut` needs the only reference. Other calls through `&owner` may happen while
        // the slice is borrowed in safe code too.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), len) }
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBytes").field("len", &self.0.len).finish_non_exhaustive()
    }
}

impl From<Arc<BytesOwner>> for SharedBytes {
    fn from(owner: Arc<BytesOwner>) -> Self {
        Self::new(owner)
    }
}
