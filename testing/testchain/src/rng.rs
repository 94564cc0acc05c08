//! A small pseudo-random generator, so that a seed gives the same chain everywhere, forever.

/// SplitMix64 (Steele, Lea, Flood 2014): fast, 64 bits of state, good enough for BigCrush.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator for `seed` and `stream`; different streams of a seed are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Rng(seed ^ stream.wrapping_mul(0xd1342543de82ef95));
        rng.0 = rng.next_u64();
        rng
    }

    /// Creates a generator in a given state, at no cost.
    #[inline]
    pub fn from_state(state: u64) -> Self {
        Rng(state)
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Overwrites `bytes` with random ones.
    #[inline]
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true `percent` times out of a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns `2^e` plus noise below it, with `e` geometric: each octave is `q / 256` times as
    /// likely as the one before it. A power law without floating point, cut off at `2^31`.
    pub fn power_law(&mut self, q: u64) -> u64 {
        let mut octave = 0;
        while octave < 30 && self.below(256) < q {
            octave += 1;
        }
        (1 << octave) + self.below(1 << octave)
    }
}
