//! The hints file of Core PR 34004 (December 2025): magic, version and height as in draft BIP 456;
//! for each block its height (u32) and its offset in the file (u64); then for each block its number
//! of outputs (u32) and its bitmap. All numbers are little endian, and blocks start at height 1.
//!
//! The bits stand for *all* outputs of a block ([`super::Numbering::All`]). The format has the
//! magic and version of BIP 456. Its index tells the two apart: it begins with 01 00 00, which in
//! BIP 456 would be one index without any bits. A file without blocks has no index, and is taken
//! for one of BIP 456.

use super::bip456::{self, HEAD_BYTES};
use super::bitmap::{self, Bitmap, BitmapFile};
use super::blocks::{CUT_SHORT, OUTPUTS_MAX, Wrong, check_block, check_end, no_such_height};
use super::error::HintsError;
use super::format::{Format, HintsEncoder};

/// The bytes of an index entry: height and offset of one block.
const ENTRY_BYTES: usize = 12;
/// The height of the first block, in the place where BIP 456 has the first block.
const FIRST_HEIGHT: [u8; 4] = [1, 0, 0, 0];

/// Returns whether a file that begins with BIP 456's magic is of this format.
pub(super) fn is_bitset(bytes: &[u8]) -> bool {
    bytes.get(HEAD_BYTES..).is_some_and(|rest| rest.starts_with(&FIRST_HEIGHT))
}

/// An opened hints file of Core PR 34004. The file contains its own index, so none is kept in
/// memory.
pub struct Bitset<B> {
    bytes: B,
    height: u32,
}

impl<B: AsRef<[u8]>> Bitset<B> {
    /// Opens a file of these bytes, which are walked once.
    ///
    /// # Errors
    /// The file is not of this format and version, ends early, has bytes after its end or bits
    /// after a block's last output, or does not list its blocks by height.
    pub fn open(bytes: B) -> Result<Self, HintsError> {
        let height = walk(bytes.as_ref())?;
        Ok(Self { bytes, height })
    }
}

// `Hints` comes from `BitmapFile`, in bitmap.rs.
impl<B: AsRef<[u8]> + Send + Sync> BitmapFile for Bitset<B> {
    const FORMAT: Format = Format::Bitset;

    fn height(&self) -> u32 {
        self.height
    }

    fn bitmap(&self, height: u32) -> Result<Bitmap<'_>, HintsError> {
        if height == 0 || height > self.height {
            return Err(no_such_height(height, self.height));
        }
        let bytes = self.bytes.as_ref();
        let block = IndexEntry::read(bytes, height).and_then(|entry| block_at(bytes, entry.start));
        block.map_err(|what| HintsError::at(height, what))
    }
}

/// The entry of a block in the file's index.
#[derive(Clone, Copy, PartialEq, Eq)]
struct IndexEntry {
    height: u32,
    /// The offset of the block in the file.
    start: u64,
}

impl IndexEntry {
    /// Reads the entry that belongs to the block at `height`, which is not 0.
    fn read(bytes: &[u8], height: u32) -> Result<Self, Wrong> {
        let at = index_end(height - 1);
        let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).ok_or(CUT_SHORT)?;
        let (height, rest) = rest.split_first_chunk().ok_or(CUT_SHORT)?;
        let start = rest.first_chunk().ok_or(CUT_SHORT)?;
        Ok(Self { height: u32::from_le_bytes(*height), start: u64::from_le_bytes(*start) })
    }
}

/// Returns the offset at which the index of this many blocks ends.
fn index_end(blocks: u32) -> u64 {
    HEAD_BYTES as u64 + u64::from(blocks) * ENTRY_BYTES as u64
}

/// Reads the bitmap of the block at offset `at`.
fn block_at(bytes: &[u8], at: u64) -> Result<Bitmap<'_>, Wrong> {
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).ok_or(CUT_SHORT)?;
    let (outputs, rest) = rest.split_first_chunk().ok_or(CUT_SHORT)?;
    let outputs = u32::from_le_bytes(*outputs);
    if outputs > OUTPUTS_MAX {
        return Err("it has more outputs than a block can have");
    }
    Bitmap::first(rest, outputs)
}

/// Checks the whole file, and returns the height of its last block.
fn walk(bytes: &[u8]) -> Result<u32, HintsError> {
    let stop = bip456::read_head(bytes, bip456::VERSION)?;
    let mut start = index_end(stop);
    if start > bytes.len() as u64 {
        return Err(HintsError::new("the hints file ends inside its index"));
    }
    for height in 1..=stop {
        let wrong = |what| HintsError::at(height, what);
        if IndexEntry::read(bytes, height).map_err(wrong)? != (IndexEntry { height, start }) {
            return Err(wrong("the hints file's index has a different height or offset for it"));
        }
        let bitmap = block_at(bytes, start).map_err(wrong)?;
        bitmap.check_padding().map_err(wrong)?;
        start += 4 + bitmap.len() as u64;
    }
    check_end(bytes, start)?;
    Ok(stop)
}

/// Writes hints as Core PR 34004 does.
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
        bitmap::put(unspent, outputs, out);
        Ok(())
    }

    fn final_head(&self, block_bytes: &[u32]) -> Option<Vec<u8>> {
        let mut head = Vec::with_capacity(HEAD_BYTES + block_bytes.len() * ENTRY_BYTES);
        bip456::put_head(block_bytes.len() as u32, &mut head);
        let mut start = index_end(block_bytes.len() as u32);
        for (height, bytes) in (1u32..).zip(block_bytes) {
            head.extend_from_slice(&height.to_le_bytes());
            head.extend_from_slice(&start.to_le_bytes());
            start += u64::from(*bytes);
        }
        Some(head)
    }
}
