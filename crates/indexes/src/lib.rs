//! Bitcoin Core's optional indexes, built from stored blocks and undo data: `txindex`,
//! `txospenderindex`, `blockfilterindex` and `coinstatsindex`, in the formats of Core v31 and v32.
//!
//! This crate does not know how blocks are found or validated: it reads the active chain of an
//! opened directory. Nothing of an index is visible before it is complete up to its new best block,
//! and the chainstate is never written.
//!
//! | module | contents |
//! |---|---|
//! | [`update`](mod@update) | [`update()`]: builds indexes, or continues them up to the tip |
//! | `plan`, `opened` | what an index lacks; an index that is open for writing |
//! | `saved`, `sorted` | entries that are sorted, over interruptions |
//! | `space` | the disk space that indexes take |
//! | `pass` | the pass over blocks and undo data, on all threads, that serves all indexes |
//! | `positions` | entries that name places of transactions: `txindex`, `txospenderindex` |
//! | `short_txs` | entries of `txindex` in the form of Core v32 |
//! | `by_height` | the two indexes with an entry for each height, while blocks are appended |
//! | `filters`, `filter_files` | the index of filters, and its files |
//! | `totals` | the index of statistics |
//! | `heights` | entries by height and by hash, which these two have |
//! | `golomb`, `statistics` | the filter of a block (BIP158); what it changes in the statistics |
//! | `wanted_scripts` | whether a filter has some of many scripts |
//! | `own_coins` | the coins that a block both creates and spends |
//! | `sorting` | an external sort that ends in tables |
//! | `reading` | answers from indexes that exist, also while they are written |
//! | `verify` | which of the indexes that exist are damaged |
//! | `uniform` | a sort for keys that are hashes |
//! | `block` | a stored block, read together with the coins that it spends |

mod uniform;
mod block;
mod golomb;
mod wanted_scripts;
mod own_coins;
mod statistics;
mod sorting;
mod heights;
mod filter_files;
mod filters;
mod totals;
mod positions;
mod short_txs;
mod plan;
mod saved;
mod opened;
mod space;
mod sorted;
mod pass;
mod by_height;
mod reading;
mod verify;
pub mod update;

/// The keys and constants of the indexes that docs/format.md lists.
pub mod layout {
    pub use super::filter_files::{FLTR_FILE_CHUNK_SIZE, MAX_FLTR_FILE_SIZE};
    pub use super::filters::DB_FILTER_POS;
    pub use super::golomb::{BASIC_FILTER_M, BASIC_FILTER_P};
    pub use super::heights::{DB_BLOCK_HASH, DB_BLOCK_HEIGHT};
    pub use super::positions::{DB_TXINDEX, DB_TXOSPENDERINDEX, SIPHASH_KEY};
    pub use super::short_txs::{
        DB_BLOCK_SEQ, DB_SEQ_OF_BLOCK, DB_TXINDEX_HASHED, HASH_PREFIX_SIZE, NEXT_BLOCK_SEQ,
        TXID_HASH_SALT,
    };
    pub use super::totals::DB_MUHASH;
}

pub use filters::FilterEntry;
pub use opened::Upkeep;
pub use positions::SipKeys;
pub use reading::{
    Filter, IndexReach, IndexReader, IndexedTx, StatisticsAt, TxPlace, reached, statistics_at,
};
pub use saved::SavedSort;
pub use statistics::Totals;
pub use update::{Indexed, update};
pub use verify::damaged_indexes;
pub use wanted_scripts::WantedScripts;
