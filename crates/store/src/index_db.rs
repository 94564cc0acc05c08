use std::path::{Path, PathBuf};

use apus_disk::{Disk, Result, StoreError};
use apus_hash::{Hash, hex};
use apus_leveldb::{Db, Options};
use apus_wire::{Cursor, Network, put_compact_size};
use rayon::prelude::*;

use super::flat_file::FILES_MAX;
use super::obfuscation::OBFUSCATION_KEY;
use super::{BlockStatus, FileChanges, FileInfo, IndexEntry, Obfuscation};

/// First byte of the key of a block entry; its hash follows.
pub const DB_BLOCK_INDEX: u8 = b'b';
/// First byte of the key of a file info; its number follows, in 4 bytes, little endian.
pub const DB_BLOCK_FILES: u8 = b'f';
/// First byte of the key of a flag; the length of its name follows as a CompactSize, then the name.
pub const DB_FLAG: u8 = b'F';
/// The key of the number of the last file.
pub const DB_LAST_BLOCK: u8 = b'l';
/// The key of a record that exists while the index is being rebuilt.
pub const DB_REINDEX_FLAG: u8 = b'R';
/// The flag of a directory whose files have ever been pruned.
pub const PRUNED_FLAG: &str = "prunedblockfiles";

/// The flag of an index that Apus has rebuilt from the block files, until the chainstate is rebuilt
/// too. Core does not read it.
pub const REBUILT_FLAG: &str = "apusindexrebuilt";

/// The block index on disk: `blocks/index` (Core's `BlockTreeDB`).
pub struct IndexDb {
    db: Db,
    path: PathBuf,
    obfuscation: Obfuscation,
}

/// The whole content of the block index.
#[derive(Clone, Debug, Default)]
pub struct BlockIndex {
    /// The entries of all blocks and headers, ordered by hash.
    pub entries: Vec<IndexEntry>,
    /// The info of each blk and rev file, by its number; empty in a new index.
    pub files: Vec<FileInfo>,
    /// Whether files of the directory have ever been pruned.
    pub pruned: bool,
    /// Whether a program began to rebuild the index from the files and has not finished.
    pub reindexing: bool,
}

/// The content of the block index, including entries that [`IndexDb::load`] refuses.
#[derive(Clone, Debug, Default)]
pub struct IndexSurvey {
    /// The entries of blocks and headers, ordered by hash.
    pub entries: Vec<IndexEntry>,
    /// The records among the entries that are none: the key of each, and what is wrong with it.
    pub strangers: Vec<(Vec<u8>, String)>,
    /// The keys of records of kinds that Bitcoin Core does not know, and does not read.
    pub unknown: Vec<Vec<u8>>,
    /// Whether files of the directory have ever been pruned.
    pub pruned: bool,
}

/// Number of records that are parsed together when the index is loaded: 1 MB of them.
const LOADED_TOGETHER: usize = 4096;

/// Bytes after an entry from which on it is one of another kind, and not damaged.
const LONGER_MIN: usize = 16;
const LONGER: &str = "bytes longer than Bitcoin's, so it is of a chain that left Bitcoin's";

/// A key and its new value; `None` deletes the key.
type Change = (Vec<u8>, Option<Vec<u8>>);

impl IndexDb {
    /// Opens the index in the directory `path`, or creates it.
    pub fn open(disk: &Disk, path: &Path) -> Result<Self> {
        Self::open_with(disk, path, Options { create_if_missing: true, ..Options::default() })
    }

    /// Opens the index in the directory `path` for reading only.
    pub fn open_read_only(disk: &Disk, path: &Path) -> Result<Self> {
        Self::open_with(disk, path, Options { read_only: true, ..Options::default() })
    }

    /// Opens the index in the directory `path` for reading only and without a lock. Another program
    /// may be changing it, so an error does not show that the index is damaged.
    pub fn open_unlocked(disk: &Disk, path: &Path) -> Result<Self> {
        let options = Options { read_only: true, lock: false, ..Options::default() };
        Self::open_with(disk, path, options)
    }

    /// Replaces the content of the index in the directory `path` with these entries, these file
    /// infos and the flag [`REBUILT_FLAG`].
    ///
    /// The old content is replaced in one step if the database can be opened. If it is too damaged
    /// for that, it is removed first, and a crash may leave no index.
    pub fn rebuild(
        disk: &Disk,
        path: &Path,
        changes: &FileChanges,
        entries: &[IndexEntry],
    ) -> Result<()> {
        let options = || Options { create_if_missing: true, ..Options::default() };
        let db = match Db::open(disk.clone(), path, options()) {
            Err(error) if error.source.is_none() => {
                tracing::debug!(target: "reindex", "removing the damaged index: {error}");
                Db::destroy(disk, path)?;
                Db::open(disk.clone(), path, options())?
            }
            opened => opened?,
        };
        let index = Self { db, path: path.to_path_buf(), obfuscation: Obfuscation::NONE };
        let mut batch = index.batch(changes, entries);
        batch.push((flag_key(REBUILT_FLAG), Some(vec![b'1'])));
        batch.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let run = index.db.bulk()?;
        let mut writer = run.writer();
        for (key, value) in batch {
            writer.put(&key, &value.unwrap_or_default())?;
        }
        writer.finish()?;
        run.commit()
    }

    fn open_with(disk: &Disk, path: &Path, options: Options) -> Result<Self> {
        let db = Db::open(disk.clone(), path, options)?;
        let path = path.to_path_buf();
        let obfuscation = match db.get(OBFUSCATION_KEY)? {
            None => Obfuscation::NONE,
            Some(record) => Obfuscation::from_record(&record).ok_or_else(|| {
                StoreError::new(
                    &path,
                    "the record of the obfuscation key does not hold a key of 8 bytes",
                )
            })?,
        };
        Ok(Self { db, path, obfuscation })
    }

    /// Reads the whole index (Core's `LoadBlockIndexDB`). Entries are parsed, and their headers
    /// hashed, on the thread pool of the caller, who must also check the work and the parents of
    /// the headers.
    ///
    /// # Errors
    /// A record cannot be read, or its key is not the hash of its block; there are entries, but
    /// none for the genesis block of `network`.
    pub fn load(&self, network: &Network) -> Result<BlockIndex> {
        let entries = self.load_entries(|_, mut error| {
            if error.what.ends_with(LONGER) {
                error.what += "; `apus sync --reconsider` leaves such entries out";
            }
            Err(error)
        })?;
        let known = entries.binary_search_by(|entry| entry.hash.cmp(&network.genesis_hash));
        if !entries.is_empty() && known.is_err() {
            let what = format!(
                "this block index belongs to another network: it lacks the genesis block \
                 of chain {}",
                network.chain.name()
            );
            return Err(StoreError::new(&self.path, what));
        }
        Ok(BlockIndex {
            entries,
            files: self.load_files()?,
            pruned: self.read_flag(PRUNED_FLAG)?.unwrap_or(false),
            reindexing: self.db.get(&[DB_REINDEX_FLAG])?.is_some(),
        })
    }

    /// Reads everything that the index holds, and does not stop at records that [`IndexDb::load`]
    /// refuses.
    pub fn survey(&self) -> Result<IndexSurvey> {
        let mut strangers = Vec::new();
        let entries = self.load_entries(|key, error| {
            strangers.push((key.to_vec(), error.what));
            Ok(())
        })?;
        let known = [DB_BLOCK_FILES, DB_FLAG, DB_LAST_BLOCK, DB_REINDEX_FLAG, OBFUSCATION_KEY[0]];
        let mut unknown = Vec::new();
        for (from, to) in [(0, Some(DB_BLOCK_INDEX)), (DB_BLOCK_INDEX + 1, None)] {
            let to = to.map(|to| [to]);
            let mut cursor = self.db.scan(&[from], to.as_ref().map(|to| &to[..]))?;
            while let Some((key, _)) = cursor.next_entry()? {
                if !key.first().is_some_and(|kind| known.contains(kind)) {
                    unknown.push(key.to_vec());
                }
            }
        }
        let pruned = self.read_flag(PRUNED_FLAG)?.unwrap_or(false);
        Ok(IndexSurvey { entries, strangers, unknown, pruned })
    }

    /// Writes these entries and deletes the records with the keys `left_out`, durably and in one
    /// step.
    pub fn correct(&self, entries: &[IndexEntry], left_out: &[Vec<u8>]) -> Result<()> {
        let written = entries
            .iter()
            .map(|entry| (block_key(&entry.hash), Some(self.hidden(entry.to_bytes()))));
        let deleted = left_out.iter().map(|key| (key.clone(), None));
        self.apply(written.chain(deleted).collect())?;
        self.db.merge().map(|_| ())
    }

    /// Writes the changes returned by a flush of the files, and entries, in any order and each
    /// block once. They become durable in one step (Core's `WriteBatchSync`).
    pub fn write(&self, changes: &FileChanges, entries: &[IndexEntry]) -> Result<()> {
        self.apply(self.batch(changes, entries))?;
        // Otherwise every write would leave a run, and Core would have to compact them.
        self.db.merge().map(|_| ())
    }

    fn batch(&self, changes: &FileChanges, entries: &[IndexEntry]) -> Vec<Change> {
        let block =
            |entry: &IndexEntry| (block_key(&entry.hash), Some(self.hidden(entry.to_bytes())));
        let mut batch: Vec<Change> = entries.par_iter().map(block).collect();
        for (number, info) in &changes.infos {
            batch.push((file_key(*number), Some(self.hidden(info.to_bytes()))));
        }
        let last = changes.last_file.to_le_bytes().to_vec();
        batch.push((vec![DB_LAST_BLOCK], Some(self.hidden(last))));
        batch
    }

    /// Deletes the flag [`REBUILT_FLAG`].
    pub fn forget_rebuilt(&self) -> Result<()> {
        self.apply(vec![(flag_key(REBUILT_FLAG), None)])?;
        self.db.merge().map(|_| ())
    }

    /// Returns the value of a flag; `None` if it was never set (Core's `ReadFlag`).
    pub fn read_flag(&self, name: &str) -> Result<Option<bool>> {
        let value = self.db.get(&flag_key(name))?;
        Ok(value.map(|value| self.revealed(value) == [b'1']))
    }

    /// Sets a flag (Core's `WriteFlag`).
    pub fn write_flag(&self, name: &str, value: bool) -> Result<()> {
        let value = if value { b'1' } else { b'0' };
        self.apply(vec![(flag_key(name), Some(self.hidden(vec![value])))])
    }

    /// Sets the flag of pruned files, which must happen before the first file is pruned.
    pub fn write_pruned(&self) -> Result<()> {
        self.write_flag(PRUNED_FLAG, true)
    }

    /// Records whether the index is being rebuilt (Core's `WriteReindexing`).
    pub fn write_reindexing(&self, reindexing: bool) -> Result<()> {
        let value = reindexing.then(|| self.hidden(vec![b'1']));
        self.apply(vec![(vec![DB_REINDEX_FLAG], value)])
    }

    /// Merges everything into one level of tables, before the directory is handed to another
    /// program. Otherwise this is not needed: every write merges tables when there are too many.
    pub fn merge_all(&self) -> Result<()> {
        self.db.merge_all()
    }

    fn apply(&self, mut batch: Vec<Change>) -> Result<()> {
        batch.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        self.db.apply(batch)
    }

    /// Reads all entries, some at a time: the records of 950,000 blocks would take 200 MB. Stops if
    /// `refused`, which is called with each record that is no entry, returns an error.
    fn load_entries(
        &self,
        mut refused: impl FnMut(&[u8], StoreError) -> Result<()>,
    ) -> Result<Vec<IndexEntry>> {
        let mut entries = Vec::new();
        let mut raw: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(LOADED_TOGETHER);
        let mut cursor = self.db.scan(&[DB_BLOCK_INDEX], Some(&[DB_BLOCK_INDEX + 1]))?;
        loop {
            raw.clear();
            while raw.len() < LOADED_TOGETHER
                && let Some((key, value)) = cursor.next_entry()?
            {
                raw.push((key.to_vec(), value.to_vec()));
            }
            if raw.is_empty() {
                return Ok(entries);
            }
            let parse = |(key, value): &(Vec<u8>, Vec<u8>)| self.parse_entry(key, value);
            let parsed: Vec<Result<IndexEntry>> = raw.par_iter().map(parse).collect();
            for ((key, _), entry) in raw.iter().zip(parsed) {
                match entry {
                    Ok(entry) => entries.push(entry),
                    Err(error) => refused(key, error)?,
                }
            }
        }
    }

    fn parse_entry(&self, key: &[u8], value: &[u8]) -> Result<IndexEntry> {
        let value = self.revealed(value.to_vec());
        let mut entry = IndexEntry::parse(&value)
            .map_err(|e| self.corrupt(key, format!("is not a block entry: {e}")))?;
        if key[1..] != entry.hash.0 {
            // A header of Bitcoin's ends its record.
            let rest = value.len().saturating_sub(entry.to_bytes().len());
            if rest >= LONGER_MIN {
                let what = format!("holds a header that is {rest} {LONGER}");
                return Err(self.corrupt(key, what));
            }
            return Err(self.corrupt(key, format!("holds the header of block {}", entry.hash)));
        }
        if entry.record.status.has(BlockStatus::BLOCK_FAILED_CHILD) {
            entry.record.status.0 &= !BlockStatus::BLOCK_FAILED_CHILD;
            entry.record.status.0 |= BlockStatus::BLOCK_FAILED_VALID;
        }
        Ok(entry)
    }

    /// Returns the infos of all files up to the last one, where missing infos count as empty, and
    /// of the files after it up to the first without an info.
    fn load_files(&self) -> Result<Vec<FileInfo>> {
        let mut files = Vec::new();
        let last = self.load_last_file()?;
        for number in 0..FILES_MAX {
            let key = file_key(number);
            match self.db.get(&key)? {
                Some(value) => {
                    let info = FileInfo::parse(&self.revealed(value));
                    let bad = |e| self.corrupt(&key, format!("is not a file info: {e}"));
                    files.push(info.map_err(bad)?);
                }
                None if last.is_some_and(|last| number <= last) => files.push(FileInfo::default()),
                None => break,
            }
        }
        Ok(files)
    }

    fn load_last_file(&self) -> Result<Option<u32>> {
        let Some(value) = self.db.get(&[DB_LAST_BLOCK])? else {
            return Ok(None);
        };
        let value = self.revealed(value);
        match Cursor::new(&value).u32() {
            Ok(last) if last < FILES_MAX => Ok(Some(last)),
            _ => Err(self.corrupt(&[DB_LAST_BLOCK], "is not a file number".to_string())),
        }
    }

    fn hidden(&self, mut value: Vec<u8>) -> Vec<u8> {
        self.obfuscation.apply(&mut value, 0);
        value
    }

    fn revealed(&self, value: Vec<u8>) -> Vec<u8> {
        self.hidden(value)
    }

    fn corrupt(&self, key: &[u8], what: String) -> StoreError {
        StoreError::new(&self.path, format!("the record under key {} {what}", hex(key)))
    }
}

/// Returns the key of a block's entry.
pub fn block_key(hash: &Hash) -> Vec<u8> {
    [&[DB_BLOCK_INDEX], &hash.0[..]].concat()
}

fn file_key(number: u32) -> Vec<u8> {
    [&[DB_BLOCK_FILES], &number.to_le_bytes()[..]].concat()
}

fn flag_key(name: &str) -> Vec<u8> {
    let mut key = vec![DB_FLAG];
    put_compact_size(&mut key, name.len() as u64);
    key.extend_from_slice(name.as_bytes());
    key
}
