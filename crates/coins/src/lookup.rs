use apus_wire::OutPoint;

use super::coin::Coin;

/// What the cache knows about an outpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The coin is unspent.
    Hit(Coin),
    /// The coin is spent. The tables may still hold it, so that looking there would be wrong.
    Spent,
    /// The cache has no entry: the tables may hold the coin.
    Unknown,
}

/// Whether the tables may hold a coin under the outpoint of one that is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// They may, as for coinbases from before BIP30; then the new coin replaces it (Core's
    /// `possible_overwrite`).
    Possible,
    /// They do not. An unspent coin in the cache is an error.
    Never,
}

/// A coin was added under an outpoint whose coin is cached and unspent; that one is left as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is unspent already")]
pub struct Overwritten(
    /// The outpoint.
    pub OutPoint,
);
