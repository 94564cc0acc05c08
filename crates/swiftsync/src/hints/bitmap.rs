//! Bitmaps of a block's outputs, and the formats that hold one for each block.

use super::blocks::{CUT_SHORT, Wrong};
use super::error::HintsError;
use super::format::{Format, Hints};

const PADDED: Wrong = "bits are set after its last output";

/// A bit for each output of a block, bit 0 of a byte first, padded with zeros to whole bytes.
#[derive(Clone, Copy)]
pub(super) struct Bitmap<'a> {
    outputs: u32,
    bytes: &'a [u8],
}

impl<'a> Bitmap<'a> {
    /// Reads the bitmap of `outputs` bits at the start of `bytes`.
    pub fn first(bytes: &'a [u8], outputs: u32) -> Result<Self, Wrong> {
        let bytes = bytes.get(..bytes_of(outputs)).ok_or(CUT_SHORT)?;
        Ok(Self { outputs, bytes })
    }

    /// Returns the number of outputs.
    pub fn outputs(&self) -> u32 {
        self.outputs
    }

    /// Returns the length of the bitmap, in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Refuses a bitmap whose padding is not zero.
    pub fn check_padding(&self) -> Result<(), Wrong> {
        match self.bytes.last() {
            Some(byte) if !self.outputs.is_multiple_of(8) && byte >> (self.outputs % 8) != 0 => {
                Err(PADDED)
            }
            _ => Ok(()),
        }
    }

    /// Replaces the contents of `unspent` by the numbers of the bits that are set.
    pub fn read(&self, unspent: &mut Vec<u32>) -> Result<(), Wrong> {
        unspent.clear();
        self.check_padding()?;
        let (words, rest) = self.bytes.as_chunks();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let mut base = 0;
        for word in words.iter().chain([&last]) {
            let mut word = u64::from_le_bytes(*word);
            while word != 0 {
                unspent.push(base + word.trailing_zeros());
                word &= word - 1;
            }
            base += 64;
        }
        Ok(())
    }
}

fn bytes_of(outputs: u32) -> usize {
    (outputs as usize).div_ceil(8)
}

/// Appends the bitmap in which the bits `unspent`, ascending and below `outputs`, are set.
pub(super) fn put(unspent: &[u32], outputs: u32, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes_of(outputs), 0);
    for index in unspent {
        out[start + *index as usize / 8] |= 1 << (index % 8);
    }
}

/// An opened hints file of a format with a bitmap for each block. All such formats share one
/// implementation of [`Hints`].
pub(super) trait BitmapFile: Send + Sync {
    /// The file's format.
    const FORMAT: Format;

    /// The height of the last block.
    fn height(&self) -> u32;

    /// The bitmap of the block at `height`.
    fn bitmap(&self, height: u32) -> Result<Bitmap<'_>, HintsError>;
}

impl<F: BitmapFile> Hints for F {
    fn format(&self) -> Format {
        F::FORMAT
    }

    fn height(&self) -> u32 {
        BitmapFile::height(self)
    }

    fn unspent(&self, height: u32, unspent: &mut Vec<u32>) -> Result<(), HintsError> {
        self.bitmap(height)?.read(unspent).map_err(|what| HintsError::at(height, what))
    }

    fn output_count(&self, height: u32) -> Option<u32> {
        self.bitmap(height).ok().map(|bitmap| bitmap.outputs())
    }
}
