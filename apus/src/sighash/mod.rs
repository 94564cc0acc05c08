//! The message that a signature signs: legacy, BIP143, and BIP341 with BIP342. The module knows
//! neither blocks nor where coins come from.
//!
//! A [`TxSighash`] is made for each transaction whose signatures are checked. What its inputs share
//! is hashed once, when the first of them asks; of legacy messages, which repeat all inputs, it
//! keeps the state after those before the one that asks.

mod legacy;
mod parts;
mod taproot;
#[cfg(test)]
mod tests;
mod tx;
mod v0;

pub use tx::{TaprootExtra, TxSighash, annex_hash};
