//! Answers from indexes that exist.

use apus_disk::{Result, StoreError};
use apus_hash::Hash;
use apus_leveldb::{Db, Options};
use apus_node::opened::Node;
use apus_store::{IndexKind, find_index};

use super::heights::look_up;
use super::statistics::Totals;

/// The statistics of the UTXO set after a block (Core's `gettxoutsetinfo` with `coinstatsindex`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatisticsAt {
    /// Height of the block.
    pub height: u32,
    /// Hash of the block.
    pub best_block: Hash,
    /// MuHash of the UTXO set.
    pub muhash: Hash,
    /// Totals of all blocks up to this one.
    pub totals: Totals,
    /// Totals of all blocks below this one.
    pub before: Totals,
}

/// Returns the statistics after the active chain's block at `height`, from `coinstatsindex`; `None`
/// if there is no such block, or the index does not reach it.
///
/// # Errors
/// The index cannot be read or is damaged.
pub fn statistics_at(node: &Node, height: u32) -> Result<Option<StatisticsAt>> {
    let path = IndexKind::CoinStatsIndex.database(node.dir.path());
    if find_index(node.dir.disk(), path.clone())?.is_none() {
        return Ok(None);
    }
    let options = Options { read_only: true, ..Options::default() };
    let db = Db::open(node.dir.disk().clone(), &path, options)?;
    let read = |height: u32| {
        let Some(id) = node.ledger.active.at(height) else { return Ok(None) };
        let hash = node.tree.node(id).hash;
        let Some(value) = look_up(&db, height, &hash)? else { return Ok(None) };
        let (muhash, totals) = Totals::read(&value).map_err(|error| {
            let what = format!("the entry of block {height} cannot be read: {error}");
            StoreError::new(&path, what)
        })?;
        Ok(Some((hash, muhash, totals)))
    };
    let before = match height.checked_sub(1) {
        None => Some(Totals::default()),
        Some(below) => read(below)?.map(|(.., totals)| totals),
    };
    let found = read(height)?.zip(before);
    Ok(found.map(|((best_block, muhash, totals), before)| StatisticsAt {
        height,
        best_block,
        muhash,
        totals,
        before,
    }))
}
