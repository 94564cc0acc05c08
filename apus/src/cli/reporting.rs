//! How a command reports: progress and a text, one JSON object, or as little as possible.

use std::fmt::Display;

use super::output::{self, StdoutError};
use super::progress::Reporter;

/// How a command reports.
#[derive(Clone, Copy)]
pub struct Reporting {
    /// Prints neither progress nor a report; errors, refusals and requested results are printed.
    pub quiet: bool,
    /// Prints one JSON object in place of progress and a report.
    pub json: bool,
}

impl Reporting {
    /// A reporter of work that starts now; it shows nothing where no progress is wanted.
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

    /// Prints a part of a report in text, unless nothing is to be reported.
    pub fn say(self, text: impl Display) -> Result<(), StdoutError> {
        if self.quiet { Ok(()) } else { output::line(text) }
    }
}
