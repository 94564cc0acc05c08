//! Lanes one after another in plain Rust: the executable specification of the other vectors.

use super::{LANES, Lanes, Mask, Op, Vector, Words};

const LOW52: u64 = (1 << 52) - 1;

/// A vector that any processor has.
#[derive(Clone, Copy, Debug)]
pub struct Portable([u64; LANES]);

/// Runs a computation on [`Portable`] vectors.
pub fn dispatch<O: Op>(op: O) -> O::Output {
    op.run::<Portable>()
}

impl Portable {
    #[inline(always)]
    fn map(self, f: impl Fn(u64) -> u64) -> Self {
        Self(self.0.map(f))
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

/// The low 52 bits of the product of two numbers' low 52 bits, and the bits from there up.
#[inline(always)]
fn product(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a & LOW52) * u128::from(b & LOW52);
    (product as u64 & LOW52, (product >> 52) as u64)
}

impl Vector for Portable {
    const INLINE: bool = false;

    #[inline(never)]
    fn call<O: Op>(op: O) -> O::Output {
        op.run::<Self>()
    }

    #[inline(never)]
    fn splat(number: u64) -> Self {
        Self([number; LANES])
    }

    #[inline(never)]
    fn load(from: &Lanes) -> Self {
        Self(from.0)
    }

    #[inline(never)]
    fn store(self, to: &mut Lanes) {
        to.0 = self.0;
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
    fn sar<const BITS: u32>(self) -> Self {
        self.map(|a| (a.cast_signed() >> BITS).cast_unsigned())
    }

    #[inline(never)]
    fn mad_low(sum: Self, a: Self, b: Self) -> Self {
        sum.add(a.zip(b, |a, b| product(a, b).0))
    }

    #[inline(never)]
    fn mad_high(sum: Self, a: Self, b: Self) -> Self {
        sum.add(a.zip(b, |a, b| product(a, b).1))
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

    #[inline(always)]
    fn assert_limb(self) {
        if cfg!(any(test, debug_assertions)) {
            assert!(self.0.iter().all(|limb| *limb <= LOW52), "a limb has 52 bits: {self:?}");
        }
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
