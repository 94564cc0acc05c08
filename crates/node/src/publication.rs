//! Publication of commits to readers of a directory.

use std::sync::Arc;

use apus_chain::BlockId;
use apus_store::{BlockFiles, IndexRecord};

use super::view::{NewCommit, View};

/// The published state.
pub struct Publication {
    view: Arc<View>,
    /// The records that were written to the index since the last commit.
    entries: Vec<(BlockId, IndexRecord)>,
}

impl Publication {
    /// Shows readers in `view` what the directory holds, which must be all committed.
    pub fn open(view: Arc<View>, files: &BlockFiles, commit: NewCommit) -> Self {
        view.open(files, commit);
        Self { view, entries: Vec::new() }
    }

    /// Takes records that were written to the index, for the next commit.
    pub fn add(&mut self, entries: &[(BlockId, IndexRecord)]) {
        self.entries.extend_from_slice(entries);
    }

    /// Shows readers the commit that `commit` makes of the new records.
    pub fn show<'a>(&mut self, commit: impl FnOnce(Vec<(BlockId, IndexRecord)>) -> NewCommit<'a>) {
        self.view.follow(commit(std::mem::take(&mut self.entries)));
    }

    /// Tells readers that the data of these blocks is about to be deleted.
    pub fn hide(&self, blocks: &[BlockId]) {
        self.view.forget_data(blocks);
    }
}
