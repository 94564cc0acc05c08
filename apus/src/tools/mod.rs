//! Work on a data directory next to syncing it: hints, snapshots, export, proofs, verification,
//! rewinding, pruning, status. Does not know how a sync works.

#[cfg(feature = "export")]
pub mod export;
pub mod hints;
pub mod info;
pub mod proof;
pub mod prune;
pub mod rewind;
pub mod snapshot;
pub mod status;
pub mod stored;
pub mod verify;

pub use crate::coins::{HashType as UtxoHash, UtxoStats};
#[cfg(feature = "export")]
pub use export::{Destination, Export, ExportTable, Exported, export};
pub use hints::{
    HintsSummary, compress_hints, conversion_needs_blocks, convert_hints, create_hints,
    create_hints_of_snapshot,
};
pub use info::txoutset_info;
pub use proof::{verify_hints, verify_snapshot};
pub use prune::prune;
pub use rewind::{rewind, rewind_on};
pub use snapshot::{
    SnapshotInfo, SnapshotLoaded, SnapshotSummary, create_snapshot, create_snapshot_of_hints,
    load_snapshot, load_snapshot_on, snapshot_info,
};
pub use status::{SnapshotStatus, Status, Unfinished, status};
pub use verify::verify;
