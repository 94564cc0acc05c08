//! The disk space that indexes take, asked for before the work begins.

use apus_disk::{FileSystem, StoreError};
use apus_node::opened::Node;
use apus_node::words::size;
use apus_store::IndexKind;

use super::block::StoredBlock;
use super::plan::Plan;
use super::positions::{SPEND_BYTES, TX_BYTES};

/// Bytes of a table for each entry of `txindex`: a key of 41 bytes, a place of about 8, and 10 bits
/// of a filter.
const TX_TABLE_BYTES: u64 = 52;
/// The usual number of inputs of a transaction.
const INPUTS_PER_TX: u64 = 3;
/// Bytes of a table for each entry of `txospenderindex`.
const SPEND_TABLE_BYTES: u64 = 28;
/// Bytes of filters for each transaction: five or six scripts of 21 bits each.
const FILTER_BYTES_PER_TX: u64 = 16;
/// Bytes of an entry by height.
const HEIGHT_ENTRY_BYTES: u64 = 260;

/// Returns the number of entries that an index probably gets for these transactions.
pub fn entries(kind: IndexKind, txs: u64) -> u64 {
    match kind {
        IndexKind::TxIndex => txs,
        IndexKind::TxoSpenderIndex => INPUTS_PER_TX * txs,
        IndexKind::BlockFilterIndex | IndexKind::CoinStatsIndex => 0,
    }
}

/// Returns the bytes that will probably be written, temporary files included. The space of those is
/// freed while tables are written, so the larger of the two counts.
fn bytes(kind: IndexKind, txs: u64, blocks: u64) -> u64 {
    let entries = entries(kind, txs);
    match kind {
        IndexKind::TxIndex => entries * TX_TABLE_BYTES.max(TX_BYTES as u64),
        IndexKind::TxoSpenderIndex => entries * SPEND_TABLE_BYTES.max(SPEND_BYTES as u64),
        IndexKind::BlockFilterIndex => txs * FILTER_BYTES_PER_TX + blocks * HEIGHT_ENTRY_BYTES,
        IndexKind::CoinStatsIndex => blocks * HEIGHT_ENTRY_BYTES,
    }
}

/// Checks that there is space for what `plans` will write.
///
/// # Errors
/// There is not. Nothing was written yet.
pub fn check(node: &Node, plans: &[Plan], blocks: &[StoredBlock]) -> Result<(), StoreError> {
    let path = node.dir.path().join("indexes");
    let needed: u64 = plans
        .iter()
        .map(|plan| {
            let appended = blocks.iter().filter(|block| block.height >= plan.from);
            let txs = appended.clone().map(|block| u64::from(block.tx_count)).sum();
            bytes(plan.kind, txs, appended.count() as u64)
        })
        .sum();
    let free = FileSystem::of(&path)?.free;
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
