use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::chain::StoredChain;
use super::number::number;
use super::sorted::{Collector, Sorted, Survivor, place_of, survivor, vout_of};
use super::summary::{Halt, HintsSummary};
use super::workers::{check, in_order};
use super::write::{HintedBlock, Totals, Unspent, Work, groups, write_hints};
use crate::coins::{CoinScan, for_each_spending_tx};
use crate::disk::{Share, SpillFile, StoreError};
use crate::swiftsync::Format;
use crate::swiftsync::hints::{Numbering, encoder};
use crate::sync::error::SyncError;
use crate::sync::options::Options;
use crate::sync::progress::{Observer, Phase, Progress};
use crate::sync::remedy;
use crate::wire::OutPoint;

/// Scans of the chainstate for each thread, so that all end together.
const SCANS_PER_THREAD: usize = 16;
/// Coins between two looks at whether to stop.
const COINS_PER_LOOK: usize = 1 << 16;

/// Makes a hints file from a synced directory: which outputs of blocks 1 to `height` are unspent
/// at `height`, by default the directory's tip. The directory is locked and read, not changed.
///
/// Unspent at a height below the tip is what the chainstate holds of blocks up to it, and what the
/// blocks above it spend of those; undo data tells the latter's heights. Outputs are sorted into
/// the order of the blocks' files; then every block is read once, in that order.
///
/// Memory: `dbcache_bytes` for sorting, beyond which sorted runs wait in a temporary file beside
/// `out`; 56 bytes for each block of the chain (400 while the index is read, before the rest); 50
/// more for each block that is hinted; 4 for each run and group of blocks (mainnet in 2026, 450
/// MiB, 8 threads: 30 MB); and for each thread one block, and for at most 16 MiB of blocks their
/// unspent outputs, 24 bytes each, and their hints. Temporary disk: 24 bytes for each unspent
/// output that has no room in memory, and once more what is written.
///
/// `out` is replaced when all is done and not touched before.
///
/// # Errors
/// No chainstate, a height above the tip, a block that is not stored or whose undo data is needed
/// and not stored, a chainstate and blocks that do not fit each other, a disk that fails, or a
/// block that the format has no room for.
pub fn create_hints(
    options: &Options,
    height: Option<u32>,
    format: Format,
    out: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<HintsSummary, SyncError> {
    remedy::naming(options, || make(options, height, format, out, observer, stop))
}

fn make(
    options: &Options,
    height: Option<u32>,
    format: Format,
    out: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<HintsSummary, SyncError> {
    let started = Instant::now();
    let pool = crate::sync::threads::pool(options.threads)?;
    let chain = StoredChain::open(options, &pool)?;
    let tip = chain.height();
    let height = height.unwrap_or(tip);
    if height > tip {
        return Err(SyncError::Usage(format!(
            "the chainstate is at height {tip}: hints cannot be made for height {height}"
        )));
    }
    let encoder = encoder(format);
    let encoder = encoder.as_ref();
    let work = Work { chain: &chain, pool: &pool, observer, stop, encoder, out };
    let (totals, interrupted) = match create(&work, options, height, format.numbering()) {
        Ok(totals) => (totals, false),
        Err(Halt::Stopped) => (Totals::default(), true),
        Err(Halt::Failed(error)) => return Err(error),
    };
    Ok(HintsSummary {
        height,
        best_block: Some(chain.blocks[height as usize].hash),
        blocks: height,
        outputs: Some(totals.outputs),
        unspent: totals.unspent,
        bytes: totals.bytes,
        elapsed: started.elapsed(),
        interrupted,
    })
}

fn create(
    work: &Work,
    options: &Options,
    height: u32,
    numbering: Numbering,
) -> Result<Totals, Halt> {
    let chain = work.chain;
    let order = chain.in_file_order(1..height + 1)?;
    let groups = groups(chain, &order, options.threads);
    let mut places = vec![None; height as usize + 1];
    for (place, height) in (0..).zip(&order) {
        places[*height as usize] = Some(place);
    }
    let spill = SpillFile::unlinked(work.out, ".unspent.tmp");
    // What one search leaves in memory is there during the next.
    let searches = if height == chain.height() { 1 } else { 2 };
    let held_max = options.dbcache_bytes / options.threads.max(1) / searches;
    let new = || Collector::new(&spill, &groups, held_max);
    let find = Find { work, height, places };
    let mut collectors = find.in_chainstate(options.threads, new)?;
    collectors.extend(find.spent_above(new)?);
    tracing::debug!(blocks = height, groups = groups.len(), spilled = spill.len(), "sorted");
    let survivors = work.pool.install(|| Sorted::new(&spill, collectors));
    let told = Told { survivors, numbering, chain };
    write_hints(work, &order, &groups, &told)
}

/// Finds what was unspent at a height.
struct Find<'a> {
    work: &'a Work<'a>,
    height: u32,
    /// The index of each block in file order; genesis has none.
    places: Vec<Option<u32>>,
}

impl Find<'_> {
    /// What is unspent still.
    fn in_chainstate<'a>(
        &self,
        threads: usize,
        new: impl Fn() -> Collector<'a> + Sync,
    ) -> Result<Vec<Collector<'a>>, Halt> {
        let work = self.work;
        let scans = work.chain.chainstate.scans(SCANS_PER_THREAD * threads)?;
        let (total, done) = (scans.len(), Mutex::new(0));
        in_order(work.pool, scans.into_iter(), work.stop, new, |found, mut scan: CoinScan| {
            let mut seen = 0;
            while let Some((outpoint, coin)) = scan.next_coin()? {
                self.add(found, &outpoint, coin.height)?;
                seen += 1;
                if seen % COINS_PER_LOOK == 0 {
                    check(work.stop)?;
                }
            }
            let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *done += 1;
            self.observe(f64::from(*done) / total as f64);
            Ok(())
        })
    }

    /// What blocks above the height have spent.
    fn spent_above<'a>(
        &self,
        new: impl Fn() -> Collector<'a> + Sync,
    ) -> Result<Vec<Collector<'a>>, Halt> {
        let chain = self.work.chain;
        let above = chain.in_file_order(self.height + 1..chain.height() + 1)?;
        let spending =
            above.into_iter().filter(|height| chain.blocks[*height as usize].tx_count > 1);
        let new = || (new(), Vec::new(), Vec::new());
        let height = chain.height();
        let report =
            Progress { height, ..Progress::of(Phase::ReadingUndo) }.share_to(self.work.observer);
        let share = Share::new(spending.clone().count() as u64, &report);
        let work = |(found, bytes, undo): &mut (Collector, Vec<u8>, Vec<u8>), height: u32| {
            let (block, _) = chain.read(height, bytes)?;
            let pos = chain.read_undo(height, &block.header().prev, undo)?;
            let mut result = Ok(());
            let read = for_each_spending_tx(undo, &block, |tx, coins| {
                for (input, coin) in tx.inputs().zip(coins.iter()) {
                    if coin.height <= self.height && result.is_ok() {
                        result = self.add(found, &input.outpoint(), coin.height);
                    }
                }
            });
            read.map_err(|error| {
                let path = chain.files.undo_path(pos.file);
                StoreError::corrupt(path, u64::from(pos.pos), format!("undo data: {error}"))
            })?;
            share.add(1);
            result
        };
        let found = in_order(self.work.pool, spending, self.work.stop, new, work)?;
        Ok(found.into_iter().map(|(found, ..)| found).collect())
    }

    #[inline]
    fn add(&self, found: &mut Collector, outpoint: &OutPoint, height: u32) -> Result<(), Halt> {
        if height > self.height && height <= self.work.chain.height() {
            return Ok(());
        }
        let place = self.places.get(height as usize).copied().flatten().ok_or_else(|| {
            let what = format!(
                "there is a coin {outpoint} of block {height}, which has none; \
                 `apus reindex` rebuilds the chainstate from the blocks"
            );
            StoreError::new(self.work.chain.chainstate.dir(), what)
        })?;
        Ok(found.push(survivor(place, outpoint))?)
    }

    fn observe(&self, fraction: f64) {
        let height = self.work.chain.height();
        let phase = Phase::ReadingCoins;
        let progress = Progress { phase, height, time: 0, blocks: 0, bytes: 0, coins: 0, fraction };
        self.work.observer.observe(&progress);
    }
}

/// The collected outputs tell which are unspent.
struct Told<'a> {
    survivors: Sorted<'a>,
    numbering: Numbering,
    chain: &'a StoredChain,
}

impl Unspent for Told<'_> {
    type Group = Vec<Survivor>;

    fn load(&self, index: usize, group: &mut Vec<Survivor>) -> Result<(), Halt> {
        Ok(self.survivors.load(index, group)?)
    }

    fn tell(
        &self,
        group: &Vec<Survivor>,
        block: &HintedBlock,
        unspent: &mut Vec<u32>,
    ) -> Result<u32, Halt> {
        let start = group.partition_point(|survivor| place_of(survivor) < block.place);
        let end = group.partition_point(|survivor| place_of(survivor) <= block.place);
        let (survivors, overwritten) = (&group[start..end], block.overwritten);
        number(&block.view, &block.txids, overwritten, self.numbering, survivors, unspent)
            .map_err(|missing| self.disagreement(block.height, &missing))
    }
}

impl Told<'_> {
    fn disagreement(&self, height: u32, missing: &Survivor) -> Halt {
        let start: String =
            super::sorted::txid_of(missing).iter().rev().map(|b| format!("{b:02x}")).collect();
        let what = format!(
            "chainstate, undo data and blocks do not fit each other: block {height} has no output \
             {} of a transaction …{start}; `apus reindex` rebuilds the chainstate from the blocks",
            vout_of(missing)
        );
        StoreError::new(self.chain.chainstate.dir(), what).into()
    }
}
