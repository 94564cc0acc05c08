use apus_wire::{Cursor, OutPoint, ParseError, put_varint, varint_len};

use super::script::CompactScript;

/// The maximum number of outputs in a block: its weight is at most 4,000,000, each byte of an
/// output weighs 4, and an output has at least nine bytes.
pub(super) const OUTPUTS_MAX: u32 = 4_000_000 / 4 / 9;

/// An unspent output, with what the rules need to know about its creation (Core's `Coin`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coin {
    /// The amount in satoshis.
    pub amount: u64,
    /// Height of the block that created the coin, below 2^31.
    pub height: u32,
    /// Whether a coinbase created the coin.
    pub is_coinbase: bool,
    /// The scriptPubKey in compressed form.
    pub script: CompactScript,
}

impl Coin {
    /// Returns a coin created by a transaction in the block at `height`.
    #[inline]
    pub fn new(amount: u64, script: &[u8], height: u32, is_coinbase: bool) -> Self {
        Self { amount, height, is_coinbase, script: CompactScript::new(script) }
    }

    /// Returns the length of [`Coin::encode`]'s result, in bytes.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        self.parts().encoded_len()
    }

    /// Appends the coin's value in the chainstate: VARINT(2 × height + coinbase), VARINT(compressed
    /// amount), compressed script.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.parts().encode(out);
    }

    /// Reads a coin's value in the chainstate; see [`Coin::encode`].
    pub fn decode(cursor: &mut Cursor) -> Result<Self, ParseError> {
        let code = decode_code(cursor)?;
        Self::decode_output(cursor, code)
    }

    /// Appends the coin in the form of undo data (Core's `TxInUndoFormatter`): as in the
    /// chainstate, but with a zero byte after the first VARINT unless the height is 0.
    pub fn encode_undo(&self, out: &mut Vec<u8>) {
        let parts = self.parts();
        put_varint(out, parts.code.into());
        if self.height > 0 {
            out.push(0);
        }
        parts.encode_output(out);
    }

    /// Reads a coin from undo data; see [`Coin::encode_undo`]. Core before 0.15 wrote a transaction
    /// version instead of the zero byte, and left the height of most coins out ([`Heights`]): it is
    /// 0 then.
    ///
    /// [`Heights`]: super::Heights
    pub fn decode_undo(cursor: &mut Cursor) -> Result<Self, ParseError> {
        let code = decode_code(cursor)?;
        if code > 1 {
            cursor.varint()?;
        }
        Self::decode_output(cursor, code)
    }

    /// Reads the amount and script of a coin, whose height and coinbase flag are in `code`: 2 ×
    /// height + coinbase.
    pub fn decode_output(cursor: &mut Cursor, code: u32) -> Result<Self, ParseError> {
        let amount = decompress_amount(cursor.varint()?);
        let script = CompactScript::decode(cursor)?;
        Ok(Self { amount, height: code >> 1, is_coinbase: code & 1 == 1, script })
    }

    pub(super) fn code(&self) -> u32 {
        self.height << 1 | u32::from(self.is_coinbase)
    }

    /// Returns the coin with a borrowed script.
    pub fn parts(&self) -> CoinParts<'_> {
        CoinParts { amount: self.amount, code: self.code(), script: self.script.as_bytes() }
    }
}

/// A coin whose compressed script is borrowed.
#[derive(Clone, Copy, Debug)]
pub struct CoinParts<'a> {
    /// The amount in satoshis.
    pub amount: u64,
    /// 2 × height + coinbase.
    pub code: u32,
    /// The script in compressed form.
    pub script: &'a [u8],
}

impl CoinParts<'_> {
    /// Returns the length of [`CoinParts::encode`]'s result, in bytes.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        let amount = compress_amount(self.amount);
        varint_len(self.code.into()) + varint_len(amount) + self.script.len()
    }

    /// Appends the coin's value in the chainstate; see [`Coin::encode`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.code.into());
        self.encode_output(out);
    }

    fn encode_output(&self, out: &mut Vec<u8>) {
        put_varint(out, compress_amount(self.amount));
        out.extend_from_slice(self.script);
    }
}

pub(super) fn decode_code(cursor: &mut Cursor) -> Result<u32, ParseError> {
    let start = cursor.position();
    let code = cursor.varint()?;
    u32::try_from(code)
        .map_err(|_| ParseError { offset: start, what: "the height has more than 31 bits" })
}

/// Compresses an amount: its trailing decimal zeros are replaced by their number (Core's
/// `CompressAmount`).
///
/// 0 becomes 0. Otherwise let e be the number of zeros dropped (at most 9), d the last digit left
/// and n the digits before it. The result is 1 + 10 × (9n + d - 1) + e, or 1 + 10 × (10n + d - 1) +
/// 9 if e is 9. This is reversible for all amounts up to 2^64 / 10; there are at most 2.1 × 10^15
/// satoshis.
#[inline]
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

/// Reverses [`compress_amount`] (Core's `DecompressAmount`). A number that is not a compressed
/// amount wraps around, as in Core.
#[inline]
pub fn decompress_amount(compressed: u64) -> u64 {
    let (digits, zeros) = split_amount(compressed);
    digits.wrapping_mul(10u64.pow(zeros))
}

/// Reverses [`compress_amount`]; returns `None` for a number that it never returns.
pub(super) fn decompress_exactly(compressed: u64) -> Option<u64> {
    let (digits, zeros) = split_amount(compressed);
    digits.checked_mul(10u64.pow(zeros))
}

/// Returns the digits of a compressed amount, and the number of zeros after them.
fn split_amount(compressed: u64) -> (u64, u32) {
    let Some(rest) = compressed.checked_sub(1) else { return (0, 0) };
    let digits = rest / 10;
    let zeros = (rest % 10) as u32;
    match zeros {
        9 => (digits + 1, 9),
        _ => (digits / 9 * 10 + digits % 9 + 1, zeros),
    }
}

/// The first byte of each coin's key in the chainstate.
pub const COIN_PREFIX: u8 = b'C';

/// Appends a coin's key in the chainstate: `C`, the txid's bytes, VARINT(vout).
pub fn put_coin_key(out: &mut Vec<u8>, outpoint: &OutPoint) {
    out.push(COIN_PREFIX);
    out.extend_from_slice(&outpoint.txid.0);
    put_varint(out, outpoint.vout.into());
}

/// Returns the outpoint in a coin's key in the chainstate; see [`put_coin_key`].
///
/// # Errors
/// The key is not that of a coin.
pub fn decode_coin_key(key: &[u8]) -> Result<OutPoint, ParseError> {
    let mut cursor = Cursor::new(key);
    if cursor.u8()? != COIN_PREFIX {
        return Err(ParseError { offset: 0, what: "not the key of a coin" });
    }
    let txid = apus_hash::Hash(cursor.array()?);
    let vout = cursor.varint()?;
    match u32::try_from(vout) {
        Ok(vout) if cursor.remaining() == 0 => Ok(OutPoint { txid, vout }),
        _ => Err(cursor.error("the key of a coin has the wrong length")),
    }
}

/// The first output index from which on keys are not in numerical order.
pub const VOUT_UNORDERED: u32 = 16_512;

/// Returns a number that orders the outputs of one transaction as their keys do. VARINTs of
/// different lengths do not sort by value: [`VOUT_UNORDERED`] is `80 80 00`, which comes before
/// 256, `81 00`.
pub fn vout_order(vout: u32) -> u64 {
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

/// Compares outpoints as their keys in the chainstate do.
pub fn key_order(a: &OutPoint, b: &OutPoint) -> std::cmp::Ordering {
    a.txid.cmp(&b.txid).then_with(|| vout_order(a.vout).cmp(&vout_order(b.vout)))
}
