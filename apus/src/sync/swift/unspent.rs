//! What hints or a snapshot say of a block's outputs, and the coins of a snapshot.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use super::fault::Fault;
use super::plan::Plan;
use super::tally::{Gathered, push_coin};
use crate::coins::{
    Coin, SnapshotError, SnapshotFile, SnapshotPiece, SnapshotPieces, SnapshotReadError, key_order,
};
use crate::disk::SpillFile;
use crate::hash::Elements;
use crate::rules::{CheckedBlock, MONEY_MAX, is_bip30_unspendable};
use crate::swiftsync::hints::Numbering;
use crate::swiftsync::{Aggregate, Salt};
use crate::sync::claim::Claim;
use crate::sync::hints_file::HintsFile;
use crate::sync::node::Node;
use crate::sync::progress::{Observer, Phase, Progress};
use crate::sync::sources::BlockBytes;
use crate::sync::threads;
use crate::sync::unspent::{Collector, OutputKey, SortedKeys, number, output_key, vout_of};
use crate::wire::OutPoint;

/// Which outputs of each block are unspent, by what is to be proved.
#[derive(Clone, Copy)]
pub(super) enum Unspent<'a> {
    /// Hints have their indices.
    Hints(&'a HintsFile),
    /// The keys of a snapshot's coins, by the heights that they claim.
    Snapshot(&'a SortedKeys),
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

    /// Whether coins are summed beside outpoints: those that blocks create and those of the
    /// snapshot have to be the same.
    pub fn sums_coins(&self) -> bool {
        matches!(self, Self::Snapshot(_))
    }

    /// Puts the indices of the block's unspent outputs into `unspent`, ascending, in the place of
    /// what it held; `keys` is scratch space.
    ///
    /// # Errors
    /// The hints for the block cannot be read; the snapshot has a coin of this block that it does
    /// not create, or twice; or the disk fails.
    pub fn of_block(
        &self,
        height: u32,
        block: &CheckedBlock<BlockBytes>,
        keys: &mut Vec<OutputKey>,
        unspent: &mut Vec<u32>,
    ) -> Result<(), Fault> {
        match self {
            Self::Hints(hints) => hints.reader.unspent(height, unspent).map_err(Fault::Hints),
            Self::Snapshot(sorted) => {
                sorted.load(height as usize, keys).map_err(Fault::Store)?;
                let overwritten = is_bip30_unspendable(height, block.hash());
                let (view, txids) = (block.view(), block.txids());
                let numbered =
                    number(view, txids, overwritten, Numbering::Spendable, keys, unspent);
                numbered.map(|_| ()).map_err(|stranger| {
                    Fault::Snapshot(SnapshotError::new(format!(
                        "it has a coin of block {height} with output index {} that this block \
                         does not create, or has it twice",
                        vout_of(&stranger)
                    )))
                })
            }
        }
    }
}

/// The coins of a snapshot, as far as the proof needs them.
pub(super) struct ReadCoins<'a, A> {
    /// The key of each coin, by the height that it claims.
    pub keys: SortedKeys,
    /// All coins, as spent ones: the blocks have to create the same.
    pub sum: A,
    /// The number of coins.
    pub count: u64,
    /// The pieces of the file, if its coins are in the order of the tables, each of them once.
    pub sorted: Option<Vec<SnapshotPiece<'a>>>,
}

/// A piece that was read.
struct ReadPiece<'a> {
    piece: SnapshotPiece<'a>,
    /// The first and the last outpoint; `None` if there are none, or they are not in order.
    ends: Option<(OutPoint, OutPoint)>,
}

/// Hints or the coins of a snapshot, ready for the workers.
pub(super) enum Opened<'a, A> {
    /// Hints, of which each block's are read when it comes.
    Hints(&'a HintsFile),
    /// A snapshot's coins, all of which have been read.
    Snapshot(ReadCoins<'a, A>),
}

impl<'a, A: Aggregate> Opened<'a, A> {
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
            Self::Snapshot(coins) => Unspent::Snapshot(&coins.keys),
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

    /// Adds the coins of a snapshot to those that blocks have created.
    pub fn add_to(&self, gathered: &mut Gathered<A>) {
        if let Self::Snapshot(coins) = self {
            gathered.coins.combine(&coins.sum);
        }
    }
}

/// How a snapshot is read.
pub(super) struct Reading<'a> {
    pub salt: &'a Salt,
    /// Height of the base block.
    pub height: u32,
    pub threads: usize,
    /// Bytes of keys that are held in memory; the others go to a temporary file.
    pub memory: usize,
    /// A file next to which the temporary file lies.
    pub beside: PathBuf,
    pub observer: &'a dyn Observer,
    pub stop: &'a AtomicBool,
}

impl<'a> Reading<'a> {
    /// The reading of a snapshot that is proved and not kept: all memory is for its keys, and what
    /// has no room goes to the system's directory for temporary files.
    pub fn of_proof(
        node: &Node,
        plan: &Plan,
        salt: &'a Salt,
        observer: &'a dyn Observer,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            salt,
            height: plan.chain.height().unwrap_or(0),
            threads: node.options.threads,
            memory: node.options.dbcache_bytes,
            beside: std::env::temp_dir().join(format!("apus-{}", std::process::id())),
            observer,
            stop,
        }
    }

    /// Reads all coins of a snapshot, on all threads.
    ///
    /// # Errors
    /// It is damaged, has coins that no block up to its base can have created, or the disk fails;
    /// or somebody asks to stop.
    pub fn read<'f, A: Aggregate>(
        &self,
        file: &'f SnapshotFile,
    ) -> Result<ReadCoins<'f, A>, Fault> {
        let groups: Arc<[_]> = (0..=self.height).map(|height| height..height + 1).collect();
        let spill = Arc::new(SpillFile::unlinked(&self.beside, ".heights.tmp"));
        let pieces = Mutex::new(file.pieces());
        let memory = self.memory / self.threads;
        let new = || Collector::new(Arc::clone(&spill), Arc::clone(&groups), memory);
        let phase = Progress { height: self.height, ..Progress::of(Phase::ReadingSnapshot) };
        let work = |crew: &threads::Crew<f64>| -> Result<_, Fault> {
            let (mut keys, mut sum, mut read_pieces) = (new(), A::new(self.salt), Vec::new());
            let mut elements = Elements::default();
            while !crew.is_halted()
                && let Some((piece, share)) = next_piece(&pieces).map_err(Fault::Snapshot)?
            {
                elements.clear();
                let mut ends: Option<(OutPoint, OutPoint)> = None;
                let mut is_sorted = true;
                let read = piece.for_each(|outpoint, coin| {
                    is_sorted &= ends.is_none_or(|(_, last)| key_order(&last, outpoint).is_lt());
                    ends = Some((ends.map_or(*outpoint, |(first, _)| first), *outpoint));
                    check_coin(outpoint, &coin, self.height)?;
                    keys.push(output_key(coin.height, outpoint))?;
                    push_coin(&mut elements, outpoint, &coin);
                    Ok(())
                });
                read.map_err(reading_fault)?;
                sum.spend_many(&elements);
                read_pieces.push(ReadPiece { piece, ends: ends.filter(|_| is_sorted) });
                crew.report(share);
            }
            Ok((keys, sum, read_pieces))
        };
        let results = threads::work_until_halt("snapshot", self.threads, work, |share| {
            if let Some(fraction) = share {
                self.observer.observe(&Progress { fraction, ..phase.clone() });
            }
            self.stop.load(Relaxed)
        });
        let (mut collectors, mut sum, mut all) = (Vec::new(), A::new(self.salt), Vec::new());
        for result in results {
            let (keys, part, pieces) = result?;
            collectors.push(keys);
            sum.combine(&part);
            all.extend(pieces);
        }
        if self.stop.load(Relaxed) {
            return Err(Fault::Stopped);
        }
        let (keys, sorted) = (SortedKeys::new(spill, collectors), in_order(all));
        Ok(ReadCoins { keys, sum, count: file.head().coins, sorted })
    }
}

/// The pieces in the order of the file, if all coins of it are in the order of the tables.
fn in_order(mut pieces: Vec<ReadPiece>) -> Option<Vec<SnapshotPiece>> {
    pieces.sort_unstable_by_key(|read| read.piece.offset);
    let mut last = None;
    let is_sorted = pieces.iter().all(|read| {
        let follows = read
            .ends
            .is_some_and(|(first, _)| last.is_none_or(|last| key_order(&last, &first).is_lt()));
        last = read.ends.map(|(_, last)| last);
        follows
    });
    is_sorted.then(|| pieces.into_iter().map(|read| read.piece).collect())
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
fn check_coin(outpoint: &OutPoint, coin: &Coin, height: u32) -> Result<(), SnapshotError> {
    let what = if coin.height > height {
        format!("of block {}, which is above the base block at height {height}", coin.height)
    } else if coin.height == 0 {
        "of block 0, whose output nobody can spend".to_string()
    } else if coin.amount > MONEY_MAX.unsigned_abs() {
        format!("of {} satoshi, and there never are more than {MONEY_MAX}", coin.amount)
    } else {
        return Ok(());
    };
    Err(SnapshotError::new(format!("it has a coin {outpoint} {what}")))
}
