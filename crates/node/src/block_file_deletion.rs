//! Pruning: deletes block files above the target once their blocks are deep enough below a
//! committed tip.
//!
//! Everything that makes a file superfluous is durable before the file is deleted: first the coins
//! of a tip 288 blocks above it, then the flag of pruned files, then the entries of the file's
//! blocks, then its cleared info. After a crash in between, the next start or the next pruning
//! completes it.

use std::collections::BTreeSet;

use apus_chain::{ActiveChain, BlockId, Tree};
use apus_disk::StoreError;
use apus_store::{BlockFiles, BlockStatus, FileInfo, files_up_to, usage};

use super::commit::Ledger;
use super::shared::Shared;
use apus_progress::outcome::Pruned;

impl Ledger {
    /// Prunes files as [`Ledger::prune`] does, if it is time to check them and no commit is being
    /// written. If more files could be pruned once the present tip is committed,
    /// [`Ledger::wants_commit`] asks for a commit.
    pub fn prune_meanwhile(&mut self, shared: &Shared) -> Result<(), StoreError> {
        if self.is_committing() || !self.pruning.is_time(self.done.counts.bytes) {
            return Ok(());
        }
        self.prune(shared)?;
        let tip = self.active.height().unwrap_or(0);
        let infos = shared.files.prunable_infos();
        self.pruning.waits_for_commit =
            !self.pruning.choose(&infos, tip, best_height(shared.tree)).is_empty();
        Ok(())
    }

    /// Prunes files above the target that the committed tip makes superfluous.
    pub fn prune(&mut self, shared: &Shared) -> Result<(), StoreError> {
        self.pruning.waits_for_commit = false;
        let infos = shared.files.prunable_infos();
        let tip = height_in_both(shared.tree, &self.active, self.committed_tip());
        let files = self.pruning.choose(&infos, tip, best_height(shared.tree));
        self.delete_files(shared.files, shared.tree, &files)
    }

    /// Prunes all files whose blocks are at `height` or below, except files that must be kept.
    pub fn prune_up_to(
        &mut self,
        files: &BlockFiles,
        tree: &Tree,
        height: u32,
    ) -> Result<(), StoreError> {
        let most = self.pruning.prunable_by_hand(self.committed_height());
        let Some(most) = most.filter(|_| height > 0) else { return Ok(()) };
        let chosen = files_up_to(&files.prunable_infos(), height.min(most));
        self.delete_files(files, tree, &chosen)
    }

    /// Returns what pruning has done; `None` if nothing was ever pruned, and pruning is not
    /// automatic.
    pub fn pruned(&self, files: &BlockFiles) -> Option<Pruned> {
        let may_say = self.pruning.is_pruned || self.pruning.target().is_some();
        may_say.then(|| self.pruned_so_far(files))
    }

    /// Returns what pruning has done, even if nothing.
    pub fn pruned_so_far(&self, files: &BlockFiles) -> Pruned {
        Pruned {
            blocks_from: self.blocks_from(),
            freed_bytes: self.pruning.freed_bytes,
            usage: usage(&files.infos()),
            held_at: self.pruning.held_at(self.active.height().unwrap_or(0)),
        }
    }

    /// Records in the index that blocks may be missing.
    pub fn note_pruned(&mut self) -> Result<(), StoreError> {
        self.pruning.note_pruned(&self.records.index)
    }

    /// Records a block of `tx_count` transactions that has passed all rules that need no coins, but
    /// is not stored, since it would be pruned again: its record is that of a pruned block.
    pub fn note_dropped(&mut self, tree: &Tree, id: BlockId, tx_count: u32) {
        self.pruning.has_dropped = true;
        self.records.note_checked(tree, id, tx_count);
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
        self.note_pruned()?;
        let set: BTreeSet<u32> = numbers.iter().copied().collect();
        let stored = |id: &BlockId| {
            let record = self.record(*id);
            record.status.0 & BlockStatus::BLOCK_HAVE_MASK != 0 && set.contains(&record.file)
        };
        let blocks: Vec<BlockId> = tree.ids().filter(stored).collect();
        for id in blocks.iter().copied() {
            self.change(id).forget_data();
            if !self.active.contains(tree, id) {
                self.pruning.side.push(id);
            }
        }
        self.hide(&blocks);
        let infos = files.prunable_infos();
        let freed: Vec<FileInfo> = numbers.iter().map(|number| infos[*number as usize]).collect();
        files.prune(numbers)?;
        self.write_index(files, tree)?;
        files.remove(numbers)?;
        self.pruning.freed_bytes += usage(&freed);
        tracing::debug!(target: "prune", ?numbers, freed = usage(&freed), "pruned block files");
        Ok(())
    }
}

/// Returns the height of the last block that the active chain and that of the committed tip have in
/// common. In a reorganisation, the blocks of the committed branch above it must be disconnected
/// again after a crash.
fn height_in_both(tree: &Tree, active: &ActiveChain, committed: Option<BlockId>) -> u32 {
    let fork = committed.and_then(|tip| active.fork(tree, tip));
    fork.map_or(0, |fork| tree.node(fork).height)
}

fn best_height(tree: &Tree) -> u32 {
    tree.node(tree.best_header()).height
}

#[cfg(test)]
mod tests {
    use apus_wire::{Chain, Header, Network};

    use super::*;

    /// Adds `n` blocks on `parent`, and returns them.
    fn branch(tree: &mut Tree, parent: BlockId, count: u32, nonce: u32) -> Vec<BlockId> {
        let mut tip = parent;
        let ids = (0..count).map(|_| {
            let prev = tree.node(tip).hash;
            let header = Header { prev, nonce, bits: 0x207f_ffff, ..Header::default() };
            tip = tree.restore(header.hash(), &header, false).unwrap();
            tip
        });
        ids.collect()
    }

    #[test]
    fn until_a_new_branch_is_committed_only_the_fork_counts() {
        let network = Network::new(Chain::Regtest);
        let mut tree = Tree::new(network);
        let genesis = tree.genesis();
        let old = branch(&mut tree, genesis, 500, 1);
        let new = branch(&mut tree, old[99], 450, 2);
        let height = |active, committed| {
            height_in_both(&tree, &ActiveChain::to(&tree, active), Some(committed))
        };
        // The same branch: the lower of both tips.
        assert_eq!(height(old[499], old[399]), 400);
        assert_eq!(height(old[199], old[399]), 200);
        // Another one: the files of the committed branch above the fork are still needed.
        assert_eq!(height(new[449], old[499]), 100);
        assert_eq!(height(new[449], new[399]), 500);
        assert_eq!(height_in_both(&tree, &ActiveChain::to(&tree, old[9]), None), 0);
    }
}
