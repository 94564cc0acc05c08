//! Comparisons of two data directories.

use std::collections::BTreeMap;

use apus_hash::Hash;
use apus_store::{BlockFiles, BlockStatus, IndexEntry};
use apus_tools::UtxoHash;

use crate::support::Place;

/// The blocks of a data directory.
pub struct Blocks {
    pub entries: BTreeMap<Hash, IndexEntry>,
    files: BlockFiles,
}

impl Blocks {
    pub fn of(place: &Place) -> Self {
        let (index, files) = place.blocks();
        let entries = index.entries.into_iter().map(|entry| (entry.hash, entry)).collect();
        Self { entries, files }
    }

    pub fn get(&self, hash: &Hash) -> Option<&IndexEntry> {
        self.entries.get(hash)
    }

    /// The level to which a block was checked, with its bit for "invalid".
    pub fn validity(&self, hash: &Hash) -> Option<u32> {
        let mask = BlockStatus::BLOCK_VALID_MASK | BlockStatus::BLOCK_FAILED_VALID;
        self.get(hash).map(|entry| entry.record.status.0 & mask)
    }

    /// The undo data of a block, as stored and with its checksum verified.
    fn undo(&self, entry: &IndexEntry) -> Vec<u8> {
        let pos = entry.undo_pos().expect("there is undo data");
        self.files.read_undo(pos, &entry.header.prev).expect("undo data is whole")
    }

    /// The stored bytes of a block.
    fn block(&self, entry: &IndexEntry) -> Vec<u8> {
        let pos = entry.block_pos().expect("the block is stored");
        self.files.read_block(pos).expect("the block is readable")
    }
}

/// Compares the blocks and the undo data that both directories store. Returns the number of undo
/// records and of their bytes.
pub fn assert_same_bytes(ours: &Blocks, theirs: &Blocks) -> (usize, usize) {
    let mut records = 0;
    let mut bytes = 0;
    for (hash, our) in &ours.entries {
        let Some(their) = theirs.get(hash) else { continue };
        assert_eq!((our.height, our.header), (their.height, their.header));
        if our.block_pos().is_some() && their.block_pos().is_some() {
            assert_eq!(our.record.tx_count, their.record.tx_count, "{hash}");
            assert_eq!(ours.block(our), theirs.block(their), "{hash}");
        }
        if our.undo_pos().is_some() && their.undo_pos().is_some() {
            let undo = ours.undo(our);
            assert_eq!(undo, theirs.undo(their), "undo data of {hash}");
            records += 1;
            bytes += undo.len();
        }
    }
    (records, bytes)
}

/// Compares the UTXO sets by both hashes and by all counts. Returns the `hash_serialized_3` and the
/// number of coins.
pub fn assert_same_coins(ours: &Place, theirs: &Place) -> (Hash, u64) {
    assert_eq!(ours.utxo_hash(), theirs.utxo_hash());
    let [our, their] = [ours, theirs].map(|place| place.stats(UtxoHash::HashSerialized3));
    assert_eq!((our.height, our.best_block), (their.height, their.best_block));
    assert_eq!((our.txouts, our.total_amount), (their.txouts, their.total_amount));
    assert_eq!((our.transactions, our.bogosize), (their.transactions, their.bogosize));
    assert_eq!(our.hash, their.hash);
    (our.hash.unwrap().1, our.txouts)
}
