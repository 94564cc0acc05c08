//! The join: matches every output with the input that spends it, in partitions of the txids,
//! without hints and without coin look-ups. This crate does not know consensus rules, block files
//! or threads.
//!
//! ```text
//!            ┌─ window of recent transactions ─► coins spent, by block ─────┐
//! blocks ─►──┤                                                              ├─► spent coins of
//!            └─ records of outputs left,  ─► partition ─► outputs meet ─────┘   every block
//!               records of other spends                   their spends ────► unspent coins, sorted
//! ```
//!
//! Most outputs are spent soon after they are created: a `Window` of recent transactions matches
//! these at once. All other outputs and spends become records in a partition, chosen by the first
//! bits of the txid (`Layout`), where a [`Matcher`] matches them, one partition at a time. The
//! records are encoded in `record` and `spent`; docs/format.md describes the encoding for
//! debugging.

#![warn(missing_docs)]

mod batch;
mod layout;
mod matching;
mod record;
mod replay;
mod spans;
mod spent;
mod window;

pub use batch::{BatchWriter, Damaged, batches};
pub use layout::{Layout, Memory};
pub use matching::{MatchedOutput, Matcher, Taken};
pub use record::{Created, Spend, put_spend, put_tx};
pub use replay::{BlockKind, Replayed, ReplayedCoin};
pub use spans::{Span, cut};
pub use spent::{
    BlockCoins, BlockRecord, InputNotes, LateCoin, SpendSource, TxNotes, put_block_coins,
    put_late_coin,
};
pub use window::{Met, TxLeft, Window};
