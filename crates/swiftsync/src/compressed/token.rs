//! Tokens: a number is split into a token, which is entropy-coded, and some low bits, which are
//! not. Each number below 16 has a token of its own; above that, a token stands for a quarter of
//! the numbers between two powers of two.

/// The number of bits of the largest number that has a token.
pub const VALUE_BITS: u32 = 17;
/// The number of tokens.
pub const TOKENS: usize = (EXACT + (VALUE_BITS - EXACT.ilog2()) * 4) as usize;

const EXACT: u32 = 16;

/// Returns the token of `value`, which must be below 2^17.
pub fn token(value: u32) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let octave = value.ilog2();
    let quarter = (value >> (octave - 2)) & 3;
    (EXACT + (octave - EXACT.ilog2()) * 4 + quarter) as usize
}

/// Returns the smallest number with this token, and the number of low bits that follow the token.
pub const fn range(token: usize) -> (u32, u32) {
    let token = token as u32;
    if token < EXACT {
        return (token, 0);
    }
    let octave = (token - EXACT) / 4 + EXACT.ilog2();
    let quarter = (token - EXACT) % 4;
    ((4 + quarter) << (octave - 2), octave - 2)
}

/// Returns the class of a token, from 0 to 7 by size, which is part of the context of the next two
/// numbers.
pub const fn class(token: usize) -> u32 {
    match range(token).0 {
        small @ 0..=3 => small,
        4..=7 => 4,
        8..=15 => 5,
        16..=63 => 6,
        _ => 7,
    }
}

/// Returns the weight of a token, below 256: the logarithm of its numbers, 15 for each power of
/// two. Contexts depend on the average of the last weights.
pub const fn weight(token: usize) -> u32 {
    let (least, bits) = range(token);
    // One is added so that 0 has a logarithm. It is linear between two powers of two.
    let middle = least + (1 << bits) / 2 + if bits == 0 { 1 } else { 0 };
    let octave = middle.ilog2();
    octave * 15 + (((middle - (1 << octave)) * 15) >> octave)
}
