//! How a command reports: progress and a text, one JSON object, or as little as possible.

use std::fmt::Display;

use super::output::{self, StdoutError};
use super::progress::Reporter;

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
    ) -> Result<(), StdoutError> {
        if self.json { output::line(json()) } else { self.say(text()) }
    }

    /// Prints a part of a report.
    pub fn say(self, text: impl Display) -> Result<(), StdoutError> {
        if self.quiet { Ok(()) } else { output::line(text) }
    }
}
