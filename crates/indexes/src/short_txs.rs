//! Entries that name the place of a transaction by a few bytes of a hash of its txid: `txindex` in
//! the form of Core v32.
//!
//! A key holds the hash, the number of the block and the offset of the transaction in the block.
//! Blocks are numbered in the order in which they were appended, those included that were
//! disconnected later. Some transactions have the same hash, so readers look at each of them.

use std::path::Path;

use apus_disk::{Result, StoreError};
use apus_hash::{Hash, SipKey};
use apus_leveldb::{Db, RunBuilder};
use apus_wire::{Cursor, HEADER_BYTES, ParseError, put_varint};

use super::block::{Block, StoredBlock};
use super::positions::{SPEND_BYTES, SipKeys, for_each_offset};
use super::sorting::{Entry, Other, SortBuffer};

/// The first byte of the key of a transaction (Core's `DB_TXINDEX_HASHED`).
pub const DB_TXINDEX_HASHED: u8 = b'x';
/// The first byte of the key of a block's number (Core's `DB_BLOCK_SEQ`).
pub const DB_BLOCK_SEQ: u8 = b's';
/// The first byte of the key of a block's hash, whose value is its number (`DB_BLOCK_HASH` in
/// Core's `index/txindex_key.h`).
pub const DB_SEQ_OF_BLOCK: u8 = b'h';
/// The key of the number that the next block gets, as Core writes a string (Core's
/// `DB_NEXT_BLOCK_SEQ`).
pub const NEXT_BLOCK_SEQ: &[u8] = b"\x0enext_block_seq";
/// The key of the two numbers that key the hashes of txids, as Core writes a string (Core's
/// `DB_TXID_HASH_SALT`).
pub const TXID_HASH_SALT: &[u8] = b"\x0etxid_hash_salt";
/// Number of bytes of a hash (Core's `HASH_PREFIX_SIZE`).
pub const HASH_PREFIX_SIZE: usize = 5;

/// Number of bytes of an offset, which counts from the start of the block.
const OFFSET_BYTES: usize = 3;

/// Returns the bytes of a txid's hash that keys hold.
pub fn short_hash(keys: SipKeys, txid: &Hash) -> [u8; HASH_PREFIX_SIZE] {
    let hash = SipKey(keys.0, keys.1).hash_unpadded(&txid.0).to_be_bytes();
    *hash.first_chunk().expect("a hash has 8 bytes")
}

/// Adds the entries of a block, which look like those of `txospenderindex` while they are sorted:
/// hash with zeros, height, offset. The coinbase of the genesis block has none.
pub fn add_short_txs(block: &Block, keys: SipKeys, to: &mut SortBuffer<'_, SPEND_BYTES>) {
    if block.stored.height == 0 {
        return;
    }
    for_each_offset(block, |index, offset| {
        let mut entry = [0; SPEND_BYTES];
        entry[..HASH_PREFIX_SIZE].copy_from_slice(&short_hash(keys, &block.txids[index]));
        entry[8..12].copy_from_slice(&block.stored.height.to_be_bytes());
        entry[12..].copy_from_slice(&offset.to_be_bytes());
        to.push(&entry);
    });
}

/// Appends the end of a key: the number of a block, and an offset after its header.
fn put_end(out: &mut Vec<u8>, number: u32, offset: u32) {
    put_varint(out, number.into());
    let from_start = (offset + HEADER_BYTES as u32).to_be_bytes();
    out.extend_from_slice(&from_start[4 - OFFSET_BYTES..]);
}

/// Reads the end of a key: the number of a block, and the offset of a transaction after its header.
pub fn read_end(bytes: &[u8]) -> std::result::Result<(u32, u32), ParseError> {
    let mut cursor = Cursor::new(bytes);
    let number = u32::try_from(cursor.varint()?)
        .map_err(|_| cursor.error("the number of a block has more than 32 bits"))?;
    let [a, b, c] = cursor.array::<OFFSET_BYTES>()?;
    let offset = u32::from_be_bytes([0, a, b, c]).checked_sub(HEADER_BYTES as u32);
    match offset {
        Some(offset) if cursor.remaining() == 0 => Ok((number, offset)),
        Some(_) => Err(cursor.error("bytes follow after the place of a transaction")),
        None => Err(cursor.error("a transaction begins in the header of its block")),
    }
}

/// Returns the key under which the hash of the block with a number is.
pub fn number_key(number: u32) -> Vec<u8> {
    let mut key = vec![DB_BLOCK_SEQ];
    put_varint(&mut key, number.into());
    key
}

/// Returns the key under which the number of a block is.
fn block_key(hash: &Hash) -> [u8; 33] {
    let mut key = [DB_SEQ_OF_BLOCK; 33];
    key[1..].copy_from_slice(&hash.0);
    key
}

/// The numbers of the blocks that are appended.
pub struct BlockNumbers {
    /// Height of the first block.
    from: u32,
    /// The number of each block with its hash, from that height on.
    numbers: Vec<(Hash, u32)>,
    /// The number of the first block that had none before.
    first_new: u32,
    /// The number that the next block gets.
    next: u32,
}

impl BlockNumbers {
    /// Returns the numbers of `blocks`, which are in order of height: the next ones, but a block
    /// that was appended before keeps its number. `db` is the database at `path`, unless it is to
    /// be replaced.
    pub fn of(db: Option<(&Db, &Path)>, blocks: &[StoredBlock]) -> Result<Self> {
        let read = |key: &[u8]| {
            let Some((db, path)) = db else { return Ok(None) };
            let Some(value) = db.get(key)? else { return Ok(None) };
            let number = value.as_slice().try_into().map(u32::from_le_bytes);
            number.map(Some).map_err(|_| {
                let what = "the number of a block does not have 4 bytes: remove the index, and \
                            build it again";
                StoreError::new(path, what)
            })
        };
        let first_new = read(NEXT_BLOCK_SEQ)?.unwrap_or(0);
        let mut next = first_new;
        let mut numbers = Vec::with_capacity(blocks.len());
        // The genesis block has no entries, and gets no number.
        for block in blocks.iter().filter(|block| block.height > 0) {
            let number = match read(&block_key(&block.hash))? {
                Some(number) => number,
                None => {
                    next += 1;
                    next - 1
                }
            };
            numbers.push((block.hash, number));
        }
        let from = blocks.first().map_or(0, |block| block.height).max(1);
        Ok(Self { from, numbers, first_new, next })
    }

    /// Returns the other records of the index that change with these blocks.
    pub fn records(&self, keys: SipKeys) -> Vec<Other> {
        vec![
            (NEXT_BLOCK_SEQ.to_vec(), Some(self.next.to_le_bytes().to_vec())),
            (TXID_HASH_SALT.to_vec(), Some(keys.to_bytes().to_vec())),
        ]
    }

    /// Writes `others`, whose keys are before those of the numbers, and then the numbers and hashes
    /// of the blocks that had no number before.
    pub fn write(&self, run: &RunBuilder, others: &[Other]) -> Result<()> {
        let mut writer = run.writer();
        for (key, value) in others {
            writer.put(key, value.as_deref().unwrap_or_default())?;
        }
        let is_new = |block: &&(Hash, u32)| block.1 >= self.first_new;
        let mut by_hash: Vec<_> = self.numbers.iter().filter(is_new).collect();
        by_hash.sort_unstable();
        for (hash, number) in by_hash {
            writer.put(&block_key(hash), &number.to_le_bytes())?;
        }
        let new = self.numbers.iter().filter(is_new);
        let mut by_number: Vec<_> = new.map(|(hash, number)| (number_key(*number), hash)).collect();
        by_number.sort_unstable();
        for (key, hash) in by_number {
            writer.put(&key, &hash.0)?;
        }
        writer.finish()
    }
}

/// The entries of `txindex` in the form of Core v32.
pub struct ShortTxs<'a>(pub &'a BlockNumbers);

impl Entry<SPEND_BYTES> for ShortTxs<'_> {
    fn first_byte(&self) -> u8 {
        DB_TXINDEX_HASHED
    }

    fn put(&self, entry: &[u8; SPEND_BYTES], key: &mut Vec<u8>, _: &mut Vec<u8>) {
        key.extend_from_slice(&entry[..HASH_PREFIX_SIZE]);
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("4 bytes"));
        let height = number(&entry[8..12]);
        let (_, block) = self.0.numbers[(height - self.0.from) as usize];
        put_end(key, block, number(&entry[12..]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks with these numbers, from height 1 on.
    fn numbered(numbers: impl IntoIterator<Item = u32>) -> BlockNumbers {
        let numbers: Vec<_> = numbers.into_iter().map(|number| (Hash::ZERO, number)).collect();
        BlockNumbers { from: 1, numbers, first_new: 0, next: 0 }
    }

    #[test]
    fn entries_with_one_hash_are_ordered_as_their_keys() {
        // About where the numbers get another byte, and blocks that kept their numbers.
        let blocks =
            numbered((0..300).chain(16_500..16_600).chain(2_113_600..2_113_700).chain([7]));
        let entries = ShortTxs(&blocks);
        let entry = |height: u32, offset: u32| {
            let mut entry = [1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            entry[8..12].copy_from_slice(&height.to_be_bytes());
            entry[12..].copy_from_slice(&offset.to_be_bytes());
            entry
        };
        let heights = 1..=blocks.numbers.len() as u32;
        let mut sorted: Vec<_> =
            heights.flat_map(|h| [entry(h, 70_000 - h), entry(h, 1)]).collect();
        sorted.sort_unstable_by(|a, b| entries.compare(a, b));
        let keys: Vec<Vec<u8>> = sorted
            .iter()
            .map(|entry| {
                let mut key = Vec::new();
                entries.put(entry, &mut key, &mut Vec::new());
                key
            })
            .collect();
        assert!(keys.is_sorted());
        for (entry, key) in sorted.iter().zip(&keys) {
            let (number, offset) = read_end(&key[HASH_PREFIX_SIZE..]).unwrap();
            let height = u32::from_be_bytes(*entry[8..].first_chunk().unwrap());
            assert_eq!(number, blocks.numbers[height as usize - 1].1);
            assert_eq!(offset.to_be_bytes(), entry[12..]);
        }
    }

    #[test]
    fn other_ends_of_keys_are_errors() {
        let mut end = Vec::new();
        put_end(&mut end, 300, 5);
        assert_eq!(read_end(&end), Ok((300, 5)));
        assert!(read_end(&end[1..]).is_ok_and(|(number, _)| number != 300));
        for bytes in [&end[..4], &[&end[..], &[0]].concat(), &[0, 0, 0, 79], &[0xff; 9], &[]] {
            assert!(read_end(bytes).is_err(), "{bytes:x?}");
        }
        assert_eq!(read_end(&[0, 0, 0, 80]), Ok((0, 0)));
    }
}
