//! Products of 52-bit numbers by fused multiply-add (FMA), in registers of AVX2.
#![allow(unsafe_code)] // Vector instructions, which not every processor has.

use std::arch::x86_64::{
    __m256d, _mm256_add_pd, _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_fmadd_pd,
    _mm256_sub_pd,
};

use super::Numbers;
use super::avx2::{Products, Quad};

// A product in two halves, by double-precision arithmetic, which has 53 bits and rounds to the
// nearest number (a program that changes that has undefined behaviour). The factors a and b are
// integers below 2^52, so every step is exact but the first, whose error is the low half:
//
// - 2^104 + a b is at least 2^104 and below 2^105, where doubles are 2^52 apart: it is rounded to
//   2^104 + 2^52 high. The bits of doubles from 2^104 to 2^105, both included, count those steps,
//   so that they are the bits of 2^104 plus `high`.
// - 2^104 minus that is -2^52 high, exactly.
// - a b - 2^52 high = low, an integer from -2^51 to 2^51, exactly.
// - low + 1.5 * 2^52 is an integer from 2^52 to 2^53, where doubles are 1 apart: its bits are those
//   of 1.5 * 2^52 plus `low`.
//
// Rounding up or down would save the last addition, but rounding is a mode of the processor that
// compilers take for granted. With rounding to nearest, 2^104 + 1.5 * 2^52 in place of 2^104 in the
// second step would save it, if it were a double.

/// The bits of 2^52, of 1.5 * 2^52, and of 2^104, in double precision.
const BITS_52: u64 = 0x433 << 52;
const BITS_52_AND_HALF: u64 = BITS_52 | 1 << 51;
const BITS_104: u64 = 0x467 << 52;
const LOW52: u64 = (1 << 52) - 1;

/// Products by FMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fma;

impl Quad<Fma> {
    /// Converts a number below 2^52 to double precision: its bits are the lowest 52 of 2^52 plus
    /// the number.
    #[inline(always)]
    fn double(self) -> __m256d {
        let power = Self::splat(BITS_52);
        // SAFETY: the features were detected (see `Quad`).
        unsafe { _mm256_sub_pd(self.or(power).bits(), power.bits()) }
    }

    #[inline(always)]
    fn bits(self) -> __m256d {
        // SAFETY: the features were detected (see `Quad`).
        unsafe { _mm256_castsi256_pd(self.0) }
    }

    #[inline(always)]
    fn of_bits(double: __m256d) -> Self {
        // SAFETY: the features were detected (see `Quad`).
        Self::of(unsafe { _mm256_castpd_si256(double) })
    }

    /// Returns 2^104 plus the product, rounded to a multiple of 2^52.
    #[inline(always)]
    fn high(a: Self, b: Self) -> __m256d {
        // SAFETY: the features were detected (see `Quad`).
        unsafe { _mm256_fmadd_pd(a.double(), b.double(), Self::splat(BITS_104).bits()) }
    }
}

impl Products for Fma {
    const ROUNDS: bool = true;
    const LOW_EXTRA: u64 = BITS_52_AND_HALF;
    const HIGH_EXTRA: u64 = BITS_104;
    const SIDE_BY_SIDE: bool = true;

    fn are_supported() -> bool {
        true
    }

    #[inline(always)]
    fn factor(number: Quad<Self>) -> Quad<Self> {
        number.and(Quad::splat(LOW52))
    }

    #[inline(always)]
    fn mad_low(sum: Quad<Self>, a: Quad<Self>, b: Quad<Self>) -> Quad<Self> {
        // SAFETY: the features were detected (see `Quad`).
        let low = unsafe {
            let high = Quad::high(a, b);
            let minus_high = _mm256_sub_pd(Quad::splat(BITS_104).bits(), high);
            let low = _mm256_fmadd_pd(a.double(), b.double(), minus_high);
            _mm256_add_pd(low, Quad::splat(BITS_52_AND_HALF).bits())
        };
        sum.add(Quad::of_bits(low))
    }

    #[inline(always)]
    fn mad_high(sum: Quad<Self>, a: Quad<Self>, b: Quad<Self>) -> Quad<Self> {
        sum.add(Quad::of_bits(Quad::high(a, b)))
    }
}
