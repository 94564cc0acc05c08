use apus_hash::Hash;
use apus_leveldb::put_short;
use apus_wire::{OutPoint, put_varint_at};

use crate::coin::decode_coin_key;
use crate::coin::{COIN_PREFIX, CoinParts, compress_amount};

/// The maximum length of a record without its script: key length, value length, `C`, txid, and
/// three VARINTs.
pub(super) const HEAD_BYTES_MAX: usize = LENGTHS_BYTES + 1 + 32 + 5 + 5 + 10;
/// The lengths of the key, in one byte, and of the value, in two, little endian.
const LENGTHS_BYTES: usize = 3;
/// The lengths of the shortest and the longest key: `C`, txid, VARINT of 32 bits.
const KEY_BYTES_MIN: usize = 34;
const KEY_BYTES_MAX: usize = 38;

/// The location of a record's key, value and end.
#[derive(Clone, Copy)]
pub(super) struct Record {
    key: usize,
    value: usize,
    pub end: usize,
}

impl Record {
    /// Returns the record that starts at `at`; `None` if there is none.
    #[inline]
    pub(super) fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let lengths = bytes.get(at..at.checked_add(LENGTHS_BYTES)?)?;
        let key = at + LENGTHS_BYTES;
        let value = key + usize::from(lengths[0]);
        let end = value + usize::from(u16::from_le_bytes([lengths[1], lengths[2]]));
        let key_fits = (KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&usize::from(lengths[0]));
        (key_fits && end <= bytes.len()).then_some(Self { key, value, end })
    }

    /// Returns the coin's key in the chainstate.
    #[inline]
    pub(super) fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.key..self.value]
    }

    /// Returns the coin's key in the chainstate, and its value before obfuscation.
    #[inline]
    pub(super) fn parts<'a>(&self, bytes: &'a mut [u8]) -> (&'a [u8], &'a mut [u8]) {
        let (key, value) = bytes[self.key..self.end].split_at_mut(self.value - self.key);
        (key, value)
    }

    /// Returns the outpoint in the key; `None` if the key is damaged.
    pub(super) fn outpoint(&self, bytes: &[u8]) -> Option<OutPoint> {
        decode_coin_key(self.key(bytes)).ok()
    }
}

/// Returns the first eight bytes of the txid of the record at `at`, as a number that sorts as keys
/// do.
#[inline]
pub(super) fn prefix(bytes: &[u8], at: usize) -> u64 {
    let start = at + LENGTHS_BYTES + 1;
    let mut prefix = [0; 8];
    prefix.copy_from_slice(&bytes[start..start + 8]);
    u64::from_be_bytes(prefix)
}

/// Writes a record to the start of `out` and returns its length. `out` must have space for
/// [`HEAD_BYTES_MAX`] and the script, which has at most 65,000 bytes.
#[inline]
pub(super) fn encode(out: &mut [u8], txid: &Hash, vout: u32, coin: &CoinParts) -> usize {
    let mut at = LENGTHS_BYTES;
    out[at] = COIN_PREFIX;
    out[at + 1..at + 33].copy_from_slice(&txid.0);
    at += 33;
    at += put_varint_at(&mut out[at..], vout.into());
    let value = at;
    at += put_varint_at(&mut out[at..], coin.code.into());
    at += put_varint_at(&mut out[at..], compress_amount(coin.amount));
    put_short(&mut out[at..], coin.script);
    at += coin.script.len();
    out[0] = (value - LENGTHS_BYTES) as u8;
    out[1..3].copy_from_slice(&((at - value) as u16).to_le_bytes());
    at
}
