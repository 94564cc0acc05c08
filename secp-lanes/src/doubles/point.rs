//! Formulas for points, like those of `crate::point`, in other coordinates: here (X, Y, Z) is the
//! point (X / Z^2, Y / 2Z^3), which saves multiplications by small numbers.

use super::{Constants, Number, fits};
use crate::group::{Group, Page};
use crate::point::{Affine, Jacobian, Terms};
use crate::vector::{Doubles, DoublesStep};

/// Defines steps by name, inputs and results.
macro_rules! doubles_steps {
    ($(
        $(#[$doc:meta])*
        $name:ident($($input:ident),* ; $k:ident) => [$($result:ident),*] $value:block
    )*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl DoublesStep<{ [$(stringify!($input)),*].len() }, { [$(stringify!($result)),*].len() }>
            for $name
        {
            #[inline(always)]
            fn run<D: Doubles>(
                [$($input),*]: [[D; 5]; { [$(stringify!($input)),*].len() }],
            ) -> [[D; 5]; { [$(stringify!($result)),*].len() }] {
                let $k = Constants::get();
                $(let $input = Number($input);)*
                let [$($result),*] = $value;
                [$($result.0),*]
            }
        }
    )*};
}

doubles_steps! {
    /// The number whose limbs are these minus 2^52 units
    FromFields(a; k) => [c] { [a.minus(Number::offset()).carried(k)] }
    /// a b
    Product(a, b; k) => [c] { [a.product(b, k)] }
    /// 2 a b
    TwiceProduct(a, b; k) => [c] { [a.twice_product(b, k)] }
    /// a b - c
    ProductMinus(a, b, c; k) => [d] { [a.product_minus(b, c, k)] }
    /// 2 a b - c
    TwiceProductMinus(a, b, c; k) => [d] { [a.twice_product_minus(b, c, k)] }
    /// a^2
    Square(a; k) => [c] { [a.square(k)] }
    /// 3 a^2
    TripleSquare(a; k) => [c] { [a.triple_square(k)] }
    /// 4 a^2
    QuadrupleSquare(a; k) => [c] { [a.quadruple_square(k)] }
    /// X' = E^2 - G, and W = G - 2X'
    DoubledX(e, g; k) => [x, w] {
        let x = e.square_minus(g, k);
        [x, g.minus_twice(x, k).carried(k)]
    }
    /// X' = R^2 - F - 2V, and W = V - X'
    SumX(r, f, v; k) => [x, w] {
        let x = r.square_minus_both(f, v, k);
        [x, v.minus(x).carried(k)]
    }
}

/// Computes steps for the first vectors of groups.
#[derive(Clone, Copy)]
pub struct DoublesSteps(pub usize);

impl DoublesSteps {
    /// Computes a step with one result.
    #[inline(always)]
    fn run<D: Doubles, S: DoublesStep<N, 1>, const N: usize>(
        self,
        _: S,
        inputs: [&Group; N],
        to: &mut Group,
    ) {
        self.check(&inputs);
        D::each::<S, N, 1>(inputs.map(|input| &input[..]), [&mut to[..self.0]]);
        self.check(&[to]);
    }

    /// Computes a step with two results.
    #[inline(always)]
    fn run_both<D: Doubles, S: DoublesStep<N, 2>, const N: usize>(
        self,
        _: S,
        inputs: [&Group; N],
        first: &mut Group,
        second: &mut Group,
    ) {
        self.check(&inputs);
        let results = [&mut first[..self.0], &mut second[..self.0]];
        D::each::<S, N, 2>(inputs.map(|input| &input[..]), results);
        self.check(&[first, second]);
    }

    /// Checks the sizes of all limbs, in debug builds.
    #[inline(always)]
    fn check(self, groups: &[&Group]) {
        debug_assert!(groups.iter().all(|group| group[..self.0].iter().all(fits)));
    }

    /// Writes the numbers of fields of 52 bits, each of which has 2^52 added.
    #[inline(always)]
    pub fn from_fields<D: Doubles>(fields: &Group, to: &mut Group) {
        D::each::<FromFields, 1, 1>([fields], [to]);
        debug_assert!(to.iter().all(fits));
    }

    /// Writes twice the point. Z stays zero where it is zero.
    ///
    /// With E = 3X^2, B = Y^2, G = 2XB: X' = E^2 - G, Y' = E(G - 2X') - B^2, Z' = YZ.
    #[inline(always)]
    pub fn double<D: Doubles>(self, from: &Jacobian, terms: &mut Terms, to: &mut Jacobian) {
        let Terms(Page([e, b, g]), Page([w, bb])) = terms;
        self.run::<D, _, 1>(TripleSquare, [&from.x], e);
        self.run::<D, _, 1>(Square, [&from.y], b);
        self.run::<D, _, 2>(Product, [&from.y, &from.z], &mut to.z);
        self.run::<D, _, 2>(TwiceProduct, [&from.x, b], g);
        self.run::<D, _, 1>(Square, [b], bb);
        self.run_both::<D, _, 2>(DoubledX, [e, g], &mut to.x, w);
        self.run::<D, _, 3>(ProductMinus, [e, w, bb], &mut to.y);
    }

    /// Writes the sum with a point (x, y / 2). Z is zero where it was zero, and where the two
    /// points have the same x.
    ///
    /// With H = xZ^2 - X, R = yZ^3 - Y, V = 4XH^2: X' = R^2 - 4H^3 - 2V, Y' = 2R(V - X') - 8YH^3,
    /// Z' = 2ZH.
    #[inline(always)]
    pub fn add<D: Doubles>(
        self,
        from: &Jacobian,
        other: &Affine,
        terms: &mut Terms,
        to: &mut Jacobian,
    ) {
        let Terms(Page([square, cube, h]), Page([hh, r])) = terms;
        self.run::<D, _, 1>(Square, [&from.z], square);
        self.run::<D, _, 3>(ProductMinus, [&other.x, square, &from.x], h);
        self.run::<D, _, 2>(Product, [&from.z, square], cube);
        self.run::<D, _, 1>(QuadrupleSquare, [h], hh);
        self.run::<D, _, 3>(ProductMinus, [&other.y, cube, &from.y], r);
        // The powers of Z are no longer needed.
        let hhh = cube;
        let v = square;
        self.run::<D, _, 2>(Product, [h, hh], hhh);
        self.run::<D, _, 2>(Product, [&from.x, hh], v);
        self.run::<D, _, 2>(TwiceProduct, [&from.z, h], &mut to.z);
        // Nor are H and its square.
        let w = hh;
        let yhhh = h;
        self.run_both::<D, _, 3>(SumX, [r, hhh, v], &mut to.x, w);
        self.run::<D, _, 2>(TwiceProduct, [&from.y, hhh], yhhh);
        self.run::<D, _, 3>(TwiceProductMinus, [r, w, yhhh], &mut to.y);
    }
}
