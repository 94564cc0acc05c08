//! The records of the coins that blocks spend, as encoded in the spill file. Numbers are Core's
//! VARINTs.

use apus_coins::take_compressed;
use apus_leveldb::append_short;
use apus_wire::{Cursor, ParseError, put_varint, varint_len};

use super::record::number;

/// Where the coin that an input spends comes from, as far as the first pass knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendSource<'a> {
    /// A partition: the second pass finds the coin and adds it as a [`LateCoin`].
    Late,
    /// The window of recent transactions.
    Early {
        /// 2 × height + coinbase.
        code: u32,
        /// Amount and script in compressed form.
        output: &'a [u8],
    },
}

impl<'a> SpendSource<'a> {
    /// Appends the source to `out`.
    #[inline]
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Late => out.push(0),
            Self::Early { code, output } => {
                put_varint(out, u64::from(*code) + 1);
                append_short(out, output);
            }
        }
    }

    /// Reads a source.
    ///
    /// # Errors
    /// The bytes hold no valid source.
    #[inline]
    pub fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        let first = cursor.varint()?;
        let Some(code) = first.checked_sub(1) else { return Ok(Self::Late) };
        let code = u32::try_from(code).map_err(|_| cursor.error("a height over 31 bits"))?;
        let mut end = cursor.clone();
        end.varint()?;
        take_compressed(&mut end)?;
        let output = cursor.take(end.position() - cursor.position())?;
        Ok(Self::Early { code, output })
    }
}

/// Notes about a transaction whose block is not read again. The notes of its inputs follow them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxNotes {
    /// Number of inputs.
    pub inputs: u32,
    /// The sum of the values of its outputs, in satoshi.
    pub value_out: u64,
    /// The cost of the signature operations in its scriptSigs and scriptPubKeys.
    pub sigop_cost: u64,
    /// Whether the notes of its inputs include the sequence numbers.
    pub has_locks: bool,
}

/// Notes about an input whose block is not read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputNotes<'a> {
    /// The sequence number; 0 unless [`TxNotes::has_locks`].
    pub sequence: u32,
    /// The cost of the signature operations if the coin is P2SH, and if it is P2WSH.
    pub sigop_costs: [u32; 2],
    /// Where its coin comes from.
    pub source: SpendSource<'a>,
}

impl TxNotes {
    /// Appends the notes.
    #[inline]
    pub fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.inputs) << 1 | u64::from(self.has_locks));
        put_varint(out, self.value_out);
        put_varint(out, self.sigop_cost);
    }

    /// Reads what [`TxNotes::put`] wrote.
    ///
    /// # Errors
    /// The bytes hold no valid notes.
    #[inline]
    pub fn read(cursor: &mut Cursor) -> Result<Self, ParseError> {
        let head = cursor.varint()?;
        let inputs = u32::try_from(head >> 1).map_err(|_| cursor.error("too many inputs"))?;
        let value_out = cursor.varint()?;
        let sigop_cost = cursor.varint()?;
        Ok(Self { inputs, value_out, sigop_cost, has_locks: head & 1 == 1 })
    }
}

impl<'a> InputNotes<'a> {
    /// Appends the notes of an input of `tx`.
    #[inline]
    pub fn put(&self, tx: &TxNotes, out: &mut Vec<u8>) {
        if tx.has_locks {
            put_varint(out, self.sequence.into());
        }
        match self.sigop_costs {
            [0, 0] => out.push(0),
            [p2sh, witness] => {
                put_varint(out, u64::from(p2sh) + 1);
                put_varint(out, witness.into());
            }
        }
        self.source.put(out);
    }

    /// Reads the notes of the next input of `tx`.
    ///
    /// # Errors
    /// The bytes hold no valid notes.
    #[inline]
    pub fn read(tx: &TxNotes, cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        let sequence = if tx.has_locks { number(cursor)? } else { 0 };
        let sigop_costs = match number(cursor)?.checked_sub(1) {
            None => [0, 0],
            Some(p2sh) => [p2sh, number(cursor)?],
        };
        Ok(Self { sequence, sigop_costs, source: SpendSource::read(cursor)? })
    }
}

/// The part of a block that the first pass keeps for the last pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCoins<'a> {
    /// Height of the block.
    pub height: u32,
    /// The keyed hash of the block's bytes if the last pass reads them again.
    pub digest: Option<[u8; 16]>,
    /// If the block is read again, a [`SpendSource`] for each input but the coinbase's, in order.
    /// Otherwise the number of transactions, then for each its [`TxNotes`] and the [`InputNotes`]
    /// of its inputs; the coinbase has no input notes.
    pub list: &'a [u8],
}

/// A coin that was matched with its spend in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateCoin<'a> {
    /// Height of the block that spends it.
    pub height: u32,
    /// The index of the input among all inputs of that block but the coinbase's.
    pub place: u32,
    /// The coin in the form of the chainstate.
    pub coin: &'a [u8],
}

/// First bytes of the records, by kind.
const BLOCK_READ_AGAIN: u8 = 0;
const LATE_COIN: u8 = 1;
const BLOCK_NOTED: u8 = 2;

/// Appends the record of what the first pass keeps of a block.
pub fn put_block_coins(out: &mut Vec<u8>, block: &BlockCoins) {
    out.push(if block.digest.is_some() { BLOCK_READ_AGAIN } else { BLOCK_NOTED });
    put_varint(out, block.height.into());
    if let Some(digest) = &block.digest {
        out.extend_from_slice(digest);
    }
    put_varint(out, block.list.len() as u64);
    out.extend_from_slice(block.list);
}

/// Appends the record of a late coin: `code` is 2 × height + coinbase, `output` is the amount and
/// script in compressed form.
#[inline]
pub fn put_late_coin(out: &mut Vec<u8>, height: u32, place: u32, code: u32, output: &[u8]) {
    out.push(LATE_COIN);
    put_varint(out, height.into());
    put_varint(out, place.into());
    let len = varint_len(code.into()) + output.len();
    put_varint(out, len as u64);
    put_varint(out, code.into());
    append_short(out, output);
}

/// A record of the spent coins of a block.
pub enum BlockRecord<'a> {
    /// The part of the block that the first pass keeps.
    Block(BlockCoins<'a>),
    /// A coin that the second pass has found for the block.
    Late(LateCoin<'a>),
}

impl<'a> BlockRecord<'a> {
    /// Reads the next record.
    ///
    /// # Errors
    /// The bytes hold no valid record.
    #[inline]
    pub fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        match cursor.u8()? {
            kind @ (BLOCK_READ_AGAIN | BLOCK_NOTED) => {
                let height = number(cursor)?;
                let digest = (kind == BLOCK_READ_AGAIN).then(|| cursor.array()).transpose()?;
                let list = sized(cursor)?;
                Ok(Self::Block(BlockCoins { height, digest, list }))
            }
            LATE_COIN => {
                let height = number(cursor)?;
                let place = number(cursor)?;
                Ok(Self::Late(LateCoin { height, place, coin: sized(cursor)? }))
            }
            _ => Err(cursor.error("neither the record of a block nor a late coin")),
        }
    }
}

impl BlockRecord<'_> {
    /// Returns the height of the block.
    pub fn height(&self) -> u32 {
        match self {
            Self::Block(BlockCoins { height, .. }) | Self::Late(LateCoin { height, .. }) => *height,
        }
    }
}

/// Reads a VARINT and as many bytes as it says.
#[inline]
fn sized<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], ParseError> {
    let len = usize::try_from(cursor.varint()?).unwrap_or(usize::MAX);
    cursor.take(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_late_coins_come_back_as_they_were() {
        let mut bytes = Vec::new();
        let blocks = [
            BlockCoins { height: 9, digest: Some([7; 16]), list: b"list" },
            BlockCoins { height: 840_000, digest: None, list: b"" },
        ];
        blocks.iter().for_each(|block| put_block_coins(&mut bytes, block));
        put_late_coin(&mut bytes, 9, 2, 16, b"output");
        let mut cursor = Cursor::new(&bytes);
        for block in blocks {
            let Ok(BlockRecord::Block(found)) = BlockRecord::read(&mut cursor) else { panic!() };
            assert_eq!(found, block);
        }
        let Ok(BlockRecord::Late(late)) = BlockRecord::read(&mut cursor) else { panic!() };
        assert_eq!((late.height, late.place, late.coin), (9, 2, &b"\x10output"[..]));
        assert_eq!(cursor.remaining(), 0);
    }

    #[test]
    fn notes_come_back_as_they_were() {
        let p2pkh = [&[7, 0][..], &[3; 20]].concat();
        let other = [&[0x80, 0, 7 + 3][..], &[9; 4]].concat();
        let sources = [
            SpendSource::Late,
            SpendSource::Early { code: 0, output: &p2pkh },
            SpendSource::Early { code: u32::MAX, output: &other },
        ];
        for has_locks in [false, true] {
            let tx = TxNotes { inputs: 9, value_out: 21 << 50, sigop_cost: 80_001, has_locks };
            let sequence = if has_locks { 1 << 22 } else { 0 };
            let costs = [[0, 0], [16, 0], [0, 300]];
            let inputs = sources.iter().flat_map(|source| {
                costs.map(|sigop_costs| InputNotes { sequence, sigop_costs, source: *source })
            });
            let mut bytes = Vec::new();
            tx.put(&mut bytes);
            inputs.clone().for_each(|input| input.put(&tx, &mut bytes));
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(TxNotes::read(&mut cursor), Ok(tx));
            for input in inputs {
                assert_eq!(InputNotes::read(&tx, &mut cursor), Ok(input));
            }
            assert_eq!(cursor.remaining(), 0);
        }
    }
}
