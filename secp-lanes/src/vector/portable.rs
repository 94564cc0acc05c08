//! Lanes one after another in plain Rust: the executable specification of the other vectors.

use crate::group::GROUP;

use super::{LANES, Lanes, Limbs, Mask, Numbers, Op, Step, Vector, Words};

const LOW52: u64 = (1 << 52) - 1;

/// A vector for any processor; `ROUNDS` says whether it rounds the high halves of products.
#[derive(Clone, Copy, Debug)]
pub struct Portable<const ROUNDS: bool>([u64; LANES]);

/// Runs a computation on [`Portable`] vectors, with products like those of AVX-512.
pub fn dispatch<O: Op>(op: O) -> O::Output {
    op.run::<Portable<false>>()
}

/// Runs a computation on [`Portable`] vectors, with products like those of AVX2 and NEON.
#[cfg(test)]
pub fn dispatch_rounding<O: Op>(op: O) -> O::Output {
    op.run::<Portable<true>>()
}

impl<const ROUNDS: bool> Portable<ROUNDS> {
    #[inline(always)]
    fn map(self, f: impl Fn(u64) -> u64) -> Self {
        Self(self.0.map(f))
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

/// Returns the halves of a product, low and high. In the tests it panics if a factor has more than
/// 52 bits, which other vectors would ignore.
#[inline(always)]
fn halves<const ROUNDS: bool>(a: u64, b: u64) -> (u64, u64) {
    if cfg!(any(test, debug_assertions)) {
        assert!(a <= LOW52 && b <= LOW52, "a factor has 52 bits: {a:x} {b:x}");
    }
    let product = u128::from(a) * u128::from(b);
    let mut high = (product >> 52) as u64;
    let low = product as u64 & LOW52;
    // Round to the nearest number, and ties to even.
    high += u64::from(ROUNDS && (low > 1 << 51 || low == 1 << 51 && high & 1 == 1));
    ((product as u64).wrapping_sub(high << 52), high)
}

impl<const ROUNDS: bool> Numbers for Portable<ROUNDS> {
    const ROUNDS: bool = ROUNDS;
    const LOW_EXTRA: u64 = 0;
    const HIGH_EXTRA: u64 = 0;

    #[inline(never)]
    fn carries<const N: usize>(mut columns: [Self; N]) -> [Self; N] {
        for i in 1..N {
            let above = columns[i - 1].map(|a| (a.cast_signed() >> 52).cast_unsigned());
            columns[i] = columns[i].add(above);
        }
        columns
    }

    #[inline(never)]
    fn factor(self) -> Self {
        self.map(|a| a & LOW52)
    }

    #[inline(never)]
    fn splat(number: u64) -> Self {
        Self([number; LANES])
    }

    #[inline(never)]
    fn add(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }

    #[inline(never)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_sub)
    }

    #[inline(never)]
    fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    #[inline(never)]
    fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    #[inline(never)]
    fn shl<const BITS: u32>(self) -> Self {
        self.map(|a| a << BITS)
    }

    #[inline(never)]
    fn shr<const BITS: u32>(self) -> Self {
        self.map(|a| a >> BITS)
    }

    #[inline(never)]
    fn mad_low(sum: Self, a: Self, b: Self) -> Self {
        sum.add(a.zip(b, |a, b| halves::<ROUNDS>(a, b).0))
    }

    #[inline(never)]
    fn mad_high(sum: Self, a: Self, b: Self) -> Self {
        sum.add(a.zip(b, |a, b| halves::<ROUNDS>(a, b).1))
    }

    #[inline(never)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        Self(std::array::from_fn(|i| if mask >> i & 1 == 1 { yes.0[i] } else { no.0[i] }))
    }

    #[inline(never)]
    fn negate_if(self, mask: Mask) -> Self {
        Self::select(mask, self.map(u64::wrapping_neg), self)
    }

    #[inline(never)]
    fn zeros(self) -> Mask {
        self.0.iter().enumerate().fold(0, |mask, (i, a)| mask | u8::from(*a == 0) << i)
    }
}

impl<const ROUNDS: bool> Vector for Portable<ROUNDS> {
    #[inline(never)]
    fn each<S: Step<N>, const N: usize>(
        inputs: [&[Limbs]; N],
        masks: &[Mask; GROUP],
        results: &mut [Limbs],
    ) {
        super::each::<Self, S, N>(&inputs, masks, results);
    }

    #[inline(never)]
    fn load(from: &Lanes) -> Self {
        Self(from.0)
    }

    #[inline(never)]
    fn store(self, to: &mut Lanes) {
        to.0 = self.0;
    }

    #[inline(always)]
    fn prefetch<T>(_: &T) {}

    #[inline(never)]
    fn from_rows(rows: [&Words; LANES]) -> [Self; 4] {
        std::array::from_fn(|word| Self(rows.map(|row| row[word])))
    }

    #[inline(never)]
    fn to_rows(words: [Self; 4], rows: &mut [Words; LANES]) {
        for (i, row) in rows.iter_mut().enumerate() {
            *row = words.map(|word| word.0[i]);
        }
    }
}
