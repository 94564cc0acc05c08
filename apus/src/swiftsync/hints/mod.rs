//! Hints: for every block, which of its outputs are still unspent at a height.
//!
//! An output is named by its index among the block's spendable outputs, in order, from 0: outputs
//! that can never be spent ([`crate::wire::is_unspendable`]) are passed over without counting,
//! and so are the two coinbases that BIP30's exceptions overwrote, and the genesis block's.

use std::fmt;

/// The hints file is to blame. Hints cannot change what is valid: SwiftSync stops, and syncing in
/// order works without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintsError {
    /// The block whose hints are wrong, where it is one block's.
    pub height: Option<u32>,
    /// What is wrong, in words for the user.
    pub what: String,
}

impl HintsError {
    /// Wrong hints for the block at `height`.
    pub fn at(height: u32, what: impl Into<String>) -> Self {
        Self { height: Some(height), what: what.into() }
    }

    /// A file that is wrong as a whole.
    pub fn new(what: impl Into<String>) -> Self {
        Self { height: None, what: what.into() }
    }
}

impl fmt::Display for HintsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(height) = self.height {
            write!(f, "block {height}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for HintsError {}

/// How a hints file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Draft BIP 456, version 0: Elias-Fano, bit 0 of a byte first.
    Bip456,
    /// IBD Booster's bitmap.
    Booster,
    /// A plain bitset for each block, as in Core PR 34004.
    Bitset,
    /// Entropy-coded, for distribution.
    Compressed,
}

/// An opened hints file: random access by height, from many threads at once.
pub trait Hints: Send + Sync {
    /// How it is written.
    fn format(&self) -> Format;

    /// The height at which the outputs are unspent; there are hints for every block from 1 to it.
    fn height(&self) -> u32;

    /// Puts the indices of the outputs of the block at `height` that stay unspent into `unspent`,
    /// ascending, in the place of what it held.
    ///
    /// # Errors
    /// The file's bytes for this block cannot be right, or it has none for this height.
    fn unspent(&self, height: u32, unspent: &mut Vec<u32>) -> Result<(), HintsError>;

    /// The number of spendable outputs of the block at `height`, where the format tells.
    fn output_count(&self, height: u32) -> Option<u32>;
}

/// Writes hints, block by block. Blocks may be encoded apart from each other and in any order; the
/// file is head, blocks from 1 to the height, tail.
pub trait HintsEncoder: Send + Sync {
    /// Appends what stands before the block at height 1.
    fn put_head(&self, height: u32, out: &mut Vec<u8>);

    /// Appends one block: of its `outputs` spendable outputs those at the ascending indices
    /// `unspent` stay.
    ///
    /// # Errors
    /// The format cannot hold such a block.
    fn put_block(&self, unspent: &[u32], outputs: u32, out: &mut Vec<u8>)
    -> Result<(), HintsError>;

    /// Appends what stands behind the last block.
    fn put_tail(&self, out: &mut Vec<u8>);
}
