//! Split blocks of two keys in one 512-bit register.

use core::arch::x86_64::{
    __m256i, __m512i, _mm256_loadu_si256, _mm256_set1_epi32, _mm512_andnot_si512,
    _mm512_broadcast_i32x8, _mm512_castsi256_si512, _mm512_inserti32x8, _mm512_mullo_epi32,
    _mm512_set1_epi32, _mm512_sllv_epi32, _mm512_srli_epi32, _mm512_test_epi32_mask,
};

use super::{AHEAD, BLOCK_WORDS, SALT, avx2, nth};
use crate::prefetch;

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx2")]
fn pair(low: __m256i, high: __m256i) -> __m512i {
    _mm512_inserti32x8::<1>(_mm512_castsi256_si512(low), high)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx2")]
fn load(block: &[u64; BLOCK_WORDS]) -> __m256i {
    // SAFETY: a block is 32 bytes.
    unsafe { _mm256_loadu_si256(block.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f,avx512dq,avx2")]
pub(super) fn contains_batch<T>(
    words: &[u64],
    items: &[T],
    place: impl Fn(&T) -> (usize, u32),
    out: &mut [bool],
) {
    // SAFETY: `SALT` is 32 bytes.
    let salt = _mm512_broadcast_i32x8(unsafe { _mm256_loadu_si256(SALT.as_ptr().cast()) });
    let one = _mm512_set1_epi32(1);
    let (pairs, last) = items.as_chunks::<2>();
    let (outs, last_out) = out[..items.len()].as_chunks_mut::<2>();
    for (i, ([a, b], [out_a, out_b])) in pairs.iter().zip(outs).enumerate() {
        if let Some([a, b]) = pairs.get(i + AHEAD / 2) {
            prefetch(words, place(a).0 * BLOCK_WORDS);
            prefetch(words, place(b).0 * BLOCK_WORDS);
        }
        let ((block_a, a), (block_b, b)) = (place(a), place(b));
        let x = pair(_mm256_set1_epi32(a.cast_signed()), _mm256_set1_epi32(b.cast_signed()));
        let mask = _mm512_sllv_epi32(one, _mm512_srli_epi32::<27>(_mm512_mullo_epi32(x, salt)));
        let blocks = pair(load(nth(words, block_a)), load(nth(words, block_b)));
        let missing = _mm512_andnot_si512(blocks, mask);
        let missing = _mm512_test_epi32_mask(missing, missing);
        *out_a = missing & 0x00ff == 0;
        *out_b = missing & 0xff00 == 0;
    }
    if let ([item], [out]) = (last, last_out) {
        let (block, x) = place(item);
        *out = avx2::contains(nth(words, block), x);
    }
}
