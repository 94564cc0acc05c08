//! Progress on standard error.

use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use apus_host::{MemoryInUse, memory_in_use};
use apus_progress::estimate::estimating::Timed;
use apus_progress::{Estimate, Observer, Phase, Progress, Tip, words};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::numbers::{date, duration, precise, thousands};
use super::{log, output, trace};

/// Time between two lines if standard error is not a terminal, in the first minute.
const LINE_EVERY_AT_FIRST: Duration = Duration::from_secs(5);
/// The same later on, and between two lines of the log file.
const LINE_EVERY: Duration = Duration::from_secs(60);
/// The same at rest, unless something changes.
const LINE_EVERY_AT_REST: Duration = Duration::from_secs(60 * 60);
/// Time after which a new phase gets a line if standard error is not a terminal.
const LINE_PHASE_AFTER: Duration = Duration::from_secs(2);
/// Time between two updates of a terminal, and between two readings of the memory in use.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Work that takes less time than this shows no progress.
const QUIET: Duration = Duration::from_secs(1);
/// Columns before the line on a terminal: a spinner and a space.
const SPINNER_COLUMNS: usize = 2;

/// Shows progress on standard error: one line that is redrawn on a terminal, lines otherwise, and
/// nothing with `--json` or `--quiet`. The log file gets a line a minute.
pub struct Reporter {
    started: Instant,
    bar: Option<ProgressBar>,
    quiet: bool,
    state: Mutex<DisplayState>,
}

struct DisplayState {
    /// The last time that memory use was read.
    looked: Instant,
    /// The largest memory use that was read.
    memory: MemoryInUse,
    /// The last line that was shown.
    shown: Option<Shown>,
    /// The last line of the log file.
    logged: Option<Shown>,
    /// Estimates the phases of work that does not estimate itself.
    timed: Timed,
}

/// A line that was shown: when, since the work began, and of what.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Shown {
    at: Duration,
    phase: Phase,
    height: u32,
    peers: usize,
}

impl Shown {
    fn of(at: Duration, progress: &Progress) -> Self {
        let peers = progress.upload.map_or(0, |upload| upload.peers);
        Self { at, phase: progress.phase, height: progress.height, peers }
    }

    /// Returns whether it is time for another line where lines stay. At rest nothing repeats.
    fn is_due(&self, now: &Self) -> bool {
        let since = now.at.saturating_sub(self.at);
        let is_at_rest = matches!(now.phase, Phase::Following | Phase::Serving);
        let has_changed = self.height != now.height || self.peers != now.peers;
        if self.phase != now.phase {
            since >= LINE_PHASE_AFTER
        } else if is_at_rest && !has_changed {
            since >= LINE_EVERY_AT_REST
        } else if now.at < LINE_EVERY && !is_at_rest {
            since >= LINE_EVERY_AT_FIRST
        } else {
            since >= LINE_EVERY
        }
    }

    /// Returns whether it is time for another line in the log file, which has a line for each new
    /// tip besides.
    fn is_due_in_log(&self, now: &Self) -> bool {
        let is_at_rest = matches!(now.phase, Phase::Following | Phase::Serving);
        !is_at_rest && now.at.saturating_sub(self.at) >= LINE_EVERY
    }
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
        let shown = None;
        let logged = None;
        let timed = Timed::begin();
        let state = Mutex::new(DisplayState { looked: now, memory, shown, logged, timed });
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

impl DisplayState {
    fn look_at_memory(&mut self, now: Instant) {
        if now - self.looked < DRAW_EVERY {
            return;
        }
        self.looked = now;
        if let Some(memory) = memory_in_use().filter(|memory| memory.bytes > self.memory.bytes) {
            self.memory = memory;
        }
    }
}

impl Observer for Reporter {
    fn observe(&self, progress: &Progress) {
        log::write_if_due();
        trace::phase(progress.phase);
        let now = Instant::now();
        // If another thread holds the lock, it is showing progress right now.
        let Ok(mut state) = self.state.try_lock() else { return };
        state.look_at_memory(now);
        let elapsed = now - self.started;
        let estimate = match &progress.estimate {
            Some(estimate) => estimate.clone(),
            None => state.timed.add(progress).estimate.unwrap_or_default(),
        };
        let shown = Shown::of(elapsed, progress);
        let is_first = state.logged.is_none() && elapsed >= LINE_EVERY_AT_FIRST;
        if is_first || state.logged.is_some_and(|last| last.is_due_in_log(&shown)) {
            state.logged = Some(shown);
            let view = View { progress, estimate: &estimate, elapsed, has_bar: false };
            log::line(format_args!("Progress: {}", view.line(None)));
        }
        let has_bar = self.bar.is_some();
        let is_due = match state.shown {
            _ if self.quiet || elapsed < QUIET => false,
            None => true,
            Some(last) if has_bar => elapsed - last.at >= DRAW_EVERY,
            Some(last) => last.is_due(&shown),
        };
        if !is_due {
            return;
        }
        state.shown = Some(shown);
        let view = View { progress, estimate: &estimate, elapsed, has_bar };
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
    /// The separator between it and the part before.
    before: &'static str,
    text: String,
}

/// Columns of the bar between its brackets.
const BAR_COLUMNS: usize = 20;

/// Returns a bar that is filled up to this share.
fn bar(share: f64) -> String {
    let filled = (share * BAR_COLUMNS as f64) as usize;
    let head = if filled < BAR_COLUMNS { ">" } else { "" };
    format!("[{:<BAR_COLUMNS$}]", "=".repeat(filled) + head)
}

/// The parts of a line.
struct View<'a> {
    progress: &'a Progress,
    estimate: &'a Estimate,
    /// The time of all phases.
    elapsed: Duration,
    has_bar: bool,
}

impl View<'_> {
    /// Returns the progress line in at most `columns`, if its first parts fit: the share done of
    /// the run, the time left, and the phase, so that they fit a terminal of 40 columns. What is
    /// known besides is left out where it does not fit, the less important first.
    fn line(&self, columns: Option<usize>) -> String {
        let mut parts: Vec<Part> = self.parts().into_iter().flatten().collect();
        let text = |parts: &[Part]| -> String {
            let texts = parts.iter().enumerate().map(|(at, part)| match at {
                0 => part.text.clone(),
                _ => format!("{}{}", part.before, part.text),
            });
            texts.collect()
        };
        while columns.is_some_and(|columns| text(&parts).chars().count() > columns)
            && let Some(least) = (0..parts.len()).max_by_key(|at| parts[*at].rank)
            && parts[least].rank > 0
        {
            parts.remove(least);
        }
        text(&parts)
    }

    /// Returns the parts of the line in their order; those of a lower rank are more important.
    fn parts(&self) -> [Option<Part>; 15] {
        let part = |rank, before| move |text| Part { rank, before, text };
        let Estimate { share, is_of_run, left, waiting, bottleneck, .. } = *self.estimate;
        let time = i64::from(self.progress.time);
        let speed =
            |what, speed: Option<f64>| speed.map(|speed| format!("{what}{}", words::speed(speed)));
        // Without a plan, only the phase can be measured.
        let percent = share.map(|share| format!("{:.1} %", 100.0 * share));
        let of_run = share.filter(|_| is_of_run && self.has_bar);
        let left = match waiting {
            Some(time) => Some(format!("waiting for peers for {}", duration(time))),
            None => left.map(|left| left.words() + " left"),
        };
        let bottleneck = bottleneck.filter(|_| waiting.is_none());
        let (percent_first, percent_last) = split(percent, is_of_run);
        let (left_first, left_last) = split(left, is_of_run);
        let validates = if self.progress.download.is_some() { "validation " } else { "" };
        [
            of_run.map(bar).map(part(2, " ")),
            percent_first.map(part(0, " ")),
            left_first.map(part(0, ", ")),
            Some(self.progress.phase.words().to_string()).map(part(0, ", ")),
            percent_last.map(part(0, ": ")),
            left_last.map(part(0, ", ")),
            self.position().map(part(3, ": ")),
            (time > 0).then(|| format!("({})", date(time))).map(part(7, " ")),
            speed("download ", self.estimate.download).map(part(1, ", ")),
            self.peers().map(part(5, ", ")),
            speed(validates, self.estimate.speed).map(part(3, ", ")),
            bottleneck.map(|what| format!("bottleneck: {}", what.word())).map(part(4, ", ")),
            Some(format!("{} so far", duration(self.elapsed))).map(part(8, ", ")),
            self.upload().map(part(5, ", ")),
            self.coins().map(part(9, ", ")),
        ]
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

    fn peers(&self) -> Option<String> {
        let peers = self.progress.download?.peers;
        let s = if peers == 1 { "" } else { "s" };
        Some(format!("{peers} peer{s}"))
    }

    /// Returns what is sent to the peers that are served.
    fn upload(&self) -> Option<String> {
        let upload = self.progress.upload?;
        let s = if upload.peers == 1 { "" } else { "s" };
        let speed = words::speed(upload.bytes_per_second as f64);
        let megabytes = upload.bytes as f64 / 1e6;
        Some(format!("{} peer{s} served, {speed}, {megabytes:.1} MB in all", upload.peers))
    }

    fn coins(&self) -> Option<String> {
        let coins = self.progress.coins;
        (coins > 0).then(|| format!("{} coins cached", thousands(coins)))
    }
}

/// Returns `text` as the first of two, or as the second.
fn split(text: Option<String>, is_first: bool) -> (Option<String>, Option<String>) {
    if is_first { (text, None) } else { (None, text) }
}

#[cfg(test)]
mod tests {
    use apus_progress::Upload;
    use apus_progress::{Bottleneck, Download, Left};

    use super::*;

    /// Returns the seconds of a day at which a line is shown of work that goes on as `progress`
    /// says, and those at which the log file gets one.
    fn shown_in_a_day(progress: impl Fn(u64) -> Progress) -> [Vec<u64>; 2] {
        let mut last: [Option<Shown>; 2] = [None; 2];
        let mut all = [Vec::new(), Vec::new()];
        for second in 0..24 * 60 * 60 {
            let now = Shown::of(Duration::from_secs(second), &progress(second));
            let is_due = [
                last[0].is_none_or(|last| last.is_due(&now)),
                last[1].is_none_or(|last| last.is_due_in_log(&now)),
            ];
            for at in [0, 1].into_iter().filter(|at| is_due[*at]) {
                last[at] = Some(now);
                all[at].push(second);
            }
        }
        all
    }

    #[test]
    fn work_has_a_line_a_minute_and_at_rest_nothing_repeats() {
        // The third pass of a join begins in the 90th second, and takes the rest of the day.
        let [shown, logged] = shown_in_a_day(|second| {
            Progress::of(if second < 90 { Phase::JoinMatching } else { Phase::JoinChecking })
        });
        assert_eq!(shown[..14], [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 90, 150]);
        assert!(shown[12..].windows(2).all(|pair| pair[1] - pair[0] == 60), "{shown:?}");
        assert!(logged.windows(2).all(|pair| pair[1] - pair[0] == 60), "{logged:?}");
        assert_eq!(logged.len(), 24 * 60);
        // At the tip a block comes every ten minutes for an hour, and then none.
        let [shown, logged] = shown_in_a_day(|second| Progress {
            height: second.min(3_600) as u32 / 600,
            ..Progress::of(Phase::Following)
        });
        assert_eq!(shown[..7], [0, 600, 1_200, 1_800, 2_400, 3_000, 3_600]);
        assert!(shown[6..].windows(2).all(|pair| pair[1] - pair[0] == 3_600), "{shown:?}");
        assert_eq!(logged, [0]);
        // Peers come and go every second while blocks are served.
        let [shown, _] = shown_in_a_day(|second| {
            let peers = second as usize % 2;
            Progress {
                upload: Some(Upload { peers, ..Upload::default() }),
                ..Progress::of(Phase::Serving)
            }
        });
        assert!(shown.len() <= 24 * 60, "{}", shown.len());
        let [shown, _] = shown_in_a_day(|_| Progress::of(Phase::Serving));
        assert_eq!(shown.len(), 24);
    }

    fn line(progress: &Progress, estimate: &Estimate, columns: Option<usize>) -> String {
        let elapsed = Duration::from_secs(1_100);
        View { progress, estimate, elapsed, has_bar: columns.is_some() }.line(columns)
    }

    fn left(low: u64, high: u64) -> Option<Left> {
        let seconds = Duration::from_secs;
        Some(Left { low: seconds(low), median: seconds(low), high: seconds(high) })
    }

    #[test]
    fn without_a_plan_a_line_is_about_the_phase() {
        let progress = Progress::of(Phase::Verifying);
        let none = Estimate::default();
        assert_eq!(line(&progress, &none, None), "Verifying blocks, 18 min 20 s so far");
        let progress = Progress { height: 7, fraction: 0.25, coins: 1_000, ..progress };
        let estimate = Estimate { share: Some(0.25), left: left(8, 12), ..none.clone() };
        assert_eq!(
            line(&progress, &estimate, None),
            "Verifying blocks: 25.0 %, 8–12 s left: height 7, 18 min 20 s so far, \
             1,000 coins cached"
        );
        let upload = Upload { peers: 2, blocks: 3, bytes: 5_000_000, bytes_per_second: 1_500_000 };
        let serving = Progress::of(Phase::Serving);
        let serving = Progress { height: 7, upload: Some(upload), ..serving };
        assert_eq!(
            line(&serving, &none, None),
            "Serving blocks: height 7, 18 min 20 s so far, 2 peers served, 1.5 MB/s, 5.0 MB in all"
        );
    }

    /// A sync from peers, a quarter of which is done.
    fn from_peers() -> (Progress, Estimate) {
        let progress = Progress {
            height: 812_345,
            time: 1_697_500_000,
            fraction: 0.5,
            coins: 1_000_000,
            download: Some(Download { peers: 8, ..Download::default() }),
            ..Progress::of(Phase::Connecting)
        };
        let estimate = Estimate {
            share: Some(0.25),
            is_of_run: true,
            left: left(2_900, 3_900),
            bottleneck: Some(Bottleneck::Peers),
            download: Some(10e6),
            speed: Some(12e6),
            ..Estimate::default()
        };
        (progress, estimate)
    }

    #[test]
    fn a_line_tells_how_far_the_whole_run_is() {
        let (progress, estimate) = from_peers();
        assert_eq!(
            line(&progress, &estimate, None),
            "25.0 %, 48–65 min left, Connecting blocks: height 812345 (2023-10-16), \
             download 10.0 MB/s, 8 peers, validation 12.0 MB/s, bottleneck: peers, \
             18 min 20 s so far, 1,000,000 coins cached"
        );
        let some = Progress { phase: Phase::JoinReading, blocks_all: 1_000, ..progress };
        let some = Progress { blocks: 30, time: 0, coins: 0, download: None, ..some };
        let waits = Estimate { left: None, bottleneck: None, download: None, ..estimate };
        assert_eq!(
            line(&some, &waits, None),
            "25.0 %, Join 1/3: reading blocks: 30 of 1,000 blocks, 12.0 MB/s, 18 min 20 s so far"
        );
        let waiting = Some(Duration::from_secs(125));
        let bottleneck = Some(Bottleneck::Peers);
        let waits = Estimate { waiting, bottleneck, speed: None, ..waits };
        assert_eq!(
            line(&some, &waits, None),
            "25.0 %, waiting for peers for 2 min 5 s, Join 1/3: reading blocks: \
             30 of 1,000 blocks, 18 min 20 s so far"
        );
        let seeks = Estimate { share: None, is_of_run: false, ..waits };
        assert_eq!(
            line(&Progress::of(Phase::FindingPeers), &seeks, Some(80)),
            "Looking for peers, waiting for peers for 2 min 5 s, 18 min 20 s so far"
        );
    }

    #[test]
    fn what_matters_less_gives_way_on_a_terminal() {
        let (progress, estimate) = from_peers();
        let shown = |columns| line(&progress, &estimate, Some(columns));
        let bar = "[=====>              ] 25.0 %, 48–65 min left, Connecting blocks";
        let download = ", download 10.0 MB/s";
        assert_eq!(shown(90), format!("{bar}{download}"));
        assert!(
            shown(130).starts_with(&format!("{bar}: height 812345{download}")),
            "{}",
            shown(130)
        );
        let wide = shown(220);
        assert!(wide.contains("(2023-10-16), download 10.0 MB/s, 8 peers, "), "{wide}");
        // A narrow terminal shows how much is done and left, and the phase.
        assert_eq!(shown(66), "25.0 %, 48–65 min left, Connecting blocks, download 10.0 MB/s");
        assert_eq!(shown(41), "25.0 %, 48–65 min left, Connecting blocks");
        let long = Progress { phase: Phase::WaitingForHeaders, ..progress };
        let narrow = line(&long, &estimate, Some(40 - SPINNER_COLUMNS));
        assert!(narrow.starts_with("25.0 %, 48–65 min left, Waiting for h"), "{narrow}");
    }

    #[test]
    fn the_bar_fills_up() {
        assert_eq!(bar(0.0), "[>                   ]");
        assert_eq!(bar(0.5), "[==========>         ]");
        assert_eq!(bar(0.999), "[===================>]");
        assert_eq!(bar(1.0), "[====================]");
    }
}
