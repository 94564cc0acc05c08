//! The data directory that a job leaves.

use apus_chain::{ActiveChain, BlockId};
use apus_coins::Bulk;
use apus_disk::{Disk, FileSystem, StoreError};
use apus_host::temporary::TemporaryDir;
use apus_node::assumevalid::Assumed;
use apus_node::block::step::Step;
use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node, observe, share_of};
use apus_node::options::Options;
use apus_node::run::Run;
use apus_node::scan::scan_into_node;
use apus_node::sources::BlockOrigin;
use apus_progress::clock::unix_time;
use apus_progress::outcome::Refusal;
use apus_progress::words::size;
use apus_progress::{Phase, Watch};
use apus_store::{BlockSource, FlatFilePos, Lane};
use apus_sync::in_order::activate::{Goal, activate};
use apus_sync::join::{JoinPlan, JoinState, UndoAt, commit};
use apus_sync::run::bound_cache;
use apus_sync::unfinished::{open_node, refuse_unfinished};
use rayon::ThreadPool;
use rayon::prelude::*;

use super::blocks::JobBlocks;
use super::errors::unfit;
use super::finished::Finished;
use super::job::Job;
use super::matching::{COINS, for_each_coin};
use super::results::{MatchNote, Results};
use crate::objects::Pack;

/// A data directory that is being built.
pub struct Building<'a> {
    job: &'a Job,
    node: Node,
    /// The job's chain, in the tree of the directory.
    chain: ActiveChain,
    watch: Watch<'a>,
}

impl<'a> Building<'a> {
    /// Opens or creates the directory that `options` name, and adds the job's headers.
    ///
    /// # Errors
    /// The directory holds coins, or cannot be written; or a header breaks a rule.
    pub fn begin(job: &'a Job, options: &Options, watch: Watch<'a>) -> Result<Self, SyncError> {
        let mut node = open_node(&Run::new(options), Coins::InPlace)?;
        refuse_unfinished(&Disk::new(), options)?;
        if node.tip() != node.tree().genesis() {
            return Err(SyncError::Input(format!(
                "{} holds a UTXO set at height {}: name a directory without one",
                node.dir().path().display(),
                node.tree().node(node.tip()).height
            )));
        }
        let headers = ActiveChain::to(&job.tree, job.tree.best_header());
        for id in (1..).map_while(|height| headers.at(height)) {
            let header = job.tree.header(id);
            let accepted = node.change_tree(|tree| tree.accept_header(&header, unix_time()));
            accepted.map_err(|error| {
                SyncError::Input(format!("the job's header {} is invalid: {error}", header.hash()))
            })?;
        }
        let top = job.tree.node(job.tree.best_header());
        let id = node.tree().find(&top.hash).expect("all headers were added");
        if node.tree().ancestor(node.tree().best_header(), top.height) != Some(id) {
            return Err(SyncError::Input(format!(
                "{} has headers of a better chain than the job's: plan another job, or name an \
                 empty directory",
                node.dir().path().display()
            )));
        }
        let chain = ActiveChain::to(node.tree(), id);
        bound_cache(&mut node);
        Ok(Self { job, node, chain, watch })
    }

    /// Does the same as [`Building::begin`] for a directory that keeps coins alone.
    pub fn begin_without_blocks(
        job: &'a Job,
        options: &Options,
        watch: Watch<'a>,
    ) -> Result<Self, SyncError> {
        let mut building = Self::begin(job, options, watch)?;
        building.node.ledger_mut().writes.blocks = false;
        Ok(building)
    }

    /// Stores blocks and undo data if they are kept, then the coins, commits them, and connects the
    /// block that the job ends below, if there is one. `state` is that of a join that has done what
    /// the tasks have.
    ///
    /// # Errors
    /// A result or a block cannot be read, the directory cannot be written, or the work is stopped:
    /// blocks that are stored until then are kept.
    pub fn run(mut self, results: &Results, mut state: JoinState) -> Result<Finished, SyncError> {
        let end = results.end;
        let plan = self.plan(self.id(end - 1));
        self.check_space(results)?;
        if self.node.ledger().writes.blocks {
            self.store_blocks(results)?;
            state.undo = self.store_undo(results)?;
        }
        if end > 1 {
            observe(self.watch.observer, Phase::WritingCoins, &self.node);
            let (shared, ledger) = self.node.split();
            let bulk = shared.chainstate.bulk()?;
            write_coins(self.job, &results.matched, &bulk, shared.pool)?;
            bulk.sync()?;
            commit(&shared, ledger, &plan, &state, bulk)?;
        }
        let mut amount = Some(state.paired.counts.left_amount);
        let mut refusal = None;
        if end < self.job.whole_end() {
            refusal = self.connect(end)?;
            amount = amount.filter(|_| refusal.is_some());
        }
        let Self { node, .. } = self;
        let tip = node.tree().node(node.tip());
        let height = tip.height;
        let best_block = tip.hash;
        let coins = node.ledger().coins.unwrap_or_default() as u64;
        Ok(Finished {
            height,
            best_block,
            coins,
            amount,
            counts: node.ledger().done.counts,
            refusal,
        })
    }

    fn id(&self, height: u32) -> BlockId {
        self.chain.at(height).expect("the job has all headers up to its end")
    }

    /// Returns whether the directory does not hold the block at `height`.
    fn lacks(&self, height: u32) -> bool {
        self.node.record(self.id(height)).block_pos().is_none()
    }

    /// Returns the plan of a join up to `target`, in which no block is read.
    fn plan(&self, target: BlockId) -> JoinPlan {
        let tree = self.node.tree();
        let job = self.job;
        let assumevalid = job.manifest.assumevalid();
        let end = tree.node(target).height + 1;
        let assumed = Assumed::new(assumevalid, tree);
        let place = BlockOrigin::Peers;
        let steps = (1..end).map(|height| Step { id: self.id(height), place, weight: 0 }).collect();
        JoinPlan::of_steps(tree, &self.chain, 1, steps, assumed)
    }

    /// Returns an error if there is no room for what will be written.
    fn check_space(&self, results: &Results) -> Result<(), SyncError> {
        let lacking = (1..results.end).filter(|height| self.lacks(*height));
        let blocks: u64 = lacking.map(|height| u64::from(self.job.len_of(height))).sum();
        let undo: u64 = results.checked.iter().map(|pack| pack.bytes_of(1..results.end)).sum();
        let coins = results.matched.iter().map(|(pack, _)| pack.bytes_of(COINS..COINS + 1));
        let kept = if self.node.ledger().writes.blocks { blocks + undo } else { 0 };
        let needed = kept + coins.sum::<u64>();
        let path = self.node.dir().path();
        let free = FileSystem::of(path)?.free;
        if needed <= free {
            return Ok(());
        }
        let what = format!("{} are to be written here, but {} are free", size(needed), size(free));
        Err(StoreError::full(path, what).into())
    }

    /// Copies blocks that the directory does not hold to its block files, in order of height.
    fn store_blocks(&mut self, results: &Results) -> Result<(), SyncError> {
        let known = results.read.iter().flatten().flat_map(|(_, note)| &note.blocks);
        let lacking = (1..results.end).find(|height| self.lacks(*height));
        let Some(first) = lacking else { return Ok(()) };
        let blocks = JobBlocks::new(self.job, first..results.end)?;
        let mut lane = Lane::default();
        let every = self.node.options().save_every;
        let share = share_of(self.watch.observer, Phase::StoringBlocks, &self.node);
        let (shared, ledger) = self.node.split();
        for (height, block) in (1..results.end).zip(known).skip(first as usize - 1) {
            if self.watch.is_stopped() {
                ledger.write_index(shared.files, shared.tree)?;
                return Err(SyncError::Stopped);
            }
            share(f64::from(height) / f64::from(results.end));
            ledger.write_index_every(every, &shared)?;
            let bytes = blocks.take(height)?;
            let id = self.chain.at(height).expect("all headers were added");
            if self.job.manifest.hash_key.hash(&bytes) != block.digest {
                let what = format!("block {height} is no longer the one that was read");
                return Err(self.job.error_at(height, what).into());
            }
            if ledger.record(id).block_pos().is_some() {
                continue;
            }
            let time = shared.tree.node(id).time;
            let pos = shared.files.append_block_in(&mut lane, &bytes, height, time)?;
            ledger.records.note_stored(shared.tree, id, pos, block.tx_count);
        }
        Ok(shared.files.end_lane(lane)?)
    }

    /// Appends the undo data of blocks that have none to the rev files, in order of height.
    fn store_undo(&mut self, results: &Results) -> Result<Vec<UndoAt>, SyncError> {
        let (shared, ledger) = self.node.split();
        let mut written = Vec::new();
        let mut next = 1;
        for pack in &results.checked {
            pack.read(&self.job.objects, 1..results.end, |height, payload| {
                if height != next {
                    let what = format!("the undo data of block {next} is missing");
                    return Err(StoreError::new(self.job.objects.path(pack.name()), what));
                }
                next += 1;
                let id = self.chain.at(height).expect("all headers were added");
                let record = ledger.record(id);
                let (Some(FlatFilePos { file, .. }), None) =
                    (record.block_pos(), record.undo_pos())
                else {
                    return Ok(());
                };
                let undo = shared.files.encode_undo(payload, &shared.tree.prev_hash(id));
                let pos = shared.files.append_encoded_undo(file, height, undo)?;
                written.push(UndoAt { index: height - 1, at: FlatFilePos { file, pos } });
                Ok(())
            })?;
        }
        if next == results.end {
            Ok(written)
        } else {
            Err(unfit(format!("the undo data of block {next} is missing")))
        }
    }

    /// Connects the block at `height` in order, which tells why it is not valid.
    fn connect(&mut self, height: u32) -> Result<Option<Refusal>, SyncError> {
        let network = &self.job.manifest.network;
        let mut connected: Vec<BlockId> = self.node.tree().ancestors(self.node.tip()).collect();
        connected.reverse();
        self.node.change_tree(|tree| {
            connected.into_iter().for_each(|id| tree.mark_stored(id, true));
        });
        let bytes = JobBlocks::new(self.job, height..height + 1)?.take(height)?;
        let scratch = TemporaryDir::new()?;
        let path = scratch.path().join("block");
        let len = (bytes.len() as u32).to_le_bytes();
        let framed = [&network.magic[..], &len, &bytes].concat();
        std::fs::write(&path, framed).map_err(|e| StoreError::io(&path, "write a block", e))?;
        let source = BlockSource::open(&path, network)?;
        scan_into_node(&mut self.node, &[source], self.watch)?;
        activate(&mut self.node, Goal::Best { up_to: height }, self.watch)?;
        let hash = self.node.tree().node(self.id(height)).hash;
        let refusals = self.node.take_refusals();
        let mut refusal = refusals.into_iter().find(|refusal| refusal.block == Some(hash));
        if let Some(refusal) = &mut refusal {
            let (path, offset) = self.job.place_of(height);
            (refusal.path, refusal.offset) = (Some(path), Some(offset));
        }
        Ok(refusal)
    }
}

/// Writes the coins of all partitions to tables, on all threads of the pool.
fn write_coins(
    job: &Job,
    matched: &[(Pack, MatchNote)],
    bulk: &Bulk,
    pool: &ThreadPool,
) -> Result<(), StoreError> {
    let each = matched.len().div_ceil(4 * pool.current_num_threads().max(1)).max(1);
    pool.install(|| {
        matched.par_chunks(each).enumerate().try_for_each(|(chunk, packs)| {
            let mut writer = bulk.writer();
            for (number, (pack, _)) in (chunk * each..).zip(packs) {
                for_each_coin(job, (number, pack), |key, coin| writer.put_raw(key, coin))?;
            }
            writer.finish()
        })
    })
}
