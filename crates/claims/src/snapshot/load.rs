//! Loads a listed snapshot into a data directory, unproved (Core's `loadtxoutset`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use apus_coins::SnapshotError;
use apus_disk::Disk;
use apus_hash::Hash;
use apus_node::error::{SyncError, of_read};
use apus_node::opened::{Coins, Node};
use apus_node::options::{Options, Prune};
use apus_node::run::Run;
use apus_node::scan::{open_sources, scan_into_node};
use apus_node::{remedy, space};
use apus_peers::{LanSearch, Peers, Search, find_headers};
use apus_progress::Watch;
use apus_sync::claim::open_snapshot_of;
use apus_sync::loadtxoutset::{check_base, listed, load};
use apus_sync::unfinished::{open_node, refuse_unfinished};
use apus_wire::AssumeutxoData;

/// The result of loading a snapshot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SnapshotLoaded {
    /// Height of the base block.
    pub height: u32,
    /// Hash of the base block.
    pub base: Hash,
    /// Number of coins.
    pub coins: u64,
    /// Wall clock time.
    pub elapsed: Duration,
    /// Whether the work was stopped before the end, so that nothing was loaded.
    pub interrupted: bool,
}

/// Loads a snapshot into a data directory as Core's `loadtxoutset` does: bitcoind then works with
/// it, and validates the blocks up to its base block in the background. Nothing is proved here, so
/// Core's chain parameters must list the base block and the hash of the coins.
///
/// The headers up to the base block come from the directory, from the blocks of `sources`, or from
/// the peers of `options`. No block is stored or connected.
///
/// # Errors
/// The snapshot is damaged, or not the one that the chain parameters list; the base block is
/// invalid, not on the best chain, or its header is unknown; the UTXO set is not below the base
/// block, or that block is stored; the directory already has a second UTXO set, or unfinished work;
/// the disk fails.
pub fn load_snapshot(
    options: &Options,
    path: &Path,
    sources: &[PathBuf],
    watch: Watch,
) -> Result<SnapshotLoaded, SyncError> {
    load_snapshot_on(&Disk::new(), options, path, sources, watch)
}

/// Does the same as [`load_snapshot`], on the caller's disk, which may lose power in tests.
pub fn load_snapshot_on(
    disk: &Disk,
    options: &Options,
    path: &Path,
    sources: &[PathBuf],
    watch: Watch,
) -> Result<SnapshotLoaded, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        let file = open_snapshot_of(path, &options.network)?;
        let listed = listed(&options.network, &file).map_err(|why| {
            let what =
                format!("{why}: `apus sync --snapshot` proves any snapshot against the blocks");
            of_read(path, SnapshotError::new(what).into())
        })?;
        let opened = open_sources(options, sources)?;
        // Pruned directories are allowed: the missing blocks are below the tip.
        let options = Options { prune: Some(Prune::Manual), ..options.clone() };
        let mut node = open_node(&Run::on(disk, &options), Coins::InPlace)?;
        refuse_unfinished(disk, &options)?;
        let found = scan_into_node(&mut node, &opened, watch)
            .and_then(|()| find_base(&mut node, &listed, watch));
        let coins = match SyncError::unless_stopped(found)? {
            None => None,
            Some(()) => {
                let directory = node.dir().path().display();
                let refuse = |why| SyncError::Input(format!("{directory}: {why}"));
                check_base(&node, &listed)?.map_err(refuse)?;
                space::check_for_snapshot(node.dir(), node.chainstate(), file.bytes(), false)?;
                load(&mut node, &file, &listed, watch)?
            }
        };
        Ok(SnapshotLoaded {
            height: listed.height,
            base: listed.base,
            coins: coins.unwrap_or(0),
            elapsed: started.elapsed(),
            interrupted: coins.is_none(),
        })
    })
}

/// Requests headers from peers, if the header of the base block is not known and peers are to be
/// used.
fn find_base(node: &mut Node, listed: &AssumeutxoData, watch: Watch) -> Result<(), SyncError> {
    if node.tree().find(&listed.base).is_some() {
        return Ok(());
    }
    let lan = LanSearch::begin(node.options());
    let Some(wanted) = Peers::wanted(node.options(), lan.as_ref()) else { return Ok(()) };
    let height = node.tree().node(node.tip()).height;
    let options = node.options();
    let disk = node.dir().disk();
    let peers = Arc::new(Peers::begin(options, wanted, lan, disk, height, node.squeeze())?);
    let search = Search {
        fetches: false,
        is_last: true,
        has_files: false,
        height: listed.height,
        needs_coins: false,
    };
    let observer = peers.observer(watch.observer);
    find_headers(node, &peers, search, Watch::new(&observer, watch.stop))
}
