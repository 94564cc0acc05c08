//! Core's optional indexes (`indexes/`): where each is, and the best block of each. Core refuses to
//! start if blocks that an index still needs are pruned.

use std::path::{Path, PathBuf};

use apus_disk::{Disk, Result, StoreError};
use apus_hash::Hash;
use apus_leveldb::{Db, Options};
use apus_wire::{Cursor, ParseError, put_compact_size};

use super::obfuscation::OBFUSCATION_KEY;

/// The key of the locator of an index's best block (Core's `DB_BEST_BLOCK`).
pub const DB_BEST_BLOCK: u8 = b'B';
/// The key of the locator of `txindex` that has entries in the form of Core v32, as Core writes a
/// string: its length, and its bytes (Core's `DB_BEST_BLOCK_V2`).
pub const DB_BEST_BLOCK_V2: &[u8] = b"\x0dbest_block_v2";
/// The version at the start of a locator, which no program reads (Core's
/// `CBlockLocator::DUMMY_VERSION`).
pub const LOCATOR_VERSION: i32 = 70_016;

/// One of Core's optional indexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexKind {
    /// The place of each transaction by its txid (`-txindex`).
    TxIndex,
    /// The place of the transaction that spends each output (`-txospenderindex`).
    TxoSpenderIndex,
    /// The compact filter of each block (BIP158; `-blockfilterindex`).
    BlockFilterIndex,
    /// Statistics of the UTXO set after each block (`-coinstatsindex`).
    CoinStatsIndex,
}

impl IndexKind {
    /// All indexes.
    pub const ALL: [Self; 4] =
        [Self::TxIndex, Self::TxoSpenderIndex, Self::BlockFilterIndex, Self::CoinStatsIndex];

    /// Returns the name of Core's option for the index.
    pub fn name(self) -> &'static str {
        match self {
            Self::TxIndex => "txindex",
            Self::TxoSpenderIndex => "txospenderindex",
            Self::BlockFilterIndex => "blockfilterindex",
            Self::CoinStatsIndex => "coinstatsindex",
        }
    }

    /// Returns the path of the index's database in the network's directory `dir`.
    pub fn database(self, dir: &Path) -> PathBuf {
        dir.join("indexes").join(match self {
            Self::TxIndex => "txindex",
            Self::TxoSpenderIndex => "txospenderindex/db",
            Self::BlockFilterIndex => "blockfilter/basic/db",
            Self::CoinStatsIndex => "coinstatsindex/db",
        })
    }

    /// Returns whether the index needs the coins that each block spends, which undo data holds.
    pub fn needs_undo(self) -> bool {
        matches!(self, Self::BlockFilterIndex | Self::CoinStatsIndex)
    }

    /// Returns whether the index may be kept in a directory that is pruned: its entries do not name
    /// places in block files.
    pub fn survives_pruning(self) -> bool {
        self.needs_undo()
    }
}

/// The form of the entries of `txindex`. One database may have entries in both forms, each up to a
/// best block of its own: then a bitcoind of either version has worked on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxIndexForm {
    /// Keys are whole txids. Every bitcoind reads them; those before v32 read no others.
    Core31,
    /// Keys begin with a few bytes of a hash of the txid, which takes less than half the space.
    /// bitcoind reads and writes them from v32 on.
    Core32,
}

impl TxIndexForm {
    /// Returns the version of Bitcoin Core that writes this form.
    pub fn core_version(self) -> u32 {
        match self {
            Self::Core31 => 31,
            Self::Core32 => 32,
        }
    }

    /// Returns the key of the locator of the best block that entries in this form reach.
    pub fn best_block_key(self) -> &'static [u8] {
        match self {
            Self::Core31 => &[DB_BEST_BLOCK],
            Self::Core32 => DB_BEST_BLOCK_V2,
        }
    }
}

/// An optional index and its best block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionalIndex {
    /// Path of its database.
    pub path: PathBuf,
    /// Its best block; `None` if it has none yet. Of `txindex`, that of the entries in the form of
    /// Core v31.
    pub best: Option<Hash>,
    /// The best block of the entries of `txindex` in the form of Core v32; `None` if there are
    /// none.
    pub best_core32: Option<Hash>,
}

impl OptionalIndex {
    /// Returns the index whose database at `path` is open.
    ///
    /// # Errors
    /// The database cannot be read, or its values are obfuscated, as Core's never are.
    pub fn of(db: &Db, path: &Path) -> Result<Self> {
        if db.get(OBFUSCATION_KEY)?.is_some() {
            let what = "the values of this index are obfuscated, which Bitcoin Core never does: \
                        remove the index, and build it again";
            return Err(StoreError::new(path, what));
        }
        let best = |form: TxIndexForm| {
            let Some(value) = db.get(form.best_block_key())? else { return Ok(None) };
            read_locator(&value).map_err(|error| {
                let what = format!("the record of its best block cannot be read: {error}");
                StoreError::new(path, what)
            })
        };
        Ok(Self {
            path: path.to_path_buf(),
            best: best(TxIndexForm::Core31)?,
            best_core32: best(TxIndexForm::Core32)?,
        })
    }

    /// Returns its best block, or both of a `txindex` with entries in two forms: first that of the
    /// form of Core v31, which all other indexes have.
    pub fn reached(&self) -> impl Iterator<Item = (TxIndexForm, Hash)> {
        let core31 = self.best.map(|best| (TxIndexForm::Core31, best));
        let core32 = self.best_core32.map(|best| (TxIndexForm::Core32, best));
        core31.into_iter().chain(core32)
    }
}

/// Returns the indexes in the network's directory `dir` that hold back pruning: those of block
/// filters and of UTXO set statistics. Core refuses to build the others while it prunes.
///
/// # Errors
/// A database cannot be read.
pub fn indexes_that_need_blocks(disk: &Disk, dir: &Path) -> Result<Vec<OptionalIndex>> {
    let mut databases = vec![IndexKind::CoinStatsIndex.database(dir)];
    let filters = dir.join("indexes/blockfilter");
    if filters.is_dir() {
        databases.extend(disk.list(&filters)?.iter().map(|name| filters.join(name).join("db")));
    }
    let indexes = databases.into_iter().map(|path| find_index(disk, path));
    indexes.filter_map(Result::transpose).collect()
}

/// Returns the index whose database is at `path`, and its best block; `None` if there is none.
///
/// # Errors
/// The database cannot be read.
pub fn find_index(disk: &Disk, path: PathBuf) -> Result<Option<OptionalIndex>> {
    if !path.join("CURRENT").is_file() {
        return Ok(None);
    }
    let options = Options { read_only: true, lock: false, ..Options::default() };
    let db = Db::open(disk.clone(), &path, options)?;
    Ok(Some(OptionalIndex::of(&db, &path)?))
}

/// Returns the first block of a serialised locator (Core's `CBlockLocator`): the best block of an
/// index. `None` if the locator is empty.
///
/// # Errors
/// The bytes are not a locator.
pub fn read_locator(bytes: &[u8]) -> std::result::Result<Option<Hash>, ParseError> {
    let mut cursor = Cursor::new(bytes);
    cursor.u32()?;
    match cursor.compact_size()? {
        0 => Ok(None),
        _ => Ok(Some(Hash(cursor.array()?))),
    }
}

/// Returns the serialised locator of these blocks, the best one first.
pub fn locator_bytes(hashes: &[Hash]) -> Vec<u8> {
    let mut bytes = LOCATOR_VERSION.to_le_bytes().to_vec();
    put_compact_size(&mut bytes, hashes.len() as u64);
    hashes.iter().for_each(|hash| bytes.extend_from_slice(&hash.0));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locator_is_read_as_it_was_written() {
        let hashes = [Hash([1; 32]), Hash([2; 32])];
        let bytes = locator_bytes(&hashes);
        assert_eq!(read_locator(&bytes), Ok(Some(hashes[0])));
        assert_eq!(read_locator(&locator_bytes(&[])), Ok(None));
        assert!(read_locator(&bytes[..36]).is_err());
    }
}
