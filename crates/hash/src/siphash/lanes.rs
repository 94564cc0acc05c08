//! SipHash-2-4 of eight messages in parallel. The compiler puts each array of eight numbers into
//! vector registers.

use std::array::from_fn;

use super::key::SipKey;

/// Number of messages that are hashed in parallel.
pub const LANES: usize = 8;
/// Number of words of the longest message, with the word that holds its length.
const WORDS_MAX: usize = 6;
/// Number of bytes of the longest message.
const BYTES_MAX: usize = 8 * WORDS_MAX - 1;

/// One number of each message.
type Numbers = [u64; LANES];

/// The words of the messages.
#[derive(Default)]
pub struct Lanes {
    words: [Numbers; WORDS_MAX],
    /// The number of words of each message.
    counts: Numbers,
}

impl Lanes {
    /// Replaces the message of a lane. Returns false if the message is too long.
    #[inline]
    pub fn set(&mut self, lane: usize, message: &[u8]) -> bool {
        if message.len() > BYTES_MAX {
            return false;
        }
        let (words, rest) = message.as_chunks::<8>();
        for (to, word) in self.words.iter_mut().zip(words) {
            to[lane] = u64::from_le_bytes(*word);
        }
        let rest = match (message.last_chunk::<8>(), rest.len()) {
            (_, 0) => 0,
            (Some(last), len) => u64::from_le_bytes(*last) >> (64 - 8 * len),
            (None, _) => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        self.words[words.len()][lane] = rest | (message.len() as u64) << 56;
        self.counts[lane] = words.len() as u64 + 1;
        true
    }
}

/// Returns the hash of each message.
#[inline(always)]
pub fn hash(key: SipKey, lanes: &Lanes) -> Numbers {
    let SipKey(k0, k1) = key;
    let mut state = [
        [k0 ^ 0x736f_6d65_7073_6575; LANES],
        [k1 ^ 0x646f_7261_6e64_6f6d; LANES],
        [k0 ^ 0x6c79_6765_6e65_7261; LANES],
        [k1 ^ 0x7465_6462_7974_6573; LANES],
    ];
    let most = lanes.counts.iter().fold(0, |most, count| most.max(*count));
    for (at, word) in (0..most).zip(&lanes.words) {
        let before = state;
        state[3] = from_fn(|i| state[3][i] ^ word[i]);
        round(&mut state);
        round(&mut state);
        state[0] = from_fn(|i| state[0][i] ^ word[i]);
        // A message that has ended keeps its state.
        let goes_on: Numbers = from_fn(|i| u64::from(at < lanes.counts[i]).wrapping_neg());
        for (state, before) in state.iter_mut().zip(before) {
            *state = from_fn(|i| before[i] ^ (state[i] ^ before[i]) & goes_on[i]);
        }
    }
    state[2] = state[2].map(|number| number ^ 0xff);
    for _ in 0..4 {
        round(&mut state);
    }
    from_fn(|i| state[0][i] ^ state[1][i] ^ state[2][i] ^ state[3][i])
}

#[inline(always)]
fn round([v0, v1, v2, v3]: &mut [Numbers; 4]) {
    mix(v0, v1, 13);
    *v0 = v0.map(|number| number.rotate_left(32));
    mix(v2, v3, 16);
    mix(v0, v3, 21);
    mix(v2, v1, 17);
    *v2 = v2.map(|number| number.rotate_left(32));
}

#[inline(always)]
fn mix(sum: &mut Numbers, other: &mut Numbers, turn: u32) {
    *sum = from_fn(|i| sum[i].wrapping_add(other[i]));
    *other = from_fn(|i| other[i].rotate_left(turn) ^ sum[i]);
}
