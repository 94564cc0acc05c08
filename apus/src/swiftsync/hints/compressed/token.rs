//! Numbers as a token, which is entropy-coded, and the bits below it, which are not: below 16 each
//! number is a token, above that a token is a quarter of an octave.

/// Numbers of 17 bits have tokens.
pub const VALUE_BITS: u32 = 17;
/// How many there are.
pub const TOKENS: usize = (EXACT + (VALUE_BITS - EXACT.ilog2()) * 4) as usize;

const EXACT: u32 = 16;

/// The token of `value`, which is below 2^17.
pub fn token(value: u32) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let octave = value.ilog2();
    let quarter = (value >> (octave - 2)) & 3;
    (EXACT + (octave - EXACT.ilog2()) * 4 + quarter) as usize
}

/// The least number that has this token, and how many bits say which one it is.
pub const fn range(token: usize) -> (u32, u32) {
    let token = token as u32;
    if token < EXACT {
        return (token, 0);
    }
    let (octave, quarter) = ((token - EXACT) / 4 + EXACT.ilog2(), (token - EXACT) % 4);
    ((4 + quarter) << (octave - 2), octave - 2)
}

/// How large a token is, from 0 to 7; it is what the next two numbers are guessed from.
pub const fn class(token: usize) -> u32 {
    match range(token).0 {
        small @ 0..=3 => small,
        4..=7 => 4,
        8..=15 => 5,
        16..=63 => 6,
        _ => 7,
    }
}

/// The logarithm of a token's numbers, 15 for each octave, below 256: what is averaged.
pub const fn weight(token: usize) -> u32 {
    let (least, bits) = range(token);
    // One added, so that 0 has a logarithm; between two octaves, a straight line.
    let middle = least + (1 << bits) / 2 + if bits == 0 { 1 } else { 0 };
    let octave = middle.ilog2();
    octave * 15 + (((middle - (1 << octave)) * 15) >> octave)
}
