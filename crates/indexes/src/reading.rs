//! Answers from indexes that exist.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use apus_chain::Tree;
use apus_disk::{Disk, Result, StoreError, lock};
use apus_hash::{Hash, sha256d};
use apus_leveldb::{Db, Options};
use apus_node::commit::Ledger;
use apus_store::{DataDir, FlatFilePos, IndexKind, OptionalIndex, TxIndexForm, find_index};
use apus_wire::{Cursor, OutPoint, ParseError};

use super::filter_files::MAX_FLTR_FILE_SIZE;
use super::filters::{FilterEntry, read_number, read_pos};
use super::heights::look_up;
use super::positions::{DB_TXINDEX, SIPHASH_KEY, SipKeys, spend_prefix};
use super::short_txs::{DB_TXINDEX_HASHED, TXID_HASH_SALT, number_key, read_end, short_hash};
use super::statistics::Totals;
use super::wanted_scripts::WantedScripts;

/// How often an index is opened again because its tables were merged in the meantime.
const TRIES: usize = 8;

/// Reads the indexes of a directory, each as of its last commit, also while this process writes
/// them. Any number of threads may share it.
pub struct IndexReader {
    disk: Disk,
    /// The network's directory.
    dir: PathBuf,
    /// By [`IndexKind`], what was opened last.
    opened: [Mutex<Option<Arc<Opened>>>; IndexKind::ALL.len()],
}

/// The place of a transaction (Core's `CDiskTxPos`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxPlace {
    /// The place of its block.
    pub block: FlatFilePos,
    /// Number of bytes between the header of the block and the transaction.
    pub offset: u32,
}

/// Where `txindex` has a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexedTx {
    /// The transaction with the txid that was looked for, by an entry in the form of Core v31.
    At(TxPlace),
    /// A transaction whose txid has the same short hash, by an entry in the form of Core v32.
    InBlock {
        /// The hash of its block.
        block: Hash,
        /// Number of bytes between the header of the block and the transaction.
        offset: u32,
    },
}

/// A filter, with the chain of filter headers (BIP157).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    /// The serialised filter (BIP158).
    pub bytes: Vec<u8>,
    /// The filter header.
    pub header: Hash,
}

/// An index as of one commit.
struct Opened {
    stamp: Stamp,
    path: PathBuf,
    db: Db,
}

/// The parts of a database that each commit changes.
#[derive(PartialEq, Eq)]
struct Stamp {
    /// The content of the file CURRENT, which names the manifest.
    current: Vec<u8>,
    manifest_bytes: u64,
}

impl IndexReader {
    pub fn new(disk: &Disk, dir: &Path) -> Self {
        Self { disk: disk.clone(), dir: dir.to_path_buf(), opened: Default::default() }
    }

    /// Returns an index with its best block; `None` if there is no such index.
    pub fn find(&self, kind: IndexKind) -> Result<Option<OptionalIndex>> {
        self.read(kind, |Opened { db, path, .. }| OptionalIndex::of(db, path))
    }

    /// Reads every table of an index that there is, and checks checksums and the order of keys,
    /// until `goes_on` is false.
    pub fn verify_tables(&self, kind: IndexKind, goes_on: impl Fn() -> bool + Sync) -> Result<()> {
        self.read(kind, |opened| opened.db.verify_while(&goes_on)).map(drop)
    }

    /// Returns where `txindex` has the transaction with a txid, from entries in both forms: first
    /// the transactions whose hash begins as that of the txid, those of later blocks first. Their
    /// blocks may have been disconnected, as in Core.
    pub fn transactions(&self, txid: &Hash) -> Result<Vec<IndexedTx>> {
        let found = self.read(IndexKind::TxIndex, |opened| {
            let mut all = opened.short_txs(txid)?;
            let value = opened.db.get(&[&[DB_TXINDEX], &txid.0[..]].concat())?;
            if let Some(value) = value {
                all.push(IndexedTx::At(opened.parsed(TxPlace::read(&value))?));
            }
            Ok(all)
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Returns the places of the transactions that may spend an output, from `txospenderindex`:
    /// those that spend an output with the same hash of 64 bits.
    pub fn spenders(&self, outpoint: &OutPoint) -> Result<Vec<TxPlace>> {
        let found = self.read(IndexKind::TxoSpenderIndex, |opened| {
            let keys = opened.db.get(SIPHASH_KEY)?.as_deref().and_then(SipKeys::from_bytes);
            let Some(keys) = keys else { return Ok(Vec::new()) };
            let prefix = spend_prefix(keys, outpoint);
            let mut cursor = opened.db.scan(&prefix, None)?;
            let mut places = Vec::new();
            while let Some((key, _)) = cursor.next_entry()? {
                let Some(place) = key.strip_prefix(&prefix[..]) else { break };
                places.push(opened.parsed(TxPlace::read(place))?);
            }
            Ok(places)
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Returns the filter of a block, from `blockfilterindex`.
    pub fn filter(&self, height: u32, block: &Hash) -> Result<Option<Filter>> {
        let found = self.read(IndexKind::BlockFilterIndex, |opened| {
            let Some(entry) = opened.filter_entry(height, block)? else { return Ok(None) };
            let directory = opened.path.parent().unwrap_or(&opened.path);
            let bytes = read_filter(&self.disk, directory, block, &entry)?;
            Ok(Some(Filter { bytes, header: entry.header }))
        })?;
        Ok(found.flatten())
    }

    /// Returns whether the filter of a block has one of some scripts, from `blockfilterindex`;
    /// `None` if the index does not have the filter. Once in some 800,000 scripts it says so of a
    /// block that does not have them.
    pub fn has_any(
        &self,
        height: u32,
        block: &Hash,
        scripts: &WantedScripts,
    ) -> Result<Option<bool>> {
        let Some(filter) = self.filter(height, block)? else { return Ok(None) };
        let found = scripts.any_in(block, &filter.bytes).ok_or_else(|| {
            let path = IndexKind::BlockFilterIndex.database(&self.dir);
            StoreError::new(path, format!("the filter of block {height} is damaged"))
        })?;
        Ok(Some(found))
    }

    /// Returns the entries of the filters of some blocks, by height and hash, from
    /// `blockfilterindex`; `None` if it does not have all of them.
    pub fn filter_entries(&self, blocks: &[(u32, Hash)]) -> Result<Option<Vec<FilterEntry>>> {
        let found = self.read(IndexKind::BlockFilterIndex, |opened| {
            let entry = |(height, hash): &(u32, Hash)| opened.filter_entry(*height, hash);
            blocks.iter().map(|block| entry(block).transpose()).collect::<Option<_>>().transpose()
        })?;
        Ok(found.flatten())
    }

    /// Returns the filter header of a block, from `blockfilterindex`.
    pub fn filter_header(&self, height: u32, block: &Hash) -> Result<Option<Hash>> {
        let found = self.read(IndexKind::BlockFilterIndex, |opened| {
            Ok(opened.filter_entry(height, block)?.map(|entry| entry.header))
        })?;
        Ok(found.flatten())
    }

    /// Returns the MuHash of the UTXO set after a block, and the totals of all blocks up to it,
    /// from `coinstatsindex`.
    pub fn statistics(&self, height: u32, block: &Hash) -> Result<Option<(Hash, Totals)>> {
        let found = self.read(IndexKind::CoinStatsIndex, |opened| {
            let value = look_up(&opened.db, height, block)?;
            value.map(|value| opened.parsed(Totals::read(&value))).transpose()
        })?;
        Ok(found.flatten())
    }

    /// Returns the result of `read` for an index; `None` if there is none. If the index is
    /// committed and its tables are merged in the meantime, it is read again.
    fn read<T>(&self, kind: IndexKind, read: impl Fn(&Opened) -> Result<T>) -> Result<Option<T>> {
        for _ in 1..TRIES {
            let stamp = self.stamp(kind);
            match self.open(kind).and_then(|opened| opened.as_deref().map(&read).transpose()) {
                Err(_) if self.stamp(kind).ok() != stamp.ok() => {}
                done => return done,
            }
        }
        self.open(kind)?.as_deref().map(read).transpose()
    }

    /// Returns an index as of its last commit; `None` if there is none.
    fn open(&self, kind: IndexKind) -> Result<Option<Arc<Opened>>> {
        let Some(stamp) = self.stamp(kind)? else { return Ok(None) };
        let last = lock(&self.opened[kind as usize]).clone();
        if let Some(opened) = last.filter(|opened| opened.stamp == stamp) {
            return Ok(Some(opened));
        }
        let path = kind.database(&self.dir);
        // A sync has it locked while it writes.
        let options = Options { read_only: true, lock: false, ..Options::default() };
        let db = Db::open(self.disk.clone(), &path, options)?;
        let opened = Arc::new(Opened { stamp, path, db });
        *lock(&self.opened[kind as usize]) = Some(Arc::clone(&opened));
        Ok(Some(opened))
    }

    fn stamp(&self, kind: IndexKind) -> Result<Option<Stamp>> {
        let path = kind.database(&self.dir);
        let Some(current) = self.disk.read(path.join("CURRENT"))? else { return Ok(None) };
        let name = String::from_utf8_lossy(&current);
        // What is no name of a manifest is reported where the database is opened.
        let is_plain = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let manifest = Some(name.trim_end()).filter(is_plain);
        let manifest_bytes = manifest.map_or(Ok(0), |name| self.disk.len(path.join(name)))?;
        Ok(Some(Stamp { current, manifest_bytes }))
    }
}

impl Opened {
    /// Returns the transactions whose txid has the same short hash, those of later blocks first.
    fn short_txs(&self, txid: &Hash) -> Result<Vec<IndexedTx>> {
        let Some(keys) = self.db.get(TXID_HASH_SALT)? else { return Ok(Vec::new()) };
        let damaged = |what: &str| StoreError::new(&self.path, what);
        let keys = SipKeys::from_bytes(&keys)
            .ok_or_else(|| damaged("the record txid_hash_salt does not have 16 bytes"))?;
        let prefix = [&[DB_TXINDEX_HASHED], &short_hash(keys, txid)[..]].concat();
        let mut cursor = self.db.scan(&prefix, None)?;
        let mut found = Vec::new();
        while let Some((key, _)) = cursor.next_entry()? {
            let Some(end) = key.strip_prefix(&prefix[..]) else { break };
            found.push(self.parsed(read_end(end))?);
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        let in_block = |(number, offset)| {
            let block = self.db.get(&number_key(number))?.and_then(|hash| hash.try_into().ok());
            let block = block.ok_or_else(|| {
                damaged("the hash of a block with an entry is missing or does not have 32 bytes")
            })?;
            Ok(IndexedTx::InBlock { block: Hash(block), offset })
        };
        found.into_iter().map(in_block).collect()
    }

    fn filter_entry(&self, height: u32, block: &Hash) -> Result<Option<FilterEntry>> {
        let value = look_up(&self.db, height, block)?;
        value.map(|value| self.parsed(FilterEntry::read(&value))).transpose()
    }

    fn parsed<T>(&self, entry: std::result::Result<T, ParseError>) -> Result<T> {
        entry.map_err(|error| {
            StoreError::new(&self.path, format!("an entry of this index cannot be read: {error}"))
        })
    }
}

impl TxPlace {
    fn read(bytes: &[u8]) -> std::result::Result<Self, ParseError> {
        let mut cursor = Cursor::new(bytes);
        let block = read_pos(&mut cursor)?;
        let place = Self { block, offset: read_number(&mut cursor)? };
        match cursor.remaining() {
            0 => Ok(place),
            _ => Err(cursor.error("bytes follow after the place of a transaction")),
        }
    }
}

/// Reads the filter of a block from the file in `directory` that its entry names (Core's
/// `ReadFilterFromDisk`).
fn read_filter(
    disk: &Disk,
    directory: &Path,
    block: &Hash,
    entry: &FilterEntry,
) -> Result<Vec<u8>> {
    let FlatFilePos { file, pos } = entry.pos;
    let file = disk.open_read(directory.join(format!("fltr{file:05}.dat")))?;
    let damaged = |what: &str| StoreError::corrupt(file.path(), u64::from(pos), what);
    // The block's hash, and the length of the filter.
    let mut head = [0; 32 + 9];
    let left = file.len()?.saturating_sub(pos.into()).min(MAX_FLTR_FILE_SIZE.into()) as usize;
    let head = &mut head[..left.min(32 + 9)];
    file.read_exact_at(head, pos.into())?;
    let mut cursor = Cursor::new(head);
    let found = Hash(cursor.array().map_err(|_| damaged("the file ends before the filter"))?);
    let len = cursor.compact_size().map_err(|_| damaged("the length of the filter is invalid"))?;
    if found != *block || len > left - cursor.position() {
        return Err(damaged("this is not the filter of the block that the database names"));
    }
    let mut bytes = Vec::new();
    file.append_to(&mut bytes, len, u64::from(pos) + cursor.position() as u64)?;
    if sha256d(&bytes) == entry.hash {
        Ok(bytes)
    } else {
        Err(damaged("the filter does not have the hash that the database names"))
    }
}

/// How far the entries of an index reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexReach {
    /// The form of the entries; [`TxIndexForm::Core31`] but for `txindex`.
    pub form: TxIndexForm,
    /// Height of their last block; `None` if the block index does not have it.
    pub height: Option<u32>,
}

/// Returns how far an index reaches, for each form of entries that it has; `None` if there is no
/// such index.
pub fn reached(dir: &DataDir, tree: &Tree, kind: IndexKind) -> Result<Option<Vec<IndexReach>>> {
    let height = |best: Hash| Some(tree.node(tree.find(&best)?).height);
    let found = find_index(dir.disk(), kind.database(dir.path()))?;
    let of = |(form, best)| IndexReach { form, height: height(best) };
    Ok(found.map(|index| index.reached().map(of).collect()))
}

/// The statistics of the UTXO set after a block (Core's `gettxoutsetinfo` with `coinstatsindex`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatisticsAt {
    /// Height of the block.
    pub height: u32,
    /// Hash of the block.
    pub best_block: Hash,
    /// MuHash of the UTXO set.
    pub muhash: Hash,
    /// Totals of all blocks up to this one.
    pub totals: Totals,
    /// Totals of all blocks below this one.
    pub before: Totals,
}

/// Returns the statistics after the active chain's block at `height`, from `coinstatsindex`; `None`
/// if there is no such block, or the index does not reach it.
pub fn statistics_at(
    dir: &DataDir,
    tree: &Tree,
    ledger: &Ledger,
    height: u32,
) -> Result<Option<StatisticsAt>> {
    let reader = IndexReader::new(dir.disk(), dir.path());
    let read = |height: u32| {
        let Some(id) = ledger.active.at(height) else { return Ok(None) };
        let hash = tree.node(id).hash;
        let found = reader.statistics(height, &hash)?;
        Ok(found.map(|(muhash, totals)| (hash, muhash, totals)))
    };
    let before = match height.checked_sub(1) {
        None => Some(Totals::default()),
        Some(below) => read(below)?.map(|(.., totals)| totals),
    };
    let found = read(height)?.zip(before);
    Ok(found.map(|((best_block, muhash, totals), before)| StatisticsAt {
        height,
        best_block,
        muhash,
        totals,
        before,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_read_as_of_its_last_commit() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        let reader = IndexReader::new(&disk, directory.path());
        let txid = Hash([7; 32]);
        assert_eq!(reader.find(IndexKind::TxIndex).unwrap(), None);
        assert_eq!(reader.transactions(&txid).unwrap(), []);
        let path = IndexKind::TxIndex.database(directory.path());
        let options = Options { create_if_missing: true, ..Options::default() };
        let db = Db::open(disk.clone(), &path, options.clone()).unwrap();
        let found = reader.find(IndexKind::TxIndex).unwrap().unwrap();
        assert_eq!(found, OptionalIndex { path: path.clone(), best: None, best_core32: None });
        let key = [&[DB_TXINDEX], &txid.0[..]].concat();
        let place =
            |offset| IndexedTx::At(TxPlace { block: FlatFilePos { file: 1, pos: 2 }, offset });
        for offset in 3..9 {
            db.apply([(&key, Some(&[1, 2, offset]))]).unwrap();
            // Tables that were opened before are deleted.
            db.merge_all().unwrap();
            assert_eq!(reader.transactions(&txid).unwrap(), [place(offset.into())]);
        }
        drop(db);
        let db = Db::open(disk, &path, options).unwrap();
        db.apply([(&key, Some(&[1, 2]))]).unwrap();
        assert!(reader.transactions(&txid).is_err(), "the entry is cut short");
    }

    #[test]
    fn all_transactions_with_one_short_hash_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        let path = IndexKind::TxIndex.database(directory.path());
        let options = Options { create_if_missing: true, ..Options::default() };
        let db = Db::open(disk.clone(), &path, options).unwrap();
        let reader = IndexReader::new(&disk, directory.path());
        let txid = Hash([7; 32]);
        let keys = SipKeys(1, 2);
        let key = |hash: [u8; 5], end: &[u8]| [b"x", &hash[..], end].concat();
        let hash = short_hash(keys, &txid);
        let next = u64::from_be_bytes([&[0; 3], &hash[..]].concat().try_into().unwrap()) + 1;
        let next: [u8; 5] = *next.to_be_bytes().last_chunk().unwrap();
        let block = |number: u8| [number; 32];
        let mut entries = vec![
            (TXID_HASH_SALT.to_vec(), keys.to_bytes().to_vec()),
            // One block has two of them, and one a number of two bytes.
            (key(hash, &[3, 0, 0, 90]), Vec::new()),
            (key(hash, &[3, 1, 0, 80]), Vec::new()),
            (key(hash, &[0x80, 5, 0, 0, 81]), Vec::new()),
            (key(next, &[4, 0, 0, 81]), Vec::new()),
            (key([0; 5], &[4, 0, 0, 81]), Vec::new()),
            (number_key(3), block(3).to_vec()),
            (number_key(128 + 5), block(133).to_vec()),
            ([&[DB_TXINDEX], &txid.0[..]].concat(), vec![1, 2, 3]),
        ];
        entries.sort();
        db.apply(entries.iter().map(|(key, value)| (key, Some(value)))).unwrap();
        let in_block = |number, offset| IndexedTx::InBlock { block: Hash(block(number)), offset };
        let at = TxPlace { block: FlatFilePos { file: 1, pos: 2 }, offset: 3 };
        let expected = [in_block(133, 1), in_block(3, 65_536), in_block(3, 10), IndexedTx::At(at)];
        assert_eq!(reader.transactions(&txid).unwrap(), expected);
        assert_eq!(reader.transactions(&Hash([8; 32])).unwrap(), []);
        db.apply([(number_key(3), None::<&[u8]>)]).unwrap();
        assert!(reader.transactions(&txid).is_err(), "a block has no hash");
    }
}
