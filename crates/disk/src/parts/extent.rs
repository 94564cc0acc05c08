use crate::Disk;

/// The unit in which the file is written.
pub(super) const PAGE_BYTES: usize = Disk::DIRECT_BYTES;

/// Consecutive pages of the file with bytes of one part. The last page may be partly used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The number of the first page; 32 bits are enough for 16 TiB.
    pub page: u32,
    /// The number of bytes of the part, without the padding of the last page.
    pub bytes: u32,
    /// The CRC-32C of those bytes.
    pub crc: u32,
}

impl Extent {
    /// Returns the offset of the first page in the file.
    pub(super) fn offset(&self) -> u64 {
        u64::from(self.page) * PAGE_BYTES as u64
    }

    /// Returns the number of bytes of all pages, with the padding of the last one.
    pub(super) fn pages_bytes(&self) -> usize {
        (self.bytes as usize).next_multiple_of(PAGE_BYTES)
    }

    /// Returns the offset after the last page.
    pub(super) fn end(&self) -> u64 {
        self.offset() + self.pages_bytes() as u64
    }
}
