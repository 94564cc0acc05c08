//! Output scripts as Bitcoin Core describes them: type, address, descriptor and disassembly.

use apus_descriptors::{address, with_checksum};
use apus_wire::{Chain, Ops, is_unspendable};
use bitcoin::{Script, XOnlyPublicKey};
use serde::Serialize;

use super::json::hex;
use super::opcodes::put_name;

const OP_RETURN: u8 = 0x6a;
const OP_CHECKSIG: u8 = 0xac;
const OP_CHECKMULTISIG: u8 = 0xae;
/// The greatest opcode that pushes the bytes after it (OP_PUSHDATA4), and that pushes anything
/// (OP_16).
const OP_PUSHDATA4: u8 = 0x4e;
const OP_16: u8 = 0x60;
/// The largest number of keys of a multisignature script (Core's `MAX_PUBKEYS_PER_MULTISIG`).
const MULTISIG_KEYS_MAX: u8 = 20;

/// An output script (Core's `ScriptToUniv`).
#[derive(Serialize)]
pub struct ScriptPubKey {
    asm: String,
    desc: String,
    hex: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl ScriptPubKey {
    /// Describes an output script of a network.
    pub fn new(script: &[u8], chain: Chain) -> Self {
        let kind = ScriptKind::of(script);
        let address = kind.has_address().then(|| address(script, chain)).flatten();
        Self {
            asm: asm(script, false),
            desc: descriptor(script, &kind, address.as_deref()),
            hex: hex(script),
            address,
            kind: kind.name(),
        }
    }
}

/// The type of an output script (Core's `TxoutType`), with the keys that descriptors name.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ScriptKind<'a> {
    NonStandard,
    PubKey(&'a [u8]),
    PubKeyHash,
    ScriptHash,
    Multisig { required: u8, keys: Vec<&'a [u8]> },
    NullData,
    Anchor,
    WitnessV0KeyHash,
    WitnessV0ScriptHash,
    WitnessV1Taproot(&'a [u8]),
    WitnessUnknown,
}

impl<'a> ScriptKind<'a> {
    /// Finds the type (Core's `Solver`).
    fn of(script: &'a [u8]) -> Self {
        let known = Script::from_bytes(script);
        if known.is_p2sh() {
            return Self::ScriptHash;
        }
        match script {
            [0, 20, program @ ..] if program.len() == 20 => return Self::WitnessV0KeyHash,
            [0, 32, program @ ..] if program.len() == 32 => return Self::WitnessV0ScriptHash,
            [0x51, 32, program @ ..] if program.len() == 32 => {
                return Self::WitnessV1Taproot(program);
            }
            [0x51, 2, 0x4e, 0x73] => return Self::Anchor,
            [0x51..=0x60, len @ 2..=40, program @ ..] if program.len() == usize::from(*len) => {
                return Self::WitnessUnknown;
            }
            [OP_RETURN, rest @ ..] if is_push_only(rest) => return Self::NullData,
            [33, key @ .., OP_CHECKSIG] if key.len() == 33 && is_key(key) => {
                return Self::PubKey(key);
            }
            [65, key @ .., OP_CHECKSIG] if key.len() == 65 && is_key(key) => {
                return Self::PubKey(key);
            }
            _ if known.is_p2pkh() => return Self::PubKeyHash,
            _ => {}
        }
        multisig(script).unwrap_or(Self::NonStandard)
    }

    /// Returns Core's name of the type (`GetTxnOutputType`).
    fn name(&self) -> &'static str {
        match self {
            Self::NonStandard => "nonstandard",
            Self::PubKey(_) => "pubkey",
            Self::PubKeyHash => "pubkeyhash",
            Self::ScriptHash => "scripthash",
            Self::Multisig { .. } => "multisig",
            Self::NullData => "nulldata",
            Self::Anchor => "anchor",
            Self::WitnessV0KeyHash => "witness_v0_keyhash",
            Self::WitnessV0ScriptHash => "witness_v0_scripthash",
            Self::WitnessV1Taproot(_) => "witness_v1_taproot",
            Self::WitnessUnknown => "witness_unknown",
        }
    }

    /// Returns whether an address stands for scripts of this type (Core's `ExtractDestination`).
    fn has_address(&self) -> bool {
        let has_none = matches!(
            self,
            Self::NonStandard | Self::PubKey(_) | Self::Multisig { .. } | Self::NullData
        );
        !has_none
    }
}

fn is_push_only(script: &[u8]) -> bool {
    let mut ops = Ops::new(script);
    ops.all(|op| op.code <= OP_16) && !ops.truncated
}

/// Returns whether bytes have the size of the public key that their first byte announces (Core's
/// `CPubKey::ValidSize`).
fn is_key(bytes: &[u8]) -> bool {
    matches!((bytes.first(), bytes.len()), (Some(2 | 3), 33) | (Some(4 | 6 | 7), 65))
}

/// Recognises a script that requires some of several signatures (Core's `MatchMultisig`).
fn multisig(script: &[u8]) -> Option<ScriptKind<'_>> {
    if script.last() != Some(&OP_CHECKMULTISIG) {
        return None;
    }
    // The only minimal pushes of numbers up to 20 are OP_1 to OP_16, and one byte for 17 to 20.
    let number = |op: apus_wire::Op| match (op.code, op.data) {
        (code @ 0x51..=OP_16, _) => Some(code - 0x50),
        (1, &[number @ 17..=MULTISIG_KEYS_MAX]) => Some(number),
        _ => None,
    };
    let mut ops = Ops::new(script);
    let required = number(ops.next()?)?;
    let mut keys = Vec::new();
    let count = loop {
        let op = ops.next()?;
        if !is_key(op.data) {
            break number(op)?;
        }
        keys.push(op.data);
    };
    let is_whole = ops.next()?.code == OP_CHECKMULTISIG && ops.next().is_none();
    let fits = is_whole && count >= required && keys.len() == usize::from(count);
    fits.then_some(ScriptKind::Multisig { required, keys })
}

/// Returns the descriptor of a script, as far as the script alone tells (Core's `InferDescriptor`
/// without keys).
fn descriptor(script: &[u8], kind: &ScriptKind, address: Option<&str>) -> String {
    // Hybrid keys, which begin with 6 or 7, have no descriptor.
    let is_plain = |key: &[u8]| matches!(key.first(), Some(2..=4));
    let text = match kind {
        ScriptKind::PubKey(key) if is_plain(key) => format!("pk({})", hex(key)),
        ScriptKind::Multisig { required, keys } if keys.iter().all(|key| is_plain(key)) => {
            let keys: Vec<String> = keys.iter().map(|key| hex(key)).collect();
            format!("multi({required},{})", keys.join(","))
        }
        ScriptKind::WitnessV1Taproot(key) if XOnlyPublicKey::from_slice(key).is_ok() => {
            format!("rawtr({})", hex(key))
        }
        _ => match address {
            Some(address) => format!("addr({address})"),
            None => format!("raw({})", hex(script)),
        },
    };
    with_checksum(text)
}

/// Returns the disassembly of a script (Core's `ScriptToAsmStr`). With `has_signatures`, the
/// signature hash types of what looks like signatures are shown by name.
pub fn asm(script: &[u8], has_signatures: bool) -> String {
    let shows_types = has_signatures && !is_unspendable(script);
    let mut text = String::with_capacity(2 * script.len() + 16);
    let mut ops = Ops::new(script);
    for op in ops.by_ref() {
        if !text.is_empty() {
            text.push(' ');
        }
        match op.data {
            _ if op.code > OP_PUSHDATA4 => put_name(&mut text, op.code),
            data if data.len() <= 4 => text += &number(data).to_string(),
            data => match signature_type(data).filter(|_| shows_types) {
                Some(name) => {
                    text += &hex(&data[..data.len() - 1]);
                    text += &format!("[{name}]");
                }
                None => text += &hex(data),
            },
        }
    }
    if ops.truncated {
        text += if text.is_empty() { "[error]" } else { " [error]" };
    }
    text
}

/// Returns the number that at most four bytes stand for in a script (Core's `CScriptNum`).
fn number(bytes: &[u8]) -> i64 {
    let Some((last, _)) = bytes.split_last() else { return 0 };
    let mut value: i64 = bytes.iter().rev().fold(0, |sum, byte| sum << 8 | i64::from(*byte));
    if last & 0x80 != 0 {
        value &= !(0x80 << (8 * (bytes.len() - 1)));
        value = -value;
    }
    value
}

/// Returns the name of the signature hash type at the end of a signature in strict DER; `None` if
/// the bytes are no such signature, or its type is not defined (Core's `CheckSignatureEncoding`).
fn signature_type(bytes: &[u8]) -> Option<&'static str> {
    let (kind, der) = bytes.split_last()?;
    let name = match kind {
        0x01 => "ALL",
        0x02 => "NONE",
        0x03 => "SINGLE",
        0x81 => "ALL|ANYONECANPAY",
        0x82 => "NONE|ANYONECANPAY",
        0x83 => "SINGLE|ANYONECANPAY",
        _ => return None,
    };
    let [0x30, len, rest @ ..] = der else { return None };
    let (_, rest) =
        integer(rest).filter(|_| bytes.len() <= 73 && rest.len() == usize::from(*len))?;
    integer(rest).filter(|(_, rest)| rest.is_empty()).map(|_| name)
}

/// Splits off a positive integer in strict DER.
fn integer(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let [2, len, rest @ ..] = der else { return None };
    let (number, rest) = rest.split_at_checked(usize::from(*len))?;
    let is_strict = match number {
        [] => false,
        [0, second, ..] => *second & 0x80 != 0,
        [first, ..] => *first & 0x80 == 0,
    };
    is_strict.then_some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disassembly_is_cores() {
        let sig = [&[0x30, 6, 2, 1, 1, 2, 1, 1][..], &[0x81]].concat();
        let push = [&[sig.len() as u8][..], &sig].concat();
        for (script, signatures, expected) in [
            (&[][..], false, ""),
            (&[0, 0x51, 0x4f, 0x76][..], false, "0 1 -1 OP_DUP"),
            (&[2, 0xff, 0x80, 1, 0x80][..], false, "-255 0"),
            (&[4, 0xff, 0xff, 0xff, 0xff][..], false, "-2147483647"),
            (&[5, 1, 2, 3, 4, 5, 3, 1][..], false, "0102030405 [error]"),
            (&[3, 1][..], false, "[error]"),
            (&push[..], true, "3006020101020101[ALL|ANYONECANPAY]"),
            (&push[..], false, "300602010102010181"),
            (&[&[0x6a][..], &push].concat(), true, "OP_RETURN 300602010102010181"),
        ] {
            assert_eq!(asm(script, signatures), expected);
        }
        for wrong in [
            [0x30, 6, 2, 1, 0x81, 2, 1, 1, 1],
            [0x30, 6, 2, 1, 1, 2, 1, 1, 4],
            [0x30, 5, 2, 1, 1, 2, 1, 1, 1],
            [0x30, 6, 2, 2, 0, 1, 2, 0, 1],
        ] {
            assert_eq!(signature_type(&wrong), None);
        }
    }

    #[test]
    fn types_are_cores() {
        let of = |start: &[u8], fill: (u8, usize), end: &[u8]| {
            let script = [start, &vec![fill.0; fill.1], end].concat();
            ScriptKind::of(&script).name()
        };
        assert_eq!(of(&[0x76, 0xa9, 20], (0, 20), &[0x88, 0xac]), "pubkeyhash");
        assert_eq!(of(&[0xa9, 20], (0, 20), &[0x87]), "scripthash");
        assert_eq!(of(&[0, 20], (0, 20), &[]), "witness_v0_keyhash");
        assert_eq!(of(&[0, 32], (0, 32), &[]), "witness_v0_scripthash");
        assert_eq!(of(&[0, 31], (0, 31), &[]), "nonstandard");
        assert_eq!(of(&[0x51, 32], (0, 32), &[]), "witness_v1_taproot");
        assert_eq!(of(&[0x51, 2, 0x4e, 0x73], (0, 0), &[]), "anchor");
        assert_eq!(of(&[0x52, 40], (0, 40), &[]), "witness_unknown");
        assert_eq!(of(&[0x6a, 1], (0, 1), &[]), "nulldata");
        assert_eq!(of(&[0x6a, 2], (0, 1), &[]), "nonstandard");
        assert_eq!(of(&[33], (2, 33), &[0xac]), "pubkey");
        assert_eq!(of(&[33], (4, 33), &[0xac]), "nonstandard");
        assert_eq!(of(&[0x51, 33], (2, 33), &[0x51, 0xae]), "multisig");
        assert_eq!(of(&[0x52, 33], (2, 33), &[0x51, 0xae]), "nonstandard");
        assert_eq!(of(&[0x51, 33], (2, 33), &[1, 1, 0xae]), "nonstandard");
    }
}
