//! The floor for a full check: every script of a chain is checked, with blocks and undo data read
//! from files, and nothing else is done.

use std::path::Path;
use std::time::{Duration, Instant};

use apus_coins::Coin;
use apus_consensus::script_flags;
use apus_disk::Disk;
use apus_scripts::TxScripts;
use apus_store::{BlockFiles, DataDir, DataDirOptions, IndexEntry};
use apus_wire::{BlockView, Chain, Cursor, Network, Prevout, ScriptFlags};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::Result;
use crate::process::thread_cpu;

/// The cost of checking blocks.
#[derive(Clone, Copy, Default)]
struct Checked {
    inputs: u64,
    /// The CPU time of the scripts themselves, on all cores.
    cpu: Duration,
}

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

/// Checks every script of a regtest directory with Core's engine on all cores, with blocks in any
/// order.
///
/// # Errors
/// A block or its undo data is missing or damaged, or a script fails.
pub fn run(datadir: &Path) -> Result<Value> {
    let blocks = Blocks::open(datadir)?;
    let start = Instant::now();
    let checked = blocks
        .entries
        .par_iter()
        .with_max_len(1)
        .map(|entry| check_block(&blocks, entry))
        .try_reduce(Checked::default, |a, b| {
            Ok(Checked { inputs: a.inputs + b.inputs, cpu: a.cpu + b.cpu })
        })?;
    Ok(json!({
        "inputs": checked.inputs,
        "seconds": start.elapsed().as_secs_f64(),
        "script_cpu_seconds": checked.cpu.as_secs_f64(),
    }))
}

fn check_block(blocks: &Blocks, entry: &IndexEntry) -> Result<Checked> {
    let block = blocks.read(entry)?;
    let prevouts = block.prevouts();
    let mut first = 0;
    let start = thread_cpu();
    for tx in block.view.txs().skip(1) {
        let end = first + tx.input_count();
        let tx = TxScripts::new(&tx, &prevouts[first..end], block.flags)?;
        (0..tx.input_count()).try_for_each(|input| tx.check_input(input))?;
        first = end;
    }
    Ok(Checked { inputs: first as u64, cpu: thread_cpu() - start })
}

fn prevout((coin, script): &(Coin, Vec<u8>)) -> Prevout<'_> {
    let height = coin.height;
    let is_coinbase = coin.is_coinbase;
    Prevout { amount: coin.amount as i64, script, height, is_coinbase }
}
