//! Collects the signatures that a spend asks for. The module knows neither blocks nor where coins
//! come from, and verifies no signature.
//!
//! [`signature_checks`] runs the scripts of an input as if each signature in them were valid, and
//! as if each key and redeem script had the hash that the output commits to, and returns these
//! assumptions as [`Check`]s. If all of them hold, each step was Core's, and so is the result: the
//! spend is valid. Nothing here ever says that a spend is invalid. Rare or subtle cases are
//! [`Left`] to Core's engine; so is a script that ends false or breaks a rule, since with an
//! invalid signature it might have taken another branch.
//!
//! Scripts run under the flags that Core gives to each block, with few exceptions, since the latest
//! soft fork that changes the meaning of any script. Scripts under fewer flags are left to the
//! engine ([`flags_allow`]), unless the missing flags only forbid something.

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

/// The conditions of a valid spend. P2WPKH and P2PKH have two checks: the hash of the key,
/// and the signature.
pub type Checks<'a> = SmallVec<[Check<'a>; 2]>;

/// A condition that must hold for a spend to be valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Check<'a> {
    /// The HASH160 of a key or redeem script is the one that the output commits to.
    Hash160 {
        /// The key or redeem script.
        bytes: &'a [u8],
        /// The hash in the output's script.
        hash: &'a [u8; 20],
    },
    /// An ECDSA signature is valid.
    Ecdsa {
        /// The key.
        key: &'a [u8],
        /// The signature in any encoding, without the sighash type.
        signature: &'a [u8],
        /// The message that it signs.
        message: Message,
    },
    /// Each ECDSA signature is valid for another one of the keys, in the same order.
    Multisig {
        /// The keys, where a key in an encoding that is not supported here is empty.
        keys: Vec<&'a [u8]>,
        /// The signatures without their sighash types, each with the message that it signs.
        signatures: Vec<(&'a [u8], Message)>,
    },
    /// A BIP340 signature is valid.
    Schnorr {
        /// The x coordinate of the key.
        key: &'a [u8; 32],
        /// The signature.
        signature: &'a [u8; 64],
        /// The message that it signs.
        message: Message,
    },
    /// An output key is the internal key plus `tweak` times the base point (BIP341).
    Tweak {
        /// The x coordinate of the internal key.
        internal: &'a [u8; 32],
        /// The tweak, big-endian.
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
    /// A limit was exceeded, or an opcode found too few operands or wrong ones.
    Limit,
    /// A script ended false, or a value that had to be true was false.
    False,
    /// The output is not spent as its type demands.
    Program,
    /// A signature or key has an encoding or type that is not supported here.
    Encoding,
    /// A CHECKMULTISIG has both empty and non-empty signatures.
    EmptySignature,
    /// A script contains its own signature (FindAndDelete).
    SignatureInScript,
    /// A check does not hold, or could not be decided.
    Signature,
    /// Too much work of late was for nothing.
    Work,
}
