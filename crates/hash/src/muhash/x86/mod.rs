//! Products of the numbers of many elements with AVX-512: eight products in parallel, each in one
//! 64-bit lane of the registers.

#![allow(unsafe_code, reason = "the processor's instructions")]

mod chacha20;
mod limbs;
mod multiply;
#[cfg(test)]
mod tests;

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::{
    _mm512_loadu_si512, _mm512_permutexvar_epi32, _mm512_setr_epi32, _mm512_setzero_si512,
};

use chacha20::WORDS;
use limbs::{LANES, LIMBS, Limb, Number};
use multiply::Scratch;

use super::element::{KEYS, Keys};
use super::num3072::{NUM_BYTES, Num3072};

/// Proof that the processor has AVX-512 (F) and its multiplication of 52-bit numbers (IFMA).
#[derive(Clone, Copy)]
pub struct Ifma(());

impl Ifma {
    /// Returns the proof if the processor has the features. The answer is cached.
    pub fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma");
        found.then_some(Self(()))
    }

    /// Returns eight products, of which the first starts with `start` and the others with 1.
    pub fn products(self, start: &Num3072) -> Products {
        let mut lanes = [Num3072::one().to_bytes(); LANES];
        lanes[0] = start.to_bytes();
        self.products_of(&lanes)
    }

    /// Returns products that start with the numbers with these bytes.
    fn products_of(self, lanes: &[[u8; NUM_BYTES]; LANES]) -> Products {
        // SAFETY: `self` exists only where the features were found.
        Products(unsafe { Work::new(lanes) })
    }
}

/// Eight products that are computed in parallel. They exist only if the features of [`Ifma`] were
/// found.
pub struct Products(Box<Work>);

impl Products {
    /// Multiplies the products by the numbers that the first `count` keys expand to; `count` is at
    /// most [`KEYS`].
    pub fn multiply(&mut self, keys: &Keys, count: usize) {
        // SAFETY: `self` exists only where the features were found.
        unsafe { self.0.multiply(keys, count) }
    }

    /// Returns the product of all eight.
    pub fn together(mut self) -> Num3072 {
        // SAFETY: `self` exists only where the features were found.
        unsafe { self.0.together() }
    }
}

/// The products and the memory for intermediate results, about 60 KiB.
struct Work {
    products: Number,
    words: [Limb; WORDS],
    numbers: [Number; 2],
    scratch: Scratch,
}

impl Work {
    #[target_feature(enable = "avx512f")]
    fn new(lanes: &[[u8; NUM_BYTES]; LANES]) -> Box<Self> {
        let zero = _mm512_setzero_si512();
        Box::new(Self {
            products: limbs::load(lanes),
            words: [zero; WORDS],
            numbers: [[zero; LIMBS]; 2],
            scratch: Scratch::new(),
        })
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn multiply(&mut self, keys: &Keys, count: usize) {
        // The first eight keys go to the lower halves of each 64 bits, the others to the upper
        // halves.
        let order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
        let mut key = [_mm512_setzero_si512(); 8];
        for (words, row) in key.iter_mut().zip(keys) {
            const { assert!(size_of::<Limb>() == KEYS * size_of::<u32>()) };
            // SAFETY: the 64 bytes read are those of `row`.
            let row = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
            *words = _mm512_permutexvar_epi32(order, row);
        }
        chacha20::expand(&key, &mut self.words, &mut self.numbers);
        for (number, before) in self.numbers.iter_mut().zip([0, LANES]) {
            let count = count.saturating_sub(before);
            if count == 0 {
                break;
            }
            if count < LANES {
                limbs::fill_with_ones(number, count);
            }
            multiply::multiply(&mut self.products, number, &mut self.scratch);
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn together(&mut self) -> Num3072 {
        for half in [LANES / 2, LANES / 4, LANES / 8] {
            let others = limbs::turned(&self.products, half);
            multiply::multiply(&mut self.products, &others, &mut self.scratch);
        }
        Num3072::from_bytes(&limbs::store_lane(&self.products, 0))
    }
}

#[cfg(test)]
impl Products {
    /// Multiplies each product by the number with the bytes of its lane.
    fn multiply_lanes(&mut self, factors: &[[u8; NUM_BYTES]; LANES]) {
        // SAFETY: `self` exists only where the features were found.
        unsafe {
            let Work { products, scratch, .. } = &mut *self.0;
            multiply::multiply(products, &limbs::load(factors), scratch);
        }
    }

    /// Sets each product to the remainder of `low` + 2^3072 · `high` in its lane.
    fn reduce(&mut self, low: &[[u8; NUM_BYTES]; LANES], high: &[[u8; NUM_BYTES]; LANES]) {
        // SAFETY: `self` exists only where the features were found.
        unsafe { multiply::reduce(&mut self.0.products, &limbs::load(low), &limbs::load(high)) }
    }

    fn lanes(&self) -> [Num3072; LANES] {
        std::array::from_fn(|lane| {
            // SAFETY: `self` exists only where the features were found.
            Num3072::from_bytes(&unsafe { limbs::store_lane(&self.0.products, lane) })
        })
    }
}
