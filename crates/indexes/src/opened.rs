//! An index that is open for writing, and the run of entries that is being written to it.

use apus_disk::{Disk, ShareWatch, StoreError};
use apus_hash::Hash;
use apus_leveldb::{Db, RunBuilder};
use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_store::layout::DB_BEST_BLOCK;
use apus_store::{BlockFiles, locator_bytes};

use rayon::ThreadPool;

use super::block::{Buffers, Wants};
use super::plan::IndexPlan;
use super::positions::{SIPHASH_KEY, SipKeys, spend_keys};
use super::sorting::Other;

/// What is done with the tables of an index that was continued.
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
    /// What has to be done.
    pub plan: &'a IndexPlan,
    /// The database.
    pub db: Db,
    /// The entries that are being written.
    pub run: RunBuilder,
}

impl<'a> OpenIndex<'a> {
    /// Opens the index, or creates it.
    ///
    /// # Errors
    /// The disk fails, or the database is damaged.
    pub fn new(plan: &'a IndexPlan, disk: &Disk) -> Result<Self, SyncError> {
        let db = plan.open(disk)?;
        // What bitcoind has begun without naming a best block is written again.
        let run = if plan.last.is_some() { db.new_run()? } else { db.bulk()? };
        Ok(Self { plan, db, run })
    }

    /// Does the same as [`OpenIndex::new`], if there is a plan.
    ///
    /// # Errors
    /// As for [`OpenIndex::new`].
    pub fn of(plan: Option<&'a IndexPlan>, disk: &Disk) -> Result<Option<Self>, SyncError> {
        plan.map(|plan| Self::new(plan, disk)).transpose()
    }

    /// Returns the keys of the hashes of outputs: those of the index, or new ones.
    ///
    /// # Errors
    /// The database cannot be read, or there are no valid keys.
    pub fn sip_keys(&self) -> Result<SipKeys, StoreError> {
        let mut bytes = [0; 16];
        if self.plan.last.is_none() {
            getrandom::fill(&mut bytes).map_err(|error| {
                StoreError::new(&self.plan.path, format!("no randomness: {error}"))
            })?;
            return Ok(SipKeys::from_bytes(&bytes).expect("16 bytes"));
        }
        let found = self.db.get(SIPHASH_KEY)?;
        found.as_deref().and_then(SipKeys::from_bytes).ok_or_else(|| {
            let what = "the record siphash_key is missing or does not have 16 bytes: remove the \
                        index, and build it again";
            StoreError::new(&self.plan.path, what)
        })
    }

    /// Returns the records of `txospenderindex` beside the entries of appended blocks: the keys of
    /// the hashes, and the deletion of the entries of disconnected blocks.
    ///
    /// # Errors
    /// A disconnected block cannot be read.
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
    /// the last block that was appended to any index; the best block is not below the last one that
    /// this index had.
    pub fn with_best_block(
        &self,
        node: &Node,
        reached: Option<u32>,
        mut others: Vec<Other>,
    ) -> Vec<Other> {
        let last = self.plan.last.as_ref().map(|block| block.height);
        let best = reached.filter(|reached| *reached >= self.plan.from).or(last);
        if let Some(best) = best.and_then(|height| node.ledger().active.at(height)) {
            let blocks = node.tree().locator(best).map(|id| node.tree().node(id).hash);
            let hashes: Vec<Hash> = blocks.collect();
            others.push((vec![DB_BEST_BLOCK], Some(locator_bytes(&hashes))));
        }
        others.sort();
        others
    }

    /// Writes `others`, and the record of the best block, and commits the run; see
    /// [`OpenIndex::with_best_block`]. Without any block there is nothing to commit.
    ///
    /// # Errors
    /// The disk fails.
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
        for (key, value) in self.with_best_block(node, reached, others) {
            match value {
                Some(value) => writer.put(&key, &value)?,
                None => writer.delete(&key)?,
            }
        }
        writer.finish()?;
        self.commit(node.shared().pool, upkeep)
    }

    /// Makes everything that was written visible, and merges tables.
    ///
    /// # Errors
    /// The disk fails.
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
