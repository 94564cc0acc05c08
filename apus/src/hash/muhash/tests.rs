use super::element::keystream;
use super::num3072::{NUM_BYTES, Num3072};
use super::MuHash;

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
    hash.0.reverse(); // Core's test shows this one in the order of its bytes
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
