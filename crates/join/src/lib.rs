//! The join: every output meets its spend in a partition of all txids, without hints and without
//! looking coins up. This crate does not know consensus rules, blocks' files, or threads.
//!
//! ```text
//!            ┌─ window of recent transactions ─► coins spent, by block ─────┐
//! blocks ─►──┤                                                              ├─► spent coins of
//!            └─ records of outputs left,  ─► partition ─► outputs meet ─────┘   every block
//!               records of other spends                   their spends ────► unspent coins, sorted
//! ```
//!
//! Most spends come soon after the output that they spend: a `Window` of recent transactions
//! meets these at once. All other outputs and spends become records in the partition of their
//! txid's first bits (`Layout`), where a [`Matcher`] brings them together, one partition at a
//! time. The records' forms are in `record` and `spent`, and docs/format.md has them for those who
//! debug.

mod batch;
mod layout;
mod matching;
mod record;
mod replay;
mod spans;
mod spent;
mod window;

pub use batch::BatchWriter;
pub use batch::{NoBatch, for_each_batch};
pub use layout::{Layout, Memory};
pub use matching::{Damaged, MatchedOutput, Matcher, Taken};
pub use record::{Created, Spend, put_spend, put_tx};
pub use replay::{BlockKind, Replayed, ReplayedCoin};
pub use spans::{Span, cut};
pub use spent::{
    BlockCoins, BlockRecord, InputNotes, LateCoin, SpendSource, TxNotes, put_block_coins,
    put_late_coin,
};
pub use window::{Met, TxLeft, Window};
