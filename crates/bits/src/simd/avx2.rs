//! Split blocks in one 256-bit register.

use core::arch::asm;
use core::arch::x86_64::{
    __m256i, _mm256_loadu_si256, _mm256_mullo_epi32, _mm256_or_si256, _mm256_set1_epi32,
    _mm256_sllv_epi32, _mm256_srli_epi32, _mm256_storeu_si256, _mm256_testc_si256,
};

use super::{AHEAD, BLOCK_WORDS, NEAR_WORDS, SALT, nth, nth_mut};
use crate::prefetch;

#[inline]
#[target_feature(enable = "avx2")]
fn mask(x: u32) -> __m256i {
    // SAFETY: `SALT` is 32 bytes.
    let salt = unsafe { _mm256_loadu_si256(SALT.as_ptr().cast()) };
    let bit = _mm256_srli_epi32::<27>(_mm256_mullo_epi32(_mm256_set1_epi32(x.cast_signed()), salt));
    _mm256_sllv_epi32(_mm256_set1_epi32(1), bit)
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn contains(block: &[u64; BLOCK_WORDS], x: u32) -> bool {
    // SAFETY: a block is 32 bytes.
    let block = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
    _mm256_testc_si256(block, mask(x)) == 1
}

/// Does the same as [`contains`], but can be inlined into code that is compiled for any machine.
///
/// A function with a target feature cannot be inlined there. The call, with the registers that the
/// caller saves, costs a quarter of a query. Inline assembly avoids it. Like a function, it zeroes
/// the upper halves of the registers, which would slow down SSE code after it, and declares that no
/// vector register survives, because the code around it may use AVX.
///
/// # Safety
/// The machine must have AVX2.
#[inline(always)]
pub(super) unsafe fn contains_inline(block: &[u64; BLOCK_WORDS], x: u32) -> bool {
    // On Windows, functions must preserve ten vector registers, so a call is cheaper.
    if cfg!(any(target_feature = "avx2", windows)) {
        // SAFETY: the caller guarantees AVX2.
        return unsafe { contains(block, x) };
    }
    let all: u32;
    // SAFETY: the code reads `SALT_LANES`, `ONES` and a block, 32 bytes each, of which the first two
    // are aligned. It writes only to registers, and all of them are declared.
    unsafe {
        asm!(
            "vmovd xmm0, {x:e}",
            "vpbroadcastd ymm0, xmm0",
            "vpmulld ymm0, ymm0, [rip + {salt}]",
            "vmovdqa ymm1, [rip + {ones}]",
            "xor {x:e}, {x:e}",
            "vpsrld ymm0, ymm0, 27",
            "vpsllvd ymm0, ymm1, ymm0",
            "vmovdqu ymm1, [{block}]",
            "vptest ymm1, ymm0",
            "setc {x:l}",
            "vzeroupper",
            x = inout(reg) x => all,
            block = in(reg) block,
            salt = sym SALT_LANES,
            ones = sym ONES,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(pure, readonly, nostack),
        );
    }
    // SAFETY: `setc` writes 0 or 1 to the low byte, and the rest of the register is zero.
    unsafe { core::hint::assert_unchecked(all <= 1) };
    all != 0
}

#[repr(align(32))]
struct Lanes(#[expect(dead_code, reason = "read by assembly")] [u32; 8]);
static SALT_LANES: Lanes = Lanes(SALT);
static ONES: Lanes = Lanes([1; 8]);

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn insert(block: &mut [u64; BLOCK_WORDS], x: u32) {
    let at: *mut __m256i = block.as_mut_ptr().cast();
    // SAFETY: a block is 32 bytes.
    let old = unsafe { _mm256_loadu_si256(at) };
    let new = _mm256_or_si256(old, mask(x));
    // SAFETY: as above, and `block` is borrowed for writing.
    unsafe { _mm256_storeu_si256(at, new) };
}

#[target_feature(enable = "avx2")]
pub(super) fn contains_batch<T>(
    words: &[u64],
    items: &[T],
    place: impl Fn(&T) -> (usize, u32),
    out: &mut [bool],
) {
    for (i, (item, out)) in items.iter().zip(out).enumerate() {
        if let Some(next) = items.get(i + AHEAD) {
            prefetch(words, place(next).0 * BLOCK_WORDS);
        }
        let (block, x) = place(item);
        *out = contains(nth(words, block), x);
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn insert_batch<T>(words: &mut [u64], items: &[T], place: impl Fn(&T) -> (usize, u32)) {
    if words.len() <= NEAR_WORDS {
        for (block, x) in items.iter().map(place) {
            insert(nth_mut(words, block), x);
        }
        return;
    }
    for (i, item) in items.iter().enumerate() {
        if let Some(next) = items.get(i + AHEAD) {
            prefetch(words, place(next).0 * BLOCK_WORDS);
        }
        let (block, x) = place(item);
        insert(nth_mut(words, block), x);
    }
}
