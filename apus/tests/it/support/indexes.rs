//! Core's optional indexes in a directory, entry by entry.

use std::collections::BTreeMap;
use std::path::Path;

use apus_disk::Disk;
use apus_indexes::layout::{DB_TXINDEX_HASHED, TXID_HASH_SALT};
use apus_leveldb::{Db, Options};
use apus_node::SyncError;
use apus_progress::Watch;
use apus_store::{IndexKind, TxIndexForm};
use apus_tools::{Indexed, index};

use super::Place;

/// The entries of a database.
pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// All indexes of a directory.
#[derive(PartialEq)]
pub struct Indexes {
    pub txindex: Entries,
    pub txospenderindex: Entries,
    pub filters: Entries,
    pub statistics: Entries,
    /// The files of filters, up to the place where the next filter goes.
    pub filter_files: Vec<Vec<u8>>,
}

impl Indexes {
    /// Reads the indexes in the network's directory `dir`.
    pub fn read(dir: &Path) -> Self {
        let filters = entries(dir, IndexKind::BlockFilterIndex);
        let filter_files = filter_files(&dir.join("indexes/blockfilter/basic"), &filters);
        Self {
            txindex: entries(dir, IndexKind::TxIndex),
            txospenderindex: entries(dir, IndexKind::TxoSpenderIndex),
            filters,
            statistics: entries(dir, IndexKind::CoinStatsIndex),
            filter_files,
        }
    }

    /// Replaces the hashes of outputs and of txids, whose keys are random, by nothing: only the
    /// places of transactions are left, with the number of entries for each.
    pub fn without_hashes(mut self) -> Self {
        let mut places = Entries::new();
        for (key, value) in &self.txospenderindex {
            match &key[..] {
                b"siphash_key\0" => assert_eq!(value.len(), 16),
                [b's', .., _, _, _] => {
                    let spends = places.entry(key[9..].to_vec()).or_insert_with(|| vec![0]);
                    spends[0] += 1;
                }
                _ => drop(places.insert(key.clone(), value.clone())),
            }
        }
        self.txospenderindex = places;
        let mut places = Entries::new();
        for (key, value) in &self.txindex {
            match &key[..] {
                TXID_HASH_SALT => assert_eq!(value.len(), 16),
                [DB_TXINDEX_HASHED, ..] => {
                    assert!(value.is_empty());
                    let entries = places.entry(key[6..].to_vec()).or_insert_with(|| vec![0]);
                    entries[0] += 1;
                }
                _ => drop(places.insert(key.clone(), value.clone())),
            }
        }
        self.txindex = places;
        self
    }

    /// The form in which `txindex` was continued last.
    pub fn form(&self) -> TxIndexForm {
        let has = |form: TxIndexForm| self.txindex.contains_key(form.best_block_key());
        if has(TxIndexForm::Core32) { TxIndexForm::Core32 } else { TxIndexForm::Core31 }
    }

    /// Panics unless the indexes are equal, and says in which entry they first differ.
    #[track_caller]
    pub fn assert_equal(&self, other: &Self) {
        for (name, ours, theirs) in [
            ("txindex", &self.txindex, &other.txindex),
            ("txospenderindex", &self.txospenderindex, &other.txospenderindex),
            ("filters", &self.filters, &other.filters),
            ("statistics", &self.statistics, &other.statistics),
        ] {
            let keys = ours.keys().chain(theirs.keys());
            let differs = |key: &&Vec<u8>| ours.get(*key) != theirs.get(*key);
            if let Some(key) = keys.filter(differs).min() {
                let ours = ours.get(key);
                let theirs = theirs.get(key);
                panic!("{name}: at {key:x?}\n{ours:x?} and\n{theirs:x?}");
            }
        }
        assert!(self.filter_files == other.filter_files, "the files of filters differ");
    }
}

/// What indexes say of the active chain, without disconnected blocks and hashes by random keys.
pub fn of_active_chain(mut indexes: Indexes) -> Indexes {
    indexes.filters.retain(|key, _| key[0] == b't');
    indexes.statistics.retain(|key, _| key[0] != b's');
    // Where a filter is depends on those that were disconnected.
    indexes.filters.values_mut().for_each(|value| value.truncate(96));
    indexes.filter_files.clear();
    // So do the places of blocks: only the number of spends is compared.
    let is_spend = |key: &&Vec<u8>| key[0] == b's' && key[..] != b"siphash_key\0"[..];
    let spends = indexes.txospenderindex.keys().filter(is_spend).count();
    indexes.txospenderindex = [(b"spends".to_vec(), spends.to_le_bytes().to_vec())].into();
    indexes.txindex.clear();
    indexes
}

/// Reads the entries of an index in the network's directory `dir`.
pub fn entries(dir: &Path, kind: IndexKind) -> Entries {
    let options = Options { read_only: true, ..Options::default() };
    let db = Db::open(Disk::new(), &kind.database(dir), options).unwrap();
    let mut all = Entries::new();
    let mut cursor = db.scan(&[], None).unwrap();
    while let Some((key, value)) = cursor.next_entry().unwrap() {
        all.insert(key.to_vec(), value.to_vec());
    }
    all
}

fn filter_files(dir: &Path, entries: &Entries) -> Vec<Vec<u8>> {
    let next = &entries[&b"P"[..]];
    let mut cursor = apus_wire::Cursor::new(next);
    let file = cursor.varint().unwrap();
    let end = cursor.varint().unwrap() as usize;
    let read = |number| std::fs::read(dir.join(format!("fltr{number:05}.dat"))).unwrap();
    let mut files: Vec<Vec<u8>> = (0..=file).map(read).collect();
    let last = files.last_mut().unwrap();
    assert!(last.len() >= end && last[end..].iter().all(|byte| *byte == 0));
    last.truncate(end);
    files
}

/// Builds all indexes of a place, or continues them.
pub fn try_index(place: &Place, kinds: &[IndexKind]) -> Result<Indexed, SyncError> {
    index(&place.options(), kinds, None, Watch::default())
}

/// Builds all indexes of a place, and reads them.
pub fn indexed(place: &Place) -> Indexes {
    indexed_in(place, None)
}

/// Builds all indexes of a place, with `txindex` in a form, and reads them.
pub fn indexed_in(place: &Place, form: Option<TxIndexForm>) -> Indexes {
    let indexed = index(&place.options(), &IndexKind::ALL, form, Watch::default()).unwrap();
    assert!(!indexed.interrupted);
    Indexes::read(&place.network_dir())
}
