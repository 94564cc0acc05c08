//! Whether block files are pruned, which of them, and how far Core's indexes hold pruning back.

use apus_chain::{BlockId, Tree};
use apus_disk::{Disk, StoreError};
use apus_store::{
    FileInfo, IndexDb, STORAGE_HEADER_BYTES, files_above_target, find_index,
    indexes_that_need_blocks, prunable_height, stored_from,
};

use super::options::{Options, Prune};

/// Bytes of connected blocks after which files are checked against the target again: the size by
/// which block files grow.
const LOOK_EVERY_BYTES: u64 = 16 << 20;
/// The same with `-fastprune`, whose block files are small.
const FAST_LOOK_EVERY_BYTES: u64 = 16 << 10;

/// Core's `nPruneAfterHeight` of regtest with `-fastprune`.
const FAST_PRUNE_AFTER: u32 = 100;

/// The pruning of this run, and what was pruned before.
#[derive(Default)]
pub struct Pruning {
    /// Which block files are pruned.
    pub mode: Option<Prune>,
    /// Whether block files were ever pruned: the flag of the block index.
    pub is_pruned: bool,
    /// The height that the tip must be above.
    after: u32,
    look_every_bytes: u64,
    /// The height of the best block of the index that holds pruning back.
    lock: Option<u32>,
    /// Bytes of the files that this run has deleted.
    pub freed_bytes: u64,
    /// Whether checked blocks were not stored: the index must not record them without the flag.
    pub has_dropped: bool,
    /// Pruned blocks outside the active chain, which can no longer become part of it.
    pub side: Vec<BlockId>,
    /// [`apus_progress::outcome::Counts::bytes`] when files were last checked against the target.
    looked_at_bytes: u64,
    /// Whether there are files to prune as soon as the tip is committed.
    pub waits_for_commit: bool,
}

impl Pruning {
    /// Returns pruning as `options` ask for it; `is_pruned` says whether files of the directory
    /// were pruned before.
    pub fn new(options: &Options, is_pruned: bool) -> Self {
        let network = &options.network;
        let (after, look_every_bytes) = if options.fast_prune {
            (network.prune_after_height.min(FAST_PRUNE_AFTER), FAST_LOOK_EVERY_BYTES)
        } else {
            (network.prune_after_height, LOOK_EVERY_BYTES)
        };
        Self { mode: options.prune, is_pruned, after, look_every_bytes, ..Self::default() }
    }

    /// Returns the height that the tip must be above for pruning, or have reached for pruning by
    /// hand.
    pub fn after(&self) -> u32 {
        self.after
    }

    /// Records in the block index that blocks may be missing.
    pub fn note_pruned(&mut self, index: &IndexDb) -> Result<(), StoreError> {
        if !self.is_pruned {
            index.write_pruned()?;
            self.is_pruned = true;
        }
        Ok(())
    }

    /// Turns pruning off for this run.
    pub fn turn_off(&mut self) {
        self.mode = None;
    }

    /// Looks up how far Core's indexes in the network's directory are: Core would miss a block that
    /// is pruned above that.
    pub fn find_lock(
        &mut self,
        disk: &Disk,
        options: &Options,
        tree: &Tree,
    ) -> Result<(), StoreError> {
        self.lock = None;
        let dir = options.network_dir();
        // An index that this run is to build has all blocks before it.
        for kind in options.indexes.iter().filter(|kind| kind.needs_undo()) {
            let found = find_index(disk, kind.database(&dir))?;
            if found.and_then(|index| index.best).is_none() {
                self.lock = Some(0);
            }
        }
        for index in indexes_that_need_blocks(disk, &dir)? {
            // An index that has not begun holds nothing back, as in Core. An index whose best block
            // is not known here holds back everything.
            let Some(best) = index.best else { continue };
            let height = tree.find(&best).map_or(0, |id| tree.node(id).height);
            tracing::debug!(
                target: "prune",
                height, "pruning is held back by {}", index.path.display()
            );
            self.lock = Some(self.lock.map_or(height, |lock| lock.min(height)));
        }
        Ok(())
    }

    /// Returns the files to prune with the tip at height `tip`, if the chain will grow to height
    /// `best`.
    pub fn choose(&self, infos: &[FileInfo], tip: u32, best: u32) -> Vec<u32> {
        let (Some(target), Some(height)) =
            (self.target(), prunable_height(tip, self.after, self.lock))
        else {
            return Vec::new();
        };
        files_above_target(infos, target, height, best.saturating_sub(tip))
    }

    /// Returns the lowest height whose block is stored if all blocks up to `tip` arrive in any
    /// order; 0 if nothing is pruned. `sizes` are the bytes of the blocks, from the tip down.
    pub fn stored_from(&self, tip: u32, sizes: impl Iterator<Item = u64>) -> u32 {
        let (Some(target), Some(height)) =
            (self.target(), prunable_height(tip, self.after, self.lock))
        else {
            return 0;
        };
        let sizes = sizes.map(|bytes| bytes + u64::from(STORAGE_HEADER_BYTES));
        stored_from(tip, target, height, sizes)
    }

    /// Returns the height of the Core index that holds pruning back with the tip at height `tip`.
    pub fn held_at(&self, tip: u32) -> Option<u32> {
        let free = prunable_height(tip, 0, None);
        self.lock.filter(|_| prunable_height(tip, 0, self.lock) < free)
    }

    /// Returns the maximum number of bytes of block and undo files; `None` for no limit.
    pub fn target(&self) -> Option<u64> {
        match self.mode {
            Some(Prune::Target(target)) => Some(target),
            Some(Prune::Manual) | None => None,
        }
    }

    /// Returns whether it is time to check files against the target, when blocks of `bytes` bytes
    /// have been connected.
    pub fn is_time(&mut self, bytes: u64) -> bool {
        let is_time =
            self.target().is_some() && bytes >= self.looked_at_bytes + self.look_every_bytes;
        if is_time {
            self.looked_at_bytes = bytes;
        }
        is_time
    }

    /// Returns the height up to which blocks may be pruned by hand with the tip at height `tip`.
    pub fn prunable_by_hand(&self, tip: u32) -> Option<u32> {
        prunable_height(tip, 0, self.lock)
    }

    /// Takes the pruned blocks that can no longer become part of the active chain.
    pub fn take_side_blocks(&mut self) -> Vec<BlockId> {
        std::mem::take(&mut self.side)
    }
}
