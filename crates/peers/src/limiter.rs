//! Limits the bytes that are downloaded in a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A read takes at most a second's bytes divided by this, so that a connection never pauses for
/// long.
const PARTS: u64 = 100;
/// A read may always take this many bytes.
const BYTES_AT_ONCE_MIN: u64 = 512;

/// A limit on the bytes a second of all connections together.
pub(super) struct Limiter {
    /// `None` for no limit.
    bytes_per_second: Option<u64>,
    /// When all bytes read so far should have arrived at this rate.
    paid: Mutex<Instant>,
}

impl Limiter {
    /// Creates a limit of `bytes_per_second`.
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, paid: Mutex::new(Instant::now()) }
    }

    /// Returns the most bytes that may be read at once.
    pub fn bytes_at_once(&self) -> usize {
        let part = |rate: u64| (rate / PARTS).max(BYTES_AT_ONCE_MIN) as usize;
        self.bytes_per_second.map_or(usize::MAX, part)
    }

    /// Counts bytes that have arrived, and sleeps if they came too fast: the connection then fills
    /// up, and the peer has to wait.
    pub fn take(&self, bytes: u64) {
        if self.bytes_per_second.is_some() {
            std::thread::sleep(self.wait_after(bytes, Instant::now()));
        }
    }

    /// Takes note of bytes that have come at `now`, and returns how long to wait before more are
    /// read.
    fn wait_after(&self, bytes: u64, now: Instant) -> Duration {
        let Some(rate) = self.bytes_per_second else { return Duration::ZERO };
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        *paid = (*paid).max(now) + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        *paid - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_connections_take_their_time() {
        let limiter = Limiter::new(Some(1_000));
        let begun = Instant::now();
        let after = |bytes, ms| limiter.wait_after(bytes, begun + Duration::from_millis(ms));
        assert_eq!(after(500, 0), Duration::from_millis(500));
        assert_eq!(after(500, 100), Duration::from_millis(900), "what came before counts");
        assert_eq!(after(100, 1_100), Duration::from_millis(100), "a pause is not saved up");
        assert_eq!(Limiter::new(None).wait_after(u64::MAX, begun), Duration::ZERO);
    }

    #[test]
    fn reads_take_about_a_hundredth_of_a_second() {
        let at_once = |rate| Limiter::new(rate).bytes_at_once();
        assert_eq!(at_once(Some(1_000_000)), 10_000);
        assert_eq!(at_once(Some(1)), 512);
        assert_eq!(at_once(None), usize::MAX);
    }
}
