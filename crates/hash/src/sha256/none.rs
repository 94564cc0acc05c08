//! The stand-ins for instructions that a processor's family never has.

use super::state::{LANES, Sha256State};

/// Proof of instructions for sixteen messages at once, which only x86-64 has.
#[derive(Clone, Copy)]
pub enum Sixteen {}

impl Sixteen {
    pub fn detect() -> Option<Self> {
        None
    }

    pub fn compress(self, _: &mut [Sha256State; LANES], _: &[&[[u8; 64]]; LANES]) {
        match self {}
    }

    pub fn compress_constant(self, _: &mut [Sha256State; LANES], _: &[u32; 64]) {
        match self {}
    }
}

/// Proof of instructions for two messages at once, which only x86-64 and ARMv8 have.
#[cfg(not(target_arch = "aarch64"))]
#[derive(Clone, Copy)]
pub enum Two {}

#[cfg(not(target_arch = "aarch64"))]
impl Two {
    pub fn detect() -> Option<Self> {
        None
    }

    pub fn compress(self, _: &mut [Sha256State; 2], _: [&[[u8; 64]]; 2]) {
        match self {}
    }
}
