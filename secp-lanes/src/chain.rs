//! Inverses of many numbers by one inversion (Montgomery): every number is multiplied into a
//! running product, and each product is kept; the inverse of the last one then yields each number's
//! inverse, last to first.
//!
//! A zero in a lane would spoil that lane of all inverses. [`Chain::invert`] reports it before
//! anything is inverted: then everything is multiplied once more, with zeros replaced.

use crate::affine::{Minus, Twice};
use crate::field::{Fe, ProductFactor, steps};
use crate::group::{Group, Steps, splat};
use crate::point::Double;
use crate::vector::{Mask, Vector};
use crate::work::grow;

/// A number to invert.
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
    /// a (b - c), usable only in products
    TimesDifference(a, b, c; _mask) => a.product(b.sub(c)).fold().finish_factor();
}

impl Number<'_> {
    /// Writes the product with the number, usable only in products.
    #[inline(always)]
    fn times<V: Vector>(self, steps: Steps<V>, other: &Group, to: &mut Group) {
        match self {
            Self::Itself(number) => steps.run(ProductFactor, [other, number], to),
            Self::Difference(a, b) => steps.run(TimesDifference, [other, a, b], to),
            Self::Twice(number) => steps.run(Double, [other, number], to),
        }
    }

    /// Writes the number with zeros replaced by ones, and marks their lanes.
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

/// Running products of groups of numbers, each vector of a group by itself.
#[derive(Default)]
pub struct Chain {
    /// The products, usable only in products; the first is the empty product.
    products: Vec<Group>,
    /// Number of groups that were multiplied in.
    len: usize,
    /// The inverse of the product of the first `len` groups, at index `len % 2`, and room for the
    /// next.
    inverses: [Group; 2],
}

impl Chain {
    /// Starts again, with room for this many groups of numbers.
    #[inline(always)]
    pub fn clear<V: Vector>(&mut self, groups: usize) {
        grow(&mut self.products, groups + 1, Group::default());
        self.products[0] = splat(Fe::<V>::small(1));
        self.len = 0;
    }

    /// Multiplies a group of numbers into the product.
    #[inline(always)]
    pub fn push<V: Vector>(&mut self, steps: Steps<V>, numbers: Number<'_>) {
        let (before, after) = self.products.split_at_mut(self.len + 1);
        let before = &before[self.len];
        let after = &mut after[0];
        numbers.times(steps, before, after);
        let unused = steps.vectors()..;
        after[unused.clone()].copy_from_slice(&before[unused]);
        self.len += 1;
    }

    /// Inverts the product. Returns false, without inverting, if it is zero in any lane.
    #[inline(always)]
    pub fn invert<V: Vector>(&mut self) -> bool {
        let [a, b, c, d] = &self.products[self.len];
        let [a, b, c, d] = [Fe::<V>::load(a), Fe::load(b), Fe::load(c), Fe::load(d)];
        let ab = a.mul(b);
        let cd = c.mul(d);
        let all = ab.mul(cd);
        if all.zeros() != 0 {
            return false;
        }
        let inverse = all.inverse();
        let one_ab = inverse.mul(cd);
        let one_cd = inverse.mul(ab);
        let ones = [one_ab.mul(b), one_ab.mul(a), one_cd.mul(d), one_cd.mul(c)];
        for (one, to) in ones.into_iter().zip(&mut self.inverses[self.len % 2]) {
            one.store(to);
        }
        true
    }

    /// Writes the inverses of the group that was multiplied in last, usable only in products, and
    /// removes the group.
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
