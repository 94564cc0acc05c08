//! The bound of what is downloaded in a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The parts of a second's bytes that are taken at once: many, so that a connection never has to
/// pause for long.
const PARTS: u64 = 100;
/// The fewest bytes that are taken at once.
const BYTES_AT_ONCE_MIN: u64 = 512;

/// A bound of the bytes a second of all connections together.
pub(super) struct Limiter {
    /// `None` for no bound.
    bytes_per_second: Option<u64>,
    /// When all that was taken so far may have come.
    paid: Mutex<Instant>,
}

impl Limiter {
    /// A bound of so many bytes a second.
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, paid: Mutex::new(Instant::now()) }
    }

    /// The most bytes that are to be read at once.
    pub fn bytes_at_once(&self) -> usize {
        let part = |rate: u64| (rate / PARTS).max(BYTES_AT_ONCE_MIN) as usize;
        self.bytes_per_second.map_or(usize::MAX, part)
    }

    /// Takes note of bytes that have come, and sleeps if they came too soon: then the connection
    /// fills up, and the peer has to wait.
    pub fn take(&self, bytes: u64) {
        let Some(rate) = self.bytes_per_second else { return };
        let now = Instant::now();
        let wait = {
            let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
            *paid = (*paid).max(now) + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            *paid - now
        };
        std::thread::sleep(wait);
    }
}
