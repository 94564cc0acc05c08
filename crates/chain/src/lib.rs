//! Headers: tree, work, median time past, best chain. This crate knows neither peers nor block
//! files, and has no clock: the time is an argument.
//!
//! A block is named by its [`BlockId`], an index that never changes, so any thread may keep one.
//! The caller reports which blocks' bytes are available ([`Tree::mark_available`]). The candidates
//! for the tip follow from that, in Core's order: the most work first, then the block that could be
//! connected first (Core's `CBlockIndexWorkComparator`).

#![warn(missing_docs)]

mod active;
mod candidates;
mod tree;

#[cfg(test)]
mod tests;

pub use active::ActiveChain;
pub use tree::{BlockId, BlockNode, Branch, Tree};
