//! What a claim says about the outputs of a block, and the coins of a snapshot.

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use apus_coins::{
    GroupCoin, SnapshotError, SnapshotFile, SnapshotPiece, SnapshotPieces, SnapshotReadError,
};
use apus_consensus::MONEY_MAX;
use apus_disk::{SpillFile, lock};
use apus_hash::Hash;
use apus_host::memory::limit::mapped_bytes;
use apus_host::threads;
use apus_node::fault::Fault;
use apus_node::options::Options;
use apus_progress::{Phase, Progress, Watch};
use apus_swiftsync::hints::Numbering;
use apus_wire::OutPoint;

use super::plan::SwiftPlan;
use super::tally::Tally;
use crate::claim::Claim;
use crate::hints_file::HintsFile;
use crate::unspent::{BlockCoins, CoinsByHeight, HeightCollector, Matching};

/// Which outputs of each block are unspent, according to the claim.
#[derive(Clone, Copy)]
pub(super) enum Unspent<'a> {
    /// Hints, which hold the indices of these outputs.
    Hints(&'a HintsFile),
    /// The coins of a snapshot, by the heights that the snapshot gives them.
    Snapshot(&'a CoinsByHeight<'a>),
}

impl Unspent<'_> {
    /// Returns which outputs of a block have an index.
    pub fn numbering(&self) -> Numbering {
        match self {
            Self::Hints(hints) => hints.reader.format().numbering(),
            Self::Snapshot(_) => Numbering::Spendable,
        }
    }

    /// Returns the number of outputs of a block that have an index; `None` if the claim does not
    /// say.
    pub fn output_count(&self, height: u32) -> Option<u32> {
        match self {
            Self::Hints(hints) => hints.reader.output_count(height),
            Self::Snapshot(_) => None,
        }
    }

    /// Returns which outputs of the block at `height` are unspent. The result borrows from
    /// `scratch`.
    ///
    /// # Errors
    /// The hints for the block cannot be read; the snapshot has more coins of the block than a
    /// block can create; or the disk fails.
    pub fn of_block<'s>(&self, height: u32, scratch: &'s mut Scratch) -> Result<Marks<'s>, Fault> {
        match self {
            Self::Hints(hints) => {
                let read = hints.reader.unspent(height, &mut scratch.indices);
                read.map_err(Fault::Hints)?;
                Ok(Marks::Indices(&scratch.indices))
            }
            Self::Snapshot(by_height) => {
                load(by_height, height, &mut scratch.coins)?;
                Ok(Marks::Coins(Matching::new(&scratch.coins, height)))
            }
        }
    }
}

/// Which outputs of one block are unspent, according to the claim.
pub(super) enum Marks<'a> {
    /// The indices of its unspent outputs in the hints, ascending.
    Indices(&'a [u32]),
    /// The coins of the snapshot that it has created.
    Coins(Matching<'a>),
}

/// Buffers of [`Unspent::of_block`], reused for the next block.
#[derive(Default)]
pub(super) struct Scratch {
    indices: Vec<u32>,
    coins: BlockCoins,
}

/// Loads the coins of the snapshot that the block at `height` has created into `coins`.
///
/// # Errors
/// There are more coins than a block can create, or the disk fails.
pub(super) fn load(
    by_height: &CoinsByHeight,
    height: u32,
    coins: &mut BlockCoins,
) -> Result<(), Fault> {
    if by_height.load(height, coins)? {
        Ok(())
    } else {
        Err(Fault::Snapshot(SnapshotError::new(format!(
            "it has more coins of block {height} than one block can create"
        ))))
    }
}

/// The coins of a snapshot, as the proof needs them.
pub(super) struct ReadCoins<'a> {
    /// All coins, by the heights that the snapshot gives them.
    pub by_height: CoinsByHeight<'a>,
    /// The number of coins.
    pub count: u64,
    /// The pieces of the file in order, if its coins are in the order of the tables without a
    /// repetition.
    pub sorted: Option<Vec<SnapshotPiece<'a>>>,
}

/// An opened claim, ready for the workers.
pub(super) enum Opened<'a> {
    /// Hints, which are read block by block.
    Hints(&'a HintsFile),
    /// The coins of a snapshot, which have all been read.
    Snapshot(ReadCoins<'a>),
}

impl<'a> Opened<'a> {
    /// Opens hints, or reads all coins of a snapshot.
    pub fn open(claim: &'a Claim, reading: &Reading) -> Result<Self, Fault> {
        match claim {
            Claim::Hints(hints) => Ok(Self::Hints(hints)),
            Claim::Snapshot(file) => Ok(Self::Snapshot(reading.read(file)?)),
        }
    }

    /// Returns what workers need: which outputs of each block are unspent.
    pub fn unspent(&self) -> Unspent<'_> {
        match self {
            Self::Hints(hints) => Unspent::Hints(hints),
            Self::Snapshot(coins) => Unspent::Snapshot(&coins.by_height),
        }
    }

    /// Returns the pieces of a snapshot whose coins can be written to tables in their order.
    pub fn sorted(&self) -> Option<&[SnapshotPiece<'a>]> {
        match self {
            Self::Hints(_) => None,
            Self::Snapshot(coins) => coins.sorted.as_deref(),
        }
    }

    /// Returns the number of coins of a snapshot, or 0 for hints.
    pub fn coins(&self) -> u64 {
        match self {
            Self::Hints(_) => 0,
            Self::Snapshot(coins) => coins.count,
        }
    }

    /// Asserts that every coin of a snapshot was compared with exactly one output of a block.
    ///
    /// # Panics
    /// The number of coins in `tally` is not that of the snapshot.
    pub fn assert_all_met(&self, tally: &Tally) {
        if let Self::Snapshot(coins) = self {
            assert_eq!(coins.count, tally.coins, "each coin is met once");
        }
    }
}

/// How to read a snapshot.
pub(super) struct Reading<'a> {
    /// Height of the snapshot's base block.
    pub height: u32,
    pub threads: usize,
    /// Minimum bytes of coins to hold in memory; more are held if much memory is available, and the
    /// rest is written to temporary files.
    pub memory: usize,
    /// The temporary files are next to this path.
    pub beside: PathBuf,
    pub watch: Watch<'a>,
}

impl<'a> Reading<'a> {
    /// Returns how to read a snapshot that is only proved: all memory is for its coins, and the
    /// rest goes to the system's directory for temporary files.
    pub fn of_proof(options: &Options, plan: &SwiftPlan, watch: Watch<'a>) -> Self {
        Self {
            height: plan.chain.height().unwrap_or(0),
            threads: options.threads,
            memory: options.dbcache_bytes,
            beside: std::env::temp_dir().join(format!("apus-{}", std::process::id())),
            watch,
        }
    }

    /// Reads all coins of a snapshot, with all threads.
    ///
    /// # Errors
    /// The snapshot is damaged or has coins that no block up to its base block can have created;
    /// the disk fails; or `watch` asks to stop.
    pub fn read<'f>(&self, file: &'f SnapshotFile) -> Result<ReadCoins<'f>, Fault> {
        let pieces = Mutex::new(file.pieces());
        let memory = mapped_bytes(self.memory) / self.threads;
        // Each thread has a temporary file of its own, since the system lets only one thread write
        // to a file at a time.
        let begun = AtomicUsize::new(0);
        let new = || {
            let name = format!(".heights-{}.tmp", begun.fetch_add(1, Relaxed));
            let spill = SpillFile::unlinked(&self.beside, &name);
            HeightCollector::new(file.mapped(), spill, self.height, memory)
        };
        let phase = Progress { height: self.height, ..Progress::of(Phase::ReadingSnapshot) };
        let work = |crew: &threads::Crew<f64>| -> Result<_, Fault> {
            let mut coins = new();
            let mut read_pieces = Vec::new();
            while !crew.is_halted()
                && let Some((piece, share)) = next_piece(&pieces).map_err(Fault::Snapshot)?
            {
                self.read_piece(&piece, &mut coins).map_err(reading_fault)?;
                read_pieces.push(piece);
                crew.report(share);
            }
            Ok((coins, read_pieces))
        };
        let results = threads::work_until_halt("snapshot", self.threads, work, |share| {
            if let Some(fraction) = share {
                self.watch.observer.observe(&Progress { fraction, ..phase.clone() });
            }
            self.watch.is_stopped()
        });
        let mut collectors = Vec::new();
        let mut all = Vec::new();
        for result in results {
            let (coins, pieces) = result?;
            collectors.push(coins);
            all.extend(pieces);
        }
        if self.watch.is_stopped() {
            return Err(Fault::Stopped);
        }
        all.sort_unstable_by_key(|piece| piece.offset);
        let is_sorted = pieces.into_inner().unwrap_or_else(PoisonError::into_inner).is_sorted();
        let by_height = CoinsByHeight::new(collectors);
        Ok(ReadCoins { by_height, count: file.head().coins, sorted: is_sorted.then_some(all) })
    }

    /// Reads a piece and collects its coins.
    fn read_piece(
        &self,
        piece: &SnapshotPiece,
        coins: &mut HeightCollector,
    ) -> Result<(), SnapshotReadError> {
        piece.for_each_group(|group| {
            for coin in &group.coins {
                check_coin(&group.txid, coin, self.height)?;
            }
            Ok(coins.push(group)?)
        })
    }
}

pub(super) fn reading_fault(error: SnapshotReadError) -> Fault {
    match error {
        SnapshotReadError::Snapshot(error) => Fault::Snapshot(error),
        SnapshotReadError::Store(error) => Fault::Store(error),
    }
}

/// Returns the next piece, and the share of the file up to its end.
pub(super) fn next_piece<'a>(
    pieces: &Mutex<SnapshotPieces<'a>>,
) -> Result<Option<(SnapshotPiece<'a>, f64)>, SnapshotError> {
    let mut pieces = lock(pieces);
    let piece = pieces.next_piece()?;
    Ok(piece.map(|piece| (piece, pieces.share())))
}

/// Returns an error if no block from height 1 to `height` can have created the coin.
#[inline]
fn check_coin(txid: &Hash, coin: &GroupCoin, height: u32) -> Result<(), SnapshotError> {
    let of = coin.height();
    let amount = coin.amount;
    if (1..=height).contains(&of) && amount <= MONEY_MAX.unsigned_abs() {
        return Ok(());
    }
    let what = if of > height {
        format!("of block {of}, which is above the base block at height {height}")
    } else if of == 0 {
        "of block 0, whose output is unspendable".to_string()
    } else {
        format!("of {amount} satoshi, but the maximum is {MONEY_MAX}")
    };
    let outpoint = OutPoint { txid: *txid, vout: coin.vout };
    Err(SnapshotError::new(format!("it has a coin {outpoint} {what}")))
}
