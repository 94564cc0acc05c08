//! Writes compressed hints, in two steps: a survey of all blocks, and their encoding with the model
//! that results from the survey.

use std::ops::Range;

use super::entry::FrameEntry;
use super::frame::{FRAME_BLOCKS_MAX, Frame};
use super::layout::{COMPRESSED_MAGIC, COMPRESSED_VERSION};
use super::model::{Census, Model};
use super::rans::Share;
use super::token::TOKENS;

/// Returns the ranges of heights that are compressed together. No frame extends from one range into
/// the next, so ranges can be compressed independently.
pub fn ranges(height: u32) -> impl ExactSizeIterator<Item = Range<u32>> + Send {
    let blocks = FRAME_BLOCKS_MAX as u32;
    (0..height.div_ceil(blocks)).map(move |i| {
        let start = i * blocks;
        start + 1..(start + blocks.min(height - start)).saturating_add(1)
    })
}

/// The first step of writing: counts how often each number occurs.
#[derive(Default)]
pub struct Survey(Census);

impl Survey {
    /// Adds the blocks of one of the [`ranges`].
    ///
    /// # Errors
    /// Those of `read`.
    pub fn add<E>(&mut self, range: Range<u32>, read: impl Read<E>) -> Result<(), E> {
        for_each_frame(range, read, |frame| frame.count(&mut self.0))
    }

    /// Adds the counts of another survey.
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }
}

/// The second step of writing: encodes the blocks. The file is the head, the ranges in the order of
/// height, and the tail.
pub struct Compressor {
    model: Model,
    shares: Vec<[Share; TOKENS]>,
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

impl Compressor {
    /// Creates a compressor for the hints that were surveyed. All their ranges must be in the
    /// survey.
    pub fn new(survey: &Survey) -> Self {
        let model = Model::new(&survey.0);
        Self { shares: model.shares(), model }
    }

    /// Returns the part of the file before the frames.
    pub fn head(&self, height: u32) -> Vec<u8> {
        let mut model = Vec::new();
        self.model.write(&mut model);
        let mut head = COMPRESSED_MAGIC.to_vec();
        head.push(COMPRESSED_VERSION);
        head.extend_from_slice(&height.to_le_bytes());
        head.extend_from_slice(&(model.len() as u32).to_le_bytes());
        head.extend_from_slice(&model);
        head
    }

    /// Compresses one of the [`ranges`].
    ///
    /// # Errors
    /// As for [`Survey::add`].
    pub fn range<E>(&self, range: Range<u32>, read: impl Read<E>) -> Result<CompressedRange, E> {
        let mut done = CompressedRange::default();
        for_each_frame(range, read, |frame| {
            let start = done.bytes.len();
            frame.encode(&self.model, &self.shares, &mut done.bytes);
            done.unspent += frame.indices() as u64;
            let code = &done.bytes[start..];
            let blocks = frame.blocks() as u16;
            let len = code.len() as u32;
            done.entries.push(FrameEntry { blocks, len, crc: crc32c::crc32c(code) });
        })?;
        Ok(done)
    }

    /// Returns the part of the file after the frames. `entries` are those of all ranges, in order.
    pub fn tail(&self, height: u32, entries: &[FrameEntry]) -> Vec<u8> {
        let mut tail = Vec::new();
        entries.iter().for_each(|entry| entry.write(&mut tail));
        tail.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&self.head(height)), &tail);
        tail.extend_from_slice(&crc.to_le_bytes());
        tail
    }
}

/// Compresses the hints of all blocks up to `height` into a whole file, on one thread.
///
/// # Errors
/// As for [`Survey::add`].
pub fn compress<E>(height: u32, read: impl Read<E> + Copy) -> Result<Vec<u8>, E> {
    let mut survey = Survey::default();
    ranges(height).try_for_each(|range| survey.add(range, read))?;
    let compressor = Compressor::new(&survey);
    let mut file = compressor.head(height);
    let mut entries = Vec::new();
    for range in ranges(height) {
        let mut done = compressor.range(range, read)?;
        file.append(&mut done.bytes);
        entries.append(&mut done.entries);
    }
    file.extend(compressor.tail(height, &entries));
    Ok(file)
}

/// Reads the block at a height: sets the list to the indices of its unspent outputs, which ascend
/// and are below [`OUTPUTS_MAX`](super::OUTPUTS_MAX).
pub trait Read<E>: Fn(u32, &mut Vec<u32>) -> Result<(), E> {}

impl<E, F: Fn(u32, &mut Vec<u32>) -> Result<(), E>> Read<E> for F {}

/// Divides a range of heights into frames, and calls `work` for each.
fn for_each_frame<E>(
    range: Range<u32>,
    read: impl Read<E>,
    mut work: impl FnMut(&Frame),
) -> Result<(), E> {
    let mut frame = Frame::default();
    let mut unspent = Vec::new();
    for height in range {
        read(height, &mut unspent)?;
        if frame.is_full(unspent.len()) {
            work(&frame);
            frame.clear();
        }
        frame.push(&unspent);
    }
    if frame.blocks() > 0 {
        work(&frame);
    }
    Ok(())
}
