//! Writes compressed hints: the head, the ranges of heights in order, and the tail.

use std::ops::Range;

use super::FrameEntry;
use super::frame::Frame;
use super::layout::{COMPRESSED_MAGIC, COMPRESSED_VERSION, FRAME_BLOCKS_MAX};
use crate::hints::blocks::{OUTPUTS_MAX, check_block};
use crate::hints::{Hints, HintsError, Numbering};

/// Returns the ranges of heights that are compressed together. No frame extends from one range into
/// the next, so ranges can be compressed independently.
pub fn ranges(height: u32) -> impl ExactSizeIterator<Item = Range<u32>> + Send {
    let blocks = FRAME_BLOCKS_MAX as u32;
    (0..height.div_ceil(blocks)).map(move |i| {
        let start = i * blocks;
        start + 1..(start + blocks.min(height - start)).saturating_add(1)
    })
}

/// The part of the file for one range of heights.
#[derive(Default)]
pub struct CompressedRange {
    /// The code, which follows the code of the previous range in the file.
    pub bytes: Vec<u8>,
    /// The entries for the file's index.
    pub entries: Vec<FrameEntry>,
    /// The number of unspent outputs.
    pub unspent: u64,
}

impl CompressedRange {
    fn push(&mut self, frame: &Frame) {
        let start = self.bytes.len();
        frame.encode(&mut self.bytes);
        let code = &self.bytes[start..];
        let blocks = frame.blocks() as u16;
        let len = code.len() as u32;
        self.entries.push(FrameEntry { blocks, len, crc: crc32c::crc32c(code) });
        self.unspent += frame.indices() as u64;
    }
}

/// Returns the part of the file before the frames.
pub fn head(height: u32) -> Vec<u8> {
    let mut head = COMPRESSED_MAGIC.to_vec();
    head.push(COMPRESSED_VERSION);
    head.extend_from_slice(&height.to_le_bytes());
    head
}

/// Returns the part of the file after the frames. `entries` are those of all ranges, in order.
pub fn tail(height: u32, entries: &[FrameEntry]) -> Vec<u8> {
    let mut tail = Vec::new();
    entries.iter().for_each(|entry| entry.write(&mut tail));
    tail.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&head(height)), &tail);
    tail.extend_from_slice(&crc.to_le_bytes());
    tail
}

/// Compresses one of the [`ranges`]. `read` sets the list to the block's ascending indices, which
/// are below [`OUTPUTS_MAX`]: see [`blocks_of`].
///
/// # Errors
/// Those of `read`.
pub fn compress_range<E>(
    range: Range<u32>,
    read: impl Fn(u32, &mut Vec<u32>) -> Result<(), E>,
) -> Result<CompressedRange, E> {
    let mut done = CompressedRange::default();
    let mut frame = Frame::default();
    let mut unspent = Vec::new();
    for height in range {
        read(height, &mut unspent)?;
        if frame.is_full(unspent.len()) {
            done.push(&frame);
            frame.clear();
        }
        frame.push(&unspent);
    }
    if frame.blocks() > 0 {
        done.push(&frame);
    }
    Ok(done)
}

/// Returns a function that reads a block of `hints` for [`compress_range`].
///
/// # Errors
/// The format of the hints counts unspendable outputs. The function fails if a block's hints are
/// invalid.
pub fn blocks_of(
    hints: &dyn Hints,
) -> Result<impl Fn(u32, &mut Vec<u32>) -> Result<(), HintsError> + Copy + Send, HintsError> {
    if hints.format().numbering() != Numbering::Spendable {
        let what = "the format counts unspendable outputs: convert the file to bip456 first";
        return Err(HintsError::new(what));
    }
    Ok(move |height: u32, unspent: &mut Vec<u32>| {
        hints.unspent(height, unspent)?;
        let checked = check_block(unspent, OUTPUTS_MAX);
        checked.map_err(|error| HintsError::at(height, error.what))
    })
}

/// Compresses hints into a whole file, on one thread.
///
/// # Errors
/// As for [`blocks_of`].
pub fn compress(hints: &dyn Hints) -> Result<Vec<u8>, HintsError> {
    let height = hints.height();
    let read = blocks_of(hints)?;
    let mut file = head(height);
    let mut entries = Vec::new();
    for range in ranges(height) {
        let mut done = compress_range(range, read)?;
        file.append(&mut done.bytes);
        entries.append(&mut done.entries);
    }
    file.extend(tail(height, &entries));
    Ok(file)
}
