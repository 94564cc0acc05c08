//! The block index in memory: the record of each block, and which of them the disk lacks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use apus_chain::{BlockId, Tree};
use apus_disk::{FileVec, StoreError};
use apus_store::{BlockFiles, BlockStatus, FlatFilePos, IndexDb, IndexRecord};

/// The most changed records that wait for a commit, which copies them: 3 MB.
const DIRTY_MAX: usize = 100_000;

/// The records of all blocks, which the block index on disk holds by their hashes.
pub struct BlockRecords {
    /// The block index on disk.
    pub index: Arc<IndexDb>,
    /// By [`BlockId`]; the header of each block is in the tree.
    pub all: FileVec<IndexRecord>,
    /// Blocks whose records have changed since the index was written.
    pub dirty: BTreeSet<BlockId>,
    /// When the index was written.
    pub last_written: Instant,
}

impl BlockRecords {
    /// Returns no records, for an index that has not been read.
    pub fn new(index: IndexDb) -> Self {
        let index = Arc::new(index);
        let last_written = Instant::now();
        Self { index, all: FileVec::new(), dirty: BTreeSet::new(), last_written }
    }

    /// Returns whether more records have changed than may wait for a commit.
    pub fn are_many(&self) -> bool {
        self.dirty.len() > DIRTY_MAX
    }

    pub fn get(&self, id: BlockId) -> &IndexRecord {
        &self.all[id.index()]
    }

    /// Returns the record of a block for changing, and marks it as changed.
    pub fn change(&mut self, id: BlockId) -> &mut IndexRecord {
        self.dirty.insert(id);
        &mut self.all[id.index()]
    }

    /// Returns the records of these blocks as the index is to have them. While a new UTXO set is
    /// built, the set in use may be at a block that the rebuild refuses: until the new set has
    /// replaced it, the index must not call that block invalid.
    pub fn to_write(
        &self,
        ids: BTreeSet<BlockId>,
        builds_new_set: bool,
    ) -> Vec<(BlockId, IndexRecord)> {
        let mut entries: Vec<_> = ids.into_iter().map(|id| (id, *self.get(id))).collect();
        if builds_new_set {
            for (_, record) in &mut entries {
                record.status.0 &= !BlockStatus::BLOCK_FAILED_VALID;
            }
        }
        entries
    }

    /// Creates a record for every header that has none yet.
    pub fn follow(&mut self, tree: &Tree) {
        for id in tree.ids_after(self.all.len()) {
            self.all.push(record_of_header(tree, id));
            self.dirty.insert(id);
        }
    }

    /// Records where a block of `tx_count` transactions was appended to the block files.
    pub fn note_stored(&mut self, tree: &Tree, id: BlockId, pos: FlatFilePos, tx_count: u32) {
        let has_segwit = tree.node(id).height >= tree.network().segwit_height;
        note_stored(self.change(id), pos, tx_count, has_segwit);
    }

    /// Records that the undo data of a stored block is at `at`. If the block has since moved to
    /// another file, because its copy was damaged, its undo data is appended to the rev file of
    /// that number, where Core looks for it.
    pub fn note_undo(
        &mut self,
        files: &BlockFiles,
        tree: &Tree,
        id: BlockId,
        at: FlatFilePos,
    ) -> Result<(), StoreError> {
        let record = self.change(id);
        if record.file == at.file {
            record.undo_pos = at.pos;
            record.status.0 |= BlockStatus::BLOCK_HAVE_UNDO;
            return Ok(());
        }
        let prev = tree.prev_hash(id);
        let payload = files.read_undo(at, &prev)?;
        files.write_undo(record, tree.node(id).height, &prev, &payload).map(drop)
    }

    /// Records that a block of `tx_count` transactions has passed all rules that need no coins, and
    /// is not stored.
    pub fn note_checked(&mut self, tree: &Tree, id: BlockId, tx_count: u32) {
        let has_segwit = tree.node(id).height >= tree.network().segwit_height;
        note_checked(self.change(id), tx_count, has_segwit);
    }
}

pub fn record_of_header(tree: &Tree, id: BlockId) -> IndexRecord {
    let node = tree.node(id);
    let mut status = BlockStatus(BlockStatus::BLOCK_VALID_TREE);
    if node.failed {
        status.0 |= BlockStatus::BLOCK_FAILED_VALID;
    }
    IndexRecord { status, ..IndexRecord::default() }
}

/// Records where a checked block of `tx_count` transactions is stored.
pub fn note_stored(record: &mut IndexRecord, pos: FlatFilePos, tx_count: u32, has_segwit: bool) {
    (record.file, record.data_pos) = (pos.file, pos.pos);
    record.status.0 |= BlockStatus::BLOCK_HAVE_DATA;
    note_checked(record, tx_count, has_segwit);
}

/// Records that a block of `tx_count` transactions has passed all rules that need no coins. Core
/// reads `BLOCK_OPT_WITNESS` only to find blocks that an old version stored without witnesses,
/// which must be downloaded again (docs/decisions/0013-witnesses.md).
fn note_checked(record: &mut IndexRecord, tx_count: u32, has_segwit: bool) {
    record.tx_count = tx_count;
    if has_segwit {
        record.status.0 |= BlockStatus::BLOCK_OPT_WITNESS;
    }
    record.status.raise_validity(BlockStatus::BLOCK_VALID_TRANSACTIONS);
}
