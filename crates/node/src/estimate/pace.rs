//! How fast a stage gets on, from the shares that it has reported.

/// The most slices that are kept; then every two become one.
const SLICES_MAX: usize = 48;
/// Seconds of the first slices.
const SLICE: f64 = 0.2;
/// A slice counts half as much as one that is this share of the stage's time later ...
const HALF_SHARE: f64 = 0.4;
/// ... or this many seconds, if that is more or less.
const HALF_MIN: f64 = 8.0;
const HALF_MAX: f64 = 900.0;
/// Slices that follow each other are alike: this many count as one.
const ALIKE: f64 = 4.0;
/// The variance of a speed by what a moment does not show, and the seconds after which half of that
/// is seen.
const UNSEEN: f64 = 0.12;
const UNSEEN_SECONDS: f64 = 4.0;
/// The uncertainty of any speed, as a share of it.
const DRIFT: f64 = 0.08;

/// An uncertain positive number: its logarithm has this mean and this variance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Uncertain {
    pub log: f64,
    pub variance: f64,
}

impl Uncertain {
    /// Returns the mean of the number itself.
    pub fn mean(self) -> f64 {
        (self.log + self.variance / 2.0).exp()
    }

    /// Returns the standard deviation of the number itself.
    pub fn deviation(self) -> f64 {
        self.mean() * self.variance.exp_m1().max(0.0).sqrt()
    }

    /// Returns the number multiplied by `by`, which is positive.
    pub fn times(self, by: f64) -> Self {
        Self { log: self.log + by.ln(), ..self }
    }

    /// Returns what follows from `self` and `other`, which know the same number independently.
    pub fn with(self, other: Self) -> Self {
        let (own, others) = (1.0 / self.variance, 1.0 / other.variance);
        let all = own + others;
        Self { log: (self.log * own + other.log * others) / all, variance: 1.0 / all }
    }
}

/// A part of the time, and the share of the stage that was done in it.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    seconds: f64,
    share: f64,
}

/// What a stage has reported: the share done over time.
#[derive(Clone, Debug)]
pub struct Pace {
    slices: Vec<Slice>,
    /// Seconds of a full slice.
    length: f64,
    /// The share that was done when the stage was first seen.
    pub first: f64,
    /// The share that is done now.
    pub done: f64,
    begun: f64,
    now: f64,
}

impl Pace {
    /// Begins with a stage of which the share `done` was done at second `now`.
    pub fn new(now: f64, done: f64) -> Self {
        Self { slices: Vec::new(), length: SLICE, first: done, done, begun: now, now }
    }

    /// Takes note of the share that is done at second `now`. The share never goes back.
    pub fn add(&mut self, now: f64, done: f64) {
        let (seconds, share) = ((now - self.now).max(0.0), (done - self.done).max(0.0));
        (self.now, self.done) = (self.now.max(now), self.done.max(done));
        match self.slices.last_mut() {
            Some(last) if last.seconds < self.length => {
                last.seconds += seconds;
                last.share += share;
            }
            _ => self.slices.push(Slice { seconds, share }),
        }
        if self.slices.len() > SLICES_MAX {
            let merged = self.slices.chunks(2).map(|pair| Slice {
                seconds: pair.iter().map(|slice| slice.seconds).sum(),
                share: pair.iter().map(|slice| slice.share).sum(),
            });
            self.slices = merged.collect();
            self.length *= 2.0;
        }
    }

    /// Returns the seconds since the stage was first seen.
    pub fn seconds(&self) -> f64 {
        self.now - self.begun
    }

    /// Returns the seconds that the whole stage takes at the present pace; `None` if nothing was
    /// done yet. What was done lately counts most.
    pub fn whole(&self) -> Option<Uncertain> {
        let half = (self.seconds() * HALF_SHARE).clamp(HALF_MIN, HALF_MAX);
        let (mut age, mut sums) = (0.0, [0.0; 2]);
        let weighed: Vec<(f64, Slice)> = self
            .slices
            .iter()
            .rev()
            .map(|slice| {
                let weight = (-(age + slice.seconds / 2.0) / half).exp2();
                age += slice.seconds;
                sums[0] += weight * slice.seconds;
                sums[1] += weight * slice.share;
                (weight * slice.seconds, *slice)
            })
            .collect();
        let [seconds, share] = sums;
        if seconds <= 0.0 || share <= 0.0 {
            return None;
        }
        let speed = share / seconds;
        let squares: f64 = weighed
            .iter()
            .filter(|(_, slice)| slice.seconds > 0.0)
            .map(|(weight, slice)| weight * (slice.share / slice.seconds / speed - 1.0).powi(2))
            .sum();
        let variance = (squares / seconds).min(4.0);
        // The weights are seconds: how many slices count, as if all counted the same.
        let counted =
            seconds.powi(2) / weighed.iter().map(|(weight, _)| weight.powi(2)).sum::<f64>();
        let left = (1.0 - self.done).max(0.0) / speed;
        let after = (left / self.length.max(self.seconds() / SLICES_MAX as f64)).max(1.0);
        let of_mean = |count: f64| variance / (count / ALIKE).max(1.0);
        // A few seconds say little, even if they are alike.
        let unseen = UNSEEN * UNSEEN_SECONDS / (UNSEEN_SECONDS + self.seconds());
        let variance = of_mean(counted) + of_mean(after) + unseen + DRIFT * DRIFT;
        Some(Uncertain { log: -speed.ln(), variance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(speed: impl Fn(f64) -> f64, seconds: u32) -> Pace {
        let (mut pace, mut done) = (Pace::new(0.0, 0.0), 0.0);
        for tenth in 1..=seconds * 10 {
            let now = f64::from(tenth) / 10.0;
            done += speed(now) / 10.0;
            pace.add(now, done);
        }
        pace
    }

    #[test]
    fn a_steady_stage_takes_its_time() {
        let steady = pace(|_| 0.01, 30);
        let whole = steady.whole().unwrap();
        assert!((whole.mean() - 100.0).abs() < 5.0, "{whole:?}");
        assert!(whole.deviation() < 15.0, "{whole:?}");
        assert!((steady.seconds() - 30.0).abs() < 1e-6);
        assert!(Pace::new(3.0, 0.5).whole().is_none());
    }

    #[test]
    fn the_last_part_counts_most_and_changes_widen_the_range() {
        let slowed = pace(|now| if now < 20.0 { 0.01 } else { 0.002 }, 40).whole().unwrap();
        assert!((160.0..500.0).contains(&slowed.mean()), "{slowed:?}");
        let steady = pace(|_| 0.01, 40).whole().unwrap();
        assert!(slowed.variance > 4.0 * steady.variance, "{slowed:?} {steady:?}");
        // Nothing gets on for a minute after ten good seconds.
        let stalled = pace(|now| if now < 10.0 { 0.01 } else { 0.0 }, 70).whole().unwrap();
        assert!(stalled.mean() > 500.0 && stalled.variance > 0.3, "{stalled:?}");
    }

    #[test]
    fn memory_is_bounded() {
        let long = pace(|_| 1e-7, 100_000);
        assert!(long.slices.len() <= SLICES_MAX, "{}", long.slices.len());
        let whole = long.whole().unwrap();
        assert!((whole.log - 1e7_f64.ln()).abs() < 0.05, "{whole:?}");
    }

    #[test]
    fn two_sources_are_weighed_by_what_they_know() {
        let vague = Uncertain { log: 0.0, variance: 1.0 };
        let sure = Uncertain { log: 1.0, variance: 0.01 };
        let both = vague.with(sure);
        assert!((0.98..1.0).contains(&both.log) && both.variance < 0.01, "{both:?}");
        assert!((sure.times(2.0).log - 1.0 - 2f64.ln()).abs() < 1e-9);
    }
}
