//! An estimate of a run: how far it is, and the time that is left, as a range.

use std::sync::Arc;
use std::time::Duration;

use super::pace::Uncertain;
use crate::bottleneck::Bottleneck;
use crate::phase::Phase;

/// The normal distribution has a tenth below its mean minus this many standard deviations, and a
/// tenth above its mean plus as many.
const TENTH: f64 = 1.2816;
/// Seconds, and a share, by which the range is wider than computed: a run ends with work that no
/// stage reports.
const WIDER_SECONDS: f64 = 0.5;
const WIDER: f64 = 0.05;
/// The longest time that is shown, in seconds: a hundred years.
const LONGEST: f64 = 3.2e9;

/// How far a whole run is, and how long it will take.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Estimate {
    /// Share of the run that is done, by time, from 0 to 1; never smaller than before. It is 1 only
    /// once the tip is reached.
    pub fraction: f64,
    /// The time that is left; `None` while nothing says how long the run takes, and at the tip.
    pub left: Option<Left>,
    /// The time that is left of the present phase alone; `None` if that is not known.
    pub left_of_phase: Option<Left>,
    /// The stages of the run; empty while they are not known.
    pub passes: Arc<[Pass]>,
    /// Index of the present stage among them.
    pub pass: usize,
    /// What limits the speed, over the last minute; `None` if too little was seen.
    pub bottleneck: Option<Bottleneck>,
    /// How long that has limited the speed.
    pub bottleneck_for: Duration,
    /// Bytes a second from peers, over the last minute; `None` if none have come.
    pub download: Option<f64>,
    /// Bytes of blocks a second that this phase has processed, over the last minute; `None` if it
    /// has processed none.
    pub speed: Option<f64>,
}

/// A stage of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pass {
    /// Its phase.
    pub phase: Phase,
    /// The share of the whole run's time that it takes.
    pub share: f64,
}

/// The time that is left of a run: it ends between `low` and `high` in eight cases of ten, before
/// `low` in one, and after `high` in one.
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
    /// Returns the range of a number of seconds.
    pub(super) fn of(seconds: Uncertain) -> Self {
        let at = |deviations: f64| (seconds.log + deviations * seconds.variance.sqrt()).exp();
        let time = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, LONGEST));
        let (low, high) = (at(-TENTH), at(TENTH));
        Self {
            low: time(low * (1.0 - WIDER) - WIDER_SECONDS),
            median: time(at(0.0)),
            high: time(high * (1.0 + WIDER) + WIDER_SECONDS),
        }
    }

    /// Returns the range in words, no more precise than it is: `3–8 s`, `12–15 min`, `3–4 h`,
    /// `up to 2 min`, `1–3 days`.
    pub fn words(&self) -> String {
        let (low, high) = (self.low.as_secs_f64(), self.high.as_secs_f64());
        let (unit, word) = match high {
            0.0..100.0 => (1.0, "s"),
            100.0..7200.0 => (60.0, "min"),
            7200.0..172_800.0 => (3600.0, "h"),
            _ => (86_400.0, "days"),
        };
        let (low, high) = ((low / unit).floor() as u64, (high / unit).ceil().max(1.0) as u64);
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
    fn a_range_is_as_wide_as_the_number_is_uncertain() {
        let sure = Left::of(Uncertain { log: 100f64.ln(), variance: 0.0 });
        assert_eq!(sure.median.as_secs_f64().round(), 100.0);
        assert!(sure.low.as_secs_f64() > 94.0 && sure.high.as_secs_f64() < 106.0, "{sure:?}");
        let vague = Left::of(Uncertain { log: 100f64.ln(), variance: 1.0 });
        assert!(vague.low.as_secs() < 30 && vague.high.as_secs() > 350, "{vague:?}");
        for log in [-1e9, 1e9] {
            let left = Left::of(Uncertain { log, variance: 1e9 });
            assert!(left.low <= left.median && left.median <= left.high, "{left:?}");
        }
    }

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
