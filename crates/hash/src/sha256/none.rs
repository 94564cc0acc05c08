//! The stand-in for `x86.rs` on other processors, which never have its instructions.

use super::state::{LANES, State};

/// Proof of AVX-512, which these processors do not have.
#[derive(Clone, Copy)]
pub enum Avx512 {}

/// Proof of SHA-NI, which these processors do not have.
#[derive(Clone, Copy)]
pub enum ShaNi {}

impl Avx512 {
    pub fn detect() -> Option<Self> {
        None
    }

    pub fn compress(self, _: &mut [State; LANES], _: &[&[[u8; 64]]; LANES]) {
        match self {}
    }

    pub fn compress_constant(self, _: &mut [State; LANES], _: &[u32; 64]) {
        match self {}
    }
}

impl ShaNi {
    pub fn detect() -> Option<Self> {
        None
    }

    pub fn compress(self, _: &mut [State; 2], _: [&[[u8; 64]]; 2]) {
        match self {}
    }
}
