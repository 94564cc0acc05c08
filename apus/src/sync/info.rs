use std::sync::atomic::AtomicBool;

use super::node::{Coins, Node};
use super::options::{Observer, Options, Phase, Progress, SyncError};
use crate::coins::{HashType, UtxoStats};
use crate::disk::Disk;

/// Statistics of the UTXO set in a data directory (Core's `gettxoutsetinfo`).
///
/// # Errors
/// The directory is in use, is not there, or holds what cannot be right.
pub fn txoutset_info(
    options: &Options,
    hash: HashType,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<UtxoStats, SyncError> {
    info(options, hash, observer, stop).map_err(|error| super::remedy::named(error, options))
}

fn info(
    options: &Options,
    hash: HashType,
    observer: &dyn Observer,
    _stop: &AtomicBool,
) -> Result<UtxoStats, SyncError> {
    let node = Node::open(options, &Disk::new(), Coins::ReadOnly)?;
    compute(&node, hash, observer)
}

fn compute(node: &Node, hash: HashType, observer: &dyn Observer) -> Result<UtxoStats, SyncError> {
    observe(observer, Phase::ReadingCoins, node);
    let height = node.tree.node(node.tip()).height;
    let report = share_of(observer, Phase::ReadingCoins, node);
    let stats = || UtxoStats::compute_reporting(&node.chainstate, height, hash, &report);
    Ok(node.pool.install(stats)?)
}

/// Says what is going on where no block is being connected.
pub(super) fn observe(observer: &dyn Observer, phase: Phase, node: &Node) {
    share_of(observer, phase, node)(0.0);
}

/// Shows an observer the share of a phase that is done, where no block is being connected.
pub(super) fn share_of<'a>(
    observer: &'a dyn Observer,
    phase: Phase,
    node: &Node,
) -> impl Fn(f64) + Sync + use<'a> {
    let tip = node.tree.node(node.tip());
    let begun = Progress {
        height: tip.height,
        time: tip.header.time,
        blocks: node.ledger.counts.blocks,
        bytes: node.ledger.counts.bytes,
        coins: node.cache.len() as u64,
        ..Progress::of(phase)
    };
    begun.share_to(observer)
}
