//! Builds Core's optional indexes of a synced directory.

use apus_disk::Disk;
use apus_indexes::{Indexed, Upkeep, update};
use apus_node::directory::check_synced;
use apus_node::error::SyncError;
use apus_node::opened::Coins;
use apus_node::options::{Options, Prune};
use apus_node::remedy;
use apus_node::run::Run;
use apus_progress::{Observer, Watch};
use apus_store::{DataDir, IndexDb, IndexKind, TxIndexForm};
use apus_sync::start_check::check_on_start;
use apus_sync::unfinished::{open_node, refuse_unfinished};

/// Builds the indexes `kinds`, or continues them, so that they end at the tip of the directory.
/// bitcoind may have begun them. Entries of `txindex` are in the given form, or else in the one
/// that the index has; those of a new one are read by every bitcoind.
///
/// If `watch` asks to stop, filters and statistics are kept up to the block reached, and the other
/// indexes are as they were.
///
/// # Errors
/// There is no UTXO set; a block or undo data that an index needs is missing or damaged; the
/// directory is pruned, and an index names places in block files; there is not enough space;
/// unfinished work needs the directory unchanged; the disk fails.
pub fn index(
    options: &Options,
    kinds: &[IndexKind],
    form: Option<TxIndexForm>,
    watch: Watch,
) -> Result<Indexed, SyncError> {
    index_on(&Disk::new(), options, kinds, form, watch)
}

/// Does the same as [`index()`], on the caller's disk, which may lose power in tests.
///
/// # Errors
/// As for [`index()`].
pub fn index_on(
    disk: &Disk,
    options: &Options,
    kinds: &[IndexKind],
    form: Option<TxIndexForm>,
    watch: Watch,
) -> Result<Indexed, SyncError> {
    remedy::naming(options, || {
        check_synced(options)?;
        // Whether an index may be built for a pruned directory depends on the index.
        let options = Options { prune: Some(Prune::Manual), ..options.clone() };
        let node = open_node(&Run::on(disk, &options), Coins::InPlace)?;
        if kinds.contains(&IndexKind::TxIndex) {
            announce_old_txindex(node.dir(), watch.observer);
        }
        refuse_unfinished(disk, &options)?;
        let node = check_on_start(node, false, watch)?;
        update(&node, kinds, form, Upkeep::Settle, watch)
    })
}

/// Says what becomes of the `txindex` of Bitcoin Core before 0.17, which is in the block index.
fn announce_old_txindex(dir: &DataDir, observer: &dyn Observer) {
    let index = IndexDb::open_unlocked(dir.disk(), &dir.index_path());
    if matches!(index.and_then(|index| index.read_flag("txindex")), Ok(Some(true))) {
        observer.note(
            "Bitcoin Core before 0.17 has left its txindex in blocks/index, where neither bitcoind \
             nor Apus reads it: a new one is built in indexes/txindex; `apus reindex --index` \
             frees the space of the old one",
        );
    }
}
