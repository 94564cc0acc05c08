//! Compressed hints: Apus' own entropy-coded format for distribution, whose bytes docs/format.md
//! describes.
//!
//! A file is a head, frames, an index and a tail. The head has all tables of probabilities, so that
//! each frame can be decoded independently: reading any block takes one frame, about a millisecond,
//! which also has the blocks around it. The probability of a number depends on the numbers before
//! it (`model.rs`). That makes use of what Elias-Fano codes ignore: the share of unspent outputs
//! differs between blocks and between parts of a block, and unspent outputs come in clusters.
//!
//! The module does not know other formats of hints, nor blocks: it compresses lists of ascending
//! numbers, one for each height.

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

pub use read::Compressed;
pub use write::{Compressor, Survey, compress, ranges};

/// The largest number of outputs of a block: an output weighs at least 36 (9 bytes without
/// witness), and a block at most 4,000,000.
pub const OUTPUTS_MAX: u32 = 4_000_000 / 36;

/// The error for a file that is damaged or not of this format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct DecodeError {
    /// The block whose hints are wrong; `None` if the whole file is.
    pub height: Option<u32>,
    /// What is wrong, in words for the user.
    pub what: String,
}

impl DecodeError {
    fn at(height: u32, what: impl Into<String>) -> Self {
        Self { height: Some(height), what: what.into() }
    }

    fn new(what: impl Into<String>) -> Self {
        Self { height: None, what: what.into() }
    }
}
