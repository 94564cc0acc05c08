//! Progress on standard error.

use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use apus_node::{MemoryInUse, Observer, Phase, Progress, Tip, memory_in_use};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::numbers::{date, duration, precise, thousands};
use super::{log, output};

/// Time between two lines if standard error is not a terminal.
const LOG_EVERY: Duration = Duration::from_secs(5);
/// Time after which a new phase gets a line if standard error is not a terminal.
const LOG_PHASE_AFTER: Duration = Duration::from_secs(2);
/// Time between two updates of a terminal, and between two readings of the memory in use.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Work that takes less time than this shows no progress.
const QUIET: Duration = Duration::from_secs(1);

/// Shows progress on standard error: one line that is redrawn on a terminal, a line every few
/// seconds otherwise, and nothing with `--json` or `--quiet`.
pub struct Reporter {
    started: Instant,
    bar: Option<ProgressBar>,
    quiet: bool,
    state: Mutex<State>,
}

struct State {
    /// The last time that memory use was read.
    looked: Instant,
    /// The largest memory use that was read.
    memory: MemoryInUse,
    /// The last line that was shown.
    shown: Option<Shown>,
    /// The progress that the rates of the current phase are counted from.
    base: Option<Base>,
}

/// A line that was shown.
struct Shown {
    at: Instant,
    phase: Phase,
}

/// The first progress of a phase.
struct Base {
    at: Instant,
    progress: Progress,
}

impl Reporter {
    /// Makes a reporter of work that starts now.
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

    /// Removes the progress line from a terminal.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Returns the largest memory use that was read while progress was reported.
    pub fn most_memory(&self) -> MemoryInUse {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).memory
    }

    /// Prints to standard error how long the work took, for a command whose standard output has a
    /// fixed form.
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

    /// Returns whether it is time for another line.
    fn is_due(&self, now: Instant, phase: Phase, terminal: bool) -> bool {
        let Some(shown) = &self.shown else { return true };
        let every = match terminal {
            true => DRAW_EVERY,
            false if shown.phase != phase => LOG_PHASE_AFTER,
            false => LOG_EVERY,
        };
        now - shown.at >= every
    }

    /// Returns the progress that the rates of this phase are counted from.
    fn base(&mut self, now: Instant, progress: &Progress) -> &Base {
        let base = self.base.take().filter(|base| base.progress.phase == progress.phase);
        self.base.insert(base.unwrap_or_else(|| Base { at: now, progress: progress.clone() }))
    }
}

impl Observer for Reporter {
    fn observe(&self, progress: &Progress) {
        log::write_if_due();
        let now = Instant::now();
        // If another thread holds the lock, it is showing progress right now.
        let Ok(mut state) = self.state.try_lock() else { return };
        state.look_at_memory(now);
        let elapsed = now - self.started;
        let due = || state.is_due(now, progress.phase, self.bar.is_some());
        if self.quiet || elapsed < QUIET || !due() {
            return;
        }
        state.shown = Some(Shown { at: now, phase: progress.phase });
        let base = state.base(now, progress);
        let line = describe(progress, &base.progress, now - base.at, elapsed);
        match &self.bar {
            Some(bar) => {
                bar.set_message(line);
                bar.tick();
            }
            None => output::note(line),
        }
    }

    fn wants_tips(&self) -> bool {
        log::is_on()
    }

    fn tip(&self, tip: &Tip) {
        log::tip(tip);
    }

    fn note(&self, text: &str) {
        log::line(text);
        match &self.bar {
            // On a terminal the progress line is drawn anew below the text.
            Some(bar) => bar.suspend(|| output::note(text)),
            None if !self.quiet => output::note(text),
            None => {}
        }
    }
}

/// Returns the progress line. The share done and the time left come first, so that they fit a
/// terminal of 40 columns; then phase, position, time so far and rates. `base` is the progress that
/// rates are counted from, and `since` the time since then.
fn describe(progress: &Progress, base: &Progress, since: Duration, elapsed: Duration) -> String {
    let (seconds, done) = (since.as_secs_f64(), progress.fraction);
    let mut line = String::new();
    if done > 0.0 {
        line += &format!("{:.1} %, ", 100.0 * done);
    }
    let gained = done - base.fraction;
    let left = Duration::try_from_secs_f64((1.0 - done) / gained * seconds);
    if let Some(left) = left.ok().filter(|_| gained > 0.0 && seconds > 0.5) {
        line += &format!("{} left, ", duration(left));
    }
    line += &match progress.phase {
        // Blocks come in any order, so a height does not measure progress.
        phase if progress.blocks_all > 0 => format!(
            "{}: {} of {} blocks",
            phase.words(),
            thousands(progress.blocks),
            thousands(progress.blocks_all)
        ),
        phase @ Phase::JoinMatching => phase.words().to_string(),
        phase if progress.height > 0 => format!("{}: height {}", phase.words(), progress.height),
        phase => phase.words().to_string(),
    };
    if progress.time > 0 {
        line += &format!(" ({})", date(i64::from(progress.time)));
    }
    line += &format!(", {} so far", duration(elapsed));
    let blocks = progress.blocks.saturating_sub(base.blocks);
    if seconds > 0.5 && blocks > 0 {
        let blocks = blocks as f64 / seconds;
        let megabytes = progress.bytes.saturating_sub(base.bytes) as f64 / seconds / 1e6;
        line += &format!(", {blocks:.0} blocks/s, {megabytes:.1} MB/s");
    }
    if let Some(download) = progress.download {
        let s = if download.peers == 1 { "" } else { "s" };
        line += &format!(", {} peer{s}", download.peers);
        let before = base.download.map_or(0, |before| before.bytes);
        let bytes = download.bytes.saturating_sub(before);
        if seconds > 0.5 && bytes > 0 {
            line += &format!(" sending {:.1} MB/s", bytes as f64 / seconds / 1e6);
        }
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
    fn a_log_gets_a_line_every_few_seconds_and_at_a_new_phase() {
        let shown = Instant::now();
        let memory = MemoryInUse::default();
        let mut state = State { looked: shown, memory, shown: None, base: None };
        let due = |state: &State, ms, phase, terminal| {
            state.is_due(shown + Duration::from_millis(ms), phase, terminal)
        };
        assert!(due(&state, 0, Phase::Headers, false), "the first line comes at once");
        state.shown = Some(Shown { at: shown, phase: Phase::Connecting });
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
            "25.0 %, 9 s left, Writing coins: height 7, 5 s so far"
        );
        let some = Progress { phase: Phase::JoinReading, blocks_all: 1_000, ..progress.clone() };
        assert_eq!(
            describe(&Progress { blocks: 30, ..some }, &base, seconds(0), seconds(5)),
            "25.0 %, Join 1/3: reading blocks: 30 of 1,000 blocks, 5 s so far"
        );
        let progress = Progress { blocks: 30, bytes: 6_000_000, coins: 1_000, ..progress };
        assert_eq!(
            describe(&progress, &base, seconds(3), seconds(5)),
            "25.0 %, 9 s left, Writing coins: height 7, 5 s so far, 10 blocks/s, 2.0 MB/s, \
             1,000 coins cached"
        );
    }

    #[test]
    fn a_narrow_terminal_shows_how_much_is_done_and_left() {
        let base = Progress::of(Phase::WaitingForHeaders);
        // A hundred hours are left, of the phase with the longest name.
        let progress = Progress { height: 900_000, time: 1, fraction: 0.009_9, ..base.clone() };
        let line = describe(&progress, &base, Duration::from_secs(3_600), Duration::from_secs(9));
        // On a terminal, a spinner and a space come first.
        let shown: String = line.chars().take(38).collect();
        assert!(shown.starts_with("1.0 %, 100 h 0 min left, "), "{shown}");
        assert!(shown.ends_with("Waiting for h"), "{shown}");
    }
}
