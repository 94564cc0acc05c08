//! Core's optional indexes that need blocks (`indexes/`), and the best block of each. Core refuses
//! to start if blocks above that are pruned.

use std::path::{Path, PathBuf};

use apus_disk::{Disk, Result, StoreError};
use apus_hash::Hash;
use apus_leveldb::{Db, Options};
use apus_wire::Cursor;

use super::obfuscation::{OBFUSCATION_KEY, Obfuscation};

/// The key of the locator of an index's best block (Core's `DB_BEST_BLOCK`).
const DB_BEST_BLOCK: u8 = b'B';

/// An optional index and its best block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionalIndex {
    /// Path of its database.
    pub path: PathBuf,
    /// Its best block; `None` if it has none yet.
    pub best: Option<Hash>,
}

/// Returns the indexes in the network's directory `dir` that hold back pruning: those of block
/// filters and of UTXO set statistics. Core refuses to build the others while it prunes.
///
/// # Errors
/// A database cannot be read.
pub fn indexes_that_need_blocks(disk: &Disk, dir: &Path) -> Result<Vec<OptionalIndex>> {
    let indexes = dir.join("indexes");
    let mut databases = vec![indexes.join("coinstatsindex/db")];
    let filters = indexes.join("blockfilter");
    if filters.is_dir() {
        databases.extend(disk.list(&filters)?.iter().map(|name| filters.join(name).join("db")));
    }
    let present = databases.into_iter().filter(|path| path.join("CURRENT").is_file());
    present.map(|path| Ok(OptionalIndex { best: best_block(disk, &path)?, path })).collect()
}

fn best_block(disk: &Disk, path: &Path) -> Result<Option<Hash>> {
    let options = Options { read_only: true, lock: false, ..Options::default() };
    let db = Db::open(disk.clone(), path, options)?;
    let Some(mut value) = db.get(&[DB_BEST_BLOCK])? else { return Ok(None) };
    if let Some(key) = db.get(OBFUSCATION_KEY)? {
        let key = Obfuscation::from_record(&key);
        key.ok_or_else(|| StoreError::new(path, "its obfuscation key does not have 8 bytes"))?
            .apply(&mut value, 0);
    }
    // A CBlockLocator: an unused version, then hashes, the best block's first.
    let parse = || {
        let mut cursor = Cursor::new(&value);
        cursor.u32()?;
        match cursor.compact_size()? {
            0 => Ok(None),
            _ => Ok(Some(Hash(cursor.array()?))),
        }
    };
    parse().map_err(|error: apus_wire::ParseError| {
        StoreError::new(path, format!("the record of its best block cannot be read: {error}"))
    })
}
