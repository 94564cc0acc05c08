//! Points of a curve y^2 = x^3 + b, eight side by side.
//!
//! No formula here uses b, so that they hold on every curve that is isomorphic to secp256k1. None
//! is complete: where one meets a case that it does not cover, the Z coordinate of the result is
//! zero, and stays zero in all that follows.
//!
//! Everything comes in pairs of vectors: what one of them waits for is a multiplication that takes
//! 30 times as long as the processor needs to start its next instruction, and the other fills the
//! gap.

use crate::field::Fe;
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

impl<V: Vector> Jacobian<V> {
    /// Twice the point. Z stays zero where it is.
    ///
    /// With B = Y^2, D = 4XB, E = 3X^2: X' = E^2 - 2D, Y' = E(D - X') - 8B^2, Z' = 2YZ. There is no
    /// point with Y = 0, as the order of the group is odd.
    #[inline(always)]
    pub fn double(&self) -> Self {
        let mut last = self.y[1];
        let e = in_order!(last, |k| self.x[k].after(last).square().fold().tripled().finish());
        let b = in_order!(last, |k| self.y[k].after(last).sqr());
        let z = in_order!(last, |k| {
            self.y[k].after(last).product(self.z[k]).fold().shifted::<1>().finish()
        });
        let d = in_order!(last, |k| {
            self.x[k].after(last).product(b[k]).fold().shifted::<2>().finish()
        });
        let x = in_order!(last, |k| {
            e[k].after(last).square().fold().sub::<1>(d[k]).finish_signed()
        });
        let y = in_order!(last, |k| {
            let bb = b[k].after(last).square();
            e[k].product(d[k].sub(x[k])).sub_shifted::<3>(bb).fold().finish_signed()
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
            other.x[k].after(last).product(zz[k]).fold().sub::<0>(self.x[k]).finish_signed()
        });
        let zzz = in_order!(last, |k| self.z[k].after(last).mul(zz[k]));
        let hh = in_order!(last, |k| h[k].after(last).sqr());
        let r = in_order!(last, |k| {
            let s = other.y[k].after(last).product(zzz[k]).fold().negate_if(negate[k]);
            s.sub::<0>(self.y[k]).finish_negated()
        });
        let hhh = in_order!(last, |k| h[k].after(last).mul(hh[k]));
        let v = in_order!(last, |k| self.x[k].after(last).mul(hh[k]));
        let x = in_order!(last, |k| {
            r[k].after(last).square().fold().sub::<0>(hhh[k]).sub::<1>(v[k]).finish_signed()
        });
        let z = in_order!(last, |k| self.z[k].after(last).mul(h[k]));
        let y = in_order!(last, |k| {
            let yh = self.y[k].after(last).product(hhh[k]);
            r[k].product(v[k].sub(x[k])).sub_shifted::<0>(yh).fold().finish_signed()
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
