use super::engine::{Constant, Engine};
use super::lanes;
use super::one::sha256;
use super::state::{INITIAL_STATE, LANES, Midstate, Pieces, Sha256State};
use crate::Hash;

impl Midstate {
    /// The state for messages with nothing in common.
    pub const INITIAL: Self = Self { state: INITIAL_STATE, bytes: 0 };

    /// Returns the state for messages that start with these 64 bytes.
    pub fn after(block: &[u8; 64]) -> Self {
        let mut state = INITIAL_STATE;
        Engine::best().compress(std::slice::from_mut(&mut state), &[&[*block]]);
        Self { state, bytes: 64 }
    }

    /// Returns the state for messages with this tag (BIP340): they start with its hash, twice.
    pub fn tagged(tag: &str) -> Self {
        let mut block = [0; 64];
        block.as_chunks_mut().0.fill(sha256(tag.as_bytes()));
        Self::after(&block)
    }

    /// Returns the SHA-256 of `count` messages, in order. `message` returns the rest of a message
    /// after the common start, by its index.
    pub fn hashes<'a>(&self, count: usize, message: impl Fn(usize) -> Pieces<'a>) -> Vec<Hash> {
        hashes(Engine::best(), self, count, message)
    }

    /// Computes the SHA-256 of `count` messages. `message` returns the rest of a message after the
    /// common start, by its index; `each` is called with the index and the final state of each
    /// message, in no particular order.
    pub fn hash_many<'a>(
        &self,
        count: usize,
        message: impl Fn(usize) -> Pieces<'a>,
        each: impl FnMut(usize, &Sha256State),
    ) {
        lanes::hash_many(Engine::best(), self, count, message, each);
    }

    /// Computes the SHA-256 of messages with one block after the common start, whose rest has `LEN`
    /// bytes, at most 55. `each` is called with the final states, in order.
    pub fn hash_short<const LEN: usize>(
        &self,
        messages: &[[u8; LEN]],
        each: impl FnMut(&Sha256State),
    ) {
        hash_short(Engine::best(), self, messages, each);
    }
}

/// Returns the double SHA-256 of `count` messages, in order; `message` returns a message by its
/// index.
pub fn sha256d_many<'a>(count: usize, message: impl Fn(usize) -> Pieces<'a>) -> Vec<Hash> {
    double_many(Engine::best(), count, message)
}

/// Replaces the first half of `hashes` by the double SHA-256 of each pair of them: the step from
/// one level of a merkle tree to the next. A last hash without a partner is ignored.
pub fn sha256d_pairs(hashes: &mut [Hash]) {
    double_pairs(Engine::best(), hashes);
}

pub(super) fn double_many<'a>(
    engine: Engine,
    count: usize,
    message: impl Fn(usize) -> Pieces<'a>,
) -> Vec<Hash> {
    let mut hashes = hashes(engine, &Midstate::INITIAL, count, message);
    for hashes in hashes.chunks_mut(LANES) {
        let mut states = [INITIAL_STATE; LANES];
        let mut blocks = Blocks::<32>::new(0);
        let states = blocks.compress(engine, &mut states, hashes.iter().map(|hash| &hash.0));
        hashes.iter_mut().zip(states).for_each(|(hash, state)| *hash = hash_of(state));
    }
    hashes
}

fn hashes<'a>(
    engine: Engine,
    start: &Midstate,
    count: usize,
    message: impl Fn(usize) -> Pieces<'a>,
) -> Vec<Hash> {
    let mut hashes = vec![Hash::ZERO; count];
    let once = |i: usize, state: &Sha256State| hashes[i] = hash_of(state);
    lanes::hash_many(engine, start, count, message, once);
    hashes
}

pub(super) fn double_pairs(engine: Engine, hashes: &mut [Hash]) {
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

pub(super) fn hash_short<const LEN: usize>(
    engine: Engine,
    start: &Midstate,
    messages: &[[u8; LEN]],
    mut each: impl FnMut(&Sha256State),
) {
    let mut blocks = Blocks::<LEN>::new(start.bytes);
    for messages in messages.chunks(LANES) {
        let mut states = [start.state; LANES];
        blocks.compress(engine, &mut states, messages.iter()).iter().for_each(&mut each);
    }
}

/// The last blocks of messages: `LEN` bytes of each message, and the padding.
struct Blocks<const LEN: usize>([[u8; 64]; LANES]);

impl<const LEN: usize> Blocks<LEN> {
    /// Returns blocks for messages that have `before` bytes in earlier blocks.
    fn new(before: u64) -> Self {
        const { assert!(LEN <= 55, "marker and length have to fit") };
        let mut block = [0; 64];
        block[LEN] = 0x80;
        block[56..].copy_from_slice(&(8 * (before + LEN as u64)).to_be_bytes());
        Self([block; LANES])
    }

    /// Compresses each message into its state; returns as many states as there are messages.
    #[inline]
    fn compress<'a, 's>(
        &mut self,
        engine: Engine,
        states: &'s mut [Sha256State; LANES],
        messages: impl ExactSizeIterator<Item = &'a [u8; LEN]>,
    ) -> &'s [Sha256State] {
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
pub(super) fn hash_of(state: &Sha256State) -> Hash {
    let mut hash = Hash::ZERO;
    for (bytes, word) in hash.0.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    hash
}
