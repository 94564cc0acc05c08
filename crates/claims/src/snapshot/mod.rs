//! Makes and loads UTXO snapshots. This module does not know the bytes of the format.

mod create;
mod load;

pub use create::{SnapshotSummary, create_snapshot, create_snapshot_of_hints};
pub use load::{SnapshotLoaded, load_snapshot, load_snapshot_on};
