//! An index that is open for writing, and the run of entries that is being written to it.

use apus_chain::{ActiveChain, Tree};
use apus_disk::{Disk, ShareWatch, StoreError};
use apus_hash::Hash;
use apus_leveldb::{Db, RunBuilder};
use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_store::{BlockFiles, IndexKind, TxIndexForm, locator_bytes};

use rayon::ThreadPool;

use super::block::{Buffers, Wants};
use super::plan::IndexPlan;
use super::positions::{SIPHASH_KEY, SipKeys, spend_keys};
use super::short_txs::TXID_HASH_SALT;
use super::sorting::Other;

/// How the tables of a continued index are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Upkeep {
    /// They are merged until LevelDB finds nothing to do when it opens them.
    Settle,
    /// They are merged when there are too many, as after each block at the tip.
    Follow,
}

/// An index that is open for writing. If it is dropped without being committed, the index is as it
/// was.
pub struct OpenIndex<'a> {
    /// The work to do.
    pub plan: &'a IndexPlan,
    /// The database.
    pub db: Db,
    /// The entries that are being written.
    pub run: RunBuilder,
}

impl<'a> OpenIndex<'a> {
    /// Opens the index, or creates it.
    pub fn new(plan: &'a IndexPlan, disk: &Disk) -> Result<Self, SyncError> {
        let db = plan.open(disk)?;
        // What bitcoind has begun without naming a best block is written again.
        let run = if plan.is_begun { db.new_run()? } else { db.bulk()? };
        Ok(Self { plan, db, run })
    }

    /// Does the same as [`OpenIndex::new`], if there is a plan.
    pub fn of(plan: Option<&'a IndexPlan>, disk: &Disk) -> Result<Option<Self>, SyncError> {
        plan.map(|plan| Self::new(plan, disk)).transpose()
    }

    /// Returns the keys of the hashes in the keys of entries: those that the index has, or zeros
    /// for an index without hashes; `None` if it has none yet.
    ///
    /// # Errors
    /// The database cannot be read, or the keys are missing or not valid.
    pub fn sip_keys(&self) -> Result<Option<SipKeys>, StoreError> {
        let (record, is_needed) = match (self.plan.kind, self.plan.form) {
            (IndexKind::TxoSpenderIndex, _) => (SIPHASH_KEY, true),
            // Entries in the older form may be all that there are.
            (IndexKind::TxIndex, TxIndexForm::Core32) => (TXID_HASH_SALT, false),
            _ => return Ok(Some(SipKeys::NONE)),
        };
        if !self.plan.is_begun {
            return Ok(None);
        }
        let found = self.db.get(record)?;
        let keys = found.as_deref().and_then(SipKeys::from_bytes);
        if keys.is_none() && (is_needed || found.is_some()) {
            let what = format!(
                "the record {} is missing or does not have 16 bytes: remove the index, and build \
                 it again",
                record.escape_ascii()
            );
            return Err(StoreError::new(&self.plan.path, what));
        }
        Ok(keys)
    }

    /// Returns new keys for hashes.
    pub fn new_sip_keys(&self) -> Result<SipKeys, StoreError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|error| StoreError::new(&self.plan.path, format!("no randomness: {error}")))?;
        Ok(SipKeys::from_bytes(&bytes).expect("16 bytes"))
    }

    /// Returns the records of `txospenderindex` beside the entries of appended blocks: the keys of
    /// the hashes, and the deletion of the entries of disconnected blocks.
    pub fn spender_records(
        &self,
        files: &BlockFiles,
        keys: SipKeys,
    ) -> Result<Vec<Other>, SyncError> {
        let mut records = vec![(SIPHASH_KEY.to_vec(), Some(keys.to_bytes().to_vec()))];
        let mut buffers = Buffers::default();
        let wants = Wants { txids: false, spent: None };
        for stale in &self.plan.stale {
            let block = stale.read(files, wants, &mut buffers)?;
            records.extend(spend_keys(&block, keys).into_iter().map(|key| (key, None)));
        }
        Ok(records)
    }

    /// Adds the record of the best block to `others`, and sorts them. `reached` is the height of
    /// the last block of the `active` chain that was appended to any index; the best block is not
    /// below the last one that this index had.
    pub fn with_best_block(
        &self,
        tree: &Tree,
        active: &ActiveChain,
        reached: Option<u32>,
        mut others: Vec<Other>,
    ) -> Vec<Other> {
        let last = self.plan.last.as_ref().map(|block| block.height);
        let best = reached.filter(|reached| *reached >= self.plan.from).or(last);
        if let Some(best) = best.and_then(|height| active.at(height)) {
            let blocks = tree.locator(best).map(|id| tree.node(id).hash);
            let hashes: Vec<Hash> = blocks.collect();
            let key = self.plan.form.best_block_key().to_vec();
            others.push((key, Some(locator_bytes(&hashes))));
        }
        others.sort();
        others
    }

    /// Writes `others`, and the record of the best block, and commits the run; see
    /// [`OpenIndex::with_best_block`]. Without any block there is nothing to commit.
    pub fn commit_with(
        self,
        node: &Node,
        reached: Option<u32>,
        others: Vec<Other>,
        upkeep: Upkeep,
    ) -> Result<(), StoreError> {
        let is_empty = reached.is_none_or(|reached| reached < self.plan.from);
        if is_empty && self.plan.stale.is_empty() {
            return Ok(());
        }
        let mut writer = self.run.writer();
        let others = self.with_best_block(node.tree(), &node.ledger().active, reached, others);
        for (key, value) in others {
            match value {
                Some(value) => writer.put(&key, &value)?,
                None => writer.delete(&key)?,
            }
        }
        writer.finish()?;
        self.commit(node.shared().pool, upkeep)
    }

    /// Makes everything that was written visible, and merges tables.
    pub fn commit(self, pool: &ThreadPool, upkeep: Upkeep) -> Result<(), StoreError> {
        let Self { plan, db, run } = self;
        run.commit()?;
        tracing::debug!(target: "blockstorage", "{} committed", plan.kind.name());
        pool.install(|| match upkeep {
            Upkeep::Settle => db.settle(ShareWatch::default()).map(drop),
            Upkeep::Follow => {
                while db.merge()? {}
                Ok(())
            }
        })
    }
}
