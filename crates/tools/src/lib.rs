//! Commands on a data directory besides syncing it. This crate does not know how a sync works: it
//! opens directories, proves and disconnects blocks through `apus-sync`.
//!
//! | module | what it does |
//! |---|---|
//! | [`stored`] | reads blocks and undo data for hints and exports; others open a `Node` |
//! | [`hints`] | makes, converts and compresses hints files |
//! | [`snapshot`] | makes and describes UTXO snapshots, and loads them for bitcoind |
//! | [`proof`] | proves hints or a snapshot against blocks, and keeps nothing |
//! | `export` | exports tables for analysis (with the feature `export`), or to memory (`arrow`) |
//! | `reader` | keeps a directory open, and reads its blocks and coins (with `export`) |
//! | [`index`](mod@index) | builds Core's optional indexes |
//! | [`info`] | computes statistics of the UTXO set (Core's `gettxoutsetinfo`) |
//! | [`verify`](mod@verify) | checks blocks, undo data and UTXO set (Core's `verifychain`) |
//! | [`machine`] | looks at the machine: what to do on it, and what makes a sync slow or unsafe |
//! | [`status`](mod@status) | reads the state of a directory |
//! | [`busy`](mod@busy) | what another program does with a directory that it has locked |
//! | [`rewind`](mod@rewind) | takes the UTXO set back to a lower height |
//! | [`serve`](mod@serve) | serves blocks to peers |
//! | [`prune`](mod@prune) | deletes block files (Core's `pruneblockchain`) |

#[cfg(feature = "export")]
pub mod export;
#[cfg(feature = "export")]
pub mod reader;
pub mod busy;
pub mod hints;
pub mod index;
pub mod info;
pub mod machine;
pub mod proof;
pub mod prune;
pub mod rewind;
pub mod serve;
pub mod snapshot;
pub mod status;
pub mod stored;
pub mod verify;

pub use apus_coins::{HashType as UtxoHash, UtxoStats};
pub use apus_indexes::{Indexed, StatisticsAt, Totals};
pub use apus_store::IndexKind;
pub use busy::{Busy, Reached, busy};
#[cfg(feature = "arrow")]
pub use export::{ArrowRows, RecordBatches};
#[cfg(feature = "export")]
pub use export::{
    Destination, Export, ExportTable, Exported, HISTORY, HistoryAsked, HistoryExported, Ranges,
    RangesDone, ScriptAtEnd, export, export_history, export_ranges, ranges_to_write, script_type,
    verify_ranges,
};
pub use hints::{
    HintsSummary, compress_hints, conversion_needs_blocks, convert_hints, create_hints,
    create_hints_of_snapshot,
};
pub use index::{index, index_on};
pub use info::{txoutset_info, txoutset_info_at};
pub use proof::prove;
pub use prune::prune;
#[cfg(feature = "export")]
pub use reader::ChainReader;
pub use rewind::{rewind, rewind_on};
pub use serve::{can_serve, has_filters, serve};
pub use snapshot::{
    SnapshotInfo, SnapshotLoaded, SnapshotSummary, create_snapshot, create_snapshot_of_hints,
    create_snapshot_of_view, load_snapshot, load_snapshot_on, snapshot_info,
};
pub use status::{SnapshotStatus, Status, Unfinished, status};
pub use verify::verify;
