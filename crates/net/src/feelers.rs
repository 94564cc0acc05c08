//! When a peer of the address book is tried for a moment, to learn whether its address works.

use std::time::Duration;

use super::random::Random;

/// Mean time from one such connection to the next (Core's `FEELER_INTERVAL`).
const INTERVAL: Duration = Duration::from_secs(2 * 60);

/// When the next feeler is due. The times between them are exponentially distributed, so that
/// others cannot foresee them.
#[derive(Default)]
pub struct Feelers {
    next: Option<Duration>,
}

impl Feelers {
    /// Returns whether a feeler is due, which is then opened. `random` is random.
    pub fn is_due(&mut self, now: Duration, random: u64) -> bool {
        let is_due = self.next.is_some_and(|next| now >= next);
        if is_due || self.next.is_none() {
            let share = 1.0 - Random::new(random).share();
            self.next = Some(now + INTERVAL.mul_f64(-share.ln()));
        }
        is_due
    }
}
