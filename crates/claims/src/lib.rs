//! Claims about the UTXO set: hints and snapshots are made from a directory, converted, described,
//! loaded, and proved against blocks.
//!
//! | module | what it does |
//! |---|---|
//! | [`stored`] | reads blocks and undo data of a directory that is locked and never changed |
//! | [`hints`] | makes, converts and compresses hints files |
//! | [`snapshot`] | makes UTXO snapshots, and loads them for bitcoind |
//! | [`proof`] | proves hints or a snapshot against blocks, and keeps nothing |

pub mod hints;
pub mod proof;
pub mod snapshot;
pub mod stored;

pub use hints::{
    HintsSummary, compress_hints, conversion_needs_blocks, convert_hints, create_hints,
    create_hints_of_snapshot,
};
pub use proof::prove;
pub use snapshot::{
    SnapshotLoaded, SnapshotSummary, create_snapshot, create_snapshot_of_hints, load_snapshot,
    load_snapshot_on,
};
