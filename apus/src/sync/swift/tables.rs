//! The tables of a SwiftSync's coins: of those that were gathered, or of a sorted snapshot, whose
//! tables are written while the blocks prove it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

use super::fault::Fault;
use super::unspent::reading_fault;
use crate::coins::{Bulk, CoinWriter, SnapshotPiece, SnapshotReadError, Survivors, WriteError};
use crate::disk::{OnShare, Share};
use crate::sync::threads;

/// Threads that write tables, for each core: one waits for the disk while another sorts.
pub(super) const WRITERS_PER_CORE: usize = 2;
/// Parts of the coins that each thread writes: enough that all threads end at about the same time,
/// and few enough that tables reach their full length.
const PARTS_PER_WRITER: usize = 4;
/// Pieces of a snapshot in each part: 64 MiB, two tables.
const PIECES_PER_PART: usize = 64;

/// Coins that are written as the bottom level of tables, in parts that any thread may take.
pub(super) struct Tables<'a> {
    coins: Coins<'a>,
    bulk: Bulk<'a>,
    /// How many parts were taken.
    taken: AtomicUsize,
}

enum Coins<'a> {
    /// Those that workers have gathered, in ranges of slots.
    Gathered(&'a Survivors, Vec<std::ops::Range<usize>>),
    /// Those of a snapshot, in the order of their keys.
    Sorted(Vec<&'a [SnapshotPiece<'a>]>),
}

impl<'a> Tables<'a> {
    /// The coins that were gathered, for so many threads.
    pub fn of_gathered(survivors: &'a Survivors, bulk: Bulk<'a>, writers: usize) -> Self {
        let ranges = survivors.ranges(writers * PARTS_PER_WRITER);
        Self { coins: Coins::Gathered(survivors, ranges), bulk, taken: AtomicUsize::new(0) }
    }

    /// The coins of a snapshot whose pieces are in order.
    pub fn of_snapshot(pieces: &'a [SnapshotPiece<'a>], bulk: Bulk<'a>) -> Self {
        let parts = pieces.chunks(PIECES_PER_PART).collect();
        Self { coins: Coins::Sorted(parts), bulk, taken: AtomicUsize::new(0) }
    }

    fn parts(&self) -> usize {
        match &self.coins {
            Coins::Gathered(_, ranges) => ranges.len(),
            Coins::Sorted(parts) => parts.len(),
        }
    }

    /// Writes parts that nobody has taken, until there are none or `halt` is raised, which leaves a
    /// part unfinished: then the tables are of no use.
    pub fn write(&self, halt: &AtomicBool, share: Option<&Share>) -> Result<(), Fault> {
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
            writer.finish().map_err(Fault::Store)?;
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
    ) -> Result<(), Fault> {
        match &self.coins {
            Coins::Gathered(survivors, ranges) => {
                survivors.write_range(ranges[part].clone(), writer).map_err(|error| match error {
                    WriteError::Store(error) => Fault::Store(error),
                    WriteError::Twice(outpoint) => Fault::Chain(format!(
                        "the output {outpoint} was created twice: only a sync in order can tell \
                         whether BIP30 allows it"
                    )),
                })
            }
            Coins::Sorted(parts) => {
                for piece in parts[part].iter().take_while(|_| !halt.load(Relaxed)) {
                    let put = |outpoint: &_, coin: crate::coins::Coin| {
                        Ok::<_, SnapshotReadError>(writer.put(outpoint, &coin.parts())?)
                    };
                    piece.for_each(put).map_err(reading_fault)?;
                }
                Ok(())
            }
        }
    }

    /// Writes all parts that nobody has taken, with so many threads.
    pub fn write_all(&self, writers: usize, report: OnShare) -> Result<(), Fault> {
        let left = self.parts().saturating_sub(self.taken.load(Relaxed));
        let share = Share::new(left as u64, report);
        let never = AtomicBool::new(false);
        thread::scope(|scope| {
            let write = || self.write(&never, Some(&share));
            let start = |number| threads::spawn(scope, format!("apus-table-{number}"), write);
            let writers: Vec<_> = (0..writers).map(start).collect();
            let panicked = |panic| std::panic::resume_unwind(panic);
            writers.into_iter().try_for_each(|writer| writer.join().unwrap_or_else(panicked))
        })
    }

    /// What can be committed, once all parts are written.
    pub fn into_bulk(self) -> Bulk<'a> {
        self.bulk
    }
}
