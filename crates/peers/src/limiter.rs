//! Limits the bytes that are downloaded in a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use apus_net::MaxDownload;
use chrono::{Local, Timelike as _};

/// A read takes at most a second's bytes divided by this, so that a connection never pauses for
/// long.
const PARTS: u64 = 100;
/// A read may always take this many bytes.
const BYTES_AT_ONCE_MIN: u64 = 512;

/// Connections that others open to us together may take one byte in this many.
const INBOUND_SHARE: u64 = 10;

/// A limit on the bytes a second of all connections together.
pub(super) struct Limiter {
    /// `None` for no limit at any time.
    limits: Option<MaxDownload>,
    /// When all bytes read so far should have arrived at the limit.
    paid: Mutex<Instant>,
    /// The same for those of connections that others opened, at their share of the limit.
    paid_inbound: Mutex<Instant>,
}

impl Limiter {
    /// Creates a limit that follows the local time of day.
    pub fn new(limits: Option<MaxDownload>) -> Self {
        let now = Instant::now();
        Self { limits, paid: Mutex::new(now), paid_inbound: Mutex::new(now) }
    }

    /// Returns the most bytes a second now; `None` for no limit.
    pub fn now(&self) -> Option<u64> {
        self.limits.as_ref()?.at(minute_of_day())
    }

    /// Returns the most bytes that may be read at once.
    pub fn bytes_at_once(&self, inbound: bool) -> usize {
        at_once(self.now().map(|limit| if inbound { limit / INBOUND_SHARE } else { limit }))
    }

    /// Sleeps until a connection that a peer opened may be read from, also one that is new: those
    /// that come and go must not read more than their share together.
    pub fn wait(&self, inbound: bool) {
        while inbound
            && self.now().is_some()
            && let Some(wait) = self.wait_before(Instant::now())
        {
            std::thread::sleep(wait);
        }
    }

    /// Counts bytes that have arrived, and sleeps if they came too fast: the connection then fills
    /// up, and the peer has to wait. Connections that others opened have a share of their own, so
    /// that they cannot slow a download.
    pub fn take(&self, bytes: u64, inbound: bool) {
        if let Some(limit) = self.now() {
            std::thread::sleep(self.wait_after(bytes, limit, inbound, Instant::now()));
        }
    }

    /// Returns how long inbound connections have to wait at `now` for those before.
    fn wait_before(&self, now: Instant) -> Option<Duration> {
        let paid = *self.paid_inbound.lock().unwrap_or_else(PoisonError::into_inner);
        paid.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// Takes note of bytes that have come at `now`, when `limit` bytes a second may come, and
    /// returns how long to wait after that; connections that others opened wait before they read.
    fn wait_after(&self, bytes: u64, limit: u64, inbound: bool, now: Instant) -> Duration {
        let wait = pay(&self.paid, bytes, limit, now);
        if inbound {
            pay(&self.paid_inbound, bytes, limit / INBOUND_SHARE, now);
            return Duration::ZERO;
        }
        wait
    }
}

fn pay(paid: &Mutex<Instant>, bytes: u64, limit: u64, now: Instant) -> Duration {
    let mut paid = paid.lock().unwrap_or_else(PoisonError::into_inner);
    *paid = (*paid).max(now) + Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64);
    *paid - now
}

/// Returns the most bytes to read at once if `limit` bytes a second may come.
fn at_once(limit: Option<u64>) -> usize {
    limit.map_or(usize::MAX, |limit| (limit / PARTS).max(BYTES_AT_ONCE_MIN) as usize)
}

/// Returns the minutes since midnight, in local time.
fn minute_of_day() -> u32 {
    let now = Local::now();
    now.hour() * 60 + now.minute()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inbound_connections_have_a_share_and_take_no_more_of_the_download() {
        let limiter = Limiter::new(None);
        let now = Instant::now();
        assert_eq!(limiter.wait_before(now), None);
        for times in 1..=50 {
            assert_eq!(limiter.wait_after(10, 1_000, true, now), Duration::ZERO);
            // A new connection waits as well, before it reads anything.
            assert_eq!(limiter.wait_before(now), Some(Duration::from_millis(100) * times));
        }
        assert_eq!(limiter.wait_before(now + Duration::from_secs(5)), None);
        // Bytes that one has read count for all, and they read a tenth of the limit.
        let outbound = limiter.wait_after(500, 1_000, false, now);
        assert_eq!(outbound, Duration::from_millis(1_000));
    }

    #[test]
    fn bytes_of_all_connections_take_their_time() {
        let limiter = Limiter::new(None);
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let after = |bytes, limit, ms| limiter.wait_after(bytes, limit, false, at(ms));
        assert_eq!(after(500, 1_000, 0), Duration::from_millis(500));
        assert_eq!(after(500, 1_000, 100), Duration::from_millis(900), "what came before counts");
        assert_eq!(after(100, 1_000, 1_100), Duration::from_millis(100), "no pause is saved up");
        assert_eq!(after(100, 100, 1_100), Duration::from_millis(1_100), "the limit may change");
    }

    #[test]
    fn reads_take_about_a_hundredth_of_a_second() {
        assert_eq!(at_once(Some(1_000_000)), 10_000);
        assert_eq!(at_once(Some(1)), 512);
        assert_eq!(at_once(None), usize::MAX);
    }

    #[test]
    fn the_limit_is_that_of_this_time_of_day() {
        let limit = |text| Limiter::new(MaxDownload::parse([text]).ok()).now();
        assert_eq!(limit("2@00:00-24:00"), Some(2_000_000));
        assert_eq!(limit("3"), Some(3_000_000));
        assert_eq!(Limiter::new(None).now(), None);
    }
}
