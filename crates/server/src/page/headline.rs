//! The top of the page: the words in large type, and what belongs to them.

use std::time::Duration;

use apus_progress::Phase;

use super::state::{PageState, Stage};
use super::words::{date, duration, escape, percent, thousands};

/// The words in large type.
pub struct Headline {
    /// The line above them.
    label: String,
    /// The words, as text.
    words: String,
    /// The text beside them; empty for none.
    beside: String,
    /// The lines below, as HTML.
    below: String,
}

impl Headline {
    /// Makes the headline of a state.
    pub fn of(state: &PageState) -> Self {
        let plain = |label: &str, words: &str, below: String| Self {
            label: label.to_string(),
            words: words.to_string(),
            beside: String::new(),
            below,
        };
        let elapsed = duration(seconds(state.now - state.started));
        let save = "What is done is kept: the same command carries on.";
        let tip_date = date(state.tip.time);
        let phase = state.phase.map_or("", Phase::words);
        match &state.stage {
            Stage::Starting => plain(
                "Starting",
                "Opening the directory",
                "<p>Apus reads the block index and looks for unfinished work.</p>".to_string(),
            ),
            Stage::Searching => plain(
                "Starting",
                "Looking for peers",
                "<p>Blocks follow as soon as a peer is found that has them.</p>".to_string(),
            ),
            Stage::Headers => plain(
                phase,
                &format!("{} headers", thousands(state.headers.into())),
                "<p>Blocks follow as soon as the chain with the most work is known.</p>"
                    .to_string(),
            ),
            Stage::Syncing => Self::of_run(state, phase, &elapsed),
            Stage::Stalled(time) => {
                let label = format!("No block for {}", duration(*time));
                let run = Self::of_run(state, &label, &elapsed);
                let begun = state.run.share.filter(|done| *done > 0.0);
                let beside = begun.map(|_| format!("{} done", run.words));
                let words = "Waiting for peers".to_string();
                let beside = beside.unwrap_or_default();
                Self { words, beside, below: format!("<p>{elapsed} so far.</p>"), ..run }
            }
            Stage::Failed(error) => {
                let words = if is_full(error) { "The disk is full" } else { "Apus has stopped" };
                let error = escape(error);
                let below = format!("<p class=\"alarm\" role=\"alert\">{error}</p><p>{save}</p>");
                plain(&format!("After {elapsed}"), words, below)
            }
            Stage::Stopping => {
                plain("Asked to stop", "Saving what is done", format!("<p>{save}</p>"))
            }
            Stage::Stopped => plain("Stopped as asked", "Saved", format!("<p>{save}</p>")),
            Stage::Finished => plain(
                &format!("Done in {elapsed}"),
                "The UTXO set is ready",
                format!("<p>As of block {}, {tip_date}.</p>", thousands(state.tip.height.into())),
            ),
            Stage::Following => {
                let has_peers = state.peers.as_ref().is_some_and(|peers| !peers.is_empty());
                let news = if has_peers {
                    "New blocks are connected as they come."
                } else {
                    "No peer is connected, so there may be newer blocks."
                };
                let height = thousands(state.tip.height.into());
                let age = duration(seconds(state.now - state.tip.time));
                plain(phase, "At the tip", format!("<p>Block {height} is {age} old. {news}</p>"))
            }
            Stage::Serving => plain(
                "At rest",
                &format!("Block {}", thousands(state.tip.height.into())),
                format!("<p>Of {tip_date}. This directory is served, and does not change.</p>"),
            ),
        }
    }

    /// The headline of a run that is under way: the share done and the time left.
    fn of_run(state: &PageState, label: &str, elapsed: &str) -> Self {
        let label = label.to_string();
        let words = state.run.share.map(|done| format!("{}\u{a0}%", percent(done)));
        let beside = match &state.run.left {
            Some(left) => format!("{} left", left.words()),
            None => String::new(),
        };
        let below = match &state.run.left {
            Some(_) => format!(
                "<p>{elapsed} so far. In eight of ten cases the time left lies in \
                                this range.</p>"
            ),
            None => format!("<p>{elapsed} so far. The time left is not known yet.</p>"),
        };
        Self { label, words: words.unwrap_or_else(|| "…".to_string()), beside, below }
    }

    pub fn title(&self) -> String {
        match self.beside.as_str() {
            "" => format!("{} · Apus", self.words),
            beside => format!("{}, {beside} · Apus", self.words),
        }
    }

    /// Returns what a screen reader is told.
    pub fn said(&self) -> String {
        let beside =
            if self.beside.is_empty() { String::new() } else { format!(", {}", self.beside) };
        format!("{}{beside}. {}.", self.words, self.label)
    }

    /// Returns the top of the page: headline, bar, and what is wrong.
    pub fn html(&self, state: &PageState) -> String {
        let Self { label, words, beside, below } = self;
        let label = escape(label);
        let words = escape(words);
        let beside = escape(beside);
        let beside = match beside.as_str() {
            "" => String::new(),
            beside => format!(" <span class=\"left\">{beside}</span>"),
        };
        let bar = bar(state);
        let stall = match &state.stage {
            Stage::Stalled(time) if *time >= HELP_AFTER => STALL_HELP,
            _ => "",
        };
        format!("<p class=\"label\">{label}</p><h1>{words}{beside}</h1>{bar}{stall}{below}")
    }
}

/// A stall that takes this long needs help.
const HELP_AFTER: Duration = Duration::from_secs(30);
/// Advice on missing peers.
const STALL_HELP: &str = "<div class=\"alarm\" role=\"alert\"><p>No peer sends blocks. Apus keeps \
     looking, and carries on by itself.</p><ul><li>Is this machine online, and can it reach \
     other nodes?</li><li>If a proxy or Tor is set: is it running?</li><li>A node that you know \
     can be named: <code>--connect=HOST</code> or <code>--addnode=HOST</code>.</li></ul></div>";

/// Returns the bar of the whole run.
fn bar(state: &PageState) -> String {
    let Some(done) = state.run.share.filter(|_| state.stage.is_run()) else {
        return String::new();
    };
    let value = 100.0 * done.clamp(0.0, 1.0);
    let words = percent(done);
    format!(
        "<div class=\"bar\" role=\"progressbar\" aria-label=\"The whole run\" aria-valuemin=\"0\" \
         aria-valuemax=\"100\" aria-valuenow=\"{value:.1}\" aria-valuetext=\"{words} %\">\
         <svg aria-hidden=\"true\"><rect class=\"track\" width=\"100%\" height=\"100%\"/>\
         <rect class=\"done\" width=\"{value:.2}%\" height=\"100%\"/></svg></div>"
    )
}

/// Returns whether an error says that the disk is full: in the words of the system, of the standard
/// library, or of the checks before a run.
fn is_full(error: &str) -> bool {
    let words = ["No space left on device", "no storage space", "the disk is too small"];
    words.iter().any(|words| error.contains(words))
}

fn seconds(difference: i64) -> Duration {
    Duration::from_secs(difference.try_into().unwrap_or(0))
}
