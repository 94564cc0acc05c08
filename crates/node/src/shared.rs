//! The parts of a node that all threads of a sync may read, and how a thread gets a checked block.

use std::sync::atomic::AtomicBool;

use apus_chain::{BlockId, Tree};
use apus_coins::{Chainstate, CoinsCache};
use apus_consensus::CheckedBlock;
use apus_disk::{ShareWatch, StoreError};
use apus_store::BlockFiles;
use apus_wire::{BlockView, Network};
use rayon::ThreadPool;

use super::block::check::{History, check_bytes};
use super::block::prepare::Prepared;
use super::block::scripts::{ScriptChecker, ScriptChecks};
use super::block::step::Step;
use crate::block_peers::{BlockPeers, Wanted};
use crate::fault::Fault;
use crate::sources::{BlockBytes, BlockOrigin, Sources};
use crate::view::View;
use apus_progress::Observer;
use apus_progress::clock::{Clock, Stage};
use apus_progress::estimate::plan::Costs;
use apus_progress::marks::Marks;
use apus_progress::phase::Phase;

/// A flag that is never raised, for blocks that no thread waits for.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// The parts of a node that every thread may read.
pub struct Shared<'a> {
    /// The network's constants.
    pub network: &'a Network,
    /// All known headers.
    pub tree: &'a Tree,
    /// The block and undo files.
    pub files: &'a BlockFiles,
    /// The files given with --from.
    pub sources: &'a Sources,
    /// The UTXO set on disk.
    pub chainstate: &'a Chainstate,
    /// The coins in memory.
    pub cache: &'a CoinsCache,
    /// The times of the stages.
    pub clock: &'a Clock,
    /// The threads for loops over much data.
    pub pool: &'a ThreadPool,
    /// The peers that send blocks; `None` without peers.
    pub peers: Option<&'a dyn BlockPeers>,
    /// How scripts are checked.
    pub scripts: &'a ScriptChecker,
    /// The work done on each block, for observers.
    pub marks: &'a Marks,
    /// Where the directory's content is shown to readers, if it is.
    pub view: Option<&'a View>,
    /// The cost of blocks in each phase.
    pub costs: &'a Costs,
}

impl Shared<'_> {
    /// Returns what `phase` costs for each of these blocks, in nanoseconds of the machine of
    /// docs/budget.md. Scripts are checked from the block at index `scripts_from` on.
    pub fn weights(&self, phase: Phase, steps: &[Step], scripts_from: usize) -> Vec<u64> {
        let weight = |(index, step): (usize, &Step)| {
            let bytes = step.weight as f64;
            let script_bytes = if index >= scripts_from { bytes } else { 0.0 };
            (self.costs.seconds(phase, 1.0, bytes, script_bytes) * 1e9) as u64
        };
        steps.iter().enumerate().map(weight).collect()
    }

    /// Returns how to check the scripts of a block that are not assumed valid.
    pub fn script_checks(&self, id: BlockId) -> ScriptChecks {
        self.scripts.checks(self.network, self.tree, id)
    }

    /// Merges some runs of tables if there are too many, on the threads of `pool`, and returns
    /// whether it did ([`Chainstate::merge`]). Tables that are no longer needed are not kept for
    /// readers.
    pub fn merge(&self, pool: &ThreadPool, watch: ShareWatch) -> Result<bool, StoreError> {
        self.refreshing(pool, || self.chainstate.merge(watch))
    }

    /// Merges tables until Bitcoin Core finds nothing to compact, and returns whether it finished
    /// ([`Chainstate::settle`]).
    pub fn settle(&self, watch: ShareWatch) -> Result<bool, StoreError> {
        self.refreshing(self.pool, || self.chainstate.settle(watch))
    }

    fn refreshing(
        &self,
        pool: &ThreadPool,
        merge: impl FnOnce() -> Result<bool, StoreError> + Send,
    ) -> Result<bool, StoreError> {
        let merged = pool.install(merge)?;
        if let Some(view) = self.view {
            view.refresh(&self.chainstate.view());
        }
        Ok(merged)
    }

    /// Reads the block of a step, or waits for a peer to send it, and checks all rules that need no
    /// coins.
    ///
    /// # Errors
    /// The block is damaged or breaks a rule, no peer has it, the disk fails, or `halt` was raised
    /// while it was waited for.
    pub fn checked(
        &self,
        step: Step,
        halt: &AtomicBool,
    ) -> Result<CheckedBlock<BlockBytes>, Fault> {
        self.checked_as(step, History::New, halt)
    }

    /// Does the same as [`Shared::checked`]; `of_peers` says what is known of a block from a peer.
    pub fn checked_as(
        &self,
        step: Step,
        of_peers: History,
        halt: &AtomicBool,
    ) -> Result<CheckedBlock<BlockBytes>, Fault> {
        if step.place == BlockOrigin::Peers {
            let Some(peers) = self.peers else { return Err(Fault::Gone(step)) };
            let mut checked = None;
            peers.fetch(self.tree, step, halt, &mut |bytes| {
                let _timer = self.clock.start(Stage::Check);
                checked = Some(check_bytes(self.tree, step, of_peers, bytes)?);
                Ok(())
            })?;
            return Ok(checked.expect("a block was fetched, so one has passed the check"));
        }
        let bytes = {
            let _timer = self.clock.start(Stage::Read);
            self.read(step)?
        };
        let history = match step.place {
            BlockOrigin::Stored(_) => History::CheckedBefore,
            BlockOrigin::Source(_) | BlockOrigin::Peers => History::New,
        };
        let _timer = self.clock.start(Stage::Check);
        check_bytes(self.tree, step, history, bytes)
    }

    /// Reads a block that has passed [`Shared::checked`] before, provided that `is_same`
    /// confirms its bytes. Its transactions are not hashed again.
    pub fn read_again(
        &self,
        step: Step,
        is_same: impl FnOnce(&[u8]) -> bool,
    ) -> Result<CheckedBlock<BlockBytes>, Fault> {
        let bytes = {
            let _timer = self.clock.start(Stage::Read);
            self.read(step)?
        };
        let _timer = self.clock.start(Stage::Check);
        let view = BlockView::parse(bytes)
            .map_err(|error| Fault::Damaged(step, format!("not a block: {error}")))?;
        if !is_same(view.bytes()) {
            let what = "these are not the bytes that were checked before";
            return Err(Fault::Damaged(step, what.to_string()));
        }
        Ok(CheckedBlock::checked_before(view, self.tree.node(step.id).hash))
    }

    /// Checks the block of a step as [`Shared::checked`] does, and lays out the coins that it
    /// spends and creates.
    pub fn prepare(&self, step: Step, halt: &AtomicBool) -> Result<Prepared, Fault> {
        let block = self.checked(step, halt)?;
        let _timer = self.clock.start(Stage::Check);
        Ok(Prepared::new(block, self.tree.node(step.id).height))
    }

    /// Keeps at least `bytes` of the disk free from all that is written for blocks.
    pub fn keep_free(&self, bytes: u64) {
        self.files.keep_free(bytes);
        if let Some(peers) = self.peers {
            peers.keep_free(bytes);
        }
    }

    /// Has peers send the `wanted` blocks while `work` runs.
    pub fn serve<T>(&self, wanted: Wanted, observer: &dyn Observer, work: impl FnOnce() -> T) -> T {
        let Some(peers) = self.peers else { return work() };
        let mut work = Some(work);
        let mut result = None;
        peers.serve(self.tree, wanted, observer, &mut || {
            result = work.take().map(|work| work());
        });
        result.expect("peers serve while the work is done, once")
    }

    /// Reads the bytes at a step's place, or waits for a peer to send them, unchecked.
    fn read(&self, step: Step) -> Result<BlockBytes, Fault> {
        match step.place {
            BlockOrigin::Stored(pos) => {
                self.files.read_block(pos).map_err(|error| match error.source {
                    None => Fault::Damaged(step, error.what),
                    Some(_) => Fault::Store(error),
                })
            }
            BlockOrigin::Source(place) => self.sources.read(place).map_err(Fault::Store),
            BlockOrigin::Peers => {
                let peers = self.peers.ok_or(Fault::Gone(step))?;
                let mut bytes = Vec::new();
                peers.fetch(self.tree, step, &NEVER, &mut |block| {
                    bytes = block;
                    Ok(())
                })?;
                Ok(bytes)
            }
        }
    }
}
