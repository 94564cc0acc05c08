//! Points of a curve y^2 = x^3 + b, eight side by side.
//!
//! No formula here uses b, so they hold on every curve that is isomorphic to secp256k1. None is
//! complete: in a case that a formula does not cover, the Z coordinate of the result is zero, and
//! stays zero in all further results.

use crate::field::{Fe, Product, ProductFactor, SquareFactor, steps};
use crate::group::{GROUP, Group, Page, Steps};
use crate::vector::{Mask, Vector};

/// The points (X / Z^2, Y / Z^3) of a group, with sizes of X up to 2.01, of Y up to 6.01, and of Z
/// up to 1.01. They are in a page of their own (see [`Page`]).
#[derive(Clone, Default)]
#[repr(C, align(4096))]
pub struct Jacobian {
    /// X
    pub x: Group,
    /// Y
    pub y: Group,
    /// Z, usable only in products.
    pub z: Group,
}

/// Points of a group that are not infinity, with sizes up to 2.01, in a page of their own.
#[derive(Default)]
#[repr(C, align(4096))]
pub struct Affine {
    /// x
    pub x: Group,
    /// y
    pub y: Group,
}

/// Memory for intermediate results of the formulas.
#[derive(Default)]
pub struct Terms(pub Page<3>, pub Page<2>);

steps! {
    /// 3 a^2, usable only in products
    TripleSquare(a; _mask) => a.square().fold().tripled().finish_factor();
    /// 2 a b, usable only in products
    Double(a, b; _mask) => a.product(b).fold().shifted::<1>().finish_factor();
    /// 4 a b
    Quadruple(a, b; _mask) => a.product(b).fold().shifted::<2>().finish();
    /// E^2 - 2D
    DoubledX(e, d; _mask) => e.square().fold().sub::<1>(d).finish_signed();
    /// E(D - X') - 8B^2
    DoubledY(b, e, d, x; _mask) => {
        let difference = d.sub(x);
        e.product_minus::<3>(difference, b.square()).fold().finish_signed()
    };
    /// a b - c, usable only in products
    Difference(a, b, c; _mask) => a.product(b).fold().sub::<0>(c).finish_signed_factor();
    /// a b - c, or -a b - c in the lanes of the mask, usable only in products
    SignedDifference(a, b, c; mask) => {
        a.product(b).fold().negate_if(mask).sub::<0>(c).finish_negated_factor()
    };
    /// R^2 - H^3 - 2V
    SumX(r, hhh, v; _mask) => r.square().fold().sub::<0>(hhh).sub::<1>(v).finish_signed();
    /// R(V - X') - YH^3
    SumY(y, hhh, r, v, x; _mask) => {
        let difference = v.sub(x);
        r.product_minus::<0>(difference, y.product(hhh)).fold().finish_signed()
    };
}

impl Jacobian {
    /// Writes twice the point. Z stays zero where it is zero.
    ///
    /// With B = Y^2, D = 4XB, E = 3X^2: X' = E^2 - 2D, Y' = E(D - X') - 8B^2, Z' = 2YZ. There is no
    /// point with Y = 0, as the order of the group is odd.
    #[inline(always)]
    pub fn double<V: Vector>(&self, steps: Steps<V>, terms: &mut Terms, to: &mut Self) {
        let Terms(Page([e, b, d]), _) = terms;
        steps.run(TripleSquare, [&self.x], e);
        steps.run(SquareFactor, [&self.y], b);
        steps.run(Double, [&self.y, &self.z], &mut to.z);
        steps.run(Quadruple, [&self.x, b], d);
        steps.run(DoubledX, [e, d], &mut to.x);
        steps.run(DoubledY, [b, e, d, &to.x], &mut to.y);
    }

    /// Writes the sum with a point, negated in the lanes of the masks. Z is zero where it was zero,
    /// and where the two points have the same x.
    ///
    /// With H = xZ^2 - X, R = yZ^3 - Y, V = XH^2: X' = R^2 - H^3 - 2V, Y' = R(V - X') - YH^3,
    /// Z' = ZH.
    #[inline(always)]
    pub fn add<V: Vector>(
        &self,
        steps: Steps<V>,
        other: &Affine,
        negate: &[Mask; GROUP],
        terms: &mut Terms,
        to: &mut Self,
    ) {
        let Terms(Page([square, cube, h]), Page([hh, r])) = terms;
        steps.run(SquareFactor, [&self.z], square);
        steps.run(Difference, [&other.x, square, &self.x], h);
        steps.run(ProductFactor, [&self.z, square], cube);
        steps.run(SquareFactor, [h], hh);
        steps.run_masked(SignedDifference, [&other.y, cube, &self.y], negate, r);
        // The powers of Z are no longer needed.
        let hhh = cube;
        let v = square;
        steps.run(Product, [h, hh], hhh);
        steps.run(Product, [&self.x, hh], v);
        steps.run(SumX, [r, hhh, v], &mut to.x);
        steps.run(ProductFactor, [&self.z, h], &mut to.z);
        steps.run(SumY, [&self.y, hhh, r, v, &to.x], &mut to.y);
    }

    /// Replaces the lanes of the mask in one vector by those of `other`.
    #[inline(always)]
    pub fn take<V: Vector>(&mut self, vector: usize, mask: Mask, other: &Self) {
        // Mostly there are no such lanes.
        if mask == 0 {
            return;
        }
        let Self { x, y, z } = self;
        for (to, from) in [(x, &other.x), (y, &other.y), (z, &other.z)] {
            let own = Fe::<V>::load(&to[vector]);
            Fe::select(mask, Fe::load(&from[vector]), own).store(&mut to[vector]);
        }
    }
}
