use std::hint::black_box;
use std::time::{Duration, Instant};

/// How often something is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs that are not counted.
    pub warm_up: usize,
    /// Runs at least.
    pub runs_min: usize,
    /// Runs at most.
    pub runs_max: usize,
    /// No further run is started after this time, once there are `runs_min`.
    pub budget: Duration,
}

impl Effort {
    /// For what is measured.
    pub const FULL: Self =
        Self { warm_up: 2, runs_min: 5, runs_max: 500, budget: Duration::from_millis(700) };
    /// For tests: that it works at all.
    pub const SMALL: Self =
        Self { warm_up: 0, runs_min: 1, runs_max: 2, budget: Duration::from_millis(5) };

    /// The median time of `run`, and what its last run returned.
    pub fn time<T>(&self, mut run: impl FnMut() -> T) -> (Duration, T) {
        self.time_with(|| (), |()| run())
    }

    /// [`Effort::time`] of `run` alone, before each of which `prepare` makes its input.
    pub fn time_with<I, T>(
        &self,
        mut prepare: impl FnMut() -> I,
        mut run: impl FnMut(I) -> T,
    ) -> (Duration, T) {
        for _ in 0..self.warm_up {
            black_box(run(black_box(prepare())));
        }
        let begun = Instant::now();
        let mut times = Vec::new();
        loop {
            let input = black_box(prepare());
            let start = Instant::now();
            let result = black_box(run(input));
            times.push(start.elapsed());
            let enough = times.len() >= self.runs_min && begun.elapsed() >= self.budget;
            if enough || times.len() >= self.runs_max {
                return (median(&mut times), result);
            }
        }
    }
}

/// The middle one of some durations; zero of none.
pub fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A digest of bytes, to be added to those of other bytes in any order.
pub fn digest(bytes: &[u8]) -> u64 {
    let hash = apus::hash::sha256(bytes);
    u64::from_le_bytes(hash[..8].try_into().unwrap_or_default())
}

/// A cheap digest of short byte strings, where hashing would be most of the time measured.
#[inline]
pub fn quick_digest(sum: u64, bytes: &[u8]) -> u64 {
    let mut state = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = (state ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state ^= state >> 29;
    }
    sum.wrapping_add(state)
}

/// Numbers that look random and are the same in every run (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// Fills bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_and_the_result_the_last() {
        let ms = Duration::from_millis;
        assert_eq!(median(&mut [ms(9), ms(1), ms(2)]), ms(2));
        assert_eq!(median(&mut []), ms(0));
        let mut runs = 0;
        let (_, last) = Effort::SMALL.time(|| {
            runs += 1;
            runs
        });
        assert_eq!(last, runs);
    }

    #[test]
    fn digests_do_not_depend_on_the_order() {
        let [a, b] = [&b"one"[..], b"another, longer"];
        assert_eq!(quick_digest(quick_digest(0, a), b), quick_digest(quick_digest(0, b), a));
        assert_ne!(quick_digest(0, a), quick_digest(0, b));
    }
}
