//! Random signatures, good and spoiled, against libsecp256k1.

use super::common::{Check, Random, batch, compare, kernels, rounds};

#[test]
fn valid_signatures_are_valid() {
    for kernel in kernels() {
        let mut random = Random(1);
        let checks: Vec<Check> = (0..600).map(|_| Check::valid(&mut random)).collect();
        assert!(checks.iter().all(|check| check.expected() == Some(true)));
        let undecided = compare(&mut batch(kernel), &checks);
        assert_eq!(undecided, 0);
    }
    let _ = rounds(1);
}
