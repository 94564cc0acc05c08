//! Work on a data directory besides syncing it. This crate does not know how a sync works.
//!
//! | part | contents |
//! |---|---|
//! | [`stored`] | a directory that is only read, and work on it with many threads |
//! | [`hints`] | hints made, converted, compressed and summarised |
//! | [`snapshot`] | UTXO snapshots made, described, and loaded for bitcoind |
//! | [`proof`] | hints or a snapshot proved against blocks; nothing is kept |
//! | `export` | tables for analysis, in the feature `export` |
//! | [`info`] | the statistics of the UTXO set (Core's `gettxoutsetinfo`) |
//! | [`verify`](mod@verify), [`status`](mod@status) | the commands of these names |
//! | [`rewind`](mod@rewind), [`prune`](mod@prune) | the commands of these names |

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

pub use apus_coins::{HashType as UtxoHash, UtxoStats};
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
