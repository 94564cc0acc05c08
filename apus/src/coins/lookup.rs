use std::fmt;

use crate::wire::OutPoint;

use super::coin::Coin;

/// What the cache knows of an outpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// An unspent coin.
    Hit(Coin),
    /// Spent, and the tables may still hold it: looking there would be wrong.
    Spent,
    /// Nothing: the tables decide.
    Unknown,
}

/// A coin was added where an unspent one is cached; that one is left as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwritten(
    /// Where.
    pub OutPoint,
);

impl fmt::Display for Overwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is unspent already", self.0)
    }
}

impl std::error::Error for Overwritten {}
