//! Ask for a cache line before it is needed.

/// Starts loading the line that `items[index]` begins in; nothing happens if there is none.
#[inline(always)]
pub fn prefetch<T>(items: &[T], index: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = items.as_ptr().wrapping_add(index).cast();
        // SAFETY: a prefetch never faults and changes nothing that a program can see; the address
        // is computed with wrapping arithmetic and not dereferenced.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (items, index);
}
