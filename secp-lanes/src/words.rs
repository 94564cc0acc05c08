//! Numbers of 256 bits as four words, one at a time: for what is done once per signature.

use crate::vector::Words;

/// n, the order of the group.
pub const N: Words =
    [0xbfd2_5e8c_d036_4141, 0xbaae_dce6_af48_a03b, 0xffff_ffff_ffff_fffe, 0xffff_ffff_ffff_ffff];

/// p - n.
pub const P_MINUS_N: Words = [0x402d_a172_2fc9_baee, 0x4551_2319_50b7_5fc4, 1, 0];

/// Returns the number with these bytes, most significant first.
pub fn from_bytes(bytes: &[u8; 32]) -> Words {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().rev().zip(bytes.as_chunks().0) {
        *word = u64::from_be_bytes(*bytes);
    }
    words
}

/// Returns whether `a` is below `b`.
pub fn below(a: &Words, b: &Words) -> bool {
    sub(a, b).1
}

/// Returns the sum modulo 2^256, and whether it is 2^256 or more.
pub fn add(a: &Words, b: &Words) -> (Words, bool) {
    let mut carry = false;
    let sum = std::array::from_fn(|i| {
        let (sum, over) = a[i].overflowing_add(b[i]);
        let (sum, over_again) = sum.overflowing_add(u64::from(carry));
        carry = over | over_again;
        sum
    });
    (sum, carry)
}

/// Returns the difference modulo 2^256, and whether it is negative.
pub fn sub(a: &Words, b: &Words) -> (Words, bool) {
    let mut borrow = false;
    let difference = std::array::from_fn(|i| {
        let (difference, under) = a[i].overflowing_sub(b[i]);
        let (difference, under_again) = difference.overflowing_sub(u64::from(borrow));
        borrow = under | under_again;
        difference
    });
    (difference, borrow)
}

/// Returns the remainder modulo n of any number below 2^256.
pub fn modulo_n(number: &Words) -> Words {
    let (reduced, negative) = sub(number, &N);
    if negative { *number } else { reduced }
}

/// Returns the sum modulo n of two numbers below n.
pub fn add_modulo_n(a: &Words, b: &Words) -> Words {
    let (sum, over) = add(a, b);
    let (reduced, negative) = sub(&sum, &N);
    if over || !negative { reduced } else { sum }
}

/// Returns n minus a number below n; zero for zero.
pub fn negate_modulo_n(number: &Words) -> Words {
    if *number == [0; 4] { *number } else { sub(&N, number).0 }
}

/// Returns half of a number modulo n, for a number below n.
pub fn half_modulo_n(number: &Words) -> Words {
    let (sum, over) = if number[0] & 1 == 1 { add(number, &N) } else { (*number, false) };
    let above = [sum[1], sum[2], sum[3], u64::from(over)];
    std::array::from_fn(|i| sum[i] >> 1 | above[i] << 63)
}
