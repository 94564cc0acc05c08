//! An object that another run writes again, to be compared with the one that is there.

use std::path::PathBuf;
use std::sync::Arc;

use apus_disk::{Result, StoreError};

use super::{Store, Upload};

/// Compares bytes with those of an object, instead of writing them.
///
/// Bytes of the object after the last that are compared are not looked at: those of a pack belong
/// to no part, and an index with such bytes cannot be opened.
pub(super) struct Compared {
    store: Arc<dyn Store>,
    name: String,
    /// The path that errors name.
    path: PathBuf,
    len: u64,
}

impl Compared {
    /// Begins to compare with the object `name`.
    pub(super) fn new(store: Arc<dyn Store>, name: &str, path: PathBuf) -> Self {
        Self { store, name: name.to_string(), path, len: 0 }
    }
}

impl Upload for Compared {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.len + bytes.len() as u64;
        let there = self.store.read_range(&self.name, self.len..end)?;
        if let Some(at) = bytes.iter().zip(&there).position(|(one, other)| one != other) {
            let what = "another run of this task would write other bytes from here on";
            return Err(StoreError::corrupt(&self.path, self.len + at as u64, what));
        }
        self.len = end;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
