//! A listed snapshot as the UTXO set that bitcoind works with, unproved: what Core's
//! `loadtxoutset` leaves in a directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::gathered::Gathered;
use super::info::snapshot_info;
use crate::chain::BlockId;
use crate::coins::{Bulk, Chainstate, Coin, SnapshotError, SnapshotFile, SnapshotReadError};
use crate::disk::{Disk, Share};
use crate::hash::Hash;
use crate::leveldb;
use crate::store::BlockStatus;
use crate::sync::claim::{of_read, open_snapshot_of};
use crate::sync::error::SyncError;
use crate::sync::node::{Coins, Node, share_of};
use crate::sync::options::{Options, Prune};
use crate::sync::outcome::Activated;
use crate::sync::peers::{Peers, Search, find_headers};
use crate::sync::progress::{Observer, Phase, Progress};
use crate::sync::remedy;
use crate::sync::scan::{ScanEnd, open_sources, scan_into_node};
use crate::sync::snapshot_chainstate::{DIRECTORY, mark_whole};
use crate::sync::stored::{EndedEarly, check_stop};
use crate::sync::unfinished::refuse_unfinished;
use crate::wire::AssumeutxoData;

/// Parts of the coins that each thread writes: so many that all end at about the same time, and so
/// few that tables reach their full length.
const PARTS_PER_THREAD: usize = 8;

/// What came of loading a snapshot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SnapshotLoaded {
    /// Height of the base block.
    pub height: u32,
    /// Hash of the base block.
    pub base: Hash,
    /// The number of coins.
    pub coins: u64,
    /// Wall clock time.
    pub elapsed: Duration,
    /// Whether somebody asked to stop before the end. Nothing was loaded then.
    pub interrupted: bool,
}

/// Loads a snapshot into a data directory as Core's `loadtxoutset` does: bitcoind then works with
/// it, and validates the blocks up to its base block in the background. Nothing is proved here, so
/// the base block must be one that Core's chain parameters list, and the coins' hash theirs.
///
/// The headers up to the base block come from the directory, from the blocks of `sources`, or from
/// the peers of `options`. No block is stored or connected.
///
/// # Errors
/// The snapshot is another one than the chain parameters list, or damaged; the base block's header
/// is unknown or not on the best chain; the UTXO set is not below the base block, or that block is
/// stored; there is such a second UTXO set, or unfinished work; the disk fails.
pub fn load_snapshot(
    options: &Options,
    path: &Path,
    sources: &[PathBuf],
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<SnapshotLoaded, SyncError> {
    load_snapshot_on(&Disk::new(), options, path, sources, observer, stop)
}

/// [`load_snapshot`] on the caller's disk, which may lose power in tests.
pub fn load_snapshot_on(
    disk: &Disk,
    options: &Options,
    path: &Path,
    sources: &[PathBuf],
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<SnapshotLoaded, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        let listed = listed(options, path)?;
        let opened = open_sources(options, sources)?;
        // What is pruned lies below the UTXO set.
        let options = Options { prune: Some(Prune::Manual), ..options.clone() };
        let mut node = Node::open(&options, disk, Coins::InPlace)?;
        refuse_unfinished(disk, &options)?;
        let loaded = |coins, interrupted| SnapshotLoaded {
            height: listed.height,
            base: listed.base,
            coins,
            elapsed: started.elapsed(),
            interrupted,
        };
        let scanned = scan_into_node(&mut node, &opened, observer, stop)?;
        if scanned == ScanEnd::Stopped || !find_base(&mut node, &listed, observer, stop)? {
            return Ok(loaded(0, true));
        }
        let base = check_base(&node, &listed)?;
        let info = snapshot_info(path, options.threads, observer)?;
        if info.is_as_listed() != Some(true) {
            return Err(wrong(path, &listed, &info.stats.hash_serialized));
        }
        note_base(&mut node, base, observer)?;
        let task = Task { node: &node, path, is_sorted: info.is_sorted, observer, stop };
        match task.load(disk, &listed.base) {
            Ok(()) => Ok(loaded(info.stats.coins, false)),
            Err(EndedEarly::Stopped) => Ok(loaded(0, true)),
            Err(EndedEarly::Failed(error)) => Err(error),
        }
    })
}

/// What Core's chain parameters list for the base block of a snapshot.
///
/// # Errors
/// They list nothing, or it is a snapshot of another network.
fn listed(options: &Options, path: &Path) -> Result<AssumeutxoData, SyncError> {
    let network = &options.network;
    let file = open_snapshot_of(path, network)?;
    let base = file.head().base;
    network.assumeutxo_at(&base).copied().ok_or_else(|| {
        let heights: Vec<_> = network.assumeutxo().iter().map(|at| at.height.to_string()).collect();
        let error = SnapshotError::new(format!(
            "bitcoind loads only snapshots that its chain parameters list, which are those at the \
             heights {}, and not one of block {base}: `apus sync --snapshot` proves any against \
             the blocks",
            heights.join(", ")
        ));
        SyncError::Snapshot { path: path.to_path_buf(), error }
    })
}

fn wrong(path: &Path, listed: &AssumeutxoData, found: &Hash) -> SyncError {
    let error = SnapshotError::new(format!(
        "its coins have the hash {found}, and Bitcoin Core's chain parameters list {} for block \
         {}: this is not the UTXO set of that block, and was not loaded",
        listed.hash_serialized, listed.base
    ));
    SyncError::Snapshot { path: path.to_path_buf(), error }
}

/// Asks peers for headers, if that of the base block is not known yet and there are to be peers.
/// Returns whether nobody has asked to stop.
fn find_base(
    node: &mut Node,
    listed: &AssumeutxoData,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<bool, SyncError> {
    if node.tree.find(&listed.base).is_some() {
        return Ok(true);
    }
    let Some(wanted) = Peers::wanted(&node.options) else { return Ok(true) };
    let height = node.tree.node(node.tip()).height;
    let peers = Arc::new(Peers::begin(&node.options, wanted, node.dir.disk(), height)?);
    let search = Search { is_last: true, has_files: false, height: listed.height };
    let observer = peers.observer(observer);
    Ok(find_headers(node, &peers, search, &observer, stop)? != Activated::Stopped)
}

/// The base block, if bitcoind takes a snapshot of it here.
///
/// # Errors
/// It does not.
fn check_base(node: &Node, listed: &AssumeutxoData) -> Result<BlockId, SyncError> {
    let directory = node.dir.path().display();
    let refuse = |what: String| Err(SyncError::Input(format!("{directory}: {what}")));
    let (tree, AssumeutxoData { height, base: hash, .. }) = (&node.tree, listed);
    if let Some(snapshot) = &node.ledger.snapshot {
        return refuse(format!(
            "there is a UTXO set from a snapshot of block {} already, and bitcoind knows but one",
            snapshot.base
        ));
    }
    let Some(base) = tree.find(hash) else {
        return refuse(format!(
            "the header of the snapshot's base block {hash}, at height {height}, is not known: \
             give the blocks of a node that has them with --from, or peers with --connect"
        ));
    };
    if tree.node(base).failed {
        return refuse(format!("the snapshot's base block {hash} is known to be invalid"));
    }
    if tree.ancestor(tree.best_header(), *height) != Some(base) {
        return refuse(format!(
            "the best chain of headers does not have the snapshot's base block {hash}"
        ));
    }
    let tip = tree.node(node.tip());
    if tree.ancestor(base, tip.height) != Some(node.tip()) || tip.height == *height {
        return refuse(format!(
            "the UTXO set here is that of block {} at height {}, and the snapshot is for height \
             {height} of a chain that goes on from lower: it is of no use",
            tip.hash, tip.height
        ));
    }
    if node.record(base).tx_count > 0 {
        return refuse(format!(
            "the snapshot's base block {hash} is stored here: `apus sync` connects the blocks up \
             to it, and needs no snapshot"
        ));
    }
    Ok(base)
}

/// Makes the headers up to the base block, and a best block of `chainstate`, durable as bitcoind
/// needs them: it demands of every block of a chain that it was stored with its witnesses.
fn note_base(node: &mut Node, base: BlockId, observer: &dyn Observer) -> Result<(), SyncError> {
    let branch: Vec<BlockId> = node.tree.ancestors(base).collect();
    let segwit_height = node.tree.network().segwit_height;
    for id in branch.into_iter().filter(|id| node.tree.node(*id).height >= segwit_height) {
        if !node.record(id).status.has(BlockStatus::BLOCK_OPT_WITNESS) {
            node.ledger.change(id).status.0 |= BlockStatus::BLOCK_OPT_WITNESS;
        }
    }
    let (shared, ledger) = node.split();
    Ok(ledger.commit(&shared, observer)?)
}

/// The writing of the tables.
struct Task<'a> {
    node: &'a Node,
    path: &'a Path,
    is_sorted: bool,
    observer: &'a dyn Observer,
    stop: &'a AtomicBool,
}

impl Task<'_> {
    /// Writes the coins into new tables, and at last, when they are durable, what makes them a UTXO
    /// set for bitcoind. If it ends early, nothing is left.
    fn load(&self, disk: &Disk, base: &Hash) -> Result<(), EndedEarly> {
        let directory = self.node.dir.path().join(DIRECTORY);
        // bitcoind or a crash may have left coins here, which it would not remove.
        Chainstate::destroy(disk, &directory)?;
        let written = self.write(disk, &directory, base);
        if written.is_err() {
            Chainstate::destroy(disk, &directory)?;
            disk.remove_empty_dir(&directory)?;
        }
        written?;
        Ok(mark_whole(disk, self.node.dir.path(), base)?)
    }

    fn write(&self, disk: &Disk, directory: &Path, base: &Hash) -> Result<(), EndedEarly> {
        let tables = leveldb::Options { create_if_missing: true, ..leveldb::Options::default() };
        let chainstate = Chainstate::open(disk.clone(), directory, tables)?;
        let file = SnapshotFile::open(self.path).map_err(|error| self.unreadable(error))?;
        let bulk = chainstate.bulk()?;
        self.node.pool.install(|| match self.is_sorted {
            true => self.write_sorted(&file, &bulk),
            false => self.sort_and_write(&file, &bulk),
        })?;
        Ok(bulk.commit(base)?)
    }

    /// Writes coins that are in the order of the tables.
    fn write_sorted(&self, file: &SnapshotFile, bulk: &Bulk) -> Result<(), EndedEarly> {
        let (mut pieces, mut all) = (file.pieces(), Vec::new());
        while let Some(piece) = pieces.next_piece().map_err(|error| self.unreadable(error))? {
            all.push(piece);
        }
        let parts = PARTS_PER_THREAD * rayon::current_num_threads();
        let report = share_of(self.observer, Phase::WritingCoins, self.node);
        let share = Share::new(all.len() as u64, &report);
        all.par_chunks(all.len().div_ceil(parts).max(1)).try_for_each(|part| {
            let mut writer = bulk.writer();
            for piece in part {
                check_stop(self.stop)?;
                let put = |outpoint: &_, coin: Coin| -> Result<(), SnapshotReadError> {
                    Ok(writer.put(outpoint, &coin.parts())?)
                };
                piece.for_each(put).map_err(|error| self.unreadable(error))?;
                share.add(1);
            }
            Ok(writer.finish()?)
        })
    }

    /// Sorts coins in another order, as far as they have no room in memory in a temporary file, and
    /// writes them.
    fn sort_and_write(&self, file: &SnapshotFile, bulk: &Bulk) -> Result<(), EndedEarly> {
        let report = Progress::of(Phase::ReadingSnapshot).share_to(self.observer);
        let goes_on = |share| {
            report(share);
            check_stop(self.stop).is_ok()
        };
        let gathered = Gathered::of_file(file, self.node.options.dbcache_bytes, goes_on)
            .map_err(|error| self.unreadable(error))?
            .ok_or(EndedEarly::Stopped)?;
        let coins = &gathered.coins;
        let ranges = coins.ranges(PARTS_PER_THREAD * rayon::current_num_threads());
        ranges.into_par_iter().try_for_each(|range| {
            check_stop(self.stop)?;
            let mut writer = bulk.writer();
            coins.write_range(range, &mut writer).map_err(|error| self.unreadable(error))?;
            Ok(writer.finish()?)
        })
    }

    fn unreadable(&self, error: impl Into<SnapshotReadError>) -> EndedEarly {
        of_read(self.path, error.into()).into()
    }
}
