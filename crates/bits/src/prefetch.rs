//! Prefetching of cache lines.

/// Prefetches the cache line in which `items[index]` begins. An index past the end has no effect.
#[inline(always)]
pub fn prefetch<T>(items: &[T], index: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = items.as_ptr().wrapping_add(index).cast();
        // SAFETY: a prefetch never faults and has no visible effect. The address is computed with
        // wrapping arithmetic and not dereferenced.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (items, index);
}
