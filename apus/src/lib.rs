//! Apus: the fastest way from Bitcoin blocks to a verified UTXO set.
//!
//! [`sync`] takes blocks from files and from other data directories, checks every consensus rule,
//! and leaves a data directory that Bitcoin Core opens and carries on from. [`reindex`] rebuilds
//! the UTXO set of a directory from its blocks. With [`Options::hints`] both go by SwiftSync: in
//! any order, without look-ups, and proved at the end.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use apus::{AssumeValid, Chain, Network, Options, Unobserved, UtxoHash};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let datadir = tempfile::tempdir()?;
//! let blocks = concat!(env!("CARGO_MANIFEST_DIR"), "/data/regtest-1-206.dat");
//! let options = Options {
//!     assumevalid: AssumeValid::Nothing,
//!     ..Options::new(datadir.path().to_path_buf(), Network::new(Chain::Regtest))
//! };
//!
//! // Another thread may raise this flag: then what is done is saved, and the call returns.
//! let stop = AtomicBool::new(false);
//! let summary = apus::sync(&options, &[blocks.into()], &Unobserved, &stop)?;
//! assert_eq!(summary.height, 206);
//! assert!(summary.refusals.is_empty() && summary.checked.not_checked().is_empty());
//!
//! // What `bitcoin-cli gettxoutsetinfo muhash` says of the same directory.
//! let stats = apus::txoutset_info(&options, UtxoHash::MuHash, &Unobserved, &stop)?;
//! let stats = stats.expect("nobody raises the flag");
//! assert_eq!(stats.best_block, summary.best_block);
//! assert_eq!(Some(stats.txouts), summary.coins);
//! # Ok(())
//! # }
//! ```
//!
//! The crate's default feature `cli` holds the program `apus` and its dependencies; a library
//! user sets `default-features = false`.

// What the modules re-export for our own tests alone.
#![cfg_attr(not(feature = "internals"), allow(unused_imports))]
// What only the program uses.
#![cfg_attr(not(feature = "cli"), allow(dead_code))]

// The modules stand from low to high; a module names only modules above it in this list, and
// `apus/tests/layers` holds that. ARCHITECTURE.md says what each one does *not* know. They are
// private, so that the compiler finds what nobody uses; the feature `internals` opens them to our
// own tests, benchmarks and fuzzing.
#[path = ""]
mod internals {
    // Files, the error that blames the disk, and power cuts for tests.
    pub mod disk;
    // Hashes: SHA-256 of one message and of many side by side, MuHash3072.
    pub mod hash;
    // Bytes to views and back: cursor, CompactSize, VARINT, block view, network constants.
    pub mod wire;
    // Tables in LevelDB's on-disk format; does not know Bitcoin.
    pub mod leveldb;
    // The data directory: lock, blk and rev files, block index; does not know what a valid block
    // is.
    pub mod store;
    // Coins: codec, cache, chainstate, UTXO set statistics; does not know consensus rules.
    pub mod coins;
    // Outputs and spends that meet in partitions; does not know rules, blocks' files, or threads.
    pub mod join;
    // The message that a signature signs; does not know blocks or where coins come from.
    pub mod sighash;
    // Which signatures a spend asks for; verifies none, and does not know where coins come from.
    pub mod script;
    // One function for each consensus rule; does not know where coins come from.
    pub mod rules;
    // Hints and the aggregate that proves them; does not know the order of blocks, or files.
    pub mod swiftsync;
    // Headers: tree, work, median time past, best chain; does not know peers.
    pub mod chain;
    // Peers: transport, protocol, headers, and which block is asked of whom; does not know
    // validation.
    pub mod net;
    // An opened data directory, and what is done to a single block; does not know which method of
    // syncing asks.
    pub mod node;
    // Threads and sockets around `net`; does not know validation.
    pub mod peers;
    // The pipelines: in order, join, SwiftSync; does not know argument parsing.
    pub mod sync;
    // Hints, snapshots, export, proofs; does not know how a sync works.
    pub mod tools;
    // Commands, options, progress, exit codes.
    #[cfg(feature = "cli")]
    pub mod cli;

    // Chain data for the tests of every module.
    #[cfg(test)]
    pub(crate) mod testdata;
}

#[cfg(feature = "internals")]
#[doc(hidden)]
pub use internals::*;
#[cfg(not(feature = "internals"))]
use internals::*;

pub use disk::StoreError;
pub use hash::{Hash, ParseHashError};
pub use net::PeerOptions;
pub use node::{
    AggregateKind, AssumeValid, Checked, Counts, ErrorKind, MemoryInUse, Method, NotChecked,
    Observer, Options, Phase, Progress, Refusal, RuleGroup, ScriptCounts, ScriptDifference,
    ScriptEngine, SyncError, ThreadStates, Tip, Unobserved, Waits, memory_in_use,
};
pub use peers::PeerReport;
pub use rules::{RuleClass, RuleError};
pub use secp_lanes::Kernel;
pub use swiftsync::{Format, Hints, HintsError, Numbering};
pub use sync::{
    ChosenMethod, HintsFile, JoinPass, SavedBlocks, SavedJoin, Summary, reindex, reindex_files,
    sync,
};
#[cfg(feature = "export")]
pub use tools::{Destination, Export, ExportTable, Exported, export};
pub use tools::{
    HintsSummary, SnapshotStatus, Status, Unfinished, UtxoHash, UtxoStats, compress_hints,
    conversion_needs_blocks, convert_hints, create_hints, status, txoutset_info, verify_hints,
};
pub use wire::{Chain, Network, OutPoint};

/// Tables as files: the formats and forms of [`fn@export`].
#[cfg(feature = "export")]
pub use apus_export as tables;

/// Runs the program `apus` with the arguments of this process.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use cli::main as run_program;
