use crate::{Disk, Result, SpillFile, StoreError};

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
    /// Appends whole pages to the file, of which the first `bytes` bytes belong to a part.
    pub(super) fn write(file: &SpillFile, pages: &[u8], bytes: usize) -> Result<Self> {
        let offset = file.append(pages)?;
        let Ok(page) = u32::try_from(offset / PAGE_BYTES as u64) else {
            let what = "the file would exceed its limit of 16 TiB";
            return Err(StoreError::full(file.path(), what).at(offset));
        };
        Ok(Self { page, bytes: bytes as u32, crc: crc32c::crc32c(&pages[..bytes]) })
    }

    /// Reads the pages into `pages`, which has their length.
    pub(super) fn read(&self, file: &SpillFile, pages: &mut [u8]) -> Result<()> {
        file.read_exact(self.offset(), pages)?;
        let Self { bytes, crc, .. } = self;
        let found = crc32c::crc32c(&pages[..*bytes as usize]);
        if found != *crc {
            let what = format!(
                "the {bytes} bytes that were written here are damaged: their CRC-32C was \
                 {crc:08x} and is {found:08x}"
            );
            return Err(StoreError::corrupt(file.path(), self.offset(), what));
        }
        Ok(())
    }

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
