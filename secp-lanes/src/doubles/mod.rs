//! Numbers modulo p = 2^256 - 2^32 - 977 in double precision, for processors whose fastest
//! multiplication is that of doubles.
//!
//! A number is five limbs, least significant first. Limb i is a multiple of its *unit*, which is
//! 2^(51 i + 1), positive or negative: at most 2^50 + 2^37 units, and limb 4 at most 2^51 + 2^37.
//! So all numbers are even, and limb 5 would have the unit 2^256, which is 2^32 + 977 modulo p.
//! Every residue class has even representatives, x or x + p.
//!
//! # Products
//!
//! Doubles have 53 bits and round to the nearest number. The exact product a b of two limbs is
//! added to *columns*: column k has the unit 2^(51 k + 2), and gets the low halves of the products
//! of limbs i and k - i, and the high halves of those of limbs i and k - 1 - i. The *start* h is
//! 1.5 * 2^103 units.
//!
//! - h' = h + a b is rounded to 2^51 units, as long as it is from 2^103 to 2^104 units.
//! - h' - h is the high half, exactly: a multiple of the unit of column k + 1.
//! - a b - (h' - h) is the low half, exactly: at most 2^50 units.
//!
//! A *chain* adds its next product to h', up to 2^102 units in all; then all high halves together
//! are the difference between the last h' and the first h. Products of limb 4 may be too large, and
//! are rounded to 2^52 units with h = 1.5 * 2^104; their low halves are at most 2^51 units.
//!
//! # Magnitudes
//!
//! Columns in 2^50 of their units, as sums of low halves and of high halves. The limbs' excess of
//! 2^37 units makes high halves at most 1 + 2^-12 times as large, which is left out of the table:
//!
//! | column | product: low, high, sum | square: low, high, sum |
//! |---|---|---|
//! | 0 | 1, 0, 1 | 1, 0, 1 |
//! | 1 | 2, 0.5, 2.5 | 1, 0.5, 1.5 |
//! | 2 | 3, 1, 4 | 2, 1, 3 |
//! | 3 | 4, 1.5, 5.5 | 2, 1.5, 3.5 |
//! | 4 | 5, 2, 7 | 4, 2, 6 |
//! | 5 | 4, 3.5, 7.5 | 3, 3.5, 6.5 |
//! | 6 | 3, 3, 6 | 3, 3, 6 |
//! | 7 | 2, 2.5, 4.5 | 2, 2.5, 4.5 |
//! | 8 | 2, 2, 4 | 2, 2, 4 |
//! | 9 | 0, 2, 2 | 0, 2, 2 |
//!
//! A column must stay below 8, which is 2^53 units: then it is one double, exactly. The tests run
//! everything with doubles that refuse a result which is not exact, and in debug builds every step
//! checks its limbs.

mod constants;
pub mod ladder;
pub mod point;

pub use constants::Constants;

use crate::vector::{Doubles, Limbs};

/// Five limbs.
#[derive(Clone, Copy)]
pub struct Number<D>(pub [D; 5]);

/// Ten columns.
struct Columns<D>([D; 10]);

/// What is subtracted from a product before it is carried.
#[derive(Clone, Copy)]
enum Less<D> {
    Nothing,
    /// The number.
    Once(Number<D>),
    /// The first number and twice the second.
    OnceAndTwice(Number<D>, Number<D>),
}

/// Returns 2^exponent.
pub const fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// Returns the exponent of a limb's unit.
pub const fn unit(limb: usize) -> i32 {
    51 * limb as i32 + 1
}

/// Returns whether all limbs have the sizes that products rely on.
pub fn fits(limbs: &Limbs) -> bool {
    limbs.iter().enumerate().all(|(i, limb)| {
        let max = power(if i == 4 { 51 } else { 50 }) + power(37);
        limb.0.iter().all(|bits| {
            let units = f64::from_bits(*bits) * power(-unit(i));
            units.abs() <= max && units.trunc() == units
        })
    })
}

/// Returns the low and the high half of a product.
#[inline(always)]
fn halves<D: Doubles>(a: D, b: D, start: D) -> (D, D) {
    let high = a.mul_add_rounded(b, start).sub(start);
    (a.mul_sub(b, high), high)
}

/// Starts a chain. Returns the low half and the chain. If a chain of the column below is added
/// next, `less_start` is the start minus that chain's start, which the low half then lacks;
/// otherwise it is the start.
#[inline(always)]
fn first<D: Doubles>(a: D, b: D, start: D, less_start: D) -> (D, D) {
    let chain = a.mul_add_rounded(b, start);
    (a.mul_sub(b, chain.sub(less_start)), chain)
}

/// Adds a product to a chain, and returns its low half.
#[inline(always)]
fn next<D: Doubles>(a: D, b: D, chain: &mut D) -> D {
    let before = *chain;
    *chain = a.mul_add_rounded(b, before);
    a.mul_sub(b, chain.sub(before))
}

impl<D: Doubles> Number<D> {
    /// Returns the product before any reduction.
    #[inline(always)]
    fn columns(self, other: Self, k: &Constants) -> Columns<D> {
        let [a0, a1, a2, a3, a4] = self.0;
        let [b0, b1, b2, b3, b4] = other.0;
        let (c0, high0) = halves(a0, b0, k.start(0));
        let (low, mut chain1) = first(a0, b1, k.start(1), k.start(1));
        let c1 = high0.add(low).add(next(a1, b0, &mut chain1));
        let (low, mut chain2) = first(a0, b2, k.start(2), k.difference(2));
        let c2 = low.add(chain1).add(next(a1, b1, &mut chain2)).add(next(a2, b0, &mut chain2));

        let (low, mut chain3) = first(a0, b3, k.start(3), k.difference(3));
        let c3 = low.add(chain2).add(next(a1, b2, &mut chain3)).add(next(a2, b1, &mut chain3));
        let (low, high3) = halves(a3, b0, k.start(3));
        let c3 = c3.add(low);

        let (low, mut chain4) = first(a0, b4, k.start(4), k.difference(4));
        let c4 = low.add(chain3).add(high3).add(next(a1, b3, &mut chain4));
        let (low, mut other4) = first(a4, b0, k.start(4), k.start(4));
        let c4 = c4.add(low).add(next(a3, b1, &mut other4));
        let (low, high4) = halves(a2, b2, k.start(4));
        let c4 = c4.add(low);

        let (low, mut chain5) = first(a1, b4, k.start(5), k.difference(5));
        let c5 = low.add(chain4).add(high4).add(next(a2, b3, &mut chain5));
        let (low, other5) = first(a4, b1, k.start(5), k.difference(5));
        let c5 = c5.add(low.add(other4));
        let high5 = other5.sub(k.start(5));
        let (low, other5) = halves(a3, b2, k.start(5));
        let c5 = c5.add(low);

        let (low, chain6) = first(a2, b4, k.start(6), k.difference(6));
        let high6 = chain6.sub(k.start(6));
        let c6 = low.add(chain5).add(high5).add(other5);
        let (low, second6) = halves(a3, b3, k.start(6));
        let c6 = c6.add(low);
        let (low, third6) = halves(a4, b2, k.start(6));
        let c6 = c6.add(low);

        let (low, high7) = halves(a3, b4, k.start(7));
        let c7 = low.add(high6).add(second6).add(third6);
        let (low, other7) = halves(a4, b3, k.start(7));
        let c7 = c7.add(low);
        let (low, c9) = halves(a4, b4, k.large_start(8));
        let c8 = low.add(high7).add(other7);
        Columns([c0, c1, c2, c3, c4, c5, c6, c7, c8, c9])
    }

    /// Returns the square before any reduction.
    #[inline(always)]
    fn square_columns(self, k: &Constants) -> Columns<D> {
        let [a0, a1, a2, a3, a4] = self.0;
        let [twice1, twice2, twice3, twice4] = [a1.add(a1), a2.add(a2), a3.add(a3), a4.add(a4)];
        let (c0, high0) = halves(a0, a0, k.start(0));
        let (low, high1) = halves(a0, twice1, k.start(1));
        let c1 = low.add(high0);
        let (low, high2) = halves(a0, twice2, k.start(2));
        let c2 = low.add(high1);
        let (low, other2) = halves(a1, a1, k.start(2));
        let c2 = c2.add(low);
        let (low, high3) = halves(a0, twice3, k.start(3));
        let c3 = low.add(high2).add(other2);
        let (low, other3) = halves(a1, twice2, k.start(3));
        let c3 = c3.add(low);
        let (low, high4) = halves(a0, twice4, k.large_start(4));
        let c4 = low.add(high3).add(other3);
        let (low, second4) = halves(a1, twice3, k.start(4));
        let c4 = c4.add(low);
        let (low, third4) = halves(a2, a2, k.start(4));
        let c4 = c4.add(low);
        let (low, high5) = halves(a1, twice4, k.large_start(5));
        let c5 = low.add(high4).add(second4).add(third4);
        let (low, other5) = halves(a2, twice3, k.start(5));
        let c5 = c5.add(low);
        let (low, high6) = halves(a2, twice4, k.large_start(6));
        let c6 = low.add(high5).add(other5);
        let (low, other6) = halves(a3, a3, k.start(6));
        let c6 = c6.add(low);
        let (low, high7) = halves(a3, twice4, k.large_start(7));
        let c7 = low.add(high6).add(other6);
        let (low, c9) = halves(a4, a4, k.large_start(8));
        let c8 = low.add(high7);
        Columns([c0, c1, c2, c3, c4, c5, c6, c7, c8, c9])
    }

    /// Returns 2^52 units in each limb.
    #[inline(always)]
    fn offset() -> Self {
        let limb = |i: usize| D::splat(power(52 + unit(i)));
        Self([limb(0), limb(1), limb(2), limb(3), limb(4)])
    }

    /// Returns the product.
    #[inline(always)]
    fn product(self, other: Self, k: &Constants) -> Self {
        self.columns(other, k).reduced::<1, 2>(k, Less::Nothing)
    }

    /// Returns twice the product.
    #[inline(always)]
    fn twice_product(self, other: Self, k: &Constants) -> Self {
        self.columns(other, k).reduced::<2, 1>(k, Less::Nothing)
    }

    /// Returns the product minus a number.
    #[inline(always)]
    fn product_minus(self, other: Self, less: Self, k: &Constants) -> Self {
        self.columns(other, k).reduced::<1, 2>(k, Less::Once(less))
    }

    /// Returns twice the product minus a number.
    #[inline(always)]
    fn twice_product_minus(self, other: Self, less: Self, k: &Constants) -> Self {
        self.columns(other, k).reduced::<2, 1>(k, Less::Once(less))
    }

    /// Returns the square.
    #[inline(always)]
    fn square(self, k: &Constants) -> Self {
        self.square_columns(k).reduced::<1, 3>(k, Less::Nothing)
    }

    /// Returns three times the square.
    #[inline(always)]
    fn triple_square(self, k: &Constants) -> Self {
        self.square_columns(k).reduced::<3, 1>(k, Less::Nothing)
    }

    /// Returns four times the square.
    #[inline(always)]
    fn quadruple_square(self, k: &Constants) -> Self {
        self.square_columns(k).reduced::<4, 0>(k, Less::Nothing)
    }

    /// Returns the square minus a number.
    #[inline(always)]
    fn square_minus(self, less: Self, k: &Constants) -> Self {
        self.square_columns(k).reduced::<1, 2>(k, Less::Once(less))
    }

    /// Returns the square minus the first number and twice the second.
    #[inline(always)]
    fn square_minus_both(self, less: Self, twice: Self, k: &Constants) -> Self {
        self.square_columns(k).reduced::<1, 2>(k, Less::OnceAndTwice(less, twice))
    }

    /// Returns the difference, whose limbs have twice the size: it must be carried.
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        let [[a0, a1, a2, a3, a4], [b0, b1, b2, b3, b4]] = [self.0, other.0];
        Self([a0.sub(b0), a1.sub(b1), a2.sub(b2), a3.sub(b3), a4.sub(b4)])
    }

    /// Returns the number minus twice the other, whose limbs have three times the size: it must be
    /// carried.
    #[inline(always)]
    fn minus_twice(self, other: Self, k: &Constants) -> Self {
        let [[a0, a1, a2, a3, a4], [b0, b1, b2, b3, b4]] = [self.0, other.0];
        let minus_two = k.minus_two();
        let limb = |a: D, b: D| b.mul_add(minus_two, a);
        Self([limb(a0, b0), limb(a1, b1), limb(a2, b2), limb(a3, b3), limb(a4, b4)])
    }

    /// Returns the number in limbs of the sizes that products rely on; for limbs of up to 2^53
    /// units.
    #[inline(always)]
    fn carried(self, k: &Constants) -> Self {
        macro_rules! split {
            ($i:literal) => {{
                let above = self.0[$i].add_rounded(k.rounding($i));
                let above = above.sub(k.rounding($i));
                (self.0[$i].sub(above), above)
            }};
        }
        carry([split!(0), split!(1), split!(2), split!(3), split!(4)], k)
    }
}

/// Adds to every limb what is above the one before.
#[inline(always)]
fn carry<D: Doubles>(limbs: [(D, D); 5], k: &Constants) -> Number<D> {
    let [(l0, above0), (l1, above1), (l2, above2), (l3, above3), (l4, above4)] = limbs;
    let l0 = above4.mul_add(k.top(1), l0);
    Number([l0, l1.add(above0), l2.add(above1), l3.add(above2), l4.add(above3)])
}

impl<D: Doubles> Less<D> {
    /// Returns the difference of a limb and what is subtracted from it.
    #[inline(always)]
    fn from(self, limb: D, i: usize, k: &Constants) -> D {
        match self {
            Self::Nothing => limb,
            Self::Once(less) => limb.sub(less.0[i]),
            Self::OnceAndTwice(less, twice) => {
                twice.0[i].mul_add(k.minus_two(), limb.sub(less.0[i]))
            }
        }
    }
}

// Magnitudes in the following, in 2^50 units of limbs, of which a column's unit is two; `less` is 1
// or, of two numbers, 3; its limb 4 has twice that.
//
// - `short`: 2 SCALE times the column, plus `less`, plus 1. At most 8, less the excess: 5 + 1 + 1
//   for column 1 of a product, 6 + 1 for column 2 of a square without `less`, 3 + 3 + 1 for column
//   1 of a square, 4 + 1 + 1 for column 0 of twice a product, 6 + 1 for column 0 of three times a
//   square.
// - `long`: `rest` is a low half, 1, plus `less`, at most 4. For limb 4 it is a low half of 2 times
//   SCALE, plus `less`: 2 + 2, 4 + 2, or 6. It would be 8 for four times a square, and 2 + 6 for
//   two numbers, which with the excess may be too much: there `even` is kept apart. It is even, as
//   is the column, so that their sum may be up to 16.
// - What goes to the next limb is at most 4 * 6.5 * (2^32 + 977) and some units, for four times a
//   square; less than 2^37. To limb 0 go at most 15 * (2^32 + 977).

impl<D: Doubles> Columns<D> {
    /// Returns SCALE times the number, minus `less`. The first SHORT columns are small enough for a
    /// shorter computation.
    #[inline(always)]
    fn reduced<const SCALE: u32, const SHORT: usize>(
        self,
        k: &Constants,
        less: Less<D>,
    ) -> Number<D> {
        let [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9] = self.0;
        // The part of column 9 above 2^256 goes to column 5 of weight 2^257, and so on.
        let (low9, high9) = halves(c9, k.top(1), k.rounding(4));
        let c5 = c5.add(high9);
        let mut high = None;
        macro_rules! limb {
            ($i:literal, $column:expr, $upper:expr) => {
                if $i < SHORT {
                    short::<D, SCALE>($i, $column, $upper, less, k)
                } else {
                    let (low, next) = halves($upper, k.top(SCALE), k.rounding($i));
                    let rest = high.map_or(low, |high| low.add(high));
                    high = Some(next);
                    long::<D, SCALE>($i, $column, less.from(rest, $i, k), None, k)
                }
            };
        }
        let l0 = limb!(0, c0, c5);
        let l1 = limb!(1, c1, c6);
        let l2 = limb!(2, c2, c7);
        let l3 = limb!(3, c3, c8);
        let high = high.unwrap_or(D::splat(0.0));
        let (rest, even) = match less {
            Less::OnceAndTwice(less, twice) => {
                (low9.add(high).sub(less.0[4]), Some(twice.0[4].mul(k.minus_two())))
            }
            _ if SCALE == 1 => (less.from(low9.add(high), 4, k), None),
            _ if SCALE == 4 => (less.from(high, 4, k), Some(low9.mul(k.scale(SCALE)))),
            _ => (less.from(low9.mul_add(k.scale(SCALE), high), 4, k), None),
        };
        carry([l0, l1, l2, l3, long::<D, SCALE>(4, c4, rest, even, k)], k)
    }
}

/// Returns SCALE times a column minus `less`, plus what the upper column is worth there, without
/// the part above, and that part.
#[inline(always)]
fn short<D: Doubles, const SCALE: u32>(
    i: usize,
    column: D,
    upper: D,
    less: Less<D>,
    k: &Constants,
) -> (D, D) {
    let top = k.top(SCALE);
    let column = if SCALE == 1 { column } else { column.mul(k.scale(SCALE)) };
    let own = less.from(column, i, k);
    let sum = upper.mul_add_rounded(top, own);
    let above = sum.add_rounded(k.rounding(i)).sub(k.rounding(i));
    (upper.mul_sub(top, above).add(own), above)
}

/// Returns SCALE times a column plus the rest, without the part above, and that part. The part is
/// chosen by a rounded sum, so that the limb may be some units larger than 2^50.
#[inline(always)]
fn long<D: Doubles, const SCALE: u32>(
    i: usize,
    column: D,
    rest: D,
    even: Option<D>,
    k: &Constants,
) -> (D, D) {
    let scale: D = k.scale(SCALE);
    let all = even.map_or(rest, |even| rest.add_rounded(even));
    let sum = if SCALE == 1 { column.add_rounded(all) } else { column.mul_add_rounded(scale, all) };
    let above = sum.add_rounded(k.rounding(i)).sub(k.rounding(i));
    let left = if SCALE == 1 { column.sub(above) } else { column.mul_sub(scale, above) };
    let left = even.map_or(left, |even| left.add(even));
    (left.add(rest), above)
}
