//! UTXO snapshots: made, described, and proved against the blocks. Knows no bytes of the format.

mod create;
mod info;

pub use create::{SnapshotSummary, create_snapshot};
pub use info::{SnapshotInfo, snapshot_info};
