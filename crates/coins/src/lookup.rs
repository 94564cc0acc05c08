use apus_wire::OutPoint;

use super::coin::Coin;

/// The result of a cache lookup of an outpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The coin is unspent.
    Hit(Coin),
    /// The coin is spent. The tables may still hold it, so they must not be read.
    Spent,
    /// The cache has no entry: the tables may hold the coin.
    Unknown,
}

/// Whether the tables may already hold a coin with the outpoint of an added coin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// They may, as for coinbases from before BIP30; the new coin then replaces it (Core's
    /// `possible_overwrite`).
    Possible,
    /// They do not. It is an error if the cache holds an unspent coin.
    Never,
}

/// The error for a coin whose outpoint already has an unspent coin in the cache, which is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cache already has an unspent coin {0}")]
pub struct Overwritten(
    /// The outpoint.
    pub OutPoint,
);
