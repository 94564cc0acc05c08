//! Apus: the fastest way from Bitcoin blocks to a verified UTXO set.
//!
//! [`sync`] takes blocks from files and from other data directories, checks every consensus rule,
//! and builds a data directory that Bitcoin Core opens and continues from. [`reindex`] rebuilds the
//! UTXO set of a directory from its blocks. With [`Options::with_hints`] both use SwiftSync, which
//! takes blocks in any order, without look-ups, and proves the result at the end.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use apus::{AssumeValid, Chain, Network, Options, Unobserved, UtxoHash, Watch};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let datadir = tempfile::tempdir()?;
//! let blocks = concat!(env!("CARGO_MANIFEST_DIR"), "/data/regtest-1-206.dat");
//! let options = Options {
//!     assumevalid: AssumeValid::Nothing,
//!     ..Options::new(datadir.path().to_path_buf(), Network::new(Chain::Regtest))
//! };
//!
//! // If another thread raises this flag, the work done so far is saved, and the call returns.
//! let stop = AtomicBool::new(false);
//! let watch = Watch::new(&Unobserved, &stop);
//! let summary = apus::sync(&options, &[blocks.into()], watch)?;
//! assert_eq!(summary.height, 206);
//! assert!(summary.refusals.is_empty() && summary.checked.not_checked().is_empty());
//!
//! // The figures of `bitcoin-cli gettxoutsetinfo muhash` for the same directory.
//! let stats = apus::txoutset_info(&options, UtxoHash::MuHash, watch)?;
//! let stats = stats.expect("the flag was not raised");
//! assert_eq!(stats.best_block, summary.best_block);
//! assert_eq!(Some(stats.txouts), summary.coins);
//! # Ok(())
//! # }
//! ```
//!
//! The crate's default feature `cli` holds the program `apus` and its dependencies; a library user
//! sets `default-features = false`. All items come from the crates in `crates/`, which other
//! projects can use one by one; ARCHITECTURE.md lists them.

#![warn(missing_docs)]

// Commands, options, progress, exit codes.
#[cfg(feature = "cli")]
mod cli;

pub use apus_claims::{
    HintsSummary, compress_hints, conversion_needs_blocks, convert_hints, create_hints, prove,
};
pub use apus_consensus::{RuleClass, RuleError};
pub use apus_disk::StoreError;
pub use apus_hash::{Hash, ParseHashError};
pub use apus_host::{MemoryInUse, memory_in_use};
pub use apus_net::PeerOptions;
pub use apus_node::{
    AssumeValid, Checked, ErrorKind, JoinOptions, NotChecked, Options, RuleGroup, ScriptDifference,
    ScriptEngine, ScriptOptions, StartCheck, SwiftSyncOptions, SyncError, UndoFaults,
};
pub use apus_peers::PeerReport;
pub use apus_progress::Method;
pub use apus_progress::{
    Counts, Observer, Phase, Progress, Refusal, ScriptCounts, ThreadStates, Tip, Unobserved, Waits,
    Watch,
};
pub use apus_swiftsync::{AggregateKind, Format, Hints, HintsError, Numbering};
pub use apus_sync::{
    ChosenMethod, HintsFile, JoinPass, SavedBlocks, SavedJoin, SavedSync, Summary, reindex,
    reindex_files, sync,
};
#[cfg(feature = "export")]
pub use apus_tables::{Destination, Export, ExportTable, Exported, export};
pub use apus_tools::{
    SnapshotStatus, Status, Unfinished, UtxoHash, UtxoStats, status, txoutset_info,
};
pub use apus_wire::{Chain, Network, OutPoint};
pub use secp_lanes::Kernel;

/// The formats and forms of the files that [`fn@export`] writes.
#[cfg(feature = "export")]
pub use apus_export as tables;

/// Runs the program `apus` with the arguments of this process.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use cli::main as run_program;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub use cli::{options_in_process, options_of_sync, run_in_process, thousands};
