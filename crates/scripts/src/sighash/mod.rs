//! The message that a signature signs: legacy, BIP143, and BIP341 with BIP342. The module knows
//! neither blocks nor where coins come from.
//!
//! A [`TxSighash`] is created for each transaction whose signatures are checked. The parts that its
//! inputs share are hashed once: side by side with those of other transactions ([`SharedHashes`]),
//! or when the first input asks. Messages wait as [`Preimages`], to be hashed side by side. Long
//! legacy messages repeat all inputs; for these, the hash state before the current input is kept.

mod legacy;
mod parts;
mod preimages;
mod shared;
mod taproot;
#[cfg(test)]
mod tests;
mod tx;
mod v0;

pub use preimages::{Message, Messages, Preimages};
pub use shared::SharedHashes;
pub use tx::{TaprootExtra, TxHashes, TxSighash, annex_hash};
