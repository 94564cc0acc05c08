//! The join: the chainstate and all undo data from blocks in any order, without hints and without
//! look-ups.
//!
//! ```text
//!           read (1)            match (2)                 check (3)
//! blocks ──► spans ──► parts ──► partitions ──► tables       │
//!              │         │           │                       ▼
//!              └─────────┴───────────┴─► spent coins ──► blocks, rules ──► undo data ──► commit
//! ```
//!
//! 1. `read`: workers go through long spans of heights. Each block is checked as far as that needs
//!    no coins; spends of recent outputs are met; the rest are records in the spill.
//! 2. `pair`: outputs and spends of each partition of the txids meet in memory. What is unspent is
//!    written to tables, what is spent goes to the blocks that spend it.
//! 3. `check`: each block with its spent coins, every rule on spends, scripts where they are not
//!    assumed valid, undo data.
//!
//! Where blocks are not to be kept (`Ledger::keeps_blocks`), they are read where they are, and
//! neither undo data nor progress is written.
//!
//! Nothing but blocks is visible before the commit at the end. A block that any pass refuses ends
//! the join below it; in order it is then refused for Bitcoin Core's reason, or not.

mod base;
mod bucket;
pub mod build;
mod check;
mod commit;
mod coordinator;
pub mod directory;
mod context;
mod notes;
mod pair;
mod plan;
mod read;
mod saved;
mod sequencer;
mod state;
pub mod workspace;

pub use saved::rewrite_join_progress;
