//! Coins: encoding, cache, chainstate, UTXO set statistics. This crate does not know consensus
//! rules.
//!
//! A coin keeps its compressed form from the block to the tables and to the undo data, so that
//! writing it is a copy. A cached coin takes 106 bytes, 92 of them without its share of the hash
//! table, where Core's takes 154.

#![warn(missing_docs)]

mod cache;
mod chainstate;
mod changes;
mod coin;
mod coins_view;
mod find;
mod groups;
mod hasher;
mod lookup;
mod memory;
mod runs;
mod script;
mod sections;
mod shard;
mod shards;
mod slab;
mod snapshot;
mod spent_coins;
mod stats;
mod survivors;
mod table;
#[cfg(test)]
mod tests;
mod undo;

/// Constants of the chainstate's records, which docs/format.md describes.
pub mod layout {
    pub use super::chainstate::HEAD_BLOCKS;
    pub use super::coin::COIN_PREFIX;
    pub use super::coins_view::BEST_BLOCK;
    pub use super::script::SPECIAL_TYPES;
    pub use apus_store::layout::OBFUSCATION_KEY as OBFUSCATION_RECORD;
    pub use apus_wire::MAX_SCRIPT_BYTES;
}

pub use cache::CoinsCache;
pub use chainstate::{Bulk, Chainstate, CoinWriter};
pub use changes::Changes;
pub use coin::{
    Coin, CoinParts, compress_amount, decode_coin_key, decompress_amount, key_order, put_coin_key,
};
pub use coins_view::{CoinScan, CoinsView};
pub use find::FoundCoins;
pub use lookup::{Lookup, Overwrite, Overwritten};
pub use script::{CompactScript, compress_script};
pub use sections::{BlockCoins, SECTIONS, SortedCoins};
pub use shards::CacheSizes;
pub use snapshot::{
    GroupCoin, GroupCoins, SNAPSHOT_MAGIC, SnapshotCoins, SnapshotError, SnapshotFile,
    SnapshotGroup, SnapshotHead, SnapshotPiece, SnapshotPieces, SnapshotReadError, SnapshotStats,
    snapshot_stats, snapshot_stats_sorted,
};
pub use spent_coins::{SpentCoinsReader, put_spent_coins};
pub use stats::{HashType, UtxoStats, bogosize, put_hashed_coin};
pub use survivors::{SavedSurvivors, SurvivorWriter, Survivors, WriteError};
pub use undo::{BlockUndo, Heights, UndoError, complete_heights, for_each_spending_tx};

// For the join, which keeps outputs itself.
pub use coin::{VOUT_UNORDERED, vout_order};
pub use script::{Compressed, put_compressed_script_at, take_compressed};
pub use {
    hasher::TxidHasher,
    memory::{large_vec, prefetch},
    runs::{ChangeSink, SortedRuns},
    table::Table,
};
