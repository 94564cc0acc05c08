//! Progress on standard error.

use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use apus_node::{MemoryInUse, Observer, Phase, Progress, Tip, memory_in_use, words};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::numbers::{date, duration, precise, thousands};
use super::recent::{Recent, Speeds};
use super::{log, output};

/// Time between two lines if standard error is not a terminal.
const LOG_EVERY: Duration = Duration::from_secs(5);
/// Time after which a new phase gets a line if standard error is not a terminal.
const LOG_PHASE_AFTER: Duration = Duration::from_secs(2);
/// Time between two updates of a terminal, and between two readings of the memory in use.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Work that takes less time than this shows no progress.
const QUIET: Duration = Duration::from_secs(1);
/// Columns before the line on a terminal: a spinner and a space.
const SPINNER_COLUMNS: usize = 2;

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
    recent: Recent,
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
        let (shown, base, recent) = (None, None, Recent::default());
        let state = Mutex::new(State { looked: now, memory, shown, base, recent });
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
        let speeds = state.recent.add(now, progress);
        let Base { at, progress: base } = state.base(now, progress);
        let view = View { progress, base, since: now - *at, elapsed, speeds };
        let columns = self.bar.as_ref().and_then(|_| columns());
        let line = view.line(columns.map(|columns| columns.saturating_sub(SPINNER_COLUMNS)));
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

/// Returns the number of columns of the terminal on standard error.
fn columns() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(std::io::stderr())?;
    Some(width.0.into()).filter(|columns| *columns > 0)
}

/// A part of the progress line.
struct Part {
    /// Parts of the highest rank are left out first, those of rank 0 never.
    rank: u8,
    /// What separates it from the part before it.
    before: &'static str,
    text: String,
}

/// What a line is made of: the progress, and the first progress of the phase, from which rates are
/// counted.
struct View<'a> {
    progress: &'a Progress,
    base: &'a Progress,
    /// The time since `base`.
    since: Duration,
    /// The time of all phases.
    elapsed: Duration,
    speeds: Speeds,
}

impl View<'_> {
    /// Returns the progress line in at most `columns`, if its first parts fit: the share done and
    /// the time left, so that they fit a terminal of 40 columns. What is known besides is left out
    /// where it does not fit, the less important first.
    fn line(&self, columns: Option<usize>) -> String {
        let mut parts: Vec<Part> = self.parts().into_iter().flatten().collect();
        let text = |parts: &[Part]| -> String {
            let texts = parts.iter().enumerate().map(|(at, part)| match at {
                0 => part.text.clone(),
                _ => format!("{}{}", part.before, part.text),
            });
            texts.collect()
        };
        while columns.is_some_and(|columns| text(&parts).len() > columns)
            && let Some(least) = (0..parts.len()).max_by_key(|at| parts[*at].rank)
            && parts[least].rank > 0
        {
            parts.remove(least);
        }
        text(&parts)
    }

    /// Returns the parts of the line in their order; those of a lower rank are more important.
    fn parts(&self) -> [Option<Part>; 13] {
        let part = |rank, before| move |text| Part { rank, before, text };
        let (done, time) = (self.progress.fraction, i64::from(self.progress.time));
        let speeds = &self.speeds;
        let download = speeds.download.map(|speed| format!("download {}", words::speed(speed)));
        [
            (done > 0.0).then(|| format!("{:.1} %", 100.0 * done)).map(part(0, ", ")),
            self.left().map(|left| format!("{} left", duration(left))).map(part(0, ", ")),
            Some(self.progress.phase.words().to_string()).map(part(0, ", ")),
            self.position().map(part(2, ": ")),
            (time > 0).then(|| format!("({})", date(time))).map(part(7, " ")),
            download.map(part(1, ", ")),
            self.left_to_download().map(part(3, ", ")),
            self.peers().map(part(5, ", ")),
            speeds.bottleneck.map(|what| format!("bottleneck: {what}")).map(part(4, ", ")),
            Some(format!("{} so far", duration(self.elapsed))).map(part(8, ", ")),
            self.rates().map(part(6, ", ")),
            self.upload().map(part(5, ", ")),
            self.coins().map(part(9, ", ")),
        ]
    }

    /// Returns the time that the work of this phase will still take.
    fn left(&self) -> Option<Duration> {
        let (seconds, done) = (self.since.as_secs_f64(), self.progress.fraction);
        let gained = done - self.base.fraction;
        let left = Duration::try_from_secs_f64((1.0 - done) / gained * seconds);
        left.ok().filter(|_| gained > 0.0 && seconds > 0.5)
    }

    /// Returns how far the phase is, in blocks.
    fn position(&self) -> Option<String> {
        let Progress { phase, height, blocks, blocks_all, .. } = *self.progress;
        match phase {
            // Blocks come in any order, so a height does not measure progress.
            _ if blocks_all > 0 => {
                Some(format!("{} of {} blocks", thousands(blocks), thousands(blocks_all)))
            }
            Phase::JoinMatching => None,
            _ => (height > 0).then(|| format!("height {height}")),
        }
    }

    /// Returns the time that the rest of the download will take.
    fn left_to_download(&self) -> Option<String> {
        let left = self.progress.download?.left;
        let time = Duration::try_from_secs_f64(left as f64 / self.speeds.download?).ok()?;
        (left > 0).then(|| format!("{} to download", duration(time)))
    }

    fn peers(&self) -> Option<String> {
        let peers = self.progress.download?.peers;
        let s = if peers == 1 { "" } else { "s" };
        Some(format!("{peers} peer{s}"))
    }

    /// Returns how fast blocks are processed.
    fn rates(&self) -> Option<String> {
        let seconds = self.since.as_secs_f64();
        let blocks = self.progress.blocks.saturating_sub(self.base.blocks);
        let bytes = self.progress.bytes.saturating_sub(self.base.bytes);
        let (rate, megabytes) = (blocks as f64 / seconds, bytes as f64 / seconds / 1e6);
        // With peers there are two speeds.
        let what = if self.progress.download.is_some() { "validation " } else { "" };
        (seconds > 0.5 && blocks > 0)
            .then(|| format!("{what}{rate:.0} blocks/s, {megabytes:.1} MB/s"))
    }

    /// Returns what is sent to the peers that are served.
    fn upload(&self) -> Option<String> {
        let upload = self.progress.upload?;
        let s = if upload.peers == 1 { "" } else { "s" };
        let (speed, megabytes) =
            (words::speed(upload.bytes_per_second as f64), upload.bytes as f64 / 1e6);
        Some(format!("{} peer{s} served, {speed}, {megabytes:.1} MB in all", upload.peers))
    }

    fn coins(&self) -> Option<String> {
        let coins = self.progress.coins;
        (coins > 0).then(|| format!("{} coins cached", thousands(coins)))
    }
}

#[cfg(test)]
mod tests {
    use apus_node::Download;
    use apus_node::progress::Upload;

    use super::*;

    #[test]
    fn a_log_gets_a_line_every_few_seconds_and_at_a_new_phase() {
        let shown = Instant::now();
        let memory = MemoryInUse::default();
        let (base, recent) = (None, Recent::default());
        let mut state = State { looked: shown, memory, shown: None, base, recent };
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

    fn line(
        progress: &Progress,
        base: &Progress,
        (since, elapsed): (u64, u64),
        speeds: Speeds,
        columns: Option<usize>,
    ) -> String {
        let (since, elapsed) = (Duration::from_secs(since), Duration::from_secs(elapsed));
        View { progress, base, since, elapsed, speeds }.line(columns)
    }

    #[test]
    fn a_line_says_what_is_known() {
        let base = Progress::of(Phase::WritingCoins);
        let line = |progress: &Progress, since, elapsed| {
            line(progress, &base, (since, elapsed), Speeds::default(), None)
        };
        assert_eq!(line(&base, 0, 61), "Writing coins, 1 min 1 s so far");
        let progress = Progress { height: 7, fraction: 0.25, ..base.clone() };
        assert_eq!(line(&progress, 3, 5), "25.0 %, 9 s left, Writing coins: height 7, 5 s so far");
        let some = Progress { phase: Phase::JoinReading, blocks_all: 1_000, ..progress.clone() };
        assert_eq!(
            line(&Progress { blocks: 30, ..some }, 0, 5),
            "25.0 %, Join 1/3: reading blocks: 30 of 1,000 blocks, 5 s so far"
        );
        let progress = Progress { blocks: 30, bytes: 6_000_000, coins: 1_000, ..progress };
        assert_eq!(
            line(&progress, 3, 5),
            "25.0 %, 9 s left, Writing coins: height 7, 5 s so far, 10 blocks/s, 2.0 MB/s, \
             1,000 coins cached"
        );
        let upload = Upload { peers: 2, blocks: 3, bytes: 5_000_000, bytes_per_second: 1_500_000 };
        let serving = Progress::of(Phase::Serving);
        let serving = Progress { height: 7, upload: Some(upload), ..serving };
        assert_eq!(
            line(&serving, 0, 5),
            "Serving blocks: height 7, 5 s so far, 2 peers served, 1.5 MB/s, 5.0 MB in all"
        );
    }

    /// A sync from peers: 36 GB are to be downloaded.
    fn from_peers() -> (Progress, Progress) {
        let base = Progress::of(Phase::Connecting);
        let download = Download { peers: 8, left: 36_000_000_000, ..Download::default() };
        let progress = Progress {
            height: 812_345,
            time: 1_697_500_000,
            blocks: 6_000,
            bytes: 12_000_000_000,
            fraction: 0.25,
            coins: 1_000_000,
            download: Some(download),
            ..base.clone()
        };
        (base, progress)
    }

    #[test]
    fn the_download_has_a_speed_and_a_time_of_its_own() {
        let (base, mut progress) = from_peers();
        let speeds = Speeds { download: Some(10_000_000.0), bottleneck: Some("peers") };
        assert_eq!(
            line(&progress, &base, (1_000, 1_100), speeds, None),
            "25.0 %, 50 min 0 s left, Connecting blocks: height 812345 (2023-10-16), \
             download 10.0 MB/s, 1 h 0 min to download, 8 peers, bottleneck: peers, \
             18 min 20 s so far, validation 6 blocks/s, 12.0 MB/s, 1,000,000 coins cached"
        );
        // Nothing has come yet, and how much is to come is unknown.
        progress.download = Some(Download { peers: 1, ..Download::default() });
        assert_eq!(
            line(&progress, &base, (0, 2), Speeds::default(), None),
            "25.0 %, Connecting blocks: height 812345 (2023-10-16), 1 peer, 2 s so far, \
             1,000,000 coins cached"
        );
    }

    #[test]
    fn what_matters_less_gives_way_on_a_terminal() {
        let (base, progress) = from_peers();
        let speeds = Speeds { download: Some(10_000_000.0), bottleneck: Some("disk") };
        let shown = |columns| line(&progress, &base, (1_000, 1_100), speeds, Some(columns));
        let first = "25.0 %, 50 min 0 s left, Connecting blocks: height 812345";
        let download = ", download 10.0 MB/s";
        for (columns, rest) in [
            (138, ", 1 h 0 min to download, 8 peers, bottleneck: disk"),
            (118, ", 1 h 0 min to download, bottleneck: disk"),
            (100, ", 1 h 0 min to download"),
            (78, ""),
        ] {
            assert_eq!(shown(columns), format!("{first}{download}{rest}"), "{columns}");
        }
        let short = "25.0 %, 50 min 0 s left, Connecting blocks";
        assert_eq!(shown(62), format!("{short}{download}"));
        // The end is cut off.
        assert_eq!(shown(38), short);
        let wide = shown(178);
        assert!(wide.contains("(2023-10-16), download 10.0 MB/s, "), "{wide}");
        assert!(wide.ends_with(", validation 6 blocks/s, 12.0 MB/s"), "{wide}");
    }

    #[test]
    fn a_narrow_terminal_shows_how_much_is_done_and_left() {
        let base = Progress::of(Phase::WaitingForHeaders);
        // A hundred hours are left, of the phase with the longest name.
        let progress = Progress { height: 900_000, time: 1, fraction: 0.009_9, ..base.clone() };
        let columns = 40 - SPINNER_COLUMNS;
        let line = line(&progress, &base, (3_600, 9), Speeds::default(), Some(columns));
        let shown: String = line.chars().take(columns).collect();
        assert!(shown.starts_with("1.0 %, 100 h 0 min left, "), "{shown}");
        assert!(shown.ends_with("Waiting for h"), "{shown}");
    }
}
