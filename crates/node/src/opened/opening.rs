//! The opening of a data directory.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use apus_chain::{ActiveChain, Tree};
use apus_coins::{Chainstate, CoinsCache};
use apus_consensus::proof_of_work;
use apus_disk::{Disk, FileSystem, StoreError};
use apus_host::memory::limit::is_little;
use apus_host::memory::pressure::Squeeze;
use apus_leveldb as leveldb;
use apus_progress::estimate::plan::Costs;
use apus_store::{BlockIndex, BlockStatus};
use apus_wire::{BlockView, genesis_block};

use super::{Coins, Node, Parts};
use crate::block::scripts::ScriptChecker;
use crate::block::validate::BranchTimes;
use crate::coin_count::CoinCount;
use crate::commit::{Ledger, Writes};
use crate::directory::open_directory;
use crate::error::SyncError;
use crate::forecast::Forecast;
use crate::options::Options;
use crate::pruning::Pruning;
use crate::refusals::Refusals;
use crate::run::Run;
use crate::snapshot_chainstate::SnapshotChainstate;
use crate::sources::Sources;
use crate::system_clock::refuse_clock_behind;
use crate::unindexed::{refuse_half_an_index, refuse_unindexed};
use crate::view::View;

/// Number of index entries after which entries in the tree give up their memory: 9 MB of
/// them.
const LOADED_TOGETHER: usize = 1 << 16;

impl Node {
    /// Opens the data directory, and unless it is only read, creates what is missing, including the
    /// genesis block. Tables of coins that belong to no UTXO set are removed once the directory is
    /// locked, except those that `keep` names.
    pub fn open(
        run: &Run,
        coins: Coins<'_>,
        keep: impl FnOnce(&Disk, &Options) -> Result<Vec<u64>, StoreError>,
    ) -> Result<Self, SyncError> {
        let Run { options, disk, .. } = run;
        let network = &options.network;
        let read_only = matches!(coins, Coins::ReadOnly);
        if !read_only {
            refuse_unindexed(options)?;
        }
        let dir = open_directory(options, disk, read_only)?;
        let (index_db, index, files) = dir.open_blocks()?;
        refuse_half_an_index(&dir, &index, options)?;
        let chainstate_path = match coins {
            Coins::InPlace | Coins::ReadOnly => dir.chainstate_path(),
            Coins::New(rebuild) => rebuild.prepare(disk)?,
        };
        let keep = if read_only { Vec::new() } else { keep(disk, options)? };
        let chainstate = open_chainstate(disk, &chainstate_path, read_only, keep)?;
        let scripts = ScriptChecker::new(options, disk)?;
        let mut options = (*options).clone();
        options.scripts.engine = scripts.engine();
        let squeeze: Arc<Squeeze> = Arc::default();
        let ledger = Ledger::new(
            index_db,
            CoinCount::new(disk, &chainstate_path),
            options.dbcache_bytes,
            Arc::clone(&squeeze),
        );
        let parts = Parts {
            files,
            chainstate,
            cache: CoinsCache::new(),
            tree: Tree::new(network.clone()),
            sources: Sources::default(),
            peers: None,
            scripts,
            pool: apus_host::threads::pool(options.threads)?,
            clock: Arc::default(),
            marks: Arc::default(),
            costs: Costs::new(options.scripts.signature_cost(), options.threads),
            view: shown_in(run),
        };
        let mut node = Self {
            options,
            dir,
            ledger,
            parts,
            times: BranchTimes::default(),
            claimed: Vec::new(),
            forecast: Forecast::default(),
            states: None,
            squeeze,
            pressure: None,
            refusals: Refusals::default(),
            repaired: Vec::new(),
        };
        node.ledger.pruning = Pruning::new(&node.options, index.pruned);
        node.ledger.writes = Writes {
            any: !read_only,
            new_set: matches!(coins, Coins::New(_)),
            one_disk: is_one_disk(node.dir.blocks_path(), &chainstate_path)?,
            ..Writes::default()
        };
        if !read_only {
            node.ledger.snapshot = SnapshotChainstate::find_or_clear(disk, node.dir.path())?;
            node.choose_place_of_headers();
        }
        node.load(index)?;
        node.ledger.records.follow(&node.parts.tree);
        if !read_only {
            node.refuse_clock_behind()?;
            node.store_genesis()?;
        }
        node.stand_at_best_block()?;
        node.begin_pruning(coins)?;
        node.begin_view();
        let height = node.parts.tree.node(node.tip()).height;
        tracing::debug!(
            target: "blockstorage",
            height, headers = node.parts.tree.len(), headers_in_file = node.parts.tree.is_in_file(),
            "opened {}", node.dir.path().display()
        );
        Ok(node)
    }

    /// Keeps headers, records and places in files without names if memory is short, so that the
    /// system can take what they use.
    fn choose_place_of_headers(&mut self) {
        if is_little() {
            let directory = self.dir.path().into();
            self.parts.tree.keep_in_file(&directory);
            self.ledger.records.all.keep_in_file(&directory);
            self.parts.sources.keep_in_file(&directory);
        }
    }

    /// Returns an error if the clock is behind the best block of the UTXO set in use: blocks that
    /// were accepted before would be refused now.
    fn refuse_clock_behind(&self) -> Result<(), SyncError> {
        let best = self.best_block_in_use().ok().flatten();
        let Some(block) = best.and_then(|hash| self.parts.tree.find(&hash)) else { return Ok(()) };
        refuse_clock_behind(
            &format!("the best block of {}", self.dir.path().display()),
            self.parts.tree.node(block).time,
        )
    }

    /// Finds the indexes of bitcoind that hold pruning back, or turns pruning off.
    fn begin_pruning(&mut self, coins: Coins<'_>) -> Result<(), StoreError> {
        match coins {
            Coins::InPlace if self.options.prune.is_some() => self.find_prune_locks()?,
            Coins::InPlace => {}
            // The UTXO set in use until then may need the blocks.
            Coins::New(_) | Coins::ReadOnly => self.ledger.pruning.turn_off(),
        }
        Ok(())
    }

    /// Shows readers what the directory holds.
    fn begin_view(&mut self) {
        let Some(view) = self.parts.view.clone() else { return };
        let (shared, ledger) = self.split();
        ledger.publish_in(&shared, view);
    }

    /// Stores the genesis block, unless it was stored before: if it was pruned, it is not needed
    /// again. Writes the block index if it holds no other block.
    fn store_genesis(&mut self) -> Result<(), StoreError> {
        let Parts { files, tree, .. } = &self.parts;
        let id = tree.genesis();
        if self.record(id).tx_count == 0 {
            let bytes = genesis_block(tree.network());
            let block = BlockView::parse(&bytes).expect("the built-in genesis block parses");
            self.ledger.store_block_in(files, tree, id, &block)?;
        }
        match self.parts.tree.len() {
            1 => self.write_index(),
            _ => Ok(()),
        }
    }

    /// Loads the block index into the tree, parents first, since the index is sorted by hash.
    /// Entries give up their memory as the tree grows, so that both take as much as one.
    fn load(&mut self, index: BlockIndex) -> Result<(), StoreError> {
        let mut entries = index.entries;
        entries.sort_unstable_by_key(|entry| Reverse(entry.height));
        while let Some(entry) = entries.pop() {
            if entries.len().is_multiple_of(LOADED_TOGETHER) {
                entries.shrink_to_fit();
            }
            if !proof_of_work(&entry.hash, entry.header.bits, self.parts.tree.network()) {
                let what = format!("the entry of block {} has no valid proof of work", entry.hash);
                return Err(StoreError::new(self.dir.index_path(), what));
            }
            let id =
                self.parts.tree.restore(entry.hash, &entry.header, entry.record.status.is_failed());
            let fits = id.filter(|id| self.parts.tree.node(*id).height == entry.height);
            let Some(id) = fits else {
                let what = format!(
                    "the entry of block {} has no parent, or a height that does not follow its \
                     parent's",
                    entry.hash
                );
                return Err(StoreError::new(self.dir.index_path(), what));
            };
            // Genesis has a record before its entry is read; that of every other entry is appended.
            if id.index() < self.ledger.records.all.len() {
                self.ledger.records.all[id.index()] = entry.record
            } else {
                self.ledger.records.all.push(entry.record)
            }
            if self.parts.tree.node(id).failed && !entry.record.status.is_failed() {
                self.ledger.change(id).status.0 |= BlockStatus::BLOCK_FAILED_VALID;
            }
        }
        Ok(())
    }

    /// Makes the chainstate's best block the tip, and marks as available in the tree the stored
    /// blocks, and those of the active chain, which may be pruned.
    fn stand_at_best_block(&mut self) -> Result<(), StoreError> {
        let best = self.parts.chainstate.best_block()?;
        let tip = match best {
            None => None,
            Some(hash) => Some(self.find_best_block(&self.parts.chainstate, hash)?),
        };
        self.ledger.find_coins(best.as_ref())?;
        let active = ActiveChain::to(&self.parts.tree, tip.unwrap_or(self.parts.tree.genesis()));
        for id in self.parts.tree.ids() {
            let is_active = active.contains(&self.parts.tree, id);
            if is_active || self.ledger.record(id).block_pos().is_some() {
                self.parts.tree.mark_stored(id, is_active);
            }
        }
        self.ledger.begin_at(active);
        Ok(())
    }
}

/// Returns where the content of the directory is shown: where the run says, or to peers alone.
fn shown_in(run: &Run) -> Option<Arc<View>> {
    let is_served = run.options.peers.as_ref().is_some_and(|peers| peers.listen);
    run.view.clone().or_else(|| is_served.then(Arc::default))
}

/// Returns whether two directories are on the same disk.
fn is_one_disk(one: &Path, other: &Path) -> Result<bool, StoreError> {
    Ok(FileSystem::of(one)?.device == FileSystem::of(other)?.device)
}

/// Opens the UTXO set in the directory `path`. The tables whose numbers are in `keep` are not
/// removed, even if no UTXO set names them.
fn open_chainstate(
    disk: &Disk,
    path: &Path,
    read_only: bool,
    keep: Vec<u64>,
) -> Result<Chainstate, SyncError> {
    let create_if_missing = !read_only;
    let tables =
        leveldb::Options { create_if_missing, read_only, keep, ..leveldb::Options::default() };
    Ok(Chainstate::open(disk.clone(), path, tables)?)
}
