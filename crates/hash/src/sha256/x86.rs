//! The compression function of SHA-256 for many messages at once, with x86-64 instructions.
//!
//! Hashing one message is bound by latency, so several are hashed in parallel: two with SHA-NI,
//! whose rounds then overlap, or sixteen with AVX-512, each in one 32-bit part of the registers. On
//! a Zen 5 a block takes 31 ns with SHA-NI for one message, 19 to 21 ns for two (no less for four),
//! and 11 ns with AVX-512 for sixteen.

#![allow(unsafe_code, reason = "the processor's instructions")]

use std::arch::x86_64::*;
use std::arch::{asm, is_x86_feature_detected};

use super::state::{K, LANES, Sha256State};

/// Proof that the processor has AVX-512 (F and BW).
#[derive(Clone, Copy)]
pub struct Avx512(());

/// Proof that the processor has SHA-NI (and SSE4.1, AVX).
#[derive(Clone, Copy)]
pub struct ShaNi(());

impl Avx512 {
    /// Returns the proof if the processor has the features. The answer is cached.
    pub fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        found.then_some(Self(()))
    }

    /// Compresses into each state the blocks of its list, up to the length of the shortest list.
    pub fn compress(self, states: &mut [Sha256State; LANES], blocks: &[&[[u8; 64]]; LANES]) {
        // SAFETY: `self` exists only where the features were found.
        unsafe { compress_16(states, blocks) }
    }

    /// Compresses one block into every state. The block is given as its schedule, to which the
    /// round constants are already added.
    pub fn compress_constant(self, states: &mut [Sha256State; LANES], schedule: &[u32; 64]) {
        // SAFETY: `self` exists only where the features were found.
        unsafe { compress_constant_16(states, schedule) }
    }
}

impl ShaNi {
    /// Returns the proof if the processor has the features. The answer is cached.
    pub fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("sha")
            && is_x86_feature_detected!("sse4.1")
            && is_x86_feature_detected!("avx");
        found.then_some(Self(()))
    }

    /// Compresses into each state the blocks of its list, up to the length of the shorter list.
    pub fn compress(self, states: &mut [Sha256State; 2], blocks: [&[[u8; 64]]; 2]) {
        // SAFETY: `self` exists only where the features were found.
        unsafe { compress_2(states, blocks) }
    }
}

/// Truth table for `ternarylogic` of the function Ch: each bit of the first operand selects the bit
/// of the second or the third.
const CHOICE: i32 = 0xca;
/// Truth table for `ternarylogic` of the function Maj: the majority of the three bits.
const MAJORITY: i32 = 0xe8;
/// Truth table for `ternarylogic` of the exclusive or of three operands.
const PARITY: i32 = 0x96;

/// One 32-bit word of each of sixteen messages, or sixteen words of one.
type Words = __m512i;

#[target_feature(enable = "avx512f,avx512bw")]
fn compress_16(states: &mut [Sha256State; LANES], blocks: &[&[[u8; 64]]; LANES]) {
    let count = blocks.iter().map(|list| list.len()).min().unwrap_or(0);
    let big_endian = _mm512_broadcast_i32x4(big_endian_words());
    let mut state = load_states(states);
    for at in 0..count {
        let mut words = [_mm512_setzero_si512(); 16];
        for (words, list) in words.iter_mut().zip(blocks) {
            // SAFETY: the 64 bytes read are those of `list[at]`.
            let block = unsafe { _mm512_loadu_si512(list[at].as_ptr().cast()) };
            *words = _mm512_shuffle_epi8(block, big_endian);
        }
        transpose(&mut words);
        let start = state;
        sixteen_rounds(&mut state, |i| _mm512_add_epi32(words[i], broadcast(K[i])));
        for k in K[16..].as_chunks::<16>().0 {
            sixteen_rounds(&mut state, |i| {
                expand(&mut words, i);
                _mm512_add_epi32(words[i], broadcast(k[i]))
            });
        }
        add(&mut state, &start);
    }
    store_states(states, state);
}

#[target_feature(enable = "avx512f,avx512bw")]
fn compress_constant_16(states: &mut [Sha256State; LANES], schedule: &[u32; 64]) {
    let mut state = load_states(states);
    let start = state;
    for words in schedule.as_chunks::<16>().0 {
        sixteen_rounds(&mut state, |i| broadcast(words[i]));
    }
    add(&mut state, &start);
    store_states(states, state);
}

/// Runs sixteen rounds of SHA-256. Each round waits for results of the one before, so these are
/// added last, which keeps the chain of additions short.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn sixteen_rounds(state: &mut [Words; 8], mut word_and_k: impl FnMut(usize) -> Words) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    macro_rules! round {
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $i:expr) => {
            let choice = _mm512_ternarylogic_epi32($e, $f, $g, CHOICE);
            let majority = _mm512_ternarylogic_epi32($a, $b, $c, MAJORITY);
            let sum_e =
                xor(_mm512_ror_epi32($e, 6), _mm512_ror_epi32($e, 11), _mm512_ror_epi32($e, 25));
            let sum_a =
                xor(_mm512_ror_epi32($a, 2), _mm512_ror_epi32($a, 13), _mm512_ror_epi32($a, 22));
            let word = plus($h, word_and_k($i));
            let first = plus(word, choice);
            $d = plus(plus(plus(word, $d), choice), sum_e);
            $h = plus(plus(plus(first, sum_e), majority), sum_a);
        };
    }
    round!(a b c d e f g h, 0);
    round!(h a b c d e f g, 1);
    round!(g h a b c d e f, 2);
    round!(f g h a b c d e, 3);
    round!(e f g h a b c d, 4);
    round!(d e f g h a b c, 5);
    round!(c d e f g h a b, 6);
    round!(b c d e f g h a, 7);
    round!(a b c d e f g h, 8);
    round!(h a b c d e f g, 9);
    round!(g h a b c d e f, 10);
    round!(f g h a b c d e, 11);
    round!(e f g h a b c d, 12);
    round!(d e f g h a b c, 13);
    round!(c d e f g h a b, 14);
    round!(b c d e f g h a, 15);
    *state = [a, b, c, d, e, f, g, h];
}

/// Replaces word `i` of the schedule by the word 16 places later.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn expand(w: &mut [Words; 16], i: usize) {
    let x = w[(i + 1) % 16];
    let y = w[(i + 14) % 16];
    let near = xor(_mm512_ror_epi32(x, 7), _mm512_ror_epi32(x, 18), _mm512_srli_epi32(x, 3));
    let far = xor(_mm512_ror_epi32(y, 17), _mm512_ror_epi32(y, 19), _mm512_srli_epi32(y, 10));
    let old = _mm512_add_epi32(w[i], w[(i + 9) % 16]);
    w[i] = _mm512_add_epi32(old, _mm512_add_epi32(near, far));
}

/// Adds two words in an order that the compiler cannot change; its own order takes 12 % longer.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn plus(a: Words, b: Words) -> Words {
    let mut sum = _mm512_add_epi32(a, b);
    // SAFETY: the assembly is a comment, without an instruction.
    unsafe {
        asm!("/* {0} */", inout(zmm_reg) sum, options(pure, nomem, nostack, preserves_flags))
    };
    sum
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn xor(a: Words, b: Words, c: Words) -> Words {
    _mm512_ternarylogic_epi32(a, b, c, PARITY)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn broadcast(word: u32) -> Words {
    _mm512_set1_epi32(word.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add(state: &mut [Words; 8], start: &[Words; 8]) {
    for (word, start) in state.iter_mut().zip(start) {
        *word = _mm512_add_epi32(*word, *start);
    }
}

/// Loads the states of all lanes into eight registers, one for each word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_states(states: &[Sha256State; LANES]) -> [Words; 8] {
    // The quarters of row i hold both halves of the state of one lane and both halves of that four
    // lanes later. The lanes are i and i + 4 in the first four rows, i + 4 and i + 8 in the others.
    let mut rows = [_mm512_setzero_si512(); 8];
    for (i, row) in rows.iter_mut().enumerate() {
        let lane = i + i / 4 * 4;
        // SAFETY: the 32 bytes read each time are those of one state.
        *row = unsafe {
            let low = _mm256_loadu_si256(states[lane].as_ptr().cast());
            let high = _mm256_loadu_si256(states[lane + 4].as_ptr().cast());
            _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)
        };
    }
    let [r0, r1, r2, r3, r4, r5, r6, r7] = rows;
    let front = transpose_quarters([r0, r1, r2, r3]);
    let back = transpose_quarters([r4, r5, r6, r7]);
    let mut words = rows;
    for i in 0..4 {
        words[i] = _mm512_shuffle_i32x4(front[i], back[i], 0x88);
        words[4 + i] = _mm512_shuffle_i32x4(front[i], back[i], 0xdd);
    }
    words
}

/// Stores the states of all lanes: the inverse of [`load_states`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store_states(states: &mut [Sha256State; LANES], words: [Words; 8]) {
    let [a, b, c, d, e, f, g, h] = words;
    // Quarter q of row i holds half of the state of lane 4q + i.
    let halves = [transpose_quarters([a, b, c, d]), transpose_quarters([e, f, g, h])];
    for (half, rows) in halves.iter().enumerate() {
        for (i, row) in rows.iter().enumerate() {
            let quarters = [
                _mm512_castsi512_si128(*row),
                _mm512_extracti32x4_epi32(*row, 1),
                _mm512_extracti32x4_epi32(*row, 2),
                _mm512_extracti32x4_epi32(*row, 3),
            ];
            for (q, quarter) in quarters.into_iter().enumerate() {
                let place = states[4 * q + i][4 * half..4 * half + 4].as_mut_ptr();
                // SAFETY: the 16 bytes written are the four words of that slice.
                unsafe { _mm_storeu_si128(place.cast(), quarter) };
            }
        }
    }
}

/// Transposes four rows of four words in each quarter of the registers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn transpose_quarters(rows: [Words; 4]) -> [Words; 4] {
    let [w, x, y, z] = rows;
    let low = [_mm512_unpacklo_epi32(w, x), _mm512_unpacklo_epi32(y, z)];
    let high = [_mm512_unpackhi_epi32(w, x), _mm512_unpackhi_epi32(y, z)];
    [
        _mm512_unpacklo_epi64(low[0], low[1]),
        _mm512_unpackhi_epi64(low[0], low[1]),
        _mm512_unpacklo_epi64(high[0], high[1]),
        _mm512_unpackhi_epi64(high[0], high[1]),
    ]
}

/// Transposes sixteen rows of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn transpose(rows: &mut [Words; 16]) {
    for four in rows.as_chunks_mut::<4>().0 {
        *four = transpose_quarters(*four);
    }
    let mut other = *rows;
    // Here quarter q of row 4i + j holds word 4q + j of the lanes 4i to 4i + 3.
    for j in 0..4 {
        let [w, x, y, z] = [rows[j], rows[4 + j], rows[8 + j], rows[12 + j]];
        let low = [_mm512_shuffle_i32x4(w, x, 0x44), _mm512_shuffle_i32x4(y, z, 0x44)];
        let high = [_mm512_shuffle_i32x4(w, x, 0xee), _mm512_shuffle_i32x4(y, z, 0xee)];
        other[j] = _mm512_shuffle_i32x4(low[0], low[1], 0x88);
        other[4 + j] = _mm512_shuffle_i32x4(low[0], low[1], 0xdd);
        other[8 + j] = _mm512_shuffle_i32x4(high[0], high[1], 0x88);
        other[12 + j] = _mm512_shuffle_i32x4(high[0], high[1], 0xdd);
    }
    *rows = other;
}

/// Returns the shuffle that reads big-endian words.
#[inline]
#[target_feature(enable = "sse2")]
fn big_endian_words() -> __m128i {
    _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203)
}

#[target_feature(enable = "sha,sse4.1,avx")]
fn compress_2(states: &mut [Sha256State; 2], blocks: [&[[u8; 64]]; 2]) {
    let [mut abef, mut cdgh] = [[_mm_setzero_si128(); 2]; 2];
    for lane in 0..2 {
        [abef[lane], cdgh[lane]] = load_state(&states[lane]);
    }
    for (first, second) in blocks[0].iter().zip(blocks[1]) {
        let start = (abef, cdgh);
        let mut words = [load_block(first), load_block(second)];
        macro_rules! four_rounds {
            ($($step:literal)*) => {$(
                let k = load_k::<$step>();
                for lane in 0..2 {
                    let wk = _mm_add_epi32(schedule::<$step>(&mut words[lane]), k);
                    cdgh[lane] = _mm_sha256rnds2_epu32(cdgh[lane], abef[lane], wk);
                    let wk = _mm_shuffle_epi32(wk, 0x0e);
                    abef[lane] = _mm_sha256rnds2_epu32(abef[lane], cdgh[lane], wk);
                }
            )*};
        }
        // Unrolled, since a loop would keep the words in memory.
        four_rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for lane in 0..2 {
            abef[lane] = _mm_add_epi32(abef[lane], start.0[lane]);
            cdgh[lane] = _mm_add_epi32(cdgh[lane], start.1[lane]);
        }
    }
    for lane in 0..2 {
        store_state(&mut states[lane], abef[lane], cdgh[lane]);
    }
}

/// Returns the words of the four rounds from 4 · `STEP` on. From `STEP` 4 on they replace, in `w`,
/// the words of 16 rounds earlier.
#[inline]
#[target_feature(enable = "sha,sse4.1,avx")]
fn schedule<const STEP: usize>(w: &mut [__m128i; 4]) -> __m128i {
    let [i0, i1, i2, i3] = [0, 1, 2, 3].map(|i| (STEP + i) % 4);
    if STEP >= 4 {
        let near = _mm_sha256msg1_epu32(w[i0], w[i1]);
        let sum = _mm_add_epi32(near, _mm_alignr_epi8(w[i3], w[i2], 4));
        w[i0] = _mm_sha256msg2_epu32(sum, w[i3]);
    }
    w[i0]
}

#[inline]
#[target_feature(enable = "sse2")]
fn load_k<const STEP: usize>() -> __m128i {
    const { assert!(4 * STEP + 4 <= K.len()) };
    // SAFETY: the four words read are in K, as asserted.
    unsafe { _mm_loadu_si128(K.as_ptr().add(4 * STEP).cast()) }
}

/// Returns the state in the order of SHA-NI: a, b, e, f and c, d, g, h, the highest word first.
#[inline]
#[target_feature(enable = "sha,sse4.1,avx")]
fn load_state(state: &Sha256State) -> [__m128i; 2] {
    // SAFETY: two reads of 16 bytes, which are the 32 bytes of the state.
    let [dcba, hgfe] = [0, 4].map(|at| unsafe { _mm_loadu_si128(state[at..].as_ptr().cast()) });
    let cdab = _mm_shuffle_epi32(dcba, 0xb1);
    let efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    [_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xf0)]
}

/// Stores the state: the inverse of [`load_state`].
#[inline]
#[target_feature(enable = "sha,sse4.1,avx")]
fn store_state(state: &mut Sha256State, abef: __m128i, cdgh: __m128i) {
    let feba = _mm_shuffle_epi32(abef, 0x1b);
    let dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    let dcba = _mm_blend_epi16(feba, dchg, 0xf0);
    let hgfe = _mm_alignr_epi8(dchg, feba, 8);
    // SAFETY: two writes of 16 bytes, which are the 32 bytes of the state.
    unsafe {
        _mm_storeu_si128(state[..4].as_mut_ptr().cast(), dcba);
        _mm_storeu_si128(state[4..].as_mut_ptr().cast(), hgfe);
    }
}

#[inline]
#[target_feature(enable = "sha,sse4.1,avx")]
fn load_block(block: &[u8; 64]) -> [__m128i; 4] {
    [0, 16, 32, 48].map(|at| {
        // SAFETY: four reads of 16 bytes, which are the 64 bytes of the block.
        let words = unsafe { _mm_loadu_si128(block[at..].as_ptr().cast()) };
        _mm_shuffle_epi8(words, big_endian_words())
    })
}
