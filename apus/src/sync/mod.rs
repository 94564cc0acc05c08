//! The pipelines, and the only module that starts threads. Does not know argument parsing.
//!
//! In order ([`sync`], [`reindex`]): find the headers in all sources, choose the best chain,
//! connect it block by block (`in_order`), and commit now and then (`commit`). With hints,
//! SwiftSync (`swift`) first goes to their height, in any order; without, a join (`join`) first
//! goes through many blocks in any order where that is faster (`method`). What is done to one block
//! is the same for all (`block`).

mod above_tip;
mod assumevalid;
mod block;
mod block_peers;
mod checked;
mod claim;
mod clock;
mod coin_count;
mod commit;
mod commit_job;
mod differ;
mod error;
mod expected_sizes;
#[cfg(feature = "export")]
mod export;
mod growth;
mod hints;
mod hints_file;
mod in_order;
mod index_files;
mod info;
mod join;
mod mend;
mod method;
mod node;
mod options;
mod outcome;
mod peers;
mod progress;
mod proof;
mod prune;
mod pruner;
mod pruning;
mod rebuild;
mod remedy;
mod resources;
mod rewind;
mod run;
mod scan;
mod sealed;
#[cfg(any(test, feature = "internals"))]
pub mod serve;
mod shrink;
mod sources;
mod snapshot;
mod snapshot_chainstate;
mod space;
mod start_check;
mod states;
mod status;
mod stored;
mod stored_sizes;
mod summary;
mod swift;
mod tables;
mod temporary;
mod threads;
mod tips;
mod unfinished;
mod unspent;
mod verify;
mod verify_command;
mod waiting;
mod ways;
mod words;

pub use block::difference::ScriptDifference;
pub use checked::{Checked, NotChecked, RuleGroup};
pub use clock::{STALLS, Waits};
pub use coin_count::FILE as COIN_COUNT_FILE;
pub use differ::{CoinDifference, DifferenceKind, Differences};
pub use error::{ErrorKind, SyncError};
#[cfg(feature = "export")]
pub use export::{Destination, Export, ExportTable, Exported, export};
pub use hints::{
    HintsSummary, compress_hints, conversion_needs_blocks, convert_hints, create_hints,
    create_hints_of_snapshot,
};
pub use hints_file::HintsFile;
pub use info::txoutset_info;
#[cfg(feature = "internals")]
pub use join::rewrite_join_progress;
pub use mend::NOTE as DAMAGE_NOTE;
pub use options::{
    AggregateKind, AssumeValid, CHECK_BLOCKS, CHECK_LEVEL, CacheSync, Method, Options, Prune,
    ScriptEngine,
};
pub use outcome::{Counts, Pruned, Refusal, ScriptCounts, ThreadStates};
pub use peers::{ADDRESSES_FILE as PEER_ADDRESSES_FILE, NetKind, PeerOptions, PeerReport, Target};
pub use progress::{Download, Observer, Phase, Progress, Tip, Unobserved};
pub use proof::{verify_hints, verify_snapshot};
pub use prune::prune;
pub use rebuild::{DIRECTORY as REBUILD_DIRECTORY, MARK as REBUILD_MARK};
pub use resources::{MemoryInUse, memory_in_use};
pub use rewind::{rewind, rewind_on};
pub use run::{reindex, reindex_files, reindex_files_on, reindex_on, sync, sync_on};
pub use snapshot::{
    SnapshotInfo, SnapshotLoaded, SnapshotSummary, create_snapshot, create_snapshot_of_hints,
    load_snapshot, load_snapshot_on, snapshot_info,
};
pub use snapshot_chainstate::{
    BASE_FILE as SNAPSHOT_BASE_FILE, DIRECTORY as SNAPSHOT_DIRECTORY,
    GIVEN_UP_FILE as SNAPSHOT_GIVEN_UP_FILE,
};
pub use status::{SnapshotStatus, Status, Unfinished, status};
pub use summary::{AboveTip, ChosenMethod, JoinPass, SavedBlocks, SavedJoin, Summary};
pub use swift::directory::DIRECTORY as SWIFTSYNC_DIRECTORY;
#[cfg(feature = "cli")]
pub use temporary::remove_temporary_directories;
#[cfg(feature = "cli")]
pub use threads::spawn_free;
pub use verify::{Damage, DamageList, Ended, LevelReport, Verified, Verify};
pub use verify_command::verify;

pub use crate::coins::{HashType as UtxoHash, UtxoStats};
