use std::arch::x86_64::{
    __m512i, _mm_cvtsi128_si64, _mm512_add_epi64, _mm512_castsi512_si128, _mm512_mask_blend_epi64,
    _mm512_permutexvar_epi64, _mm512_set1_epi64, _mm512_setr_epi64, _mm512_setzero_si512,
};

use crate::muhash::num3072::NUM_BYTES;

/// Number of lanes, each with one number.
pub const LANES: usize = 8;
/// Number of limbs of a number.
pub const LIMBS: usize = 64;
/// Number of bits of a limb. The instructions multiply numbers of 52 bits; the other four bits
/// leave room for sums of four limbs in both factors.
pub const LIMB_BITS: u32 = 48;
/// The largest limb.
pub const LIMB_MAX: i64 = (1 << LIMB_BITS) - 1;

const LIMB_BYTES: usize = NUM_BYTES / LIMBS;

/// One limb of each of eight numbers.
pub type Limb = __m512i;

/// Eight numbers below 2^3072, the least significant limb first. Each limb is below 2^48.
pub type Number = [Limb; LIMBS];

/// Returns the numbers with these little-endian bytes.
#[target_feature(enable = "avx512f")]
pub fn load(lanes: &[[u8; NUM_BYTES]; LANES]) -> Number {
    let mut number = [_mm512_setzero_si512(); LIMBS];
    for (i, limb) in number.iter_mut().enumerate() {
        let [a, b, c, d, e, f, g, h] = lanes.each_ref().map(|bytes| limb_at(bytes, i));
        *limb = _mm512_setr_epi64(a, b, c, d, e, f, g, h);
    }
    number
}

fn limb_at(bytes: &[u8; NUM_BYTES], index: usize) -> i64 {
    let limb = &bytes.as_chunks::<LIMB_BYTES>().0[index];
    limb.iter().rev().fold(0, |limb, byte| limb << 8 | i64::from(*byte))
}

/// Returns the bytes of the number in one lane, little endian.
#[target_feature(enable = "avx512f")]
pub fn store_lane(number: &Number, lane: usize) -> [u8; NUM_BYTES] {
    let mut bytes = [0; NUM_BYTES];
    for (bytes, limb) in bytes.as_chunks_mut::<LIMB_BYTES>().0.iter_mut().zip(number) {
        let first = _mm512_permutexvar_epi64(_mm512_set1_epi64(lane as i64), *limb);
        let limb = _mm_cvtsi128_si64(_mm512_castsi512_si128(first));
        bytes.copy_from_slice(&limb.to_le_bytes()[..LIMB_BYTES]);
    }
    bytes
}

/// Returns the numbers rotated by `by` lanes: lane `i` gets the number of lane `i + by`, modulo 8.
#[target_feature(enable = "avx512f")]
pub fn turned(number: &Number, by: usize) -> Number {
    let lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    let from = _mm512_add_epi64(lanes, _mm512_set1_epi64(by as i64)); // only three bits are used
    let mut turned = *number;
    for limb in &mut turned {
        *limb = _mm512_permutexvar_epi64(from, *limb);
    }
    turned
}

/// Replaces all but the first `count` numbers by 1.
#[target_feature(enable = "avx512f")]
pub fn fill_with_ones(number: &mut Number, count: usize) {
    let unused = u8::MAX.checked_shl(count as u32).unwrap_or(0);
    let mut one = _mm512_set1_epi64(1);
    for limb in number {
        *limb = _mm512_mask_blend_epi64(unused, *limb, one);
        one = _mm512_setzero_si512();
    }
}
