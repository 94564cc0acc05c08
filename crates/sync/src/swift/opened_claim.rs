//! What hints or a snapshot say of a block's outputs, and the coins of a snapshot.

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use apus_coins::{
    GroupCoin, SnapshotError, SnapshotFile, SnapshotPiece, SnapshotPieces, SnapshotReadError,
};
use apus_disk::SpillFile;
use apus_hash::Hash;
use apus_node::fault::Fault;
use apus_node::opened::Node;
use apus_node::progress::{Phase, Progress, Watch};
use apus_node::resources::mapped_bytes;
use apus_node::threads;
use apus_rules::MONEY_MAX;
use apus_swiftsync::hints::Numbering;
use apus_wire::OutPoint;

use super::plan::Plan;
use super::tally::Tally;
use crate::claim::Claim;
use crate::hints_file::HintsFile;
use crate::unspent::{BlockCoins, CoinsByHeight, HeightCollector, Matching};

/// Which outputs of each block are unspent, by what is to be proved.
#[derive(Clone, Copy)]
pub(super) enum Unspent<'a> {
    /// Hints have their indices.
    Hints(&'a HintsFile),
    /// A snapshot's coins, by the heights that they claim.
    Snapshot(&'a CoinsByHeight<'a>),
}

impl Unspent<'_> {
    /// Which outputs of a block have an index.
    pub fn numbering(&self) -> Numbering {
        match self {
            Self::Hints(hints) => hints.reader.format().numbering(),
            Self::Snapshot(_) => Numbering::Spendable,
        }
    }

    /// The number of outputs of a block that are counted, if it is known before.
    pub fn output_count(&self, height: u32) -> Option<u32> {
        match self {
            Self::Hints(hints) => hints.reader.output_count(height),
            Self::Snapshot(_) => None,
        }
    }

    /// What says which outputs of the block at a height are unspent, in `scratch`.
    ///
    /// # Errors
    /// The hints for the block cannot be read; the snapshot has more coins of it than a block can
    /// create; or the disk fails.
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

/// What says which outputs of one block are unspent.
pub(super) enum Marks<'a> {
    /// The block's hints: the indices of its unspent outputs, ascending.
    Indices(&'a [u32]),
    /// The coins that a snapshot has of it.
    Coins(Matching<'a>),
}

/// What [`Unspent::of_block`] says of one block, kept so that the next one need not allocate.
#[derive(Default)]
pub(super) struct Scratch {
    indices: Vec<u32>,
    coins: BlockCoins,
}

/// Puts the coins that a snapshot has of the block at a height into `coins`.
///
/// # Errors
/// They are more than a block can create, or the disk fails.
pub(super) fn load(
    by_height: &CoinsByHeight,
    height: u32,
    coins: &mut BlockCoins,
) -> Result<(), Fault> {
    match by_height.load(height, coins)? {
        true => Ok(()),
        false => Err(Fault::Snapshot(SnapshotError::new(format!(
            "it has more coins of block {height} than one block can create"
        )))),
    }
}

/// The coins of a snapshot, as far as the proof needs them.
pub(super) struct ReadCoins<'a> {
    /// All coins, by the heights that they claim.
    pub by_height: CoinsByHeight<'a>,
    /// The number of coins.
    pub count: u64,
    /// The pieces of the file, if its coins are in the order of the tables, each of them once.
    pub sorted: Option<Vec<SnapshotPiece<'a>>>,
}

/// Hints or the coins of a snapshot, ready for the workers.
pub(super) enum Opened<'a> {
    /// Hints, of which each block's are read when it comes.
    Hints(&'a HintsFile),
    /// A snapshot's coins, all of which have been read.
    Snapshot(ReadCoins<'a>),
}

impl<'a> Opened<'a> {
    /// Opens hints, or reads a snapshot.
    ///
    /// # Errors
    /// As for [`Reading::read`].
    pub fn open(claim: &'a Claim, reading: &Reading) -> Result<Self, Fault> {
        match claim {
            Claim::Hints(hints) => Ok(Self::Hints(hints)),
            Claim::Snapshot(file) => Ok(Self::Snapshot(reading.read(file)?)),
        }
    }

    /// What workers ask.
    pub fn unspent(&self) -> Unspent<'_> {
        match self {
            Self::Hints(hints) => Unspent::Hints(hints),
            Self::Snapshot(coins) => Unspent::Snapshot(&coins.by_height),
        }
    }

    /// The pieces of a snapshot whose coins can be written to tables as they stand.
    pub fn sorted(&self) -> Option<&[SnapshotPiece<'a>]> {
        match self {
            Self::Hints(_) => None,
            Self::Snapshot(coins) => coins.sorted.as_deref(),
        }
    }

    /// The number of coins, as far as it is known.
    pub fn coins(&self) -> u64 {
        match self {
            Self::Hints(_) => 0,
            Self::Snapshot(coins) => coins.count,
        }
    }

    /// Every coin of a snapshot is of a block that has compared it, and no output is two coins.
    ///
    /// # Panics
    /// The blocks that were counted have met more or fewer coins.
    pub fn assert_all_met(&self, tally: &Tally) {
        if let Self::Snapshot(coins) = self {
            assert_eq!(coins.count, tally.coins, "each coin is met once");
        }
    }
}

/// How a snapshot is read.
pub(super) struct Reading<'a> {
    /// Height of the base block.
    pub height: u32,
    pub threads: usize,
    /// Bytes of coins that are held in memory in any case; what has no room goes to temporary
    /// files.
    pub memory: usize,
    /// A file next to which the temporary file lies.
    pub beside: PathBuf,
    pub watch: Watch<'a>,
}

impl<'a> Reading<'a> {
    /// The reading of a snapshot that is proved and not kept: all memory is for its coins, and what
    /// has no room goes to the system's directory for temporary files.
    pub fn of_proof(node: &Node, plan: &Plan, watch: Watch<'a>) -> Self {
        Self {
            height: plan.chain.height().unwrap_or(0),
            threads: node.options.threads,
            memory: node.options.dbcache_bytes,
            beside: std::env::temp_dir().join(format!("apus-{}", std::process::id())),
            watch,
        }
    }

    /// Reads all coins of a snapshot, on all threads.
    ///
    /// # Errors
    /// It is damaged, has coins that no block up to its base can have created, or the disk fails;
    /// or somebody asks to stop.
    pub fn read<'f>(&self, file: &'f SnapshotFile) -> Result<ReadCoins<'f>, Fault> {
        let pieces = Mutex::new(file.pieces());
        let memory = mapped_bytes(self.memory) / self.threads;
        // Each thread has its own file: the system lets one write to a file at a time.
        let begun = AtomicUsize::new(0);
        let new = || {
            let name = format!(".heights-{}.tmp", begun.fetch_add(1, Relaxed));
            let spill = SpillFile::unlinked(&self.beside, &name);
            HeightCollector::new(file.mapped(), spill, self.height, memory)
        };
        let phase = Progress { height: self.height, ..Progress::of(Phase::ReadingSnapshot) };
        let work = |crew: &threads::Crew<f64>| -> Result<_, Fault> {
            let (mut coins, mut read_pieces) = (new(), Vec::new());
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
        let (mut collectors, mut all) = (Vec::new(), Vec::new());
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

    /// Collects the coins of a piece.
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

/// The fault of a snapshot that could not be read.
pub(super) fn reading_fault(error: SnapshotReadError) -> Fault {
    match error {
        SnapshotReadError::Snapshot(error) => Fault::Snapshot(error),
        SnapshotReadError::Store(error) => Fault::Store(error),
    }
}

/// The next piece, and the share of the file up to its end.
pub(super) fn next_piece<'a>(
    pieces: &Mutex<SnapshotPieces<'a>>,
) -> Result<Option<(SnapshotPiece<'a>, f64)>, SnapshotError> {
    let mut pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
    let piece = pieces.next_piece()?;
    Ok(piece.map(|piece| (piece, pieces.share())))
}

/// An error if no block up to `height` can have created a coin.
#[inline]
fn check_coin(txid: &Hash, coin: &GroupCoin, height: u32) -> Result<(), SnapshotError> {
    let (of, amount) = (coin.height(), coin.amount);
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
