//! The join as a whole, held against a sync in order: the same UTXO set, block index, undo data and
//! summary, and for chains that break a rule the same verdict.
//!
//! * `equal`: valid chains, for any workers, memory, files and assumptions.
//! * `base`: joins that begin above the genesis block.
//! * `refused`: every rule broken, and kinds of faults that each pass has to find by itself.

mod base;
pub mod draft;
mod equal;
pub mod refused;
pub mod source;
