//! MuHash3072: a hash of a set, which does not depend on the order of its elements.
//!
//! Nearly all its work is one multiplication modulo a 3072-bit prime for each element. Eight of
//! these are computed in parallel if the processor multiplies 52-bit numbers in vector lanes.

mod element;
mod many;
mod num3072;
#[cfg(test)]
mod tests;
#[cfg(not(target_arch = "x86_64"))]
#[path = "none.rs"]
mod x86;
#[cfg(target_arch = "x86_64")]
mod x86;

use element::{key, number};
use many::Engine;
use num3072::{NUM_BYTES, Num3072};

use super::{Hash, sha256};

/// A hash of a set whose elements are added and removed in any order and grouping (Core's
/// `MuHash3072`).
///
/// Each element is turned into a number of 3072 bits: its SHA-256, expanded with ChaCha20. The
/// product of the numbers of the added elements is divided by that of the removed elements, and the
/// quotient is hashed. It is kept as a fraction, so that only [`MuHash::finalize`] divides.
#[derive(Clone)]
pub struct MuHash {
    numerator: Num3072,
    denominator: Num3072,
}

impl Default for MuHash {
    fn default() -> Self {
        Self::new()
    }
}

impl MuHash {
    /// Number of bytes of a serialised state.
    pub const STATE_BYTES: usize = 2 * NUM_BYTES;

    /// Returns the hash of the empty set.
    pub fn new() -> Self {
        Self { numerator: Num3072::one(), denominator: Num3072::one() }
    }

    /// Adds an element.
    pub fn insert(&mut self, element: &[u8]) {
        self.numerator.multiply(&number(&key(element)));
    }

    /// Adds `count` elements; `element` returns an element by its index. With AVX-512 and a few
    /// hundred elements, this takes a tenth of the time of adding them one by one.
    pub fn insert_many<'a>(&mut self, count: usize, element: impl Fn(usize) -> &'a [u8]) {
        Engine::best().multiply(&mut self.numerator, count, element);
    }

    /// Removes an element, which may be added later.
    pub fn remove(&mut self, element: &[u8]) {
        self.denominator.multiply(&number(&key(element)));
    }

    /// Removes `count` elements, as fast as [`MuHash::insert_many`] adds them.
    pub fn remove_many<'a>(&mut self, count: usize, element: impl Fn(usize) -> &'a [u8]) {
        Engine::best().multiply(&mut self.denominator, count, element);
    }

    /// Adds the elements that were added to another set, and removes those that were removed from
    /// it.
    pub fn combine(&mut self, other: &Self) {
        self.numerator.multiply(&other.numerator);
        self.denominator.multiply(&other.denominator);
    }

    /// Removes the elements that were added to another set, and adds those that were removed from
    /// it.
    pub fn divide(&mut self, other: &Self) {
        self.numerator.multiply(&other.denominator);
        self.denominator.multiply(&other.numerator);
    }

    /// Returns the hash of the set. This takes a few milliseconds.
    pub fn finalize(&self) -> Hash {
        let mut quotient = self.denominator.inverse();
        quotient.multiply(&self.numerator);
        Hash(sha256(&quotient.to_bytes()))
    }

    /// Adds and removes, in order, what each of `steps` adds and removes. Returns the hash of the
    /// set after each step, and keeps the quotient in place of the fraction, as Core does after
    /// each block of its `coinstatsindex`. One division serves all steps.
    pub fn finalize_each(&mut self, steps: &[&Self]) -> Vec<Hash> {
        let mut quotients = Vec::with_capacity(steps.len());
        let mut divisor = std::mem::replace(&mut self.denominator, Num3072::one());
        for step in steps {
            self.numerator.multiply(&step.numerator);
            divisor.multiply(&step.denominator);
            quotients.push(self.numerator.clone());
        }
        let mut inverse = divisor.inverse();
        self.numerator.multiply(&inverse);
        for (quotient, step) in quotients.iter_mut().zip(steps).rev() {
            quotient.multiply(&inverse);
            inverse.multiply(&step.denominator);
        }
        quotients.iter().map(|quotient| Hash(sha256(&quotient.to_bytes()))).collect()
    }

    /// Returns the state as Core serialises it: numerator and denominator, little endian.
    pub fn to_bytes(&self) -> [u8; Self::STATE_BYTES] {
        let mut bytes = [0; Self::STATE_BYTES];
        bytes[..NUM_BYTES].copy_from_slice(&self.numerator.to_bytes());
        bytes[NUM_BYTES..].copy_from_slice(&self.denominator.to_bytes());
        bytes
    }

    /// Returns the state that [`MuHash::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8; Self::STATE_BYTES]) -> Self {
        let number = |offset| {
            let mut half = [0; NUM_BYTES];
            half.copy_from_slice(&bytes[offset..offset + NUM_BYTES]);
            Num3072::from_bytes(&half)
        };
        Self { numerator: number(0), denominator: number(NUM_BYTES) }
    }
}
