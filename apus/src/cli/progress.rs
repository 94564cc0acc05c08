use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::numbers::{date, duration, precise, thousands};
use super::output;
use crate::sync::{MemoryInUse, Observer, Phase, Progress, memory_in_use};

/// How often a line goes to a log that nobody scrolls back.
const LOG_EVERY: Duration = Duration::from_secs(5);
/// After how long the next phase gets a line of its own there.
const LOG_PHASE_AFTER: Duration = Duration::from_secs(2);
/// How often a terminal is drawn, and how often memory is looked at.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Work shorter than this says nothing until its result.
const QUIET: Duration = Duration::from_secs(1);

/// Shows progress on standard error: one living line on a terminal, a log line every few seconds
/// elsewhere, nothing with `--json` or `--quiet`.
pub struct Reporter {
    started: Instant,
    bar: Option<ProgressBar>,
    quiet: bool,
    state: Mutex<State>,
}

struct State {
    looked: Instant,
    /// The most memory that was seen in use.
    memory: MemoryInUse,
    /// When a line was shown last, and of which phase.
    shown: Option<(Instant, Phase)>,
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
        let memory = MemoryInUse::default();
        let state = Mutex::new(State { looked: now, memory, shown: None, base: None });
        Self { started: now, bar, quiet, state }
    }

    /// Clears the living line.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The most memory that was seen in use while progress was reported.
    pub fn most_memory(&self) -> MemoryInUse {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).memory
    }

    /// Says how long it took, on standard error, for a command whose output has no room for it.
    pub fn took(&self, what: impl Display) {
        if !self.quiet {
            output::note(format_args!("{what} in {}", precise(self.started.elapsed())));
        }
    }
}

impl State {
    fn look_at_memory(&mut self, now: Instant) {
        if now - self.looked < DRAW_EVERY {
            return;
        }
        self.looked = now;
        if let Some(memory) = memory_in_use().filter(|memory| memory.bytes > self.memory.bytes) {
            self.memory = memory;
        }
    }

    /// Whether a line is due on a terminal, or else in a log.
    fn is_due(&self, now: Instant, phase: Phase, terminal: bool) -> bool {
        let Some((shown, shown_phase)) = self.shown else { return true };
        let every = match terminal {
            true => DRAW_EVERY,
            false if shown_phase != phase => LOG_PHASE_AFTER,
            false => LOG_EVERY,
        };
        now - shown >= every
    }

    /// Where and when the rates of this phase are counted from.
    fn base(&mut self, now: Instant, progress: &Progress) -> &(Instant, Progress) {
        let base = self.base.take().filter(|(_, base)| base.phase == progress.phase);
        self.base.insert(base.unwrap_or_else(|| (now, progress.clone())))
    }
}

impl Observer for Reporter {
    fn observe(&self, progress: &Progress) {
        let now = Instant::now();
        // Another thread is just showing where the work stands.
        let Ok(mut state) = self.state.try_lock() else { return };
        state.look_at_memory(now);
        let elapsed = now - self.started;
        let due = || state.is_due(now, progress.phase, self.bar.is_some());
        if self.quiet || elapsed < QUIET || !due() {
            return;
        }
        state.shown = Some((now, progress.phase));
        let (since, base) = state.base(now, progress);
        let line = describe(progress, base, now - *since, elapsed);
        match &self.bar {
            Some(bar) => {
                bar.set_message(line);
                bar.tick();
            }
            None => output::note(line),
        }
    }
}

/// One line: what is going on, where, how fast, for how long in all, how long still.
fn describe(progress: &Progress, base: &Progress, since: Duration, elapsed: Duration) -> String {
    let mut line = match progress.phase {
        // Blocks come in any order here.
        Phase::SwiftSync => format!(
            "{}: {} of {} blocks",
            progress.phase.words(),
            thousands(progress.blocks),
            thousands(progress.height.into())
        ),
        phase if progress.height > 0 => format!("{}: height {}", phase.words(), progress.height),
        phase => phase.words().to_string(),
    };
    if progress.time > 0 {
        line += &format!(" ({})", date(i64::from(progress.time)));
    }
    let (seconds, done) = (since.as_secs_f64(), progress.fraction);
    if done > 0.0 {
        line += &format!(", {:.1} %", 100.0 * done);
    }
    line += &format!(", {} so far", duration(elapsed));
    let gained = done - base.fraction;
    let left = Duration::try_from_secs_f64((1.0 - done) / gained * seconds);
    if let Some(left) = left.ok().filter(|_| gained > 0.0 && seconds > 0.5) {
        line += &format!(", {} left", duration(left));
    }
    // A narrow terminal cuts the rest off.
    let blocks = progress.blocks.saturating_sub(base.blocks);
    if seconds > 0.5 && blocks > 0 {
        let blocks = blocks as f64 / seconds;
        let megabytes = progress.bytes.saturating_sub(base.bytes) as f64 / seconds / 1e6;
        line += &format!(", {blocks:.0} blocks/s, {megabytes:.1} MB/s");
    }
    if progress.coins > 0 {
        line += &format!(", {} coins cached", thousands(progress.coins));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_gets_a_line_every_few_seconds_and_soon_for_another_phase() {
        let shown = Instant::now();
        let memory = MemoryInUse::default();
        let mut state = State { looked: shown, memory, shown: None, base: None };
        let due = |state: &State, ms, phase, terminal| {
            state.is_due(shown + Duration::from_millis(ms), phase, terminal)
        };
        assert!(due(&state, 0, Phase::Headers, false), "the first line comes at once");
        state.shown = Some((shown, Phase::Connecting));
        for (ms, phase, terminal, expected) in [
            (4_900, Phase::Connecting, false, false),
            (5_000, Phase::Connecting, false, true),
            (1_900, Phase::WritingCoins, false, false),
            (2_000, Phase::WritingCoins, false, true),
            (90, Phase::WritingCoins, true, false),
            (100, Phase::Connecting, true, true),
        ] {
            assert_eq!(due(&state, ms, phase, terminal), expected, "{ms} {phase:?} {terminal}");
        }
    }

    #[test]
    fn a_line_says_what_is_known() {
        let base = Progress::of(Phase::WritingCoins);
        let seconds = Duration::from_secs;
        assert_eq!(
            describe(&base, &base, seconds(0), seconds(61)),
            "Writing coins, 1 min 1 s so far"
        );
        let progress = Progress { height: 7, fraction: 0.25, ..base.clone() };
        assert_eq!(
            describe(&progress, &base, seconds(3), seconds(5)),
            "Writing coins: height 7, 25.0 %, 5 s so far, 9 s left"
        );
        let progress = Progress { blocks: 30, bytes: 6_000_000, coins: 1_000, ..progress };
        assert_eq!(
            describe(&progress, &base, seconds(3), seconds(5)),
            "Writing coins: height 7, 25.0 %, 5 s so far, 9 s left, 10 blocks/s, 2.0 MB/s, \
             1,000 coins cached"
        );
    }
}
