use std::arch::x86_64::{
    _mm512_add_epi32, _mm512_and_si512, _mm512_rol_epi32, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_slli_epi64, _mm512_srli_epi64, _mm512_ternarylogic_epi64,
    _mm512_xor_si512,
};

use super::limbs::{LIMB_MAX, Limb, Number};
use crate::muhash::element::CONSTANTS;

/// Number of 32-bit words of a number.
pub const WORDS: usize = 96;
/// Number of words of a block of ChaCha20, and of its state.
const BLOCK: usize = 16;

/// Truth table for `ternarylogic`: each bit of the first operand selects the bit of the second or
/// the third.
const CHOICE: i32 = 0xca;

/// Expands the keys of sixteen elements to numbers: first those whose keys are in the lower half of
/// each 64 bits, then those whose keys are in the upper half. `key[i]` holds word `i` of each key.
#[target_feature(enable = "avx512f")]
pub fn expand(key: &[Limb; 8], words: &mut [Limb; WORDS], numbers: &mut [Number; 2]) {
    let mut state = [_mm512_setzero_si512(); BLOCK];
    for (word, constant) in state.iter_mut().zip(CONSTANTS) {
        *word = _mm512_set1_epi32(constant.cast_signed());
    }
    state[4..12].copy_from_slice(key);
    for (counter, words) in words.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        state[12] = _mm512_set1_epi32(counter as i32);
        *words = block(&state);
    }
    let low_half = _mm512_set1_epi64(i64::from(u32::MAX));
    let limb_bits = _mm512_set1_epi64(LIMB_MAX);
    let [lower, upper] = numbers;
    let limbs = lower.as_chunks_mut::<2>().0.iter_mut().zip(upper.as_chunks_mut::<2>().0);
    // Three words of 32 bits make two limbs of 48.
    for ([a, b, c], (lower, upper)) in words.as_chunks::<3>().0.iter().zip(limbs) {
        let ab = _mm512_ternarylogic_epi64(low_half, *a, _mm512_slli_epi64(*b, 32), CHOICE);
        let bc = _mm512_ternarylogic_epi64(low_half, *b, _mm512_slli_epi64(*c, 32), CHOICE);
        *lower = [_mm512_and_si512(ab, limb_bits), _mm512_srli_epi64(bc, 16)];
        let ab = _mm512_ternarylogic_epi64(low_half, _mm512_srli_epi64(*a, 32), *b, CHOICE);
        let bc = _mm512_ternarylogic_epi64(low_half, _mm512_srli_epi64(*b, 32), *c, CHOICE);
        *upper = [_mm512_and_si512(ab, limb_bits), _mm512_srli_epi64(bc, 16)];
    }
}

/// Computes one block of ChaCha20 for sixteen states (RFC 8439, section 2.3).
#[inline]
#[target_feature(enable = "avx512f")]
fn block(state: &[Limb; BLOCK]) -> [Limb; BLOCK] {
    let mut words = *state;
    for _ in 0..10 {
        for i in 0..4 {
            quarter_round(&mut words, i, i + 4, i + 8, i + 12);
        }
        for i in 0..4 {
            quarter_round(&mut words, i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12);
        }
    }
    for (word, start) in words.iter_mut().zip(state) {
        *word = _mm512_add_epi32(*word, *start);
    }
    words
}

#[inline]
#[target_feature(enable = "avx512f")]
fn quarter_round(words: &mut [Limb; BLOCK], a: usize, b: usize, c: usize, d: usize) {
    macro_rules! step {
        ($x:ident $y:ident $z:ident $turn:literal) => {
            words[$x] = _mm512_add_epi32(words[$x], words[$y]);
            words[$z] = _mm512_rol_epi32(_mm512_xor_si512(words[$z], words[$x]), $turn);
        };
    }
    step!(a b d 16);
    step!(c d b 12);
    step!(a b d 8);
    step!(c d b 7);
}
