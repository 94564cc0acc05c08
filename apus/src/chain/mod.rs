//! Headers: tree, work, median time past, best chain. Knows neither peers nor files, and has no
//! clock: the time is an argument.
//!
//! A block is named by its [`BlockId`], an index that never changes, so that every thread may
//! keep one. Which blocks' bytes are at hand is told to it ([`Tree::offer`]); from that follow the
//! candidates for the tip, in Core's order: most work first, then whichever could be connected
//! earlier (Core's `CBlockIndexWorkComparator`).

mod active;
mod tree;

pub use active::ActiveChain;
pub use tree::{BlockId, BlockNode, Branch, Tree};
