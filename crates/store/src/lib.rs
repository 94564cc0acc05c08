//! The data directory of Bitcoin Core: its locks, blk and rev files, block index and pruning.
//!
//! This crate knows bytes and where they are stored. It does not know what a valid block is, what a
//! coin is (undo data is a payload with a checksum), or which chain is best.
//!
//! The block index never names a block that a crash may lose: [`IndexDb::write`] requires
//! [`FileChanges`], which [`BlockFiles::end_flush`] returns, after it has made blocks and undo
//! data durable.

#![warn(missing_docs)]

mod block_files;
mod block_reader;
mod blocks_dir;
mod data_dir;
mod file_info;
mod flat_file;
mod index_db;
mod index_entry;
mod indexes;
mod lock;
mod magic;
mod obfuscation;
mod pruning;
mod root;
mod scan;
mod source;
mod source_file;
mod source_scan;
#[cfg(test)]
mod tests;
mod undo_source;
mod writer;

/// The keys, flags and constants of the block index that docs/format.md lists.
pub mod layout {
    pub use super::index_db::{
        DB_BLOCK_FILES, DB_BLOCK_INDEX, DB_FLAG, DB_LAST_BLOCK, DB_REINDEX_FLAG, PRUNED_FLAG,
        REBUILT_FLAG,
    };
    pub use super::index_entry::DUMMY_VERSION;
    pub use super::indexes::{DB_BEST_BLOCK, DB_BEST_BLOCK_V2, LOCATOR_VERSION};
    pub use super::obfuscation::OBFUSCATION_KEY;
}

pub use block_files::{BlockFiles, EncodedUndo, UndoRecord, Unflushed};
pub use block_reader::BlockReader;
pub use blocks_dir::list_block_files;
pub use data_dir::{DataDir, DataDirOptions, refuse_missing_blocks};
pub use file_info::{FileChanges, FileInfo};
pub use flat_file::{
    BLOCKFILE_CHUNK_SIZE, BlockFilesOptions, FlatFilePos, MAX_BLOCKFILE_SIZE, STORAGE_HEADER_BYTES,
    UNDO_DATA_DISK_OVERHEAD, UNDOFILE_CHUNK_SIZE,
};
pub use index_db::{BlockIndex, IndexDb, IndexSurvey, block_key};
pub use index_entry::{BlockStatus, IndexEntry, IndexRecord};
pub use indexes::{
    IndexKind, OptionalIndex, TxIndexForm, find_index, indexes_that_need_blocks, locator_bytes,
    read_locator,
};
pub use lock::DirLock;
pub use magic::MAX_BLOCK_BYTES;
pub use obfuscation::Obfuscation;
pub use pruning::{
    MIN_BLOCKS_TO_KEEP, PRUNE_TARGET_MIN, files_above_target, files_up_to, prunable_height,
    stored_from, usage,
};
pub use root::check_root;
pub use scan::{FileScan, ScanWarning, Scanned};
pub use source::BlockSource;
pub use source_file::SourceFile;
pub use source_scan::{SourceBlock, SourceItem, SourceScan};
pub use undo_source::{UndoFile, UndoPlace};
pub use writer::{Lane, MIN_DISK_SPACE_BYTES};
