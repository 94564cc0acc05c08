//! The message that a signature signs: legacy, BIP143, and BIP341 with BIP342. The module knows
//! neither blocks nor where coins come from.
//!
//! A [`TxSighash`] is made for each transaction whose signatures are checked. What its inputs share
//! is hashed once, side by side with what those of other transactions share ([`SharedHashes`]), or
//! when the first of them asks. The messages wait as [`Preimages`], to be hashed side by side. Of
//! long legacy ones, which repeat all inputs, the state after those before the input is kept.

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
