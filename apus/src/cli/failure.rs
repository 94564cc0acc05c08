//! Errors of commands: their messages, their JSON, their exit statuses.

use std::process::ExitCode;

use apus_disk::StoreError;
use apus_node::{ErrorKind, SyncError};
use apus_tools::refused;
use serde::Serialize;

use super::differences_json::DifferencesJson;
use super::output::{self, StdoutError};
use super::{exit, log};

/// Why a command could not do what it was asked to.
#[derive(Debug)]
pub struct Failure {
    /// The subject of the error; `None` if standard output could not be written.
    kind: Option<ErrorKind>,
    /// The message for the user; empty if the reader of standard output has gone.
    text: String,
    /// The coins that hints or a snapshot are wrong about, if that is the error.
    differences: Option<Box<DifferencesJson>>,
}

#[derive(Serialize)]
struct FailureJson<'a> {
    error: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<&'a DifferencesJson>,
}

impl Failure {
    /// Makes an error about options.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { kind: Some(ErrorKind::Usage), text: text.into(), differences: None }
    }

    /// Makes an error about the directory or the files that the command was given.
    pub fn input(text: impl Into<String>) -> Self {
        Self { kind: Some(ErrorKind::Input), text: text.into(), differences: None }
    }

    /// Makes an error without a message, for standard output whose reader has closed it.
    #[cfg(feature = "export")]
    pub fn silent() -> Self {
        Self { kind: None, text: String::new(), differences: None }
    }

    /// Returns whether the error is that a file could not be read or written, or is damaged.
    pub fn is_of_disk(&self) -> bool {
        self.kind == Some(ErrorKind::Disk)
    }

    /// Returns the name of the error's subject in `--json`.
    pub fn kind(&self) -> Option<&'static str> {
        self.kind.map(name)
    }

    /// Returns the message for the user.
    pub fn text(&self) -> String {
        self.text.clone()
    }

    /// Adds a sentence to the error's message.
    pub fn and(mut self, sentence: &str) -> Self {
        if !self.text.is_empty() {
            self.text += &format!(". {sentence}");
        }
        self
    }

    /// Prints the error, on standard output too if `json`, and returns the exit status.
    pub fn end(&self, json: bool) -> ExitCode {
        if !self.text.is_empty() {
            log::last_line(format_args!("Error: {}", self.text));
            output::note(format_args!("Error: {}", self.text));
        }
        self.end_printed(json)
    }

    /// Like [`Failure::end`], for an error whose message was already printed to standard error.
    pub fn end_printed(&self, json: bool) -> ExitCode {
        if let Some(kind) = self.kind.filter(|_| json) {
            let differences = self.differences.as_deref();
            let json = FailureJson { error: &self.text, kind: name(kind), differences };
            let text = serde_json::to_string(&json).expect("plain data");
            // If standard output cannot be written, the exit status still reports the error.
            let _ = output::line(text);
        }
        match self.kind {
            Some(ErrorKind::Usage) => ExitCode::from(exit::USAGE),
            Some(ErrorKind::Interrupted) => ExitCode::from(exit::INTERRUPTED),
            _ => ExitCode::FAILURE,
        }
    }
}

/// Returns the name of a kind of error in `--json`.
fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Usage => "usage",
        ErrorKind::Input => "input",
        ErrorKind::Disk => "disk",
        ErrorKind::Hints => "hints",
        ErrorKind::Snapshot => "snapshot",
        ErrorKind::Refused => "refused",
        ErrorKind::Unproved => "unproved",
        ErrorKind::Interrupted => "interrupted",
    }
}

impl From<SyncError> for Failure {
    fn from(error: SyncError) -> Self {
        let remedy = match &error {
            SyncError::Store(error) => refused::remedy(error),
            _ => None,
        };
        let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
        let differences = match &error {
            SyncError::Differs { differences, .. } => {
                Some(Box::new(DifferencesJson::of(differences)))
            }
            _ => None,
        };
        Self { kind: Some(error.kind()), text: format!("{error}{remedy}"), differences }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        SyncError::from(error).into()
    }
}

impl From<StdoutError> for Failure {
    fn from(error: StdoutError) -> Self {
        let text = if error.reader_has_gone() { String::new() } else { error.to_string() };
        Self { kind: None, text, differences: None }
    }
}
