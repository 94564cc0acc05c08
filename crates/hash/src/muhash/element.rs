//! The number that stands for an element of the set: its SHA-256, expanded with ChaCha20.

use std::array::from_fn;

use super::num3072::{NUM_BYTES, Num3072};
use crate::Sha256State;
use crate::sha256;

/// The key of ChaCha20 for an element: its SHA-256, as little-endian words.
pub type Key = [u32; 8];

/// Number of elements whose numbers are computed in parallel.
pub const KEYS: usize = 16;

/// The keys of [`KEYS`] elements: row `i` holds word `i` of each key.
pub type Keys = [[u32; KEYS]; 8];

/// The first words of ChaCha20's state (RFC 8439, section 2.3).
pub const CONSTANTS: [u32; 4] = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574];

/// Returns the key of an element.
pub fn key(element: &[u8]) -> Key {
    let hash = sha256(element);
    let words = hash.as_chunks::<4>().0;
    from_fn(|i| u32::from_le_bytes(words[i]))
}

/// Returns the key of an element from the final state of its SHA-256.
pub fn key_of_state(state: &Sha256State) -> Key {
    state.map(u32::swap_bytes)
}

/// Returns the number that the key of an element expands to.
pub fn number(key: &Key) -> Num3072 {
    Num3072::from_bytes(&keystream(key))
}

/// Number of blocks of the key stream that are computed in parallel, with vector instructions. Two
/// blocks of the second four are not needed, but computing only the other two would take longer.
const BLOCKS: usize = 4;

/// Returns the first 384 bytes of ChaCha20 under `key` with a zero nonce, from block 0 on (RFC
/// 8439).
pub fn keystream(key: &Key) -> [u8; NUM_BYTES] {
    let mut state = [[0; BLOCKS]; 16];
    for (lanes, word) in state.iter_mut().zip(CONSTANTS.iter().chain(key)) {
        *lanes = [*word; BLOCKS];
    }
    let mut stream = [0; NUM_BYTES];
    for (pass, blocks) in stream.chunks_mut(64 * BLOCKS).enumerate() {
        for (lane, counter) in state[12].iter_mut().enumerate() {
            *counter = (pass * BLOCKS + lane) as u32;
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

/// Runs the twenty rounds of ChaCha20.
fn permute(mut words: [[u32; BLOCKS]; 16]) -> [[u32; BLOCKS]; 16] {
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
fn quarter_round(words: &mut [[u32; BLOCKS]; 16], a: usize, b: usize, c: usize, d: usize) {
    for (x, y, z, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        let sum: [u32; BLOCKS] = from_fn(|lane| words[x][lane].wrapping_add(words[y][lane]));
        words[x] = sum;
        words[z] = from_fn(|lane| (words[z][lane] ^ sum[lane]).rotate_left(turn));
    }
}
