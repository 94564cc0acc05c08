//! Blocks and undo data in files.

use std::ops::Range;
use std::sync::Arc;

use apus_chain::BlockId;
use apus_coins::{Coin, Heights, for_each_spending_tx};
use apus_hash::Hash;
use apus_node::view::Committed;
use apus_store::{BlockReader, BlockStatus, FlatFilePos};
use apus_wire::BlockView;

use super::error::{RPC_MISC_ERROR, RpcError, internal};

/// Where a block is stored.
pub struct StoredBlock {
    /// The height of the block.
    pub height: u32,
    /// Whether the block was stored once and is pruned (Core's `IsBlockPruned`).
    pub is_pruned: bool,
    /// Where the block is, if it is stored.
    pub pos: Option<FlatFilePos>,
    undo_pos: Option<FlatFilePos>,
    prev: Hash,
    blocks: Arc<BlockReader>,
}

impl StoredBlock {
    pub fn new(committed: &Committed, id: BlockId) -> Self {
        let record = committed.record(id);
        let has_data = record.status.has(BlockStatus::BLOCK_HAVE_DATA);
        Self {
            height: committed.tree.node(id).height,
            is_pruned: committed.is_pruned && !has_data && record.tx_count > 0,
            pos: record.block_pos(),
            undo_pos: record.undo_pos(),
            prev: committed.tree.prev_hash(id),
            blocks: Arc::clone(&committed.blocks),
        }
    }

    pub fn has_undo(&self) -> bool {
        self.undo_pos.is_some()
    }

    /// Returns where the block is (Core's `CheckBlockDataAvailability`).
    ///
    /// # Errors
    /// It is not stored.
    pub fn place(&self) -> Result<FlatFilePos, RpcError> {
        self.pos.ok_or_else(|| {
            RpcError::new(
                RPC_MISC_ERROR,
                if self.is_pruned {
                    "Block not available (pruned data)"
                } else {
                    "Block not available (not fully downloaded)"
                },
            )
        })
    }

    /// Reads the bytes of the block.
    ///
    /// # Errors
    /// It is not stored, or cannot be read: it may have been pruned just now.
    pub fn read(&self) -> Result<Vec<u8>, RpcError> {
        let pos = self.place()?;
        let mut bytes = Vec::new();
        let read = self.blocks.read_block_into(pos, &mut bytes);
        read.map_err(|_| gone())?;
        Ok(bytes)
    }

    /// Returns the number of bytes of the block.
    ///
    /// # Errors
    /// It is not stored, or the file cannot be read.
    pub fn len(&self) -> Result<u32, RpcError> {
        self.blocks.block_len(self.place()?).map_err(|_| gone())
    }

    /// Reads a part of the bytes of the block.
    ///
    /// # Errors
    /// It is not stored or shorter, or the file cannot be read.
    pub fn read_part(&self, part: Range<usize>) -> Result<Vec<u8>, RpcError> {
        let pos = self.place()?;
        let mut bytes = Vec::new();
        self.blocks.read_piece_into(pos, part, &mut bytes).map_err(|_| gone())?;
        Ok(bytes)
    }

    /// Reads the coins that the block spends, those of each transaction but the coinbase in a list
    /// of their own; `None` if the undo data is not stored. Coins may lack their height
    /// ([`Heights::Optional`]).
    ///
    /// # Errors
    /// The undo data cannot be read, or does not belong to the block.
    pub fn spent(&self, block: &BlockView<&[u8]>) -> Result<Option<Vec<Vec<Coin>>>, String> {
        let Some(pos) = self.undo_pos else { return Ok(None) };
        let mut undo = Vec::new();
        let read = self.blocks.read_undo_into(pos, &self.prev, &mut undo);
        read.map_err(|error| error.to_string())?;
        let mut spent = Vec::with_capacity(block.tx_count());
        let parsed = for_each_spending_tx(&undo, block, Heights::Optional, |_, coins| {
            spent.push(std::mem::take(coins));
        });
        parsed.map_err(|error| error.to_string())?;
        Ok(Some(spent))
    }

    /// Like [`StoredBlock::spent`], but undo data must be stored, unless this is the genesis block
    /// (Core's `GetUndoChecked`).
    ///
    /// # Errors
    /// The undo data is not stored or cannot be read, or does not belong to the block.
    pub fn checked_spent(&self, block: &BlockView<&[u8]>) -> Result<Vec<Vec<Coin>>, RpcError> {
        let misc = |message| RpcError::new(RPC_MISC_ERROR, message);
        if self.height > 0 && !self.has_undo() {
            return Err(misc(if self.is_pruned {
                "Undo data not available (pruned data)"
            } else {
                "Undo data not available"
            }));
        }
        let spent = self.spent(block).map_err(|_| misc("Can't read undo data from disk"))?;
        Ok(spent.unwrap_or_default())
    }
}

fn gone() -> RpcError {
    RpcError::new(RPC_MISC_ERROR, "Block not found on disk")
}

/// Parses a stored block.
///
/// # Errors
/// It is damaged.
pub fn parse(bytes: &[u8]) -> Result<BlockView<&[u8]>, RpcError> {
    BlockView::parse(bytes).map_err(|error| internal(format!("a stored block is damaged: {error}")))
}
