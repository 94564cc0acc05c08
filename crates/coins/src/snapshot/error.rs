use apus_disk::StoreError;
use apus_wire::ParseError;

use crate::survivors::WriteError;

/// What is wrong with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", at(*offset))]
pub struct SnapshotError {
    /// Offset in the file, in bytes, if the error has one.
    pub offset: Option<u64>,
    /// What is wrong there.
    pub what: String,
}

fn at(offset: Option<u64>) -> String {
    offset.map_or(String::new(), |offset| format!("at byte {offset}: "))
}

impl SnapshotError {
    /// The error of a snapshot as a whole.
    pub fn new(what: impl Into<String>) -> Self {
        Self { offset: None, what: what.into() }
    }

    /// The error of the bytes at `offset`.
    pub fn at(offset: u64, what: impl Into<String>) -> Self {
        Self { offset: Some(offset), what: what.into() }
    }

    /// The error of bytes that start at `start` of the file and could not be parsed.
    pub(super) fn parsing(start: u64, error: &ParseError) -> Self {
        Self::at(start + error.offset as u64, error.what)
    }
}

/// Why the coins of a snapshot could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotReadError {
    /// The snapshot is to blame.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The disk is to blame, on which coins are sorted.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<WriteError> for SnapshotReadError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Store(error) => Self::Store(error),
            WriteError::Twice(outpoint) => {
                SnapshotError::new(format!("the coin {outpoint} is in it twice")).into()
            }
        }
    }
}
