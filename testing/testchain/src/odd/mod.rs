//! Scripts, and ways to spend them, that are rare on mainnet: all are valid by consensus, many are
//! not relayed by nodes.
//!
//! A template is a function that writes a script and the list of what unlocks it (`bodies.rs`),
//! and the place where the script stands: the output, a redeem script, a witness script, a leaf.
//! The list of them is in `list.rs`.

mod bodies;
mod draft;
mod list;

use bitcoin::hashes::{Hash, hash160, sha256};

use crate::keys::{LEAF_VERSION, Leaf, Ring};
use crate::opcodes::{OP_1, OP_EQUAL, OP_HASH160};
use crate::rng::Rng;
use draft::Draft;
pub(crate) use draft::{Item, Make, Separator};
pub use list::ODD_TEMPLATES;
use list::TEMPLATES;

/// The most keys of a template.
pub(crate) const KEYS_MAX: u32 = 20;
/// The most signatures of an input.
pub(crate) const SIGNATURES_MAX: u32 = 15;

/// Where a script stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
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
    /// No script: a Taproot output spent with its key.
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
    /// A leaf of depth 128, the maximum.
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
    /// Returns the template of the output whose first key has this index.
    pub fn of(first_key: u32) -> &'static Template {
        let index = Rng::new(u64::from(first_key), 6).below(TEMPLATES.len() as u64);
        &TEMPLATES[index as usize]
    }

    /// Returns whether the script has OP_CHECKLOCKTIMEVERIFY, of a height.
    pub fn is_cltv(&self) -> bool {
        self.name.starts_with("cltv")
    }
}

/// An output of [`crate::Kind::Odd`], and how it is spent.
pub(crate) struct Odd {
    /// Where the script stands.
    pub place: Place,
    pub script: Vec<u8>,
    /// What unlocks the script, from the bottom of the stack on.
    pub items: Vec<Item>,
    /// The annex of a Taproot spend.
    pub annex: Option<Vec<u8>>,
    /// Whether the pushes of the input's script have longer length fields than they need.
    pub clumsy: bool,
    /// What a Taproot spend of a leaf needs.
    pub leaf: Option<Leaf>,
    output_key: [u8; 32],
}

impl Odd {
    /// Returns the output whose first key has this index.
    pub fn of(first_key: u32, ring: &Ring<'_>) -> Odd {
        let template = Template::of(first_key);
        let mut draft = Draft::new(ring, first_key, template.place);
        (template.body)(&mut draft);
        let key = ring.key(first_key);
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

    /// Returns the redeem script of [`Place::P2shP2wsh`].
    pub fn redeem_program(&self) -> Vec<u8> {
        let mut program = Vec::with_capacity(34);
        put_program(0, &self.witness_hash(), &mut program);
        program
    }
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
