//! An estimate of a run: how far it is, and the time that is left, as a range.

use std::time::Duration;

use crate::bottleneck::Bottleneck;
use crate::words;

/// By how much the machine of docs/budget.md is usually faster than another one.
pub(super) const SLOWER: f64 = 1.35;
/// The factor by which that is more or less, in eight cases of ten.
const SLOWER_WITHIN: f64 = 2.45;
/// Seconds by which the range is wider: a run ends with work that no stage reports.
const ENDING: f64 = 0.5;
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
    /// The bottleneck of the last minute; `None` if too little was seen.
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
    /// Returns the range of these seconds if, in eight cases of ten, they are wrong by at most this
    /// factor.
    pub(super) fn of(seconds: f64, factor: f64) -> Self {
        let time = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, LONGEST));
        Self {
            low: time(seconds / factor - ENDING),
            median: time(seconds),
            high: time(seconds * factor + ENDING),
        }
    }

    /// Returns the time that this much work takes, in seconds of the machine of docs/budget.md, if
    /// nothing is known of this one.
    pub fn unmeasured(work: f64) -> Self {
        Self::of(SLOWER * work, SLOWER_WITHIN)
    }

    /// Returns the range in words: `12–15 min`.
    pub fn words(&self) -> String {
        words::between(self.low, self.high)
    }
}
