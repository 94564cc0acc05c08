use crate::wire::{Cursor, OutPoint, ParseError, put_varint, varint_len};

use super::script::CompactScript;

/// An unspent output and what the rules need to know about its creation (Core's `Coin`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coin {
    /// In satoshi.
    pub amount: u64,
    /// Of the block that created it; below 2^31.
    pub height: u32,
    /// Whether a coinbase created it.
    pub is_coinbase: bool,
    /// The output's script.
    pub script: CompactScript,
}

impl Coin {
    /// The coin of an output that a transaction in block `height` creates.
    pub fn new(amount: u64, script: &[u8], height: u32, is_coinbase: bool) -> Self {
        Self { amount, height, is_coinbase, script: CompactScript::new(script) }
    }

    /// Bytes of [`Coin::encode`].
    pub fn encoded_len(&self) -> usize {
        self.parts().encoded_len()
    }

    /// Appends the value that the chainstate holds: VARINT(2 × height + coinbase),
    /// VARINT(compressed amount), compressed script.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.parts().encode(out);
    }

    /// Reads what [`Coin::encode`] wrote.
    pub fn decode(cursor: &mut Cursor) -> Result<Self, ParseError> {
        let code = decode_code(cursor)?;
        Self::decode_output(cursor, code)
    }

    /// Appends the form that undo data holds (Core's `TxInUndoFormatter`): as the chainstate's,
    /// with a zero byte behind the first VARINT unless the height is 0.
    pub fn encode_undo(&self, out: &mut Vec<u8>) {
        let parts = self.parts();
        put_varint(out, parts.code.into());
        if self.height > 0 {
            out.push(0);
        }
        parts.encode_output(out);
    }

    /// Reads what [`Coin::encode_undo`] wrote; old versions of Core put a transaction's version in
    /// the zero byte's place.
    pub fn decode_undo(cursor: &mut Cursor) -> Result<Self, ParseError> {
        let code = decode_code(cursor)?;
        if code > 1 {
            cursor.varint()?;
        }
        Self::decode_output(cursor, code)
    }

    fn decode_output(cursor: &mut Cursor, code: u32) -> Result<Self, ParseError> {
        let amount = decompress_amount(cursor.varint()?);
        let script = CompactScript::decode(cursor)?;
        Ok(Self { amount, height: code >> 1, is_coinbase: code & 1 == 1, script })
    }

    pub(super) fn code(&self) -> u32 {
        self.height << 1 | u32::from(self.is_coinbase)
    }

    /// The coin with its script lent.
    pub fn parts(&self) -> CoinParts<'_> {
        CoinParts { amount: self.amount, code: self.code(), script: self.script.as_bytes() }
    }
}

/// A coin whose compressed script lies elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct CoinParts<'a> {
    /// In satoshi.
    pub amount: u64,
    /// 2 × height + coinbase.
    pub code: u32,
    /// In compressed form.
    pub script: &'a [u8],
}

impl CoinParts<'_> {
    /// Bytes of [`CoinParts::encode`].
    pub fn encoded_len(&self) -> usize {
        let amount = compress_amount(self.amount);
        varint_len(self.code.into()) + varint_len(amount) + self.script.len()
    }

    /// Appends the value that the chainstate holds, see [`Coin::encode`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.code.into());
        self.encode_output(out);
    }

    fn encode_output(&self, out: &mut Vec<u8>) {
        put_varint(out, compress_amount(self.amount));
        out.extend_from_slice(self.script);
    }
}

fn decode_code(cursor: &mut Cursor) -> Result<u32, ParseError> {
    let start = cursor.position();
    let code = cursor.varint()?;
    u32::try_from(code).map_err(|_| ParseError { offset: start, what: "height over 31 bits" })
}

/// An amount without its trailing decimal zeros and with their number (Core's `CompressAmount`).
///
/// 0 is 0; else, with e the zeros dropped (at most 9), d the last digit left and n the digits
/// before it: 1 + 10 × (9n + d - 1) + e, or 1 + 10 × (10n + d - 1) + 9 where e is 9.
/// Exact for every amount up to 2^64 / 10; there is no more money than 2.1 × 10^15.
pub fn compress_amount(mut amount: u64) -> u64 {
    if amount == 0 {
        return 0;
    }
    let mut zeros = 0;
    while zeros < 9 && amount.is_multiple_of(10) {
        amount /= 10;
        zeros += 1;
    }
    let digits = match zeros {
        9 => amount - 1,
        _ => amount / 10 * 9 + amount % 10 - 1,
    };
    digits.wrapping_mul(10).wrapping_add(zeros + 1)
}

/// The amount that [`compress_amount`] compressed (Core's `DecompressAmount`). What no amount
/// compresses to wraps around, as in Core.
pub fn decompress_amount(compressed: u64) -> u64 {
    if compressed == 0 {
        return 0;
    }
    let (digits, zeros) = ((compressed - 1) / 10, (compressed - 1) % 10);
    let amount = match zeros {
        9 => digits + 1,
        _ => (digits / 9).wrapping_mul(10).wrapping_add(digits % 9 + 1),
    };
    amount.wrapping_mul(10u64.pow(zeros as u32))
}

/// The first byte of every coin's key.
pub const COIN_PREFIX: u8 = b'C';

/// Appends the chainstate's key of a coin: `C`, the txid's bytes, VARINT(vout).
pub fn put_coin_key(out: &mut Vec<u8>, outpoint: &OutPoint) {
    out.push(COIN_PREFIX);
    out.extend_from_slice(&outpoint.txid.0);
    put_varint(out, outpoint.vout.into());
}

/// The outpoint of a chainstate's key, or why it is none.
pub fn decode_coin_key(key: &[u8]) -> Result<OutPoint, ParseError> {
    let mut cursor = Cursor::new(key);
    if cursor.u8()? != COIN_PREFIX {
        return Err(ParseError { offset: 0, what: "not the key of a coin" });
    }
    let txid = crate::hash::Hash(cursor.array()?);
    let vout = cursor.varint()?;
    match u32::try_from(vout) {
        Ok(vout) if cursor.remaining() == 0 => Ok(OutPoint { txid, vout }),
        _ => Err(cursor.error("the key of a coin ends elsewhere")),
    }
}

/// A number that orders outputs of one transaction as their keys are: VARINTs of different
/// lengths do not sort by value (16512 is `80 80 00`, before 256, which is `81 00`).
pub(super) fn vout_order(vout: u32) -> u64 {
    if vout < 0x80 {
        return u64::from(vout) << 32;
    }
    let mut rest = u64::from(vout);
    let mut bytes = [0u8; 5];
    let len = varint_len(rest);
    for i in (0..len).rev() {
        bytes[i] = (rest & 0x7f) as u8 | if i + 1 < len { 0x80 } else { 0 };
        rest = (rest >> 7).wrapping_sub(1);
    }
    bytes.iter().fold(0, |order, byte| order << 8 | u64::from(*byte))
}

/// Orders outpoints as their keys in the chainstate.
pub fn key_order(a: &OutPoint, b: &OutPoint) -> std::cmp::Ordering {
    a.txid.cmp(&b.txid).then_with(|| vout_order(a.vout).cmp(&vout_order(b.vout)))
}
