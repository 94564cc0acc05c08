//! Expectations of blocks that are not connected yet.

use std::sync::OnceLock;

use apus_chain::BlockId;
use apus_store::BlockFiles;

use super::block_records::BlockRecords;
use super::expected_sizes::Sizes;
use super::growth::Growth;
use super::stored_sizes::StoredSizes;

/// Expectations of blocks that are not connected yet.
#[derive(Default)]
pub struct Forecast {
    /// The expected sizes of the blocks that peers have.
    pub sizes: Sizes,
    /// The growth of files by blocks.
    pub growth: Growth,
    /// The sizes of the blocks that were stored when a size was first asked for.
    stored: OnceLock<StoredSizes>,
}

impl Forecast {
    /// Returns the size in bytes of a stored block; `None` if it is not known.
    pub fn stored_size(
        &self,
        records: &BlockRecords,
        files: &BlockFiles,
        id: BlockId,
    ) -> Option<u64> {
        self.stored.get_or_init(|| StoredSizes::of(&records.all, &files.infos())).get(id)
    }
}
