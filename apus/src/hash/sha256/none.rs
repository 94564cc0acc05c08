//! In the place of `x86.rs` on other processors: nothing is ever found.

use super::state::{LANES, State};

/// Never found.
#[derive(Clone, Copy)]
pub enum Avx512 {}

/// Never found.
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
