//! Inverses of many numbers by one inversion (Montgomery): every number is multiplied into a
//! running product, and each product is kept; from the inverse of the last, each number's own
//! inverse comes back, last to first.
//!
//! A number that is zero, in a lane, would spoil that lane of all inverses. [`Chain::invert`] says
//! so before anything is inverted: then everything is multiplied once more, with zeros replaced.

use crate::affine::{Minus, Twice};
use crate::field::{Fe, ProductFactor, steps};
use crate::group::{Group, Steps, splat};
use crate::point::Double;
use crate::vector::{Mask, Vector};
use crate::work::grow;

/// A number that is to be inverted.
#[derive(Clone, Copy)]
pub enum Number<'a> {
    /// The number itself.
    Itself(&'a Group),
    /// The first minus the second.
    Difference(&'a Group, &'a Group),
    /// Twice the number.
    Twice(&'a Group),
}

steps! {
    /// a (b - c), good for products alone
    TimesDifference(a, b, c; _mask) => a.product(b.sub(c)).fold().finish_factor();
}

impl Number<'_> {
    /// Puts the product with it, good for products alone.
    #[inline(always)]
    fn times<V: Vector>(self, steps: Steps<V>, other: &Group, to: &mut Group) {
        match self {
            Self::Itself(number) => steps.run(ProductFactor, [other, number], to),
            Self::Difference(a, b) => steps.run(TimesDifference, [other, a, b], to),
            Self::Twice(number) => steps.run(Double, [other, number], to),
        }
    }

    /// Puts it with zeros replaced by ones, and marks their lanes.
    #[inline(always)]
    pub fn without_zeros<V: Vector>(self, steps: Steps<V>, to: &mut Group, marks: &mut [Mask]) {
        match self {
            Self::Itself(number) => *to = *number,
            Self::Difference(a, b) => steps.run(Minus, [a, b], to),
            Self::Twice(number) => steps.run(Twice, [number], to),
        }
        for (number, mark) in to[..steps.vectors()].iter_mut().zip(marks) {
            let own = Fe::<V>::load(number);
            let zeros = own.zeros();
            *mark |= zeros;
            Fe::select(zeros, Fe::small(1), own).store(number);
        }
    }
}

/// Running products of groups of numbers, a vector of a group each by itself.
#[derive(Default)]
pub struct Chain {
    /// The products, good for products alone; the first is that of no numbers.
    products: Vec<Group>,
    /// Number of groups that were multiplied.
    len: usize,
    /// The inverse of the product of the first `len`, at index `len % 2`, and memory for the next.
    inverses: [Group; 2],
}

impl Chain {
    /// Starts again, with room for so many groups of numbers.
    #[inline(always)]
    pub fn clear<V: Vector>(&mut self, groups: usize) {
        grow(&mut self.products, groups + 1, Group::default());
        self.products[0] = splat(Fe::<V>::small(1));
        self.len = 0;
    }

    /// Multiplies numbers into the product.
    #[inline(always)]
    pub fn push<V: Vector>(&mut self, steps: Steps<V>, numbers: Number<'_>) {
        let (before, after) = self.products.split_at_mut(self.len + 1);
        let (before, after) = (&before[self.len], &mut after[0]);
        numbers.times(steps, before, after);
        let unused = steps.vectors()..;
        after[unused.clone()].copy_from_slice(&before[unused]);
        self.len += 1;
    }

    /// Inverts the product, if it is not zero in any lane.
    #[inline(always)]
    pub fn invert<V: Vector>(&mut self) -> bool {
        let [a, b, c, d] = &self.products[self.len];
        let [a, b, c, d] = [Fe::<V>::load(a), Fe::load(b), Fe::load(c), Fe::load(d)];
        let (ab, cd) = (a.mul(b), c.mul(d));
        let all = ab.mul(cd);
        if all.zeros() != 0 {
            return false;
        }
        let inverse = all.inverse();
        let (one_ab, one_cd) = (inverse.mul(cd), inverse.mul(ab));
        let ones = [one_ab.mul(b), one_ab.mul(a), one_cd.mul(d), one_cd.mul(c)];
        for (one, to) in ones.into_iter().zip(&mut self.inverses[self.len % 2]) {
            one.store(to);
        }
        true
    }

    /// Puts the inverses of the numbers that were multiplied last, good for products alone, and
    /// takes the numbers off.
    #[inline(always)]
    pub fn pop<V: Vector>(&mut self, steps: Steps<V>, numbers: Number<'_>, to: &mut Group) {
        let [even, odd] = &mut self.inverses;
        let (inverse, next) = if self.len.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        self.len -= 1;
        steps.run(ProductFactor, [inverse, &self.products[self.len]], to);
        numbers.times(steps, inverse, next);
        let unused = steps.vectors()..;
        next[unused.clone()].copy_from_slice(&inverse[unused]);
    }
}
