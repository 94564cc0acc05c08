//! Computes statistics of the UTXO set in a data directory.

use apus_coins::{HashType, UtxoStats};
use apus_disk::ShareWatch;
use apus_indexes::{StatisticsAt, statistics_at};
use apus_node::error::SyncError;
use apus_node::opened::{Coins, no_coins, observe, share_of};
use apus_node::options::Options;
use apus_node::run::Run;
use apus_node::{remedy, snapshot_chainstate};
use apus_progress::{Phase, Watch};
use apus_sync::unfinished::open_node;

/// Returns statistics of the UTXO set in a data directory (Core's `gettxoutsetinfo`); `None` if
/// `stop` became true before the end.
///
/// # Errors
/// The directory is missing, in use or without a UTXO set, or a file in it is damaged.
pub fn txoutset_info(
    options: &Options,
    hash: HashType,
    watch: Watch,
) -> Result<Option<UtxoStats>, SyncError> {
    remedy::naming(options, || {
        let node = open_node(&Run::new(options), Coins::ReadOnly)?;
        if node.chainstate().best_block()?.is_none() {
            return Err(no_coins(node.dir()).into());
        }
        snapshot_chainstate::announce(node.dir().disk(), node.dir().path(), watch.observer)?;
        observe(watch.observer, Phase::ReadingCoins, &node);
        let height = node.tree().node(node.tip()).height;
        let report = share_of(watch.observer, Phase::ReadingCoins, &node);
        let watch = ShareWatch { report: &report, stop: watch.stop };
        let coins = node.chainstate().view();
        let stats = || UtxoStats::compute_watched(&coins, height, hash, watch);
        Ok(node.shared().pool.install(stats)?)
    })
}

/// Returns statistics of the UTXO set as it was at `height`, from Core's `coinstatsindex`.
///
/// # Errors
/// There is no such block, the index does not exist or does not reach it; the directory is missing
/// or in use, or a file in it is damaged.
pub fn txoutset_info_at(options: &Options, height: u32) -> Result<StatisticsAt, SyncError> {
    remedy::naming(options, || {
        let node = open_node(&Run::new(options), Coins::ReadOnly)?;
        let tip = node.tree().node(node.tip()).height;
        if height > tip {
            return Err(SyncError::Input(format!(
                "--height {height} is above the tip, which is at height {tip}"
            )));
        }
        statistics_at(node.dir(), node.tree(), node.ledger(), height)?.ok_or_else(|| {
            SyncError::Input(format!(
                "the UTXO set at height {height} is known from coinstatsindex alone, which is \
                 missing here or does not reach that height: `apus index coinstatsindex` builds it"
            ))
        })
    })
}
