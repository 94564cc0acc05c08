//! Points of a curve y^2 = x^3 + b, eight side by side.
//!
//! No formula here uses b, so that they hold on every curve that is isomorphic to secp256k1. None
//! is complete: where one meets a case that it does not cover, the Z coordinate of the result is
//! zero, and stays zero in all that follows.
//!
//! Everything comes in pairs of vectors: what one of them waits for is a multiplication that takes
//! 30 times as long as the processor needs to start its next instruction, and the other fills the
//! gap.

use crate::field::{Fe, steps};
use crate::vector::{Mask, Vector};

/// Two vectors of field elements.
pub type Pair<V> = [Fe<V>; 2];

/// The same expression for both elements of a pair.
macro_rules! both {
    (|$k:ident| $value:expr) => {
        [
            {
                let $k = 0;
                $value
            },
            {
                let $k = 1;
                $value
            },
        ]
    };
}
pub(crate) use both;

/// The same expression for both elements of a pair, each kept as the last that was computed.
macro_rules! in_order {
    ($last:ident, |$k:ident| $value:expr) => {
        both!(|$k| {
            $last = $value;
            $last
        })
    };
}
pub(crate) use in_order;

/// The points (X / Z^2, Y / Z^3); sizes of X up to 2.01, of Y up to 6.01, of Z up to 1.01.
#[derive(Clone, Copy)]
pub struct Jacobian<V> {
    /// X
    pub x: Pair<V>,
    /// Y
    pub y: Pair<V>,
    /// Z
    pub z: Pair<V>,
}

/// Points that are not infinity; sizes up to 2.01.
#[derive(Clone, Copy)]
pub struct Affine<V> {
    /// x
    pub x: Pair<V>,
    /// y
    pub y: Pair<V>,
}

steps! {
    /// 3 a^2
    TripleSquare(a; _mask) => a.square().fold().tripled().finish();
    /// 2 a b
    Double(a, b; _mask) => a.product(b).fold().shifted::<1>().finish();
    /// 4 a b
    Quadruple(a, b; _mask) => a.product(b).fold().shifted::<2>().finish();
    /// E^2 - 2D
    DoubledX(e, d; _mask) => e.square().fold().sub::<1>(d).finish_signed();
    /// E(D - X') - 8B^2
    DoubledY(b, e, d, x; _mask) => {
        let bb = b.square();
        e.product(d.sub(x)).sub_shifted::<3>(bb).fold().finish_signed()
    };
    /// a b - c
    Difference(a, b, c; _mask) => a.product(b).fold().sub::<0>(c).finish_signed();
    /// a b - c, or -a b - c in the lanes of the mask
    SignedDifference(a, b, c; mask) => {
        a.product(b).fold().negate_if(mask).sub::<0>(c).finish_negated()
    };
    /// R^2 - H^3 - 2V
    SumX(r, hhh, v; _mask) => r.square().fold().sub::<0>(hhh).sub::<1>(v).finish_signed();
    /// R(V - X') - YH^3
    SumY(y, hhh, r, v, x; _mask) => {
        let yh = y.product(hhh);
        r.product(v.sub(x)).sub_shifted::<0>(yh).fold().finish_signed()
    };
}

impl<V: Vector> Jacobian<V> {
    /// Twice the point. Z stays zero where it is.
    ///
    /// With B = Y^2, D = 4XB, E = 3X^2: X' = E^2 - 2D, Y' = E(D - X') - 8B^2, Z' = 2YZ. There is no
    /// point with Y = 0, as the order of the group is odd.
    #[inline(always)]
    pub fn double(&self) -> Self {
        let mut last = self.y[1];
        let e = in_order!(last, |k| Fe::step(TripleSquare, [&self.x[k].after(last)], 0));
        let b = in_order!(last, |k| self.y[k].after(last).sqr());
        let z = in_order!(last, |k| Fe::step(Double, [&self.y[k].after(last), &self.z[k]], 0));
        let d = in_order!(last, |k| Fe::step(Quadruple, [&self.x[k].after(last), &b[k]], 0));
        let x = in_order!(last, |k| Fe::step(DoubledX, [&e[k].after(last), &d[k]], 0));
        let y = in_order!(last, |k| {
            Fe::step(DoubledY, [&b[k].after(last), &e[k], &d[k], &x[k]], 0)
        });
        Self { x, y, z }
    }

    /// The sum with a point, negated in the lanes of the mask. Z is zero where it was, and where
    /// the two points have the same x.
    ///
    /// With H = xZ^2 - X, R = yZ^3 - Y, V = XH^2: X' = R^2 - H^3 - 2V, Y' = R(V - X') - YH^3,
    /// Z' = ZH.
    #[inline(always)]
    pub fn add(&self, other: &Affine<V>, negate: [Mask; 2]) -> Self {
        let mut last = self.y[1];
        let zz = in_order!(last, |k| self.z[k].after(last).sqr());
        let h = in_order!(last, |k| {
            Fe::step(Difference, [&other.x[k].after(last), &zz[k], &self.x[k]], 0)
        });
        let zzz = in_order!(last, |k| self.z[k].after(last).mul(zz[k]));
        let hh = in_order!(last, |k| h[k].after(last).sqr());
        let r = in_order!(last, |k| {
            let [y, own] = [other.y[k].after(last), self.y[k]];
            Fe::step(SignedDifference, [&y, &zzz[k], &own], negate[k])
        });
        let hhh = in_order!(last, |k| h[k].after(last).mul(hh[k]));
        let v = in_order!(last, |k| self.x[k].after(last).mul(hh[k]));
        let x = in_order!(last, |k| Fe::step(SumX, [&r[k].after(last), &hhh[k], &v[k]], 0));
        let z = in_order!(last, |k| self.z[k].after(last).mul(h[k]));
        let y = in_order!(last, |k| {
            Fe::step(SumY, [&self.y[k].after(last), &hhh[k], &r[k], &v[k], &x[k]], 0)
        });
        Self { x, y, z }
    }

    /// The lanes of `yes` where the mask has a one, those of `no` elsewhere.
    #[inline(always)]
    pub fn select(mask: [Mask; 2], yes: &Self, no: &Self) -> Self {
        Self {
            x: both!(|k| Fe::select(mask[k], yes.x[k], no.x[k])),
            y: both!(|k| Fe::select(mask[k], yes.y[k], no.y[k])),
            z: both!(|k| Fe::select(mask[k], yes.z[k], no.z[k])),
        }
    }
}
