//! SHA-256 of two messages at once, with ARMv8 instructions.
//!
//! The rounds of one message wait for each other, so those of two messages overlap. By the model of
//! a Neoverse N1, which is the Cortex-A76 of servers, a block takes 98 cycles with one message, 57
//! with two, and no fewer with three or four (`llvm-mca -mcpu=neoverse-n1`).

#![allow(unsafe_code, reason = "the processor's instructions")]

use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use super::state::{K, Sha256State};

/// Proof that the processor has the SHA-256 instructions of ARMv8.
#[derive(Clone, Copy)]
pub struct Armv8(());

impl Armv8 {
    /// Returns the proof if the processor has the instructions. The answer is cached.
    pub fn detect() -> Option<Self> {
        is_aarch64_feature_detected!("sha2").then_some(Self(()))
    }

    /// Compresses into each state the blocks of its list, up to the length of the shorter list.
    pub fn compress(self, states: &mut [Sha256State; 2], blocks: [&[[u8; 64]]; 2]) {
        // SAFETY: `self` exists only where the feature was found.
        unsafe { compress_2(states, blocks) }
    }
}

#[target_feature(enable = "sha2")]
fn compress_2(states: &mut [Sha256State; 2], blocks: [&[[u8; 64]]; 2]) {
    let mut abcd = [load(&states[0], 0), load(&states[1], 0)];
    let mut efgh = [load(&states[0], 4), load(&states[1], 4)];
    for (first, second) in blocks[0].iter().zip(blocks[1]) {
        let start = (abcd, efgh);
        let mut words = [load_block(first), load_block(second)];
        macro_rules! four_rounds {
            ($($step:literal)*) => {$(
                let k = load(&K, 4 * $step);
                for lane in 0..2 {
                    let wk = vaddq_u32(schedule::<$step>(&mut words[lane]), k);
                    let before = abcd[lane];
                    abcd[lane] = vsha256hq_u32(before, efgh[lane], wk);
                    efgh[lane] = vsha256h2q_u32(efgh[lane], before, wk);
                }
            )*};
        }
        // Unrolled, since a loop would keep the words in memory.
        four_rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for lane in 0..2 {
            abcd[lane] = vaddq_u32(abcd[lane], start.0[lane]);
            efgh[lane] = vaddq_u32(efgh[lane], start.1[lane]);
        }
    }
    for lane in 0..2 {
        store(&mut states[lane], 0, abcd[lane]);
        store(&mut states[lane], 4, efgh[lane]);
    }
}

/// Returns the words of the four rounds from 4 · `STEP` on. From `STEP` 4 on they replace, in `w`,
/// the words of 16 rounds earlier.
#[inline]
#[target_feature(enable = "sha2")]
fn schedule<const STEP: usize>(w: &mut [uint32x4_t; 4]) -> uint32x4_t {
    let [i0, i1, i2, i3] = [0, 1, 2, 3].map(|i| (STEP + i) % 4);
    if STEP >= 4 {
        w[i0] = vsha256su1q_u32(vsha256su0q_u32(w[i0], w[i1]), w[i2], w[i3]);
    }
    w[i0]
}

/// Returns the four words from `at` on.
#[inline]
#[target_feature(enable = "sha2")]
fn load(words: &[u32], at: usize) -> uint32x4_t {
    // SAFETY: the 16 bytes read are those of the slice of four words.
    unsafe { vld1q_u32(words[at..at + 4].as_ptr()) }
}

/// Writes the four words from `at` on.
#[inline]
#[target_feature(enable = "sha2")]
fn store(words: &mut Sha256State, at: usize, four: uint32x4_t) {
    // SAFETY: the 16 bytes written are those of the slice of four words.
    unsafe { vst1q_u32(words[at..at + 4].as_mut_ptr(), four) }
}

/// Returns the sixteen big-endian words of a block.
#[inline]
#[target_feature(enable = "sha2")]
fn load_block(block: &[u8; 64]) -> [uint32x4_t; 4] {
    [0, 16, 32, 48].map(|at| {
        // SAFETY: four reads of 16 bytes, which are the 64 bytes of the block.
        let bytes = unsafe { vld1q_u8(block[at..at + 16].as_ptr()) };
        vreinterpretq_u32_u8(vrev32q_u8(bytes))
    })
}
