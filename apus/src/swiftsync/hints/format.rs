use super::error::HintsError;

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
