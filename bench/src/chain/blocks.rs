//! The blocks of a chain and the coins that they spend, read from files.

use std::path::Path;

use apus_coins::Coin;
use apus_consensus::script_flags;
use apus_disk::Disk;
use apus_store::{BlockFiles, DataDir, DataDirOptions, IndexEntry};
use apus_wire::{BlockView, Chain, Cursor, Network, Prevout, ScriptFlags};

use crate::Result;

/// The blocks of a regtest directory, with their undo data.
pub struct Blocks {
    files: BlockFiles,
    entries: Vec<IndexEntry>,
    network: Network,
}

/// A block and the coins that it spends.
pub struct SpendingBlock {
    /// The block.
    pub view: BlockView<Vec<u8>>,
    /// The flags that its scripts are checked with.
    pub flags: ScriptFlags,
    spent: Vec<(Coin, Vec<u8>)>,
}

impl SpendingBlock {
    /// Returns the coins that the block spends, in the order of its inputs.
    pub fn prevouts(&self) -> Vec<Prevout<'_>> {
        self.spent.iter().map(prevout).collect()
    }
}

impl Blocks {
    /// Opens the blocks in a directory, in the order of the files.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(datadir: &Path) -> Result<Self> {
        let network = Network::new(Chain::Regtest);
        let dir = DataDir::open(&Disk::new(), datadir, &network, DataDirOptions::default())?;
        let (_, index, files) = dir.open_blocks()?;
        let mut entries = index.entries;
        entries.retain(|entry| entry.height > 0);
        entries.sort_by_key(|entry| (entry.record.file, entry.record.data_pos));
        Ok(Self { files, entries, network })
    }

    /// Returns the last `count` blocks that spend coins.
    pub fn busiest(&self, count: usize) -> impl Iterator<Item = &IndexEntry> {
        self.entries.iter().rev().filter(|entry| entry.record.tx_count > 1).take(count)
    }

    /// Reads a block and its undo data.
    ///
    /// # Errors
    /// The block or its undo data is missing or damaged, or they do not match.
    pub fn read(&self, entry: &IndexEntry) -> Result<SpendingBlock> {
        let pos = entry.block_pos().ok_or("a block is not stored")?;
        let undo_pos = entry.undo_pos().ok_or("a block has no undo data")?;
        let view = BlockView::parse(self.files.read_block(pos)?)?;
        let undo = self.files.read_undo(undo_pos, &entry.header.prev)?;
        let flags = script_flags(&self.network, entry.height, &entry.hash);
        let mut cursor = Cursor::new(&undo);
        if cursor.compact_size()? + 1 != view.tx_count() {
            return Err("the undo data belongs to another block".into());
        }
        let mut spent = Vec::with_capacity(view.input_count());
        for tx in view.txs().skip(1) {
            if cursor.compact_size()? != tx.input_count() {
                return Err("the undo data belongs to another transaction".into());
            }
            for _ in 0..tx.input_count() {
                let coin = Coin::decode_undo(&mut cursor)?;
                let script = coin.script.to_script();
                spent.push((coin, script));
            }
        }
        Ok(SpendingBlock { view, flags, spent })
    }
}

fn prevout((coin, script): &(Coin, Vec<u8>)) -> Prevout<'_> {
    let height = coin.height;
    let is_coinbase = coin.is_coinbase;
    Prevout { amount: coin.amount as i64, script, height, is_coinbase }
}
