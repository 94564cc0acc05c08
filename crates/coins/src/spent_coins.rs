//! The coins that a block spends as peers send them (`bspent`, draft BIP 455): made of undo data,
//! and read again.
//!
//! A coin is the index of the input that spends it, 2 × height + coinbase (both of four bytes), the
//! script in a form that says which common script it is, and the compressed amount as a
//! CompactSize. Undo data becomes that without becoming [`Coin`]s.

use apus_wire::opcodes::{OP_0, OP_1, OP_CHECKSIG, OP_DUP, OP_EQUAL, OP_EQUALVERIFY, OP_HASH160};
use apus_wire::{Cursor, MAX_SCRIPT_BYTES, ParseError, compact_size, put_compact_size};

use super::coin::{Coin, decode_code, decompress_exactly};
use super::script::{decompress_into, take_compressed};

/// The first byte of a script's form.
const OTHER: u8 = 0;
const P2PKH: u8 = 1;
/// P2PK with a compressed key whose first byte is 2 or 3, which is also the first byte of the form.
const P2PK_EVEN: u8 = 2;
const P2PK_ODD: u8 = 3;
const P2PK_UNCOMPRESSED: u8 = 4;
const P2SH: u8 = 5;
const P2WSH: u8 = 6;
const P2WPKH: u8 = 7;
const P2TR: u8 = 8;

/// Appends the coins in the undo data of a block that were created below height `cutoff`, or all if
/// it is 0, preceded by their number. Returns `false` if they have more than `bytes_max` bytes;
/// then `out` is to be dropped.
///
/// # Errors
/// The undo data cannot be parsed, or lacks the height of a coin ([`Heights`](super::Heights)).
pub fn put_spent_coins(
    undo: &[u8],
    cutoff: u32,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<bool, ParseError> {
    let mut cursor = Cursor::new(undo);
    let start = out.len();
    // Room for the number of coins, which is not known yet: that of all inputs of a block takes at
    // most three bytes.
    out.extend_from_slice(&[0; 3]);
    out.reserve(undo.len() + undo.len() / 4);
    let mut script = Vec::new();
    let mut count: u64 = 0;
    let mut index: u32 = 0;
    for _ in 0..cursor.compact_size()? {
        for _ in 0..cursor.compact_size()? {
            let code = decode_code(&mut cursor)?;
            if code > 1 {
                cursor.varint()?;
            } else {
                return Err(cursor.error("the height of a coin is missing"));
            }
            let amount = cursor.varint()?;
            let from = cursor.position();
            take_compressed(&mut cursor)?;
            if cutoff == 0 || code >> 1 < cutoff {
                out.extend_from_slice(&index.to_le_bytes());
                out.extend_from_slice(&code.to_le_bytes());
                put_form(&undo[from..cursor.position()], &mut script, out);
                put_compact_size(out, amount);
                count += 1;
                if out.len() - start > bytes_max {
                    return Ok(false);
                }
            }
            index += 1;
        }
    }
    let (number, len) = compact_size(count);
    match len {
        1 => drop(out.splice(start..start + 3, [number[0]])),
        3 => out[start..start + 3].copy_from_slice(&number[..3]),
        _ => return Err(cursor.error("there are more coins than a block can spend")),
    }
    Ok(true)
}

/// Reads the coins that a peer has sent for a block ([`put_spent_coins`]), in order of the inputs
/// that spend them. Nothing about the coins is trusted: whether they are those that the block
/// spends is for the caller to prove.
pub struct SpentCoinsReader<'a> {
    cursor: Cursor<'a>,
    left: usize,
    cutoff: u32,
    /// A buffer for one script.
    script: Vec<u8>,
}

impl<'a> SpentCoinsReader<'a> {
    /// Begins to read coins that were asked for below height `cutoff`, or all if it is 0.
    ///
    /// # Errors
    /// The number of coins cannot be parsed.
    pub fn new(coins: &'a [u8], cutoff: u32) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(coins);
        let left = cursor.compact_size()?;
        let cutoff = if cutoff == 0 { u32::MAX } else { cutoff };
        Ok(Self { cursor, left, cutoff, script: Vec::new() })
    }

    /// Returns the next coin, which the input at `index` spends; the coinbase's input has no index.
    ///
    /// # Errors
    /// The next coin is that of another input, was not asked for, or cannot be parsed.
    pub fn coin_of(&mut self, index: u32) -> Result<Coin, ParseError> {
        let Self { cursor, left, cutoff, script } = self;
        *left = left.checked_sub(1).ok_or_else(|| cursor.error("the last coins are missing"))?;
        let start = cursor.clone();
        if cursor.u32()? != index {
            return Err(start.error("a coin is missing, repeated or out of order"));
        }
        let code = cursor.u32()?;
        if code <= 1 {
            return Err(start.error("a coin of height 0, which creates none"));
        }
        if code >> 1 >= *cutoff {
            return Err(start.error("a coin that was not asked for"));
        }
        take_form(cursor, script)?;
        let amount = decompress_exactly(cursor.compact_u64()?)
            .ok_or_else(|| start.error("a coin whose amount has more than 64 bits"))?;
        Ok(Coin::new(amount, script, code >> 1, code & 1 == 1))
    }

    /// Ends reading after the coin of the last input.
    ///
    /// # Errors
    /// Coins or bytes are left over.
    pub fn finish(self) -> Result<(), ParseError> {
        match (self.left, self.cursor.remaining()) {
            (0, 0) => Ok(()),
            (0, _) => Err(self.cursor.error("bytes follow after the last coin")),
            (..) => Err(self.cursor.error("there are more coins than were asked for")),
        }
    }
}

/// Appends the form that peers send of a script in the form of undo data; `buffer` is for this
/// function alone.
fn put_form(compressed: &[u8], buffer: &mut Vec<u8>, out: &mut Vec<u8>) {
    match *compressed {
        [0, ref hash @ ..] => {
            out.push(P2PKH);
            out.extend_from_slice(hash);
        }
        [1, ref hash @ ..] => {
            out.push(P2SH);
            out.extend_from_slice(hash);
        }
        [P2PK_EVEN | P2PK_ODD, ..] => out.extend_from_slice(compressed),
        _ => {
            buffer.clear();
            decompress_into(compressed, buffer);
            put_form_of_script(buffer, out);
        }
    }
}

/// Appends the form that peers send of a script.
fn put_form_of_script(script: &[u8], out: &mut Vec<u8>) {
    let (form, payload) = match *script {
        [OP_DUP, OP_HASH160, 20, ref hash @ .., OP_EQUALVERIFY, OP_CHECKSIG]
            if hash.len() == 20 =>
        {
            (P2PKH, hash)
        }
        [33, form @ (P2PK_EVEN | P2PK_ODD), ref x @ .., OP_CHECKSIG] if x.len() == 32 => (form, x),
        [65, 4, ref xy @ .., OP_CHECKSIG] if xy.len() == 64 => (P2PK_UNCOMPRESSED, xy),
        [OP_HASH160, 20, ref hash @ .., OP_EQUAL] if hash.len() == 20 => (P2SH, hash),
        [OP_0, 32, ref hash @ ..] if hash.len() == 32 => (P2WSH, hash),
        [OP_0, 20, ref hash @ ..] if hash.len() == 20 => (P2WPKH, hash),
        [OP_1, 32, ref key @ ..] if key.len() == 32 => (P2TR, key),
        _ => (OTHER, script),
    };
    out.push(form);
    if form == OTHER {
        put_compact_size(out, script.len() as u64);
    }
    out.extend_from_slice(payload);
}

/// Reads a script in the form that peers send, and replaces `script` by it.
fn take_form(cursor: &mut Cursor, script: &mut Vec<u8>) -> Result<(), ParseError> {
    let start = cursor.clone();
    let (head, payload_len, tail): (&[u8], usize, &[u8]) = match cursor.u8()? {
        OTHER => {
            let len = cursor.compact_size()?;
            if len > MAX_SCRIPT_BYTES {
                return Err(start.error("a script of more than 10,000 bytes, which none can spend"));
            }
            (&[], len, &[])
        }
        P2PKH => (&[OP_DUP, OP_HASH160, 20], 20, &[OP_EQUALVERIFY, OP_CHECKSIG]),
        P2PK_EVEN => (&[33, 2], 32, &[OP_CHECKSIG]),
        P2PK_ODD => (&[33, 3], 32, &[OP_CHECKSIG]),
        P2PK_UNCOMPRESSED => (&[65, 4], 64, &[OP_CHECKSIG]),
        P2SH => (&[OP_HASH160, 20], 20, &[OP_EQUAL]),
        P2WSH => (&[OP_0, 32], 32, &[]),
        P2WPKH => (&[OP_0, 20], 20, &[]),
        P2TR => (&[OP_1, 32], 32, &[]),
        _ => return Err(start.error("a script of an unknown form")),
    };
    script.clear();
    script.extend_from_slice(head);
    script.extend_from_slice(cursor.take(payload_len)?);
    script.extend_from_slice(tail);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress_amount;
    use crate::script::compress_script;

    /// The vectors of draft BIP 455: a script, and its form.
    const SCRIPTS: [(&str, &str); 9] = [
        (
            "76a9142365e46227cc171083ea275f45ea8646c61d1fbb88ac",
            "012365e46227cc171083ea275f45ea8646c61d1fbb",
        ),
        (
            "a914b472a266d0bd89c13706a4132ccfb16f7c3b9fcb87",
            "05b472a266d0bd89c13706a4132ccfb16f7c3b9fcb",
        ),
        (
            "5120720b1ffb2c63684973c5e9898b188c9d367fa2bc1ce76b8ea02872b5e3ffe705",
            "08720b1ffb2c63684973c5e9898b188c9d367fa2bc1ce76b8ea02872b5e3ffe705",
        ),
        (
            "00146262b97a514ea54d12f51e0a4fe4c09fb74ff7bd",
            "076262b97a514ea54d12f51e0a4fe4c09fb74ff7bd",
        ),
        (
            "00200000000000000000000000000000000000000000000000000000000000000000",
            "060000000000000000000000000000000000000000000000000000000000000000",
        ),
        (
            "210334ed84e3c579d5ff9122fb4215210ec5aaad51c3f60bf971d939db1c5b56a9fbac",
            "0334ed84e3c579d5ff9122fb4215210ec5aaad51c3f60bf971d939db1c5b56a9fb",
        ),
        (
            "210299745a46d9f42b4f578e32d5582120a4688b4224f7e20081f781efc198d11edeac",
            "0299745a46d9f42b4f578e32d5582120a4688b4224f7e20081f781efc198d11ede",
        ),
        (
            "410441a5367189b64cc1601c2a708556e37ade94ec808be746e45e35d86d2ee0cb9cd3b2e65ee51baf285c\
             da78589605c3a59ba0492d577349ad3f0afaac862aa59eac",
            "0441a5367189b64cc1601c2a708556e37ade94ec808be746e45e35d86d2ee0cb9cd3b2e65ee51baf285cda\
             78589605c3a59ba0492d577349ad3f0afaac862aa59e",
        ),
        ("6a", "00016a"),
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn scripts_and_amounts_are_those_of_the_draft() {
        for (script, form) in SCRIPTS.map(|(script, form)| (bytes(script), bytes(form))) {
            let mut compressed = Vec::new();
            compress_script(&script, &mut compressed);
            let mut out = Vec::new();
            put_form(&compressed, &mut Vec::new(), &mut out);
            assert_eq!(out, form);
            let mut back = Vec::new();
            let mut cursor = Cursor::new(&form);
            take_form(&mut cursor, &mut back).unwrap();
            assert_eq!((back, cursor.remaining()), (script, 0));
        }
        for (amount, compressed) in [
            (0, 0),
            (1, 1),
            (1_000_000, 7),
            (100_000_000, 9),
            (5_000_000_000, 0x32),
            (2_100_000_000_000_000, 0x140_6f40),
        ] {
            assert_eq!(compress_amount(amount), compressed);
            assert_eq!(decompress_exactly(compressed), Some(amount));
        }
    }
}
