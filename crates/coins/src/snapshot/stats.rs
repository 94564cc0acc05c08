use apus_disk::{ShareWatch, StoreError};
use apus_hash::Hash;
use apus_wire::Cursor;
use rayon::prelude::*;

use super::error::{SnapshotError, SnapshotReadError};
use super::pieces::SnapshotPiece;
use crate::coin::{Coin, decode_coin_key};
use crate::stats::{Counts, Serialised, Serialiser, bitcoins, hash_in_order};
use crate::survivors::Survivors;

/// The totals of the coins of a snapshot, as Core's `gettxoutsetinfo` counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotStats {
    /// The number of coins.
    pub coins: u64,
    /// The number of transactions with at least one coin.
    pub transactions: u64,
    /// The sum of all amounts in satoshis; an invalid snapshot may make it arbitrarily large.
    pub total_amount: u128,
    /// The hash that the chain parameters list for some heights (`hash_serialized_3`).
    pub hash_serialized: Hash,
}

/// Counts and hashes the coins of all pieces of a snapshot, which must be in the order of the
/// tables.
///
/// # Errors
/// The snapshot is malformed, or `next_piece` fails.
pub fn snapshot_stats<'a>(
    mut next_piece: impl FnMut() -> Result<Option<SnapshotPiece<'a>>, SnapshotError> + Send,
) -> Result<SnapshotStats, SnapshotReadError> {
    let (counts, hash) = hash_in_order(|| -> Result<Vec<Serialised>, SnapshotReadError> {
        let mut batch = Vec::new();
        while batch.len() < 2 * rayon::current_num_threads()
            && let Some(piece) = next_piece()?
        {
            batch.push(piece);
        }
        batch.into_par_iter().map(serialise).collect()
    })?;
    Ok(SnapshotStats::of(counts, hash))
}

fn serialise(piece: SnapshotPiece) -> Result<Serialised, SnapshotReadError> {
    let mut serialiser = Serialiser::default();
    piece.for_each(|outpoint, coin| -> Result<(), SnapshotError> {
        serialiser.push(outpoint, &coin);
        Ok(())
    })?;
    Ok(serialiser.finish())
}

/// Like [`snapshot_stats`], for sorted coins; `None` if it was stopped.
///
/// # Errors
/// A coin was pushed twice, or the disk fails.
pub fn snapshot_stats_sorted(
    coins: &Survivors,
    watch: ShareWatch,
) -> Result<Option<SnapshotStats>, SnapshotReadError> {
    let slots = coins.ranges(Survivors::SLOTS_MAX);
    let mut slots_left = &slots[..];
    let mut done = 0;
    let (counts, hash) = hash_in_order(|| -> Result<Vec<Serialised>, SnapshotReadError> {
        if watch.is_stopped() {
            return Ok(Vec::new());
        }
        let count = slots_left.len().min(rayon::current_num_threads());
        let (batch, left) = slots_left.split_at(count);
        (slots_left, done) = (left, done + count);
        (watch.report)(done as f64 / slots.len() as f64);
        batch.par_iter().map(|range| serialise_slots(coins, range.clone())).collect()
    })?;
    Ok((!watch.is_stopped()).then(|| SnapshotStats::of(counts, hash)))
}

fn serialise_slots(
    coins: &Survivors,
    slots: std::ops::Range<usize>,
) -> Result<Serialised, SnapshotReadError> {
    let mut serialiser = Serialiser::default();
    coins.for_each_in(slots, |key, value| {
        let outpoint = decode_coin_key(key).expect("keys are made of outpoints");
        let coin = Coin::decode(&mut Cursor::new(value)).expect("the coins are encoded");
        serialiser.push(&outpoint, &coin);
        Ok::<(), StoreError>(())
    })?;
    Ok(serialiser.finish())
}

impl SnapshotStats {
    /// Returns the total amount in bitcoins with eight decimals, as Core prints it.
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
