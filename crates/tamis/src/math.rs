//! The floating-point functions that `core` lacks, from `libm`.
//!
//! A file that calls one imports [`Float`] if the feature `std` is off. With `std` the methods of `f64`
//! have the same names.

/// Functions of the standard library's `f64`.
pub(crate) trait Float {
    fn cbrt(self) -> Self;
    fn ceil(self) -> Self;
    fn exp(self) -> Self;
    fn exp2(self) -> Self;
    fn exp_m1(self) -> Self;
    fn floor(self) -> Self;
    fn fract(self) -> Self;
    fn ln(self) -> Self;
    fn ln_1p(self) -> Self;
    fn log2(self) -> Self;
    fn powf(self, exponent: Self) -> Self;
    fn powi(self, exponent: i32) -> Self;
    fn round(self) -> Self;
    fn sqrt(self) -> Self;
}

impl Float for f64 {
    fn cbrt(self) -> Self {
        libm::cbrt(self)
    }

    fn ceil(self) -> Self {
        libm::ceil(self)
    }

    fn exp(self) -> Self {
        libm::exp(self)
    }

    fn exp2(self) -> Self {
        libm::exp2(self)
    }

    fn exp_m1(self) -> Self {
        libm::expm1(self)
    }

    fn floor(self) -> Self {
        libm::floor(self)
    }

    fn fract(self) -> Self {
        self - libm::trunc(self)
    }

    fn ln(self) -> Self {
        libm::log(self)
    }

    fn ln_1p(self) -> Self {
        libm::log1p(self)
    }

    fn log2(self) -> Self {
        libm::log2(self)
    }

    fn powf(self, exponent: Self) -> Self {
        libm::pow(self, exponent)
    }

    fn powi(self, exponent: i32) -> Self {
        libm::pow(self, exponent.into())
    }

    fn round(self) -> Self {
        libm::round(self)
    }

    fn sqrt(self) -> Self {
        libm::sqrt(self)
    }
}
