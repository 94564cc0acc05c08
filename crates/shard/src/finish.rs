//! The last stage: a data directory, a snapshot, or the verdict alone, from the results of all
//! tasks. Nothing is visible before the balance holds.

use std::path::Path;

use apus_chain::{ActiveChain, BlockId, Tree};
use apus_coins::{Bulk, Coin, SnapshotCoins, SnapshotHead, decode_coin_key};
use apus_disk::{Disk, StoreError};
use apus_hash::Hash;
use apus_join::Span;
use apus_node::clock::unix_time;
use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node};
use apus_node::options::Options;
use apus_node::outcome::Refusal;
use apus_node::progress::Watch;
use apus_node::scan::scan_into_node;
use apus_node::temporary::TemporaryDir;
use apus_objects::Pack;
use apus_store::{BlockSource, FlatFilePos, Lane};
use apus_sync::in_order::activate::{Goal, activate};
use apus_sync::join::{Plan, ReadCounts, State, UndoAt, balance, commit};
use apus_sync::run::bound_cache;
use apus_sync::unfinished::open_node;
use apus_wire::Cursor;
use rayon::prelude::*;

use super::blocks::JobBlocks;
use super::errors::missing;
use super::job::Job;
use super::matching::{COINS, for_each_coin};
use super::results::Results;
use super::stage::Stage;

/// What a job is to leave.
pub enum Destination<'a> {
    /// A data directory, which holds no coins yet. Blocks that it does not hold are copied there.
    DataDir(&'a Options),
    /// A UTXO snapshot, as Core's `dumptxoutset` writes it.
    Snapshot(&'a Path),
    /// Nothing.
    Verdict,
}

/// The result of a job.
#[derive(Debug)]
pub struct Finished {
    /// The height of the last block that is connected.
    pub height: u32,
    /// Its hash.
    pub best_block: Hash,
    /// The number of coins after it.
    pub coins: u64,
    /// The sum of their amounts in satoshi; `None` if a block was connected after the job's last.
    pub amount: Option<u64>,
    /// The blocks, bytes, transactions, inputs and scripts that were checked.
    pub counts: apus_node::outcome::Counts,
    /// Why the next block is not connected, if it breaks a rule.
    pub refusal: Option<Refusal>,
}

/// Puts the results of a job together.
///
/// # Errors
/// Results are missing, damaged, or do not fit each other; or the destination cannot be written, or
/// holds coins already.
pub fn finish(
    job: &Job,
    results: Results,
    destination: &Destination,
    watch: Watch,
) -> Result<Finished, SyncError> {
    if results.stage != Stage::Finish {
        return Err(missing(job, &results));
    }
    let plan = super::task::plan(job, results.end);
    let state = state(&results);
    balance(&state, &plan, &job.manifest.network).map_err(|what| {
        SyncError::Unproved(format!("the results do not fit each other: {what}"))
    })?;
    let is_refused = results.end < job.whole_end();
    match destination {
        Destination::DataDir(options) => {
            let network = job.manifest.network.clone();
            let options = Options { network, ..(*options).clone() };
            Building::begin(job, &options, watch)?.run(results, true)
        }
        Destination::Snapshot(_) | Destination::Verdict if is_refused => {
            // Only a UTXO set can tell why the block is not valid.
            let scratch = TemporaryDir::new()?;
            let datadir = scratch.path().to_path_buf();
            let options = Options::new(datadir, job.manifest.network.clone());
            let mut building = Building::begin(job, &options, watch)?;
            building.node.ledger.writes.blocks = false;
            building.run(results, false)
        }
        Destination::Snapshot(path) => {
            write_snapshot(job, &results, &plan, path)?;
            Ok(verdict(&plan, &state, &job.tree))
        }
        Destination::Verdict => Ok(verdict(&plan, &state, &job.tree)),
    }
}

fn verdict(plan: &Plan, state: &State, tree: &Tree) -> Finished {
    let best = tree.node(plan.chain.tip().unwrap_or(tree.genesis()));
    let counts = state.read().counts;
    let paired = &state.paired.counts;
    Finished {
        height: best.height,
        best_block: best.hash,
        coins: paired.left,
        amount: Some(paired.left_amount),
        counts,
        refusal: None,
    }
}

/// Returns the state of a join whose passes have done what the tasks have.
fn state(results: &Results) -> State {
    let blocks = results.end as usize - 1;
    let mut state = State::new(&[Span { first: 0, end: blocks }], 1);
    let mut read = ReadCounts::default();
    results.read.iter().flatten().for_each(|(_, note)| read.add(&note.read));
    state.spans[0].next = blocks;
    state.spans[0].read = read;
    for (_, note) in &results.matched {
        state.paired.counts.add(&note.counts);
    }
    state
}

/// A data directory that is being built.
struct Building<'a> {
    job: &'a Job,
    node: Node,
    watch: Watch<'a>,
}

impl<'a> Building<'a> {
    fn begin(job: &'a Job, options: &Options, watch: Watch<'a>) -> Result<Self, SyncError> {
        let mut node = open_node(options, &Disk::new(), Coins::InPlace)?;
        if node.tip() != node.tree.genesis() {
            return Err(SyncError::Input(format!(
                "{} holds a UTXO set at height {}: name a directory without one",
                node.dir.path().display(),
                node.tree.node(node.tip()).height
            )));
        }
        let headers = ActiveChain::to(&job.tree, job.tree.best_header());
        for id in (1..).map_while(|height| headers.at(height)) {
            let header = job.tree.header(id);
            node.tree.accept_header(&header, unix_time()).map_err(|error| {
                SyncError::Input(format!("the job's header {} is invalid: {error}", header.hash()))
            })?;
        }
        node.ledger.records.follow(&node.tree);
        bound_cache(&mut node);
        Ok(Self { job, node, watch })
    }

    /// Stores blocks and undo data if they are kept, then the coins, commits them, and connects the
    /// block that the job ends below, if there is one.
    fn run(mut self, results: Results, keeps: bool) -> Result<Finished, SyncError> {
        let (end, mut state) = (results.end, state(&results));
        let target = self.id(end - 1);
        if keeps {
            self.store_blocks(&results)?;
        }
        let plan = self.plan(target);
        if keeps {
            state.undo = self.store_undo(&results)?;
        }
        if end > 1 {
            let (shared, ledger) = self.node.split();
            let bulk = shared.chainstate.bulk()?;
            write_coins(self.job, results.matched, &bulk, shared.pool)?;
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
        let tip = node.tree.node(node.tip());
        let (height, best_block) = (tip.height, tip.hash);
        let coins = node.ledger.coins.unwrap_or_default() as u64;
        Ok(Finished { height, best_block, coins, amount, counts: node.ledger.done.counts, refusal })
    }

    /// Returns the block at a height of the job.
    fn id(&self, height: u32) -> BlockId {
        let chain = ActiveChain::to(&self.job.tree, self.job.tree.best_header());
        let hash = self.job.tree.node(self.job.block(&chain, height)).hash;
        self.node.tree.find(&hash).expect("all headers were added")
    }

    /// Returns the plan of a join up to `target`, in which no block is read.
    fn plan(&self, target: BlockId) -> Plan {
        let (tree, job) = (&self.node.tree, self.job);
        let whole = ActiveChain::to(tree, tree.best_header());
        let (assumevalid, end) = (job.manifest.assumevalid(), tree.node(target).height + 1);
        let assumed = apus_node::assumevalid::Assumed::new(assumevalid, tree);
        let place = apus_node::sources::Place::Peers;
        let steps = (1..end).filter_map(|height| whole.at(height));
        let steps = steps.map(|id| apus_node::block::step::Step { id, place, weight: 0 }).collect();
        Plan::of_steps(tree, &whole, 1, steps, assumed)
    }

    /// Copies blocks that the directory does not hold to its block files, in order of height.
    fn store_blocks(&mut self, results: &Results) -> Result<(), SyncError> {
        let known = results.read.iter().flatten().flat_map(|(_, note)| &note.blocks);
        let whole = ActiveChain::to(&self.node.tree, self.node.tree.best_header());
        let lacks = |height: u32| {
            whole.at(height).is_some_and(|id| self.node.record(id).block_pos().is_none())
        };
        let Some(first) = (1..results.end).find(|height| lacks(*height)) else { return Ok(()) };
        let blocks = JobBlocks::new(self.job, first..results.end)?;
        let mut lane = Lane::default();
        let (shared, ledger) = self.node.split();
        for (height, block) in (1..results.end).zip(known).skip(first as usize - 1) {
            if self.watch.is_stopped() {
                return Err(SyncError::Stopped);
            }
            let bytes = blocks.take(height)?;
            let id = whole.at(height).expect("all headers were added");
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
        let whole = ActiveChain::to(shared.tree, shared.tree.best_header());
        let mut written = Vec::new();
        let mut next = 1;
        for pack in &results.checked {
            pack.read(&self.job.objects, 1..results.end, |height, payload| {
                if height != next {
                    let what = format!("the undo data of block {next} is missing");
                    return Err(StoreError::new(self.job.objects.path(pack.name()), what));
                }
                next += 1;
                let id = whole.at(height).expect("all headers were added");
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
        assert_eq!(next, results.end, "the balance counts each block");
        Ok(written)
    }

    /// Connects the block at `height` in order, which tells why it is not valid.
    fn connect(&mut self, height: u32) -> Result<Option<Refusal>, SyncError> {
        let network = &self.job.manifest.network;
        let mut connected: Vec<BlockId> = self.node.tree.ancestors(self.node.tip()).collect();
        connected.reverse();
        connected.into_iter().for_each(|id| self.node.tree.mark_stored(id, true));
        let bytes = JobBlocks::new(self.job, height..height + 1)?.take(height)?;
        let scratch = TemporaryDir::new()?;
        let path = scratch.path().join("block");
        let len = (bytes.len() as u32).to_le_bytes();
        let framed = [&network.magic[..], &len, &bytes].concat();
        std::fs::write(&path, framed).map_err(|e| StoreError::io(&path, "write a block", e))?;
        let source = BlockSource::open(&path, network)?;
        scan_into_node(&mut self.node, &[source], self.watch)?;
        activate(&mut self.node, Goal::Best { up_to: height }, self.watch)?;
        let hash = self.node.tree.node(self.id(height)).hash;
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
    matched: Vec<(Pack, super::results::MatchNote)>,
    bulk: &Bulk,
    pool: &rayon::ThreadPool,
) -> Result<(), StoreError> {
    let each = matched.len().div_ceil(4 * pool.current_num_threads().max(1)).max(1);
    pool.install(|| {
        matched.par_chunks(each).try_for_each(|packs| {
            let mut writer = bulk.writer();
            for (pack, _) in packs {
                pack.read(&job.objects, COINS..COINS + 1, |_, bytes| {
                    for_each_coin(&mut bytes.to_vec(), |key, coin| writer.put_raw(key, coin))
                })?;
            }
            writer.finish()
        })
    })
}

/// Writes a snapshot file of the coins of all partitions.
fn write_snapshot(job: &Job, results: &Results, plan: &Plan, path: &Path) -> Result<(), SyncError> {
    let base = job.tree.node(plan.chain.tip().unwrap_or(job.tree.genesis())).hash;
    let coins = results.matched.iter().map(|(_, note)| note.counts.left).sum();
    let head = SnapshotHead { network: job.manifest.network.magic, base, coins };
    Disk::new().write_new(path, |file| {
        file.write_all_at(&head.to_bytes(), 0)?;
        let mut at = SnapshotHead::BYTES as u64;
        for (pack, note) in &results.matched {
            let mut written = SnapshotCoins::default();
            let name = job.objects.path(pack.name());
            pack.read(&job.objects, COINS..COINS + 1, |_, bytes| {
                for_each_coin(&mut bytes.to_vec(), |key, coin| {
                    let coin = Coin::decode(&mut Cursor::new(coin));
                    let (outpoint, coin) = decode_coin_key(key)
                        .and_then(|outpoint| Ok((outpoint, coin?)))
                        .map_err(|error| StoreError::new(&name, error.to_string()))?;
                    written.push(&outpoint, &coin);
                    Ok(())
                })
            })?;
            let (bytes, coins) = written.finish();
            if coins != note.counts.left {
                return Err(StoreError::new(&name, "it has another number of coins than it says"));
            }
            file.write_all_at(&bytes, at)?;
            at += bytes.len() as u64;
        }
        Ok(())
    })?;
    Ok(())
}
