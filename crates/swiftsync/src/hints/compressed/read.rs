use std::sync::{Arc, Mutex, PoisonError};

use super::FrameEntry;
use super::frame::Frame;
use super::layout::{
    COMPRESSED_ENTRY_BYTES, COMPRESSED_HEAD_BYTES, COMPRESSED_MAGIC, COMPRESSED_TAIL_BYTES,
    COMPRESSED_VERSION,
};
use crate::hints::blocks::no_such_height;
use crate::hints::{Format, Hints, HintsError};

/// The number of decoded frames to keep, for workers that are a thousand blocks or more apart: at
/// most 8.5 MiB.
const FRAMES_HELD: usize = 16;

/// An opened compressed hints file. It takes at most 9 MiB of memory for decoded frames, 0.7 MiB
/// for each thread that decodes one, and 16 bytes for each frame of the file.
pub struct Compressed<B> {
    bytes: B,
    height: u32,
    /// The start of each frame, and the end of the last one.
    frames: Vec<FrameStart>,
    /// The decoded frames: frame i is kept at i mod 16.
    held: [Mutex<Option<DecodedFrame>>; FRAMES_HELD],
}

/// A decoded frame.
struct DecodedFrame {
    index: usize,
    frame: Arc<Frame>,
}

/// The start of a frame, or the end of the last one.
struct FrameStart {
    /// The height of its first block.
    first_height: u32,
    /// Its offset in the file.
    offset: u64,
}

/// The parts of a file that are read when it is opened.
struct Opened {
    height: u32,
    /// The start of each frame, and the end of the last one.
    frames: Vec<FrameStart>,
}

impl<B: AsRef<[u8]>> Compressed<B> {
    /// Opens a file of these bytes, which are walked once to verify all checksums.
    ///
    /// # Errors
    /// The file is not of this format and version, is cut short, has bytes after its end, or is
    /// damaged.
    pub fn open(bytes: B) -> Result<Self, HintsError> {
        let Opened { height, frames } = walk(bytes.as_ref())?;
        let held = std::array::from_fn(|_| Mutex::new(None));
        Ok(Self { bytes, height, frames, held })
    }

    /// Returns the frame at `index`, which is decoded unless it is kept. A thread that needs a
    /// frame while another thread decodes it waits.
    fn frame(&self, index: usize) -> Result<Arc<Frame>, HintsError> {
        let slot = &self.held[index % FRAMES_HELD];
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = slot.as_ref().filter(|held| held.index == index) {
            return Ok(Arc::clone(&held.frame));
        }
        let old = slot.take().and_then(|held| Arc::into_inner(held.frame)).unwrap_or_default();
        let here = &self.frames[index];
        let next = &self.frames[index + 1];
        // All frames are within the file, since `walk` has checked the index.
        let bytes = &self.bytes.as_ref()[here.offset as usize..next.offset as usize];
        let blocks = (next.first_height - here.first_height) as usize;
        let decoded = Frame::decode(old, bytes, blocks);
        let frame = decoded.ok_or_else(|| HintsError::at(here.first_height, DAMAGED))?;
        let frame = Arc::new(frame);
        *slot = Some(DecodedFrame { index, frame: Arc::clone(&frame) });
        Ok(frame)
    }
}

impl<B: AsRef<[u8]> + Send + Sync> Hints for Compressed<B> {
    fn format(&self) -> Format {
        Format::Compressed
    }

    fn height(&self) -> u32 {
        self.height
    }

    fn unspent(&self, height: u32, unspent: &mut Vec<u32>) -> Result<(), HintsError> {
        if height == 0 || height > self.height {
            return Err(no_such_height(height, self.height));
        }
        let index = self.frames.partition_point(|frame| frame.first_height <= height) - 1;
        let frame = self.frame(index)?;
        let block = frame.block((height - self.frames[index].first_height) as usize);
        unspent.clear();
        unspent.extend_from_slice(block.ok_or_else(|| HintsError::at(height, DAMAGED))?);
        Ok(())
    }

    fn output_count(&self, _height: u32) -> Option<u32> {
        None
    }
}

const DAMAGED: &str = "the hints file is damaged: download or create it again";

/// Checks the whole file, except for the codes in its frames.
fn walk(bytes: &[u8]) -> Result<Opened, HintsError> {
    let cut_short = || HintsError::new("the hints file is cut short, or has bytes after its end");
    let (head, rest) = bytes.split_first_chunk::<COMPRESSED_HEAD_BYTES>().ok_or_else(cut_short)?;
    let [m0, m1, m2, m3, version, height @ ..] = *head;
    if [m0, m1, m2, m3] != COMPRESSED_MAGIC {
        return Err(HintsError::new("this is not a compressed hints file"));
    }
    if version != COMPRESSED_VERSION {
        let remedy = if version > COMPRESSED_VERSION {
            "update Apus"
        } else {
            "make it again with `apus hints create` and `apus hints compress`"
        };
        let what = format!("the compressed hints file is of version {version}: {remedy}");
        return Err(HintsError::new(what));
    }
    let height = u32::from_le_bytes(height);
    let (rest, tail) = rest.split_last_chunk::<COMPRESSED_TAIL_BYTES>().ok_or_else(cut_short)?;
    let [f0, f1, f2, f3, crc @ ..] = *tail;
    let index_len =
        (u32::from_le_bytes([f0, f1, f2, f3]) as usize).checked_mul(COMPRESSED_ENTRY_BYTES);
    let frames_len = index_len.and_then(|len| rest.len().checked_sub(len)).ok_or_else(cut_short)?;
    let (frames, index) = rest.split_at(frames_len);
    let seen = crc32c::crc32c(head);
    let seen = crc32c::crc32c_append(seen, &bytes[head.len() + frames_len..bytes.len() - 4]);
    if seen != u32::from_le_bytes(crc) {
        return Err(cut_short());
    }
    let starts = read_index(index, frames)?;
    if starts.last().is_none_or(|end| end.first_height - 1 != height) {
        return Err(HintsError::new(DAMAGED));
    }
    Ok(Opened { height, frames: starts })
}

/// Checks the frames against the index. Returns the start of each frame, and the end of the last.
fn read_index(index: &[u8], frames: &[u8]) -> Result<Vec<FrameStart>, HintsError> {
    let mut starts = Vec::with_capacity(index.len() / COMPRESSED_ENTRY_BYTES + 1);
    let mut first_height = 1u32;
    let mut at = 0;
    for entry in index.as_chunks::<COMPRESSED_ENTRY_BYTES>().0 {
        let FrameEntry { blocks, len, crc } = FrameEntry::read(*entry);
        let bytes = frames.get(at..).and_then(|rest| rest.get(..len as usize));
        if bytes.is_none_or(|bytes| crc32c::crc32c(bytes) != crc) || blocks == 0 {
            return Err(HintsError::at(first_height, DAMAGED));
        }
        starts.push(FrameStart { first_height, offset: (COMPRESSED_HEAD_BYTES + at) as u64 });
        at += len as usize;
        let next = first_height.checked_add(u32::from(blocks));
        first_height = next.ok_or_else(|| HintsError::new(DAMAGED))?;
    }
    if at != frames.len() {
        return Err(HintsError::new(DAMAGED));
    }
    starts.push(FrameStart { first_height, offset: (COMPRESSED_HEAD_BYTES + at) as u64 });
    Ok(starts)
}
