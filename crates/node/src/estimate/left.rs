//! An estimate of a run: how far it is, and the time that is left, as a range.

use std::time::Duration;

use crate::bottleneck::Bottleneck;

/// By how much the machine of docs/budget.md may be faster than one that is not measured yet, at
/// least and at most.
const UNMEASURED: [f64; 3] = [0.55, 1.35, 3.3];
/// Seconds, and a share, by which the range is wider than computed: a run ends with work that no
/// stage reports.
const WIDER_SECONDS: f64 = 0.5;
const WIDER: f64 = 0.05;
/// The longest time that is shown, in seconds: a hundred years.
const LONGEST: f64 = 3.2e9;

/// How far a run is, and how long it will take.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Estimate {
    /// The work that is done, of all work that is known, from 0 to 1; `None` while none is known.
    /// It falls when more work becomes known, and is 1 only at the tip.
    pub share: Option<f64>,
    /// Whether `share` and `left` are about the whole run, and not about the phase alone.
    pub is_of_run: bool,
    /// The time that is left; `None` while nothing says how long it takes.
    pub left: Option<Left>,
    /// The time since anything came from peers, while all work waits for them.
    pub waiting: Option<Duration>,
    /// What limits the speed, over the last minute; `None` if too little was seen.
    pub bottleneck: Option<Bottleneck>,
    /// Bytes a second from peers, over the last minute; `None` if none have come.
    pub download: Option<f64>,
    /// Bytes of blocks a second that this phase has processed, over the last minute; `None` if it
    /// has processed none.
    pub speed: Option<f64>,
    /// Blocks a second, likewise.
    pub blocks: Option<f64>,
}

impl Estimate {
    /// Returns the share of the whole run that is done; `None` while its stages are not known.
    pub fn of_run(&self) -> Option<f64> {
        self.share.filter(|_| self.is_of_run)
    }
}

/// The time that is left of a run: in eight cases of ten it ends between `low` and `high`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Left {
    /// The lower end of the range.
    pub low: Duration,
    /// As likely too long as too short.
    pub median: Duration,
    /// The upper end of the range.
    pub high: Duration,
}

impl Left {
    /// Returns the range of some seconds, from low to high.
    pub(super) fn of([low, median, high]: [f64; 3]) -> Self {
        let time = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, LONGEST));
        Self {
            low: time(low * (1.0 - WIDER) - WIDER_SECONDS),
            median: time(median),
            high: time(high * (1.0 + WIDER) + WIDER_SECONDS),
        }
    }

    /// Returns the time that this much work takes, in seconds of the machine of docs/budget.md, if
    /// nothing is known of this one.
    pub fn unmeasured(work: f64) -> Self {
        Self::of(UNMEASURED.map(|factor| factor * work))
    }

    /// Returns the range in words, no more precise than it is: `3–8 s`, `12–15 min`, `3–4 h`,
    /// `up to 2 min`, `1–3 days`.
    pub fn words(&self) -> String {
        let low = self.low.as_secs_f64();
        let high = self.high.as_secs_f64();
        let (unit, word) = match high {
            0.0..100.0 => (1.0, "s"),
            100.0..7200.0 => (60.0, "min"),
            7200.0..172_800.0 => (3600.0, "h"),
            _ => (86_400.0, "days"),
        };
        let low = (low / unit).floor() as u64;
        let high = (high / unit).ceil().max(1.0) as u64;
        match low {
            0 => format!("up to {high} {word}"),
            low if low == high => format!("{high} {word}"),
            low => format!("{low}–{high} {word}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_said_in_the_unit_that_fits() {
        let seconds = Duration::from_secs;
        for (low, high, words) in [
            (0, 1, "up to 1 s"),
            (3, 8, "3–8 s"),
            (7, 7, "7 s"),
            (20, 110, "up to 2 min"),
            (725, 890, "12–15 min"),
            (7_300, 14_000, "2–4 h"),
            (90_000, 250_000, "1–3 days"),
        ] {
            let left = Left { low: seconds(low), median: seconds(low), high: seconds(high) };
            assert_eq!(left.words(), words);
        }
    }
}
