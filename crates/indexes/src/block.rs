//! A stored block, read together with the coins that it spends.

use apus_coins::{Coin, Heights, for_each_spending_tx};
use apus_hash::{Elements, Hash};
use apus_node::error::SyncError;
use apus_store::{BlockFiles, FlatFilePos};
use apus_wire::{BlockView, merkle_root};

/// A block, and where its data is stored.
#[derive(Clone, Copy)]
pub struct StoredBlock {
    /// Height of the block.
    pub height: u32,
    /// Hash of the block.
    pub hash: Hash,
    /// Where the block is stored; `None` if it was pruned.
    pub block: Option<FlatFilePos>,
    /// Where its undo data is stored, if it is.
    pub undo: Option<FlatFilePos>,
    /// Number of transactions in the block.
    pub tx_count: u32,
}

/// A block that was read.
pub struct Block<'a> {
    /// The block, and where it is stored.
    pub stored: &'a StoredBlock,
    /// Its bytes.
    pub view: BlockView<&'a [u8]>,
    /// The txids of its transactions, if they were asked for.
    pub txids: Vec<Hash>,
    /// The coins that it spends, in order, if they were asked for.
    pub spent: Vec<Coin>,
    /// The scripts of these coins, not compressed.
    pub spent_scripts: Elements,
}

/// The parts of a block that indexes need beside its bytes.
#[derive(Clone, Copy)]
pub struct Wants {
    pub txids: bool,
    /// The coins that it spends, and whether with their heights.
    pub spent: Option<Heights>,
}

/// Memory for the bytes of a block and of its undo data, used for one block after another.
#[derive(Default)]
pub struct Buffers {
    block: Vec<u8>,
    undo: Vec<u8>,
}

impl StoredBlock {
    /// Reads the block, and checks its hash, as Core does for its indexes. With the txids also the
    /// merkle root is checked, which takes no time then.
    pub fn read<'a>(
        &'a self,
        files: &BlockFiles,
        wants: Wants,
        buffers: &'a mut Buffers,
    ) -> Result<Block<'a>, SyncError> {
        let Buffers { block, undo } = buffers;
        let pos = self.block.ok_or_else(|| self.missing("the block"))?;
        files.read_block_into(pos, block)?;
        let wrong = |what: String| files.block_error(pos, what);
        let view = BlockView::parse(&block[..]).map_err(|e| wrong(format!("not a block: {e}")))?;
        let txids = if wants.txids { view.txids() } else { Vec::new() };
        let has_root = || merkle_root(&mut txids.clone()).root == view.header().merkle_root;
        if view.hash() != self.hash || wants.txids && !has_root() {
            let what = format!("these bytes are not block {}, {}", self.height, self.hash);
            return Err(wrong(what).into());
        }
        let mut read = Block {
            stored: self,
            view,
            txids,
            spent: Vec::new(),
            spent_scripts: Elements::default(),
        };
        // Core connects no transaction of the genesis block.
        if let Some(heights) = wants.spent
            && self.height > 0
            && read.view.tx_count() > 1
        {
            self.read_spent(files, undo, heights, &mut read)?;
        }
        Ok(read)
    }

    fn read_spent(
        &self,
        files: &BlockFiles,
        undo: &mut Vec<u8>,
        heights: Heights,
        read: &mut Block,
    ) -> Result<(), SyncError> {
        let pos = self.undo.ok_or_else(|| self.missing("the undo data of the block"))?;
        files.read_undo_into(pos, &read.view.header().prev, undo)?;
        let spent = &mut read.spent;
        let scripts = &mut read.spent_scripts;
        for_each_spending_tx(undo, &read.view, heights, |_, coins| {
            for coin in coins.iter() {
                scripts.push_with(|to| coin.script.decompress_into(to));
            }
            spent.append(coins);
        })
        .map_err(|error| files.undo_error(pos, error).into())
    }

    /// Returns where the block is stored.
    ///
    /// # Panics
    /// It is not stored.
    pub fn pos(&self) -> FlatFilePos {
        self.block.expect("a block that is read is stored")
    }

    /// Returns the error for data that an index needs and that is not stored.
    pub fn missing(&self, what: &str) -> SyncError {
        SyncError::Input(format!(
            "{what} at height {}, {}, is not stored here, and the index needs it: it was pruned, \
             or a SwiftSync left it out. Without the index all else works; `apus reindex` writes \
             undo data if all blocks are stored",
            self.height, self.hash
        ))
    }
}
