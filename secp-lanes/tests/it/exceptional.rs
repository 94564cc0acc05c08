//! Signatures that meet each exceptional case. A valid ECDSA signature can be made for any u1 and
//! u2: its r is the x of u1 G + u2 P, s is r / u2, and the message is u1 s.

use num_bigint::BigUint;
use secp_lanes::{Batch, Verdict};
use secp256k1::{PublicKey, SECP256K1, Scalar, SecretKey};

use super::common::{Check, Random, batch};
use super::kernels;

fn number(hex: &str) -> BigUint {
    BigUint::parse_bytes(hex.as_bytes(), 16).unwrap()
}

fn n() -> BigUint {
    number("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141")
}

fn lambda() -> BigUint {
    number("5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72")
}

fn bytes(number: &BigUint) -> [u8; 32] {
    let digits = number.to_bytes_be();
    let mut bytes = [0; 32];
    bytes[32 - digits.len()..].copy_from_slice(&digits);
    bytes
}

fn inverse(number: &BigUint) -> BigUint {
    number.modpow(&(n() - 2u32), &n())
}

fn secret(number: &BigUint) -> SecretKey {
    SecretKey::from_slice(&bytes(number)).unwrap()
}

fn der(r: &BigUint, s: &BigUint) -> Vec<u8> {
    let compact = [bytes(r), bytes(s)].concat();
    secp256k1::ecdsa::Signature::from_compact(&compact).unwrap().serialize_der().to_vec()
}

/// Returns the signature with these factors, by the key d G.
fn signature(d: &BigUint, u1: &BigUint, u2: &BigUint) -> Check {
    let sum = (u1 + u2 * d) % n();
    let x = secret(&sum).public_key(SECP256K1).x_only_public_key().0.serialize();
    let r = BigUint::from_bytes_be(&x) % n();
    let s = &r * inverse(u2) % n();
    let key = secret(d).public_key(SECP256K1).serialize().to_vec();
    Check::Ecdsa { key, der: der(&r, &s), message: bytes(&(u1 * &s % n())) }
}

fn verdicts(batch: &mut Batch, checks: &[Check]) -> Vec<Verdict> {
    for check in checks {
        check.push(batch);
    }
    batch.verify().to_vec()
}

/// Asserts a verdict for each check, alone and among ordinary ones.
fn assert_all(checks: &[Check], verdict: Verdict) {
    for check in checks {
        assert_eq!(check.expected(), Some(true), "they are valid: {check:?}");
    }
    let mut random = Random(1);
    for kernel in kernels() {
        let mut batch = batch(kernel);
        assert_eq!(verdicts(&mut batch, checks), vec![verdict; checks.len()], "{kernel:?}");
        let mut mixed = Vec::new();
        for check in checks {
            mixed.extend([Check::valid(&mut random), check.clone()]);
        }
        let expected = [Verdict::Valid, verdict].repeat(checks.len());
        assert_eq!(verdicts(&mut batch, &mixed), expected, "{kernel:?}");
    }
}

fn random(seed: u64) -> impl FnMut() -> BigUint {
    let mut random = Random(seed);
    move || BigUint::from_bytes_be(&random.bytes()) % n()
}

#[test]
fn both_multiples_are_equal() {
    let mut next = random(1);
    let checks: Vec<Check> = (0..9)
        .map(|_| {
            let [d, u2] = [next(), next()];
            signature(&d, &(&u2 * &d % n()), &u2)
        })
        .collect();
    assert_all(&checks, Verdict::Undecided);
    // H is zero whatever r is, and N / D satisfies the equation for each r.
    for kernel in kernels() {
        let mut spoiled = checks.clone();
        for check in &mut spoiled {
            let Check::Ecdsa { der, .. } = check else { unreachable!() };
            der[10] ^= 1;
        }
        assert!(!verdicts(&mut batch(kernel), &spoiled).contains(&Verdict::Valid));
    }
}

#[test]
fn the_multiples_cancel_each_other() {
    let mut next = random(2);
    let checks: Vec<Check> = (0..9)
        .map(|_| {
            let [d, u2, r] = [next(), next(), next()];
            let u1 = (n() - &u2 * &d % n()) % n();
            let s = &r * inverse(&u2) % n();
            let key = secret(&d).public_key(SECP256K1).serialize().to_vec();
            Check::Ecdsa { key, der: der(&r, &s), message: bytes(&(u1 * &s % n())) }
        })
        .collect();
    for kernel in kernels() {
        assert!(checks.iter().all(|check| check.expected() == Some(false)));
        let undecided = vec![Verdict::Undecided; checks.len()];
        assert_eq!(verdicts(&mut batch(kernel), &checks), undecided);
    }
}

#[test]
fn keys_that_are_units_times_the_generator() {
    let mut next = random(3);
    let one = BigUint::from(1u32);
    let squared = lambda() * lambda() % n();
    let mut checks = Vec::new();
    for d in [one, lambda(), squared] {
        for d in [d.clone(), n() - d] {
            checks.extend((0..3).map(|_| signature(&d, &next(), &next())));
        }
    }
    assert_all(&checks, Verdict::Valid);
}

#[test]
fn zero_times_the_generator() {
    let mut next = random(4);
    let zero = BigUint::from(0u32);
    let checks: Vec<Check> = (0..5).map(|_| signature(&next(), &zero, &next())).collect();
    assert_all(&checks, Verdict::Undecided);
}

#[test]
fn small_multiples_of_the_generator() {
    let mut next = random(5);
    for u1 in [1u32, 2, 3, 4095, 4096, 8191, 8192, 8193] {
        let check = signature(&next(), &BigUint::from(u1), &next());
        let check = [check, signature(&next(), &(n() - u1), &next())];
        for kernel in kernels() {
            let found = verdicts(&mut batch(kernel), &check);
            assert!(!found.contains(&Verdict::Invalid), "{u1}: {found:?}");
        }
    }
}

#[test]
fn small_multiples_of_the_key() {
    // The ladder starts too late for these factors.
    let mut next = random(6);
    let mut checks = Vec::new();
    for u2 in (1..40u32).chain([511, 512, 4096, 262_144]) {
        checks.push(signature(&next(), &next(), &BigUint::from(u2)));
        checks.push(signature(&next(), &next(), &(n() - u2)));
        checks.push(signature(&next(), &next(), &(lambda() * u2 % n())));
    }
    assert_all(&checks, Verdict::Undecided);
}

#[test]
fn the_ladder_starts_at_each_digit() {
    let mut next = random(7);
    let starts = (102..=126).step_by(3).map(|bits| (bits, Verdict::Valid));
    for (bits, verdict) in starts.chain([(98, Verdict::Undecided)]) {
        let u2: BigUint = (BigUint::from(1u32) << bits) + BigUint::from(0x1234_5678u32);
        let both = [u2.clone(), (&u2 * lambda() + 12345u32) % n(), n() - &u2];
        let checks: Vec<Check> = both.iter().map(|u2| signature(&next(), &next(), u2)).collect();
        assert_all(&checks, verdict);
    }
}

#[test]
fn the_ladder_meets_its_table() {
    // The sum so far is T, and T or -T is added. With digits that are not digits of ours this needs
    // a multiple of the order, so that it is met only at the top, where u2 is slightly below n.
    let mut next = random(8);
    let half = inverse(&BigUint::from(2u32));
    let eighth = half.modpow(&BigUint::from(3u32), &n());
    let checks: Vec<Check> = [half.clone(), n() - &half, eighth.clone(), n() - &eighth]
        .iter()
        .map(|u2| signature(&next(), &next(), u2))
        .collect();
    for kernel in kernels() {
        let found = verdicts(&mut batch(kernel), &checks);
        assert!(!found.contains(&Verdict::Invalid), "{found:?}");
    }
}

#[test]
fn the_x_of_the_sum_is_n_or_more() {
    // R is a point with an x of n or more; the key is (R - u1 G) / u2.
    let mut next = random(9);
    let mut checks = Vec::new();
    for x in 0..40u32 {
        let point = [vec![2 + (x % 2) as u8], bytes(&(n() + x)).to_vec()].concat();
        let Ok(point) = PublicKey::from_slice(&point) else { continue };
        if x == 0 {
            continue;
        }
        let [u1, u2] = [next(), next()];
        let minus = secret(&(n() - &u1)).public_key(SECP256K1);
        let factor = Scalar::from_be_bytes(bytes(&inverse(&u2))).unwrap();
        let key = point.combine(&minus).unwrap().mul_tweak(SECP256K1, &factor).unwrap();
        let r = BigUint::from(x);
        let s = &r * inverse(&u2) % n();
        let message = bytes(&(&u1 * &s % n()));
        for key in [key.serialize().to_vec(), key.serialize_uncompressed().to_vec()] {
            checks.push(Check::Ecdsa { key, der: der(&r, &s), message });
        }
    }
    assert!(checks.len() > 20);
    assert_all(&checks, Verdict::Valid);
    for check in &mut checks {
        let Check::Ecdsa { key, .. } = check else { unreachable!() };
        if key.len() == 33 {
            key[0] ^= 1;
        } else {
            key[64] ^= 1;
        }
    }
    for kernel in kernels() {
        let invalid = vec![Verdict::Invalid; checks.len()];
        assert_eq!(verdicts(&mut batch(kernel), &checks), invalid);
    }
}

#[test]
fn a_wrong_parity_is_refused() {
    let mut next = random(10);
    let mut checks: Vec<Check> = (0..40).map(|_| signature(&next(), &next(), &next())).collect();
    assert_all(&checks, Verdict::Valid);
    for check in &mut checks {
        let Check::Ecdsa { key, .. } = check else { unreachable!() };
        key[0] ^= 1;
    }
    for kernel in kernels() {
        let invalid = vec![Verdict::Invalid; checks.len()];
        assert_eq!(verdicts(&mut batch(kernel), &checks), invalid);
    }
}

#[test]
fn keys_that_are_not_on_the_curve() {
    let mut random = Random(11);
    let mut checks = Vec::new();
    while checks.len() < 40 {
        let mut check = Check::ecdsa(&mut random, true);
        let Check::Ecdsa { key, .. } = &mut check else { unreachable!() };
        key[1..].copy_from_slice(&random.bytes());
        if PublicKey::from_slice(key).is_err() {
            checks.push(check);
        }
    }
    for kernel in kernels() {
        let invalid = vec![Verdict::Invalid; checks.len()];
        assert_eq!(verdicts(&mut batch(kernel), &checks), invalid);
    }
}

#[test]
fn a_tweak_of_zero() {
    let mut random = Random(12);
    let (internal, _) = random.key().x_only_public_key(SECP256K1);
    let internal = internal.serialize();
    let check = Check::Tweak { internal, tweak: [0; 32], output: internal, odd: false };
    for kernel in kernels() {
        assert_eq!(
            verdicts(&mut batch(kernel), std::slice::from_ref(&check)),
            [Verdict::Undecided]
        );
    }
}
