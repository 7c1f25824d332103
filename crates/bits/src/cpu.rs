//! The instruction sets of the machine, detected once and kept in one byte.
//!
//! The cache of the standard library takes three more instructions per feature, which is
//! measurable where a query takes 40.

#[cfg(all(feature = "std", target_arch = "x86_64", not(miri)))]
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A group of instruction sets that one function is compiled for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feature(u8);

impl Feature {
    /// AVX2.
    pub(crate) const AVX2: Self = Self(1);
    /// AVX-512 F and DQ, and AVX2.
    pub(crate) const AVX512_DQ: Self = Self(2);
    /// AVX-512 F, VL and VPOPCNTDQ, and POPCNT.
    pub(crate) const AVX512_POPCNT: Self = Self(4);
    /// BMI1, BMI2 and POPCNT.
    pub(crate) const BMI2: Self = Self(8);
    /// Those of [`Feature::AVX2`] and [`Feature::BMI2`].
    pub(crate) const AVX2_BMI2: Self = Self(16);
}

/// Returns whether the machine has `feature`. Without the `std` feature it is taken to have none,
/// because detection needs the standard library.
#[inline(always)]
pub(crate) fn has(feature: Feature) -> bool {
    #[cfg(all(feature = "std", target_arch = "x86_64", not(miri)))]
    {
        let found = FOUND.load(Relaxed);
        found & feature.0 != 0 || found == UNKNOWN && detect() & feature.0 != 0
    }
    #[cfg(not(all(feature = "std", target_arch = "x86_64", not(miri))))]
    {
        let _ = feature.0;
        false
    }
}

/// Returns whether the machine is known to have `feature`: `false` before the first call of [`has`]. This
/// takes less code than [`has`], for functions that are inlined everywhere.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn is_detected(feature: Feature) -> bool {
    #[cfg(all(feature = "std", not(miri)))]
    return FOUND.load(Relaxed) & feature.0 != 0;
    #[cfg(not(all(feature = "std", not(miri))))]
    {
        let _ = feature.0;
        false
    }
}

#[cfg(all(feature = "std", target_arch = "x86_64", not(miri)))]
static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);
#[cfg(all(feature = "std", target_arch = "x86_64", not(miri)))]
const UNKNOWN: u8 = 0;
/// Set after detection, so that a machine without any feature is detected only once.
#[cfg(all(feature = "std", target_arch = "x86_64", not(miri)))]
const DETECTED: u8 = 0x80;

#[cfg(all(feature = "std", target_arch = "x86_64", not(miri)))]
#[cold]
fn detect() -> u8 {
    let avx2 = is_x86_feature_detected!("avx2");
    let avx512f = is_x86_feature_detected!("avx512f");
    let popcnt = is_x86_feature_detected!("popcnt");
    let bmi2 = popcnt && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2");
    let features = [
        (Feature::AVX2, avx2),
        (Feature::AVX512_DQ, avx2 && avx512f && is_x86_feature_detected!("avx512dq")),
        (
            Feature::AVX512_POPCNT,
            popcnt
                && avx512f
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vpopcntdq"),
        ),
        (Feature::BMI2, bmi2),
        (Feature::AVX2_BMI2, avx2 && bmi2),
    ];
    let found = features.iter().filter(|(_, has)| *has).fold(0, |found, (bit, _)| found | bit.0);
    FOUND.store(found | DETECTED, Relaxed);
    found
}

#[cfg(all(test, feature = "std", target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard_library() {
        for _ in 0..2 {
            assert_eq!(has(Feature::AVX2), is_x86_feature_detected!("avx2"));
            assert_eq!(is_detected(Feature::AVX2), is_x86_feature_detected!("avx2"));
            assert_eq!(
                has(Feature::AVX512_DQ),
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
            );
            assert_eq!(
                has(Feature::AVX512_POPCNT),
                is_x86_feature_detected!("popcnt")
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vpopcntdq")
            );
            assert_eq!(
                has(Feature::BMI2),
                is_x86_feature_detected!("popcnt")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
            );
            assert_eq!(has(Feature::AVX2_BMI2), has(Feature::AVX2) && has(Feature::BMI2));
        }
    }
}
