//! Which signatures a spend asks for. The module knows neither blocks nor where coins come from,
//! and verifies no signature.
//!
//! [`signature_checks`] runs the scripts of an input as if each signature in them were valid, and
//! the hash of a key or redeem script what the output commits to, and returns these as [`Check`]s.
//! If all of them hold, each step was Core's, and so is the result: the spend is valid. Nothing
//! here ever says that a spend is invalid. What a script could do otherwise, if it is rare or its
//! rules are subtle, is [`Left`] to Core's engine; so is a script that ends false or breaks a rule,
//! since another branch might have been taken with a signature that is not valid.
//!
//! Where a rule depends on flags, they are those that each block has since the latest soft fork
//! that changes the meaning of any script, with few exceptions; scripts under fewer flags are left
//! to the engine ([`flags_allow`]), but for those that only forbid.

mod interpreter;
mod item;
mod number;
mod operations;
mod run;
mod signatures;
mod spend;
mod taproot;
#[cfg(test)]
pub mod tests;

pub use spend::{flags_allow, signature_checks};

use smallvec::SmallVec;

use crate::sighash::Message;

/// What must hold for one spend. P2WPKH and P2PKH have two checks: the hash of the key, and the
/// signature.
pub type Checks<'a> = SmallVec<[Check<'a>; 2]>;

/// Something that must hold for a spend to be valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Check<'a> {
    /// That HASH160 of some bytes, a key or a redeem script, is what the output commits to.
    Hash160 {
        /// The bytes.
        bytes: &'a [u8],
        /// The hash.
        hash: &'a [u8; 20],
    },
    /// An ECDSA signature, without the byte for its type.
    Ecdsa {
        /// The key.
        key: &'a [u8],
        /// The signature, in whatever encoding.
        signature: &'a [u8],
        /// What it signs.
        message: Message,
    },
    /// As many ECDSA signatures, each by another one of the keys, in the same order.
    Multisig {
        /// The keys; empty where there is none of a form that is read here.
        keys: Vec<&'a [u8]>,
        /// Signatures without the byte for their type, and what they sign.
        signatures: Vec<(&'a [u8], Message)>,
    },
    /// A BIP340 signature.
    Schnorr {
        /// The x coordinate of the key.
        key: &'a [u8; 32],
        /// The signature.
        signature: &'a [u8; 64],
        /// What it signs.
        message: Message,
    },
    /// That an output key is an internal key plus `tweak` times the base point (BIP341).
    Tweak {
        /// The x coordinate of the internal key.
        internal: &'a [u8; 32],
        /// Big-endian.
        tweak: [u8; 32],
        /// The x coordinate of the output key.
        output: &'a [u8; 32],
        /// Whether the y coordinate of the output key is odd.
        odd: bool,
    },
}

/// Why an input is left to Core's engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Left {
    /// The block's flags change the meaning of scripts.
    Flags,
    /// An opcode that is not interpreted here.
    Opcode(u8),
    /// A limit was passed, or an opcode found what it cannot work with.
    Limit,
    /// A script ended false, or what had to be true was not.
    False,
    /// The output is spent in another way than its kind demands, or its version is unknown.
    Program,
    /// A signature or key in an encoding, or with a type, that is not read here.
    Encoding,
    /// Signatures that are empty beside others that are not, in one CHECKMULTISIG.
    EmptySignature,
    /// A signature that its own script contains (FindAndDelete).
    SignatureInScript,
    /// A check does not hold, or is not decided.
    Signature,
}
