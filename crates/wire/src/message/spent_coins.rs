//! The coins that a block spends (draft BIP 455). How coins are encoded is not known here.

use apus_hash::Hash;

use super::payload::PayloadError;
use super::{Command, Payload};
use crate::Cursor;

/// A request for the coins that a block spends (`getbspent`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetSpentCoins {
    /// The hash of the block.
    pub block: Hash,
    /// The height below which the coins were created that are asked for; 0 for all of them.
    pub cutoff: u32,
}

impl GetSpentCoins {
    pub(super) fn parse(cursor: &mut Cursor) -> Result<Self, PayloadError> {
        Ok(Self { block: Hash(cursor.array()?), cutoff: cursor.u32()? })
    }
}

impl Payload for GetSpentCoins {
    fn command(&self) -> Command {
        Command::GETBSPENT
    }

    fn size(&self) -> usize {
        36
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.block.0);
        out.extend_from_slice(&self.cutoff.to_le_bytes());
    }
}

/// Coins that a block spends (`bspent`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpentCoins<'a> {
    /// The hash of the block.
    pub block: Hash,
    /// The number of coins and the coins, not parsed yet.
    pub coins: &'a [u8],
}

impl<'a> SpentCoins<'a> {
    /// Returns the number of bytes of the payload.
    pub fn size(&self) -> usize {
        self.block.0.len() + self.coins.len()
    }

    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, PayloadError> {
        Ok(Self { block: Hash(cursor.array()?), coins: cursor.take(cursor.remaining())? })
    }
}
