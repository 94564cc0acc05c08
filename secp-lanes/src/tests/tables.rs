use num_bigint::BigUint;

use super::{Random, big, edges, kernels, words};
use crate::comb::Comb;
use crate::glv::{self, DIGITS, POINTS, ZERO};
use crate::vector::LANES;
use crate::words::{N, modulo_n};
use crate::{Batch, Kernel, Options, Verdict};

fn lambda() -> BigUint {
    let hex = b"5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72";
    BigUint::parse_bytes(hex, 16).unwrap()
}

/// The number below n that a digit stands for.
fn value(digit: u8) -> BigUint {
    let n = big(&N);
    if digit == ZERO {
        return BigUint::from(0u32);
    }
    let (a, b) = POINTS[usize::from(digit / 6)];
    let whole =
        |half: i8| if half < 0 { &n - half.unsigned_abs() } else { half.unsigned_abs().into() };
    let mut number = whole(a) + whole(b) * lambda();
    for _ in 0..digit % 6 / 2 {
        number *= lambda();
    }
    if digit % 2 == 1 { (&n - number % &n) % &n } else { number % &n }
}

#[test]
fn digits_stand_for_their_number() {
    let n = big(&N);
    let mut random = Random(1);
    let mut numbers: Vec<_> = edges().iter().map(modulo_n).collect();
    numbers.extend((0..20_000).map(|_| modulo_n(&random.words())));
    // The extreme values of the halves.
    let halves = [
        BigUint::parse_bytes(b"3086d221a7d46bcde86c90e49284eb15", 16).unwrap(),
        BigUint::parse_bytes(b"e4437ed6010e88286f547fa90abfe4c3", 16).unwrap(),
    ];
    for a in [&halves[0], &halves[1], &(&halves[0] + &halves[1])] {
        for b in [&halves[0], &halves[1], &(&halves[0] + &halves[1])] {
            for step in 0..40u32 {
                let corner = (a * step / 40u32 + b / 2u32 * lambda()) % &n;
                numbers.extend([words(&corner), words(&(&n - &corner))].map(|w| modulo_n(&w)));
            }
        }
    }
    let values: Vec<BigUint> = (0..=255u8)
        .map(|digit| if digit < 66 || digit == ZERO { value(digit) } else { BigUint::from(0u32) })
        .collect();
    numbers.resize(numbers.len().next_multiple_of(LANES), [0; 4]);
    for numbers in numbers.as_chunks::<LANES>().0 {
        let mut digits = [[ZERO; LANES]; DIGITS];
        assert_eq!(glv::digits(numbers, &mut digits), 0, "43 digits suffice");
        for (lane, number) in numbers.iter().enumerate() {
            let sum = digits.iter().rev().fold(BigUint::from(0u32), |sum, row| {
                (sum * 8u32 + &values[usize::from(row[lane])]) % &n
            });
            assert_eq!(sum, big(number));
        }
    }
}

#[test]
fn the_comb_has_the_multiples_of_the_generator() {
    use secp256k1::{PublicKey, SECP256K1, SecretKey};
    for kernel in kernels() {
        let bits = match kernel {
            Kernel::Avx512 => 13,
            Kernel::Avx2 | Kernel::Neon => 12,
            Kernel::Avx2Doubles => 11,
            _ => 8,
        };
        let comb = Comb::shared(bits, kernel);
        let half = 1 << (bits - 1);
        let n = big(&N);
        let mut random = Random(2);
        for (i, row) in comb.rows().enumerate() {
            if i % half > 3 && !random.next().is_multiple_of(97) {
                continue;
            }
            let factor = ((BigUint::from(2 * (i % half) + 1)) << (bits as usize * (i / half))) % &n;
            let mut bytes = [0; 32];
            let digits = factor.to_bytes_be();
            bytes[32 - digits.len()..].copy_from_slice(&digits);
            let key = SecretKey::from_slice(&bytes).unwrap();
            let point = PublicKey::from_secret_key(SECP256K1, &key).serialize_uncompressed();
            let expected =
                [1, 33].map(|at| crate::words::from_bytes(point[at..at + 32].try_into().unwrap()));
            assert_eq!(*row, expected, "{i}");
        }
    }
}

#[test]
fn the_combs_digits_stand_for_their_number() {
    let n = big(&N);
    let mut random = Random(3);
    for bits in [8, 11, 13] {
        let comb = Comb::shared(bits, Kernel::best());
        let mut numbers: Vec<_> = edges().iter().map(modulo_n).collect();
        numbers.extend((0..500).map(|_| modulo_n(&random.words())));
        for number in numbers {
            let mut sum = BigUint::from(0u32);
            comb.digits(&number, |window, digit| {
                let odd = 2 * i64::from(digit) - ((1 << bits) - 1);
                let power = BigUint::from(1u32) << (bits as usize * window);
                let term = power * odd.unsigned_abs() % &n;
                sum = (&sum + if odd < 0 { &n - term } else { term }) % &n;
            });
            assert_eq!(sum, big(&number));
        }
    }
}

#[test]
fn no_limb_of_a_factor_is_too_large() {
    // The portable vectors check each factor in these tests; the verdicts are checked elsewhere.
    let options = Options { kernel: Some(Kernel::Portable), window_bits: 8 };
    let mut batch = Batch::new(options);
    assert_eq!(batch.kernel(), Kernel::Portable);
    let mut random = Random(4);
    for i in 0..40u8 {
        let bytes: Vec<u8> = (0..16).flat_map(|_| random.next().to_le_bytes()).collect();
        let (key, rest) = bytes.split_at(32);
        let key: &[u8; 32] = key.try_into().unwrap();
        batch.push_schnorr(key, rest[..64].try_into().unwrap(), &[i]);
        batch.push_tweak(key, rest[..32].try_into().unwrap(), key, false);
    }
    assert!(!batch.verify().contains(&Verdict::Valid));
}
