//! Random numbers from one random number.

/// A sequence of numbers that look random (SplitMix64). Others can foresee it only if they know
/// where it starts.
pub struct Random(u64);

impl Random {
    /// Starts a sequence at a random number.
    pub fn new(start: u64) -> Self {
        Self(start)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number from 0 to `count` - 1. `count` is not zero.
    pub fn below(&mut self, count: usize) -> usize {
        (self.number() % count as u64) as usize
    }

    /// Returns a number from 0 to 1, without 1.
    pub fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }
}
