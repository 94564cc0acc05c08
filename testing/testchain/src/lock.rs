//! The kinds of output scripts, and the script for a kind and a key.

use bitcoin::hashes::{Hash, hash160, sha256};
use bitcoin::script::ScriptBuf;

use crate::keys::{Keys, Ring};
use crate::odd::{KEYS_MAX, Odd, SIGNATURES_MAX, Template};
use crate::opcodes::{
    OP_1, OP_CHECKLOCKTIMEVERIFY, OP_CHECKSEQUENCEVERIFY, OP_CHECKSIG, OP_DROP, OP_DUP, OP_EQUAL,
    OP_EQUALVERIFY, OP_HASH160, OP_NOP, OP_RETURN,
};
use crate::rng::Rng;

/// The kind of an output's script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Pay to the hash of a compressed key.
    P2pkh,
    /// Pay to the hash of an uncompressed key.
    P2pkhUncompressed,
    /// Pay to a compressed key.
    P2pk,
    /// Pay to an uncompressed key.
    P2pkUncompressed,
    /// Bare 1-of-2 multisig.
    Multisig,
    /// 2-of-3 multisig in P2SH.
    P2shMultisig,
    /// P2WPKH nested in P2SH.
    P2shP2wpkh,
    /// Pay to the witness hash of a key.
    P2wpkh,
    /// 2-of-3 multisig in P2WSH.
    P2wshMultisig,
    /// P2WSH with OP_CHECKLOCKTIMEVERIFY on a height that [`Lock::cltv_height`] gives.
    P2wshCltv,
    /// P2WSH with OP_CHECKSEQUENCEVERIFY on the blocks that [`Lock::csv_blocks`] gives.
    P2wshCsv,
    /// Taproot without scripts, spent with its key.
    P2trKey,
    /// Taproot with one leaf, spent through it.
    P2trScript,
    /// Pay to anchor: `OP_1 <4e73>`.
    Anchor,
    /// `OP_TRUE`.
    OpTrue,
    /// No script at all.
    Empty,
    /// `OP_RETURN` and 8 to 75 bytes: never a coin.
    OpReturn,
    /// 10,001 bytes of OP_NOP: larger than any script that may run, so never a coin.
    Oversized,
    /// A script, or a way to spend it, that is rare on mainnet: [`Lock::template`] says which.
    Odd,
}

/// Number of kinds.
pub const KINDS: usize = 19;

/// Every kind, in the order of its number.
pub const ALL_KINDS: [Kind; KINDS] = [
    Kind::P2pkh,
    Kind::P2pkhUncompressed,
    Kind::P2pk,
    Kind::P2pkUncompressed,
    Kind::Multisig,
    Kind::P2shMultisig,
    Kind::P2shP2wpkh,
    Kind::P2wpkh,
    Kind::P2wshMultisig,
    Kind::P2wshCltv,
    Kind::P2wshCsv,
    Kind::P2trKey,
    Kind::P2trScript,
    Kind::Anchor,
    Kind::OpTrue,
    Kind::Empty,
    Kind::OpReturn,
    Kind::Oversized,
    Kind::Odd,
];

impl Kind {
    /// Returns whether an output of this kind enters the UTXO set. Core calls the others
    /// unspendable.
    pub fn is_spendable(self) -> bool {
        !matches!(self, Kind::OpReturn | Kind::Oversized)
    }

    /// Returns whether anyone can spend an output of this kind, without a signature.
    pub(crate) fn is_keyless(self) -> bool {
        matches!(self, Kind::Anchor | Kind::OpTrue | Kind::Empty)
    }

    /// Returns the maximum number of keys in a script of this kind.
    pub(crate) fn keys(self) -> u32 {
        match self {
            Kind::Anchor | Kind::OpTrue | Kind::Empty | Kind::OpReturn | Kind::Oversized => 0,
            Kind::Multisig => 2,
            Kind::P2shMultisig | Kind::P2wshMultisig => 3,
            Kind::Odd => KEYS_MAX,
            _ => 1,
        }
    }

    /// Returns the maximum number of signatures in an input of this kind.
    pub(crate) fn signatures(self) -> u32 {
        match self {
            Kind::P2shMultisig | Kind::P2wshMultisig => 2,
            Kind::Odd => SIGNATURES_MAX,
            _ => self.keys().min(1),
        }
    }

    /// Returns the size in bytes of an input that spends this kind, without its witness, and the
    /// size of the witness. They may be up to four bytes off, because signatures vary; for odd
    /// inputs they are means.
    pub(crate) fn input_bytes(self) -> (u64, u64) {
        match self {
            Kind::P2pkh => (148, 1),
            Kind::P2pkhUncompressed => (180, 1),
            Kind::P2pk | Kind::P2pkUncompressed => (113, 1),
            Kind::Multisig => (114, 1),
            Kind::P2shMultisig => (295, 1),
            Kind::P2shP2wpkh => (64, 108),
            Kind::P2wpkh => (41, 108),
            Kind::P2wshMultisig => (41, 253),
            Kind::P2wshCltv | Kind::P2wshCsv => (41, 113),
            Kind::P2trKey => (41, 66),
            Kind::P2trScript => (41, 135),
            Kind::Empty => (42, 1),
            Kind::Odd => (160, 220),
            Kind::Anchor | Kind::OpTrue | Kind::OpReturn | Kind::Oversized => (41, 1),
        }
    }

    /// Returns the size of an output of this kind in bytes; for OP_RETURN and odd outputs the mean
    /// size.
    pub(crate) fn output_bytes(self) -> u64 {
        9 + match self {
            Kind::P2pkh | Kind::P2pkhUncompressed => 25,
            Kind::P2pk => 35,
            Kind::P2pkUncompressed => 67,
            Kind::Multisig => 71,
            Kind::P2shMultisig | Kind::P2shP2wpkh => 23,
            Kind::P2wpkh => 22,
            Kind::P2wshMultisig | Kind::P2wshCltv | Kind::P2wshCsv => 34,
            Kind::P2trKey | Kind::P2trScript => 34,
            Kind::Anchor => 4,
            Kind::OpTrue => 1,
            Kind::Empty => 0,
            Kind::OpReturn => 43,
            Kind::Oversized => 10_003,
            Kind::Odd => 60,
        }
    }

    /// Returns the maximum signature operation cost (BIP 141) of an input that spends this kind.
    pub(crate) fn input_sigops(self) -> u64 {
        match self {
            Kind::P2shMultisig => 12,
            Kind::Odd => 60,
            Kind::P2wshMultisig => 3,
            Kind::P2shP2wpkh | Kind::P2wpkh | Kind::P2wshCltv | Kind::P2wshCsv => 1,
            _ => 0,
        }
    }

    /// Returns the maximum signature operation cost of an output of this kind. Opcodes in pushed
    /// data do not count.
    pub(crate) fn output_sigops(self) -> u64 {
        match self {
            Kind::P2pkh | Kind::P2pkhUncompressed | Kind::P2pk | Kind::P2pkUncompressed => 4,
            Kind::Multisig | Kind::Odd => 80,
            _ => 0,
        }
    }
}

/// A kind and a key, which is all that is kept of an output's script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// The kind of script.
    pub kind: Kind,
    /// The index of the first key. For OP_RETURN, the seed of its data.
    pub key: u32,
}

impl Lock {
    pub fn script(self, keys: &Keys) -> ScriptBuf {
        self.script_of(&keys.ring_of(self.keys().collect()))
    }

    pub(crate) fn script_of(self, keys: &Ring<'_>) -> ScriptBuf {
        let mut script = Vec::with_capacity(80);
        self.write_script(keys, &mut script);
        ScriptBuf::from(script)
    }

    pub(crate) fn keys(self) -> impl Iterator<Item = u32> {
        (0..self.kind.keys()).map(move |i| self.key.wrapping_add(i))
    }

    /// Returns the height before which a [`Kind::P2wshCltv`] output cannot be spent: 1 to 90.
    pub fn cltv_height(self) -> u32 {
        1 + self.key % 90
    }

    /// Returns the number of blocks for which a [`Kind::P2wshCsv`] output cannot be spent: 0 to 7.
    pub fn csv_blocks(self) -> u32 {
        self.key % 8
    }

    /// Returns the name of a [`Kind::Odd`] output's template, one of [`crate::ODD_TEMPLATES`];
    /// `None` for other kinds.
    pub fn template(self) -> Option<&'static str> {
        (self.kind == Kind::Odd).then(|| Template::of(self.key).name)
    }

    /// Returns whether the script has OP_CHECKLOCKTIMEVERIFY, so that a spend needs a height as its
    /// lock time.
    pub(crate) fn needs_lock_time(self) -> bool {
        self.kind == Kind::P2wshCltv || (self.kind == Kind::Odd && Template::of(self.key).is_cltv())
    }

    /// Appends the output script.
    pub(crate) fn write_script(self, keys: &Ring<'_>, out: &mut Vec<u8>) {
        let key = || keys.key(self.key);
        match self.kind {
            Kind::P2pkh => p2pkh(&key().hash33(), out),
            Kind::P2pkhUncompressed => p2pkh(&key().hash65(), out),
            Kind::P2pk => wrap(&[33], &key().pk33(), &[OP_CHECKSIG], out),
            Kind::P2pkUncompressed => wrap(&[65], &key().pk65(), &[OP_CHECKSIG], out),
            Kind::Multisig => out.extend_from_slice(&self.inner_script(keys)),
            Kind::P2shMultisig => {
                let hash = hash160::Hash::hash(&self.inner_script(keys));
                wrap(&[OP_HASH160, 20], hash.as_byte_array(), &[OP_EQUAL], out);
            }
            Kind::P2shP2wpkh => wrap(&[OP_HASH160, 20], &key().sh_wpkh(), &[OP_EQUAL], out),
            Kind::P2wpkh => wrap(&[0, 20], &key().hash33(), &[], out),
            Kind::P2wshMultisig | Kind::P2wshCltv | Kind::P2wshCsv => {
                let hash = sha256::Hash::hash(&self.inner_script(keys));
                wrap(&[0, 32], hash.as_byte_array(), &[], out);
            }
            Kind::P2trKey => wrap(&[OP_1, 32], &key().xonly(), &[], out),
            Kind::P2trScript => wrap(&[OP_1, 32], &key().leaf().output_key, &[], out),
            Kind::Anchor => out.extend_from_slice(&[OP_1, 2, 0x4e, 0x73]),
            Kind::OpTrue => out.push(OP_1),
            Kind::Empty => {}
            Kind::OpReturn => self.write_op_return(out),
            Kind::Oversized => out.resize(out.len() + 10_001, OP_NOP),
            Kind::Odd => Odd::of(self.key, keys).write_script(out),
        }
    }

    /// Returns the indices of the keys that sign; for multisig, a choice of as many as it needs.
    pub(crate) fn signers(self) -> Vec<u32> {
        let mut rng = Rng::new(u64::from(self.key), 5);
        let mut keys: Vec<_> = self.keys().collect();
        while keys.len() > self.kind.signatures() as usize {
            keys.remove(rng.below(keys.len() as u64) as usize);
        }
        keys
    }

    /// Returns the script that the output's hash commits to (redeem script, witness script), or the
    /// script of bare multisig. Empty for other kinds.
    pub(crate) fn inner_script(self, keys: &Ring<'_>) -> Vec<u8> {
        let index = self.key;
        let mut script = Vec::with_capacity(105);
        match self.kind {
            Kind::Multisig => keys.multisig_script(index, 1, 2, &mut script),
            Kind::P2shMultisig | Kind::P2wshMultisig => {
                keys.multisig_script(index, 2, 3, &mut script);
            }
            Kind::P2wshCltv => {
                locked(self.cltv_height(), OP_CHECKLOCKTIMEVERIFY, keys, index, &mut script)
            }
            Kind::P2wshCsv => {
                locked(self.csv_blocks(), OP_CHECKSEQUENCEVERIFY, keys, index, &mut script)
            }
            _ => {}
        }
        script
    }

    fn write_op_return(self, out: &mut Vec<u8>) {
        let len = 8 + self.key % 68;
        out.extend_from_slice(&[OP_RETURN, len as u8]);
        let mut rng = Rng::new(u64::from(self.key), 0);
        out.extend((0..len).map(|_| rng.next_u64() as u8));
    }
}

/// `OP_DUP OP_HASH160 <hash> OP_EQUALVERIFY OP_CHECKSIG`.
pub(crate) fn p2pkh(hash: &[u8; 20], out: &mut Vec<u8>) {
    wrap(&[OP_DUP, OP_HASH160, 20], hash, &[OP_EQUALVERIFY, OP_CHECKSIG], out);
}

fn wrap(before: &[u8], middle: &[u8], after: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(before);
    out.extend_from_slice(middle);
    out.extend_from_slice(after);
}

/// `<number> <opcode> OP_DROP <key> OP_CHECKSIG`, for a number below 128.
fn locked(number: u32, opcode: u8, keys: &Ring<'_>, index: u32, out: &mut Vec<u8>) {
    match number {
        0 => out.push(0),
        1..=16 => out.push(OP_1 - 1 + number as u8),
        _ => out.extend_from_slice(&[1, number as u8]),
    }
    out.extend_from_slice(&[opcode, OP_DROP]);
    wrap(&[33], &keys.key(index).pk33(), &[OP_CHECKSIG], out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn multisig_is_signed_by_every_choice_of_keys_in_order() {
        for (kind, choices) in [(Kind::Multisig, 2), (Kind::P2shMultisig, 3)] {
            let signers = |key| {
                let signers = Lock { kind, key }.signers();
                signers.into_iter().map(|signer| signer - key).collect::<Vec<_>>()
            };
            let found: HashSet<_> = (0..100).map(signers).collect();
            assert_eq!(found.len(), choices, "{found:?}");
            assert!(found.iter().all(|signers| signers.is_sorted()));
        }
    }
}
