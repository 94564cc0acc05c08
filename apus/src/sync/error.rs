use std::fmt;
use std::path::PathBuf;

use super::outcome::Refusal;
use crate::disk::StoreError;
use crate::swiftsync::HintsError;

/// Why a sync could not be done. What was committed before is good.
#[derive(Debug)]
pub enum SyncError {
    /// The disk is to blame.
    Store(StoreError),
    /// A hints file is to blame, or its format.
    Hints(HintsError),
    /// What was asked for cannot be done with what there is.
    Usage(String),
    /// Options are wrong, or contradict each other.
    WrongOptions(String),
    /// SwiftSync's hints are to blame. Nothing was committed; in order it works without them.
    WrongHints { path: PathBuf, error: HintsError },
    /// SwiftSync came upon a block that is not valid, or undo data that is wrong. Nothing was
    /// committed.
    Refused(Refusal),
    /// SwiftSync cannot prove this chain. Nothing was committed.
    Unproved(String),
    /// A rebuilt UTXO set would be lower than the present one, which was kept.
    WouldShrink(String),
}

/// What an error is about, hence what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// Options: give others.
    Usage,
    /// What was asked for cannot be done with the directory or the files given.
    Input,
    /// A file or directory that could not be read or written, or holds what cannot be right.
    Disk,
    /// A hints file.
    Hints,
    /// A block that breaks a rule, or undo data that is wrong.
    Refused,
    /// A chain that SwiftSync cannot prove.
    Unproved,
}

impl SyncError {
    /// What the error is about.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::WrongOptions(_) => ErrorKind::Usage,
            Self::Usage(_) | Self::WouldShrink(_) => ErrorKind::Input,
            Self::Store(_) => ErrorKind::Disk,
            Self::Hints(_) | Self::WrongHints { .. } => ErrorKind::Hints,
            Self::Refused(_) => ErrorKind::Refused,
            Self::Unproved(_) => ErrorKind::Unproved,
        }
    }
}

impl SyncError {
    /// The same error with more to say.
    pub(super) fn with_note(self, note: &str) -> Self {
        let add = |what: String| format!("{what}{note}");
        match self {
            Self::Store(error) => Self::Store(StoreError { what: add(error.what), ..error }),
            Self::Hints(error) => Self::Hints(HintsError { what: add(error.what), ..error }),
            Self::WrongHints { path, error } => {
                let error = HintsError { what: add(error.what), ..error };
                Self::WrongHints { path, error }
            }
            Self::Usage(what) => Self::Usage(add(what)),
            Self::WrongOptions(what) => Self::WrongOptions(add(what)),
            Self::WouldShrink(what) => Self::WouldShrink(add(what)),
            Self::Unproved(what) => Self::Unproved(add(what)),
            Self::Refused(refusal) => {
                Self::Refused(Refusal { reason: add(refusal.reason), ..refusal })
            }
        }
    }
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Hints(error) => error.fmt(f),
            Self::Usage(what) | Self::WrongOptions(what) | Self::WouldShrink(what) => {
                f.write_str(what)
            }
            Self::WrongHints { path, error } => write!(
                f,
                "{}: {error}. Nothing was committed: get the right hints, or sync without --hints",
                path.display()
            ),
            Self::Refused(refusal) => {
                write!(
                    f,
                    "{refusal}. Nothing was committed: a sync without --hints finds the best \
                    valid chain"
                )
            }
            Self::Unproved(what) => {
                write!(f, "{what}. Nothing was committed: sync without --hints")
            }
        }
    }
}

impl std::error::Error for SyncError {}

impl From<StoreError> for SyncError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<HintsError> for SyncError {
    fn from(error: HintsError) -> Self {
        Self::Hints(error)
    }
}
