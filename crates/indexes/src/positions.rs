//! Entries that name the place of a transaction: by its txid (Core's `txindex`), in the form of
//! Core v31, and by an output that it spends (Core's `txospenderindex`).
//!
//! While they are sorted, entries hold the height of the block, from which its place follows, and
//! which tells the later of two transactions with one txid.

use std::cmp::Ordering;

use apus_hash::SipKey;
use apus_store::FlatFilePos;
use apus_wire::{OutPoint, compact_size_len, put_varint};

use super::block::Block;
use super::sorting::{Entry, SortBuffer};

/// The first byte of the keys of `txindex` (Core's `DB_TXINDEX`).
pub const DB_TXINDEX: u8 = b't';
/// The first byte of the keys of `txospenderindex` (Core's `DB_TXOSPENDERINDEX`).
pub const DB_TXOSPENDERINDEX: u8 = b's';
/// The key of the two numbers that key the hashes of outputs, as Core writes a C string.
pub const SIPHASH_KEY: &[u8] = b"siphash_key\0";

/// Length in bytes of an entry of `txindex` while it is sorted: txid, height, offset.
pub const TX_BYTES: usize = 32 + 4 + 4;
/// Length in bytes of an entry of `txospenderindex` while it is sorted: hash, height, offset.
pub const SPEND_BYTES: usize = 8 + 4 + 4;

/// The keys of the hashes of outputs, or of txids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SipKeys(pub u64, pub u64);

impl SipKeys {
    /// Stands for the hashes of an index that has none.
    pub const NONE: Self = Self(0, 0);

    /// Reads the value of [`SIPHASH_KEY`]; `None` if it has another length than 16 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (first, second) = bytes.split_first_chunk()?;
        let second = second.try_into().ok()?;
        Some(Self(u64::from_le_bytes(*first), u64::from_le_bytes(second)))
    }

    /// Returns the value of [`SIPHASH_KEY`].
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.1.to_le_bytes());
        bytes
    }

    fn hash(self, outpoint: &[u8; 36]) -> [u8; 8] {
        SipKey(self.0, self.1).hash(outpoint).to_le_bytes()
    }
}

/// Calls `each` with the index and the offset of each transaction of a block, from the end of the
/// header on, as Core counts it.
pub fn for_each_offset(block: &Block, mut each: impl FnMut(usize, u32)) {
    let mut offset = compact_size_len(block.view.tx_count() as u64);
    for (index, tx) in block.view.txs().enumerate() {
        each(index, offset as u32);
        offset += tx.bytes().len();
    }
}

/// Adds the entries of a block to those of `txindex`. The coinbase of the genesis block has none.
pub fn add_txs(block: &Block, to: &mut SortBuffer<'_, TX_BYTES>) {
    if block.stored.height == 0 {
        return;
    }
    for_each_offset(block, |index, offset| {
        let mut entry = [0; TX_BYTES];
        entry[..32].copy_from_slice(&block.txids[index].0);
        entry[32..36].copy_from_slice(&block.stored.height.to_be_bytes());
        entry[36..].copy_from_slice(&offset.to_be_bytes());
        to.push(&entry);
    });
}

/// Adds the entries of a block to those of `txospenderindex`.
pub fn add_spends(block: &Block, keys: SipKeys, to: &mut SortBuffer<'_, SPEND_BYTES>) {
    let mut spends = Vec::with_capacity(block.view.input_count());
    for_each_offset(block, |index, offset| {
        if index > 0 {
            let inputs = block.view.tx(index).inputs();
            spends.extend(inputs.map(|input| (&input.outpoint_bytes()[..], offset)));
        }
    });
    let mut entry = [0; SPEND_BYTES];
    entry[8..12].copy_from_slice(&block.stored.height.to_be_bytes());
    SipKey(keys.0, keys.1).hash_many(
        spends.len(),
        |index| spends[index].0,
        |index, hash| {
            entry[..8].copy_from_slice(&hash.to_le_bytes());
            entry[12..].copy_from_slice(&spends[index].1.to_be_bytes());
            to.push(&entry);
        },
    );
}

pub fn spend_keys(block: &Block, keys: SipKeys) -> Vec<Vec<u8>> {
    let mut all = Vec::with_capacity(block.view.input_count());
    let pos = block.stored.pos();
    for_each_offset(block, |index, offset| {
        if index > 0 {
            all.extend(block.view.tx(index).inputs().map(|input| {
                let mut key = spend_prefix(keys, &input.outpoint());
                put_place(&mut key, pos, offset);
                key
            }));
        }
    });
    all
}

/// Returns the start of the key that `txospenderindex` has for an output.
pub fn spend_prefix(keys: SipKeys, outpoint: &OutPoint) -> Vec<u8> {
    let mut key = vec![DB_TXOSPENDERINDEX];
    key.extend_from_slice(&keys.hash(&outpoint.to_bytes()));
    key
}

/// Appends the place of a transaction (Core's `CDiskTxPos`): that of its block, and its offset
/// after the header.
fn put_place(out: &mut Vec<u8>, pos: FlatFilePos, offset: u32) {
    put_varint(out, pos.file.into());
    put_varint(out, pos.pos.into());
    put_varint(out, offset.into());
}

/// The places of the blocks from height `from` on, which the entries to be sorted name by height.
pub struct Places {
    /// Height of the first block.
    pub from: u32,
    /// The place of each block.
    pub blocks: Vec<FlatFilePos>,
}

impl Places {
    /// Appends the place that ends an entry: its last 8 bytes are a height and an offset.
    fn put(&self, entry: &[u8], out: &mut Vec<u8>) {
        let (height, offset) = entry[entry.len() - 8..].split_at(4);
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("4 bytes"));
        let pos = self.blocks[(number(height) - self.from) as usize];
        put_place(out, pos, number(offset));
    }
}

/// The entries of `txindex`.
pub struct Txs<'a>(pub &'a Places);

impl Entry<TX_BYTES> for Txs<'_> {
    fn first_byte(&self) -> u8 {
        DB_TXINDEX
    }

    fn compare(&self, a: &[u8; TX_BYTES], b: &[u8; TX_BYTES]) -> Ordering {
        a.cmp(b)
    }

    fn put(&self, entry: &[u8; TX_BYTES], key: &mut Vec<u8>, value: &mut Vec<u8>) {
        key.extend_from_slice(&entry[..32]);
        self.0.put(entry, value);
    }
}

/// The entries of `txospenderindex`.
pub struct Spends<'a>(pub &'a Places);

impl Entry<SPEND_BYTES> for Spends<'_> {
    fn first_byte(&self) -> u8 {
        DB_TXOSPENDERINDEX
    }

    fn put(&self, entry: &[u8; SPEND_BYTES], key: &mut Vec<u8>, _: &mut Vec<u8>) {
        key.extend_from_slice(&entry[..8]);
        self.0.put(entry, key);
    }
}
