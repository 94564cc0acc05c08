//! The errors of syncs and of all other work on a data directory.

use std::path::{Path, PathBuf};

use apus_coins::{SnapshotError, SnapshotReadError};
use apus_disk::StoreError;
use apus_swiftsync::HintsError;
use thiserror::Error;

use super::coin_differences::Differences;
use super::context::Context;
use apus_progress::outcome::Refusal;

/// Why a sync, or other work on a data directory, failed. What was committed before remains valid.
#[derive(Debug, Error)]
pub enum SyncError {
    /// A file or directory could not be read or written, or its content is wrong.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A hints file is wrong, does not fit these blocks, or cannot hold what should be written to
    /// it.
    #[error("{}: {error}", path.display())]
    Hints {
        /// The hints file.
        path: PathBuf,
        /// Its fault.
        #[source]
        error: HintsError,
    },
    /// A UTXO snapshot is wrong, or differs from the coins that these blocks leave.
    #[error("{}: {error}", path.display())]
    Snapshot {
        /// The snapshot file.
        path: PathBuf,
        /// Its fault.
        #[source]
        error: SnapshotError,
    },
    /// Hints or a snapshot are wrong, and the coins that they are wrong about are known.
    #[error("{error}{differences}")]
    Differs {
        /// The error without the coins.
        #[source]
        error: Box<SyncError>,
        /// The coins that hints or the snapshot are wrong about.
        differences: Differences,
    },
    /// The work cannot be done with the directory or the files given.
    #[error("{0}")]
    Input(String),
    /// Options are wrong, or contradict each other.
    #[error("{0}")]
    WrongOptions(String),
    /// A SwiftSync or a proof found an invalid block, or wrong undo data. Nothing was committed.
    #[error("{0}")]
    Refused(Refusal),
    /// A SwiftSync or a proof cannot prove this chain. Nothing was committed.
    #[error("{0}")]
    Unproved(String),
    /// A rebuilt UTXO set would be lower than the present one, which was kept.
    #[error("{0}")]
    WouldShrink(String),
    /// The work was asked to stop. Finished work is saved if it can be resumed.
    #[error("interrupted: nothing was changed; run the same command to start again")]
    Stopped,
}

/// The subject of an error, and thus what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// Wrong options.
    Usage,
    /// The directory or the files given, with which the work cannot be done.
    Input,
    /// A file or directory that could not be read or written, or whose content is wrong.
    Disk,
    /// A hints file.
    Hints,
    /// A UTXO snapshot.
    Snapshot,
    /// A block that breaks a rule, or wrong undo data.
    Refused,
    /// A chain that SwiftSync cannot prove.
    Unproved,
    /// A request to stop.
    Interrupted,
}

impl SyncError {
    /// Returns what the error is about.
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

    /// Returns what work returned; `None` if it was asked to stop, which is then no error.
    pub fn unless_stopped<T>(result: Result<T, Self>) -> Result<Option<T>, Self> {
        match result {
            Err(Self::Stopped) => Ok(None),
            result => result.map(Some),
        }
    }

    /// Returns the same error, whose description ends with `context`.
    pub fn with(mut self, context: &Context) -> Self {
        if let Self::Differs { error, differences } = self {
            return Self::Differs { error: Box::new(error.with(context)), differences };
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
        what.push_str(&context.to_string());
        self
    }
}

/// Returns the error for a snapshot file that could not be read.
pub fn of_read(path: &Path, error: SnapshotReadError) -> SyncError {
    match error {
        SnapshotReadError::Store(error) => error.into(),
        SnapshotReadError::Snapshot(error) => {
            SyncError::Snapshot { path: path.to_path_buf(), error }
        }
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
        let error = error.with(&Context::BlocksConnected { height: 6 });
        let what = "block 7: it has no bytes. The blocks are connected: the UTXO set is that of \
                    height 6";
        assert_eq!(error.to_string(), format!("some.hints: {what}"));
        assert_eq!(error.source().unwrap().to_string(), what);
        assert_eq!(error.kind(), ErrorKind::Hints);
    }
}
