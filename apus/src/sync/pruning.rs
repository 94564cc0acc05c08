//! Pruning: block files are deleted once they are too many and their blocks lie deep enough below a
//! tip that is committed.
//!
//! Everything that makes a file superfluous is durable before it goes: first the coins of a tip 288
//! blocks above it, then the flag of pruned files, then the entries of the blocks that it holds,
//! then its cleared info, and then the file is deleted. After a crash in between, the next start or
//! the next pruning ends it.

use std::collections::BTreeSet;

use super::commit::Ledger;
use super::options::{Options, Prune};
use super::outcome::Pruned;
use crate::chain::{BlockId, Tree};
use crate::disk::{Disk, StoreError};
use crate::store::{
    BlockFiles, BlockStatus, FileInfo, files_above_target, files_up_to, indexes_that_need_blocks,
    prunable_height, usage,
};
use crate::sync::block::shared::Shared;

/// Bytes of blocks after which it is looked again whether files are too many: those by which files
/// grow at once.
const LOOK_EVERY_BYTES: u64 = 16 << 20;

/// What is pruned, and what was.
#[derive(Default)]
pub(super) struct Pruning {
    mode: Option<Prune>,
    /// Whether block files were ever pruned: the flag of the block index.
    pub is_pruned: bool,
    /// The height that the tip must be above.
    after: u32,
    /// The best block of an index that holds pruning back, by its height.
    lock: Option<u32>,
    /// Bytes of the files that this run has deleted.
    pub freed_bytes: u64,
    /// Pruned blocks that are not of the active chain, and so cannot become part of it any more.
    side: Vec<BlockId>,
    /// [`super::outcome::Counts::bytes`] when it was last looked whether files are too many.
    looked_at_bytes: u64,
    /// Whether files are too many that may go once the tip is committed.
    waits_for_commit: bool,
}

impl Pruning {
    /// Pruning as `options` want it, in a directory of which block files were or were not pruned.
    pub fn new(options: &Options, is_pruned: bool) -> Self {
        let network = &options.network;
        let after = match options.fast_prune {
            true => network.prune_after_height.min(FAST_PRUNE_AFTER),
            false => network.prune_after_height,
        };
        Self { mode: options.prune, is_pruned, after, ..Self::default() }
    }

    /// The height that the tip must be above, or at to prune by hand.
    pub fn after(&self) -> u32 {
        self.after
    }

    /// Deletes nothing in this run.
    pub fn turn_off(&mut self) {
        self.mode = None;
    }

    /// Asks the indexes of Core's in the network's directory how far they are: a block that is
    /// pruned above, Core would miss.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn find_lock(
        &mut self,
        disk: &Disk,
        options: &Options,
        tree: &Tree,
    ) -> Result<(), StoreError> {
        for index in indexes_that_need_blocks(disk, &options.network_dir())? {
            // An index that has not begun holds nothing back, as with Core. One whose best block
            // is not known here holds back everything.
            let Some(best) = index.best else { continue };
            let height = tree.find(&best).map_or(0, |id| tree.node(id).height);
            tracing::debug!(height, "pruning is held back by {}", index.path.display());
            self.lock = Some(self.lock.map_or(height, |lock| lock.min(height)));
        }
        Ok(())
    }

    /// The files that are too many where the tip is at `tip`, and `best` blocks are to be there in
    /// the end.
    fn choose(&self, infos: &[FileInfo], tip: u32, best: u32) -> Vec<u32> {
        let (Some(target), Some(height)) =
            (self.target(), prunable_height(tip, self.after, self.lock))
        else {
            return Vec::new();
        };
        files_above_target(infos, target, height, best.saturating_sub(tip))
    }

    /// Bytes that block and undo files may have; `None` for any number.
    pub fn target(&self) -> Option<u64> {
        match self.mode {
            Some(Prune::Target(target)) => Some(target),
            Some(Prune::Manual) | None => None,
        }
    }

    /// The pruned blocks that cannot become part of the active chain any more, once.
    pub fn take_side_blocks(&mut self) -> Vec<BlockId> {
        std::mem::take(&mut self.side)
    }
}

/// Core's `nPruneAfterHeight` of regtest with `-fastprune`.
const FAST_PRUNE_AFTER: u32 = 100;

impl Ledger {
    /// Deletes the files that are too many and that the committed tip makes superfluous, if it is
    /// time to look. Nothing else needs to be durable for that. If there are others that would go
    /// with the present tip, [`Ledger::wants_commit`] says so.
    pub fn prune_meanwhile(&mut self, shared: &Shared) -> Result<(), StoreError> {
        let is_time = self.counts.bytes >= self.pruning.looked_at_bytes + LOOK_EVERY_BYTES;
        if self.pruning.target().is_none() || !is_time {
            return Ok(());
        }
        self.pruning.looked_at_bytes = self.counts.bytes;
        self.prune(shared)?;
        let tip = self.active.height().unwrap_or(0);
        let infos = shared.files.prunable_infos();
        self.pruning.waits_for_commit =
            !self.pruning.choose(&infos, tip, best_height(shared.tree)).is_empty();
        Ok(())
    }

    /// Whether files are too many that may go once the tip is committed.
    pub fn pruning_waits_for_commit(&self) -> bool {
        self.pruning.waits_for_commit
    }

    /// Deletes the files that are too many and that the committed tip makes superfluous.
    pub fn prune(&mut self, shared: &Shared) -> Result<(), StoreError> {
        self.pruning.waits_for_commit = false;
        let infos = shared.files.prunable_infos();
        let files = self.pruning.choose(&infos, self.committed_height, best_height(shared.tree));
        self.delete_files(shared.files, shared.tree, &files)
    }

    /// Deletes all files whose blocks are at `height` or below, but for those that must stay.
    pub fn prune_up_to(
        &mut self,
        files: &BlockFiles,
        tree: &Tree,
        height: u32,
    ) -> Result<(), StoreError> {
        let most = prunable_height(self.committed_height, 0, self.pruning.lock);
        let Some(most) = most else { return Ok(()) };
        let chosen = files_up_to(&files.prunable_infos(), height.min(most));
        self.delete_files(files, tree, &chosen)
    }

    /// What pruning has done; `None` if nothing was deleted, and nothing is to be.
    pub fn pruned(&self, files: &BlockFiles) -> Option<Pruned> {
        let Pruning { mode, is_pruned, lock, freed_bytes, .. } = self.pruning;
        let (blocks_from, usage) = (self.blocks_from(), usage(&files.infos()));
        let pruned = Pruned { blocks_from, freed_bytes, usage, held_at: lock };
        (is_pruned || mode.is_some()).then_some(pruned)
    }

    fn delete_files(
        &mut self,
        files: &BlockFiles,
        tree: &Tree,
        numbers: &[u32],
    ) -> Result<(), StoreError> {
        if numbers.is_empty() {
            return Ok(());
        }
        if !self.pruning.is_pruned {
            self.index.write_pruned()?;
            self.pruning.is_pruned = true;
        }
        let set: BTreeSet<u32> = numbers.iter().copied().collect();
        let stored = |id: &BlockId| {
            let record = self.record(*id);
            record.status.0 & BlockStatus::BLOCK_HAVE_MASK != 0 && set.contains(&record.file)
        };
        let blocks: Vec<BlockId> = tree.ids().filter(stored).collect();
        for id in blocks {
            self.change(id).forget_data();
            if !self.active.contains(tree, id) {
                self.pruning.side.push(id);
            }
        }
        let infos = files.prunable_infos();
        let freed: Vec<FileInfo> = numbers.iter().map(|number| infos[*number as usize]).collect();
        files.prune(numbers)?;
        self.write_index(files, tree)?;
        files.remove(numbers)?;
        self.pruning.freed_bytes += usage(&freed);
        tracing::debug!(?numbers, freed = usage(&freed), "pruned block files");
        Ok(())
    }
}

fn best_height(tree: &Tree) -> u32 {
    tree.node(tree.best_header()).height
}
