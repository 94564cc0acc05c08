//! Data for peers: the headers and the stored blocks that a [`View`] shows, so that no peer
//! waits for a sync, nor a sync for a peer.

use std::ops::Range;
use std::sync::Arc;

use apus_chain::BlockId;
use apus_disk::StoreError;
use apus_net::{BLOCK_SPENT_COINS, OfferedFeature, ServedChain};
use apus_store::{BlockReader, BlockStatus, FlatFilePos};
use apus_wire::message::Services;

use super::view::{Committed, View};
use apus_progress::clock::unix_time;

/// The headers and the stored blocks of a directory, for any number of threads.
pub struct Served {
    view: Arc<View>,
    /// Services besides blocks.
    others: Services,
}

impl Served {
    /// Returns what `view` shows, which is of an open directory; peers are told that `others` are
    /// served, too.
    pub fn new(view: Arc<View>, others: Services) -> Self {
        Self { view, others }
    }

    /// Calls `look` with the chain as it is now.
    pub fn look<T>(&self, look: impl FnOnce(ServedChain<'_>) -> T) -> T {
        let looked = self.view.look(|committed| {
            look(ServedChain {
                tree: &committed.tree,
                active: &committed.active,
                services: committed.services().with(self.others),
                time: unix_time(),
                is_stored: &|id| place(committed, id).is_some(),
            })
        });
        looked.expect("the directory is open")
    }

    /// Reads the bytes of a block into `block`, whose content is replaced. Returns `false` if the
    /// block is not stored.
    ///
    /// # Errors
    /// The disk fails, or the block was pruned just now.
    pub fn read_block(&self, id: BlockId, block: &mut Vec<u8>) -> Result<bool, StoreError> {
        match self.place(id) {
            Some((blocks, pos)) => blocks.read_block_into(pos, block).map(|()| true),
            None => Ok(false),
        }
    }

    /// Reads a part of the bytes of a block into `piece`, whose content is replaced. Returns
    /// `false` if the block is not stored.
    ///
    /// # Errors
    /// As for [`Served::read_block`], or the block is shorter.
    pub fn read_piece(
        &self,
        id: BlockId,
        part: Range<usize>,
        piece: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        match self.place(id) {
            Some((blocks, pos)) => blocks.read_piece_into(pos, part, piece).map(|()| true),
            None => Ok(false),
        }
    }

    /// Reads the undo data of a block into `undo`, whose content is replaced. Returns `false` if it
    /// is not stored, or has more than `bytes_max` bytes.
    ///
    /// # Errors
    /// The disk fails, or the undo data is damaged or was pruned just now.
    pub fn read_undo(
        &self,
        id: BlockId,
        bytes_max: usize,
        undo: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        let found = self.view.look(|it| {
            let pos = it.record(id).undo_pos().filter(|_| place(it, id).is_some())?;
            Some((Arc::clone(&it.blocks), pos, it.tree.prev_hash(id)))
        });
        let Some((blocks, pos, prev)) = found.flatten() else { return Ok(false) };
        if blocks.undo_len(pos)? as usize > bytes_max {
            return Ok(false);
        }
        blocks.read_undo_into(pos, &prev, undo).map(|()| true)
    }

    /// Returns the features that peers are told of: the coins that blocks spend (draft BIP 455), if
    /// no block lacks its undo data.
    pub fn features(&self) -> Vec<OfferedFeature> {
        let has_undo = self.view.look(Committed::has_undo) == Some(true);
        // The data that the draft asks for.
        if has_undo { vec![(BLOCK_SPENT_COINS, vec![0])] } else { Vec::new() }
    }

    fn place(&self, id: BlockId) -> Option<(Arc<BlockReader>, FlatFilePos)> {
        self.view.look(|it| Some((Arc::clone(&it.blocks), place(it, id)?))).flatten()
    }
}

/// Returns where a block is, if peers may get it.
fn place(committed: &Committed, id: BlockId) -> Option<FlatFilePos> {
    let record = committed.record(id);
    let is_valid = record.status.is_valid(BlockStatus::BLOCK_VALID_SCRIPTS);
    let may_be_sent = is_valid || committed.active.contains(&committed.tree, id);
    record.block_pos().filter(|_| may_be_sent && !committed.tree.node(id).failed)
}
