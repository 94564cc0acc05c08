use num_bigint::BigUint;

use super::{Random, big, edges, kernels, rounds, words};
use crate::field::{Fe, P};
use crate::scalar::{ONE, Scalar};
use crate::vector::{ALL, LANES, Op, Vector, Words};
use crate::words::{self as one_by_one, N};
use crate::work::Rows;

/// Every operation on pairs of numbers, and what comes out, in a fixed order.
struct FieldOps {
    a: Rows,
    b: Rows,
    mask: u8,
}

fn load<V: Vector>([r0, r1, r2, r3, r4, r5, r6, r7]: &Rows) -> [V; 4] {
    V::from_rows([r0, r1, r2, r3, r4, r5, r6, r7])
}

fn rows<V: Vector>(number: Fe<V>) -> Rows {
    let mut rows = [[0; 4]; LANES];
    V::to_rows(number.canonical().to_words(), &mut rows);
    rows
}

impl Op for FieldOps {
    type Output = (Vec<Rows>, [u8; 2]);

    #[inline(always)]
    fn run<V: Vector>(self) -> Self::Output {
        let [a, b] = [Fe::<V>::from_words(load(&self.a)), Fe::from_words(load(&self.b))];
        let wide = |x: Fe<V>| x.add(x).add(x).add(x);
        let results = vec![
            rows(a),
            rows(a.mul(b)),
            rows(a.sqr()),
            rows(a.add(b)),
            rows(a.sub(b)),
            rows(a.negate_if(self.mask)),
            rows(a.sub(b).mul(wide(b))),
            rows(a.sub(b).sub(b).sqr()),
            rows(a.square().fold().tripled().finish()),
            rows(a.product(b).fold().shifted::<2>().finish()),
            rows(a.product(b).fold().sub::<1>(wide(b)).finish_signed()),
            rows(a.product(b).sub_shifted::<3>(b.square()).fold().finish_signed()),
            rows(a.product(b).fold().negate_if(self.mask).sub::<0>(a).finish_negated()),
            rows(a.signed_if(self.mask).sub_signed(b.signed_if(!self.mask))),
            rows(a.below_2_256()),
            rows(Fe::select(self.mask, a, b)),
            rows(wide(wide(a).sub(b))),
            rows(a.times(b)),
            rows(a.inverse()),
        ];
        (results, [a.zeros(), a.odd()])
    }
}

/// The same with a big-integer crate, for one pair.
fn field_expected(a: &Words, b: &Words, chosen: bool) -> Vec<Words> {
    let p = big(&P);
    let [a, b] = [big(a) % &p, big(b) % &p];
    let minus = |x: &BigUint| &p - x;
    let b2 = &b * 2u32;
    let signed = |x: &BigUint, yes: bool| if yes { minus(x) } else { x.clone() };
    let results = [
        a.clone(),
        &a * &b,
        &a * &a,
        &a + &b,
        &a + minus(&b),
        signed(&a, chosen),
        (&a + minus(&b)) * &b * 4u32,
        (&a + minus(&b) + minus(&b)).modpow(&BigUint::from(2u32), &p),
        &a * &a * 3u32,
        &a * &b * 4u32,
        &a * &b + minus(&b) * 8u32,
        &a * &b + minus(&b) * &b2 * 4u32,
        signed(&(&a * &b % &p), chosen) + minus(&a),
        signed(&a, chosen) + minus(&(signed(&b, !chosen) % &p)),
        a.clone(),
        if chosen { a.clone() } else { b.clone() },
        (&a * 4u32 + minus(&b)) * 4u32,
        &a * &b,
        a.modpow(&(&p - 2u32), &p),
    ];
    results.iter().map(|number| words(&(number % &p))).collect()
}

fn compare_field(kernel: crate::Kernel, a: Rows, b: Rows, mask: u8) {
    let (results, [zeros, odd]) = kernel.run(FieldOps { a, b, mask });
    for lane in 0..LANES {
        let expected = field_expected(&a[lane], &b[lane], mask >> lane & 1 == 1);
        for (i, expected) in expected.iter().enumerate() {
            let found = &results[i][lane];
            assert_eq!(found, expected, "{kernel:?}, {i}: {:x?} {:x?}", a[lane], b[lane]);
        }
        assert_eq!(zeros >> lane & 1 == 1, expected[0] == [0; 4]);
        assert_eq!(odd >> lane & 1, expected[0][0] as u8 & 1);
    }
}

#[test]
fn field_operations_on_edges() {
    for kernel in kernels() {
        let edges = edges();
        for (i, a) in edges.iter().enumerate() {
            for b in edges.chunks(LANES) {
                let b = std::array::from_fn(|lane| b[lane % b.len()]);
                compare_field(kernel, [*a; LANES], b, i as u8);
            }
        }
    }
}

#[test]
fn field_operations_on_random_numbers() {
    for kernel in kernels() {
        let mut random = Random(1);
        for _ in 0..rounds(kernel, 20_000).div_ceil(LANES) {
            let mask = random.next() as u8;
            compare_field(kernel, random.rows(), random.rows(), mask);
        }
    }
}

/// Limbs that no other test reaches: all ones, which is the largest factor.
struct Largest;

impl Op for Largest {
    type Output = [Rows; 3];

    #[inline(always)]
    fn run<V: Vector>(self) -> [Rows; 3] {
        let largest = Fe([V::splat((1 << 52) - 1); 5]);
        let mut below = [[0; 4]; LANES];
        V::to_rows(largest.below_2_256().to_words(), &mut below);
        [rows(largest.mul(largest)), rows(largest.sqr()), below]
    }
}

#[test]
fn the_largest_factors() {
    let largest = (BigUint::from(1u32) << 260usize) - 1u32;
    let expected = words(&(&largest * &largest % big(&P)));
    for kernel in kernels() {
        let [product, square, below] = kernel.run(Largest);
        assert_eq!([product, square], [[expected; LANES]; 2]);
        assert_eq!(big(&below[0]) % big(&P), &largest % big(&P));
    }
}

/// Products, inverses and remainders modulo n.
struct ScalarOps {
    a: Rows,
    b: Rows,
}

impl Op for ScalarOps {
    type Output = [Rows; 3];

    #[inline(always)]
    fn run<V: Vector>(self) -> [Rows; 3] {
        let [a, b] = [Scalar::<V>::from_words(load(&self.a)), Scalar::from_words(load(&self.b))];
        let mut results = [[[0; 4]; LANES]; 3];
        V::to_rows(a.mul(b).canonical().to_words(), &mut results[0]);
        V::to_rows(b.mul(b.inverse()).canonical().to_words(), &mut results[1]);
        V::to_rows(a.canonical().to_words(), &mut results[2]);
        results
    }
}

fn compare_scalars(kernel: crate::Kernel, a: Rows, b: Rows) {
    let n = big(&N);
    let power = (BigUint::from(1u32) << 260usize).modpow(&(&n - 2u32), &n);
    let [products, ones, remainders] = kernel.run(ScalarOps { a, b });
    for lane in 0..LANES {
        let [a, b] = [big(&a[lane]), big(&b[lane])];
        assert_eq!(big(&products[lane]), &a * &b * &power % &n, "{kernel:?}: {a:x} {b:x}");
        assert_eq!(ones[lane], if &b % &n == BigUint::from(0u32) { [0; 4] } else { ONE });
        assert_eq!(big(&remainders[lane]), a % &n);
    }
}

#[test]
fn scalar_operations() {
    for kernel in kernels() {
        let edges = edges();
        for a in &edges {
            for b in edges.chunks(LANES) {
                let b = std::array::from_fn(|lane| b[lane % b.len()]);
                compare_scalars(kernel, [*a; LANES], b);
            }
        }
        let mut random = Random(2);
        for _ in 0..rounds(kernel, 20_000).div_ceil(LANES) {
            compare_scalars(kernel, random.rows(), random.rows());
        }
    }
}

#[test]
fn numbers_one_by_one() {
    let n = big(&N);
    let mut random = Random(3);
    let mut numbers = edges();
    numbers.extend((0..200).map(|_| random.words()));
    for a in &numbers {
        let reduced = one_by_one::modulo_n(a);
        assert_eq!(big(&reduced), big(a) % &n);
        assert_eq!(big(&one_by_one::negate_modulo_n(&reduced)), (&n - big(&reduced)) % &n);
        assert_eq!(big(&one_by_one::half_modulo_n(&reduced)) * 2u32 % &n, big(&reduced));
        for b in &numbers {
            let b = one_by_one::modulo_n(b);
            assert_eq!(one_by_one::below(a, &b), big(a) < big(&b));
            let sum = one_by_one::add_modulo_n(&reduced, &b);
            assert_eq!(big(&sum), (big(&reduced) + big(&b)) % &n);
        }
    }
    assert_eq!(big(&one_by_one::P_MINUS_N), big(&P) - n);
    assert_eq!(ALL, 255);
}
