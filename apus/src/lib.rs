//! Apus: the fastest way from Bitcoin blocks to a verified UTXO set.
//!
//! The modules below stand from low to high; a module names only modules above it in this list,
//! and `tests/layers.rs` holds that. ARCHITECTURE.md says what each one does *not* know.

// Files, the error that blames the disk, and power cuts for tests.
pub mod disk;
// Hashes: SHA-256 of one message and of many side by side, MuHash3072.
pub mod hash;
// Bytes to views and back: cursor, CompactSize, VARINT, block view, network constants.
pub mod wire;
// Tables in LevelDB's on-disk format; does not know Bitcoin.
pub mod leveldb;
// The data directory: lock, blk and rev files, block index; does not know what a valid block is.
pub mod store;
// Coins: codec, cache, chainstate, UTXO set statistics; does not know consensus rules.
pub mod coins;
// One function for each consensus rule; does not know where coins come from.
pub mod rules;
// Hints and the aggregate that proves them; does not know the order of blocks, or files.
pub mod swiftsync;
// Headers: tree, work, median time past, best chain; does not know peers.
pub mod chain;
// The pipelines, and the only module that starts threads; does not know argument parsing.
pub mod sync;
// Commands, options, progress, exit codes.
#[cfg(feature = "cli")]
pub mod cli;

// Chain data for the tests of every module.
#[cfg(test)]
pub(crate) mod testdata;
