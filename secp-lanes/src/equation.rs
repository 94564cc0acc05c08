//! The last stage: checks whether the sum of both multiples has the required x.
//!
//! # A point without its square root
//!
//! Of the key P = (x, y) only x is known, and whether the root y is even or odd. With c = x^3 + 7,
//! which is y^2, the map (X, Y) -> (y^2 X, y^3 Y) takes the curve Y^2 = X^3 + 7 to the isomorphic
//! one Y^2 = X^3 + 7c^3, and P to (c x, c^2). That point is known without y, and the formulas for
//! additions are the same on both curves. So the ladder multiplies (c x, c^2) by u2; let the result
//! be (X / Z^2, Y / Z^3). Back on the first curve, with s = c Z^2, the multiple of P is
//!
//! ```text
//! Q = (X / s, y * w),   w = Y / (Z c s)
//! ```
//!
//! Its x is known, and its y up to the factor y. Let A = (xa, ya) be the multiple of G, and
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
//! If the point with the root y satisfies the equation, N / D is that root. Conversely, if the
//! square of N / D is c, then x is on the curve, N / D is one of its roots, and the point with this
//! root satisfies the equation. So the signature is valid if and only if (N / D)^2 = c and N / D is
//! odd or even as the key requires. A wrong parity means the key -P, and is refused.
//!
//! If x is not on the curve, (c x, c^2) lies on the twist, and (N / D)^2 = c cannot hold, as c has
//! no root. The inverted denominator is D * H. It is zero if A = Q or A = -Q, if u2 * P is
//! infinity, and if the ladder met an exceptional case (Z = 0): all of these are reported as
//! exceptional.
//!
//! BIP340 and Taproot also need the y of the sum, which is (ya - y w) / h * (xa - r) - ya, where
//! (ya - y w) / h = (ya s c Z - y Y) / (c Z H) and 1 / (c Z H) = (2 ya Y Z^2) / (D H).

use std::ops::Range;

use crate::affine::{Minus, Place, curve_constants, places};
use crate::chain::{Chain, Number};
use crate::field::{Fe, Product, ProductFactor, Square, SquareFactor, steps};
use crate::group::{GROUP, Group, Steps, splat};
use crate::point::{Difference, Double};
use crate::vector::{Mask, Op, Vector};
use crate::words::N;
use crate::work::{Outcome, Work};

/// The stage that solves the equation in every lane.
pub struct Equation<'a> {
    /// The batch.
    pub work: &'a mut Work,
}

/// The terms of the equation, named as in the description of the module.
#[derive(Default)]
struct Terms {
    c: Group,
    x: Group,
    y: Group,
    z: Group,
    s: Group,
    xa: Group,
    ya: Group,
    /// xa s
    xas: Group,
    /// H
    h: Group,
    /// ya Y Z
    m: Group,
    /// D H
    dh: Group,
    /// 1 / (D H)
    inverse: Group,
    r: Group,
    /// Memory for intermediate results.
    memory: [Group; 4],
}

steps! {
    /// a + b
    Plus(a, b; _mask) => a.add(b);
    /// a b + c + d
    Sum(a, b, c, d; _mask) => a.product(b).fold().finish().add(c.add(d));
    /// a b + c - d
    Rest(a, b, c, d; _mask) => a.product(b).fold().finish().add(c.sub(d));
    /// a (b - c) - d
    Line(a, b, c, d; _mask) => a.product(b.sub(c)).fold().sub::<0>(d).finish_signed();
}

impl Op for Equation<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let work = self.work;
        let mut terms = Terms::default();
        let mut chain = std::mem::take(&mut work.chain);
        let mut careful = false;
        loop {
            forward::<V>(work, &mut terms, careful, &mut chain);
            if chain.invert::<V>() || careful {
                break;
            }
            careful = true;
        }
        for place in places(work).rev() {
            let steps = Steps::<V>::new(place.1.len());
            terms.set(steps, work, &place);
            let Terms { dh, inverse, memory: [other, ..], .. } = &mut terms;
            let mut number = Number::Itself(dh);
            if careful {
                // The lanes of zeros are marked already.
                number.without_zeros(steps, other, &mut [0; GROUP]);
                number = Number::Itself(other);
            }
            chain.pop(steps, number, inverse);
            solve(steps, work, place.1, &mut terms);
        }
        work.chain = chain;
    }
}

#[inline(always)]
fn forward<V: Vector>(work: &mut Work, terms: &mut Terms, careful: bool, chain: &mut Chain) {
    chain.clear::<V>(places(work).count());
    for place in places(work) {
        let steps = Steps::<V>::new(place.1.len());
        terms.set(steps, work, &place);
        let Terms { dh, memory: [other, ..], .. } = terms;
        let mut number = Number::Itself(dh);
        if careful {
            number.without_zeros(steps, other, &mut work.exceptional[place.1]);
            number = Number::Itself(other);
        }
        chain.push(steps, number);
    }
}

impl Terms {
    /// Computes the terms of a group, except `inverse` and `r`.
    #[inline(always)]
    fn set<V: Vector>(&mut self, steps: Steps<V>, work: &Work, (group, vectors, ladder): &Place) {
        let Self { c, x, y, z, s, xa, ya, xas, h, m, dh, memory: [other, key, square, _], .. } =
            self;
        curve_constants(steps, work, vectors.clone(), [key, square, c]);
        if *ladder {
            [*x, *y, *z] = work.multiple[*group];
        } else {
            steps.run(Product, [key, c], x);
            steps.run(Square, [c], y);
            *z = splat(Fe::<V>::small(1));
        }
        [*xa, *ya] = work.comb[*group][work.sum];
        steps.run(SquareFactor, [z], other);
        steps.run(ProductFactor, [other, c], s);
        steps.run(ProductFactor, [ya, y], other);
        steps.run(ProductFactor, [other, z], m);
        steps.run(Product, [xa, s], xas);
        steps.run(Minus, [xas, x], h);
        steps.run(Double, [m, s], other);
        steps.run(Product, [other, h], dh);
    }
}

/// Writes the outcome of a group, given 1 / (D H).
#[inline(always)]
fn solve<V: Vector>(steps: Steps<V>, work: &mut Work, vectors: Range<usize>, terms: &mut Terms) {
    for (inputs, r) in work.inputs[vectors.clone()].iter().zip(&mut terms.r) {
        Fe::<V>::from_rows(&inputs.r).store(r);
    }
    let roots = Roots::new(steps, terms);
    let sum_odd = sum_is_odd(steps, terms, &roots.y);
    for (k, vector) in vectors.clone().enumerate() {
        let outcome = &mut work.outcomes[vector];
        *outcome = Outcome {
            exceptional: work.exceptional[vector],
            holds: roots.holds[k],
            key_odd: roots.odd[k],
            sum_odd: sum_odd[k],
            ..Outcome::default()
        };
        V::to_rows(Fe::<V>::load(&roots.y[k]).to_words(), &mut outcome.y);
    }
    if work.plus_n[vectors.clone()].iter().all(|lanes| *lanes == 0) {
        return;
    }
    let r = terms.r;
    steps.run(Plus, [&r, &splat(Fe::<V>::constant(N))], &mut terms.r);
    let roots = Roots::new(steps, terms);
    for (k, vector) in vectors.enumerate() {
        let outcome = &mut work.outcomes[vector];
        outcome.holds_plus_n = roots.holds[k] & work.plus_n[vector];
        outcome.key_odd_plus_n = roots.odd[k];
        V::to_rows(Fe::<V>::load(&roots.y[k]).to_words(), &mut outcome.y_plus_n);
    }
}

/// N / D.
struct Roots {
    /// Below p.
    y: Group,
    /// The lanes in which its square is c.
    holds: [Mask; GROUP],
    /// The lanes in which it is odd.
    odd: [Mask; GROUP],
}

impl Roots {
    #[inline(always)]
    fn new<V: Vector>(steps: Steps<V>, terms: &mut Terms) -> Self {
        let Terms { c, x, y, s, ya, xas, h, inverse, r, memory: [a, b, d, e], .. } = terms;
        // (xa s + X + r s) H^2
        steps.run(Sum, [r, s, x, xas], a);
        steps.run(SquareFactor, [h], b);
        steps.run(Product, [a, b], d);
        // N = ya^2 s^3 + Y^2 - d
        steps.run(SquareFactor, [s], a);
        steps.run(ProductFactor, [a, s], b);
        steps.run(SquareFactor, [ya], a);
        steps.run(Square, [y], e);
        let mut roots = Self { y: *d, holds: [0; GROUP], odd: [0; GROUP] };
        steps.run(Rest, [a, b, e, d], &mut roots.y);
        // ... times 1 / D
        steps.run(ProductFactor, [inverse, h], b);
        steps.run(Product, [&roots.y, b], a);
        for (k, root) in a.iter().enumerate() {
            let canonical = Fe::<V>::load(root).canonical();
            canonical.store(&mut roots.y[k]);
            roots.odd[k] = !canonical.0[0].and(V::splat(1)).zeros();
        }
        steps.run(Square, [&roots.y], a);
        steps.run(Minus, [a, c], b);
        for (difference, holds) in b.iter().zip(&mut roots.holds) {
            *holds = Fe::<V>::load(difference).zeros();
        }
        roots
    }
}

/// Returns the lanes in which the y of the sum is odd, given the y of the key.
#[inline(always)]
fn sum_is_odd<V: Vector>(steps: Steps<V>, terms: &mut Terms, key_y: &Group) -> [Mask; GROUP] {
    let Terms { c, y, z, s, xa, ya, m, inverse, r, memory: [a, b, d, _], .. } = terms;
    // ya s c Z - y Y
    steps.run(Product, [key_y, y], d);
    steps.run(ProductFactor, [s, c], a);
    steps.run(ProductFactor, [a, z], b);
    steps.run(Difference, [b, ya, d], a);
    // ... times 1 / (c Z H): (ya - y w) / h
    steps.run(ProductFactor, [inverse, m], b);
    steps.run(Double, [b, z], d);
    steps.run(ProductFactor, [a, d], b);
    steps.run(Line, [b, xa, r, ya], a);
    let mut odd = [0; GROUP];
    for (sum_y, odd) in a.iter().zip(&mut odd) {
        *odd = Fe::<V>::load(sum_y).odd();
    }
    odd
}
