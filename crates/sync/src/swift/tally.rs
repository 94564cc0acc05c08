//! The sums and counts of a SwiftSync.

use apus_coins::Coin;
use apus_hash::{Elements, Hash};
use apus_progress::outcome::Counts;
use apus_swiftsync::{Aggregate, AggregateKind, Salt};
use apus_wire::OutPoint;

/// What a worker, or all workers together, have summed up for the proof.
pub(super) struct Gathered {
    /// The outputs created and spent, without those that the claim calls unspent.
    pub aggregate: Aggregate,
    pub tally: Tally,
}

impl Gathered {
    /// Returns the sums of no blocks.
    pub fn empty(kind: AggregateKind, salt: &Salt) -> Self {
        Self { aggregate: Aggregate::new(kind, salt), tally: Tally::default() }
    }

    /// Adds the sums of another worker.
    pub fn add(&mut self, other: Self) {
        self.aggregate.combine(&other.aggregate);
        self.tally.add(other.tally);
    }
}

/// Counts and amounts that are added up besides the aggregate.
#[derive(Clone, Default)]
pub struct Tally {
    /// The number of unspent outputs.
    pub coins: u64,
    /// Sum of their amounts, in satoshi.
    pub amount: u64,
    /// Counts of blocks, bytes, transactions, inputs and scripts.
    pub counts: Counts,
    /// Txids and heights of coinbases that only BIP30 forbids to repeat.
    pub coinbases: Vec<(Hash, u32)>,
}

impl Tally {
    /// Adds an unspent output of this amount.
    #[inline]
    pub fn add_coin(&mut self, amount: u64) {
        self.coins += 1;
        self.amount = self.amount.saturating_add(amount);
    }

    /// Removes an output that was added.
    pub fn remove_coin(&mut self, amount: u64) {
        self.coins -= 1;
        self.amount -= amount;
    }

    /// Adds another tally.
    pub fn add(&mut self, other: Self) {
        self.coins += other.coins;
        self.amount = self.amount.saturating_add(other.amount);
        let a = &mut self.counts;
        let b = other.counts;
        a.blocks += b.blocks;
        a.bytes += b.bytes;
        a.transactions += b.transactions;
        a.inputs += b.inputs;
        a.scripts += b.scripts;
        self.coinbases.extend(other.coinbases);
    }
}

/// Adds a coin to the elements of a sum: its outpoint, and then the coin as in the chainstate, with
/// height, coinbase flag, amount and script.
pub(super) fn push_coin(elements: &mut Elements, outpoint: &OutPoint, coin: &Coin) {
    elements.push_with(|bytes| {
        bytes.extend_from_slice(&outpoint.to_bytes());
        coin.encode(bytes);
    });
}
