//! The records of outputs and spends, as encoded in the spill file. Numbers are Core's VARINTs.

use apus_hash::Hash;
use apus_leveldb::append_short;
use apus_wire::{Cursor, OutPoint, ParseError, put_varint};

/// Where a transaction was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// Height of its block.
    pub height: u32,
    /// Whether it is the first transaction of its block.
    pub is_coinbase: bool,
    /// The index, among the inputs of its own block, of the first one that can spend the
    /// transaction's outputs; `None` if all spends in its own block are matched already.
    pub ready: Option<u32>,
}

impl Created {
    /// Returns 2 × height + coinbase, as coins encode it.
    pub fn code(&self) -> u32 {
        self.height << 1 | u32::from(self.is_coinbase)
    }
}

/// A spend that is not matched with its output yet.
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
        append_short(out, bytes);
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

/// Reads an output of a transaction's record. Returns its index, and where its amount and script
/// begin and end.
#[inline]
pub(super) fn read_output(cursor: &mut Cursor) -> Result<(u32, usize, usize), ParseError> {
    let vout = number(cursor)?;
    let len = cursor.varint()?;
    let start = cursor.position();
    cursor.take(usize::try_from(len).unwrap_or(usize::MAX))?;
    Ok((vout, start, cursor.position()))
}

/// Appends the record of a spend.
#[inline]
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

/// Reads a VARINT of at most 32 bits.
#[inline]
pub(super) fn number(cursor: &mut Cursor) -> Result<u32, ParseError> {
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
}
