//! Reads a synced directory, which is locked and never changed: its chain, its blocks and undo
//! data. Spreads work on them over many threads.

mod chain;
mod undo;
mod workers;

#[cfg(feature = "export")]
pub use chain::StoredBlock;
pub use chain::{ReadBlock, StoredChain};
pub use undo::UndoSearch;
pub use workers::{check_stop, for_each_on_pool};
