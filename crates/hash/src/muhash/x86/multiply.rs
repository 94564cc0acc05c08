//! The product of two numbers of 64 limbs, in eight lanes.
//!
//! Karatsuba's method, applied twice: the product of two halves is computed from three products of
//! half their length, a0·b0, a1·b1 and (a0 + a1)·(b0 + b1), so that nine of the 16 products of
//! quarters are left. On a Zen 4 that takes 1.75 µs, of which the 4,608 multiplications take 1.3,
//! one a cycle; without Karatsuba all 8,192 take 2.8 µs, and 60 limbs of 52 bits would need 7,200.
//!
//! No 64-bit number overflows:
//! - A limb is below 2^48, and a sum of four limbs, times 4, below 2^52, so that no bit of a factor
//!   is lost. If both factors are times 4, the product is times 16: its low 52 bits are 16 times
//!   the low 48 bits of the true product, and its high 52 bits are the true product without its low
//!   48 bits.
//! - A column is a sum of at most 16 low parts, each divided by 16 again, and 16 high parts: below
//!   2^52 + 2^56 < 2^57.
//! - Each level of [`join`] adds up four columns with their signs: magnitudes below 2^58 and 2^60.

use std::arch::x86_64::{
    _mm512_add_epi64, _mm512_and_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64,
    _mm512_set1_epi64, _mm512_setzero_si512, _mm512_slli_epi64, _mm512_srai_epi64,
    _mm512_srli_epi64, _mm512_sub_epi64, _mm512_test_epi64_mask,
};

use super::limbs::{LIMB_BITS, LIMB_MAX, LIMBS, Limb, Number};
use crate::muhash::num3072::PRIME_DIFF;

/// Number of limbs of a quarter of a number.
const QUARTER: usize = LIMBS / 4;
/// Number of limbs of the first factor that stay in registers, with two sums for each.
const STRIP: usize = 8;
/// Number of bits by which both factors are shifted.
const FACTOR_SHIFT: u32 = 2;
/// Number of bits by which the low parts of products are then shifted.
const LOW_SHIFT: u32 = 2 * FACTOR_SHIFT;

/// Number of small products.
const SMALL: usize = 9;

/// The factors of the small products, times 4. The same limb of all nine is stored together, since
/// nine lists at distances of a power of two would compete for the same few cache lines.
type Factors = [[Limb; SMALL]; QUARTER];
/// The small products, as columns whose carries are not propagated yet.
type Columns = [[Limb; SMALL]; 2 * QUARTER];

/// Memory for the intermediate results between the factors and the product.
pub struct Scratch {
    left: Factors,
    right: Factors,
    small: Columns,
    product: [Limb; 2 * LIMBS],
}

impl Scratch {
    #[target_feature(enable = "avx512f")]
    pub fn new() -> Self {
        let zero = _mm512_setzero_si512();
        Self {
            left: [[zero; SMALL]; QUARTER],
            right: [[zero; SMALL]; QUARTER],
            small: [[zero; SMALL]; 2 * QUARTER],
            product: [zero; 2 * LIMBS],
        }
    }
}

/// Multiplies `a` by `b`, lane by lane, modulo 2^3072 - 1103717.
#[target_feature(enable = "avx512f,avx512ifma")]
pub fn multiply(a: &mut Number, b: &Number, scratch: &mut Scratch) {
    let Scratch { left, right, small, product } = scratch;
    factors(a, left);
    factors(b, right);
    for which in 0..SMALL {
        multiply_quarters(which, left, right, small);
    }
    let (low, high) = small.split_at(QUARTER);
    for (i, (low, high)) in low.iter().zip(high).enumerate() {
        let [a0, a1, a2, a3] = join(low, high, [0, 1, 2]);
        let [b0, b1, b2, b3] = join(low, high, [3, 4, 5]);
        let [c0, c1, c2, c3] = join(low, high, [6, 7, 8]);
        let [low2, high2] = middle([a0, a2], [b0, b2], [c0, c2]);
        let [low3, high3] = middle([a1, a3], [b1, b3], [c1, c3]);
        let columns = [a0, a1, low2, low3, high2, high3, b2, b3];
        for (quarter, column) in columns.into_iter().enumerate() {
            product[quarter * QUARTER + i] = column;
        }
    }
    let (low, high) = product.split_at(LIMBS);
    reduce(a, low, high);
}

/// Computes the factors of the nine small products: the low quarter, the high quarter and their
/// sum, of each of the low half of a number, its high half, and the sum of both halves.
#[inline]
#[target_feature(enable = "avx512f")]
fn factors(number: &Number, factors: &mut Factors) {
    for (i, factors) in factors.iter_mut().enumerate() {
        let mut quarters = [number[i]; 4];
        for (at, quarter) in quarters.iter_mut().enumerate() {
            *quarter = _mm512_slli_epi64(number[at * QUARTER + i], FACTOR_SHIFT);
        }
        let [a, b, c, d] = quarters;
        let low = _mm512_add_epi64(a, b);
        let high = _mm512_add_epi64(c, d);
        let even = _mm512_add_epi64(a, c);
        let odd = _mm512_add_epi64(b, d);
        *factors = [a, b, low, c, d, high, even, odd, _mm512_add_epi64(low, high)];
    }
}

/// Computes one of the small products from the low and high parts of the products of limbs.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply_quarters(which: usize, a: &Factors, b: &Factors, columns: &mut Columns) {
    let [first, second] = a.as_chunks::<STRIP>().0 else { return };
    multiply_strip::<false>(which, first, b, &mut columns[..QUARTER + STRIP]);
    multiply_strip::<true>(which, second, b, &mut columns[STRIP..]);
}

/// Multiplies eight limbs by a factor; with `ADD` the product is added to the first sixteen
/// columns.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply_strip<const ADD: bool>(
    which: usize,
    a: &[[Limb; SMALL]; STRIP],
    b: &Factors,
    columns: &mut [[Limb; SMALL]],
) {
    let zero = _mm512_setzero_si512();
    // The sums of the next eight columns in a ring, and the high parts of the last finished column,
    // which belong to the next one.
    let mut low = [zero; STRIP];
    let mut high = [zero; STRIP];
    let mut before = zero;
    let [a0, a1, a2, a3, a4, a5, a6, a7] = a;
    let a =
        [a0[which], a1[which], a2[which], a3[which], a4[which], a5[which], a6[which], a7[which]];
    let (columns, last) = columns.split_at_mut(QUARTER);
    let steps = columns.as_chunks_mut::<STRIP>().0.iter_mut().zip(b.as_chunks::<STRIP>().0);
    for (columns, b) in steps {
        // Unrolled, since a loop would keep the sums in memory.
        macro_rules! step {
            ($($first:literal)*) => {$(
                let factor = b[$first][which];
                let column = &mut columns[$first][which];
                for i in 0..STRIP {
                    let at = ($first + i) % STRIP;
                    low[at] = _mm512_madd52lo_epu64(low[at], a[i], factor);
                    high[at] = _mm512_madd52hi_epu64(high[at], a[i], factor);
                }
                let sum = _mm512_add_epi64(_mm512_srli_epi64(low[$first], LOW_SHIFT), before);
                *column = if ADD { _mm512_add_epi64(*column, sum) } else { sum };
                before = high[$first];
                (low[$first], high[$first]) = (zero, zero);
            )*};
        }
        step!(0 1 2 3 4 5 6 7);
    }
    for ((column, low), high) in last.iter_mut().zip(low).zip(high) {
        column[which] = _mm512_add_epi64(_mm512_srli_epi64(low, LOW_SHIFT), before);
        before = high;
    }
}

/// Returns the four columns of a product of two halves at one place of each quarter, from two
/// columns of each of three small products: of the low quarters, of the high ones, and of the sums
/// of both.
#[inline]
#[target_feature(enable = "avx512f")]
fn join(first: &[Limb; SMALL], second: &[Limb; SMALL], which: [usize; 3]) -> [Limb; 4] {
    let [low, high, sums] = which;
    let low = [first[low], second[low]];
    let high = [first[high], second[high]];
    let [x, y] = middle(low, high, [first[sums], second[sums]]);
    [low[0], x, y, high[1]]
}

/// Returns the middle two of four columns: `low` has the first and the second, `high` the third and
/// the fourth, and `sums - low - high` is added to the second and the third.
#[inline]
#[target_feature(enable = "avx512f")]
fn middle(low: [Limb; 2], high: [Limb; 2], sums: [Limb; 2]) -> [Limb; 2] {
    let difference = _mm512_sub_epi64(low[1], high[0]);
    let second = _mm512_add_epi64(difference, _mm512_sub_epi64(sums[0], low[0]));
    let third = _mm512_sub_epi64(_mm512_sub_epi64(sums[1], high[1]), difference);
    [second, third]
}

/// Sets a number to the remainder of the product `low` + 2^3072 · `high`, given as columns whose
/// carries are not propagated yet; the remainder of 2^3072 is [`PRIME_DIFF`].
///
/// The product is below 2^6144, so that no carry leaves `high`.
#[target_feature(enable = "avx512f,avx512ifma")]
pub fn reduce(number: &mut Number, low: &[Limb], high: &[Limb]) {
    let zero = _mm512_setzero_si512();
    let limb_bits = _mm512_set1_epi64(LIMB_MAX);
    let diff = _mm512_set1_epi64(PRIME_DIFF.cast_signed());
    let shifted_diff = _mm512_slli_epi64(diff, LOW_SHIFT);
    let mut carry = zero;
    for (limb, column) in number.iter_mut().zip(low) {
        let sum = _mm512_add_epi64(*column, carry);
        *limb = _mm512_and_si512(sum, limb_bits);
        carry = _mm512_srai_epi64(sum, LIMB_BITS);
    }
    let mut before = zero;
    let mut upper = zero;
    for (limb, column) in number.iter_mut().zip(high) {
        let sum = _mm512_add_epi64(*column, carry);
        let factor = _mm512_and_si512(sum, limb_bits);
        carry = _mm512_srai_epi64(sum, LIMB_BITS);
        // The low 48 bits of factor times difference, and the other bits of the previous product.
        let low = _mm512_srli_epi64(_mm512_madd52lo_epu64(zero, factor, shifted_diff), LOW_SHIFT);
        let sum = _mm512_madd52hi_epu64(*limb, before, shifted_diff);
        let sum = _mm512_add_epi64(_mm512_add_epi64(sum, low), upper);
        *limb = _mm512_and_si512(sum, limb_bits);
        upper = _mm512_srli_epi64(sum, LIMB_BITS);
        before = factor;
    }
    // The part above 2^3072 is at most the difference. If adding its remainder carries again, a
    // small number is left, so there is no third carry.
    upper = _mm512_madd52hi_epu64(upper, before, shifted_diff);
    while _mm512_test_epi64_mask(upper, upper) != 0 {
        upper = _mm512_madd52lo_epu64(zero, upper, diff);
        for limb in number.iter_mut() {
            let sum = _mm512_add_epi64(*limb, upper);
            *limb = _mm512_and_si512(sum, limb_bits);
            upper = _mm512_srli_epi64(sum, LIMB_BITS);
            if _mm512_test_epi64_mask(upper, upper) == 0 {
                break;
            }
        }
    }
}
