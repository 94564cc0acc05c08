//! The end: whether the sum of both multiples has the x that it must have.
//!
//! # A point without its square root
//!
//! Of the key P = (x, y) only x is given, and which of the two roots y is: even or odd. With
//! c = x^3 + 7, which is y^2, the map (X, Y) -> (y^2 X, y^3 Y) takes the curve Y^2 = X^3 + 7 to the
//! isomorphic one Y^2 = X^3 + 7c^3, and P to (c x, c^2). That point is known without y, and the
//! formulas for additions are the same on both curves. So the ladder multiplies (c x, c^2) by u2;
//! let the result be (X / Z^2, Y / Z^3). Back on the first curve, with s = c Z^2, the multiple of P
//! is
//!
//! ```text
//! Q = (X / s, y * w),   w = Y / (Z c s)
//! ```
//!
//! Its x is known, its y but for the factor y. Let A = (xa, ya) be the multiple of G, and
//! h = xa - X / s, which must not be zero. The sum A + Q has the x coordinate r if and only if
//!
//! ```text
//! (ya - y w)^2 = (xa + X / s + r) h^2
//! ```
//!
//! As y^2 = c, this is linear in y: 2 ya w y = ya^2 + w^2 c - (xa + X / s + r) h^2. Times s^3, with
//! H = xa s - X:
//!
//! ```text
//! y = N / D,   N = ya^2 s^3 + Y^2 - (xa s + X + r s) H^2,   D = 2 ya Y Z s
//! ```
//!
//! If the point with the root y fulfils the equation, N / D is that root. If, the other way round,
//! the square of N / D is c, then x is on the curve, N / D is one of its roots, and the point with
//! this root fulfils the equation. So the signature is valid exactly if (N / D)^2 = c and N / D is
//! the root that is odd or even as the key says. A wrong parity means the key -P, and is refused.
//!
//! Where x is not on the curve, (c x, c^2) lies on the twist, and (N / D)^2 = c cannot hold, as c
//! has no root. The denominator inverted is D * H; it is zero where A = Q or A = -Q, where u2 * P
//! is infinity, and where the ladder met an exceptional case (Z = 0): all those are told apart as
//! exceptional.
//!
//! BIP340 and Taproot ask for the y of the sum too, which is (ya - y w) / h * (xa - r) - ya, where
//! (ya - y w) / h = (ya s c Z - y Y) / (c Z H) and 1 / (c Z H) = (2 ya Y Z^2) / (D H).

use crate::affine::{curve_constant, without_zeros};
use crate::field::{Fe, FeLanes};
use crate::point::{Pair, both};
use crate::vector::{Op, Vector};
use crate::work::{Outcome, Work, grow};

/// n, which is below p.
const N: Fe4 = crate::words::N;
type Fe4 = crate::vector::Words;

/// Solves the equation in every lane.
pub struct Equation<'a> {
    /// The batch.
    pub work: &'a mut Work,
}

/// What the equation is made of; the names are those of the module's description.
struct Terms<V> {
    c: Pair<V>,
    x: Pair<V>,
    y: Pair<V>,
    z: Pair<V>,
    s: Pair<V>,
    xa: Pair<V>,
    ya: Pair<V>,
    /// xa s
    xas: Pair<V>,
    /// H
    h: Pair<V>,
    /// ya Y Z
    m: Pair<V>,
    /// D H
    dh: Pair<V>,
}

impl Op for Equation<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let work = self.work;
        grow(&mut work.prefix, work.vectors / 2, [FeLanes::default(); 2]);
        let mut product = forward::<V>(work, false);
        let mut careful = false;
        if product[0].zeros() | product[1].zeros() != 0 {
            careful = true;
            product = forward::<V>(work, true);
        }
        let inverse = product[0].times(product[1]).inverse();
        let mut inverse = [inverse.times(product[1]), inverse.times(product[0])];
        for vector in (0..work.vectors).step_by(2).rev() {
            let mut terms = terms::<V>(work, vector);
            if careful {
                terms.dh = without_zeros(work, vector, terms.dh);
            }
            let prefix = &work.prefix[vector / 2];
            let one = both!(|k| inverse[k].times(Fe::load(&prefix[k])));
            inverse = both!(|k| inverse[k].times(terms.dh[k]));
            solve(work, vector, &terms, one);
        }
    }
}

#[inline(always)]
fn forward<V: Vector>(work: &mut Work, careful: bool) -> Pair<V> {
    let mut product = both!(|_k| Fe::<V>::small(1));
    for vector in (0..work.vectors).step_by(2) {
        let mut dh = terms::<V>(work, vector).dh;
        if careful {
            dh = without_zeros(work, vector, dh);
        }
        both!(|k| product[k].store(&mut work.prefix[vector / 2][k]));
        product = both!(|k| product[k].times(dh[k]));
    }
    product
}

#[inline(always)]
fn terms<V: Vector>(work: &Work, vector: usize) -> Terms<V> {
    let key = both!(|k| Fe::<V>::from_rows(&work.inputs[vector + k].x));
    let c = both!(|k| curve_constant(key[k]));
    let ladder = vector < work.signature_vectors;
    let [x, y, z] = if ladder {
        let multiple = &work.multiple;
        [
            both!(|k| Fe::load(&multiple[vector + k][0])),
            both!(|k| Fe::load(&multiple[vector + k][1])),
            both!(|k| Fe::load(&multiple[vector + k][2])),
        ]
    } else {
        [both!(|k| key[k].times(c[k])), both!(|k| c[k].squared()), both!(|_k| Fe::small(1))]
    };
    let xa = both!(|k| Fe::load(&work.comb[vector + k][0][0]));
    let ya = both!(|k| Fe::load(&work.comb[vector + k][0][1]));
    let s = both!(|k| z[k].squared().times(c[k]));
    let m = both!(|k| ya[k].times(y[k]).times(z[k]));
    let xas = both!(|k| xa[k].times(s[k]));
    let h = both!(|k| xas[k].sub(x[k]));
    let dh = both!(|k| m[k].times(s[k]).double().times(h[k]));
    Terms { c, x, y, z, s, xa, ya, xas, h, m, dh }
}

/// Writes the outcome of a pair of vectors, given 1 / (D H).
#[inline(always)]
fn solve<V: Vector>(work: &mut Work, vector: usize, terms: &Terms<V>, one: Pair<V>) {
    let r = both!(|k| Fe::<V>::from_rows(&work.inputs[vector + k].r));
    let (key_y, holds, key_odd) = root(terms, &r, one);
    // (ya - y w) / h
    let slope = both!(|k| {
        let scz = terms.s[k].times(terms.c[k]).times(terms.z[k]);
        let top = terms.ya[k].times(scz).sub(key_y[k].times(terms.y[k]));
        top.times(one[k].times(terms.m[k]).times(terms.z[k]).double())
    });
    let sum_y = both!(|k| slope[k].times(terms.xa[k].sub(r[k])).sub(terms.ya[k]));
    let sum_odd = both!(|k| sum_y[k].odd());
    both!(|k| {
        let outcome = &mut work.outcomes[vector + k];
        *outcome = Outcome {
            exceptional: work.exceptional[vector + k],
            holds: holds[k],
            key_odd: key_odd[k],
            sum_odd: sum_odd[k],
            ..Outcome::default()
        };
        V::to_rows(key_y[k].to_words(), &mut outcome.y);
    });
    if work.plus_n[vector] | work.plus_n[vector + 1] != 0 {
        let r = both!(|k| r[k].add(Fe::constant(N)));
        let (key_y, holds, key_odd) = root(terms, &r, one);
        both!(|k| {
            let outcome = &mut work.outcomes[vector + k];
            outcome.holds_plus_n = holds[k] & work.plus_n[vector + k];
            outcome.key_odd_plus_n = key_odd[k];
            V::to_rows(key_y[k].to_words(), &mut outcome.y_plus_n);
        });
    }
}

/// N / D below p, the lanes where its square is c, and those where it is odd.
#[inline(always)]
fn root<V: Vector>(terms: &Terms<V>, r: &Pair<V>, one: Pair<V>) -> (Pair<V>, [u8; 2], [u8; 2]) {
    let y = both!(|k| {
        let Terms { s, ya, .. } = terms;
        let cube = s[k].squared().times(s[k]);
        let sum = terms.xas[k].add(terms.x[k]).add(r[k].times(s[k]));
        let squares = ya[k].squared().times(cube).add(terms.y[k].squared());
        let n = squares.sub(sum.times(terms.h[k].squared()));
        n.times(one[k].times(terms.h[k])).canonical()
    });
    let holds = both!(|k| y[k].squared().sub(terms.c[k]).zeros());
    let odd = both!(|k| !y[k].0[0].and(V::splat(1)).zeros());
    (y, holds, odd)
}
