//! The errors of syncs and of all other work on a data directory.

use std::path::PathBuf;

use apus_coins::SnapshotError;
use apus_disk::StoreError;
use apus_swiftsync::HintsError;
use thiserror::Error;

use super::coin_differences::Differences;
use super::outcome::Refusal;

/// Why a sync, or other work on a data directory, could not be done. What was committed before
/// stays good.
#[derive(Debug, Error)]
pub enum SyncError {
    /// A file or directory could not be read or written, or holds what cannot be right.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A hints file cannot be right, does not fit these blocks, or cannot hold what is to be
    /// written to it.
    #[error("{}: {error}", path.display())]
    Hints {
        /// The hints file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: HintsError,
    },
    /// A UTXO snapshot cannot be right, or is not what these blocks leave.
    #[error("{}: {error}", path.display())]
    Snapshot {
        /// The snapshot file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: SnapshotError,
    },
    /// Hints or a snapshot are wrong, and it was found out about which coins.
    #[error("{error}{differences}")]
    Differs {
        /// The error that says so.
        #[source]
        error: Box<SyncError>,
        /// The coins.
        differences: Differences,
    },
    /// What was asked for cannot be done with the directory or the files given.
    #[error("{0}")]
    Input(String),
    /// Options are wrong, or contradict each other.
    #[error("{0}")]
    WrongOptions(String),
    /// A SwiftSync or a proof found a block that is not valid, or undo data that is wrong. Nothing
    /// was committed.
    #[error("{0}")]
    Refused(Refusal),
    /// A SwiftSync or a proof cannot prove this chain. Nothing was committed.
    #[error("{0}")]
    Unproved(String),
    /// A rebuilt UTXO set would be lower than the present one, which was kept.
    #[error("{0}")]
    WouldShrink(String),
    /// The work was asked to stop. What is done is saved, if it can be carried on.
    #[error("interrupted: nothing was changed; run the same command to start again")]
    Stopped,
}

/// What an error is about, and thus what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// Options: give others.
    Usage,
    /// The directory or the files given, with which the work cannot be done.
    Input,
    /// A file or directory that could not be read or written, or holds what cannot be right.
    Disk,
    /// A hints file.
    Hints,
    /// A UTXO snapshot.
    Snapshot,
    /// A block that breaks a rule, or undo data that is wrong.
    Refused,
    /// A chain that SwiftSync cannot prove.
    Unproved,
    /// A request to stop.
    Interrupted,
}

impl SyncError {
    /// What the error is about.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::WrongOptions(_) => ErrorKind::Usage,
            Self::Input(_) | Self::WouldShrink(_) => ErrorKind::Input,
            Self::Store(_) => ErrorKind::Disk,
            Self::Hints { .. } => ErrorKind::Hints,
            Self::Snapshot { .. } => ErrorKind::Snapshot,
            Self::Differs { error, .. } => error.kind(),
            Self::Refused(_) => ErrorKind::Refused,
            Self::Unproved(_) => ErrorKind::Unproved,
            Self::Stopped => ErrorKind::Interrupted,
        }
    }

    /// The same error, with `note` at the end of what it says is wrong.
    pub fn with_note(mut self, note: &str) -> Self {
        if let Self::Differs { error, differences } = self {
            return Self::Differs { error: Box::new(error.with_note(note)), differences };
        }
        let what = match &mut self {
            Self::Store(error) => &mut error.what,
            Self::Hints { error, .. } => &mut error.what,
            Self::Snapshot { error, .. } => &mut error.what,
            Self::Refused(refusal) => &mut refusal.reason,
            Self::Differs { .. } => unreachable!("it has returned above"),
            Self::Stopped => return self,
            Self::Input(what)
            | Self::WrongOptions(what)
            | Self::Unproved(what)
            | Self::WouldShrink(what) => what,
        };
        what.push_str(note);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn an_error_about_hints_names_the_file_and_has_a_source() {
        let error = HintsError::at(7, "it has no bytes");
        let error = SyncError::Hints { path: "some.hints".into(), error };
        let error = error.with_note("; make it again");
        assert_eq!(error.to_string(), "some.hints: block 7: it has no bytes; make it again");
        assert_eq!(error.source().unwrap().to_string(), "block 7: it has no bytes; make it again");
        assert_eq!(error.kind(), ErrorKind::Hints);
    }
}
