use super::error::HintsError;
use super::numbering::Numbering;

/// The formats of hints files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Draft BIP 456 as of August 2026, version 0: Elias-Fano codes from block 0 on, bit 7 of a
    /// byte first.
    Bip456,
    /// The same with bit 0 first. It is read, and no program is known to write it.
    Bip456Lsb,
    /// Codes from block 1 on, bit 7 first: the crate `hintsfile` 0.1 and Core's draft branch of
    /// July 2026.
    Hintsfile01,
    /// Codes from block 1 on, bit 0 first: the crate `hintsfile` 0.2.
    Hintsfile02,
    /// btcd's gaps between unspent outputs, compressed by gzip or not.
    Btcd,
    /// IBD Booster's bitmaps.
    Booster,
    /// The bitmaps of Core PR 34004.
    Bitset,
    /// Apus' own format, the smallest: compressed for distribution.
    Compressed,
}

impl Format {
    /// The formats that are written block by block, which `apus hints create` and `convert` offer.
    /// A compressed file is made from another hints file instead.
    pub const WRITTEN: [Self; 6] = [
        Self::Bip456,
        Self::Hintsfile02,
        Self::Hintsfile01,
        Self::Btcd,
        Self::Booster,
        Self::Bitset,
    ];

    /// Returns the name by which users know the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bip456 => "bip456",
            Self::Bip456Lsb => "bip456-lsb",
            Self::Hintsfile01 => "hintsfile-0.1",
            Self::Hintsfile02 => "hintsfile-0.2",
            Self::Btcd => "btcd",
            Self::Booster => "booster",
            Self::Bitset => "bitset",
            Self::Compressed => "compressed",
        }
    }

    /// Returns which outputs have an index in files of this format.
    pub fn numbering(self) -> Numbering {
        if self.holds_counts() { Numbering::All } else { Numbering::Spendable }
    }

    /// Returns whether files of this format say how many outputs each block has.
    pub fn holds_counts(self) -> bool {
        matches!(self, Self::Booster | Self::Bitset)
    }
}

/// An opened hints file, which many threads can read at once, at any height.
pub trait Hints: Send + Sync {
    /// Returns the file's format.
    fn format(&self) -> Format;

    /// Returns the height at which the outputs are unspent. The file has hints for each block from
    /// height 1 to this one.
    ///
    /// The height is at most the file's length in bytes, since each block takes at least one; a
    /// file whose head says more is not opened. Only compressed files may have more: there up to
    /// 65,535 blocks share a frame, whose index entry takes ten bytes, and a gzip file expands to a
    /// bounded size.
    fn height(&self) -> u32;

    /// Replaces the contents of `unspent` by the indices of the outputs of the block at `height`
    /// that are hinted as unspent. They ascend, and are below `OUTPUTS_MAX`, the number of outputs
    /// that a block can have.
    ///
    /// # Errors
    /// The file's bytes for this block are invalid, or `height` is 0 or above [`Hints::height`].
    /// The error carries `height` or, if a frame of a compressed file is damaged, the height of the
    /// frame's first block. The contents of `unspent` are then arbitrary.
    fn unspent(&self, height: u32, unspent: &mut Vec<u32>) -> Result<(), HintsError>;

    /// Returns the number of outputs of the block at `height`, counted according to
    /// [`Format::numbering`]; `None` if the format does not hold it ([`Format::holds_counts`]), or
    /// the file has no such block.
    fn output_count(&self, height: u32) -> Option<u32>;
}

/// Writes a hints file, block by block: a head, the blocks from height 1 on, a tail. If the format
/// has block 0, that is part of the head.
///
/// Blocks may be encoded independently of each other and in any order.
pub trait HintsEncoder: Send + Sync {
    /// Appends the part of the file before the block at height 1.
    fn put_head(&self, height: u32, out: &mut Vec<u8>);

    /// Appends a block of `outputs` outputs, of which those at the ascending indices `unspent` are
    /// unspent; both are counted according to [`Format::numbering`].
    ///
    /// # Errors
    /// The format cannot hold such a block.
    fn put_block(&self, unspent: &[u32], outputs: u32, out: &mut Vec<u8>)
    -> Result<(), HintsError>;

    /// Appends the part of the file after the last block; most formats have none.
    fn put_tail(&self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Returns the head with the offset of each block, to be written over the equally long one of
    /// [`HintsEncoder::put_head`] once the length of each block, from height 1 on, is known; `None`
    /// for formats whose head holds no offsets.
    fn final_head(&self, block_bytes: &[u32]) -> Option<Vec<u8>> {
        let _ = block_bytes;
        None
    }
}
