//! Hints for distribution, entropy-coded: Apus' own format (docs/format.md has its bytes).
//!
//! Head, frames, index, tail. What is known of the numbers is in the head, so that each frame is
//! decoded apart: any block costs one frame, about a millisecond, and the blocks around it are then
//! there. Numbers are guessed from the ones before them (`model.rs`), which finds what Elias-Fano
//! does not use: blocks and their parts differ in how much is unspent, and unspent outputs stand
//! together.

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
pub use write::{CompressedRange, Compressor, Survey, compress, ranges};
