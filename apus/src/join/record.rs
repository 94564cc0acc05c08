//! The records of the join, in the forms that they have in the spill file. Numbers are Core's
//! VARINTs.

use crate::hash::Hash;
use crate::wire::{Cursor, OutPoint, ParseError, put_varint, varint_len};

/// Where a transaction was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// Height of its block.
    pub height: u32,
    /// Whether it is the first transaction of its block.
    pub is_coinbase: bool,
    /// The first place among the inputs of its own block from which on the transaction's outputs
    /// can be spent there; `None` if all spends in its own block are met already.
    pub ready: Option<u32>,
}

impl Created {
    /// 2 × height + coinbase, as coins have it.
    pub fn code(&self) -> u32 {
        self.height << 1 | u32::from(self.is_coinbase)
    }
}

/// A spend that has not met its output yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spend {
    /// The output that is spent.
    pub outpoint: OutPoint,
    /// Height of the block that spends it.
    pub height: u32,
    /// The index of the input among all inputs of its block but the coinbase's.
    pub place: u32,
}

/// Appends the record of a transaction with those outputs that are not spent yet: each with its
/// index and its amount and script in compressed form (Core's `TxOutCompression`).
pub fn put_tx<'a>(
    out: &mut Vec<u8>,
    txid: &Hash,
    created: Created,
    count: u32,
    outputs: impl Iterator<Item = (u32, &'a [u8])>,
) {
    out.extend_from_slice(&txid.0);
    let has_ready = u64::from(created.ready.is_some());
    put_varint(out, u64::from(created.code()) << 1 | has_ready);
    if let Some(ready) = created.ready {
        put_varint(out, ready.into());
    }
    put_varint(out, count.into());
    for (vout, bytes) in outputs {
        put_varint(out, vout.into());
        put_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

/// Reads the part of a transaction's record before its outputs: txid, place of creation, and the
/// number of outputs.
#[inline]
pub(super) fn read_tx_head(cursor: &mut Cursor) -> Result<(Hash, Created, u32), ParseError> {
    let txid = Hash(cursor.array()?);
    let head = cursor.varint()?;
    let ready = match head & 1 {
        0 => None,
        _ => Some(number(cursor)?),
    };
    let code = u32::try_from(head >> 1).map_err(|_| cursor.error("a height over 31 bits"))?;
    let created = Created { height: code >> 1, is_coinbase: code & 1 == 1, ready };
    Ok((txid, created, number(cursor)?))
}

/// Reads an output of a transaction's record: its index, and where amount and script are.
#[inline]
pub(super) fn read_output(cursor: &mut Cursor) -> Result<(u32, usize, usize), ParseError> {
    let vout = number(cursor)?;
    let len = cursor.varint()?;
    let start = cursor.position();
    cursor.take(usize::try_from(len).unwrap_or(usize::MAX))?;
    Ok((vout, start, cursor.position()))
}

/// Appends the record of a spend.
pub fn put_spend(out: &mut Vec<u8>, spend: &Spend) {
    out.extend_from_slice(&spend.outpoint.txid.0);
    put_varint(out, spend.outpoint.vout.into());
    put_varint(out, spend.height.into());
    put_varint(out, spend.place.into());
}

/// Reads the record of a spend.
#[inline]
pub(super) fn read_spend(cursor: &mut Cursor) -> Result<Spend, ParseError> {
    let txid = Hash(cursor.array()?);
    let outpoint = OutPoint { txid, vout: number(cursor)? };
    Ok(Spend { outpoint, height: number(cursor)?, place: number(cursor)? })
}

/// Where the coin that an input spends comes from, as far as the first pass knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendSource<'a> {
    /// A partition: it comes later, as a [`LateCoin`].
    Late,
    /// The output `vout` of an earlier transaction of the same block.
    Inside {
        /// The transaction's position in the block.
        tx: u32,
        /// The output's index in the transaction.
        vout: u32,
    },
    /// This coin, in the form of the chainstate ([`crate::coins::Coin::encode`]).
    Early(&'a [u8]),
}

/// The first numbers of sources; a larger one is that of an early coin, and tells its length.
const LATE: u8 = 0;
const INSIDE: u8 = 1;
const FIRST_LENGTH: u64 = 2;

impl SpendSource<'_> {
    /// Appends the source to the list of its block.
    #[inline]
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Late => out.push(LATE),
            Self::Inside { tx, vout } => {
                out.push(INSIDE);
                put_varint(out, (*tx).into());
                put_varint(out, (*vout).into());
            }
            Self::Early(coin) => {
                put_varint(out, coin.len() as u64 + FIRST_LENGTH);
                out.extend_from_slice(coin);
            }
        }
    }
}

/// Appends [`SpendSource::Early`] of a coin whose parts are given: 2 × height + coinbase, and
/// amount and script in compressed form.
#[inline]
pub(crate) fn put_early(out: &mut Vec<u8>, code: u32, output: &[u8]) {
    let len = varint_len(code.into()) + output.len();
    put_varint(out, len as u64 + FIRST_LENGTH);
    put_varint(out, code.into());
    out.extend_from_slice(output);
}

/// What the first pass leaves of a block for the last: a checksum of its bytes, and the sources of
/// its coins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCoins<'a> {
    /// Height of the block.
    pub height: u32,
    /// CRC-32C of the block's bytes.
    pub crc: u32,
    /// A [`SpendSource`] for each input but the coinbase's, in order; empty if all are late.
    pub sources: &'a [u8],
}

impl<'a> BlockCoins<'a> {
    /// The sources in order of the inputs.
    pub fn sources(&self) -> impl Iterator<Item = Result<SpendSource<'a>, ParseError>> + use<'a> {
        let mut cursor = Cursor::new(self.sources);
        std::iter::from_fn(move || {
            if cursor.remaining() == 0 {
                return Some(Ok(SpendSource::Late));
            }
            Some(read_source(&mut cursor))
        })
    }
}

#[inline]
fn read_source<'a>(cursor: &mut Cursor<'a>) -> Result<SpendSource<'a>, ParseError> {
    match cursor.varint()? {
        0 => Ok(SpendSource::Late),
        1 => Ok(SpendSource::Inside { tx: number(cursor)?, vout: number(cursor)? }),
        n => {
            let len = usize::try_from(n - FIRST_LENGTH).unwrap_or(usize::MAX);
            Ok(SpendSource::Early(cursor.take(len)?))
        }
    }
}

/// A coin that a partition has met with its spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateCoin<'a> {
    /// Height of the block that spends it.
    pub height: u32,
    /// The index of the input among all inputs of that block but the coinbase's.
    pub place: u32,
    /// The coin in the form of the chainstate.
    pub coin: &'a [u8],
}

/// First numbers of the two kinds of records of a block.
const BLOCK_COINS: u8 = 0;
const LATE_COIN: u8 = 1;

/// Appends what the first pass leaves of a block.
pub fn put_block_coins(out: &mut Vec<u8>, block: &BlockCoins) {
    out.push(BLOCK_COINS);
    put_varint(out, block.height.into());
    out.extend_from_slice(&block.crc.to_le_bytes());
    put_varint(out, block.sources.len() as u64);
    out.extend_from_slice(block.sources);
}

/// Appends a coin whose parts are given: 2 × height + coinbase, and amount and script in
/// compressed form.
#[inline]
pub fn put_late_coin(out: &mut Vec<u8>, height: u32, place: u32, code: u32, output: &[u8]) {
    out.push(LATE_COIN);
    put_varint(out, height.into());
    put_varint(out, place.into());
    let len = varint_len(code.into()) + output.len();
    put_varint(out, len as u64);
    put_varint(out, code.into());
    out.extend_from_slice(output);
}

/// A record of the spent coins of a block.
pub enum BlockRecord<'a> {
    /// What the first pass leaves of the block.
    Block(BlockCoins<'a>),
    /// A coin that the second pass has found for the block.
    Late(LateCoin<'a>),
}

impl<'a> BlockRecord<'a> {
    /// Reads the next record.
    #[inline]
    pub fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        match cursor.u8()? {
            BLOCK_COINS => {
                let (height, crc) = (number(cursor)?, cursor.u32()?);
                let len = usize::try_from(cursor.varint()?).unwrap_or(usize::MAX);
                Ok(Self::Block(BlockCoins { height, crc, sources: cursor.take(len)? }))
            }
            LATE_COIN => {
                let (height, place) = (number(cursor)?, number(cursor)?);
                let len = usize::try_from(cursor.varint()?).unwrap_or(usize::MAX);
                Ok(Self::Late(LateCoin { height, place, coin: cursor.take(len)? }))
            }
            _ => Err(cursor.error("neither the sources of a block nor a late coin")),
        }
    }
}

/// Reads a VARINT of at most 32 bits.
#[inline]
fn number(cursor: &mut Cursor) -> Result<u32, ParseError> {
    let value = cursor.varint()?;
    u32::try_from(value).map_err(|_| cursor.error("a number over 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were() {
        let txid = Hash([7; 32]);
        for ready in [None, Some(0), Some(70_000)] {
            let created = Created { height: 840_000, is_coinbase: ready.is_some(), ready };
            let outputs = [(0, &b"abc"[..]), (300, b""), (70_000, &[9; 200])];
            let mut bytes = Vec::new();
            put_tx(&mut bytes, &txid, created, 3, outputs.into_iter());
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(read_tx_head(&mut cursor).unwrap(), (txid, created, 3));
            for (vout, expected) in outputs {
                let (found, start, end) = read_output(&mut cursor).unwrap();
                assert_eq!((found, &bytes[start..end]), (vout, expected));
            }
            assert_eq!(cursor.remaining(), 0);
        }
        let outpoint = OutPoint { txid, vout: 16_512 };
        let spend = Spend { outpoint, height: 1, place: 5_000 };
        let mut bytes = Vec::new();
        put_spend(&mut bytes, &spend);
        assert_eq!(read_spend(&mut Cursor::new(&bytes)).unwrap(), spend);
    }

    #[test]
    fn sources_and_late_coins_come_back_as_they_were() {
        let sources =
            [SpendSource::Late, SpendSource::Inside { tx: 3, vout: 900 }, SpendSource::Early(b"x")];
        let mut list = Vec::new();
        sources.iter().for_each(|source| source.put(&mut list));
        let block = BlockCoins { height: 9, crc: 0xfeed, sources: &list };
        let mut bytes = Vec::new();
        put_block_coins(&mut bytes, &block);
        put_late_coin(&mut bytes, 9, 2, 16, b"output");
        let mut cursor = Cursor::new(&bytes);
        let Ok(BlockRecord::Block(found)) = BlockRecord::read(&mut cursor) else { panic!() };
        assert_eq!(found, block);
        let found: Vec<_> = found.sources().take(3).map(Result::unwrap).collect();
        assert_eq!(found, sources);
        let Ok(BlockRecord::Late(late)) = BlockRecord::read(&mut cursor) else { panic!() };
        assert_eq!((late.height, late.place, late.coin), (9, 2, &b"\x10output"[..]));
        assert_eq!(cursor.remaining(), 0);
    }
}
