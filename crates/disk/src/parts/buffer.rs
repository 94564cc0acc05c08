use std::ops::Range;

use memmap2::MmapMut;

use crate::{Result, SpillFile, StoreError};

use super::extent::{Extent, PAGE_BYTES};

/// A buffer for the bytes of a part, which one thread uses for one part after another.
#[derive(Default)]
pub struct PartBuffer {
    memory: Option<MmapMut>,
    /// The ranges of the memory that hold pieces.
    pieces: Vec<Range<usize>>,
}

/// All bytes of a part, in one buffer.
pub(super) struct Gathered<'a> {
    pub bytes: &'a mut [u8],
    pub pieces: &'a [Range<usize>],
}

impl PartBuffer {
    /// Returns a buffer that has no memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads all extents, and appends the bytes of `held`.
    pub(super) fn gather(
        &mut self,
        extents: &[Extent],
        held: &[u8],
        out: &SpillFile,
    ) -> Result<Gathered<'_>> {
        let in_file = extents.iter().map(Extent::pages_bytes).sum::<usize>();
        let len = in_file + held.len();
        self.reserve(len, out)?;
        let Self { memory, pieces } = self;
        let bytes = &mut memory.as_mut().expect("mapped above")[..len];
        pieces.clear();
        let mut at = 0;
        for extent in extents {
            let end = at + extent.pages_bytes();
            extent.read(out, &mut bytes[at..end])?;
            pieces.push(at..at + extent.bytes as usize);
            at = end;
        }
        bytes[at..].copy_from_slice(held);
        if !held.is_empty() {
            pieces.push(at..len);
        }
        Ok(Gathered { bytes, pieces })
    }

    /// Reads one extent.
    pub(super) fn read(&mut self, extent: &Extent, out: &SpillFile) -> Result<&[u8]> {
        self.reserve(extent.pages_bytes(), out)?;
        let pages = &mut self.memory.as_mut().expect("mapped above")[..extent.pages_bytes()];
        extent.read(out, pages)?;
        Ok(&pages[..extent.bytes as usize])
    }

    /// Makes room for `bytes` bytes; the content of the buffer is lost.
    fn reserve(&mut self, bytes: usize, out: &SpillFile) -> Result<()> {
        if self.memory.as_ref().is_none_or(|memory| memory.len() < bytes) {
            self.memory = None;
            let room = (bytes + bytes / 4).max(1).next_multiple_of(PAGE_BYTES);
            self.memory = Some(map(out, room)?);
        }
        Ok(())
    }
}

/// Maps zeroed memory that starts at a page boundary and is allocated when it is touched. Huge
/// pages save 60 ms of page faults if the memory was in use before, but cost 500 ms in a virtual
/// machine whose host has to find them first.
pub(super) fn map(out: &SpillFile, bytes: usize) -> Result<MmapMut> {
    let what = "allocate memory for the bytes of this file";
    MmapMut::map_anon(bytes).map_err(|e| StoreError::io(out.path(), what, e))
}
