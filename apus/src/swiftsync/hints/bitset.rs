//! The file of Core PR 34004 (December 2025): magic, version and height as in draft BIP 456; for
//! each block its height (u32) and where in the file it is (u64); then each block's number of
//! outputs (u32) and its bitmap. All little endian, blocks from height 1.
//!
//! The bits stand for *all* outputs of a block ([`super::Numbering::All`]). What tells it from BIP
//! 456, whose magic and version it has, is the index: read by BIP 456, 01 00 00 would be one index
//! of which there is no bit.

use super::bip456::{self, HEAD_BYTES};
use super::bits;
use super::blocks::{check_block, no_such_height};
use super::elias_fano::{CUT_SHORT, OUTPUTS_MAX, Wrong};
use super::error::HintsError;
use super::format::{Format, Hints, HintsEncoder};

/// Height and place of one block.
const ENTRY_BYTES: usize = 12;
/// The first block's height, where BIP 456 has the first block.
const FIRST_HEIGHT: [u8; 4] = [1, 0, 0, 0];

/// Whether a file that begins with BIP 456's magic is of this format.
pub(super) fn is_bitset(bytes: &[u8]) -> bool {
    bytes.get(HEAD_BYTES..).is_some_and(|rest| rest.starts_with(&FIRST_HEIGHT))
}

/// An open file. Its index is its own: it takes no memory beside its bytes.
pub struct Bitset<B> {
    bytes: B,
    height: u32,
}

impl<B: AsRef<[u8]>> Bitset<B> {
    /// Walks over the file once.
    ///
    /// # Errors
    /// Not a file of this format and version, cut short, with bytes behind its end, with blocks
    /// that do not follow each other by height, or bits behind a block's outputs.
    pub fn open(bytes: B) -> Result<Self, HintsError> {
        let height = walk(bytes.as_ref())?;
        Ok(Self { bytes, height })
    }

    fn block(&self, height: u32) -> Result<(u32, &[u8]), HintsError> {
        if height == 0 || height > self.height {
            return Err(no_such_height(height, self.height));
        }
        let bytes = self.bytes.as_ref();
        let block = entry(bytes, height).and_then(|(_, at)| read_block(bytes, at));
        block.map_err(|what| HintsError::at(height, what))
    }
}

impl<B: AsRef<[u8]> + Send + Sync> Hints for Bitset<B> {
    fn format(&self) -> Format {
        Format::Bitset
    }

    fn height(&self) -> u32 {
        self.height
    }

    fn unspent(&self, height: u32, unspent: &mut Vec<u32>) -> Result<(), HintsError> {
        let (outputs, bitmap) = self.block(height)?;
        bits::read(bitmap, outputs, unspent).map_err(|what| HintsError::at(height, what))
    }

    fn output_count(&self, height: u32) -> Option<u32> {
        self.block(height).ok().map(|(outputs, _)| outputs)
    }
}

/// Where the index of so many blocks ends.
fn index_end(blocks: u32) -> u64 {
    HEAD_BYTES as u64 + u64::from(blocks) * ENTRY_BYTES as u64
}

/// Height and place of the block at `height`, as the index has them.
fn entry(bytes: &[u8], height: u32) -> Result<(u32, u64), Wrong> {
    let at = index_end(height - 1);
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).ok_or(CUT_SHORT)?;
    let (height, rest) = rest.split_first_chunk().ok_or(CUT_SHORT)?;
    let place = rest.first_chunk().ok_or(CUT_SHORT)?;
    Ok((u32::from_le_bytes(*height), u64::from_le_bytes(*place)))
}

/// The number of outputs and the bitmap of the block at `at`.
fn read_block(bytes: &[u8], at: u64) -> Result<(u32, &[u8]), Wrong> {
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).ok_or(CUT_SHORT)?;
    let (outputs, rest) = rest.split_first_chunk().ok_or(CUT_SHORT)?;
    let outputs = u32::from_le_bytes(*outputs);
    if outputs > OUTPUTS_MAX {
        return Err("it has more outputs than a block can have");
    }
    Ok((outputs, rest.get(..bits::bytes_of(outputs)).ok_or(CUT_SHORT)?))
}

fn walk(bytes: &[u8]) -> Result<u32, HintsError> {
    let stop = bip456::read_head(bytes)?;
    let mut at = index_end(stop);
    if at > bytes.len() as u64 {
        return Err(HintsError::new("the hints file ends inside its index"));
    }
    for height in 1..=stop {
        let wrong = |what| HintsError::at(height, what);
        if entry(bytes, height).map_err(wrong)? != (height, at) {
            return Err(wrong("the hints file's index has another block or place for it"));
        }
        let (outputs, bitmap) = read_block(bytes, at).map_err(wrong)?;
        bits::check_padding(bitmap, outputs).map_err(wrong)?;
        at += 4 + bitmap.len() as u64;
    }
    if at != bytes.len() as u64 {
        let what = format!("the hints file has {} bytes behind its end", bytes.len() as u64 - at);
        return Err(HintsError::new(what));
    }
    Ok(stop)
}

/// Writes what Core PR 34004 writes.
pub struct Encoder;

impl HintsEncoder for Encoder {
    fn put_head(&self, height: u32, out: &mut Vec<u8>) {
        bip456::put_head(height, out);
        out.resize(out.len() + height as usize * ENTRY_BYTES, 0);
    }

    fn put_block(
        &self,
        unspent: &[u32],
        outputs: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), HintsError> {
        check_block(unspent, outputs)?;
        out.extend_from_slice(&outputs.to_le_bytes());
        bits::put(unspent, outputs, out);
        Ok(())
    }

    fn put_tail(&self, _out: &mut Vec<u8>) {}

    fn final_head(&self, block_bytes: &[u32]) -> Option<Vec<u8>> {
        let mut head = Vec::with_capacity(HEAD_BYTES + block_bytes.len() * ENTRY_BYTES);
        bip456::put_head(block_bytes.len() as u32, &mut head);
        let mut at = index_end(block_bytes.len() as u32);
        for (height, bytes) in (1u32..).zip(block_bytes) {
            head.extend_from_slice(&height.to_le_bytes());
            head.extend_from_slice(&at.to_le_bytes());
            at += u64::from(*bytes);
        }
        Some(head)
    }
}
