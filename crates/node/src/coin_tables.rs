//! The tables of a whole UTXO set: of coins that were gathered in any order, or of a snapshot whose
//! coins are in the order of the tables. They are written in parts, each by one thread.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

use apus_coins::{
    Bulk, Coin, CoinWriter, SnapshotError, SnapshotPiece, SnapshotReadError, Survivors, WriteError,
};
use apus_disk::{OnShare, Share, StoreError};
use apus_wire::OutPoint;

use apus_host::threads::{self, RaiseOnDrop};

/// Number of threads per core that write tables: one waits for the disk while another sorts.
pub const WRITERS_PER_CORE: usize = 2;
/// Number of parts that each thread writes: enough that all threads end at about the same time, and
/// few enough that tables reach their full length.
const PARTS_PER_WRITER: usize = 4;
/// Number of pieces of a snapshot in each part: 64 MiB, two tables.
const PIECES_PER_PART: usize = 64;

/// Coins that are written as the bottom level of tables, in parts that any thread may take.
pub struct Tables<'a> {
    coins: Coins<'a>,
    bulk: Bulk<'a>,
    /// Number of parts that were taken.
    taken: AtomicUsize,
}

enum Coins<'a> {
    /// The gathered coins, in ranges of slots.
    Gathered(&'a Survivors, Vec<Range<usize>>),
    /// The coins of a snapshot, in key order.
    Sorted(Vec<&'a [SnapshotPiece<'a>]>),
}

/// How tables are written: threads, reports of progress, and a flag to stop.
#[derive(Clone, Copy)]
pub struct Writing<'a> {
    /// The number of threads.
    pub writers: usize,
    /// Receives the share of the work that is done, from 0 to 1.
    pub report: OnShare<'a>,
    /// Ends the writing when it is raised. The tables are then unusable.
    pub stop: &'a AtomicBool,
}

/// Why tables could not be written.
pub enum TablesError {
    /// The disk failed, or a file is wrong.
    Store(StoreError),
    /// The snapshot is wrong.
    Snapshot(SnapshotError),
    /// This outpoint was gathered twice.
    Twice(OutPoint),
}

impl<'a> Tables<'a> {
    /// Returns the gathered coins, in parts for `writers` threads.
    pub fn of_gathered(survivors: &'a Survivors, bulk: Bulk<'a>, writers: usize) -> Self {
        let ranges = survivors.ranges(writers * PARTS_PER_WRITER);
        Self { coins: Coins::Gathered(survivors, ranges), bulk, taken: AtomicUsize::new(0) }
    }

    /// Returns the coins of a snapshot whose pieces are in order.
    pub fn of_snapshot(pieces: &'a [SnapshotPiece<'a>], bulk: Bulk<'a>) -> Self {
        let parts = pieces.chunks(PIECES_PER_PART).collect();
        Self { coins: Coins::Sorted(parts), bulk, taken: AtomicUsize::new(0) }
    }

    /// Does `work` while one thread writes tables; once it has succeeded, all threads write the
    /// rest. `work` is given a flag that is raised if tables cannot be written: it must then end
    /// early and return `None`, as when it is stopped.
    pub fn write_beside<T, E: From<TablesError>>(
        &self,
        writing: Writing,
        work: impl FnOnce(&AtomicBool) -> Result<Option<T>, E>,
    ) -> Result<Option<T>, E> {
        let halt = AtomicBool::new(false);
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            let halting = RaiseOnDrop(&halt);
            let writer = threads::spawn(scope, "apus-table", || {
                let failing = RaiseOnDrop(&failed);
                let written = self.write(&halt, None);
                match &written {
                    Ok(()) => std::mem::forget(failing),
                    // `work` needs disk space to save its progress if it ends early.
                    Err(_) => self.bulk.remove(),
                }
                written
            });
            let writer = writer.map_err(TablesError::Store)?;
            let mut done = work(&failed);
            let is_done = matches!(done, Ok(Some(_))) && !failed.load(Relaxed);
            if is_done {
                self.write_all(writing)?;
            }
            if is_done && !writing.stop.load(Relaxed) {
                std::mem::forget(halting)
            } else {
                drop(halting)
            }
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            if writing.stop.load(Relaxed) {
                done = done.map(|_| None);
            }
            done
        })
    }

    /// Writes all parts that no thread has taken.
    pub fn write_all(&self, writing: Writing) -> Result<(), TablesError> {
        let left = self.parts().saturating_sub(self.taken.load(Relaxed));
        let share = Share::new(left as u64, writing.report);
        thread::scope(|scope| {
            let write = || self.write(writing.stop, Some(&share));
            let start = |number| threads::spawn(scope, format!("apus-table-{number}"), write);
            // Fewer threads write all parts as well.
            let writers: Vec<_> =
                (0..writing.writers).map_while(|number| start(number).ok()).collect();
            if writers.is_empty() {
                write()?;
            }
            let panicked = |panic| std::panic::resume_unwind(panic);
            writers.into_iter().try_for_each(|writer| writer.join().unwrap_or_else(panicked))
        })
    }

    /// Returns what can be committed, once all parts are written.
    pub fn into_bulk(self) -> Bulk<'a> {
        self.bulk
    }

    fn parts(&self) -> usize {
        match &self.coins {
            Coins::Gathered(_, ranges) => ranges.len(),
            Coins::Sorted(parts) => parts.len(),
        }
    }

    /// Writes parts that no thread has taken, until there are none or `halt` is raised, which
    /// leaves a part unfinished: the tables are then unusable.
    fn write(&self, halt: &AtomicBool, share: Option<&Share>) -> Result<(), TablesError> {
        while !halt.load(Relaxed) {
            let part = self.taken.fetch_add(1, Relaxed);
            if part >= self.parts() {
                break;
            }
            let mut writer = self.bulk.writer();
            self.write_part(part, &mut writer, halt)?;
            if halt.load(Relaxed) {
                break;
            }
            writer.finish().map_err(TablesError::Store)?;
            if let Some(share) = share {
                share.add(1);
            }
        }
        Ok(())
    }

    fn write_part(
        &self,
        part: usize,
        writer: &mut CoinWriter,
        halt: &AtomicBool,
    ) -> Result<(), TablesError> {
        match &self.coins {
            Coins::Gathered(survivors, ranges) => {
                for slot in ranges[part].clone().take_while(|_| !halt.load(Relaxed)) {
                    survivors.write_range(slot..slot + 1, writer)?;
                }
                Ok(())
            }
            Coins::Sorted(parts) => {
                for piece in parts[part].iter().take_while(|_| !halt.load(Relaxed)) {
                    let put = |outpoint: &_, coin: Coin| {
                        Ok::<_, SnapshotReadError>(writer.put(outpoint, &coin.parts())?)
                    };
                    piece.for_each(put)?;
                }
                Ok(())
            }
        }
    }
}

impl From<WriteError> for TablesError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Store(error) => Self::Store(error),
            WriteError::Twice(outpoint) => Self::Twice(outpoint),
        }
    }
}

impl From<SnapshotReadError> for TablesError {
    fn from(error: SnapshotReadError) -> Self {
        match error {
            SnapshotReadError::Store(error) => Self::Store(error),
            SnapshotReadError::Snapshot(error) => Self::Snapshot(error),
        }
    }
}

impl From<TablesError> for SnapshotReadError {
    fn from(error: TablesError) -> Self {
        match error {
            TablesError::Store(error) => Self::Store(error),
            TablesError::Snapshot(error) => Self::Snapshot(error),
            TablesError::Twice(outpoint) => WriteError::Twice(outpoint).into(),
        }
    }
}
