//! Entries by height (Core's `index/db_key.h`): those of the active chain have the height as key,
//! and those of disconnected blocks the hash.

use std::path::Path;

use apus_disk::{Result, StoreError};
use apus_hash::Hash;
use apus_leveldb::Db;

use super::block::StoredBlock;
use super::sorting::Other;

/// The first byte of the key of an entry by hash (Core's `DB_BLOCK_HASH`).
pub const DB_BLOCK_HASH: u8 = b's';
/// The first byte of the key of an entry by height (Core's `DB_BLOCK_HEIGHT`).
pub const DB_BLOCK_HEIGHT: u8 = b't';

/// Returns the key of the entry of the active chain's block at `height`.
pub fn height_key(height: u32) -> [u8; 5] {
    let mut key = [DB_BLOCK_HEIGHT; 5];
    key[1..].copy_from_slice(&height.to_be_bytes());
    key
}

/// Returns the key of the entry of a disconnected block.
pub fn hash_key(hash: &Hash) -> [u8; 33] {
    let mut key = [DB_BLOCK_HASH; 33];
    key[1..].copy_from_slice(&hash.0);
    key
}

/// Returns the value of a block, without the hash before it (Core's `LookUpOne`); `None` if there
/// is none.
pub fn look_up(db: &Db, height: u32, hash: &Hash) -> Result<Option<Vec<u8>>> {
    let by_height = db.get(&height_key(height))?;
    match by_height.as_deref().and_then(|value| value.strip_prefix(&hash.0)) {
        Some(value) => Ok(Some(value.to_vec())),
        None => db.get(&hash_key(hash)),
    }
}

/// Returns the entries by hash of blocks that were disconnected, copies of those by height (Core's
/// `CopyHeightIndexToHashIndex`).
///
/// # Errors
/// The index at `path` has no entry for one of them, or cannot be read.
pub fn entries_by_hash(db: &Db, path: &Path, stale: &[StoredBlock]) -> Result<Vec<Other>> {
    let copy = |block: &StoredBlock| match look_up(db, block.height, &block.hash)? {
        Some(value) => Ok((hash_key(&block.hash).to_vec(), Some(value))),
        None => Err(no_entry(path, block)),
    };
    stale.iter().map(copy).collect()
}

/// Returns the error for an index that lacks the entry of a block.
pub fn no_entry(path: &Path, block: &StoredBlock) -> StoreError {
    let what = format!(
        "the index has no entry for block {}, {}, although its best block is not below: remove \
         the index, and build it again",
        block.height, block.hash
    );
    StoreError::new(path, what)
}
