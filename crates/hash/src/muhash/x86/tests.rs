use std::array::from_fn;

use proptest::prelude::*;

use super::*;
use crate::muhash::element::{key, number};
use crate::muhash::num3072::PRIME_DIFF;

type Bytes = [u8; NUM_BYTES];

/// Returns the bytes of 2^3072 - `n`.
fn minus(n: u64) -> Bytes {
    let mut bytes = [0xff; NUM_BYTES];
    bytes[..8].copy_from_slice(&n.wrapping_neg().to_le_bytes());
    bytes
}

fn small(n: u64) -> Bytes {
    let mut bytes = [0; NUM_BYTES];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    bytes
}

/// Returns numbers at which something carries or wraps: 0 and 1, those around the modulus, the
/// largest, and limbs, quarters and halves of ones and zeros.
fn edges() -> Vec<Bytes> {
    let pattern = |len: usize, first: u8| -> Bytes {
        from_fn(|i| if (i / len).is_multiple_of(2) { first } else { !first })
    };
    let mut edges = vec![small(0), small(1), small(2), small(PRIME_DIFF), small(u64::MAX)];
    edges.extend([1, 2, PRIME_DIFF - 1, PRIME_DIFF, PRIME_DIFF + 1, PRIME_DIFF + 2].map(minus));
    for len in [1, 3, 6, 48, 96, 192] {
        edges.extend([pattern(len, 0xff), pattern(len, 0)]);
    }
    edges.extend([0, 47, 48, 1535, 1536, 3071].map(|bit| {
        let mut bytes = small(0);
        bytes[bit / 8] = 1 << (bit % 8);
        bytes
    }));
    edges
}

/// Returns pseudorandom numbers.
fn random(seed: u64, count: usize) -> Vec<Bytes> {
    (0..count as u64)
        .map(|i| number(&key(&[seed, i].map(u64::to_le_bytes).concat())).to_bytes())
        .collect()
}

/// Checks the products of eight pairs against those of the code for 64-bit words.
fn check(ifma: Ifma, a: &[Bytes; LANES], b: &[Bytes; LANES]) {
    let mut products = ifma.products_of(a);
    products.multiply_lanes(b);
    for (lane, product) in products.lanes().iter().enumerate() {
        let mut expected = Num3072::from_bytes(&a[lane]);
        expected.multiply(&Num3072::from_bytes(&b[lane]));
        assert!(product.to_bytes() == expected.to_bytes(), "lane {lane}");
    }
}

#[test]
fn products_of_edges_in_every_lane() {
    let Some(ifma) = Ifma::detect() else { return };
    let numbers = [edges(), random(1, 20)].concat();
    for turn in 0..numbers.len() {
        for first in 0..numbers.len() {
            let at = |i: usize| numbers[i % numbers.len()];
            check(
                ifma,
                &from_fn(|lane| at(first + lane)),
                &from_fn(|lane| at(first + lane + turn)),
            );
        }
    }
}

#[test]
fn long_chains_of_products() {
    let Some(ifma) = Ifma::detect() else { return };
    let numbers = [edges()[7..].to_vec(), random(2, 1000)].concat();
    let start: [Bytes; LANES] = numbers[..LANES].try_into().unwrap();
    let mut products = ifma.products_of(&start);
    let mut expected = start.map(|bytes| Num3072::from_bytes(&bytes));
    for factors in numbers.windows(LANES) {
        let factors: &[Bytes; LANES] = factors.try_into().unwrap();
        products.multiply_lanes(factors);
        for (product, factor) in expected.iter_mut().zip(factors) {
            product.multiply(&Num3072::from_bytes(factor));
        }
    }
    assert!(products.lanes().map(|n| n.to_bytes()) == expected.map(|n| n.to_bytes()));
}

/// Returns 2^3072 divided by the difference between it and the modulus, rounded up, and by how much
/// this quotient times the difference exceeds 2^3072.
fn just_above() -> (Bytes, u64) {
    let mut quotient = small(0);
    let mut rest = 1;
    for byte in quotient.iter_mut().rev() {
        rest <<= 8;
        *byte = (rest / PRIME_DIFF) as u8;
        rest %= PRIME_DIFF;
    }
    assert!(quotient[0] != 0xff && rest > 0);
    quotient[0] += 1;
    (quotient, PRIME_DIFF - rest)
}

/// The remainders of 2 · 2^3072 - n: after 2^3072 is subtracted once and the difference is added,
/// every limb carries, and 2^3072 has to be subtracted again.
#[test]
fn reducing_may_carry_through_every_limb() {
    let Some(ifma) = Ifma::detect() else { return };
    let (high, above) = just_above();
    let mut products = ifma.products_of(&[small(0); LANES]);
    let steps = [1, 2, 77, 4096, PRIME_DIFF - 1, PRIME_DIFF, PRIME_DIFF + 1, 2 * PRIME_DIFF];
    for others in [false, true] {
        // Alone, and next to lanes in which nothing carries.
        let apart = |lane: usize| others && lane % 2 == 1;
        let low = from_fn(|lane| if apart(lane) { small(5) } else { minus(above + steps[lane]) });
        products.reduce(&low, &from_fn(|lane| if apart(lane) { small(0) } else { high }));
        for (lane, product) in products.lanes().iter().enumerate() {
            let expected = if apart(lane) { 5 } else { 2 * PRIME_DIFF - steps[lane] };
            assert!(product.to_bytes() == small(expected), "lane {lane}");
        }
    }
}

#[test]
fn sums_and_highest_columns_reduce() {
    let Some(ifma) = Ifma::detect() else { return };
    let numbers = edges();
    let mut products = ifma.products_of(&[small(0); LANES]);
    for (i, low) in numbers.iter().enumerate() {
        for high in &numbers {
            let lows = from_fn(|lane| numbers[(i + lane) % numbers.len()]);
            assert_eq!(&lows[0], low);
            products.reduce(&lows, &[*high; LANES]);
            for (low, product) in lows.iter().zip(products.lanes()) {
                assert!(product.to_bytes() == sum_of(low, high), "{i}");
            }
        }
    }
}

/// Returns the remainder of `low` + 2^3072 · `high`, computed byte by byte.
fn sum_of(low: &Bytes, high: &Bytes) -> Bytes {
    let mut sum = *low;
    let mut carry = 0;
    for (sum, high) in sum.iter_mut().zip(high) {
        carry += u64::from(*sum) + u64::from(*high) * PRIME_DIFF;
        *sum = carry as u8;
        carry >>= 8;
    }
    match carry {
        0 => Num3072::from_bytes(&sum).to_bytes(),
        _ => sum_of(&sum, &small(carry)),
    }
}

#[test]
fn keys_expand_to_the_numbers_of_their_elements() {
    let Some(ifma) = Ifma::detect() else { return };
    let elements: [[u8; 2]; KEYS] = from_fn(|i| [i as u8, 7]);
    let keys: Keys = from_fn(|word| elements.map(|element| key(&element)[word]));
    let start = Num3072::from_bytes(&random(3, 1)[0]);
    for count in 0..=KEYS {
        let mut products = ifma.products(&start);
        products.multiply(&keys, count);
        let mut expected = start.clone();
        elements[..count].iter().for_each(|e| expected.multiply(&number(&key(e))));
        assert!(products.together().to_bytes() == expected.to_bytes(), "{count}");
    }
}

proptest! {
    #[test]
    fn random_products(seed in any::<u64>(), edge in 0..edges().len(), lane in 0..LANES) {
        if let Some(ifma) = Ifma::detect() {
            let numbers = random(seed, 2 * LANES);
            let mut a: [Bytes; LANES] = numbers[..LANES].try_into().unwrap();
            a[lane] = edges()[edge];
            check(ifma, &a, numbers[LANES..].try_into().unwrap());
        }
    }
}
