//! SipHash-2-4 of eight messages with the vector registers of x86-64. Each step of one message
//! waits for the one before, so that hashing one by one leaves most of the processor idle.

#![allow(unsafe_code, reason = "the processor's instructions")]

use std::arch::is_x86_feature_detected;

use super::key::SipKey;
use super::lanes::{LANES, Lanes, hash};

/// The vector registers that are used. Those of a named one were found.
#[derive(Clone, Copy)]
pub struct Engine(Registers);

#[derive(Clone, Copy)]
enum Registers {
    Avx512,
    Avx2,
    Sse2,
}

impl Engine {
    /// Returns the fastest engine that this processor runs.
    pub fn best() -> Self {
        let [best, ..] = Self::found();
        Self(best)
    }

    /// Returns every engine that this processor runs.
    #[cfg(test)]
    pub fn all() -> [Self; 3] {
        Self::found().map(Self)
    }

    /// Returns the engines that this processor runs, the fastest first.
    fn found() -> [Registers; 3] {
        let avx2 = if is_x86_feature_detected!("avx2") { Registers::Avx2 } else { Registers::Sse2 };
        let avx512 = if is_x86_feature_detected!("avx512f") { Registers::Avx512 } else { avx2 };
        [avx512, avx2, Registers::Sse2]
    }

    /// Returns the hash of each message.
    pub fn hash(self, key: SipKey, lanes: &Lanes) -> [u64; LANES] {
        match self.0 {
            // SAFETY: the features were found.
            Registers::Avx512 => unsafe { hash_avx512(key, lanes) },
            // SAFETY: the feature was found.
            Registers::Avx2 => unsafe { hash_avx2(key, lanes) },
            Registers::Sse2 => hash(key, lanes),
        }
    }
}

#[target_feature(enable = "avx512f")]
fn hash_avx512(key: SipKey, lanes: &Lanes) -> [u64; LANES] {
    hash(key, lanes)
}

#[target_feature(enable = "avx2")]
fn hash_avx2(key: SipKey, lanes: &Lanes) -> [u64; LANES] {
    hash(key, lanes)
}
