//! Random signatures, valid and spoiled, compared with libsecp256k1.

use super::common::{Check, Random, batch, cheap::Pool, compare, rounds};
use super::kernels;
use secp_lanes::{Batch, CHUNK, Kernel, Options, Verdict};

/// The portable kernel is 50 times as slow as the others.
fn share(kernel: Kernel, count: usize) -> usize {
    if kernel == Kernel::Portable { count.div_ceil(40) } else { count }
}

/// In a long run, `--nocapture` shows the progress.
fn note_done(kernel: Kernel, count: usize) {
    println!("{kernel:?}: {count} signatures, as expected");
}

#[test]
fn valid_signatures_are_valid() {
    for kernel in kernels() {
        let mut random = Random(1);
        let count = share(kernel, rounds(20_000));
        let mut batch = batch(kernel);
        for _ in 0..count.div_ceil(1_000) {
            let checks: Vec<Check> =
                (0..count.min(1_000)).map(|_| Check::valid(&mut random)).collect();
            assert_eq!(compare(&mut batch, &checks), 0);
            assert!(batch.verify().is_empty());
        }
        note_done(kernel, count);
    }
}

/// One bit of one field is flipped, or two fields of two signatures change places.
fn spoil(random: &mut Random, check: &mut Check, other: &Check) {
    let bit = random.below(256);
    let flip = |bytes: &mut [u8]| {
        let len = bytes.len();
        bytes[len - 32 + bit / 8] ^= 1 << (bit % 8);
    };
    match check {
        Check::Ecdsa { key, der, message } => match random.below(6) {
            0 => key[0] ^= 1,
            1 => {
                let at = 1 + random.below(key.len() - 1);
                key[at] ^= 1 << (bit % 8);
            }
            2 => flip(message),
            3 => flip(der),
            4 => {
                let at = random.below(der.len());
                der[at] ^= 1 << (bit % 8);
            }
            _ => {
                if let Check::Ecdsa { key: other_key, .. } = other {
                    other_key.clone_into(key);
                }
            }
        },
        Check::Schnorr { key, signature, message } => match random.below(5) {
            0 => flip(key),
            1 => flip(&mut signature[..32]),
            2 => flip(&mut signature[32..]),
            3 => flip(message),
            _ => {
                if let Check::Schnorr { signature: other, .. } = other {
                    *signature = *other;
                }
            }
        },
        Check::Tweak { internal, tweak, output, odd } => match random.below(4) {
            0 => flip(internal),
            1 => flip(tweak),
            2 => flip(output),
            _ => *odd = !*odd,
        },
    }
}

#[test]
fn spoiled_signatures_get_the_librarys_verdict() {
    for kernel in kernels() {
        let mut random = Random(2);
        let count = share(kernel, rounds(20_000));
        let mut batch = batch(kernel);
        for _ in 0..count.div_ceil(1_000) {
            let mut checks: Vec<Check> =
                (0..count.min(1_000)).map(|_| Check::valid(&mut random)).collect();
            let others = checks.clone();
            for (i, check) in checks.iter_mut().enumerate() {
                if random.below(2) == 0 {
                    let other = &others[(i + 1) % others.len()];
                    spoil(&mut random, check, other);
                }
            }
            compare(&mut batch, &checks);
        }
        note_done(kernel, count);
    }
}

#[test]
fn each_bit_counts() {
    for kernel in kernels() {
        let mut random = Random(3);
        let mut batch = batch(kernel);
        let step = share(kernel, 1).max(if kernel == Kernel::Portable { 31 } else { 1 });
        let mut checks = Vec::new();
        for check in [Check::ecdsa(&mut random, true), Check::ecdsa(&mut random, false)] {
            let Check::Ecdsa { key, der, message } = check else { unreachable!() };
            for bit in (0..8 * key.len()).step_by(step) {
                let mut key = key.clone();
                key[bit / 8] ^= 1 << (bit % 8);
                checks.push(Check::Ecdsa { key, der: der.clone(), message });
            }
            for bit in (0..8 * der.len()).step_by(step) {
                let mut der = der.clone();
                der[bit / 8] ^= 1 << (bit % 8);
                checks.push(Check::Ecdsa { key: key.clone(), der, message });
            }
            for bit in (0..256).step_by(step) {
                let mut message = message;
                message[bit / 8] ^= 1 << (bit % 8);
                checks.push(Check::Ecdsa { key: key.clone(), der: der.clone(), message });
            }
        }
        let Check::Schnorr { key, signature, message } = Check::schnorr(&mut random) else {
            unreachable!()
        };
        for bit in (0..1024).step_by(step) {
            let mut key = key;
            let mut signature = signature;
            let mut message = message;
            match bit / 256 {
                0 => key[bit / 8] ^= 1 << (bit % 8),
                1 | 2 => signature[bit / 8 - 32] ^= 1 << (bit % 8),
                _ => message[bit / 8 - 96] ^= 1 << (bit % 8),
            }
            checks.push(Check::Schnorr { key, signature, message });
        }
        compare(&mut batch, &checks);
        assert!(batch.verify().is_empty());
    }
}

#[test]
fn one_bad_lane_at_each_place() {
    for kernel in kernels() {
        let mut random = Random(4);
        let count = if kernel == Kernel::Portable { 20 } else { 67 };
        let good: Vec<Check> = (0..count).map(|_| Check::valid(&mut random)).collect();
        let mut batch = batch(kernel);
        for place in 0..count {
            let mut checks = good.clone();
            let other = &good[(place + 1) % count];
            while checks[place].expected() != Some(false) {
                checks[place] = good[place].clone();
                spoil(&mut random, &mut checks[place], other);
            }
            let mut verdicts = vec![Verdict::Valid; count];
            for check in &checks {
                check.push(&mut batch);
            }
            let found = batch.verify();
            verdicts[place] = found[place];
            assert_ne!(found[place], Verdict::Valid);
            assert_eq!(found, verdicts, "{kernel:?}, {place}");
        }
    }
}

#[test]
fn batches_of_any_size() {
    for kernel in kernels() {
        let mut random = Random(5);
        let sizes: &[usize] = if kernel == Kernel::Portable {
            &[0, 1, 17]
        } else {
            &[0, 1, 7, 8, 9, 15, 16, 17, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK * 3 / 2, 3 * CHUNK + 5]
        };
        let mut batch = batch(kernel);
        for size in sizes {
            let checks: Vec<Check> = (0..*size).map(|_| Check::valid(&mut random)).collect();
            assert_eq!(compare(&mut batch, &checks), 0);
        }
    }
}

#[test]
fn windows_of_any_size() {
    let mut random = Random(6);
    let checks: Vec<Check> = (0..40).map(|_| Check::valid(&mut random)).collect();
    for window_bits in [8, 9, 10, 11, 12] {
        let mut batch = Batch::new(Options { window_bits, ..Options::default() });
        assert_eq!(compare(&mut batch, &checks), 0, "{window_bits}");
    }
}

#[test]
fn the_library_as_a_kernel() {
    let mut random = Random(7);
    let mut batch = batch(Kernel::Library);
    let mut checks: Vec<Check> = (0..100).map(|_| Check::valid(&mut random)).collect();
    assert_eq!(compare(&mut batch, &checks), 0);
    let others = checks.clone();
    for (check, other) in checks.iter_mut().zip(others.iter().rev()) {
        spoil(&mut random, check, other);
    }
    compare(&mut batch, &checks);
}

/// A hundred times as many signatures as libsecp256k1 could verify in the same time; one in eight
/// has another message.
#[test]
fn cheaply_made_signatures_are_what_they_were_made_to_be() {
    for kernel in kernels() {
        let mut random = Random(8);
        let pool = Pool::new(&mut random);
        let mut batch = batch(kernel);
        let count = share(kernel, rounds(20_000));
        for _ in 0..count.div_ceil(1_000) {
            let mut checks = Vec::new();
            let mut expected = Vec::new();
            for _ in 0..1_000 {
                let mut check = pool.signed(&mut random);
                let is_valid = random.below(8) > 0;
                if !is_valid {
                    let bit = random.below(256);
                    check.message_mut()[bit / 8] ^= 1 << (bit % 8);
                }
                check.push(&mut batch);
                checks.push(check);
                expected.push(if is_valid { Verdict::Valid } else { Verdict::Invalid });
            }
            let found = batch.verify().iter().zip(&expected);
            for ((found, expected), check) in found.zip(&checks) {
                assert_eq!(found, expected, "{kernel:?}: {check:?}, {:?}", check.expected());
            }
        }
        note_done(kernel, count);
    }
}

#[test]
fn the_library_finds_cheaply_made_signatures_valid() {
    let mut random = Random(9);
    let pool = Pool::new(&mut random);
    assert!((0..2_000).all(|_| pool.signed(&mut random).expected() == Some(true)));
}
