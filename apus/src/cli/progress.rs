use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::sync::{Observer, Phase, Progress};

/// How often a line goes to a log that nobody scrolls back.
const LOG_EVERY: Duration = Duration::from_secs(5);
/// How often a terminal is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Work shorter than this says nothing until its result.
const QUIET: Duration = Duration::from_secs(1);

/// Shows progress on standard error: one living line on a terminal, a log line every few seconds
/// elsewhere, nothing with `--json`.
pub struct Reporter {
    started: Instant,
    bar: Option<ProgressBar>,
    quiet: bool,
    state: Mutex<State>,
}

struct State {
    last_shown: Instant,
    /// Where and when the rates are counted from.
    base: Option<(Instant, Progress)>,
}

impl Reporter {
    /// A reporter that has begun now.
    pub fn new(quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg}").expect("constant"));
            bar
        });
        let now = Instant::now();
        let state = Mutex::new(State { last_shown: now, base: None });
        Self { started: now, bar, quiet, state }
    }

    /// Clears the living line.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Reporter {
    fn observe(&self, progress: &Progress) {
        let now = Instant::now();
        let Ok(mut state) = self.state.lock() else { return };
        let every = if self.bar.is_some() { DRAW_EVERY } else { LOG_EVERY };
        if self.quiet || now - self.started < QUIET || now - state.last_shown < every {
            return;
        }
        state.last_shown = now;
        let moved_on = |(_, base): &(Instant, Progress)| base.phase != progress.phase;
        if state.base.as_ref().is_none_or(moved_on) {
            state.base = Some((now, progress.clone()));
        }
        let line = match &state.base {
            Some((since, base)) => describe(progress, base, now - *since),
            None => return,
        };
        match &self.bar {
            Some(bar) => {
                bar.set_message(line);
                bar.tick();
            }
            None => eprintln!("{line}"),
        }
    }
}

/// One line: what is going on, where, how fast, how long still.
fn describe(progress: &Progress, base: &Progress, since: Duration) -> String {
    let mut line = match progress.phase {
        // Blocks come in any order here.
        Phase::SwiftSync => format!(
            "{}: {} of {} blocks",
            progress.phase.words(),
            thousands(progress.blocks),
            thousands(progress.height.into())
        ),
        phase => format!("{}: height {}", phase.words(), progress.height),
    };
    if progress.time > 0 {
        line += &format!(" ({})", date(i64::from(progress.time)));
    }
    let seconds = since.as_secs_f64();
    if seconds > 0.5 {
        let blocks = progress.blocks.saturating_sub(base.blocks) as f64 / seconds;
        let megabytes = progress.bytes.saturating_sub(base.bytes) as f64 / seconds / 1e6;
        line += &format!(", {blocks:.0} blocks/s, {megabytes:.1} MB/s");
    }
    if progress.coins > 0 {
        line += &format!(", {} coins cached", thousands(progress.coins));
    }
    let done = progress.fraction;
    if done > 0.0 {
        line += &format!(", {:.1} %", 100.0 * done);
        let gained = done - base.fraction;
        if gained > 0.0 && seconds > 0.5 {
            let left = Duration::from_secs_f64(((1.0 - done) / gained * seconds).max(0.0));
            line += &format!(", {} left", duration(left));
        }
    }
    line
}

/// `1234567` as `1,234,567`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `3 h 25 min`, `4 min 10 s`, `12 s`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// The UTC date of a Unix time, `2009-01-03`.
pub fn date(time: i64) -> String {
    // Days since 0000-03-01 split into eras of 400 years (Howard Hinnant's civil_from_days).
    let days = time.div_euclid(86_400) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_blocks() {
        assert_eq!(date(1231006505), "2009-01-03");
        assert_eq!(date(1709164800), "2024-02-29");
        assert_eq!(date(0), "1970-01-01");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(duration(Duration::from_secs(3_725)), "1 h 2 min");
    }
}
