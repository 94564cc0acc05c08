//! `validateaddress`: what an address stands for, or where it is wrong (Core's `key_io.cpp` and
//! `bech32.cpp`).

use apus_wire::Chain;
use bitcoin::base58;
use serde::Serialize;

use super::error::RpcError;
use super::json::{Json, hex, json};
use super::params;
use super::source::Call;

/// The characters of Bech32, in the order of their values (BIP173).
const CHARACTERS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
/// The constant of Bech32's checksum (BIP173).
const BECH32: u32 = 1;
/// The constant of Bech32m's checksum (BIP350).
const BECH32M: u32 = 0x2bc8_30a3;
const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
const CHECKSUM_CHARS: usize = 6;
/// The most characters of an address in Bech32.
const CHARS_MAX: usize = 90;
/// The most bytes of Base58 that Core decodes to tell what is wrong.
const BASE58_BYTES_MAX: usize = 100;
/// The most characters that `n` bytes can have. The time to decode grows with their square.
const BASE58_CHARS_MAX: usize = 137;
/// The most bytes of a witness program (BIP141).
const PROGRAM_BYTES_MAX: usize = 40;

/// The destination of an address.
#[derive(PartialEq, Eq, Debug)]
enum Destination {
    PubKeyHash([u8; 20]),
    ScriptHash([u8; 20]),
    Witness { version: u8, program: Vec<u8> },
}

/// Why a text is no address, and which of its characters are wrong.
type Wrong = (String, Vec<usize>);

#[derive(Serialize)]
struct Valid {
    isvalid: bool,
    address: String,
    #[serde(rename = "scriptPubKey")]
    script: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    isscript: Option<bool>,
    iswitness: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    witness_version: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    witness_program: Option<String>,
}

#[derive(Serialize)]
struct Invalid {
    isvalid: bool,
    error_locations: Vec<usize>,
    error: String,
}

/// `validateaddress`.
pub fn validateaddress(call: &Call) -> Result<Json, RpcError> {
    let chain = call.source.chain();
    Ok(match decode(params::text(call.param(0))?, chain) {
        Ok(destination) => json(&destination.describe(chain)),
        Err((error, error_locations)) => json(&Invalid { isvalid: false, error_locations, error }),
    })
}

impl Destination {
    fn script(&self) -> Vec<u8> {
        match self {
            Self::PubKeyHash(hash) => [&[0x76, 0xa9, 20], &hash[..], &[0x88, 0xac]].concat(),
            Self::ScriptHash(hash) => [&[0xa9, 20], &hash[..], &[0x87]].concat(),
            Self::Witness { version, program } => {
                let code = if *version == 0 { 0 } else { 0x50 + version };
                [&[code, program.len() as u8], &program[..]].concat()
            }
        }
    }

    fn describe(&self, chain: Chain) -> Valid {
        let script = self.script();
        let (isscript, witness) = match self {
            Self::PubKeyHash(_) => (Some(false), None),
            Self::ScriptHash(_) => (Some(true), None),
            Self::Witness { version: 0, program } => {
                (Some(program.len() == 32), Some((0, program)))
            }
            // Pay to anchor.
            Self::Witness { version: 1, program } if program[..] == [0x4e, 0x73] => {
                (Some(true), None)
            }
            Self::Witness { version: 1, program } if program.len() == 32 => {
                (Some(true), Some((1, program)))
            }
            Self::Witness { version, program } => (None, Some((*version, program))),
        };
        Valid {
            isvalid: true,
            address: apus_descriptors::address(&script, chain).unwrap_or_default(),
            script: hex(&script),
            isscript,
            iswitness: matches!(self, Self::Witness { .. }),
            witness_version: witness.map(|(version, _)| version),
            witness_program: witness.map(|(_, program)| hex(program)),
        }
    }
}

/// Returns the part of addresses in Bech32 before the separator, and the first bytes of those in
/// Base58 that stand for the hash of a key, and of a script.
fn prefixes(chain: Chain) -> (&'static str, u8, u8) {
    match chain {
        Chain::Main => ("bc", 0, 5),
        Chain::Test | Chain::Testnet4 | Chain::Signet => ("tb", 111, 196),
        Chain::Regtest => ("bcrt", 111, 196),
    }
}

/// Decodes an address of a network (Core's `DecodeDestination`).
fn decode(text: &str, chain: Chain) -> Result<Destination, Wrong> {
    let (hrp, of_key, of_script) = prefixes(chain);
    let start = text.as_bytes().get(..hrp.len());
    if start.is_some_and(|start| start.eq_ignore_ascii_case(hrp.as_bytes())) {
        return segwit(text, hrp);
    }
    let wrong = |what: &str| Err((what.to_string(), Vec::new()));
    let text = Some(text.trim_matches(is_space)).filter(|text| text.len() <= BASE58_CHARS_MAX);
    // Core decodes at most 21 bytes.
    let decoded = text.and_then(|text| base58::decode_check(text).ok());
    let Some(bytes) = decoded.filter(|bytes| bytes.len() <= 21) else {
        let decoded = text.and_then(|text| base58::decode(text).ok());
        return wrong(if decoded.is_some_and(|bytes| bytes.len() <= BASE58_BYTES_MAX) {
            "Invalid checksum or length of Base58 address (P2PKH or P2SH)"
        } else {
            "Invalid or unsupported Segwit (Bech32) or Base58 encoding."
        });
    };
    let hash = bytes.get(1..).and_then(|hash| <[u8; 20]>::try_from(hash).ok());
    match (bytes.first(), hash) {
        (Some(first), Some(hash)) if *first == of_key => Ok(Destination::PubKeyHash(hash)),
        (Some(first), Some(hash)) if *first == of_script => Ok(Destination::ScriptHash(hash)),
        (Some(first), _) if [of_key, of_script].contains(first) => {
            wrong("Invalid length for Base58 address (P2PKH or P2SH)")
        }
        _ => wrong("Invalid or unsupported Base58-encoded address."),
    }
}

/// Whether Core leaves a character out at the ends of Base58 (its `IsSpace`).
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\x0c' | '\n' | '\r' | '\t' | '\x0b')
}

/// Decodes an address in Bech32 or Bech32m.
fn segwit(text: &str, expected: &str) -> Result<Destination, Wrong> {
    let wrong = |what: String| Err((what, Vec::new()));
    let (hrp, values, kind) = bech32(text)?;
    let Some((version, symbols)) = values.split_first() else {
        return wrong("Empty Bech32 data section".to_string());
    };
    if hrp != expected {
        return wrong(format!(
            "Invalid or unsupported prefix for Segwit (Bech32) address (expected {expected}, got \
             {hrp})."
        ));
    }
    let version = *version;
    if version == 0 && kind != BECH32 {
        return wrong("Version 0 witness address must use Bech32 checksum".to_string());
    }
    if version != 0 && kind != BECH32M {
        return wrong("Version 1+ witness address must use Bech32m checksum".to_string());
    }
    let Some(program) = bytes(symbols) else {
        return wrong("Invalid padding in Bech32 data section".to_string());
    };
    let len = program.len();
    let unit = if len == 1 { "byte" } else { "bytes" };
    match (version, len) {
        (0, 20 | 32) | (1, 32) => Ok(Destination::Witness { version, program }),
        (0, _) => {
            wrong(format!("Invalid Bech32 v0 address program size ({len} {unit}), per BIP141"))
        }
        (17.., _) => wrong("Invalid Bech32 address witness version".to_string()),
        (_, 2..=PROGRAM_BYTES_MAX) => Ok(Destination::Witness { version, program }),
        _ => wrong(format!("Invalid Bech32 address program size ({len} {unit})")),
    }
}

/// Returns the bytes of symbols of 5 bits; `None` if the bits that are left are not fewer than 5
/// zeros.
fn bytes(symbols: &[u8]) -> Option<Vec<u8>> {
    let mut bits = 0_u32;
    let mut count = 0;
    let mut bytes = Vec::new();
    for symbol in symbols {
        bits = bits << 5 | u32::from(*symbol);
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
        bits &= (1 << count) - 1;
    }
    (count < 5 && bits == 0).then_some(bytes)
}

/// Returns prefix and values of a text, without the checksum, and which checksum it is (Core's
/// `Decode` and `LocateErrors`).
fn bech32(text: &str) -> Result<(String, Vec<u8>, u32), Wrong> {
    let chars = text.as_bytes();
    let wrong = |what: &str, at: Vec<usize>| Err((what.to_string(), at));
    if chars.len() > CHARS_MAX {
        return wrong("Bech32 string too long", (CHARS_MAX..chars.len()).collect());
    }
    let odd = odd_characters(chars);
    if !odd.is_empty() {
        return wrong("Invalid character or mixed case", odd);
    }
    let Some(separator) = chars.iter().rposition(|c| *c == b'1') else {
        return wrong("Missing separator", Vec::new());
    };
    if separator == 0 || separator + CHECKSUM_CHARS >= chars.len() {
        return wrong("Invalid separator position", vec![separator]);
    }
    let hrp = text[..separator].to_ascii_lowercase();
    let mut values = Vec::new();
    for (at, c) in chars.iter().enumerate().skip(separator + 1) {
        match CHARACTERS.iter().position(|known| *known == c.to_ascii_lowercase()) {
            Some(value) => values.push(value as u8),
            None => return wrong("Invalid Base 32 character", vec![at]),
        }
    }
    let checksum = checksum(&hrp, &values);
    if [BECH32, BECH32M].contains(&checksum) {
        values.truncate(values.len() - CHECKSUM_CHARS);
        return Ok((hrp, values, checksum));
    }
    let [plain, modified] =
        [BECH32, BECH32M].map(|kind| located(checksum ^ kind, values.len(), chars.len()));
    let is_modified = plain.is_empty() || !modified.is_empty() && modified.len() < plain.len();
    let (what, at) = match (is_modified, plain.is_empty() && modified.is_empty()) {
        (_, true) => ("Invalid checksum", Vec::new()),
        (true, _) => ("Invalid Bech32m checksum", modified),
        (false, _) => ("Invalid Bech32 checksum", plain),
    };
    wrong(what, at)
}

/// Returns the places of characters that are not printable, or in another case than the first
/// letter (Core's `CheckCharacters`).
fn odd_characters(chars: &[u8]) -> Vec<usize> {
    let mut has_lower = false;
    let mut has_upper = false;
    let mut odd = Vec::new();
    for (at, c) in chars.iter().enumerate() {
        let is_odd = match c {
            b'a'..=b'z' => {
                has_lower |= !has_upper;
                has_upper
            }
            b'A'..=b'Z' => {
                has_upper |= !has_lower;
                has_lower
            }
            33..=126 => false,
            _ => true,
        };
        odd.extend(is_odd.then_some(at));
    }
    odd
}

/// Takes five more bits into a checksum.
fn step(sum: u32, value: u8) -> u32 {
    let shifted = (sum & 0x1ff_ffff) << 5 ^ u32::from(value);
    let taps = GENERATOR.iter().enumerate().filter(|(bit, _)| sum >> (25 + bit) & 1 == 1);
    taps.fold(shifted, |sum, (_, tap)| sum ^ tap)
}

/// Returns what the checksum of a text gives (BIP173).
fn checksum(hrp: &str, values: &[u8]) -> u32 {
    let high = hrp.bytes().map(|c| c >> 5);
    let low = hrp.bytes().map(|c| c & 31);
    high.chain([0]).chain(low).chain(values.iter().copied()).fold(1, step)
}

/// Returns the places of one or two characters of which others make the checksum right; none if
/// there are none. `residue` is what the checksum gives too much, `values` the number of characters
/// after the separator, and `chars` that of all.
fn located(residue: u32, values: usize, chars: usize) -> Vec<usize> {
    // What an error adds to the checksum does not depend on the other characters.
    let mut errors = std::collections::BTreeMap::new();
    for value in 1..32_u32 {
        let mut sum = value;
        for from_end in 0..values {
            errors.insert(sum, from_end);
            sum = step(sum, 0);
        }
    }
    let place = |from_end: usize| chars - 1 - from_end;
    if let Some(from_end) = errors.get(&residue) {
        return vec![place(*from_end)];
    }
    // The code tells any two errors from two others.
    let two = errors.iter().find_map(|(sum, at)| Some((*at, *errors.get(&(residue ^ sum))?)));
    two.map_or_else(Vec::new, |(one, other)| vec![place(one.max(other)), place(one.min(other))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> Wrong {
        decode(text, Chain::Main).unwrap_err()
    }

    /// From Core's rpc_validateaddress.py and rpc_invalid_address_message.py.
    #[test]
    fn errors_are_located() {
        for (text, error, at) in [
            ("bc1", "Invalid separator position", vec![2]),
            ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5", "Invalid Bech32 checksum", vec![41]),
            (
                "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8f3T4",
                "Invalid character or mixed case",
                vec![38],
            ),
        ] {
            assert_eq!(wrong(text), (error.to_string(), at), "{text}");
        }
        let right = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
        assert!(decode(right, Chain::Main).is_ok() && decode(right, Chain::Test).is_err());
        for (one, other) in [(4, 5), (4, 41), (20, 30)] {
            let mut text = right.as_bytes().to_vec();
            for at in [one, other] {
                text[at] = if text[at] == b'q' { b'p' } else { b'q' };
            }
            let text = String::from_utf8(text).unwrap();
            assert_eq!(wrong(&text).1, [one, other], "{text}");
        }
    }
}
