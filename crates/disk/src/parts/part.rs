use memmap2::MmapMut;

use crate::{Result, SpillFile};

use super::buffer::{Gathered, PartBuffer, map};
use super::extent::{Extent, PAGE_BYTES};

/// The bytes of one part.
#[derive(Default)]
pub(super) struct Part {
    /// Mapped when the first bytes arrive.
    memory: Option<MmapMut>,
    /// The number of bytes in memory.
    held: usize,
    /// The bytes in the file, in the order in which they were written. They come before the bytes
    /// in memory.
    extents: Vec<Extent>,
}

impl Part {
    pub(super) fn in_file(extents: Vec<Extent>) -> Self {
        Self { memory: None, held: 0, extents }
    }

    /// Appends one piece. The part may use `part_bytes` of memory.
    pub(super) fn append(
        &mut self,
        bytes: &[u8],
        part_bytes: usize,
        out: &SpillFile,
    ) -> Result<()> {
        if self.held + bytes.len() > part_bytes {
            self.move_to_file(out)?;
        }
        if bytes.len() > part_bytes {
            // Memory that starts at a page boundary can be written past the page cache.
            let mut pages = map(out, bytes.len().next_multiple_of(PAGE_BYTES))?;
            pages[..bytes.len()].copy_from_slice(bytes);
            let extent = Extent::write(out, &pages, bytes.len())?;
            self.push(extent);
            return Ok(());
        }
        let memory = match &mut self.memory {
            Some(memory) => memory,
            None => self.memory.insert(map(out, part_bytes)?),
        };
        memory[self.held..self.held + bytes.len()].copy_from_slice(bytes);
        self.held += bytes.len();
        Ok(())
    }

    /// Moves the bytes in memory to the file.
    pub(super) fn move_to_file(&mut self, out: &SpillFile) -> Result<()> {
        let Some(memory) = self.memory.as_mut().filter(|_| self.held > 0) else { return Ok(()) };
        let pages = self.held.next_multiple_of(PAGE_BYTES);
        memory[self.held..pages].fill(0);
        let extent = Extent::write(out, &memory[..pages], self.held)?;
        self.push(extent);
        self.held = 0;
        Ok(())
    }

    /// Returns the bytes in memory.
    pub(super) fn held(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory[..self.held])
    }

    /// Returns the bytes in memory, to be changed.
    pub(super) fn held_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Some(memory) => &mut memory[..self.held],
            None => &mut [],
        }
    }

    /// Returns the extents of the bytes in the file.
    pub(super) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Reads all bytes into `buffer`.
    pub(super) fn gather<'a>(
        &self,
        buffer: &'a mut PartBuffer,
        out: &SpillFile,
    ) -> Result<Gathered<'a>> {
        buffer.gather(&self.extents, self.held(), out)
    }

    /// Returns the number of bytes in memory and in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.held as u64 + self.extents.iter().map(|e| u64::from(e.bytes)).sum::<u64>()
    }

    /// Adds an extent. The list grows by an eighth only, since all lists together are long.
    fn push(&mut self, extent: Extent) {
        if self.extents.len() == self.extents.capacity() {
            self.extents.reserve_exact(self.extents.len() / 8 + 4);
        }
        self.extents.push(extent);
    }
}
