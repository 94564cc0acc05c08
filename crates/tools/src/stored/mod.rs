//! A synced directory that is locked and only read: its chain, its blocks and undo data, and work
//! on them with many threads.

mod chain;
mod undo;
mod workers;

#[cfg(feature = "export")]
pub use chain::StoredBlock;
pub use chain::{ReadBlock, StoredChain};
pub use undo::UndoSearch;
pub use workers::{check_stop, for_each_on_pool};
