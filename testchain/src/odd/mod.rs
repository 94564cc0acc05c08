//! Scripts, and ways to spend them, that are rare on mainnet: each valid by consensus, many against
//! what nodes relay.
//!
//! A template is a function that writes a script and the list of what unlocks it (`bodies.rs`),
//! and the place where the script stands: the output, a redeem script, a witness script, a leaf.
//! The list of them is in `list.rs`.

mod bodies;
mod draft;
mod list;

use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, hash160, sha256};

use crate::keys::{LEAF_VERSION, Leaf, Ring};
use crate::lock::Lock;
use crate::opcodes::{
    OP_1, OP_CODESEPARATOR, OP_EQUAL, OP_HASH160, OP_PUSHDATA1, OP_PUSHDATA2, OP_PUSHDATA4,
};
use crate::payment::{Signer, Unlock, push, stack};
use crate::rng::Rng;
use crate::sighash::{Messages, SIGHASH_ALL, Taproot};
use draft::{Draft, Item, Separator, Signature};
pub use list::ODD_TEMPLATES;
use list::TEMPLATES;

/// The most keys of a template.
pub(crate) const KEYS_MAX: u32 = 20;
/// The most signatures of an input.
pub(crate) const SIGNATURES_MAX: u32 = 15;

/// Where a script stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is the output's script, unlocked by the input's script.
    Bare,
    /// It is the output's script, a witness program, unlocked by a witness.
    Program,
    /// Redeem script.
    P2sh,
    /// Witness script.
    P2wsh,
    /// Witness script of a program that is a redeem script.
    P2shP2wsh,
    /// There is none: a Taproot output spent with its key.
    KeyPath,
    /// The only leaf of a Taproot output.
    Leaf0,
    /// A leaf of depth 1 in the tree.
    Leaf1,
    /// A leaf of depth 2.
    Leaf2,
    /// A leaf of depth 3.
    Leaf3,
    /// A leaf of depth 4.
    Leaf4,
    /// A leaf of depth 128, the most that there is.
    Leaf128,
    /// A leaf of an unknown version, which anyone can spend.
    UnknownLeaf,
}

impl Place {
    /// The leaf's depth in the tree, if it is a leaf.
    fn depth(self) -> Option<usize> {
        match self {
            Place::Leaf0 | Place::UnknownLeaf => Some(0),
            Place::Leaf1 => Some(1),
            Place::Leaf2 => Some(2),
            Place::Leaf3 => Some(3),
            Place::Leaf4 => Some(4),
            Place::Leaf128 => Some(128),
            _ => None,
        }
    }
}

/// A kind of script in a place.
pub(crate) struct Template {
    /// The name of the function in `bodies.rs`, and the place.
    pub name: &'static str,
    place: Place,
    body: fn(&mut Draft<'_>),
}

impl Template {
    /// The template of a lock, which its key decides.
    pub fn of(lock: Lock) -> &'static Template {
        let index = Rng::new(u64::from(lock.key), 6).below(TEMPLATES.len() as u64);
        &TEMPLATES[index as usize]
    }

    /// Whether the script has OP_CHECKLOCKTIMEVERIFY, of a height.
    pub fn is_cltv(&self) -> bool {
        self.name.starts_with("cltv")
    }
}

/// An output of [`crate::Kind::Odd`], and how it is spent.
pub(crate) struct Odd {
    place: Place,
    script: Vec<u8>,
    /// What unlocks the script, from the bottom of the stack on.
    items: Vec<Item>,
    /// The annex of a Taproot spend.
    annex: Option<Vec<u8>>,
    /// Pushes of the input's script have lengths of more bytes than they need.
    clumsy: bool,
    /// The output's key on the key path, and what else Taproot needs for a leaf.
    output_key: [u8; 32],
    leaf: Option<Leaf>,
}

impl Odd {
    /// The output of a lock.
    pub fn of(lock: Lock, ring: &Ring<'_>) -> Odd {
        let template = Template::of(lock);
        let mut draft = Draft::new(ring, lock, template.place);
        (template.body)(&mut draft);
        let key = ring.key(lock.key);
        let leaf = template.place.depth().map(|depth| {
            let unknown = template.place == Place::UnknownLeaf;
            let version = if unknown { 0xc2 } else { LEAF_VERSION };
            let path: Vec<_> = (0..depth).map(|_| draft.random::<32>()).collect();
            key.leaf_of(draft.script.clone(), version, &path)
        });
        Odd {
            place: template.place,
            script: draft.script,
            items: draft.items,
            annex: draft.annex,
            clumsy: draft.clumsy,
            output_key: leaf.as_ref().map_or_else(|| key.xonly(), |leaf| leaf.output_key),
            leaf,
        }
    }

    /// Appends the output's script.
    pub fn write_script(&self, out: &mut Vec<u8>) {
        match self.place {
            Place::Bare | Place::Program => out.extend_from_slice(&self.script),
            Place::P2sh => put_p2sh(&self.script, out),
            Place::P2wsh => put_program(0, &self.witness_hash(), out),
            Place::P2shP2wsh => put_p2sh(&self.redeem_program(), out),
            _ => put_program(OP_1, &self.output_key, out),
        }
    }

    fn witness_hash(&self) -> [u8; 32] {
        sha256::Hash::hash(&self.script).to_byte_array()
    }

    fn redeem_program(&self) -> Vec<u8> {
        let mut program = Vec::with_capacity(34);
        put_program(0, &self.witness_hash(), &mut program);
        program
    }

    /// What spends it as input `i`.
    pub fn unlock(&self, signer: &mut Signer<'_>, i: usize) -> Unlock {
        let mut items: Vec<_> = self.items.iter().map(|item| self.item(item, signer, i)).collect();
        let mut unlock = Unlock::default();
        match self.place {
            Place::Bare | Place::P2sh => {
                if self.place == Place::P2sh {
                    items.push(self.script.clone());
                }
                for (n, item) in items.iter().enumerate() {
                    let put = if self.clumsy { put_clumsy(n) } else { push };
                    put(item, &mut unlock.script_sig);
                }
                return unlock;
            }
            Place::P2wsh => items.push(self.script.clone()),
            Place::P2shP2wsh => {
                items.push(self.script.clone());
                push(&self.redeem_program(), &mut unlock.script_sig);
            }
            _ => {}
        }
        if let Some(leaf) = &self.leaf {
            items.push(leaf.script.clone());
            items.push(leaf.control.clone());
        }
        items.extend(self.annex.clone());
        unlock.witness = stack(&items.iter().map(Vec::as_slice).collect::<Vec<_>>());
        unlock
    }

    fn item(&self, item: &Item, signer: &mut Signer<'_>, i: usize) -> Vec<u8> {
        let (key, after, how) = match item {
            Item::Bytes(bytes) => return bytes.clone(),
            Item::Premature { nonce, s, code } => {
                let z = self.message(&signer.messages, i, *code, SIGHASH_ALL);
                return signer.premature_key(*nonce, *s, z).to_vec();
            }
            Item::Signature { key, after, how } => (*key, *after, *how),
        };
        let Separator { start, position } = after;
        if self.place == Place::KeyPath || self.leaf.is_some() {
            let leaf = self.leaf.as_ref().map(|leaf| (leaf.hash, position));
            return signer.schnorr(i, key, Taproot { leaf, annex: self.annex.as_deref() });
        }
        let signature = signer.ecdsa(i, key, |messages, hash_type| {
            let mut z = self.message(messages, i, start, hash_type);
            z[31] ^= u8::from(how == Signature::Wrong);
            z
        });
        let signature = if how == Signature::HighS { signature.with_other_s() } else { signature };
        signature.as_slice().to_vec()
    }

    /// The message of an ECDSA signature for the script from byte `start` on.
    fn message(&self, messages: &Messages<'_>, i: usize, start: usize, hash_type: u8) -> [u8; 32] {
        let code = &self.script[start..];
        match self.place {
            Place::Bare | Place::P2sh => messages.legacy(i, &without_separators(code), hash_type),
            _ => messages.segwit_v0(i, code, hash_type),
        }
    }
}

/// A script without OP_CODESEPARATOR, as legacy messages have it.
fn without_separators(script: &[u8]) -> Vec<u8> {
    let whole = ScriptBuf::from(script.to_vec());
    let starts: Vec<_> =
        whole.instruction_indices().map(|read| read.expect("a whole script").0).collect();
    let ends = starts.iter().skip(1).copied().chain([script.len()]);
    let parts = starts.iter().zip(ends).map(|(start, end)| &script[*start..end]);
    parts.filter(|part| *part != [OP_CODESEPARATOR]).flatten().copied().collect()
}

fn put_p2sh(redeem_script: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[OP_HASH160, 20]);
    out.extend_from_slice(hash160::Hash::hash(redeem_script).as_byte_array());
    out.push(OP_EQUAL);
}

fn put_program(version: u8, program: &[u8; 32], out: &mut Vec<u8>) {
    out.extend_from_slice(&[version, 32]);
    out.extend_from_slice(program);
}

/// A push whose length takes 1, 2 or 4 bytes, by the number of the item.
fn put_clumsy(n: usize) -> fn(&[u8], &mut Vec<u8>) {
    fn put(opcode: u8, len_bytes: usize, data: &[u8], out: &mut Vec<u8>) {
        out.push(opcode);
        out.extend_from_slice(&(data.len() as u32).to_le_bytes()[..len_bytes]);
        out.extend_from_slice(data);
    }
    match n % 3 {
        0 => |data, out| put(OP_PUSHDATA1, 1, data, out),
        1 => |data, out| put(OP_PUSHDATA2, 2, data, out),
        _ => |data, out| put(OP_PUSHDATA4, 4, data, out),
    }
}
