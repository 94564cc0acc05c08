//! A bound on the warnings of each place in the code, as in Bitcoin Core, so that strangers who
//! cause them do not fill the disk.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The most bytes that a place logs in [`WINDOW`] (Core's `RATELIMIT_MAX_BYTES`).
const BYTES_MAX: usize = 1 << 20;
/// Core's `RATELIMIT_WINDOW`.
const WINDOW: Duration = Duration::from_secs(3600);

/// A file and a line of the code.
type Place = (&'static str, u32);

/// The lines that each place in the code has logged.
#[derive(Default)]
pub struct Limits(HashMap<Place, Logged>);

struct Logged {
    /// When the window began.
    since: Instant,
    /// Bytes of the window.
    bytes: usize,
    /// Number of warnings that were left out.
    left_out: u64,
}

impl Limits {
    /// Returns the lines to log for a warning of a place: the warning itself, unless the place has
    /// logged too much, and what is to be said about that.
    pub fn take(&mut self, place: Place, text: &str, now: Instant) -> Vec<String> {
        let new = Logged { since: now, bytes: 0, left_out: 0 };
        let logged = self.0.entry(place).or_insert(new);
        let (file, line) = place;
        let mut lines = Vec::new();
        if now.duration_since(logged.since) >= WINDOW {
            if logged.left_out > 0 {
                let count = logged.left_out;
                lines.push(format!("{count} warnings from {file}:{line} were left out"));
            }
            *logged = Logged { since: now, bytes: 0, left_out: 0 };
        }
        logged.bytes = logged.bytes.saturating_add(text.len());
        if logged.bytes <= BYTES_MAX {
            lines.push(text.to_string());
            return lines;
        }
        logged.left_out += 1;
        if logged.left_out == 1 {
            lines.push(format!(
                "more than 1 MiB of warnings came from {file}:{line} within an hour; until the \
                 hour is over, others from there are left out"
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_logs_a_mib_an_hour() {
        let mut limits = Limits::default();
        let begin = Instant::now();
        let text = "x".repeat(BYTES_MAX / 4);
        for _ in 0..4 {
            assert_eq!(limits.take(("a", 1), &text, begin), [text.as_str()]);
        }
        let last = limits.take(("a", 1), "y", begin);
        assert!(matches!(&last[..], [line] if line.contains("a:1")), "{last:?}");
        for _ in 0..1000 {
            assert!(limits.take(("a", 1), "y", begin + WINDOW / 2).is_empty());
        }
        assert_eq!(limits.take(("a", 2), "z", begin), ["z"]);
        let again = limits.take(("a", 1), "y", begin + WINDOW);
        assert_eq!(again, ["1001 warnings from a:1 were left out", "y"]);
    }
}
