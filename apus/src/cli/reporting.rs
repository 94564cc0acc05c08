//! How a command reports: as progress and text, as one JSON object, or with errors and results
//! alone.

use std::fmt::Display;

use super::output::{self, StdoutError};
use super::progress::Reporter;

/// How a command reports.
#[derive(Clone, Copy)]
pub struct Reporting {
    /// Prints neither progress nor a report; errors, refusals and requested results are printed.
    pub quiet: bool,
    /// Prints one JSON object instead of progress and a report.
    pub json: bool,
}

impl Reporting {
    /// Makes a reporter of work that starts now; it shows nothing if no progress is wanted.
    /// Not for a result that was asked for, which `output::line` prints under `--quiet` too.
    pub fn reporter(self) -> Reporter {
        Reporter::new(self.quiet || self.json)
    }

    /// Prints the report at the end of the work, as JSON or as text.
    pub fn report(
        self,
        json: impl FnOnce() -> String,
        text: impl FnOnce() -> String,
    ) -> Result<(), StdoutError> {
        if self.json { output::line(json()) } else { self.say(text()) }
    }

    /// Prints a part of a report as text, unless reports are switched off.
    pub fn say(self, text: impl Display) -> Result<(), StdoutError> {
        if self.quiet { Ok(()) } else { output::line(text) }
    }
}
