//! Output scripts as Bitcoin Core describes them: type, address, descriptor and disassembly.

use apus_descriptors::{Provider, ScriptKind, address, infer};
use apus_wire::{Chain, Ops, is_unspendable};
use serde::Serialize;

use super::json::hex;
use super::opcodes::put_name;

/// The greatest opcode that pushes the bytes after it.
const OP_PUSHDATA4: u8 = 0x4e;

/// An output script (Core's `ScriptToUniv`).
#[derive(Serialize)]
pub struct ScriptPubKey {
    asm: String,
    desc: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl ScriptPubKey {
    /// Describes an output script of a network.
    pub fn new(script: &[u8], chain: Chain) -> Self {
        Self::solved(script, chain, &Provider::default())
    }

    /// Describes an output script of which `provider` may tell more.
    pub fn solved(script: &[u8], chain: Chain, provider: &Provider) -> Self {
        let kind = ScriptKind::of(script);
        let address = kind.has_address().then(|| address(script, chain)).flatten();
        Self {
            asm: asm(script, false),
            desc: infer(script, address.as_deref(), provider),
            hex: Some(hex(script)),
            address,
            kind: kind.name(),
        }
    }

    /// Returns the same, without the bytes.
    pub fn without_hex(self) -> Self {
        Self { hex: None, ..self }
    }
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
}
