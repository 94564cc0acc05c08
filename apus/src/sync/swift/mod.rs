//! SwiftSync: the chainstate from blocks in any order, on all cores, without a look-up. Hints say
//! which outputs stay; every other one meets its spending in the aggregate, and only when the sums
//! agree does anything become visible.
//!
//! ```text
//! blocks ─► check ─┬─► outputs that stay ────────► survivors ─────► tables ─► commit
//!                  └─► other outputs, and inputs ─► two sums ─► equal? ──┘
//! ```

mod alternatives;
pub(super) mod attempt;
pub(super) mod build;
mod coordinator;
pub(super) mod directory;
pub(super) mod fault;
mod finish;
mod hinted;
mod job;
pub(super) mod plan;
mod recent;
mod resume;
mod saved;
mod tally;
mod undo;
mod worker;
