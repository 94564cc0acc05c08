use super::extent::{Extent, PAGE_BYTES};

/// The locations of all bytes in the file, which [`Parts::save`] returns and [`Parts::resume`]
/// takes.
///
/// [`Parts::save`]: super::Parts::save
/// [`Parts::resume`]: super::Parts::resume
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedParts {
    /// The length of the file.
    pub(super) file_bytes: u64,
    /// The number of extents of each part.
    pub(super) counts: Vec<u32>,
    /// The extents of all parts, one part after the other.
    pub(super) extents: Vec<Extent>,
}

impl SavedParts {
    pub fn parts(&self) -> usize {
        self.counts.len()
    }

    /// Appends the locations to `out`, as little-endian integers: the length of the file (8 bytes),
    /// the number of parts (4), and for each part the number of its extents (4) and, for each
    /// extent, page, length and CRC-32C (4 each).
    pub fn put(&self, out: &mut Vec<u8>) {
        out.reserve_exact(12 + 4 * self.counts.len() + 12 * self.extents.len());
        out.extend_from_slice(&self.file_bytes.to_le_bytes());
        out.extend_from_slice(&(self.counts.len() as u32).to_le_bytes());
        let mut extents = self.extents.iter();
        for count in &self.counts {
            out.extend_from_slice(&count.to_le_bytes());
            for extent in extents.by_ref().take(*count as usize) {
                for number in [extent.page, extent.bytes, extent.crc] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
        }
    }

    /// Reads locations written by [`SavedParts::put`] from the start of `bytes`, and moves `bytes`
    /// past them. Returns `None`, and leaves `bytes` anywhere, if the bytes are truncated or name
    /// locations that no file can have.
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let file_bytes = u64::from_le_bytes(take(bytes)?);
        let parts = take_u32(bytes)?;
        // A damaged number must not decide how much memory is allocated.
        let mut counts = Vec::with_capacity((parts as usize).min(bytes.len() / 4));
        let mut extents = Vec::with_capacity(bytes.len() / 12);
        let mut room = file_bytes;
        for _ in 0..parts {
            let count = take_u32(bytes)?;
            for _ in 0..count {
                let (page, bytes, crc) = (take_u32(bytes)?, take_u32(bytes)?, take_u32(bytes)?);
                let extent = Extent { page, bytes, crc };
                // Nor may extents overlap: together they take no more than the file has.
                room = room.checked_sub(extent.pages_bytes() as u64)?;
                if extent.end() > file_bytes {
                    return None;
                }
                extents.push(extent);
            }
            counts.push(count);
        }
        extents.shrink_to_fit();
        let is_whole_pages = file_bytes.is_multiple_of(PAGE_BYTES as u64);
        is_whole_pages.then_some(Self { file_bytes, counts, extents })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(u32::from_le_bytes)
}
