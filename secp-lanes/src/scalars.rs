//! The factors u1 = a / s and u2 = b / s of all signatures, and their digits.

use crate::comb::Comb;
use crate::glv;
use crate::scalar::{ONE, Scalar};
use crate::vector::{LANES, Op, Vector, Words};
use crate::work::Work;

/// The stage that computes the digits of all factors.
pub struct Scalars<'a> {
    /// The batch.
    pub work: &'a mut Work,
    /// The table that the digits of u1 are for.
    pub comb: &'a Comb,
}

impl Op for Scalars<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { work, comb } = self;
        let mut product = Scalar::<V>::constant(ONE);
        for vector in work.signatures.clone() {
            product.store(&mut work.scalar_prefix[vector]);
            product = product.mul(Scalar::from_rows(&work.inputs[vector].s));
        }
        // In `mul` a number x stands for x * 2^260, so what is inverted is s / 2^260, and its
        // inverse is 2^520 / s; the product with 1 leaves 2^260 / s, by which a and b are
        // multiplied.
        let mut inverse = product.inverse().mul(Scalar::constant([1, 0, 0, 0]));
        for vector in work.signatures.clone().rev() {
            let one = inverse.mul(Scalar::load(&work.scalar_prefix[vector]));
            let inputs = &work.inputs[vector];
            inverse = inverse.mul(Scalar::from_rows(&inputs.s));
            let mut u1 = [[0; 4]; LANES];
            let mut u2 = [[0; 4]; LANES];
            let [a, b] = [Scalar::<V>::from_rows(&inputs.a), Scalar::from_rows(&inputs.b)];
            V::to_rows(a.mul(one).canonical().to_words(), &mut u1);
            V::to_rows(b.mul(one).canonical().to_words(), &mut u2);
            put_comb_digits::<V>(work, comb, vector, &u1);
            // In lanes that fail, the highest digit is one of an earlier batch, and is ignored.
            work.exceptional[vector] |= glv::digits(&u2, &mut work.ladder_digits[vector]);
        }
        for vector in work.tweaks.clone() {
            let u1 = work.inputs[vector].a;
            put_comb_digits::<V>(work, comb, vector, &u1);
        }
    }
}

/// Writes the digits of u1, and prefetches the points that they stand for, which are far apart in
/// memory.
fn put_comb_digits<V: Vector>(
    work: &mut Work,
    comb: &Comb,
    vector: usize,
    factors: &[Words; LANES],
) {
    let digits = &mut work.comb_digits[vector];
    for (lane, factor) in factors.iter().enumerate() {
        comb.digits(factor, |i, digit| {
            digits[i][lane] = digit;
            V::prefetch(comb.row(i, digit).0);
        });
    }
}
