//! SwiftSync: builds the chainstate from blocks in any order, on all cores, without coin look-ups.
//!
//! A claim, in hints or a snapshot, says which outputs are unspent at its height. Every other
//! output is spent by some block, so it enters two sums: one when it is created, one when it is
//! spent. Only if the two are equal does anything but blocks become visible.
//!
//! ```text
//! blocks ─► check ─┬─► unspent outputs ───────────► survivors ─────► tables ─► commit
//!                  └─► other outputs, and inputs ─► two sums ─► equal? ──┘
//! ```

pub mod attempt;
pub mod build;
mod coordinator;
mod correction;
pub mod find_differences;
pub mod directory;
pub mod fault;
mod finish;
mod hinted;
mod context;
pub mod plan;
mod range_blocks;
mod ranges;
mod recent;
mod resume;
mod saved;
pub mod tally;
mod undo;
mod opened_claim;
mod peer_coins;
mod vouched;
mod worker;
