use super::element::keystream;
use super::many::Engine;
use super::num3072::{NUM_BYTES, Num3072};
use super::{MuHash, key, number};

fn set(elements: &[u8]) -> MuHash {
    let mut set = MuHash::new();
    elements.iter().for_each(|n| set.insert(&element(*n)));
    set
}

fn element(n: u8) -> [u8; 32] {
    let mut element = [0; 32];
    element[0] = n;
    element
}

/// RFC 8439, appendix A.1, test vectors 1 and 2.
#[test]
fn keystream_of_the_rfc() {
    let stream = keystream(&[0; 8]);
    assert_eq!(stream[..8], [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90]);
    assert_eq!(stream[64..72], [0x9f, 0x07, 0xe7, 0xbe, 0x55, 0x51, 0x38, 0x7a]);
}

/// From Core's `crypto_tests.cpp`.
#[test]
fn hashes_of_core() {
    let mut hash = set(&[0, 1]);
    hash.remove(&element(2));
    let expected = "10d312b100cbd32ada024a6646e40d3482fcff103668d2625f10002a607d5863";
    assert_eq!(hash.finalize().to_string(), expected);

    let state = set(&[1, 2]).to_bytes();
    let start = [0x1f, 0xa0, 0x93, 0x29, 0x5e, 0xa3, 0x0a, 0x6a];
    let end = [0x92, 0xe1, 0x80, 0x36, 0xcb, 0x13, 0xe4, 0x8c, 0x5c];
    assert_eq!((&state[..8], &state[375..384]), (&start[..], &end[..]));
    assert_eq!((state[384], &state[385..]), (1, &[0; 383][..]));
    assert_eq!(MuHash::from_bytes(&state).finalize(), set(&[2, 1]).finalize());

    let mut overflow = [0xff; MuHash::STATE_BYTES];
    overflow[384..].fill(0);
    overflow[384] = 1;
    let mut hash = MuHash::from_bytes(&overflow).finalize();
    hash.0.reverse(); // Core's test prints this one in byte order
    let expected = "3a31e6903aff0de9f62f9a9f7f8b861de76ce2cda09822b90014319ae5dc2271";
    assert_eq!(hash.to_string(), expected);
}

#[test]
fn order_and_grouping_do_not_matter() {
    let all = set(&[1, 2, 3, 4, 5]);
    let mut parts = set(&[5, 3]);
    parts.remove(&element(9));
    let mut rest = set(&[9, 4]);
    rest.combine(&set(&[1, 2]));
    parts.combine(&rest);
    assert_eq!(parts.finalize(), all.finalize());

    let mut nothing = all.clone();
    [3, 1, 4, 2, 5].iter().for_each(|n| nothing.remove(&element(*n)));
    assert_eq!(nothing.finalize(), MuHash::new().finalize());
    assert_ne!(all.finalize(), MuHash::new().finalize());
}

#[test]
fn the_hash_after_each_step_is_that_of_the_set() {
    let steps: Vec<MuHash> = (0..5).map(|n| set(&[n, n + 1])).collect();
    let mut chained = set(&[9]);
    chained.remove(&element(7));
    let mut one_by_one = chained.clone();
    let hashes = chained.finalize_each(&steps.iter().collect::<Vec<_>>());
    assert_eq!(hashes.len(), steps.len());
    for (step, hash) in steps.iter().zip(&hashes) {
        one_by_one.combine(step);
        assert_eq!(one_by_one.finalize(), *hash);
    }
    let state = chained.to_bytes();
    assert_eq!(state[384], 1, "the state is a quotient, whose divisor is 1");
    assert!(state[385..].iter().all(|byte| *byte == 0));
    assert_eq!(chained.finalize(), one_by_one.finalize());
    for step in steps.iter().rev() {
        chained.divide(step);
    }
    let mut start = set(&[9]);
    start.remove(&element(7));
    assert_eq!(chained.finalize(), start.finalize());
    assert!(chained.finalize_each(&[]).is_empty());
    assert_eq!(chained.finalize(), start.finalize());
}

#[test]
fn numbers_at_the_modulus_carry_and_wrap() {
    let minus = |n: u64| {
        let mut bytes = [0xff; NUM_BYTES];
        bytes[..8].copy_from_slice(&(0u64.wrapping_sub(1_103_717) - n).to_le_bytes());
        Num3072::from_bytes(&bytes)
    };
    let mut square = minus(1);
    square.multiply(&minus(1));
    assert_eq!(square.to_bytes(), Num3072::one().to_bytes());
    assert_eq!(minus(0).to_bytes(), [0; NUM_BYTES]);
    let mut product = Num3072::from_bytes(&[0xff; NUM_BYTES]);
    product.multiply(&Num3072::from_bytes(&[0xff; NUM_BYTES]).inverse());
    assert_eq!(product.to_bytes(), Num3072::one().to_bytes());
}

/// Returns elements of all lengths up to a few blocks of SHA-256.
fn elements(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|i| (0..i * 37 % 201).map(|at| (at * i) as u8).chain([i as u8]).collect())
        .collect()
}

#[test]
fn many_at_once_are_as_one_by_one() {
    let elements = elements(200);
    let mut expected = number(&key(b"before"));
    for count in 0..=elements.len() {
        if count < 41 || count % 53 == 0 {
            for engine in Engine::all() {
                let mut product = number(&key(b"before"));
                engine.multiply(&mut product, count, |i| &elements[i]);
                assert!(product.to_bytes() == expected.to_bytes(), "{count}");
                let mut reversed = number(&key(b"before"));
                engine.multiply(&mut reversed, count, |i| &elements[count - 1 - i]);
                assert!(reversed.to_bytes() == expected.to_bytes(), "{count}");
            }
        }
        elements.get(count).into_iter().for_each(|e| expected.multiply(&number(&key(e))));
    }
}

#[test]
fn many_are_added_and_removed() {
    let elements = elements(100);
    let mut set = MuHash::new();
    set.insert(b"one");
    set.insert_many(100, |i| &elements[i]);
    set.remove_many(60, |i| &elements[i]);
    let mut expected = MuHash::new();
    elements[60..].iter().for_each(|element| expected.insert(element));
    expected.insert(b"one");
    assert_eq!(set.finalize(), expected.finalize());
}

/// A product that starts in its lane at a number that is not below the modulus.
#[test]
fn a_start_above_the_modulus() {
    let elements = elements(20);
    for engine in Engine::all() {
        let start = Num3072::from_bytes(&[0xff; NUM_BYTES]);
        let mut product = start.clone();
        let mut expected = start;
        engine.multiply(&mut product, 20, |i| &elements[i]);
        elements.iter().for_each(|element| expected.multiply(&number(&key(element))));
        assert!(product.to_bytes() == expected.to_bytes());
    }
}
