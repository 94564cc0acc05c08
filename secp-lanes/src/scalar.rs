//! Numbers modulo n, the order of the group, eight side by side, with Montgomery products: the
//! product of a and b is a * b / 2^260.

use crate::field::Fe;
use crate::inverse::{Prime, of_lanes};
use crate::vector::{COUNTS, LANES, Limbs, Mask, Numbers, Step, Vector, Words, start};

/// n in limbs of 52 bits.
const N: [u64; 5] = [
    0x2_5e8c_d036_4141,
    0xe_6af4_8a03_bbfd,
    0xf_ffff_feba_aedc,
    0xf_ffff_ffff_ffff,
    0xffff_ffff_ffff,
];
/// -1 / n modulo 2^52.
const MINUS_INVERSE: u64 = 0xd_ff66_5588_b13f;
/// 2^260 modulo n, the neutral element of this product.
pub const ONE: Words = [0x02da_1732_fc9b_ebf0, 0x5512_3195_0b75_fc44, 0x14, 0];

/// 2^520 modulo n: its product with a number is 2^260 times that number.
const SQUARE: Words =
    [0xc8ee_180c_268b_3b23, 0x9759_4894_fd6e_33e4, 0x97f5_e45b_cd07_c73b, 0x671c_d581_c69b_c5e6];

/// Eight numbers in limbs of 52 bits, below 1.25 * 2^256.
#[derive(Clone, Copy)]
pub struct Scalar<V>([V; 5]);

impl<V: Vector> Scalar<V> {
    /// Returns the number in every lane.
    #[inline(always)]
    pub fn constant([w0, w1, w2, w3]: Words) -> Self {
        Self::from_words([V::splat(w0), V::splat(w1), V::splat(w2), V::splat(w3)])
    }

    /// Converts from 64-bit words, least significant first.
    #[inline(always)]
    pub fn from_words(words: [V; 4]) -> Self {
        Self(Fe::from_words(words).0)
    }

    /// Loads the numbers of eight rows.
    #[inline(always)]
    pub fn from_rows(rows: &[Words; LANES]) -> Self {
        Self(Fe::from_rows(rows).0)
    }

    /// Returns the words of a number below 2^256, such as [`Scalar::canonical`] returns.
    #[inline(always)]
    pub fn to_words(self) -> [V; 4] {
        Fe(self.0).to_words()
    }

    /// Reads from memory.
    #[inline(always)]
    pub fn load(from: &Limbs) -> Self {
        Self(Fe::load(from).0)
    }

    /// Writes to memory.
    #[inline(always)]
    pub fn store(self, to: &mut Limbs) {
        Fe(self.0).store(to);
    }

    /// Returns the product divided by 2^260; below 2^250 + n if one factor is below n.
    #[inline(always)]
    pub fn mul(self, other: Self) -> Self {
        Self(V::step::<Montgomery, 2>([self.0, other.0]))
    }

    /// Reduces a number below 2n to below n.
    #[inline(always)]
    pub fn canonical(self) -> Self {
        let reduced = Fe(self.0).minus(Fe(N.map(V::splat))).carried();
        // The lanes in which the difference is not negative.
        let reached = reduced.0[4].shr::<63>().zeros();
        Self(Fe::select(reached, reduced, Fe(self.0)).0)
    }

    /// Returns the inverse for this product: `self.mul(self.inverse())` is [`ONE`]; zero for zero.
    #[inline(always)]
    pub fn inverse(self) -> Self {
        const PRIME: Prime = Prime::new(crate::words::N);
        let number = self.canonical();
        let [l0, l1, l2, l3, l4] = number.0;
        let zeros = l0.or(l1).or(l2).or(l3).or(l4).zeros();
        let number = Self(Fe::select(zeros, Fe(Self::constant(ONE).0), Fe(number.0)).0);
        let inverse = of_lanes!(number, |all| {
            // The inverse of x * 2^260 must be 2^260 / x.
            let square = Self::constant(SQUARE);
            Self::constant(PRIME.inverse(&Fe(all.canonical().0).first())).mul(square).mul(square)
        });
        Self(Fe::select(zeros, Fe::small(0), Fe(inverse.0)).0)
    }

    /// Rotates the lanes down by this many, for numbers below 2n; the lowest ones move to the top.
    #[inline(always)]
    fn rotated(self, by: usize) -> Self {
        Self(Fe(self.canonical().0).rotated(by).0)
    }
}

/// The product divided by 2^260.
struct Montgomery;

impl Step<2> for Montgomery {
    #[inline(always)]
    fn run<V: Numbers>([a, b]: [[V; 5]; 2], _: Mask) -> [V; 5] {
        let mut c = Fe(a).product(Fe(b)).0;
        for (column, (lows, highs)) in c.iter_mut().zip(COUNTS) {
            *column = column.add(V::splat(start::<V>(lows, highs)));
        }
        // Each step adds the multiple of n that makes the lowest column a multiple of 2^52.
        macro_rules! reduce {
            ($($i:literal),*) => {$(
                // The column still lacks the low half that q adds to it.
                let known = c[$i].sub(V::splat(start::<V>(1, 0))).factor();
                let factor = V::splat(MINUS_INVERSE);
                let q = V::mad_low(V::splat(start::<V>(1, 0)), known, factor).factor();
                reduce!(low $i q: 0 1 2 3 4);
                reduce!(high $i q: 0 1 2 3 4);
                [_, c[$i + 1]] = V::carries([c[$i], c[$i + 1]]);
            )*};
            (low $i:literal $q:ident: $($j:literal)*) => {
                $(c[$i + $j] = V::mad_low(c[$i + $j], $q, V::splat(N[$j]));)*
            };
            (high $i:literal $q:ident: $($j:literal)*) => {
                $(c[$i + $j + 1] = V::mad_high(c[$i + $j + 1], $q, V::splat(N[$j]));)*
            };
        }
        reduce!(0, 1, 2, 3, 4);
        Fe([c[5], c[6], c[7], c[8], c[9]]).carried().0
    }
}
