//! Reads a synced directory, which is locked and never changed: its chain, its blocks and undo
//! data.

mod chain;
mod undo;

pub use chain::StoredBlock;
pub use chain::{ReadBlock, StoredChain};
pub use undo::UndoSearch;
