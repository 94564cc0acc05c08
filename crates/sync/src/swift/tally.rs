//! What the workers of a SwiftSync sum up.

use apus_coins::Coin;
use apus_hash::{Elements, Hash};
use apus_node::outcome::Counts;
use apus_swiftsync::{Aggregate, AggregateKind, Salt};
use apus_wire::OutPoint;

/// What workers have gathered for the proof.
pub(super) struct Gathered {
    /// What is not unspent in the end: created and spent.
    pub aggregate: Aggregate,
    pub tally: Tally,
}

impl Gathered {
    /// Nothing.
    pub fn empty(kind: AggregateKind, salt: &Salt) -> Self {
        Self { aggregate: Aggregate::new(kind, salt), tally: Tally::default() }
    }

    /// Adds what another worker has gathered.
    pub fn add(&mut self, other: Self) {
        self.aggregate.combine(&other.aggregate);
        self.tally.add(other.tally);
    }
}

/// Counts and amounts that are summed next to the aggregate.
#[derive(Clone, Default)]
pub struct Tally {
    /// The number of unspent outputs.
    pub coins: u64,
    /// Their amounts, in satoshi.
    pub amount: u64,
    /// The work that was done.
    pub counts: Counts,
    /// Txids and heights of the coinbases that only BIP30 keeps from coming twice.
    pub coinbases: Vec<(Hash, u32)>,
}

impl Tally {
    /// Adds an unspent output of this amount.
    #[inline]
    pub fn add_coin(&mut self, amount: u64) {
        self.coins += 1;
        self.amount = self.amount.saturating_add(amount);
    }

    /// Adds another tally.
    pub fn add(&mut self, other: Self) {
        self.coins += other.coins;
        self.amount = self.amount.saturating_add(other.amount);
        let (a, b) = (&mut self.counts, other.counts);
        a.blocks += b.blocks;
        a.bytes += b.bytes;
        a.transactions += b.transactions;
        a.inputs += b.inputs;
        a.scripts += b.scripts;
        self.coinbases.extend(other.coinbases);
    }
}

/// Adds a coin to the elements of a sum: its outpoint, and then the coin as in the chainstate,
/// which says height, coinbase flag, amount and script.
pub(super) fn push_coin(elements: &mut Elements, outpoint: &OutPoint, coin: &Coin) {
    elements.push_with(|bytes| {
        bytes.extend_from_slice(&outpoint.to_bytes());
        coin.encode(bytes);
    });
}
