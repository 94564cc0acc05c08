//! Products of 52-bit numbers by IFMA in registers of 256 bits. Processors with AVX-IFMA have these
//! instructions in the encoding of AVX2 (VEX), with AVX-512 in its own (EVEX). Nothing but the
//! encoding of the two instructions differs, so that processors with AVX-512 test what those with
//! AVX-IFMA run.
//!
//! The instructions are written as assembly, and not by the functions of `std::arch`, as these let
//! the compiler use the other instructions and the additional registers of AVX-512 too.
#![allow(unsafe_code)] // Vector instructions, which not every processor has.

use std::arch::asm;
use std::arch::x86_64::__m256i;

use super::avx2::{Products, Quad};

/// Products by IFMA, in the encoding VEX or EVEX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ifma<const VEX: bool>;

/// Products by AVX-IFMA.
pub type AvxIfma = Ifma<true>;
/// The same products by AVX-512 IFMA, with its instructions for 256 bits (VL).
pub type Avx512Ifma = Ifma<false>;

/// Defines a multiplication.
macro_rules! multiplication {
    ($(#[$doc:meta])* $name:ident $instruction:literal) => {
        $(#[$doc])*
        #[target_feature(enable = "avx2")]
        #[inline]
        fn $name<const VEX: bool>(mut sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
            macro_rules! encoded {
                ($prefix:literal) => {
                    // SAFETY: the caller has detected the instruction, which uses registers only.
                    unsafe {
                        asm!(
                            concat!($prefix, $instruction, " {0}, {1}, {2}"),
                            inout(ymm_reg) sum,
                            in(ymm_reg) a,
                            in(ymm_reg) b,
                            options(pure, nomem, nostack, preserves_flags),
                        );
                    }
                };
            }
            if VEX {
                encoded!("{{vex}} ");
            } else {
                encoded!("{{evex}} ");
            }
            sum
        }
    };
}

multiplication! {
    /// Adds the lowest 52 bits of the product of two numbers' lowest 52 bits.
    add_low "vpmadd52luq"
}
multiplication! {
    /// Adds the highest 52 bits of the product of two numbers' lowest 52 bits.
    add_high "vpmadd52huq"
}

impl<const VEX: bool> Products for Ifma<VEX> {
    const ROUNDS: bool = false;
    const LOW_EXTRA: u64 = 0;
    const HIGH_EXTRA: u64 = 0;
    const SIDE_BY_SIDE: bool = false;

    fn are_supported() -> bool {
        if VEX {
            is_x86_feature_detected!("avxifma")
        } else {
            is_x86_feature_detected!("avx512ifma") && is_x86_feature_detected!("avx512vl")
        }
    }

    #[inline(always)]
    fn factor(number: Quad<Self>) -> Quad<Self> {
        number
    }

    #[inline(always)]
    fn mad_low(sum: Quad<Self>, a: Quad<Self>, b: Quad<Self>) -> Quad<Self> {
        // SAFETY: the features were detected (see `Quad`).
        Quad::of(unsafe { add_low::<VEX>(sum.0, a.0, b.0) })
    }

    #[inline(always)]
    fn mad_high(sum: Quad<Self>, a: Quad<Self>, b: Quad<Self>) -> Quad<Self> {
        // SAFETY: the features were detected (see `Quad`).
        Quad::of(unsafe { add_high::<VEX>(sum.0, a.0, b.0) })
    }
}
