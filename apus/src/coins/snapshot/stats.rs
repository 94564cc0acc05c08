use rayon::prelude::*;

use crate::coins::coin::{Coin, decode_coin_key, key_order};
use crate::coins::stats::{Counts, Serialised, Serialiser, bitcoins, hash_in_order};
use crate::coins::survivors::Survivors;
use crate::disk::{OnShare, StoreError};
use crate::hash::Hash;
use crate::wire::{Cursor, OutPoint};

use super::error::{SnapshotError, SnapshotReadError};
use super::file::SnapshotFile;
use super::pieces::SnapshotPiece;

/// The coins of a snapshot in sum, as Core's `gettxoutsetinfo` counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotStats {
    /// The number of coins.
    pub coins: u64,
    /// The number of transactions with at least one coin.
    pub transactions: u64,
    /// The sum of all amounts, in satoshi, which a wrong snapshot may make as large as it likes.
    pub total_amount: u128,
    /// The hash that the chain parameters list for some heights (`hash_serialized_3`).
    pub hash_serialized: Hash,
}

/// Counts and hashes all coins of a snapshot, if they are in order; `None` if they are not, so that
/// [`snapshot_stats_sorted`] has to.
///
/// # Errors
/// The snapshot is not well-formed, or has a coin twice.
pub fn snapshot_stats(
    file: &SnapshotFile,
    report: OnShare,
) -> Result<Option<SnapshotStats>, SnapshotReadError> {
    let mut pieces = file.pieces();
    let (mut last, mut is_sorted) = (None, true);
    let (counts, hash) = hash_in_order(|| -> Result<Vec<Serialised>, SnapshotReadError> {
        let mut batch = Vec::new();
        while is_sorted
            && batch.len() < 2 * rayon::current_num_threads()
            && let Some(piece) = pieces.next_piece()?
        {
            batch.push(piece);
        }
        report(pieces.share());
        let done: Vec<_> = batch.into_par_iter().map(serialise).collect::<Result<_, _>>()?;
        for piece in done.iter().map(|piece| &piece.range) {
            is_sorted &= piece.as_ref().is_some_and(|(first, _)| comes_after(first, last.as_ref()));
            last = piece.map(|(_, last)| last);
        }
        Ok(if is_sorted {
            done.into_iter().map(|piece| piece.serialised).collect()
        } else {
            vec![]
        })
    })?;
    Ok(is_sorted.then(|| SnapshotStats::of(counts, hash)))
}

/// A piece whose coins are serialised.
struct SerialisedPiece {
    serialised: Serialised,
    /// The first and the last outpoint; `None` if they are not in order.
    range: Option<(OutPoint, OutPoint)>,
}

fn serialise(piece: SnapshotPiece) -> Result<SerialisedPiece, SnapshotError> {
    let mut serialiser = Serialiser::default();
    let (mut range, mut is_sorted): (Option<(OutPoint, OutPoint)>, _) = (None, true);
    piece.for_each(|outpoint, coin| -> Result<(), SnapshotError> {
        is_sorted &= comes_after(outpoint, range.as_ref().map(|(_, last)| last));
        range = Some((range.map_or(*outpoint, |(first, _)| first), *outpoint));
        serialiser.push(outpoint, &coin);
        Ok(())
    })?;
    let range = range.filter(|_| is_sorted);
    Ok(SerialisedPiece { serialised: serialiser.finish(), range })
}

fn comes_after(outpoint: &OutPoint, last: Option<&OutPoint>) -> bool {
    last.is_none_or(|last| key_order(last, outpoint).is_lt())
}

/// [`snapshot_stats`] of coins that were sorted.
///
/// # Errors
/// A coin was pushed twice, or the disk fails.
pub fn snapshot_stats_sorted(
    coins: &Survivors,
    report: OnShare,
) -> Result<SnapshotStats, SnapshotReadError> {
    let slots = coins.ranges(Survivors::SLOTS_MAX);
    let (mut slots_left, mut done) = (&slots[..], 0);
    let (counts, hash) = hash_in_order(|| -> Result<Vec<Serialised>, SnapshotReadError> {
        let count = slots_left.len().min(rayon::current_num_threads());
        let (batch, left) = slots_left.split_at(count);
        (slots_left, done) = (left, done + count);
        report(done as f64 / slots.len() as f64);
        batch.par_iter().map(|range| serialise_slots(coins, range.clone())).collect()
    })?;
    Ok(SnapshotStats::of(counts, hash))
}

fn serialise_slots(
    coins: &Survivors,
    slots: std::ops::Range<usize>,
) -> Result<Serialised, SnapshotReadError> {
    let mut serialiser = Serialiser::default();
    coins.for_each_in(slots, |key, value| {
        let outpoint = decode_coin_key(key).expect("keys are made of outpoints");
        let coin = Coin::decode(&mut Cursor::new(value)).expect("coins are encoded ones");
        serialiser.push(&outpoint, &coin);
        Ok::<(), StoreError>(())
    })?;
    Ok(serialiser.finish())
}

impl SnapshotStats {
    /// The total amount in bitcoins with eight decimals, as Core prints it.
    pub fn total_amount_btc(&self) -> String {
        bitcoins(self.total_amount)
    }

    fn of(counts: Counts, hash_serialized: Hash) -> Self {
        Self {
            coins: counts.txouts,
            transactions: counts.transactions,
            total_amount: counts.amount,
            hash_serialized,
        }
    }
}
