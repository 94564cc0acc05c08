//! The disk space that indexes take, asked for before the work begins.

use apus_disk::{FileSystem, StoreError};
use apus_progress::words::size;
use apus_store::{DataDir, IndexKind, TxIndexForm};

use super::block::StoredBlock;
use super::plan::IndexPlan;
use super::positions::{SPEND_BYTES, TX_BYTES};
use super::saved::WorkFiles;

/// Bytes of a table for each entry of `txindex`: a key of 41 bytes, a place of about 8, and 10 bits
/// of a filter.
const TX_TABLE_BYTES: u64 = 52;
/// Bytes of a table for each entry of `txindex` in the form of Core v32.
const SHORT_TX_TABLE_BYTES: u64 = 19;
/// The usual number of inputs of a transaction.
const INPUTS_PER_TX: u64 = 3;
/// Bytes of a table for each entry of `txospenderindex`.
const SPEND_TABLE_BYTES: u64 = 28;
/// Bytes of filters for each transaction: five or six scripts of 21 bits each.
const FILTER_BYTES_PER_TX: u64 = 16;
/// Bytes of an entry by height.
const HEIGHT_ENTRY_BYTES: u64 = 260;

/// Returns the number of entries that an index probably gets for these transactions.
fn entries_of(kind: IndexKind, txs: u64) -> u64 {
    match kind {
        IndexKind::TxIndex => txs,
        IndexKind::TxoSpenderIndex => INPUTS_PER_TX * txs,
        IndexKind::BlockFilterIndex | IndexKind::CoinStatsIndex => 0,
    }
}

/// Returns the number of entries that `plan` probably adds to its index for these blocks.
pub fn entries(plan: &IndexPlan, blocks: &[StoredBlock]) -> u64 {
    entries_of(plan.kind, appended(plan, blocks).0)
}

/// Returns the bytes of the tables with this many sorted entries.
pub fn table_bytes(plan: &IndexPlan, entries: u64) -> u64 {
    match (plan.kind, plan.form) {
        (IndexKind::TxIndex, TxIndexForm::Core31) => entries * TX_TABLE_BYTES,
        (IndexKind::TxIndex, TxIndexForm::Core32) => entries * SHORT_TX_TABLE_BYTES,
        (IndexKind::TxoSpenderIndex, _) => entries * SPEND_TABLE_BYTES,
        (IndexKind::BlockFilterIndex | IndexKind::CoinStatsIndex, _) => 0,
    }
}

/// Returns the bytes that will probably be written, temporary files included. The space of those is
/// freed while tables are written, so the larger of the two counts.
fn bytes(plan: &IndexPlan, txs: u64, blocks: u64) -> u64 {
    let entries = entries_of(plan.kind, txs);
    let tables = table_bytes(plan, entries);
    match plan.kind {
        IndexKind::TxIndex if plan.form == TxIndexForm::Core31 => {
            tables.max(entries * TX_BYTES as u64)
        }
        IndexKind::TxIndex | IndexKind::TxoSpenderIndex => tables.max(entries * SPEND_BYTES as u64),
        IndexKind::BlockFilterIndex => txs * FILTER_BYTES_PER_TX + blocks * HEIGHT_ENTRY_BYTES,
        IndexKind::CoinStatsIndex => blocks * HEIGHT_ENTRY_BYTES,
    }
}

/// Returns the numbers of transactions and blocks that `plan` appends.
fn appended(plan: &IndexPlan, blocks: &[StoredBlock]) -> (u64, u64) {
    let appended = blocks.iter().filter(|block| block.height >= plan.from);
    appended.fold((0, 0), |(txs, blocks), block| (txs + u64::from(block.tx_count), blocks + 1))
}

/// Checks that there is space for what `plans` will write.
///
/// # Errors
/// There is not. Nothing was written yet.
pub fn check(dir: &DataDir, plans: &[IndexPlan], blocks: &[StoredBlock]) -> Result<(), StoreError> {
    let path = dir.path().join("indexes");
    let needed: u64 = plans
        .iter()
        .map(|plan| {
            let (txs, blocks) = appended(plan, blocks);
            bytes(plan, txs, blocks)
        })
        .sum();
    // The files of an interrupted run are continued or removed.
    let left = |plan: &IndexPlan| dir.disk().len(WorkFiles::new(dir, plan.kind).entries).ok();
    let left: u64 = plans.iter().filter_map(left).sum();
    let free = FileSystem::of(&path)?.free + left;
    if needed <= free {
        return Ok(());
    }
    let names: Vec<&str> = plans.iter().map(|plan| plan.kind.name()).collect();
    let what = format!(
        "{} will take about {}, but only {} are free",
        names.join(", "),
        size(needed),
        size(free)
    );
    Err(StoreError::full(path, what))
}
