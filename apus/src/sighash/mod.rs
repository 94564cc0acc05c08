//! The message that a signature signs: legacy, BIP143, and BIP341 with BIP342. The module knows
//! neither blocks nor where coins come from.
//!
//! A [`TxSighash`] is made for each transaction whose signatures are checked. What its inputs share
//! is hashed once, side by side with what those of other transactions share ([`SharedHashes`]), or
//! when the first of them asks. The messages wait as [`Preimages`], and are hashed side by side too.
//! Of long legacy ones, which repeat all inputs, the state after the inputs before the one that asks
//! is kept.

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
pub use tx::{TaprootExtra, TxSighash, annex_hash};
