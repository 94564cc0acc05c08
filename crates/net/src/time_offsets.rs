//! Compares our clock with those of the peers that we connected to (Core's `TimeOffsets`).

use std::collections::VecDeque;

/// The most peers whose clocks count (Core's `MAX_SIZE`).
const OFFSETS_MAX: usize = 50;
/// The fewest peers needed for a median.
const OFFSETS_MIN: usize = 5;
/// Seconds by which our clock may differ from theirs (Core's `WARN_THRESHOLD`).
const DIFFERENCE_MAX: u64 = 10 * 60;

/// The clocks of the last peers, compared with ours.
#[derive(Default)]
pub struct TimeOffsets {
    /// Each peer's time minus ours in seconds, in the order of the connections.
    offsets: VecDeque<i64>,
    /// Whether our clock was wrong after the last peer.
    is_wrong: bool,
}

impl TimeOffsets {
    /// Adds a peer's time minus ours, in seconds. Returns a warning if our clock is wrong and was
    /// not after the previous peer.
    pub fn add(&mut self, offset: i64) -> Option<String> {
        if self.offsets.len() == OFFSETS_MAX {
            self.offsets.pop_front();
        }
        self.offsets.push_back(offset);
        let median = self.median();
        let was_wrong = self.is_wrong;
        self.is_wrong = median.unsigned_abs() > DIFFERENCE_MAX;
        (self.is_wrong && !was_wrong).then(|| {
            let minutes = median.unsigned_abs() / 60;
            let side = if median > 0 { "behind" } else { "ahead of" };
            format!(
                "The clock of this computer is {minutes} minutes {side} the clocks of its peers: \
                 correct it. Blocks with a time more than two hours ahead of this clock are \
                 rejected"
            )
        })
    }

    /// Returns the median as Core takes it: the upper one of an even number, 0 of too few.
    fn median(&self) -> i64 {
        if self.offsets.len() < OFFSETS_MIN {
            return 0;
        }
        let mut sorted: Vec<i64> = self.offsets.iter().copied().collect();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    }
}
