use std::fmt;

use apus_leveldb::put_short;
use apus_wire::opcodes::{OP_CHECKSIG, OP_DUP, OP_EQUAL, OP_EQUALVERIFY, OP_HASH160, OP_RETURN};
use apus_wire::{
    Cursor, MAX_SCRIPT_BYTES, ParseError, is_unspendable, put_varint, put_varint_at, varint_len,
};
use bitcoin::secp256k1::PublicKey;

/// The number of special types, given by the leading VARINT of a compressed script; larger values
/// are lengths (Core's `nSpecialScripts`).
pub const SPECIAL_TYPES: u64 = 6;
/// The length in bytes up to which a compressed script is stored inline: the longest form of P2PKH,
/// P2SH, P2PK, P2WPKH, P2WSH and P2TR.
pub(super) const INLINE_BYTES: usize = 35;

/// An output script in the compressed form of Core's chainstate and undo data
/// (`ScriptCompression`), so that writing it is a copy.
///
/// P2PKH, P2SH and P2PK are a type byte (0 to 5) and a hash or an X coordinate; any other script is
/// VARINT(length + 6) and its bytes. Up to 35 bytes are stored inline.
#[derive(Clone, PartialEq, Eq)]
pub struct CompactScript(Repr);

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Repr {
    /// The first byte determines how many are used ([`inline_len`]); the others are zero.
    Inline([u8; INLINE_BYTES]),
    Boxed(Box<[u8]>),
}

/// Returns the length of a compressed script of at most [`INLINE_BYTES`], from its first byte.
#[inline]
fn inline_len(first: u8) -> usize {
    match first {
        0 | 1 => 21,
        2..=5 => 33,
        n => 1 + usize::from(n - 6),
    }
}

impl CompactScript {
    /// Compresses a scriptPubKey.
    pub fn new(script: &[u8]) -> Self {
        special_form(script).map_or_else(|| Self::raw_form(script), |form| Self(Repr::Inline(form)))
    }

    /// Reads a compressed script. A script of more than 10,000 bytes is read as a single OP_RETURN,
    /// as in Core.
    pub fn decode(cursor: &mut Cursor) -> Result<Self, ParseError> {
        let start = cursor.position();
        let tag = cursor.varint()?;
        if tag > u64::from(u32::MAX) {
            return Err(ParseError {
                offset: start,
                what: "the length of the script has more than 32 bits",
            });
        }
        if tag < SPECIAL_TYPES {
            let payload = cursor.take(inline_len(tag as u8) - 1)?;
            let mut inline = [0; INLINE_BYTES];
            inline[0] = tag as u8;
            inline[1..=payload.len()].copy_from_slice(payload);
            return Ok(Self(Repr::Inline(inline)));
        }
        let script = cursor.take((tag - SPECIAL_TYPES) as usize)?;
        if script.len() > MAX_SCRIPT_BYTES {
            return Ok(Self::raw_form(&[OP_RETURN]));
        }
        Ok(Self::raw_form(script))
    }

    /// Returns the compressed form, as it is on disk.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(bytes) => &bytes[..inline_len(bytes[0])],
            Repr::Boxed(bytes) => bytes,
        }
    }

    /// Returns the script if it is of no special type, so that its compressed form contains it.
    #[inline]
    pub fn as_raw(&self) -> Option<&[u8]> {
        raw_script(self.as_bytes())
    }

    /// Appends the uncompressed script. If there is no point on the curve with the X coordinate of
    /// type 4 or 5, nothing is appended: Core reads the empty script.
    pub fn decompress_into(&self, out: &mut Vec<u8>) {
        decompress_into(self.as_bytes(), out);
    }

    /// Returns the uncompressed script.
    pub fn to_script(&self) -> Vec<u8> {
        let mut script = Vec::with_capacity(self.script_len());
        self.decompress_into(&mut script);
        script
    }

    /// Returns the length of the uncompressed script, if the X coordinate of type 4 or 5 is valid.
    pub fn script_len(&self) -> usize {
        script_len(self.as_bytes())
    }

    /// Returns whether an output with this script can never be spent ([`is_unspendable`]).
    #[inline]
    pub fn is_unspendable(&self) -> bool {
        match &self.0 {
            Repr::Inline(bytes) => bytes[0] > SPECIAL_TYPES as u8 && bytes[1] == OP_RETURN,
            Repr::Boxed(bytes) => raw_script(bytes).is_some_and(is_unspendable),
        }
    }

    /// Returns the form of a script that is not of a special type.
    fn raw_form(script: &[u8]) -> Self {
        let tag = script.len() as u64 + SPECIAL_TYPES;
        if script.len() < INLINE_BYTES {
            let mut inline = [0; INLINE_BYTES];
            inline[0] = tag as u8;
            inline[1..=script.len()].copy_from_slice(script);
            return Self(Repr::Inline(inline));
        }
        let mut bytes = Vec::with_capacity(varint_len(tag) + script.len());
        put_varint(&mut bytes, tag);
        bytes.extend_from_slice(script);
        Self(Repr::Boxed(bytes.into_boxed_slice()))
    }

    /// Returns the stored bytes.
    #[inline]
    pub(super) fn repr(&self) -> &Repr {
        &self.0
    }

    /// Returns the script with these stored bytes.
    #[inline]
    pub(super) fn from_repr(repr: Repr) -> Self {
        Self(repr)
    }
}

/// Compresses a scriptPubKey into `out`, whose content is replaced and whose memory is reused.
pub fn compress_script<'a>(script: &[u8], out: &'a mut Vec<u8>) -> &'a [u8] {
    out.clear();
    match special_form(script) {
        Some(form) => out.extend_from_slice(inline_bytes(&form)),
        None => {
            put_varint(out, script.len() as u64 + SPECIAL_TYPES);
            out.extend_from_slice(script);
        }
    }
    out
}

/// Returns the length of Core's compressed form of a scriptPubKey, if `bytes` start with it.
#[inline]
pub(super) fn starts_with_form(bytes: &[u8], script: &[u8]) -> Option<usize> {
    if let Some(form) = special_form(script) {
        let form = inline_bytes(&form);
        return bytes.starts_with(form).then_some(form.len());
    }
    let mut cursor = Cursor::new(bytes);
    let is_length = cursor.varint() == Ok(script.len() as u64 + SPECIAL_TYPES);
    let start = cursor.position();
    (is_length && bytes[start..].starts_with(script)).then_some(start + script.len())
}

/// Writes the compressed form of a scriptPubKey to the start of `out`, which must have
/// [`VARINT_BYTES_MAX`](apus_wire::VARINT_BYTES_MAX) bytes more than the script, and returns its
/// length.
#[inline]
pub fn put_compressed_script_at(out: &mut [u8], script: &[u8]) -> usize {
    match special_form(script) {
        Some(form) => {
            let bytes = inline_bytes(&form);
            put_short(out, bytes);
            bytes.len()
        }
        None => {
            let len = put_varint_at(out, script.len() as u64 + SPECIAL_TYPES);
            put_short(&mut out[len..], script);
            len + script.len()
        }
    }
}

/// Returns the compressed form of a script, if it is of a special type.
#[inline]
fn special_form(script: &[u8]) -> Option<[u8; INLINE_BYTES]> {
    let mut inline = [0; INLINE_BYTES];
    match *script {
        [OP_DUP, OP_HASH160, 20, ref hash @ .., OP_EQUALVERIFY, OP_CHECKSIG]
            if hash.len() == 20 =>
        {
            inline[1..21].copy_from_slice(hash);
        }
        [OP_HASH160, 20, ref hash @ .., OP_EQUAL] if hash.len() == 20 => {
            inline[0] = 1;
            inline[1..21].copy_from_slice(hash);
        }
        [33, parity @ (2 | 3), ref x @ .., OP_CHECKSIG] if x.len() == 32 => {
            inline[0] = parity;
            inline[1..33].copy_from_slice(x);
        }
        [65, 4, ref xy @ .., OP_CHECKSIG]
            if xy.len() == 64 && PublicKey::from_slice(&script[1..66]).is_ok() =>
        {
            inline[0] = 4 | (xy[63] & 1);
            inline[1..33].copy_from_slice(&xy[..32]);
        }
        _ => return None,
    }
    Some(inline)
}

/// Returns the used part of the bytes of an inline script.
#[inline]
pub(super) fn inline_bytes(bytes: &[u8; INLINE_BYTES]) -> &[u8] {
    &bytes[..inline_len(bytes[0])]
}

/// Reads a compressed script as it is, without a length limit.
#[inline]
pub fn take_compressed<'a>(cursor: &mut Cursor<'a>) -> Result<Compressed<'a>, ParseError> {
    match cursor.varint()? {
        tag if tag < SPECIAL_TYPES => {
            cursor.take(inline_len(tag as u8) - 1)?;
            Ok(if tag == 1 { Compressed::P2sh } else { Compressed::PublicKey })
        }
        tag => {
            let len = usize::try_from(tag - SPECIAL_TYPES).unwrap_or(usize::MAX);
            Ok(Compressed::Script(cursor.take(len)?))
        }
    }
}

/// The content of a compressed script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compressed<'a> {
    /// P2SH.
    P2sh,
    /// P2PKH or P2PK.
    PublicKey,
    /// Any script; it may be of a special type if the writer did not compress it.
    Script(&'a [u8]),
}

/// Returns the script after its VARINT; `None` for the special types.
fn raw_script(compressed: &[u8]) -> Option<&[u8]> {
    let mut cursor = Cursor::new(compressed);
    match cursor.varint() {
        Ok(tag) if tag >= SPECIAL_TYPES => compressed.get(cursor.position()..),
        _ => None,
    }
}

fn script_len(compressed: &[u8]) -> usize {
    match compressed.first() {
        Some(0) => 25,
        Some(1) => 23,
        Some(2 | 3) => 35,
        Some(4 | 5) => 67,
        _ => raw_script(compressed).map_or(0, <[u8]>::len),
    }
}

/// Appends the script with this compressed form.
pub(super) fn decompress_into(compressed: &[u8], out: &mut Vec<u8>) {
    match *compressed {
        [0, ref hash @ ..] => {
            out.extend_from_slice(&[OP_DUP, OP_HASH160, 20]);
            out.extend_from_slice(hash);
            out.extend_from_slice(&[OP_EQUALVERIFY, OP_CHECKSIG]);
        }
        [1, ref hash @ ..] => {
            out.extend_from_slice(&[OP_HASH160, 20]);
            out.extend_from_slice(hash);
            out.push(OP_EQUAL);
        }
        [parity @ (2 | 3), ref x @ ..] => {
            out.extend_from_slice(&[33, parity]);
            out.extend_from_slice(x);
            out.push(OP_CHECKSIG);
        }
        [tag @ (4 | 5), ref x @ ..] => {
            let mut key = [tag - 2; 33];
            key[1..].copy_from_slice(x);
            if let Ok(key) = PublicKey::from_slice(&key) {
                out.push(65);
                out.extend_from_slice(&key.serialize_uncompressed());
                out.push(OP_CHECKSIG);
            }
        }
        _ => out.extend_from_slice(raw_script(compressed).unwrap_or_default()),
    }
}

impl fmt::Debug for CompactScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompactScript(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}
