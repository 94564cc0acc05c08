//! SHA-256 of many messages at once.
//!
//! Nearly all of a SwiftSync run is SHA-256, of messages that have nothing to do with each other:
//! transactions, pairs of hashes, outpoints. One stream uses a third of what the processor can do,
//! so they are hashed side by side, each in a lane; a lane whose message ends takes the next one.

mod engine;
mod lanes;
mod one;
#[cfg(test)]
mod tests;
#[cfg(not(target_arch = "x86_64"))]
#[path = "none.rs"]
mod x86;
#[cfg(target_arch = "x86_64")]
mod x86;

use engine::{Constant, Engine};

use crate::hash::Hash;

pub use one::{Sha256d, sha256, sha256d, sha256d_64};

/// Messages hashed side by side.
const LANES: usize = 16;

/// A message in up to three pieces, so that a transaction's witnesses can be left out.
pub type Pieces<'a> = [&'a [u8]; 3];

/// What SHA-256 keeps between two blocks of 64 bytes: eight words, which as big-endian bytes are
/// the hash after the last (FIPS 180-4, section 6.2).
pub type State = [u32; 8];

/// The state before the first block (section 5.3.3).
pub const INITIAL_STATE: State = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

/// SHA-256 after whole blocks that many messages start with.
#[derive(Clone, Copy)]
pub struct Midstate {
    state: State,
    bytes: u64,
}

impl Midstate {
    /// Of messages with nothing in common.
    pub const INITIAL: Self = Self { state: INITIAL_STATE, bytes: 0 };

    /// Of messages that start with these 64 bytes.
    pub fn after(block: &[u8; 64]) -> Self {
        let mut state = INITIAL_STATE;
        Engine::best().compress(std::slice::from_mut(&mut state), &[&[*block]]);
        Self { state, bytes: 64 }
    }

    /// SHA-256 of `count` messages, of which `message` gives the rest behind the common start;
    /// `each` gets a message's number and final state, in no order.
    pub fn hash_many<'a>(
        &self,
        count: usize,
        message: impl Fn(usize) -> Pieces<'a>,
        each: impl FnMut(usize, &State),
    ) {
        lanes::hash_many(Engine::best(), self, count, message, each);
    }

    /// SHA-256 of messages that are one block behind the common start: of `LEN` bytes each, 55 at
    /// most. `each` gets the final states, in order.
    pub fn hash_short<const LEN: usize>(&self, messages: &[[u8; LEN]], each: impl FnMut(&State)) {
        hash_short(Engine::best(), self, messages, each);
    }
}

/// Double SHA-256 of `count` messages, in order.
pub fn sha256d_many<'a>(count: usize, message: impl Fn(usize) -> Pieces<'a>) -> Vec<Hash> {
    double_many(Engine::best(), count, message)
}

/// Puts the double SHA-256 of the first and second hash first, of the third and fourth second, and
/// so on: from one level of a merkle tree to the next. A last one without a partner is left alone.
pub fn sha256d_pairs(hashes: &mut [Hash]) {
    double_pairs(Engine::best(), hashes);
}

fn double_many<'a>(
    engine: Engine,
    count: usize,
    message: impl Fn(usize) -> Pieces<'a>,
) -> Vec<Hash> {
    let mut hashes = vec![Hash::ZERO; count];
    let once = |i: usize, state: &State| hashes[i] = hash_of(state);
    lanes::hash_many(engine, &Midstate::INITIAL, count, message, once);
    for hashes in hashes.chunks_mut(LANES) {
        let mut states = [INITIAL_STATE; LANES];
        let mut blocks = Blocks::<32>::new(0);
        let states = blocks.compress(engine, &mut states, hashes.iter().map(|hash| &hash.0));
        hashes.iter_mut().zip(states).for_each(|(hash, state)| *hash = hash_of(state));
    }
    hashes
}

fn double_pairs(engine: Engine, hashes: &mut [Hash]) {
    let pairs = hashes.len() / 2;
    let mut blocks = [[0; 64]; LANES];
    let mut second = Blocks::<32>::new(0);
    for first in (0..pairs).step_by(LANES) {
        let count = LANES.min(pairs - first);
        let lists: [&[[u8; 64]]; LANES] = {
            let pairs = hashes[2 * first..2 * (first + count)].as_chunks::<2>().0;
            for (block, [left, right]) in blocks.iter_mut().zip(pairs) {
                block[..32].copy_from_slice(&left.0);
                block[32..].copy_from_slice(&right.0);
            }
            std::array::from_fn(|lane| std::slice::from_ref(&blocks[lane]))
        };
        let mut states = [INITIAL_STATE; LANES];
        engine.compress(&mut states[..count], &lists[..count]);
        engine.compress_constant(&mut states[..count], &Constant::PADDING_OF_64_BYTES);
        let parents = &mut hashes[first..first + count];
        parents.iter_mut().zip(&states).for_each(|(hash, state)| *hash = hash_of(state));
        let mut states = [INITIAL_STATE; LANES];
        let states = second.compress(engine, &mut states, parents.iter().map(|hash| &hash.0));
        parents.iter_mut().zip(states).for_each(|(hash, state)| *hash = hash_of(state));
    }
}

fn hash_short<const LEN: usize>(
    engine: Engine,
    start: &Midstate,
    messages: &[[u8; LEN]],
    mut each: impl FnMut(&State),
) {
    let mut blocks = Blocks::<LEN>::new(start.bytes);
    for messages in messages.chunks(LANES) {
        let mut states = [start.state; LANES];
        blocks.compress(engine, &mut states, messages.iter()).iter().for_each(&mut each);
    }
}

/// Last blocks, with the padding behind `LEN` bytes of message.
struct Blocks<const LEN: usize>([[u8; 64]; LANES]);

impl<const LEN: usize> Blocks<LEN> {
    /// `before`: the bytes in the blocks before.
    fn new(before: u64) -> Self {
        const { assert!(LEN <= 55, "marker and length have to fit in") };
        let mut block = [0; 64];
        block[LEN] = 0x80;
        block[56..].copy_from_slice(&(8 * (before + LEN as u64)).to_be_bytes());
        Self([block; LANES])
    }

    /// Takes each message into its state; returns as many states as there are messages.
    #[inline]
    fn compress<'a, 's>(
        &mut self,
        engine: Engine,
        states: &'s mut [State; LANES],
        messages: impl ExactSizeIterator<Item = &'a [u8; LEN]>,
    ) -> &'s [State] {
        let count = messages.len().min(LANES);
        for (block, message) in self.0.iter_mut().zip(messages) {
            block[..LEN].copy_from_slice(message);
        }
        let lists: [&[[u8; 64]]; LANES] =
            std::array::from_fn(|lane| std::slice::from_ref(&self.0[lane]));
        engine.compress(&mut states[..count], &lists[..count]);
        &states[..count]
    }
}

#[inline]
fn hash_of(state: &State) -> Hash {
    let mut hash = Hash::ZERO;
    for (bytes, word) in hash.0.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    hash
}

/// The constants of the 64 rounds (section 4.2.2).
static K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];
