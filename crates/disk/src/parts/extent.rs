use crate::Disk;

/// The unit in which the file is written.
pub(super) const PAGE_BYTES: usize = Disk::DIRECT_BYTES;

/// Consecutive pages of the file with bytes of one part. The last page may be used in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The number of the first page, which is enough for 16 TiB.
    pub page: u32,
    /// The bytes of the part, without the rest of the last page.
    pub bytes: u32,
    /// The CRC-32C of those bytes.
    pub crc: u32,
}

impl Extent {
    /// The offset in the file.
    pub(super) fn offset(&self) -> u64 {
        u64::from(self.page) * PAGE_BYTES as u64
    }

    /// The bytes of all pages, with the rest of the last one.
    pub(super) fn pages_bytes(&self) -> usize {
        (self.bytes as usize).next_multiple_of(PAGE_BYTES)
    }

    /// The offset after the last page.
    pub(super) fn end(&self) -> u64 {
        self.offset() + self.pages_bytes() as u64
    }
}
