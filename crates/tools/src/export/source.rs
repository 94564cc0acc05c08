//! What rows are read from.

use apus_export::Batch;
use apus_node::error::SyncError;

/// Rows in order, in items that any thread may read, each by itself.
pub(super) trait Source: Sync {
    /// The number of items.
    fn items(&self) -> usize;

    /// Adds the rows of the item at `index` to a batch. No item is read twice.
    fn read(&self, index: usize, batch: &mut Batch) -> Result<(), SyncError>;
}
