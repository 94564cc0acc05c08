use apus_wire::Ops;
use apus_wire::opcodes::{OP_1, OP_16, OP_CHECKMULTISIG, OP_CHECKSIG, OP_RETURN};
use bitcoin::Script;

/// The largest number of keys of a multisignature script (Core's `MAX_PUBKEYS_PER_MULTISIG`).
const MULTISIG_KEYS_MAX: u8 = 20;

/// The type of an output script (Core's `TxoutType`), with the keys that descriptors name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScriptKind<'a> {
    /// None of those below.
    NonStandard,
    /// Pays to a key.
    PubKey(&'a [u8]),
    /// Pays to the hash of a key.
    PubKeyHash,
    /// Pays to the hash of a script.
    ScriptHash,
    /// Pays to some of several keys.
    Multisig {
        /// The number of signatures.
        required: u8,
        /// The keys.
        keys: Vec<&'a [u8]>,
    },
    /// Carries data, and cannot be spent.
    NullData,
    /// Pays to anyone (`P2A`).
    Anchor,
    /// Pays to the hash of a key, with a witness.
    WitnessV0KeyHash,
    /// Pays to the hash of a script, with a witness.
    WitnessV0ScriptHash,
    /// Pays to an output key of taproot.
    WitnessV1Taproot(&'a [u8]),
    /// Has a witness that no rule is about.
    WitnessUnknown,
}

impl<'a> ScriptKind<'a> {
    /// Finds the type (Core's `Solver`).
    pub fn of(script: &'a [u8]) -> Self {
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
    pub fn name(&self) -> &'static str {
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
    pub fn has_address(&self) -> bool {
        let has_none = matches!(
            self,
            Self::NonStandard | Self::PubKey(_) | Self::Multisig { .. } | Self::NullData
        );
        !has_none
    }
}

fn is_push_only(script: &[u8]) -> bool {
    let mut ops = Ops::new(script);
    // OP_16 is the greatest opcode that pushes anything.
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
        (code @ OP_1..=OP_16, _) => Some(code - 0x50),
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

#[cfg(test)]
mod tests {
    use super::*;

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
