//! Vectors of AVX-512 with its multiplication of 52-bit numbers (IFMA).
#![allow(unsafe_code)] // Vector instructions, which not every processor has.

use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm256_loadu_si256, _mm256_storeu_si256, _mm512_add_epi64,
    _mm512_and_si512, _mm512_castsi256_si512, _mm512_castsi512_si256, _mm512_extracti64x4_epi64,
    _mm512_inserti64x4, _mm512_load_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64,
    _mm512_mask_blend_epi64, _mm512_mask_sub_epi64, _mm512_or_si512, _mm512_permutex2var_epi64,
    _mm512_set1_epi64, _mm512_setr_epi64, _mm512_setzero_si512, _mm512_slli_epi64,
    _mm512_srai_epi64, _mm512_srli_epi64, _mm512_store_si512, _mm512_sub_epi64,
    _mm512_testn_epi64_mask, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

use crate::group::GROUP;

use super::{LANES, Lanes, Limbs, Mask, Numbers, Op, Step, Vector, Words};

/// A vector register of 512 bits.
///
/// Safety of every `unsafe` block below: values are created and used only inside [`dispatch`],
/// which runs after the processor's features were detected.
#[derive(Clone, Copy)]
pub struct Avx512(__m512i);

/// Proof that the processor has the instructions of [`Avx512`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(());

/// Returns a proof if this processor has the instructions.
pub fn detect() -> Option<Proof> {
    let found = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512ifma")
        && is_x86_feature_detected!("bmi2");
    found.then_some(Proof(()))
}

/// Runs a computation on [`Avx512`] vectors.
pub fn dispatch<O: Op>(_: Proof, op: O) -> O::Output {
    // SAFETY: the proof says that the features were detected.
    unsafe { with_features(op) }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma,bmi2")]
#[inline(never)]
fn with_features<O: Op>(op: O) -> O::Output {
    op.run::<Avx512>()
}

/// Runs a step for the vectors of a group. This function needs no features itself: the compiler
/// (Rust 1.95) ignores `inline(never)` on a function that does.
#[inline(never)]
fn each_apart<S: Step<N>, const N: usize>(
    inputs: &[&[Limbs]; N],
    masks: &[Mask; GROUP],
    results: &mut [Limbs],
) {
    // SAFETY: the features were detected (see the type).
    unsafe { each_with_features::<S, N>(inputs, masks, results) }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma,bmi2")]
fn each_with_features<S: Step<N>, const N: usize>(
    inputs: &[&[Limbs]; N],
    masks: &[Mask; GROUP],
    results: &mut [Limbs],
) {
    super::each::<Avx512, S, N>(inputs, masks, results);
}

impl Numbers for Avx512 {
    const ROUNDS: bool = false;
    const LOW_EXTRA: u64 = 0;
    const HIGH_EXTRA: u64 = 0;

    #[inline(always)]
    fn carries<const N: usize>(mut columns: [Self; N]) -> [Self; N] {
        for i in 1..N {
            // SAFETY: the features were detected (see the type).
            let above = unsafe { Self(_mm512_srai_epi64::<52>(columns[i - 1].0)) };
            columns[i] = columns[i].add(above);
        }
        columns
    }

    #[inline(always)]
    fn factor(self) -> Self {
        self
    }

    #[inline(always)]
    fn splat(number: u64) -> Self {
        // SAFETY: the features were detected (see the type).
        unsafe { Self(_mm512_set1_epi64(number.cast_signed())) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        unsafe { Self(_mm512_add_epi64(self.0, other.0)) }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        unsafe { Self(_mm512_sub_epi64(self.0, other.0)) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        unsafe { Self(_mm512_and_si512(self.0, other.0)) }
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        unsafe { Self(_mm512_or_si512(self.0, other.0)) }
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self) -> Self {
        // SAFETY: the features were detected (see the type).
        unsafe { Self(_mm512_slli_epi64::<BITS>(self.0)) }
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        // SAFETY: the features were detected (see the type).
        unsafe { Self(_mm512_srli_epi64::<BITS>(self.0)) }
    }

    #[inline(always)]
    fn mad_low(sum: Self, a: Self, b: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        unsafe { Self(_mm512_madd52lo_epu64(sum.0, a.0, b.0)) }
    }

    #[inline(always)]
    fn mad_high(sum: Self, a: Self, b: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        unsafe { Self(_mm512_madd52hi_epu64(sum.0, a.0, b.0)) }
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        // SAFETY: the features were detected (see the type).
        unsafe { Self(_mm512_mask_blend_epi64(mask, no.0, yes.0)) }
    }

    #[inline(always)]
    fn negate_if(self, mask: Mask) -> Self {
        // SAFETY: the features were detected (see the type).
        unsafe { Self(_mm512_mask_sub_epi64(self.0, mask, _mm512_setzero_si512(), self.0)) }
    }

    #[inline(always)]
    fn zeros(self) -> Mask {
        // SAFETY: the features were detected (see the type).
        unsafe { _mm512_testn_epi64_mask(self.0, self.0) }
    }
}

impl Vector for Avx512 {
    #[inline(always)]
    fn each<S: Step<N>, const N: usize>(
        inputs: [&[Limbs]; N],
        masks: &[Mask; GROUP],
        results: &mut [Limbs],
    ) {
        each_apart::<S, N>(&inputs, masks, results);
    }

    #[inline(always)]
    fn load(from: &Lanes) -> Self {
        // SAFETY: the features were detected; `Lanes` is 64 bytes, aligned to 64.
        unsafe { Self(_mm512_load_si512(std::ptr::from_ref(from).cast())) }
    }

    #[inline(always)]
    fn store(self, to: &mut Lanes) {
        // SAFETY: the features were detected; `Lanes` is 64 bytes, aligned to 64.
        unsafe { _mm512_store_si512(std::ptr::from_mut(to).cast(), self.0) }
    }

    #[inline(always)]
    fn prefetch<T>(from: &T) {
        // SAFETY: every x86-64 processor has the instruction, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(from).cast()) }
    }

    #[inline(always)]
    fn from_rows(rows: [&Words; LANES]) -> [Self; 4] {
        // SAFETY: the features were detected; each row is 32 readable bytes.
        unsafe {
            let pair = |low: &Words, high: &Words| {
                let low = _mm256_loadu_si256(std::ptr::from_ref(low).cast());
                let high = _mm256_loadu_si256(std::ptr::from_ref(high).cast());
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
            };
            // Words 0 to 3 of one row, then those of the fourth row after it.
            let [a, b] = [pair(rows[0], rows[4]), pair(rows[1], rows[5])];
            let [c, d] = [pair(rows[2], rows[6]), pair(rows[3], rows[7])];
            // Words 0 and 2, or 1 and 3, of two rows next to each other.
            let [even_ab, odd_ab] = [_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)];
            let [even_cd, odd_cd] = [_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d)];
            let first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
            let second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
            [
                Self(_mm512_permutex2var_epi64(even_ab, first, even_cd)),
                Self(_mm512_permutex2var_epi64(odd_ab, first, odd_cd)),
                Self(_mm512_permutex2var_epi64(even_ab, second, even_cd)),
                Self(_mm512_permutex2var_epi64(odd_ab, second, odd_cd)),
            ]
        }
    }

    #[inline(always)]
    fn to_rows(words: [Self; 4], rows: &mut [Words; LANES]) {
        // SAFETY: the features were detected; each row is 32 writable bytes.
        unsafe {
            let [w0, w1, w2, w3] = words.map(|word| word.0);
            // Lanes 0, 2, 4, 6 or 1, 3, 5, 7 of two words.
            let [even01, odd01] = [_mm512_unpacklo_epi64(w0, w1), _mm512_unpackhi_epi64(w0, w1)];
            let [even23, odd23] = [_mm512_unpacklo_epi64(w2, w3), _mm512_unpackhi_epi64(w2, w3)];
            let first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
            let second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
            let mut put = |lane: usize, pair: __m512i| {
                let low = _mm512_castsi512_si256(pair);
                let high = _mm512_extracti64x4_epi64::<1>(pair);
                _mm256_storeu_si256(std::ptr::from_mut(&mut rows[lane]).cast(), low);
                _mm256_storeu_si256(std::ptr::from_mut(&mut rows[lane + 4]).cast(), high);
            };
            put(0, _mm512_permutex2var_epi64(even01, first, even23));
            put(1, _mm512_permutex2var_epi64(odd01, first, odd23));
            put(2, _mm512_permutex2var_epi64(even01, second, even23));
            put(3, _mm512_permutex2var_epi64(odd01, second, odd23));
        }
    }
}
