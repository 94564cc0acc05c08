//! RIPEMD-160 of sixteen messages at once, with x86-64 instructions.
//!
//! Each step waits for the one before, so hashing one message leaves most of the processor idle: it
//! takes 145 ns on a Zen 4, and 13 ns if sixteen are hashed in parallel, each in one 32-bit part of
//! AVX-512's registers.

#![allow(unsafe_code, reason = "the processor's instructions")]

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;

use crate::Hash;

/// Number of messages that are hashed in parallel.
pub const LANES: usize = 16;

/// Proof that the processor has AVX-512 (F).
#[derive(Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    /// Returns the proof if the processor has the feature. The answer is cached.
    pub fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self(()))
    }

    /// Returns the RIPEMD-160 of sixteen messages of 32 bytes.
    pub fn hash(self, messages: &[Hash; LANES]) -> [[u8; 20]; LANES] {
        // SAFETY: `self` exists only where the features were found.
        unsafe { hash_16(messages) }
    }
}

/// The same word of each message.
type Words = __m512i;

/// The words of the state: a, b, c, d, e.
type Ripemd160State = [Words; 5];

/// The state before the first block.
const INITIAL_STATE: [u32; 5] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];

/// Truth tables for `ternarylogic`, for the functions of the five rounds.
const F1: i32 = 0x96;
const F2: i32 = 0xca;
const F3: i32 = 0x59;
const F4: i32 = 0xe4;
const F5: i32 = 0x2d;

/// A round in one of the two lines: the constant that its steps add, the word that each step uses,
/// and the number of bits by which it rotates.
struct Round {
    constant: u32,
    words: [u8; 16],
    rotations: [u8; 16],
}

/// The five rounds of the left line.
static LEFT: [Round; 5] = [
    Round {
        constant: 0,
        words: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        rotations: [11, 14, 15, 12, 5, 8, 7, 9, 11, 13, 14, 15, 6, 7, 9, 8],
    },
    Round {
        constant: 0x5a827999,
        words: [7, 4, 13, 1, 10, 6, 15, 3, 12, 0, 9, 5, 2, 14, 11, 8],
        rotations: [7, 6, 8, 13, 11, 9, 7, 15, 7, 12, 15, 9, 11, 7, 13, 12],
    },
    Round {
        constant: 0x6ed9eba1,
        words: [3, 10, 14, 4, 9, 15, 8, 1, 2, 7, 0, 6, 13, 11, 5, 12],
        rotations: [11, 13, 6, 7, 14, 9, 13, 15, 14, 8, 13, 6, 5, 12, 7, 5],
    },
    Round {
        constant: 0x8f1bbcdc,
        words: [1, 9, 11, 10, 0, 8, 12, 4, 13, 3, 7, 15, 14, 5, 6, 2],
        rotations: [11, 12, 14, 15, 14, 15, 9, 8, 9, 14, 5, 6, 8, 6, 5, 12],
    },
    Round {
        constant: 0xa953fd4e,
        words: [4, 0, 5, 9, 7, 12, 2, 10, 14, 1, 3, 8, 11, 6, 15, 13],
        rotations: [9, 15, 5, 11, 6, 8, 13, 12, 5, 12, 13, 14, 11, 8, 5, 6],
    },
];

/// The five rounds of the right line.
static RIGHT: [Round; 5] = [
    Round {
        constant: 0x50a28be6,
        words: [5, 14, 7, 0, 9, 2, 11, 4, 13, 6, 15, 8, 1, 10, 3, 12],
        rotations: [8, 9, 9, 11, 13, 15, 15, 5, 7, 7, 8, 11, 14, 14, 12, 6],
    },
    Round {
        constant: 0x5c4dd124,
        words: [6, 11, 3, 7, 0, 13, 5, 10, 14, 15, 8, 12, 4, 9, 1, 2],
        rotations: [9, 13, 15, 7, 12, 8, 9, 11, 7, 7, 12, 7, 6, 15, 13, 11],
    },
    Round {
        constant: 0x6d703ef3,
        words: [15, 5, 1, 3, 7, 14, 6, 9, 11, 8, 12, 2, 10, 0, 4, 13],
        rotations: [9, 7, 15, 11, 8, 6, 6, 14, 12, 13, 5, 14, 13, 13, 7, 5],
    },
    Round {
        constant: 0x7a6d76e9,
        words: [8, 6, 4, 1, 3, 11, 15, 0, 5, 12, 2, 13, 9, 7, 10, 14],
        rotations: [15, 5, 8, 11, 14, 14, 6, 14, 6, 9, 12, 9, 12, 5, 15, 8],
    },
    Round {
        constant: 0,
        words: [12, 15, 10, 4, 1, 5, 8, 7, 6, 2, 13, 14, 0, 3, 9, 11],
        rotations: [8, 5, 12, 9, 12, 5, 14, 6, 8, 13, 6, 5, 15, 13, 11, 11],
    },
];

#[target_feature(enable = "avx512f")]
fn hash_16(messages: &[Hash; LANES]) -> [[u8; 20]; LANES] {
    let words = load(messages);
    let start = INITIAL_STATE.map(|word| broadcast(word));
    let mut left = start;
    let mut right = start;
    sixteen_steps::<F1, F5>(&mut left, &mut right, &words, 0);
    sixteen_steps::<F2, F4>(&mut left, &mut right, &words, 1);
    sixteen_steps::<F3, F3>(&mut left, &mut right, &words, 2);
    sixteen_steps::<F4, F2>(&mut left, &mut right, &words, 3);
    sixteen_steps::<F5, F1>(&mut left, &mut right, &words, 4);
    let mut sums = [[0_u32; LANES]; 5];
    for (i, sum) in sums.iter_mut().enumerate() {
        let word = add(start[(i + 1) % 5], add(left[(i + 2) % 5], right[(i + 3) % 5]));
        // SAFETY: the 64 bytes written are those of the array.
        unsafe { _mm512_storeu_si512(sum.as_mut_ptr().cast(), word) };
    }
    std::array::from_fn(|lane| {
        let mut digest = [0; 20];
        for (bytes, sum) in digest.as_chunks_mut::<4>().0.iter_mut().zip(&sums) {
            *bytes = sum[lane].to_le_bytes();
        }
        digest
    })
}

/// Returns the words of the only block of each message: eight words of the message, and the
/// padding.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(messages: &[Hash; LANES]) -> [Words; 16] {
    let mut words = [_mm512_setzero_si512(); 16];
    for (i, word) in words[..8].iter_mut().enumerate() {
        let of_lanes: [u32; LANES] =
            std::array::from_fn(|lane| u32::from_le_bytes(messages[lane].0.as_chunks().0[i]));
        // SAFETY: the 64 bytes read are those of the array.
        *word = unsafe { _mm512_loadu_si512(of_lanes.as_ptr().cast()) };
    }
    words[8] = broadcast(0x80);
    words[14] = broadcast(8 * size_of::<Hash>() as u32);
    words
}

/// Runs a round in both lines.
#[inline]
#[target_feature(enable = "avx512f")]
fn sixteen_steps<const F_LEFT: i32, const F_RIGHT: i32>(
    left: &mut Ripemd160State,
    right: &mut Ripemd160State,
    words: &[Words; 16],
    round: usize,
) {
    let of_left = &LEFT[round];
    let of_right = &RIGHT[round];
    for i in 0..16 {
        step::<F_LEFT>(left, words, of_left, i);
        step::<F_RIGHT>(right, words, of_right, i);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn step<const F: i32>(state: &mut Ripemd160State, words: &[Words; 16], round: &Round, i: usize) {
    let [a, b, c, d, e] = *state;
    let word = add(words[usize::from(round.words[i] & 15)], broadcast(round.constant));
    let sum = add(add(a, word), _mm512_ternarylogic_epi32(b, c, d, F));
    let rotated = _mm512_rolv_epi32(sum, broadcast(round.rotations[i].into()));
    *state = [e, add(rotated, e), b, _mm512_rol_epi32(c, 10), d];
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: Words, b: Words) -> Words {
    _mm512_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(word: u32) -> Words {
    _mm512_set1_epi32(word.cast_signed())
}
