//! Tests of the arithmetic in double precision: with doubles that check every step, and with those
//! of the processor.

use num_bigint::{BigInt, BigUint};

use super::{Random, big, edges, rounds};
use crate::doubles::ladder::DoublesLadder;
use crate::doubles::point::DoublesSteps;
use crate::doubles::{fits, power, unit};
use crate::field::P;
use crate::glv::{DIGITS, Digit, POINTS, ZERO};
use crate::group::{GROUP, Group};
use crate::kernel::Kernel;
use crate::ladder::Ladder;
use crate::point::{Affine, Jacobian, Terms};
use crate::vector::portable::Portable;
use crate::vector::{
    Doubles, DoublesOp, DoublesStep, LANES, Lanes, Limbs, Op, Vector, Words, each_in_doubles,
};
#[cfg(target_arch = "x86_64")]
use crate::vector::{avx2, fma::Fma};
use crate::work::Work;

/// A double, whose operations panic if a result that should be exact is not. Like those of portable
/// vectors, they are not inlined, which would take long to compile.
#[derive(Clone, Copy)]
struct Checked(f64);

/// Returns the rounded sum, and what was lost.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let from_b = sum - a;
    (sum, (a - (sum - from_b)) + (b - from_b))
}

/// Returns the rounded product, and what was lost.
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

impl Doubles for Checked {
    const REGISTERS: usize = LANES;

    #[inline(never)]
    fn splat(number: f64) -> Self {
        Self(number)
    }

    #[inline(never)]
    fn load(from: &Lanes, register: usize) -> Self {
        Self(f64::from_bits(from.0[register]))
    }

    #[inline(never)]
    fn store(self, to: &mut Lanes, register: usize) {
        to.0[register] = self.0.to_bits();
    }

    #[inline(never)]
    fn add(self, other: Self) -> Self {
        let (sum, lost) = two_sum(self.0, other.0);
        assert_eq!(lost, 0.0, "{:e} + {:e}", self.0, other.0);
        Self(sum)
    }

    #[inline(never)]
    fn sub(self, other: Self) -> Self {
        self.add(Self(-other.0))
    }

    #[inline(never)]
    fn mul(self, factor: Self) -> Self {
        let (product, lost) = two_product(self.0, factor.0);
        assert_eq!(lost, 0.0, "{:e} * {:e}", self.0, factor.0);
        Self(product)
    }

    #[inline(never)]
    fn mul_add(self, factor: Self, plus: Self) -> Self {
        let sum = self.0.mul_add(factor.0, plus.0);
        // The sum is exact if the product is the sum minus `plus`: both are written as a rounded
        // number and a rest.
        let product = two_product(self.0, factor.0);
        assert_eq!(product, two_sum(sum, -plus.0), "{:e} * {:e}", self.0, factor.0);
        Self(sum)
    }

    #[inline(never)]
    fn mul_sub(self, factor: Self, minus: Self) -> Self {
        self.mul_add(factor, Self(-minus.0))
    }

    #[inline(never)]
    fn add_rounded(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    #[inline(never)]
    fn mul_add_rounded(self, factor: Self, plus: Self) -> Self {
        Self(self.0.mul_add(factor.0, plus.0))
    }

    fn each<S: DoublesStep<N, M>, const N: usize, const M: usize>(
        inputs: [&[Limbs]; N],
        results: [&mut [Limbs]; M],
    ) {
        each_in_doubles::<Self, S, N, M>(inputs, results);
    }
}

/// Runs a computation with checked doubles, or with the processor's if it has them.
fn run<O: DoublesOp>(op: O, checked: bool) -> Option<O::Output> {
    if checked {
        return Some(op.run::<Portable<false>, Checked>());
    }
    #[cfg(target_arch = "x86_64")]
    return avx2::detect::<Fma>().map(|proof| avx2::dispatch_doubles(proof, op));
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Computes 2P and P + Q.
struct DoubleAndAdd<'a> {
    point: &'a Jacobian,
    other: &'a Affine,
}

impl DoublesOp for DoubleAndAdd<'_> {
    type Output = [Jacobian; 2];

    #[inline(always)]
    fn run<V: Vector, D: Doubles>(self) -> Self::Output {
        let steps = DoublesSteps(GROUP);
        let mut terms = Terms::default();
        let mut results = [Jacobian::default(), Jacobian::default()];
        steps.double::<D>(self.point, &mut terms, &mut results[0]);
        steps.add::<D>(self.point, self.other, &mut terms, &mut results[1]);
        results
    }
}

/// Returns the value of a number in one lane.
fn value(limbs: &Limbs, lane: usize) -> BigInt {
    let mut sum = BigInt::from(0);
    for (i, limb) in limbs.iter().enumerate() {
        let units = f64::from_bits(limb.0[lane]) * power(-unit(i));
        assert_eq!(units.trunc(), units);
        sum += BigInt::from(units as i64) << unit(i);
    }
    sum
}

fn remainder(number: BigInt) -> BigUint {
    let p = BigInt::from(big(&P));
    (((number % &p) + &p) % &p).to_biguint().expect("not negative")
}

/// Returns limbs up to their bounds, many of them at the bounds.
fn limbs(random: &mut Random) -> Limbs {
    let mut limbs = Limbs::default();
    for lane in 0..LANES {
        let kind = random.next() % 6;
        for (i, limb) in limbs.iter_mut().enumerate() {
            let max = (1i64 << if i == 4 { 51 } else { 50 }) + (1 << 37);
            let kind = if kind == 5 { random.next() % 5 } else { kind };
            let units = match kind {
                0 => random.next().cast_signed() % (max + 1),
                1 => [max, -max][(random.next() % 2) as usize],
                2 => [0, 1, -1, max, -max, 1 << 50, -(1 << 50), max - 1]
                    [(random.next() % 8) as usize],
                3 => random.next().cast_signed() >> (random.next() % 50 + 14),
                _ => max - (random.next() & 0xffff).cast_signed(),
            };
            limb.0[lane] = (units as f64 * power(unit(i))).to_bits();
        }
    }
    assert!(fits(&limbs));
    limbs
}

fn group(random: &mut Random) -> Group {
    std::array::from_fn(|_| limbs(random))
}

/// Compares the results of one lane with the formulas.
fn compare(point: &Jacobian, other: &Affine, results: &[Jacobian; 2], k: usize, lane: usize) {
    let of = |number: &Group| value(&number[k], lane);
    let check = |result: &Jacobian, expected: [BigInt; 3]| {
        for (found, expected) in [&result.x, &result.y, &result.z].into_iter().zip(expected) {
            assert!(fits(&found[k]));
            assert_eq!(remainder(of(found)), remainder(expected));
        }
    };
    let [x, y, z] = [of(&point.x), of(&point.y), of(&point.z)];
    let [x2, y2] = [of(&other.x), of(&other.y)];
    let e = 3 * &x * &x;
    let g = 2 * &x * &y * &y;
    let x3 = &e * &e - &g;
    let y3 = &e * (&g - 2 * &x3) - y.pow(4);
    check(&results[0], [x3, y3, &y * &z]);
    let h = x2 * &z * &z - &x;
    let r = y2 * z.pow(3) - &y;
    let v = 4 * &x * &h * &h;
    let x3: BigInt = &r * &r - 4 * h.pow(3) - 2 * &v;
    let y3: BigInt = 2 * &r * (&v - &x3) - 8 * &y * h.pow(3);
    check(&results[1], [x3, y3, 2 * &z * &h]);
}

#[test]
fn points_are_doubled_and_added() {
    let mut random = Random(11);
    let mut feed: Option<[Jacobian; 2]> = None;
    for round in 0..rounds(Kernel::Avx2Doubles, 200) {
        let mut point = Jacobian::default();
        for part in [&mut point.x, &mut point.y, &mut point.z] {
            *part = group(&mut random);
        }
        let mut other = Affine::default();
        for part in [&mut other.x, &mut other.y] {
            *part = group(&mut random);
        }
        // Every other time, results are used again.
        if let Some([double, sum]) = feed.take() {
            point = sum;
            other.x = double.x;
        }
        let op = || DoubleAndAdd { point: &point, other: &other };
        let results = run(op(), true).expect("checked doubles run everywhere");
        for k in 0..GROUP {
            for lane in 0..LANES {
                compare(&point, &other, &results, k, lane);
            }
        }
        if let Some(found) = run(op(), false) {
            for (found, result) in found.iter().zip(&results) {
                assert_eq!(found.x, result.x);
                assert_eq!(found.y, result.y);
                assert_eq!(found.z, result.z);
            }
        }
        if round % 2 == 0 {
            feed = Some(results);
        }
    }
}

/// Runs a step, checked, on numbers that do not depend on each other, and compares every lane.
fn compare_step<S: DoublesStep<N, M>, const N: usize, const M: usize>(
    random: &mut Random,
    formula: impl Fn([BigInt; N]) -> [BigInt; M],
) {
    let inputs: [Limbs; N] = std::array::from_fn(|_| limbs(random));
    let mut results = [Limbs::default(); M];
    let slices = inputs.each_ref().map(std::slice::from_ref);
    Checked::each::<S, N, M>(slices, results.each_mut().map(std::slice::from_mut));
    for lane in 0..LANES {
        let expected = formula(inputs.each_ref().map(|input| value(input, lane)));
        for (result, expected) in results.iter().zip(expected) {
            assert!(fits(result));
            assert_eq!(remainder(value(result, lane)), remainder(expected));
        }
    }
}

#[test]
fn steps_are_exact_at_the_bounds_of_limbs() {
    use crate::doubles::point::{
        DoubledX, Product, ProductMinus, QuadrupleSquare, Square, SumX, TripleSquare, TwiceProduct,
        TwiceProductMinus,
    };
    let mut random = Random(13);
    let random = &mut random;
    for _ in 0..rounds(Kernel::Avx2Doubles, 3000) {
        compare_step::<Product, 2, 1>(random, |[a, b]| [a * b]);
        compare_step::<TwiceProduct, 2, 1>(random, |[a, b]| [2 * a * b]);
        compare_step::<ProductMinus, 3, 1>(random, |[a, b, c]| [a * b - c]);
        compare_step::<TwiceProductMinus, 3, 1>(random, |[a, b, c]| [2 * a * b - c]);
        compare_step::<Square, 1, 1>(random, |[a]| [&a * &a]);
        compare_step::<TripleSquare, 1, 1>(random, |[a]| [3 * &a * &a]);
        compare_step::<QuadrupleSquare, 1, 1>(random, |[a]| [4 * &a * &a]);
        compare_step::<DoubledX, 2, 2>(random, |[e, g]| {
            let x = &e * &e - &g;
            [x.clone(), g - 2 * x]
        });
        compare_step::<SumX, 3, 2>(random, |[r, f, v]| {
            let x: BigInt = &r * &r - f - 2 * &v;
            [x.clone(), v - x]
        });
    }
}

/// Returns any table of points and digits. The formulas do not need points of a curve.
fn work(random: &mut Random, vectors: usize) -> Work {
    let edges = edges();
    let mut number = || -> Words {
        if random.next().is_multiple_of(4) {
            edges[random.next() as usize % edges.len()]
        } else {
            random.words()
        }
    };
    let mut work = Work::default();
    work.resize(vectors * LANES, 0);
    for point in work.table.iter_mut().flatten() {
        for coordinate in point.iter_mut().flatten() {
            for lane in 0..LANES {
                let [w0, w1, w2, w3] = number();
                let low52 = (1 << 52) - 1;
                let limbs = [
                    w0 & low52,
                    (w0 >> 52 | w1 << 12) & low52,
                    (w1 >> 40 | w2 << 24) & low52,
                    (w2 >> 28 | w3 << 36) & low52,
                    w3 >> 16,
                ];
                for (to, limb) in coordinate.iter_mut().zip(limbs) {
                    to.0[lane] = limb;
                }
            }
        }
    }
    let digits = work.ladder_digits.iter_mut().flatten().enumerate();
    for (i, digit) in digits.flat_map(|(i, row)| row.iter_mut().map(move |digit| (i, digit))) {
        let any = random.next();
        // Many ladders start late.
        let zero = any.is_multiple_of(if i % DIGITS > DIGITS - 5 { 2 } else { 30 });
        *digit = if zero { ZERO } else { (any >> 32) as Digit % (6 * POINTS.len() as Digit) };
    }
    work
}

/// Returns the value of a number of 52-bit limbs.
fn value52(limbs: &Limbs, lane: usize) -> BigUint {
    let parts = limbs.iter().enumerate();
    parts.map(|(i, limb)| BigUint::from(limb.0[lane]) << (52 * i)).sum::<BigUint>() % big(&P)
}

#[test]
fn the_ladder_is_the_other_ladder() {
    let mut random = Random(12);
    let vectors = GROUP + 1;
    for _ in 0..rounds(Kernel::Avx2Doubles, 4) {
        let mut work = work(&mut random, vectors);
        Ladder { work: &mut work }.run::<Portable<false>>();
        let expected = work.multiple.clone();
        for checked in [true, false] {
            work.multiple.fill([Group::default(); 3]);
            if run(DoublesLadder { work: &mut work }, checked).is_none() {
                continue;
            }
            for vector in 0..vectors {
                for lane in 0..LANES {
                    let of = |multiple: &[[Group; 3]]| {
                        let group = &multiple[vector / GROUP];
                        group.each_ref().map(|part| value52(&part[vector % GROUP], lane))
                    };
                    let [x1, y1, z1] = of(&expected);
                    let [x2, y2, z2] = of(&work.multiple);
                    let p = big(&P);
                    assert_eq!(z1 == BigUint::ZERO, z2 == BigUint::ZERO);
                    assert_eq!(x1 * z2.pow(2) % &p, x2 * z1.pow(2) % &p);
                    assert_eq!(y1 * z2.pow(3) % &p, y2 * z1.pow(3) % &p);
                }
            }
        }
    }
}
