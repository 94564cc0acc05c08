//! IBD Booster's hints file (theStack, April 2025): for each block from height 0 its number of
//! outputs (u16, little endian) and its bitmap; two zero bytes at the end.
//!
//! The bits stand for *all* outputs of a block ([`super::Numbering::All`]), as in IBD Booster's
//! generator and in the Core branch that reads its files. A block has at least one output, so a
//! count of zero marks the end. The file has no magic. It begins with block 0, whose one output is
//! in no UTXO set; its bytes 01 00 00 serve to recognise the format.

use super::bitmap::{self, Bitmap, BitmapFile};
use super::blocks::{CUT_SHORT, Wrong, block_of, check_block, check_end};
use super::error::HintsError;
use super::format::{Format, HintsEncoder};
use super::offsets::Offsets;

/// Block 0 of each network: one output, which is never in the UTXO set.
pub(super) const GENESIS: [u8; 3] = [1, 0, 0];
const END: [u8; 2] = [0, 0];

/// An opened hints file of IBD Booster. Its index takes 4 1/8 bytes of memory for each block.
pub struct Booster<B> {
    bytes: B,
    /// The offset of each block, from height 0, and finally that of the end.
    offsets: Offsets,
}

impl<B: AsRef<[u8]>> Booster<B> {
    /// Opens a file of these bytes, which are walked once.
    ///
    /// # Errors
    /// The file does not begin with block 0, ends early, or has bytes after its end or bits after
    /// a block's last output.
    pub fn open(bytes: B) -> Result<Self, HintsError> {
        let offsets = walk(bytes.as_ref())?;
        Ok(Self { bytes, offsets })
    }
}

// `Hints` comes from `BitmapFile`, in bitmap.rs.
impl<B: AsRef<[u8]> + Send + Sync> BitmapFile for Booster<B> {
    const FORMAT: Format = Format::Booster;

    fn height(&self) -> u32 {
        self.offsets.len().saturating_sub(2) as u32
    }

    fn bitmap(&self, height: u32) -> Result<Bitmap<'_>, HintsError> {
        let bytes = block_of(self.bytes.as_ref(), &self.offsets, height, 0)?;
        first_block(bytes).map_err(|what| HintsError::at(height, what))
    }
}

/// Reads the bitmap of the block at the start of `bytes`, which is empty at the end of the file.
fn first_block(bytes: &[u8]) -> Result<Bitmap<'_>, Wrong> {
    let (outputs, rest) = bytes.split_first_chunk().ok_or(CUT_SHORT)?;
    Bitmap::first(rest, u16::from_le_bytes(*outputs).into())
}

/// Checks the whole file, and returns the offset of each block.
fn walk(bytes: &[u8]) -> Result<Offsets, HintsError> {
    if !bytes.starts_with(&GENESIS) {
        return Err(HintsError::new("the hints file does not begin with block 0 and its 1 output"));
    }
    let mut offsets = Offsets::default();
    let mut at = 0;
    for height in 0.. {
        let wrong = |what| HintsError::at(height, what);
        let bitmap = first_block(&bytes[at..]).map_err(wrong)?;
        if !offsets.push(at) {
            return Err(wrong(CUT_SHORT));
        }
        at += END.len() + bitmap.len();
        if bitmap.outputs() == 0 {
            break;
        }
        bitmap.check_padding().map_err(wrong)?;
    }
    check_end(bytes, at as u64)?;
    Ok(offsets)
}

/// Writes hints as IBD Booster's generator does.
pub struct Encoder;

impl HintsEncoder for Encoder {
    fn put_head(&self, _height: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&GENESIS);
    }

    fn put_block(
        &self,
        unspent: &[u32],
        outputs: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), HintsError> {
        check_block(unspent, outputs)?;
        let count = match u16::try_from(outputs) {
            Ok(count @ 1..) => count,
            Ok(0) => return Err(HintsError::new("a block without outputs would end the file")),
            Err(_) => {
                let what = "IBD Booster's format has no room for a block of more than 65,535 \
                            outputs; use bip456";
                return Err(HintsError::new(what));
            }
        };
        out.extend_from_slice(&count.to_le_bytes());
        bitmap::put(unspent, outputs, out);
        Ok(())
    }

    fn put_tail(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&END);
    }
}
