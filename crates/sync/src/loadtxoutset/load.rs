//! Loads a listed snapshot, unproved, as the UTXO set that bitcoind works with: writes what Core's
//! `loadtxoutset` leaves in a directory.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_coins::{
    Chainstate, SnapshotError, SnapshotFile, SnapshotPiece, SnapshotReadError, SnapshotStats,
    snapshot_stats,
};
use apus_disk::{Disk, Share, ShareWatch, StoreError};
use apus_hash::Hash;
use apus_leveldb as leveldb;
use apus_node::coin_tables::{Tables, Writing};
use apus_node::commit::Ledger;
use apus_node::error::{SyncError, of_read};
use apus_node::gathered::{Gathered, stats_by_sorting};
use apus_node::opened::{Node, share_of};
use apus_node::shared::Shared;
use apus_node::snapshot_chainstate::{DIRECTORY, SnapshotChainstate, mark_whole};
use apus_progress::{Observer, Phase, Progress, Watch};
use apus_store::BlockStatus;
use apus_wire::{AssumeutxoData, Network};

/// Loads a listed snapshot into an opened directory for which [`check_base`] allows it, and returns
/// the number of its coins; `None` if stopped. If it ends early, nothing is left.
///
/// # Errors
/// The snapshot is damaged, or its coins have another hash than the listed one; or the disk fails.
pub fn load(
    node: &mut Node,
    file: &SnapshotFile,
    listed: &AssumeutxoData,
    watch: Watch,
) -> Result<Option<u64>, SyncError> {
    let disk = node.dir().disk().clone();
    let network_dir = node.dir().path().to_path_buf();
    let directory = network_dir.join(DIRECTORY);
    // bitcoind or a crash may have left coins here, which bitcoind would not remove.
    Chainstate::destroy(&disk, &directory)?;
    let task = Task { node, file, listed, watch };
    let written = task.write(&disk, &directory).map_err(|error| of_read(file.path(), error));
    let loaded = written.and_then(|coins| {
        let (shared, ledger) = node.split();
        coins.iter().try_for_each(|_| note_base(&shared, ledger, &listed.base, watch.observer))?;
        Ok(coins)
    });
    let Ok(Some(_)) = loaded else {
        Chainstate::destroy(&disk, &directory)?;
        disk.remove_empty_dir(&directory)?;
        return loaded;
    };
    mark_whole(&disk, &network_dir, &listed.base)?;
    node.ledger_mut().snapshot = SnapshotChainstate::find(&disk, &network_dir)?;
    loaded
}

/// Returns what Core's chain parameters list for the base block of a snapshot. If they do not list
/// it, returns a message with the heights that they list.
pub fn listed(network: &Network, file: &SnapshotFile) -> Result<AssumeutxoData, String> {
    let base = file.head().base;
    network.assumeutxo_at(&base).copied().ok_or_else(|| {
        let heights: Vec<_> = network.assumeutxo().iter().map(|at| at.height.to_string()).collect();
        format!(
            "bitcoind loads only snapshots that its chain parameters list, at the heights {}, and \
             not one of block {base}",
            heights.join(", ")
        )
    })
}

/// Returns whether bitcoind accepts a snapshot of this base block here; if not, the inner error
/// says why.
pub fn check_base(node: &Node, listed: &AssumeutxoData) -> Result<Result<(), String>, StoreError> {
    let tree = node.tree();
    let AssumeutxoData { height, base: hash, .. } = listed;
    let refuse = |why: String| Ok(Err(why));
    if let Some(snapshot) = &node.ledger().snapshot {
        return refuse(format!(
            "there is already a UTXO set from a snapshot of block {}, and bitcoind supports only \
             one",
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
    let tip = node.tip_in_use()?;
    let top = tree.node(tip).height;
    if tree.ancestor(base, top) != Some(tip) || top == *height {
        return refuse(format!(
            "the UTXO set here is that of block {} at height {top}, which is no ancestor of the \
             snapshot's block at height {height}: the snapshot cannot be used",
            tree.node(tip).hash
        ));
    }
    if node.record(base).tx_count > 0 {
        return refuse(format!(
            "the snapshot's base block {hash} is stored here: `apus sync` connects the blocks up \
             to it, and needs no snapshot"
        ));
    }
    Ok(Ok(()))
}

/// Makes the headers up to the base block, and a best block of `chainstate`, durable as bitcoind
/// needs them: from the segwit height on, it requires of every block of a chain that it was stored
/// with its witnesses.
fn note_base(
    shared: &Shared,
    ledger: &mut Ledger,
    base: &Hash,
    observer: &dyn Observer,
) -> Result<(), StoreError> {
    let branch = shared.tree.find(base).into_iter().flat_map(|base| shared.tree.ancestors(base));
    for id in branch.filter(|id| shared.tree.height(*id) >= shared.network.segwit_height) {
        if !ledger.record(id).status.has(BlockStatus::BLOCK_OPT_WITNESS) {
            ledger.change(id).status.0 |= BlockStatus::BLOCK_OPT_WITNESS;
        }
    }
    if ledger.writes.new_set {
        ledger.write_index(shared.files, shared.tree)
    } else {
        ledger.commit(shared, observer)
    }
}

/// The task of writing a snapshot's coins to tables.
struct Task<'a> {
    node: &'a Node,
    file: &'a SnapshotFile,
    listed: &'a AssumeutxoData,
    watch: Watch<'a>,
}

impl Task<'_> {
    /// Writes the coins to new tables, which are durable at the end, and compares their hash with
    /// the listed one. Returns the number of coins; `None` if stopped.
    fn write(&self, disk: &Disk, directory: &Path) -> Result<Option<u64>, SnapshotReadError> {
        let options = leveldb::Options { create_if_missing: true, ..leveldb::Options::default() };
        let chainstate = Chainstate::open(disk.clone(), directory, options)?;
        let bulk = chainstate.bulk()?;
        let writers = self.node.options().threads;
        let report = share_of(self.watch.observer, Phase::WritingCoins, self.node);
        let writing = Writing { writers, report: &report, stop: self.watch.stop };
        let Some((pieces, is_sorted)) = self.cut()? else { return Ok(None) };
        let gathered;
        let tables = if is_sorted {
            Tables::of_snapshot(&pieces, bulk)
        } else {
            let Some(sorted) = self.hash_and_sort()? else { return Ok(None) };
            gathered = sorted;
            Tables::of_gathered(&gathered.coins, bulk, writers)
        };
        // Coins that are in order are hashed while others are written: the file is read once.
        let hashed =
            |failed: &AtomicBool| if is_sorted { self.hash(&pieces, failed) } else { Ok(Some(())) };
        if tables.write_beside(writing, hashed)?.is_none() {
            return Ok(None);
        }
        tables.into_bulk().commit(&self.listed.base)?;
        Ok(Some(self.file.head().coins))
    }

    /// Returns all pieces of the file, and whether they are in the order of the tables; `None` if
    /// stopped.
    fn cut(&self) -> Result<Option<(Vec<SnapshotPiece<'_>>, bool)>, SnapshotError> {
        let mut pieces = self.file.pieces();
        let mut all = Vec::new();
        while let Some(piece) = pieces.next_piece()? {
            self.report_reading(pieces.share());
            if self.watch.is_stopped() {
                return Ok(None);
            }
            all.push(piece);
        }
        Ok(Some((all, pieces.is_sorted())))
    }

    /// Compares the hash of coins that are in order with the listed one. Returns `None` if stopped,
    /// or if `failed` was raised.
    fn hash(
        &self,
        pieces: &[SnapshotPiece],
        failed: &AtomicBool,
    ) -> Result<Option<()>, SnapshotReadError> {
        let ends = || self.watch.is_stopped() || failed.load(Relaxed);
        let report = |share| self.report_reading(share);
        let share = Share::new(pieces.len() as u64, &report);
        let mut left = pieces.iter();
        let next_piece = || {
            share.add(1);
            Ok(left.next().filter(|_| !ends()).copied())
        };
        let stats = self.node.shared().pool.install(|| snapshot_stats(next_piece))?;
        if ends() {
            return Ok(None);
        }
        self.check(&stats).map(Some)
    }

    /// Compares the hash of coins that are in another order with the listed one, and sorts them,
    /// those that do not fit in memory in a temporary file. Returns `None` if stopped.
    fn hash_and_sort(&self) -> Result<Option<Gathered>, SnapshotReadError> {
        let report = |share| self.report_reading(share);
        let watch = ShareWatch { report: &report, stop: self.watch.stop };
        let stats = self.node.shared().pool.install(|| stats_by_sorting(self.file, watch))?;
        let Some(stats) = stats else { return Ok(None) };
        self.check(&stats)?;
        Gathered::of_file(self.file, self.node.options().dbcache_bytes, watch)
    }

    fn check(&self, stats: &SnapshotStats) -> Result<(), SnapshotReadError> {
        let AssumeutxoData { hash_serialized: expected, base, .. } = self.listed;
        let found = &stats.hash_serialized;
        if found == expected {
            return Ok(());
        }
        let what = format!(
            "its coins have the hash {found}, but Bitcoin Core's chain parameters list {expected} \
             for block {base}: this is not the UTXO set of that block, and was not loaded"
        );
        Err(SnapshotError::new(what).into())
    }

    fn report_reading(&self, fraction: f64) {
        self.watch.observer.observe(&Progress { fraction, ..Progress::of(Phase::ReadingSnapshot) });
    }
}
