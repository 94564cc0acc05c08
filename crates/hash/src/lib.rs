//! Hashes: the 32-byte value, SHA-256 of one message and of many at once, the other hashes used by
//! scripts, keyed hashes, and MuHash3072. This crate knows neither files nor what is hashed.

#![warn(missing_docs)]

mod elements;
mod keyed;
mod muhash;
mod script_hashes;
mod ripemd160;
mod sha256;
mod siphash;
mod value;

pub use elements::Elements;
pub use keyed::HashKey;
pub use muhash::MuHash;
pub use ripemd160::ripemd160;
pub use script_hashes::{hash160, hash160_many, sha1};
pub use sha256::{
    Midstate, Pieces, Sha256Pieces, Sha256State, Sha256d, sha256, sha256d, sha256d_64,
    sha256d_many, sha256d_pairs,
};
pub use siphash::SipKey;
pub use value::{Hash, ParseHashError, hex};
