//! The only place that writes to standard output and standard error. A failed write to standard
//! error never ends a run; a failed write to standard output is an error.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use thiserror::Error;

use super::numbers::time_stamp;

/// Standard output could not be written.
#[derive(Error, Debug)]
#[error("cannot write to standard output: {0}")]
pub struct StdoutError(#[source] io::Error);

impl StdoutError {
    /// Returns whether the write failed because the reader of a pipe has closed it.
    pub fn reader_has_gone(&self) -> bool {
        reader_has_gone(&self.0)
    }
}

/// Returns whether a write failed because the reader of a pipe has closed it.
pub fn reader_has_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}

/// Prints `text` and a newline to standard output. Codes for colours are left out if that is no
/// terminal that shows them, or if `NO_COLOR` is set.
pub fn line(text: impl Display) -> Result<(), StdoutError> {
    let mut stdout = anstream::AutoStream::auto(io::stdout()).lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(StdoutError)
}

/// Returns text from files, peers or the command line as a terminal or a log may show it: control
/// characters are escaped, which could move the cursor or begin a line (Core's
/// `LogEscapeMessage`).
pub fn escaped(text: impl Display) -> String {
    let mut escaped = String::new();
    for char in text.to_string().chars() {
        if char.is_control() && char != '\n' {
            escaped.extend(char.escape_default());
        } else {
            escaped.push(char);
        }
    }
    escaped
}

/// Writes a line to standard error, with a time stamp as in Bitcoin Core's log unless standard
/// error is a terminal.
pub fn note(text: impl Display) {
    let text = escaped(text);
    let mut stderr = io::stderr().lock();
    // There is nowhere to report a failed write to standard error.
    let _ = if stderr.is_terminal() {
        writeln!(stderr, "{text}")
    } else {
        writeln!(stderr, "{} {text}", time_stamp(now()))
    };
}

/// Prints clap's message: help and version to standard output, errors to standard error.
pub fn clap(error: &clap::Error) -> Result<(), StdoutError> {
    let printed = error.print();
    if error.use_stderr() {
        Ok(())
    } else {
        printed.and_then(|()| io::stdout().flush()).map_err(StdoutError)
    }
}

/// Returns the current time in seconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_and_peers_say_moves_no_cursor() {
        let text = escaped("a\0b\x1b[2J\rc\td\u{85}e: \u{e9}\nf");
        assert_eq!(text, "a\\u{0}b\\u{1b}[2J\\rc\\td\\u{85}e: \u{e9}\nf");
    }
}
