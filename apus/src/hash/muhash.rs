use std::array::from_fn;

use super::num3072::{NUM_BYTES, Num3072};
use super::{Hash, sha256};

/// A hash of a set whose elements are added and removed in any order and any grouping (Core's
/// `MuHash3072`).
///
/// Each element becomes a number of 3072 bits: its SHA-256, expanded with ChaCha20. The hash is
/// made of the product of the numbers of the elements added, divided by that of the elements
/// removed. It is kept as a fraction, so that only [`MuHash::finalize`] divides.
#[derive(Clone)]
pub struct MuHash {
    numerator: Num3072,
    denominator: Num3072,
}

impl Default for MuHash {
    fn default() -> Self {
        Self::new()
    }
}

impl MuHash {
    /// Bytes of a serialised state.
    pub const STATE_BYTES: usize = 2 * NUM_BYTES;

    /// The empty set.
    pub fn new() -> Self {
        Self { numerator: Num3072::one(), denominator: Num3072::one() }
    }

    /// Adds an element.
    pub fn insert(&mut self, element: &[u8]) {
        self.numerator.multiply(&number(element));
    }

    /// Removes an element, which may be added later.
    pub fn remove(&mut self, element: &[u8]) {
        self.denominator.multiply(&number(element));
    }

    /// Adds and removes the elements that were added to another set and removed from it.
    pub fn combine(&mut self, other: &Self) {
        self.numerator.multiply(&other.numerator);
        self.denominator.multiply(&other.denominator);
    }

    /// The hash of the set. Takes some milliseconds.
    pub fn finalize(&self) -> Hash {
        let mut quotient = self.denominator.inverse();
        quotient.multiply(&self.numerator);
        Hash(sha256(&quotient.to_bytes()))
    }

    /// The state as Core serialises it: numerator and denominator, little endian.
    pub fn to_bytes(&self) -> [u8; Self::STATE_BYTES] {
        let mut bytes = [0; Self::STATE_BYTES];
        bytes[..NUM_BYTES].copy_from_slice(&self.numerator.to_bytes());
        bytes[NUM_BYTES..].copy_from_slice(&self.denominator.to_bytes());
        bytes
    }

    /// The state that [`MuHash::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8; Self::STATE_BYTES]) -> Self {
        let number = |offset| {
            let mut half = [0; NUM_BYTES];
            half.copy_from_slice(&bytes[offset..offset + NUM_BYTES]);
            Num3072::from_bytes(&half)
        };
        Self { numerator: number(0), denominator: number(NUM_BYTES) }
    }
}

/// The number that an element becomes.
fn number(element: &[u8]) -> Num3072 {
    Num3072::from_bytes(&keystream(&sha256(element)))
}

/// Number of blocks of the key stream that are computed side by side, with vector instructions. Of
/// the second four, two are not needed; to compute just the other two would take longer.
const LANES: usize = 4;

/// The first 384 bytes of ChaCha20 under `key` with a zero nonce, from block 0 on (RFC 8439).
fn keystream(key: &[u8; 32]) -> [u8; NUM_BYTES] {
    let mut state = [[0; LANES]; 16];
    for (lanes, constant) in state.iter_mut().zip([0x61707865, 0x3320646e, 0x79622d32, 0x6b206574])
    {
        *lanes = [constant; LANES];
    }
    for (lanes, bytes) in state[4..12].iter_mut().zip(key.chunks_exact(4)) {
        *lanes = [u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]); LANES];
    }
    let mut stream = [0; NUM_BYTES];
    for (pass, blocks) in stream.chunks_mut(64 * LANES).enumerate() {
        for (lane, counter) in state[12].iter_mut().enumerate() {
            *counter = (pass * LANES + lane) as u32;
        }
        let words = permute(state);
        for (lane, block) in blocks.chunks_exact_mut(64).enumerate() {
            for ((bytes, word), start) in block.chunks_exact_mut(4).zip(&words).zip(&state) {
                bytes.copy_from_slice(&word[lane].wrapping_add(start[lane]).to_le_bytes());
            }
        }
    }
    stream
}

/// The twenty rounds of ChaCha20.
fn permute(mut words: [[u32; LANES]; 16]) -> [[u32; LANES]; 16] {
    for _ in 0..10 {
        for i in 0..4 {
            quarter_round(&mut words, i, i + 4, i + 8, i + 12);
        }
        for i in 0..4 {
            quarter_round(&mut words, i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12);
        }
    }
    words
}

#[inline(always)]
fn quarter_round(words: &mut [[u32; LANES]; 16], a: usize, b: usize, c: usize, d: usize) {
    for (x, y, z, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        let sum: [u32; LANES] = from_fn(|lane| words[x][lane].wrapping_add(words[y][lane]));
        words[x] = sum;
        words[z] = from_fn(|lane| (words[z][lane] ^ sum[lane]).rotate_left(turn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let stream = keystream(&[0; 32]);
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
}
