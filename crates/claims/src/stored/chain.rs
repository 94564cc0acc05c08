//! The active chain of a directory that is only read, with the places of its blocks and undo data.

use std::ops::Range;

use apus_coins::Chainstate;
use apus_coins::{Coin, Heights, for_each_spending_tx};
use apus_consensus::HeaderFacts;
use apus_consensus::bip30_overwritten_after;
use apus_disk::{Disk, StoreError};
use apus_hash::Hash;
use apus_node::directory::open_directory;
use apus_node::error::SyncError;
use apus_node::opened::{no_coins, not_indexed};
use apus_node::options::Options;
use apus_store::{BlockFiles, BlockIndex, DataDir, FlatFilePos, IndexEntry};
use apus_wire::{BlockView, merkle_root};
use rayon::ThreadPool;

/// A block of the chain, and where its data is stored.
#[derive(Clone, Copy)]
pub struct StoredBlock {
    /// The block's hash.
    pub hash: Hash,
    /// Where the block is stored; `None` if it was pruned.
    pub pos: Option<FlatFilePos>,
    /// Offset of the undo data in the rev file of the same number, if it is stored.
    pub undo_pos: Option<u32>,
    /// Number of transactions in the block.
    pub tx_count: u32,
    /// The time and the difficulty in the block's header.
    pub facts: HeaderFacts,
}

/// The chain of a synced directory, which is locked and never changed: the blocks from genesis to
/// the best block of the chainstate. Each takes 64 bytes of memory, and 400 while the directory is
/// being opened.
pub struct StoredChain {
    /// The block and undo files.
    pub files: BlockFiles,
    /// The UTXO set.
    pub chainstate: Chainstate,
    /// The blocks, by height.
    pub blocks: Vec<StoredBlock>,
    /// Holds the lock, and so must be dropped last.
    _dir: DataDir,
}

/// A block that was read, and its txids.
pub struct ReadBlock<'a> {
    /// The block.
    pub view: BlockView<&'a [u8]>,
    /// The txids of the block's transactions.
    pub txids: Vec<Hash>,
}

impl StoredChain {
    /// Opens and locks the directory that `options` name.
    ///
    /// # Errors
    /// The directory is missing, another program has it open for writing, its chainstate is empty,
    /// or a file in it is damaged.
    pub fn open(options: &Options, pool: &ThreadPool) -> Result<Self, SyncError> {
        let disk = Disk::new();
        let dir = open_directory(options, &disk, true)?;
        let (_, index, files) = pool.install(|| dir.open_blocks())?;
        let chainstate = Chainstate::open_read_only(&disk, &dir.chainstate_path())?;
        let blocks = match chainstate.best_block()? {
            Some(tip) if index.entries.iter().all(|entry| entry.hash != tip) => {
                let headers = index.entries.iter().map(|entry| entry.height).max().unwrap_or(0);
                return Err(not_indexed(&chainstate, &tip, &dir.index_path(), headers).into());
            }
            Some(tip) => active_chain(&index, tip, &dir)?,
            None => return Err(no_coins(&dir).into()),
        };
        Ok(Self { files, chainstate, blocks, _dir: dir })
    }

    /// Returns the height of the best block.
    pub fn height(&self) -> u32 {
        self.blocks.len().saturating_sub(1) as u32
    }

    /// Returns the given height, or that of the best block without one.
    ///
    /// # Errors
    /// The height is above the best block.
    pub fn height_or_tip(&self, given: Option<u32>) -> Result<u32, SyncError> {
        let tip = self.height();
        match given {
            Some(height) if height > tip => Err(SyncError::Input(format!(
                "the chainstate is at height {tip}, which is below --height {height}"
            ))),
            given => Ok(given.unwrap_or(tip)),
        }
    }

    /// Returns an error if, at `height`, one of the two coinbases was unspent that a later block of
    /// this chain has overwritten (BIP30): neither the chainstate nor undo data has it.
    pub fn refuse_between_bip30_twins(&self, height: u32) -> Result<(), SyncError> {
        let hash_at = |height: u32| Some(self.blocks.get(height as usize)?.hash);
        match bip30_overwritten_after(height, hash_at) {
            Some((first, second)) if second <= self.height() => Err(SyncError::Input(format!(
                "the UTXO set of height {height} is not known: it held the coinbase of block \
                 {first}, which block {second} has overwritten; give height {second} or above"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the heights of a range of blocks, in the order in which the blocks lie in the files.
    ///
    /// # Errors
    /// A block is not stored.
    pub fn in_file_order(&self, heights: Range<u32>) -> Result<Vec<u32>, SyncError> {
        let mut placed = Vec::with_capacity(heights.len());
        for height in heights {
            let pos = self.blocks[height as usize].pos.ok_or_else(|| {
                SyncError::Input(format!(
                    "block {height} is not stored here, since its file was pruned, but all blocks \
                     are needed: use a directory that holds them"
                ))
            })?;
            placed.push((pos, height));
        }
        placed.sort_unstable();
        Ok(placed.into_iter().map(|(_, height)| height).collect())
    }

    /// Reads the block at `height` into `bytes`, and checks its hash and merkle root.
    ///
    /// # Errors
    /// The file cannot be read, or does not have the block there that the index names.
    ///
    /// # Panics
    /// The block is not stored. [`StoredChain::in_file_order`] returns only stored blocks.
    pub fn read<'a>(
        &self,
        height: u32,
        bytes: &'a mut Vec<u8>,
    ) -> Result<ReadBlock<'a>, StoreError> {
        let stored = &self.blocks[height as usize];
        let pos = stored.pos.expect("only stored blocks are read");
        self.files.read_block_into(pos, bytes)?;
        let wrong = |what: String| self.files.block_error(pos, what);
        let view = BlockView::parse(&bytes[..]).map_err(|e| wrong(format!("not a block: {e}")))?;
        let txids = view.txids();
        let root = merkle_root(&mut txids.clone()).root;
        if view.hash() != stored.hash || root != view.header().merkle_root {
            return Err(wrong(format!("these bytes are not block {height}, {}", stored.hash)));
        }
        Ok(ReadBlock { view, txids })
    }

    /// Reads the undo data of the block at `height`, whose parent is `prev`, into `undo`. Returns
    /// where it is stored.
    ///
    /// # Errors
    /// The undo data is not stored, the file cannot be read, or it does not have the undo data of a
    /// child of `prev` there.
    pub fn read_undo(
        &self,
        height: u32,
        prev: &Hash,
        undo: &mut Vec<u8>,
    ) -> Result<FlatFilePos, SyncError> {
        let stored = &self.blocks[height as usize];
        let place = stored.pos.zip(stored.undo_pos);
        let pos = place.map(|(block, pos)| FlatFilePos { file: block.file, pos });
        let pos = pos.ok_or_else(|| self.no_undo(height))?;
        self.files.read_undo_into(pos, prev, undo)?;
        Ok(pos)
    }

    /// Returns the coins that the block at `height` spends: those of all transactions but the
    /// coinbase, in order. `undo` is a buffer.
    ///
    /// # Errors
    /// The undo data is not stored, is damaged, or lacks heights that are needed.
    pub fn spent(
        &self,
        height: u32,
        view: &BlockView<&[u8]>,
        heights: Heights,
        undo: &mut Vec<u8>,
    ) -> Result<Vec<Coin>, SyncError> {
        let mut spent = Vec::new();
        if view.tx_count() > 1 {
            let pos = self.read_undo(height, &view.header().prev, undo)?;
            let read = for_each_spending_tx(undo, view, heights, |_, coins| spent.append(coins));
            read.map_err(|error| self.files.undo_error(pos, error))?;
        }
        Ok(spent)
    }

    /// Returns the error for a block without undo data: the coins that were unspent below its
    /// height are unknown. The message names the lowest height at which they are known.
    fn no_undo(&self, height: u32) -> SyncError {
        let has_none = |block: &StoredBlock| block.undo_pos.is_none() && block.tx_count > 1;
        let lowest = self.blocks.iter().rposition(has_none).unwrap_or(0);
        SyncError::Input(format!(
            "block {height} has no undo data here, so the heights of the coins that it spent are \
             unknown: give height {lowest} or above"
        ))
    }
}

/// Returns the blocks from genesis to `tip`.
///
/// # Errors
/// A block is not in the index, or its parent has the wrong height.
fn active_chain(
    index: &BlockIndex,
    tip: Hash,
    dir: &DataDir,
) -> Result<Vec<StoredBlock>, SyncError> {
    let find = |hash: &Hash| {
        let found = index.entries.binary_search_by(|entry| entry.hash.cmp(hash));
        found.map(|at| &index.entries[at]).map_err(|_| {
            let what = format!(
                "block {hash} of the chainstate's chain is not in the block index; \
                 `apus reindex` rebuilds the chainstate from the blocks"
            );
            SyncError::from(StoreError::new(dir.index_path(), what))
        })
    };
    let mut entry = find(&tip)?;
    let mut blocks = Vec::new();
    loop {
        blocks.push(stored(entry));
        let Some(below) = entry.height.checked_sub(1) else { break };
        let height = entry.height;
        entry = find(&entry.header.prev)?;
        if entry.height != below {
            let what = format!("the parent of block {height} is at height {}", entry.height);
            return Err(StoreError::new(dir.index_path(), what).into());
        }
    }
    blocks.reverse();
    Ok(blocks)
}

fn stored(entry: &IndexEntry) -> StoredBlock {
    StoredBlock {
        hash: entry.hash,
        pos: entry.block_pos(),
        undo_pos: entry.undo_pos().map(|undo| undo.pos),
        tx_count: entry.record.tx_count,
        facts: HeaderFacts { bits: entry.header.bits, time: entry.header.time },
    }
}
