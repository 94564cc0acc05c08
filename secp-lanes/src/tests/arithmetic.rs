use num_bigint::BigUint;

use super::{Random, Vectors, big, edges, words};
use crate::field::{Fe, P};
use crate::inverse::Prime;
use crate::kernel::Kernel;
use crate::scalar::{ONE, Scalar};
use crate::vector::{ALL, LANES, Lanes, Op, Vector, Words};
use crate::words::{self as one_by_one, N};
use crate::work::Rows;

/// Every operation on pairs of numbers; returns the results in a fixed order.
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
        let results = [
            a,
            a.mul(b),
            a.sqr(),
            a.add(b),
            a.sub(b),
            a.negate_if(self.mask),
            a.sub(b).mul(wide(b)),
            a.sub(b).sub(b).sqr(),
            a.square().fold().tripled().finish(),
            a.square().fold().tripled().finish_factor().mul(a.product(b).fold().finish_factor()),
            a.product(b).fold().shifted::<2>().finish(),
            a.product(b).fold().sub::<1>(wide(b)).finish_signed(),
            a.product(b).fold().sub::<0>(a).finish_signed_factor().sqr(),
            a.product_minus::<3>(b, b.square()).fold().finish_signed(),
            a.product(b).fold().negate_if(self.mask).sub::<0>(a).finish_negated_factor().mul(b),
            a.signed_if(self.mask).sub_signed(b.signed_if(!self.mask)),
            a.below_2_256(),
            Fe::select(self.mask, a, b),
            wide(wide(a).sub(b)),
            a.inverse(),
        ];
        let results = results.iter().map(|number| rows(*number)).collect();
        (results, [a.zeros(), a.odd()])
    }
}

/// Computes the same results for one pair, with a big-integer crate.
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
        &a * &a * 3u32 * &a * &b,
        &a * &b * 4u32,
        &a * &b + minus(&b) * 8u32,
        (&a * &b + minus(&a)).modpow(&BigUint::from(2u32), &p),
        &a * &b + minus(&b) * &b2 * 4u32,
        (signed(&(&a * &b % &p), chosen) + minus(&a)) * &b,
        signed(&a, chosen) + minus(&(signed(&b, !chosen) % &p)),
        a.clone(),
        if chosen { a.clone() } else { b.clone() },
        (&a * 4u32 + minus(&b)) * 4u32,
        a.modpow(&(&p - 2u32), &p),
    ];
    results.iter().map(|number| words(&(number % &p))).collect()
}

fn compare_field(vectors: Vectors, a: Rows, b: Rows, mask: u8) {
    let (results, [zeros, odd]) = vectors.run(FieldOps { a, b, mask });
    for lane in 0..LANES {
        let expected = field_expected(&a[lane], &b[lane], mask >> lane & 1 == 1);
        for (i, expected) in expected.iter().enumerate() {
            let found = &results[i][lane];
            assert_eq!(found, expected, "{vectors:?}, {i}: {:x?} {:x?}", a[lane], b[lane]);
        }
        assert_eq!(zeros >> lane & 1 == 1, expected[0] == [0; 4]);
        assert_eq!(odd >> lane & 1, expected[0][0] as u8 & 1);
    }
}

#[test]
fn field_operations_on_edges() {
    for vectors in Vectors::all() {
        let edges = edges();
        for (i, a) in edges.iter().enumerate() {
            for b in edges.chunks(LANES) {
                let b = std::array::from_fn(|lane| b[lane % b.len()]);
                compare_field(vectors, [*a; LANES], b, i as u8);
            }
        }
    }
}

#[test]
fn field_operations_on_random_numbers() {
    for vectors in Vectors::all() {
        let mut random = Random(1);
        for _ in 0..vectors.rounds(20_000).div_ceil(LANES) {
            let mask = random.next() as u8;
            compare_field(vectors, random.rows(), random.rows(), mask);
        }
    }
}

/// The halves of products, low and high, without the extra terms.
struct Halves {
    a: u64,
    b: [u64; LANES],
}

impl Op for Halves {
    type Output = ([Lanes; 2], bool);

    #[inline(always)]
    fn run<V: Vector>(self) -> Self::Output {
        let [a, b] = [V::splat(self.a), V::load(&Lanes(self.b))];
        let mut halves = [Lanes::default(); 2];
        V::mad_low(V::splat(V::LOW_EXTRA.wrapping_neg()), a, b).store(&mut halves[0]);
        V::mad_high(V::splat(V::HIGH_EXTRA.wrapping_neg()), a, b).store(&mut halves[1]);
        (halves, V::ROUNDS)
    }
}

#[test]
fn halves_of_products() {
    let mut limbs: Vec<u64> = (0..=52).flat_map(|bit| [1 << bit, (1 << bit) - 1]).collect();
    limbs.extend((0..52).flat_map(|bit| [(1 << bit) + 1, (1 << 52) - (1 << bit)]));
    let mut random = Random(5);
    limbs.extend((0..100).map(|_| random.next() >> 12));
    limbs.retain(|limb| *limb < 1 << 52);
    for vectors in Vectors::all() {
        for a in &limbs {
            for b in limbs.chunks(LANES) {
                let b = std::array::from_fn(|lane| b[lane % b.len()]);
                let ([low, high], rounds) = vectors.run(Halves { a: *a, b });
                let range = if rounds { -1 << 51..(1 << 51) + 1 } else { 0..1 << 52 };
                for ((low, high), b) in low.0.iter().zip(high.0).zip(b) {
                    let low = low.cast_signed();
                    let product = i128::from(low) + (i128::from(high) << 52);
                    assert_eq!(product, i128::from(*a) * i128::from(b), "{vectors:?}");
                    assert!(range.contains(&low), "{vectors:?}: {a} {b}");
                }
            }
        }
    }
}

/// Limbs that no other test reaches: all ones, the largest factor.
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
    for vectors in Vectors::all() {
        let [product, square, below] = vectors.run(Largest);
        assert_eq!([product, square], [[expected; LANES]; 2]);
        assert_eq!(big(&below[0]) % big(&P), &largest % big(&P));
    }
}

#[test]
fn inverses_of_whole_numbers() {
    let mut random = Random(4);
    for prime in [P, N] {
        let inverses = Prime::new(prime);
        let prime = big(&prime);
        let powers = (0..256).map(|bit| words(&(BigUint::from(1u32) << bit)));
        let random = (0..super::rounds(Kernel::Library, 10_000)).flat_map(|_| random.rows());
        for number in edges().into_iter().chain(powers).chain(random) {
            let number = words(&(big(&number) % &prime));
            let inverse = big(&inverses.inverse(&number));
            let one = u32::from(number != [0; 4]);
            assert!(inverse < prime, "{number:x?}");
            assert_eq!(inverse * big(&number) % &prime, BigUint::from(one), "{number:x?}");
        }
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

fn compare_scalars(vectors: Vectors, a: Rows, b: Rows) {
    let n = big(&N);
    let power = (BigUint::from(1u32) << 260usize).modpow(&(&n - 2u32), &n);
    let [products, ones, remainders] = vectors.run(ScalarOps { a, b });
    for lane in 0..LANES {
        let [a, b] = [big(&a[lane]), big(&b[lane])];
        assert_eq!(big(&products[lane]), &a * &b * &power % &n, "{vectors:?}: {a:x} {b:x}");
        assert_eq!(ones[lane], if &b % &n == BigUint::from(0u32) { [0; 4] } else { ONE });
        assert_eq!(big(&remainders[lane]), a % &n);
    }
}

#[test]
fn scalar_operations() {
    for vectors in Vectors::all() {
        let edges = edges();
        for a in &edges {
            for b in edges.chunks(LANES) {
                let b = std::array::from_fn(|lane| b[lane % b.len()]);
                compare_scalars(vectors, [*a; LANES], b);
            }
        }
        let mut random = Random(2);
        for _ in 0..vectors.rounds(20_000).div_ceil(LANES) {
            compare_scalars(vectors, random.rows(), random.rows());
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
