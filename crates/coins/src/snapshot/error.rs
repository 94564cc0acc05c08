use apus_disk::StoreError;
use apus_wire::ParseError;

use crate::survivors::WriteError;

/// An error in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", at(*offset))]
pub struct SnapshotError {
    /// Offset in the file, in bytes, if the error has one.
    pub offset: Option<u64>,
    /// A description of what is wrong.
    pub what: String,
}

fn at(offset: Option<u64>) -> String {
    offset.map_or(String::new(), |offset| format!("at byte {offset}: "))
}

impl SnapshotError {
    /// Returns the error for a snapshot as a whole.
    pub fn new(what: impl Into<String>) -> Self {
        Self { offset: None, what: what.into() }
    }

    /// Returns the error for the bytes at `offset`.
    pub fn at(offset: u64, what: impl Into<String>) -> Self {
        Self { offset: Some(offset), what: what.into() }
    }

    /// Returns the error for bytes starting at `start` in the file that could not be parsed.
    pub(super) fn parsing(start: u64, error: &ParseError) -> Self {
        Self::at(start + error.offset as u64, error.what)
    }
}

/// The reason why the coins of a snapshot could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotReadError {
    /// The snapshot is to blame.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The disk on which coins are sorted is to blame.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<WriteError> for SnapshotReadError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Store(error) => Self::Store(error),
            WriteError::Twice(outpoint) => {
                SnapshotError::new(format!("the snapshot has the coin {outpoint} twice")).into()
            }
        }
    }
}
