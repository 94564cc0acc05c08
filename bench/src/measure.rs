use std::hint::black_box;
use std::time::{Duration, Instant};

/// The number of runs of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The number of runs before the first measured one.
    pub warm_up: usize,
    /// The least number of runs.
    pub runs_min: usize,
    /// The largest number of runs.
    pub runs_max: usize,
    /// No further run is started after this time, once there are `runs_min`.
    pub budget: Duration,
}

impl Effort {
    /// The effort for published figures.
    pub const FULL: Self =
        Self { warm_up: 2, runs_min: 5, runs_max: 500, budget: Duration::from_millis(700) };
    /// The effort for tests, which only show that a measurement works.
    pub const SMALL: Self =
        Self { warm_up: 0, runs_min: 1, runs_max: 2, budget: Duration::from_millis(5) };

    /// Returns the median time of `run`, and the result of its last run.
    pub fn time<T>(&self, mut run: impl FnMut() -> T) -> (Duration, T) {
        self.time_with(|| (), |()| run())
    }

    /// Does what [`Effort::time`] does, with an input that `prepare` creates before each run, which
    /// is not measured.
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

/// Returns the median of some durations, or zero if there are none.
pub fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Returns a digest of bytes. Digests are added up, so that their order does not matter.
pub fn digest(bytes: &[u8]) -> u64 {
    let hash = apus_hash::sha256(bytes);
    u64::from_le_bytes(hash[..8].try_into().unwrap_or_default())
}

/// Adds a cheap digest of a short byte string to `sum`, where hashing would take most of the
/// measured time.
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
