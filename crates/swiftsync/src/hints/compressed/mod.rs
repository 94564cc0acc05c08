//! Compressed hints: Apus' own entropy-coded format for distribution, whose bytes docs/format.md
//! describes.
//!
//! A file is a head, frames, an index and a tail. The head has all tables of probabilities, so that
//! each frame can be decoded independently: reading any block takes one frame, about a millisecond,
//! which also has the blocks around it. The probability of a number depends on the numbers before
//! it (`model.rs`). That makes use of what Elias-Fano codes ignore: the share of unspent outputs
//! differs between blocks and between parts of a block, and unspent outputs come in clusters.

mod entry;
mod frame;
pub mod layout;
mod model;
mod rans;
mod read;
mod token;
mod write;

#[cfg(test)]
mod tests;

pub use entry::FrameEntry;
pub use read::Compressed;
pub use write::compress;
pub use write::{CompressedRange, Compressor, Survey, ranges};
