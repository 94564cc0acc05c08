//! Hints: for every block, which of its outputs are still unspent at a height.
//!
//! An output is named by its index in the block, from 0, counted as [`Numbering`] says. A format is
//! one file of this module, named in [`Format`], [`recognise`], [`open`] and [`encoder`].

use std::fmt;

pub mod elias_fano;
mod bip456;
mod bits;
mod bitset;
mod booster;
mod bound;
pub mod compressed;
mod offsets;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_damage;
#[cfg(test)]
mod tests_reference;

pub use bip456::Bip456;
pub use bitset::Bitset;
pub use booster::Booster;
pub use bound::{Statistics, block_bound_bits, log2_choose, statistics, statistics_reporting};
pub use compressed::Compressed;

use elias_fano::{CUT_SHORT, INDEX_TOO_LARGE, NOT_ASCENDING, OUTPUTS_MAX};
use offsets::Offsets;

use crate::wire::packed;

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

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Bip456, Self::Booster, Self::Bitset, Self::Compressed];

    /// What the user calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bip456 => "bip456",
            Self::Booster => "booster",
            Self::Bitset => "bitset",
            Self::Compressed => "compressed",
        }
    }

    /// The format that the user calls `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Which outputs it counts.
    pub fn numbering(self) -> Numbering {
        match self {
            Self::Bip456 | Self::Compressed => Numbering::Spendable,
            Self::Booster | Self::Bitset => Numbering::All,
        }
    }
}

/// Which outputs of a block are counted to name one by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Those that can be spent: unspendable ones ([`crate::wire::is_unspendable`]) are passed over
    /// without counting, and so are the two coinbases that BIP30's exceptions overwrote.
    Spendable,
    /// All. Those that cannot be spent have an index that is never hinted; beware that Core PR
    /// 34004 does hint the two overwritten coinbases, whose outpoints exist again later.
    All,
}

/// How a file of these bytes is written, by the first of them.
///
/// # Errors
/// No format begins like this.
pub fn recognise(bytes: &[u8]) -> Result<Format, HintsError> {
    if bytes.starts_with(&bip456::MAGIC) {
        return Ok(if bitset::is_bitset(bytes) { Format::Bitset } else { Format::Bip456 });
    }
    if bytes.starts_with(&compressed::layout::COMPRESSED_MAGIC) {
        return Ok(Format::Compressed);
    }
    if bytes.starts_with(&booster::GENESIS) {
        return Ok(Format::Booster);
    }
    Err(HintsError::new(match packed(bytes) {
        Some(packed) => packed.advice(),
        None => "this is not a hints file: `apus hints create` makes one from a synced directory"
            .to_string(),
    }))
}

/// Opens a file of any format, of which `bytes` are all (a memory map, or bytes on the heap).
///
/// # Errors
/// Not a hints file, or one that is cut short, goes on behind its end, or has a block that cannot
/// be right. What only decoding would show is left to [`Hints::unspent`].
pub fn open<B>(bytes: B) -> Result<Box<dyn Hints>, HintsError>
where
    B: AsRef<[u8]> + Send + Sync + 'static,
{
    Ok(match recognise(bytes.as_ref())? {
        Format::Bip456 => Box::new(Bip456::open(bytes)?),
        Format::Booster => Box::new(Booster::open(bytes)?),
        Format::Bitset => Box::new(Bitset::open(bytes)?),
        Format::Compressed => Box::new(Compressed::open(bytes)?),
    })
}

/// The writer of a format. For compressed hints, which are not written block by block, it refuses
/// every block: see [`compressed`].
pub fn encoder(format: Format) -> Box<dyn HintsEncoder> {
    match format {
        Format::Bip456 => Box::new(bip456::Encoder),
        Format::Booster => Box::new(booster::Encoder),
        Format::Bitset => Box::new(bitset::Encoder),
        Format::Compressed => Box::new(NoEncoder),
    }
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

    /// The number of outputs of the block at `height`, counted as [`Format::numbering`] says, where
    /// the format tells.
    fn output_count(&self, height: u32) -> Option<u32>;
}

/// Writes hints, block by block. Blocks may be encoded apart from each other and in any order; the
/// file is head, blocks from 1 to the height, tail.
pub trait HintsEncoder: Send + Sync {
    /// Appends what stands before the block at height 1.
    fn put_head(&self, height: u32, out: &mut Vec<u8>);

    /// Appends one block: of its `outputs` outputs those at the ascending indices `unspent` stay,
    /// counted as [`Format::numbering`] says.
    ///
    /// # Errors
    /// The format cannot hold such a block.
    fn put_block(&self, unspent: &[u32], outputs: u32, out: &mut Vec<u8>)
    -> Result<(), HintsError>;

    /// Appends what stands behind the last block.
    fn put_tail(&self, out: &mut Vec<u8>);

    /// The head once more, as long as before, for the formats whose head says where each block is:
    /// to be written over the first one when the bytes of every block, from height 1, are known.
    fn final_head(&self, block_bytes: &[u32]) -> Option<Vec<u8>> {
        let _ = block_bytes;
        None
    }
}

const NO_BLOCKS: &str = "compressed hints are not written block by block";

/// Refuses every block.
struct NoEncoder;

impl HintsEncoder for NoEncoder {
    fn put_head(&self, _height: u32, _out: &mut Vec<u8>) {}

    fn put_block(&self, _: &[u32], _: u32, _: &mut Vec<u8>) -> Result<(), HintsError> {
        Err(HintsError::new(NO_BLOCKS))
    }

    fn put_tail(&self, _out: &mut Vec<u8>) {}
}

/// What every encoder wants of a block.
fn check_block(unspent: &[u32], outputs: u32) -> Result<(), HintsError> {
    if outputs > OUTPUTS_MAX || unspent.last().is_some_and(|last| *last >= outputs) {
        return Err(HintsError::new(INDEX_TOO_LARGE));
    }
    if !elias_fano::ascends(unspent) {
        return Err(HintsError::new(NOT_ASCENDING));
    }
    Ok(())
}

/// The bytes of the block at `height`, of a file whose first block is at `first_height`.
fn block_of<'a>(
    bytes: &'a [u8],
    offsets: &Offsets,
    height: u32,
    first_height: u32,
) -> Result<&'a [u8], HintsError> {
    let blocks = offsets.len().saturating_sub(1) as u32;
    let i = match height.checked_sub(first_height) {
        Some(i) if i < blocks && height > 0 => i as usize,
        _ => return Err(no_such_height(height, (blocks + first_height).saturating_sub(1))),
    };
    let (start, end) = (offsets.get(i), offsets.get(i + 1));
    let range = start.zip(end).and_then(|(start, end)| bytes.get(start..end));
    range.ok_or_else(|| HintsError::at(height, CUT_SHORT))
}

fn no_such_height(height: u32, last: u32) -> HintsError {
    HintsError::at(height, format!("the hints file has no hints for it, only up to block {last}"))
}
