//! What an index lacks: from which block on it is continued, and which blocks it holds that are no
//! longer part of the active chain.

use std::path::PathBuf;

use apus_chain::{BlockId, Tree};
use apus_disk::Disk;
use apus_leveldb::{Db, Options};
use apus_node::commit::Ledger;
use apus_node::context::Context;
use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_store::{IndexKind, OptionalIndex, TxIndexForm, find_index};

use super::block::StoredBlock;
use super::filters::check_files;

/// The work on one index.
#[derive(Clone)]
pub struct IndexPlan {
    /// The index.
    pub kind: IndexKind,
    /// The form of the entries that are appended; of [`TxIndexForm::Core31`] but for `txindex`.
    pub form: TxIndexForm,
    /// Whether the database has entries that stay.
    pub is_begun: bool,
    /// Whether Core has Bloom filters in the tables: not if it only looks for keys that begin with
    /// some bytes.
    pub has_bloom: bool,
    /// Path of its database.
    pub path: PathBuf,
    /// The last of its blocks that is part of the active chain; `None` if it has no blocks yet.
    pub last: Option<StoredBlock>,
    /// Its blocks above `last`, the highest first.
    pub stale: Vec<StoredBlock>,
    /// Height of the first block to be appended. It may be above the tip.
    pub from: u32,
}

impl IndexPlan {
    /// Returns what has to be done so that the index ends at the tip of `node`; `None` if it does.
    ///
    /// Of `txindex`, `form` is the form of the entries that have to reach the tip. Without it that
    /// is the form that reaches highest, so that it continues what the last program has done; a new
    /// index has the form that every bitcoind reads.
    ///
    /// # Errors
    /// The index cannot be read, or its best block is not known; or the directory is pruned, and
    /// the index would need blocks that are missing or name places in files that are deleted.
    pub fn of(
        node: &Node,
        kind: IndexKind,
        form: Option<TxIndexForm>,
    ) -> Result<Option<Self>, SyncError> {
        let tree = node.tree();
        let ledger = node.ledger();
        let is_pruned = ledger.pruning.is_pruned || ledger.pruning.target().is_some();
        if is_pruned && !kind.survives_pruning() {
            return Err(SyncError::Input(format!(
                "{} cannot be built for a directory that is pruned, as it names places in block \
                 files (Bitcoin Core: \"Prune mode is incompatible with -{0}\")",
                kind.name()
            )));
        }
        let path = kind.database(node.dir().path());
        let found = find_index(node.dir().disk(), path.clone())?;
        let best_blocks =
            found.as_ref().map_or(Ok(Vec::new()), |index| best_blocks(tree, index))?;
        let highest = best_blocks.iter().max_by_key(|(_, id)| tree.node(*id).height);
        let form = match kind {
            IndexKind::TxIndex => form.or(highest.map(|(form, _)| *form)),
            _ => None,
        };
        let form = form.unwrap_or(TxIndexForm::Core31);
        let begun = |form| best_blocks.iter().find(|begun| begun.0 == form).map(|(_, id)| *id);
        let has_bloom = match kind {
            IndexKind::TxoSpenderIndex => false,
            _ => form == TxIndexForm::Core31 || begun(TxIndexForm::Core31).is_some(),
        };
        let plan = Self {
            kind,
            form,
            is_begun: highest.is_some(),
            has_bloom,
            path,
            last: None,
            stale: Vec::new(),
            from: 0,
        };
        let best = begun(form).or_else(|| {
            // bitcoind v32 appends its entries after the last block that has entries in the older
            // form.
            (form == TxIndexForm::Core32).then(|| begun(TxIndexForm::Core31)).flatten()
        });
        let Some(best) = best else { return Ok(Some(plan)) };
        if kind == IndexKind::BlockFilterIndex {
            check_files(node.dir().disk(), &plan.path)?;
        }
        if best == node.tip() {
            return Ok(None);
        }
        let mut stale = Vec::new();
        let mut last = best;
        for id in tree.ancestors(best) {
            last = id;
            if ledger.active.contains(tree, id) {
                break;
            }
            stale.push(stored(tree, ledger, id));
        }
        let last = stored(tree, ledger, last);
        Ok(Some(Self { last: Some(last), stale, from: last.height + 1, ..plan }))
    }

    /// Says that the index has been continued to `reached`. If that is below its first block to be
    /// appended, its disconnected blocks alone have been taken back.
    pub fn has_reached(&mut self, reached: StoredBlock) {
        self.stale.clear();
        if reached.height >= self.from {
            (self.from, self.last) = (reached.height + 1, Some(reached));
            self.is_begun = true;
        }
    }

    /// Opens the index's database for writing, or creates it.
    pub fn open(&self, disk: &Disk) -> Result<Db, SyncError> {
        let bloom = if self.has_bloom { Options::default().bloom_bits_per_key } else { 0 };
        let options =
            Options { create_if_missing: true, bloom_bits_per_key: bloom, ..Options::default() };
        Ok(Db::open(disk.clone(), &self.path, options)?)
    }
}

/// Returns the best blocks of an index, each with the form of the entries that reach it.
///
/// # Errors
/// One of them is not in the block index.
fn best_blocks(
    tree: &Tree,
    index: &OptionalIndex,
) -> Result<Vec<(TxIndexForm, BlockId)>, SyncError> {
    let find = |(form, best)| match tree.find(&best) {
        Some(id) => Ok((form, id)),
        None => Err(SyncError::Input(format!(
            "{}: its best block {best} is not in the block index: remove the index, and build it \
             again",
            index.path.display()
        ))),
    };
    index.reached().map(find).collect()
}

/// Returns a block, and where it is stored.
pub fn stored(tree: &Tree, ledger: &Ledger, id: BlockId) -> StoredBlock {
    let block = tree.node(id);
    let record = ledger.record(id);
    StoredBlock {
        height: block.height,
        hash: block.hash,
        block: record.block_pos(),
        undo: record.undo_pos(),
        tx_count: record.tx_count,
    }
}

/// Returns an error if a block that an index needs, or its undo data, is not stored.
pub fn check_stored(plan: &IndexPlan, appended: &[StoredBlock]) -> Result<(), SyncError> {
    let is_pruned = |block: &&StoredBlock| block.block.is_none();
    let lacks_undo = |block: &&StoredBlock| {
        plan.kind.needs_undo() && block.undo.is_none() && block.tx_count > 1 && block.height > 0
    };
    let appended = appended.iter().filter(|block| block.height >= plan.from);
    // Filters and the places of transactions are taken back without the blocks.
    let reads_stale = matches!(plan.kind, IndexKind::TxoSpenderIndex | IndexKind::CoinStatsIndex);
    let stale = plan.stale.iter().filter(|_| reads_stale);
    let mut needed = stale.chain(appended);
    match needed.find(|block| is_pruned(block) || lacks_undo(block)) {
        None => Ok(()),
        Some(block) if is_pruned(&block) => Err(block.missing("the block")),
        Some(block) => Err(block.missing("the undo data of the block")),
    }
    .map_err(|error| error.with(&Context::OfIndex(plan.kind)))
}
