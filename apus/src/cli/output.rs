//! The one place that writes to standard output and standard error. What is written to standard
//! error never ends a run, whoever has stopped reading it; a standard output that cannot be written
//! is an error.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use super::failure::Failure;
use super::progress::{Reporter, time_stamp};

/// Prints `text` and a newline to standard output.
pub fn line(text: impl Display) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(Failure::stdout)
}

/// Writes a line to standard error: with a time stamp, as Bitcoin Core's log has it, where that is
/// not a terminal.
pub fn note(text: impl Display) {
    let mut stderr = io::stderr().lock();
    // Nobody is there to hear that nobody is there.
    let _ = match stderr.is_terminal() {
        true => writeln!(stderr, "{text}"),
        false => writeln!(stderr, "{} {text}", time_stamp(now())),
    };
}

/// Prints what clap has to say where it wants to say it: help and version to standard output.
pub fn clap(error: &clap::Error) -> Result<(), Failure> {
    let printed = error.print();
    match error.use_stderr() {
        true => Ok(()),
        false => printed.and_then(|()| io::stdout().flush()).map_err(Failure::stdout),
    }
}

/// Whether somebody who has gone away is why a write failed.
pub fn reader_has_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// How a command reports.
#[derive(Clone, Copy)]
pub struct Reporting {
    /// Neither progress nor a report; errors, refusals and what was asked for all the same.
    pub quiet: bool,
    /// One JSON object instead of progress and a report.
    pub json: bool,
}

impl Reporting {
    /// Shows progress, if there is to be any, from now on.
    pub fn reporter(self) -> Reporter {
        Reporter::new(self.quiet || self.json)
    }

    /// Prints how the work went.
    pub fn report(
        self,
        json: impl FnOnce() -> String,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json { line(json()) } else { self.say(text()) }
    }

    /// Prints a part of a report.
    pub fn say(self, text: impl Display) -> Result<(), Failure> {
        if self.quiet { Ok(()) } else { line(text) }
    }
}
