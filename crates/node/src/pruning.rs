//! Whether block files are to be deleted, which, and how far indexes of Core's hold that back.

use apus_chain::{BlockId, Tree};
use apus_disk::{Disk, StoreError};
use apus_store::{
    FileInfo, STORAGE_HEADER_BYTES, files_above_target, indexes_that_need_blocks, prunable_height,
    stored_from,
};

use super::options::{Options, Prune};

/// Bytes of blocks after which it is looked again whether files are too many: those by which files
/// grow at once.
const LOOK_EVERY_BYTES: u64 = 16 << 20;
/// The same where files are small, for tests.
const FAST_LOOK_EVERY_BYTES: u64 = 16 << 10;

/// Core's `nPruneAfterHeight` of regtest with `-fastprune`.
const FAST_PRUNE_AFTER: u32 = 100;

/// What is pruned, and what was.
#[derive(Default)]
pub struct Pruning {
    /// Which block files are deleted.
    pub mode: Option<Prune>,
    /// Whether block files were ever pruned: the flag of the block index.
    pub is_pruned: bool,
    /// The height that the tip must be above.
    after: u32,
    look_every_bytes: u64,
    /// The best block of an index that holds pruning back, by its height.
    lock: Option<u32>,
    /// Bytes of the files that this run has deleted.
    pub freed_bytes: u64,
    /// Whether blocks were checked that are not stored: the index must not say so without the flag.
    pub has_dropped: bool,
    /// Pruned blocks that are not of the active chain, and so cannot become part of it any more.
    pub side: Vec<BlockId>,
    /// [`super::outcome::Counts::bytes`] when it was last looked whether files are too many.
    looked_at_bytes: u64,
    /// Whether files are too many that may go once the tip is committed.
    pub waits_for_commit: bool,
}

impl Pruning {
    /// Pruning as `options` want it, in a directory of which block files were or were not pruned.
    pub fn new(options: &Options, is_pruned: bool) -> Self {
        let network = &options.network;
        let (after, look_every_bytes) = match options.fast_prune {
            true => (network.prune_after_height.min(FAST_PRUNE_AFTER), FAST_LOOK_EVERY_BYTES),
            false => (network.prune_after_height, LOOK_EVERY_BYTES),
        };
        Self { mode: options.prune, is_pruned, after, look_every_bytes, ..Self::default() }
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
            tracing::debug!(
                target: "prune",
                height, "pruning is held back by {}", index.path.display()
            );
            self.lock = Some(self.lock.map_or(height, |lock| lock.min(height)));
        }
        Ok(())
    }

    /// The files that are too many where the tip is at `tip`, and `best` blocks are to be there in
    /// the end.
    pub fn choose(&self, infos: &[FileInfo], tip: u32, best: u32) -> Vec<u32> {
        let (Some(target), Some(height)) =
            (self.target(), prunable_height(tip, self.after, self.lock))
        else {
            return Vec::new();
        };
        files_above_target(infos, target, height, best.saturating_sub(tip))
    }

    /// The lowest height whose block is to be stored, where all blocks up to `tip` come in any
    /// order; 0 if nothing is deleted. `sizes` are their bytes, from the tip down.
    pub fn stored_from(&self, tip: u32, sizes: impl Iterator<Item = u64>) -> u32 {
        let (Some(target), Some(height)) =
            (self.target(), prunable_height(tip, self.after, self.lock))
        else {
            return 0;
        };
        let sizes = sizes.map(|bytes| bytes + u64::from(STORAGE_HEADER_BYTES));
        stored_from(tip, target, height, sizes)
    }

    /// The height of an index of Core's that holds pruning back where the tip is at `tip`.
    pub fn held_at(&self, tip: u32) -> Option<u32> {
        let free = prunable_height(tip, 0, None);
        self.lock.filter(|_| prunable_height(tip, 0, self.lock) < free)
    }

    /// Bytes that block and undo files may have; `None` for any number.
    pub fn target(&self) -> Option<u64> {
        match self.mode {
            Some(Prune::Target(target)) => Some(target),
            Some(Prune::Manual) | None => None,
        }
    }

    /// Whether it is time to look whether files are too many, where blocks of so many bytes were
    /// connected.
    pub fn is_time(&mut self, bytes: u64) -> bool {
        let is_time =
            self.target().is_some() && bytes >= self.looked_at_bytes + self.look_every_bytes;
        if is_time {
            self.looked_at_bytes = bytes;
        }
        is_time
    }

    /// The height up to which files may go by hand where the tip is at `tip`.
    pub fn prunable_by_hand(&self, tip: u32) -> Option<u32> {
        prunable_height(tip, 0, self.lock)
    }

    /// The pruned blocks that cannot become part of the active chain any more, once.
    pub fn take_side_blocks(&mut self) -> Vec<BlockId> {
        std::mem::take(&mut self.side)
    }
}
