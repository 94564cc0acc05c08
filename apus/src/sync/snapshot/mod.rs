//! UTXO snapshots: made, described, and proved against the blocks. Knows no bytes of the format.

mod create;
mod gathered;
mod info;
mod load;
mod load_command;
mod meanwhile;

pub use create::{SnapshotSummary, create_snapshot, create_snapshot_of_hints};
pub use info::{SnapshotInfo, snapshot_info};
pub use load_command::{SnapshotLoaded, load_snapshot, load_snapshot_on};
pub(super) use meanwhile::{is_loaded, load_while_missing};
