//! IBD Booster's bitmap file (theStack, April 2025): for each block from height 0 its number of
//! outputs (u16, little endian) and its bitmap; two zero bytes at the end.
//!
//! The bits stand for *all* outputs of a block ([`super::Numbering::All`]), as its generator and
//! the Core branch that reads it have it. So no block has 0 of them, which is why the end can be a
//! zero; and block 0, whose output no UTXO set has, is 01 00 00: those serve as magic here.

use super::bits;
use super::blocks::{block_of, check_block};
use super::elias_fano::{CUT_SHORT, Wrong};
use super::error::HintsError;
use super::format::{Format, Hints, HintsEncoder};
use super::offsets::Offsets;

/// Block 0 of every network: one output, spent by nobody and in no UTXO set.
pub(super) const GENESIS: [u8; 3] = [1, 0, 0];
const END: [u8; 2] = [0, 0];

/// An open file. Beside its bytes it takes 4 1/8 bytes of memory for each block.
pub struct Booster<B> {
    bytes: B,
    /// Where each block begins, from height 0, and at last where the end is.
    offsets: Offsets,
}

impl<B: AsRef<[u8]>> Booster<B> {
    /// Walks over the file once.
    ///
    /// # Errors
    /// Does not begin with block 0, is cut short, has bytes behind its end or bits behind a
    /// block's outputs.
    pub fn open(bytes: B) -> Result<Self, HintsError> {
        let offsets = walk(bytes.as_ref())?;
        Ok(Self { bytes, offsets })
    }

    fn block(&self, height: u32) -> Result<(u32, &[u8]), HintsError> {
        let bytes = block_of(self.bytes.as_ref(), &self.offsets, height, 0)?;
        read_block(bytes).map_err(|what| HintsError::at(height, what))
    }
}

impl<B: AsRef<[u8]> + Send + Sync> Hints for Booster<B> {
    fn format(&self) -> Format {
        Format::Booster
    }

    fn height(&self) -> u32 {
        self.offsets.len().saturating_sub(2) as u32
    }

    fn unspent(&self, height: u32, unspent: &mut Vec<u32>) -> Result<(), HintsError> {
        let (outputs, bitmap) = self.block(height)?;
        bits::read(bitmap, outputs, unspent).map_err(|what| HintsError::at(height, what))
    }

    fn output_count(&self, height: u32) -> Option<u32> {
        self.block(height).ok().map(|(outputs, _)| outputs)
    }
}

/// The number of outputs and the bitmap of the block that `bytes` begins with; 0 outputs and no
/// bitmap at the end of the file.
fn read_block(bytes: &[u8]) -> Result<(u32, &[u8]), Wrong> {
    let (outputs, rest) = bytes.split_first_chunk().ok_or(CUT_SHORT)?;
    let outputs = u32::from(u16::from_le_bytes(*outputs));
    Ok((outputs, rest.get(..bits::bytes_of(outputs)).ok_or(CUT_SHORT)?))
}

fn walk(bytes: &[u8]) -> Result<Offsets, HintsError> {
    if !bytes.starts_with(&GENESIS) {
        return Err(HintsError::new("the hints file does not begin with block 0 and its 1 output"));
    }
    let mut offsets = Offsets::default();
    let mut at = 0;
    for height in 0.. {
        let wrong = |what| HintsError::at(height, what);
        let (outputs, bitmap) = read_block(&bytes[at..]).map_err(wrong)?;
        if !offsets.push(at) {
            return Err(wrong(CUT_SHORT));
        }
        at += END.len() + bitmap.len();
        if outputs == 0 {
            break;
        }
        bits::check_padding(bitmap, outputs).map_err(wrong)?;
    }
    if at != bytes.len() {
        let what = format!("the hints file has {} bytes behind its end", bytes.len() - at);
        return Err(HintsError::new(what));
    }
    Ok(offsets)
}

/// Writes what IBD Booster's generator writes.
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
        bits::put(unspent, outputs, out);
        Ok(())
    }

    fn put_tail(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&END);
    }
}
