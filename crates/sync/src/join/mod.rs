//! The join: builds the chainstate and all undo data from blocks in any order, without hints or
//! look-ups.
//!
//! ```text
//!           read (1)            match (2)                 check (3)
//! blocks ──► spans ──► parts ──► partitions ──► tables       │
//!              │         │           │                       ▼
//!              └─────────┴───────────┴─► spent coins ──► blocks, rules ──► undo data ──► commit
//! ```
//!
//! 1. `read`: each worker reads a long span of blocks in order of height. It checks the rules that
//!    need no coins, and matches spends of recent outputs; all other outputs and spends become
//!    records in the spill file.
//! 2. `pair`: the outputs and spends of each partition of the txids are matched in memory. Unspent
//!    outputs are written to tables, spent coins to the buckets of the blocks that spend them.
//! 3. `check`: each block is checked with its spent coins: every rule on spends, and scripts unless
//!    they are assumed valid. Its undo data is written.
//!
//! If blocks are not kept (`Writes::blocks` is false), they are read from where they are, and
//! neither undo data nor saved work is written.
//!
//! Only blocks are visible before the commit at the end. If a pass refuses a block, the join ends
//! below it. That block is then connected in order, which decides whether it is valid, and gives
//! Bitcoin Core's reject reason if not.

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

pub use bucket::{BlockQueue, Bucket};
pub use commit::{balance, commit};
pub use context::Context;
pub use pair::Pairer;
pub use plan::JoinPlan;
pub use read::{ReadBlock, Reader};
pub use saved::rewrite_join_progress;
pub use state::{JoinState, PairCounts, Paired, ReadCounts, SpanState, UndoAt};
