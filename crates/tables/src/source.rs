//! The trait of a source of rows.

use apus_export::Batch;
use apus_node::error::SyncError;

/// Rows in order, divided into items that any thread may read independently.
pub(super) trait Source: Sync {
    fn items(&self) -> usize;

    /// Adds the rows of the item at `index` to `batch`. No item is read twice.
    fn read(&self, index: usize, batch: &mut Batch) -> Result<(), SyncError>;
}
