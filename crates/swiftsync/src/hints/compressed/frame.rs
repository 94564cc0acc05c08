//! A frame: consecutive blocks that are decoded together, independently of all others.

use apus_wire::put_compact_size;
use miniz_oxide::deflate::core::{
    CompressionStrategy, CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output,
    create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::layout::{FRAME_BLOCKS_MAX, FRAME_INDICES_MAX};
use crate::hints::blocks::OUTPUTS_MAX;
use crate::hints::elias_fano::read_compact_size;

/// The most bytes of a frame before compression: no number takes more than five.
const NUMBERS_BYTES_MAX: usize = 5 * (FRAME_BLOCKS_MAX + FRAME_INDICES_MAX);

/// The library's level at which it searches longest.
const LEVEL: i32 = 9;

/// A frame is compressed in both ways, and the shorter code is written: scattered indices have
/// no repetitions worth a match, clusters and runs of blocks without any have.
const STRATEGIES: [CompressionStrategy; 2] =
    [CompressionStrategy::Filtered, CompressionStrategy::HuffmanOnly];

/// Raw DEFLATE, without the head and checksum of zlib.
const RAW: i32 = -15;

/// The indices of consecutive blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// The end of each block's indices in `indices`.
    ends: Vec<u32>,
    indices: Vec<u32>,
}

impl Frame {
    pub fn blocks(&self) -> usize {
        self.ends.len()
    }

    pub fn indices(&self) -> usize {
        self.indices.len()
    }

    /// Returns the indices of block `i` of the frame.
    pub fn block(&self, i: usize) -> Option<&[u32]> {
        let end = *self.ends.get(i)? as usize;
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.indices.get(start..end)
    }

    /// Returns whether a block with this many indices does not fit into the frame.
    pub fn is_full(&self, indices: usize) -> bool {
        self.blocks() == FRAME_BLOCKS_MAX || self.indices.len() + indices > FRAME_INDICES_MAX
    }

    /// Adds a block, whose indices must ascend.
    pub fn push(&mut self, indices: &[u32]) {
        self.indices.extend_from_slice(indices);
        self.ends.push(self.indices.len() as u32);
    }

    pub fn clear(&mut self) {
        self.ends.clear();
        self.indices.clear();
    }

    /// Appends the code of the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let numbers = self.numbers();
        let codes = STRATEGIES.map(|strategy| deflate(&numbers, strategy));
        let [filtered, huffman] = &codes;
        out.extend_from_slice(if huffman.len() < filtered.len() { huffman } else { filtered });
    }

    /// Returns the frame before compression: for each block the count of its indices, and for each
    /// index how many lie between it and the one before.
    fn numbers(&self) -> Vec<u8> {
        let mut numbers = Vec::with_capacity(self.indices.len() + self.blocks());
        for block in (0..self.blocks()).filter_map(|i| self.block(i)) {
            put_compact_size(&mut numbers, block.len() as u64);
            let mut next = 0;
            for index in block {
                put_compact_size(&mut numbers, u64::from(index - next));
                next = index + 1;
            }
        }
        numbers
    }

    /// Decodes a frame of this many blocks into the memory of `old`; `None` if the code is not that
    /// of such a frame.
    pub fn decode(mut old: Self, code: &[u8], blocks: usize) -> Option<Self> {
        old.clear();
        let mut numbers = vec![0; NUMBERS_BYTES_MAX];
        let mut inflater = Box::<DecompressorOxide>::default();
        let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, read, len) = decompress(&mut inflater, code, &mut numbers, 0, flags);
        let is_whole = status == TINFLStatus::Done && read == code.len();
        let mut rest = numbers.get(..len).filter(|_| is_whole)?;
        for _ in 0..blocks {
            rest = old.push_numbers(rest)?;
        }
        (rest.is_empty() && blocks <= FRAME_BLOCKS_MAX).then_some(old)
    }

    /// Adds the block whose numbers are the first of `bytes`, and returns the bytes after them.
    fn push_numbers<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (count, len) = read_compact_size(bytes).ok()?;
        if self.indices.len() + count as usize > FRAME_INDICES_MAX {
            return None;
        }
        let mut rest = &bytes[len..];
        let mut next = 0u32;
        for _ in 0..count {
            let (gap, len) = read_compact_size(rest).ok()?;
            rest = &rest[len..];
            let index = next.saturating_add(gap);
            if index >= OUTPUTS_MAX {
                return None;
            }
            self.indices.push(index);
            next = index + 1;
        }
        self.ends.push(self.indices.len() as u32);
        Some(rest)
    }
}

fn deflate(bytes: &[u8], strategy: CompressionStrategy) -> Vec<u8> {
    let flags = create_comp_flags_from_zip_params(LEVEL, RAW, strategy.into());
    let mut compressor = Box::new(CompressorOxide::new(flags));
    let mut code = Vec::new();
    let (status, _) = compress_to_output(&mut compressor, bytes, TDEFLFlush::Finish, |part| {
        code.extend_from_slice(part);
        true
    });
    assert_eq!(status, TDEFLStatus::Done, "writing to memory does not fail");
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_code_of_a_whole_frame_is_decoded() {
        let decoded = |code: &[u8], blocks| Frame::decode(Frame::default(), code, blocks);
        let code = |numbers: &[u8]| deflate(numbers, CompressionStrategy::Filtered);
        let refused = |numbers: &[u8], blocks| decoded(&code(numbers), blocks).is_none();
        let good = code(&[1, 0, 2, 3, 4]);
        let frame = decoded(&good, 2).unwrap();
        assert_eq!([frame.block(0), frame.block(1)], [Some(&[0][..]), Some(&[3, 8][..])]);
        for len in 0..good.len() {
            assert!(decoded(&good[..len], 2).is_none(), "{len} bytes");
        }
        assert!(decoded(&[&good[..], &[0]].concat(), 2).is_none(), "a byte after the stream");
        assert!(decoded(&good, 1).is_none() && decoded(&good, 3).is_none(), "other blocks");
        let last = (OUTPUTS_MAX - 1).to_le_bytes();
        let [a, b, c, d] = last;
        assert!(decoded(&code(&[1, 0xfe, a, b, c, d]), 1).is_some());
        assert!(refused(&[2, 0xfe, a, b, c, d, 0], 1), "an index that no block has");
        assert!(refused(&[1, 0xfe, 255, 255, 255, 255], 1), "an index above 32 bits");
        assert!(refused(&[0xfe, 255, 255, 255, 255], 1), "more indices than bytes");
        assert!(refused(&[0; FRAME_BLOCKS_MAX + 1], FRAME_BLOCKS_MAX + 1), "too many blocks");
        assert!(refused(&vec![0; NUMBERS_BYTES_MAX + 1], 1), "too many numbers");
        let full = [&[0xfe, 0, 0, 1, 0][..], &[0; 1 << 16]].concat();
        assert!(decoded(&code(&[&full[..], &full].concat()), 2).is_some());
        assert!(refused(&[&full[..], &full, &[1, 0]].concat(), 3), "too many indices");
    }
}
