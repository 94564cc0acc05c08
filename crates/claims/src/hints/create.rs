//! Makes hints files from a synced directory.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use apus_coins::{CoinScan, SnapshotError, SnapshotFile, SnapshotPiece, SnapshotReadError};
use apus_disk::{Disk, SpillFile, StoreError, lock};
use apus_host::threads;
use apus_node::error::{SyncError, of_read};
use apus_node::options::Options;
use apus_node::workers::{check_stop, for_each_on_pool};
use apus_node::{remedy, snapshot_chainstate};
use apus_progress::{Phase, Progress, Watch};
use apus_swiftsync::Format;
use apus_swiftsync::hints::{Numbering, encoder};
use apus_sync::claim::Claim;
use apus_sync::unspent::{
    Collector, OutputKey, SortedKeys, block_of, number, output_key, txid_of, vout_of,
};
use apus_wire::OutPoint;

use super::assemble::{FileOrder, HintedBlock, HintsTask, Target, UnspentSource, write_hints};
use super::summary::{HintsSummary, Made};
use crate::stored::{StoredChain, UndoSearch};

/// Scans of the chainstate for each thread, so that all threads end together.
const SCANS_PER_THREAD: usize = 16;
/// Coins that are read between two checks of the stop flag.
const COINS_PER_LOOK: usize = 1 << 16;

/// The source that says which outputs are unspent.
#[derive(Clone, Copy)]
enum Given<'a> {
    /// The chainstate, and undo data of the blocks above the height.
    Chainstate,
    /// A snapshot whose base block is at the height.
    Snapshot(&'a SnapshotFile),
}

/// Makes a hints file from the coins of a UTXO snapshot and the blocks of a synced directory, which
/// needs no undo data. The hints are only as correct as the snapshot; a SwiftSync proves them.
/// Everything else is as for [`create_hints`].
///
/// # Errors
/// The snapshot is damaged, is of another network, or has a coin that its block does not create;
/// its base block is not on the directory's chain; or as for [`create_hints`].
pub fn create_hints_of_snapshot(
    options: &Options,
    snapshot: &Path,
    format: Format,
    out: &Path,
    watch: Watch,
) -> Result<HintsSummary, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        let claim = Claim::open_snapshot(snapshot, &options.network)?;
        let Claim::Snapshot(file) = &claim else { unreachable!("a snapshot was opened") };
        let pool = threads::pool(options.threads)?;
        let chain = StoredChain::open(options, &pool)?;
        let base = file.head().base;
        let height = chain.blocks.iter().rposition(|block| block.hash == base).ok_or_else(|| {
            claim.error(format!(
                "its base block {base} is not on the directory's chain, which ends at height {}",
                chain.height()
            ))
        })? as u32;
        let encoder = encoder(format);
        let target = Target { path: out, encoder: encoder.as_ref() };
        let task = HintsTask { chain: &chain, target, pool: &pool, watch };
        let given = Given::Snapshot(file);
        let made = create(&task, options, height, format.numbering(), given);
        HintsSummary::of(height, started, made)
    })
}

/// Makes a hints file from a synced directory: which outputs of blocks 1 to `height` are unspent
/// at `height`, by default the directory's tip. The directory is locked and read, not changed.
///
/// The outputs that are unspent at a height below the tip are those that the chainstate still
/// holds, and those that the blocks above the height spend, which their undo data names. All of
/// them are sorted into the order of the blocks in the files; then every block is read once, in
/// that order.
///
/// Memory: `dbcache_bytes` for sorting, beyond which sorted runs go to a temporary file next to
/// `out`; 64 bytes for each block of the chain (400 while the index is read, before the rest); 50
/// more for each block that gets hints; 4 for each run and group of blocks (mainnet in 2026, 450
/// MiB, 8 threads: 30 MB); and for each thread one block, a few MiB of mapped tables, and for at
/// most 16 MiB of blocks their unspent outputs, 24 bytes each, and their hints. Temporary disk: 24
/// bytes for each unspent output that does not fit in memory, and the length of the hints file once
/// more.
///
/// `out` is replaced in one step, at the end.
///
/// # Errors
/// There is no chainstate; the height is above the tip; a block is not stored, or its undo data is
/// needed and not stored; chainstate and blocks do not agree; the disk fails; or the format cannot
/// hold a block.
pub fn create_hints(
    options: &Options,
    height: Option<u32>,
    format: Format,
    out: &Path,
    watch: Watch,
) -> Result<HintsSummary, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        let pool = threads::pool(options.threads)?;
        let chain = StoredChain::open(options, &pool)?;
        snapshot_chainstate::announce(&Disk::new(), &options.network_dir(), watch.observer)?;
        let height = chain.height_or_tip(height)?;
        let encoder = encoder(format);
        let target = Target { path: out, encoder: encoder.as_ref() };
        let task = HintsTask { chain: &chain, target, pool: &pool, watch };
        let made = create(&task, options, height, format.numbering(), Given::Chainstate);
        HintsSummary::of(height, started, made)
    })
}

fn create(
    task: &HintsTask,
    options: &Options,
    height: u32,
    numbering: Numbering,
    given: Given,
) -> Result<Made, SyncError> {
    let chain = task.chain;
    let order = FileOrder::new(chain, height, options.threads)?;
    let mut indices = vec![None; height as usize + 1];
    for (index, height) in (0..).zip(&order.heights) {
        indices[*height as usize] = Some(index);
    }
    let spill = Arc::new(SpillFile::unlinked(task.target.path, ".unspent.tmp"));
    let groups: Arc<[_]> = order.groups.clone().into();
    // The keys that the first search leaves in memory stay there during the second.
    let searches = if height == chain.height() { 1 } else { 2 };
    let held_max = options.dbcache_bytes / options.threads.max(1) / searches;
    let new = || Collector::new(Arc::clone(&spill), Arc::clone(&groups), held_max);
    let search = UnspentSearch { task, height, indices };
    let collectors = match given {
        Given::Snapshot(file) => search.in_snapshot(file, new)?,
        Given::Chainstate => {
            let mut collectors = search.in_chainstate(options.threads, new)?;
            collectors.extend(search.spent_above(new)?);
            collectors
        }
    };
    let groups = groups.len();
    tracing::debug!(
        target: "coindb",
        blocks = height, groups, spilled = spill.bytes_written(), "sorted"
    );
    let keys = task.pool.install(|| SortedKeys::new(spill, collectors));
    let totals = write_hints(task, &order, &CollectedOutputs { keys, numbering, chain, given })?;
    Ok(Made {
        best_block: Some(chain.blocks[height as usize].hash),
        outputs: Some(totals.outputs),
        unspent: totals.unspent,
        bytes: totals.bytes,
    })
}

/// A search for the outputs that were unspent at a height.
struct UnspentSearch<'a> {
    task: &'a HintsTask<'a>,
    height: u32,
    /// The index in file order of each block, by height; genesis has none.
    indices: Vec<Option<u32>>,
}

impl UnspentSearch<'_> {
    /// Collects the outputs that are still unspent at the tip.
    fn in_chainstate(
        &self,
        threads: usize,
        new: impl Fn() -> Collector + Sync,
    ) -> Result<Vec<Collector>, SyncError> {
        let task = self.task;
        let scans = task.chain.chainstate.scans(SCANS_PER_THREAD * threads)?;
        let total = scans.len();
        let done = Mutex::new(0);
        let read = |found: &mut Collector, mut scan: CoinScan| {
            let mut seen = 0;
            while let Some((outpoint, coin)) = scan.next_coin()? {
                self.add(found, &outpoint, coin.height)?;
                seen += 1;
                if seen % COINS_PER_LOOK == 0 {
                    check_stop(task.watch.stop)?;
                }
            }
            let mut done = lock(&done);
            *done += 1;
            self.observe(f64::from(*done) / total as f64);
            Ok(())
        };
        for_each_on_pool(task.pool, scans.into_iter(), task.watch.stop, new, read)
    }

    /// Collects the outputs whose coins a snapshot holds.
    fn in_snapshot(
        &self,
        file: &SnapshotFile,
        new: impl Fn() -> Collector + Sync,
    ) -> Result<Vec<Collector>, SyncError> {
        let mut pieces = file.pieces();
        let pieces = std::iter::from_fn(|| {
            let piece = pieces.next_piece().transpose()?;
            Some(piece.map(|piece| (piece, pieces.share())))
        });
        let begun = Progress { height: self.height, ..Progress::of(Phase::ReadingSnapshot) };
        let read = |found: &mut Collector, piece: Result<(SnapshotPiece, f64), SnapshotError>| {
            let wrong = |error| of_read(file.path(), error);
            let (piece, fraction) = piece.map_err(|error| wrong(error.into()))?;
            let mut result = Ok(());
            let read = piece.for_each(|outpoint, coin| {
                if result.is_ok() {
                    result = self.add_of_snapshot(file, found, outpoint, coin.height);
                }
                Ok::<(), SnapshotReadError>(())
            });
            read.map_err(wrong)?;
            file.release(&piece);
            self.task.watch.observer.observe(&Progress { fraction, ..begun.clone() });
            result
        };
        for_each_on_pool(self.task.pool, pieces, self.task.watch.stop, new, read)
    }

    /// Adds a coin of a snapshot.
    fn add_of_snapshot(
        &self,
        file: &SnapshotFile,
        found: &mut Collector,
        outpoint: &OutPoint,
        height: u32,
    ) -> Result<(), SyncError> {
        let block = self.indices.get(height as usize).copied().flatten();
        let block = block.ok_or_else(|| {
            let what =
                format!("it has a coin {outpoint} of block {height}, which creates no coins");
            of_read(file.path(), SnapshotError::new(what).into())
        })?;
        Ok(found.push(output_key(block, outpoint))?)
    }

    /// Collects the outputs that blocks above the height have spent.
    fn spent_above(&self, new: impl Fn() -> Collector + Sync) -> Result<Vec<Collector>, SyncError> {
        let HintsTask { chain, pool, watch, .. } = *self.task;
        let search = UndoSearch { chain, height: self.height, pool, watch };
        search.for_each_spent(new, |found, outpoint, coin| self.add(found, outpoint, coin.height))
    }

    /// Adds a coin of the block at `height`, unless that block gets no hints.
    #[inline]
    fn add(
        &self,
        found: &mut Collector,
        outpoint: &OutPoint,
        height: u32,
    ) -> Result<(), SyncError> {
        let chain = self.task.chain;
        if height > self.height && height <= chain.height() {
            return Ok(());
        }
        let block = self.indices.get(height as usize).copied().flatten().ok_or_else(|| {
            let what = format!(
                "there is a coin {outpoint} of block {height}, which creates no coins; \
                 `apus reindex` rebuilds the chainstate from the blocks"
            );
            StoreError::new(chain.chainstate.dir(), what)
        })?;
        Ok(found.push(output_key(block, outpoint))?)
    }

    fn observe(&self, fraction: f64) {
        let height = self.task.chain.height();
        let begun = Progress::of(Phase::ReadingCoins);
        self.task.watch.observer.observe(&Progress { height, fraction, ..begun });
    }
}

/// The unspent outputs that a search has collected.
struct CollectedOutputs<'a> {
    keys: SortedKeys,
    numbering: Numbering,
    chain: &'a StoredChain,
    given: Given<'a>,
}

impl UnspentSource for CollectedOutputs<'_> {
    type Group = Vec<OutputKey>;

    fn load(&self, index: usize, group: &mut Vec<OutputKey>) -> Result<(), SyncError> {
        Ok(self.keys.load(index, group)?)
    }

    fn unspent_of(
        &self,
        group: &Vec<OutputKey>,
        block: &HintedBlock,
        unspent: &mut Vec<u32>,
    ) -> Result<u32, SyncError> {
        let start = group.partition_point(|key| block_of(key) < block.index);
        let end = group.partition_point(|key| block_of(key) <= block.index);
        let keys = &group[start..end];
        let overwritten = block.overwritten;
        number(&block.view, &block.txids, overwritten, self.numbering, keys, unspent)
            .map_err(|missing| self.disagreement(block.height, &missing))
    }
}

impl CollectedOutputs<'_> {
    /// Returns the error for a coin that is not an output of the block that it names.
    fn disagreement(&self, height: u32, missing: &OutputKey) -> SyncError {
        // Txids are written with their last byte first.
        let end: String = txid_of(missing).iter().rev().map(|b| format!("{b:02x}")).collect();
        let what = format!(
            "block {height} has no output {} of a transaction whose txid ends in {end}",
            vout_of(missing)
        );
        if let Given::Snapshot(file) = self.given {
            let what = format!("it has a coin that does not exist, or has it twice: {what}");
            return of_read(file.path(), SnapshotError::new(what).into());
        }
        let what = format!(
            "chainstate, undo data and blocks do not agree: {what}; `apus reindex` rebuilds the \
             chainstate from the blocks"
        );
        StoreError::new(self.chain.chainstate.dir(), what).into()
    }
}
