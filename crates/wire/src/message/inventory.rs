use apus_hash::Hash;

use super::payload::PayloadError;
use super::{Command, Payload};
use crate::{Cursor, compact_size_len, put_compact_size};

/// The maximum number of items in an inventory (Core's `MAX_INV_SZ`).
pub const INVENTORY_MAX: usize = 50_000;
/// Length of an item in bytes.
const ITEM_BYTES: usize = 36;

/// The type of an inventory item (Core's `GetDataMsg`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InventoryKind(pub u32);

impl InventoryKind {
    /// A transaction, by its txid.
    pub const TX: Self = Self(1);
    /// A block; in a request, without its witnesses.
    pub const BLOCK: Self = Self(2);
    /// A block's transactions that a bloom filter finds, in a request (BIP37).
    pub const FILTERED_BLOCK: Self = Self(3);
    /// A compact block, in a request (BIP152).
    pub const COMPACT_BLOCK: Self = Self(4);
    /// A transaction, by its wtxid (BIP339).
    pub const WTX: Self = Self(5);
    /// A block with its witnesses, in a request (BIP144).
    pub const WITNESS_BLOCK: Self = Self(2 | 1 << 30);
    /// A transaction with its witnesses, by its txid, in a request (BIP144).
    pub const WITNESS_TX: Self = Self(1 | 1 << 30);
}

/// A block or transaction that a peer has, wants, or does not have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InventoryItem {
    /// The type of the item.
    pub kind: InventoryKind,
    /// The hash of the item.
    pub hash: Hash,
}

/// An inventory to send: `inv`, `getdata` or `notfound`.
#[derive(Clone, Copy, Debug)]
pub struct Inventory<'a>(pub Command, pub &'a [InventoryItem]);

impl Payload for Inventory<'_> {
    fn command(&self) -> Command {
        self.0
    }

    fn size(&self) -> usize {
        compact_size_len(self.1.len() as u64) + ITEM_BYTES * self.1.len()
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_compact_size(out, self.1.len() as u64);
        for item in self.1 {
            let mut bytes = [0; ITEM_BYTES];
            bytes[..4].copy_from_slice(&item.kind.0.to_le_bytes());
            bytes[4..].copy_from_slice(&item.hash.0);
            out.extend_from_slice(&bytes);
        }
    }
}

/// A received inventory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InventoryList<'a>(&'a [u8]);

impl<'a> InventoryList<'a> {
    /// Reads an inventory of at most `max` items.
    pub(super) fn parse(cursor: &mut Cursor<'a>, max: usize) -> Result<Self, PayloadError> {
        let count = cursor.compact_size()?;
        let items = cursor.take(ITEM_BYTES * count)?;
        PayloadError::if_above(max, count)?;
        Ok(Self(items))
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.0.len() / ITEM_BYTES
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an iterator over all items, in order.
    pub fn iter(&self) -> impl Iterator<Item = InventoryItem> + use<'a> {
        self.0.chunks_exact(ITEM_BYTES).map(|item| {
            let (kind, hash) = item.split_at(4);
            InventoryItem {
                kind: InventoryKind(u32::from_le_bytes(kind.try_into().expect("4 bytes"))),
                hash: Hash(hash.try_into().expect("a hash has 32 bytes")),
            }
        })
    }
}
