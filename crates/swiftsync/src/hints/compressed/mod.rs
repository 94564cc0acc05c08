//! Compressed hints: Apus' own format for distribution, whose bytes docs/format.md describes.
//!
//! A file is a head, frames, an index and a tail. A frame holds consecutive blocks, compressed by a
//! library (raw DEFLATE, RFC 1951) on their own, so that reading any block takes one frame, about a
//! millisecond. What is compressed is the gaps between unspent outputs: their distribution differs
//! between blocks and between parts of a block, which Elias-Fano codes ignore.

mod frame;
pub mod layout;
mod read;
mod write;

pub use read::Compressed;
pub use write::{CompressedRange, blocks_of, compress, compress_range, head, ranges, tail};

/// The entry of a frame in the file's index.
#[derive(Clone, Copy, Debug)]
pub struct FrameEntry {
    /// The number of blocks in the frame.
    blocks: u16,
    /// The length of the frame, in bytes.
    len: u32,
    /// The CRC-32C of the frame.
    crc: u32,
}

impl FrameEntry {
    fn read(bytes: [u8; layout::COMPRESSED_ENTRY_BYTES]) -> Self {
        let [b0, b1, l0, l1, l2, l3, crc @ ..] = bytes;
        let blocks = u16::from_le_bytes([b0, b1]);
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        Self { blocks, len, crc: u32::from_le_bytes(crc) }
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.blocks.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
    }
}
