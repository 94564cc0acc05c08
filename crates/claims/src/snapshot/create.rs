//! Makes snapshots from a synced directory: of its UTXO set at the tip or at a lower height, or of
//! the outputs that hints call unspent.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use apus_coins::{Coin, SurvivorWriter};
use apus_consensus::is_bip30_unspendable;
use apus_disk::Disk;
use apus_hash::Hash;
use apus_host::threads;
use apus_node::error::SyncError;
use apus_node::gathered::Gathered;
use apus_node::options::Options;
use apus_node::snapshot_writing::{SnapshotSource, SnapshotWriting, Written};
use apus_node::workers::for_each_on_pool;
use apus_node::{remedy, snapshot_chainstate};
use apus_progress::{Phase, Progress, Watch};
use apus_swiftsync::HintsError;
use apus_swiftsync::hints::{OutputFate, numbered_outputs};
use apus_sync::hints_file::HintsFile;
use apus_wire::BlockView;
use rayon::ThreadPool;

use crate::stored::{ReadBlock, StoredChain, UndoSearch};

/// The result of making a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotSummary {
    /// Height of the base block.
    pub height: u32,
    /// Hash of the base block, after which the snapshot's coins are unspent.
    pub base: Hash,
    /// Number of coins.
    pub coins: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Wall clock time.
    pub elapsed: Duration,
    /// Whether the work was stopped before the end, so that no file was made.
    pub interrupted: bool,
}

impl SnapshotSummary {
    fn of(
        chain: &StoredChain,
        height: u32,
        started: Instant,
        made: Result<Written, SyncError>,
    ) -> Result<Self, SyncError> {
        let made = SyncError::unless_stopped(made)?;
        let interrupted = made.is_none();
        let Written { coins, bytes } = made.unwrap_or_default();
        let base = chain.blocks[height as usize].hash;
        let elapsed = started.elapsed();
        Ok(Self { height, base, coins, bytes, elapsed, interrupted })
    }
}

/// Makes a snapshot file of the UTXO set of a synced directory at `height`, by default its tip. The
/// file is what Core's `dumptxoutset` writes, byte for byte. The directory is locked and read, not
/// changed.
///
/// The UTXO set at a height below the tip consists of the coins of blocks up to it that the
/// chainstate still holds, and of those that the blocks above it have spent, which are in undo
/// data.
///
/// Memory: `dbcache_bytes` for the coins from undo data, beyond which they go to a temporary file;
/// and for each thread two of 1,024 parts of the UTXO set. `out` must not exist: the file is
/// written with `.incomplete` at the end of its name, and then renamed.
///
/// # Errors
/// There is no chainstate; the height is above the tip; undo data that is needed is not stored;
/// `out` exists; or the disk fails.
pub fn create_snapshot(
    options: &Options,
    height: Option<u32>,
    out: &Path,
    watch: Watch,
) -> Result<SnapshotSummary, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        let pool = threads::pool(options.threads)?;
        let chain = StoredChain::open(options, &pool)?;
        snapshot_chainstate::announce(&Disk::new(), &options.network_dir(), watch.observer)?;
        let height = chain.height_or_tip(height)?;
        let work = Work { chain: &chain, height, pool: &pool, watch };
        let made = Disk::new().write_new(out, |file| {
            let spent = if height == chain.height() {
                None
            } else {
                Some(work.spent_above(options.dbcache_bytes)?)
            };
            let coins = chain.chainstate.view();
            let source = SnapshotSource { coins: Some(&coins), more: spent.as_ref() };
            pool.install(|| work.writing().write(file, options.network.magic, &source))
        });
        SnapshotSummary::of(&chain, height, started, made)
    })
}

/// Makes a snapshot file of the outputs that a hints file calls unspent, from the blocks of a
/// synced directory, which needs no undo data. The snapshot is only as correct as the hints, which
/// [`crate::prove`] proves. Everything else is as for [`create_snapshot`].
///
/// # Errors
/// The hints are damaged, do not fit a block, or are for a height above the tip; a block is not
/// stored; or as for [`create_snapshot`].
pub fn create_snapshot_of_hints(
    options: &Options,
    hints: &Path,
    out: &Path,
    watch: Watch,
) -> Result<SnapshotSummary, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        let hints = HintsFile::open(hints)?;
        let pool = threads::pool(options.threads)?;
        let chain = StoredChain::open(options, &pool)?;
        let height = hints.reader.height();
        let tip = chain.height();
        if height > tip {
            return Err(hints.error(HintsError::new(format!(
                "the hints are for height {height}, but the tip is at height {tip}"
            ))));
        }
        let work = Work { chain: &chain, height, pool: &pool, watch };
        let made = Disk::new().write_new(out, |file| {
            let hinted = work.hinted(&hints, options.dbcache_bytes)?;
            let source = SnapshotSource { coins: None, more: Some(&hinted) };
            pool.install(|| work.writing().write(file, options.network.magic, &source))
        });
        SnapshotSummary::of(&chain, height, started, made)
    })
}

/// The chain, the height and the threads for making a snapshot.
struct Work<'a> {
    chain: &'a StoredChain,
    height: u32,
    pool: &'a ThreadPool,
    watch: Watch<'a>,
}

impl Work<'_> {
    /// Gathers the coins of blocks up to the height that the blocks above it have spent.
    fn spent_above(&self, memory: usize) -> Result<Gathered, SyncError> {
        let Self { chain, height, pool, watch } = *self;
        chain.refuse_between_bip30_twins(height)?;
        let gathered = Gathered::new(memory)?;
        let writers = UndoSearch { chain, height, pool, watch }.for_each_spent(
            || SurvivorWriter::new(&gathered.coins),
            |writer, outpoint, coin| {
                Ok(writer.push(&outpoint.txid, outpoint.vout, &coin.parts())?)
            },
        )?;
        for mut writer in writers {
            writer.flush()?;
        }
        Ok(gathered)
    }

    /// Gathers the outputs of all blocks up to the height that are hinted as unspent.
    fn hinted(&self, hints: &HintsFile, memory: usize) -> Result<Gathered, SyncError> {
        let gathered = Gathered::new(memory)?;
        let heights = self.chain.in_file_order(1..self.height + 1)?;
        let total = heights.len() as u64;
        let done = AtomicU64::new(0);
        let new = || (SurvivorWriter::new(&gathered.coins), Vec::new(), Vec::new());
        let read = |(writer, bytes, unspent): &mut (SurvivorWriter, Vec<u8>, Vec<u32>), height| {
            self.push_hinted(hints, height, writer, bytes, unspent)?;
            let blocks = done.fetch_add(1, Relaxed) + 1;
            let fraction = blocks as f64 / total as f64;
            let begun = Progress::of(Phase::ReadingBlocks);
            self.watch.observer.observe(&Progress { height, blocks, fraction, ..begun });
            Ok(())
        };
        let writers = for_each_on_pool(self.pool, heights.into_iter(), self.watch.stop, new, read)?;
        for (mut writer, ..) in writers {
            writer.flush()?;
        }
        Ok(gathered)
    }

    /// Gathers the outputs of one block that are hinted as unspent.
    fn push_hinted(
        &self,
        hints: &HintsFile,
        height: u32,
        writer: &mut SurvivorWriter,
        bytes: &mut Vec<u8>,
        unspent: &mut Vec<u32>,
    ) -> Result<(), SyncError> {
        let wrong = |error| hints.error(error);
        hints.reader.unspent(height, unspent).map_err(wrong)?;
        let ReadBlock { view, txids } = self.chain.read(height, bytes)?;
        let overwritten = is_bip30_unspendable(height, &view.hash());
        let numbering = hints.reader.format().numbering();
        let mut hinted = unspent.iter().copied().peekable();
        for output in numbered_outputs(&view, numbering, overwritten) {
            let Some(index) = output.number.index else { continue };
            if hinted.next_if_eq(&index).is_none() {
                continue;
            }
            if output.number.fate == OutputFate::Unspendable {
                let what = format!("output {index} is hinted as unspent, but it is unspendable");
                return Err(wrong(HintsError::at(height, what)));
            }
            // An overwritten output has the outpoint of a later one, and may be hinted as that.
            if output.number.fate == OutputFate::Coin {
                let txid = &txids[output.tx];
                let coin = coin_of(&view, output.tx, output.vout, height);
                writer.push(txid, output.vout, &coin.parts())?;
            }
        }
        match hinted.next() {
            None => Ok(()),
            Some(index) => {
                let what =
                    format!("output {index} is hinted as unspent, but the block has fewer outputs");
                Err(wrong(HintsError::at(height, what)))
            }
        }
    }

    fn writing(&self) -> SnapshotWriting<'_> {
        let Self { chain, height, watch, .. } = *self;
        let base = chain.blocks[height as usize].hash;
        SnapshotWriting { base, height, dir: chain.chainstate.dir(), watch }
    }
}

fn coin_of(view: &BlockView<&[u8]>, tx: usize, vout: u32, height: u32) -> Coin {
    let output = view.tx(tx).output(vout as usize);
    Coin::new(output.value().unsigned_abs(), output.script(), height, tx == 0)
}
