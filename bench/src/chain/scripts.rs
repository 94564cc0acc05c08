//! The least time that a full check can take: every script of a chain is checked, with blocks and
//! undo data read from files, and nothing else is done.

use std::path::Path;
use std::time::{Duration, Instant};

use apus::coins::Coin;
use apus::disk::Disk;
use apus::rules::{TxScripts, script_flags};
use apus::store::{BlockFiles, DataDir, DataDirOptions, IndexEntry};
use apus::wire::{BlockView, Chain, Cursor, Network, Prevout};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::Result;
use crate::process::thread_cpu;

/// The cost of checking blocks.
#[derive(Clone, Copy, Default)]
struct Checked {
    inputs: u64,
    /// The time in the scripts themselves, on all cores.
    cpu: Duration,
}

/// Checks every script of a regtest directory on all cores, with blocks in any order.
///
/// # Errors
/// A block or its undo data is missing or broken, or a script fails.
pub fn run(datadir: &Path) -> Result<Value> {
    let network = Network::new(Chain::Regtest);
    let disk = Disk::new();
    let dir = DataDir::open(&disk, datadir, &network, DataDirOptions::default())?;
    let (_, index, files) = dir.open_blocks()?;
    let mut entries: Vec<&IndexEntry> =
        index.entries.iter().filter(|entry| entry.height > 0).collect();
    entries.sort_by_key(|entry| (entry.record.file, entry.record.data_pos));
    let start = Instant::now();
    let checked = entries
        .par_iter()
        .with_max_len(1)
        .map(|entry| check_block(&files, entry, &network))
        .try_reduce(Checked::default, |a, b| {
            Ok(Checked { inputs: a.inputs + b.inputs, cpu: a.cpu + b.cpu })
        })?;
    Ok(json!({
        "inputs": checked.inputs,
        "seconds": start.elapsed().as_secs_f64(),
        "script_cpu_seconds": checked.cpu.as_secs_f64(),
    }))
}

fn check_block(files: &BlockFiles, entry: &IndexEntry, network: &Network) -> Result<Checked> {
    let pos = entry.block_pos().ok_or("a block is not stored")?;
    let undo_pos = entry.undo_pos().ok_or("a block has no undo data")?;
    let block = BlockView::parse(files.read_block(pos)?)?;
    let undo = files.read_undo(undo_pos, &entry.header.prev)?;
    let flags = script_flags(network, entry.height, &entry.hash);
    let mut cursor = Cursor::new(&undo);
    if cursor.compact_size()? + 1 != block.tx_count() {
        return Err("undo data of another block".into());
    }
    let mut spent = Vec::with_capacity(block.input_count());
    let mut scripts = Vec::with_capacity(block.input_count());
    for tx in block.txs().skip(1) {
        if cursor.compact_size()? != tx.input_count() {
            return Err("undo data of another transaction".into());
        }
        for _ in 0..tx.input_count() {
            let coin = Coin::decode_undo(&mut cursor)?;
            scripts.push(coin.script.to_script());
            spent.push(coin);
        }
    }
    let prevouts: Vec<Prevout> = spent.iter().zip(&scripts).map(prevout).collect();
    let (mut first, start) = (0, thread_cpu());
    for tx in block.txs().skip(1) {
        let end = first + tx.input_count();
        let tx = TxScripts::new(&tx, &prevouts[first..end], flags)?;
        (0..tx.input_count()).try_for_each(|input| tx.check_input(input))?;
        first = end;
    }
    Ok(Checked { inputs: first as u64, cpu: thread_cpu() - start })
}

fn prevout<'a>((coin, script): (&Coin, &'a Vec<u8>)) -> Prevout<'a> {
    let (height, is_coinbase) = (coin.height, coin.is_coinbase);
    Prevout { amount: coin.amount as i64, script, height, is_coinbase }
}
