//! A bound on the processor time that answers take while a sync works, so that any number of
//! clients slow it by a few per cent at most. A few calls at a time are not held up.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The most processor seconds that are saved up for many calls at once.
const SAVED_MAX: f64 = 0.2;
/// The most processor seconds that one call may take from those after it.
const DEBT_MAX: f64 = 0.5;
/// Counts the processor time that answers may take.
pub(crate) struct Throttle {
    /// Processor seconds that are added each second.
    share: f64,
    left: Mutex<Left>,
}

struct Left {
    /// Processor seconds; negative if more was taken.
    seconds: f64,
    at: Instant,
}

impl Throttle {
    /// Creates a bound of `share` processor seconds each second.
    pub fn new(share: f64) -> Self {
        let left = Left { seconds: SAVED_MAX, at: Instant::now() };
        Self { share, left: Mutex::new(left) }
    }

    /// Waits until a call may begin.
    pub async fn wait(&self) {
        loop {
            let seconds = self.refilled().seconds;
            if seconds > 0.0 {
                return;
            }
            sleep(Duration::from_secs_f64((0.001 - seconds) / self.share)).await;
        }
    }

    /// Records that a call has taken this much time of a processor.
    pub fn took(&self, time: Duration) {
        let mut left = self.refilled();
        left.seconds = (left.seconds - time.as_secs_f64()).max(-DEBT_MAX);
    }

    fn refilled(&self) -> MutexGuard<'_, Left> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let gained = (now - left.at).as_secs_f64() * self.share;
        left.seconds = (left.seconds + gained).min(SAVED_MAX);
        left.at = now;
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_calls_take_their_share_and_few_do_not_wait() {
        let throttle = Throttle::new(0.04);
        let began = Instant::now();
        for _ in 0..40 {
            throttle.wait().await;
            throttle.took(Duration::from_millis(4));
        }
        assert_eq!(began.elapsed(), Duration::ZERO, "what was saved up is enough");
        for _ in 0..100 {
            throttle.wait().await;
            throttle.took(Duration::from_millis(4));
        }
        let share = 0.36 / began.elapsed().as_secs_f64();
        assert!((0.03..0.05).contains(&share), "{share}");
        // A call of minutes does not hold the others up for hours.
        throttle.took(Duration::from_secs(600));
        let began = Instant::now();
        throttle.wait().await;
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}
