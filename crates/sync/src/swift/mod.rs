//! SwiftSync: the chainstate from blocks in any order, on all cores, without a look-up.
//!
//! Hints say which outputs are unspent at their height. Every other output is spent by some block,
//! and so enters two sums: once when it is created, once when it is spent. Only if the sums agree
//! does anything but blocks become visible.
//!
//! ```text
//! blocks ─► check ─┬─► unspent outputs ───────────► survivors ─────► tables ─► commit
//!                  └─► other outputs, and inputs ─► two sums ─► equal? ──┘
//! ```

mod alternatives;
pub mod attempt;
pub mod build;
mod coordinator;
pub mod find_differences;
pub mod directory;
pub mod fault;
mod finish;
mod hinted;
mod context;
pub mod plan;
mod recent;
mod resume;
mod saved;
pub mod tally;
mod undo;
mod opened_claim;
mod vouched;
mod worker;
