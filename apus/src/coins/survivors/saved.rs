use crate::wire::{Cursor, ParseError, put_compact_size};

use super::bits::SlotBits;
use super::spill::{Extent, PAGE_BYTES};

/// The locations of all records in the file, as [`Survivors::save`] returns and
/// [`Survivors::resume`] needs them.
///
/// [`Survivors::save`]: super::Survivors::save
/// [`Survivors::resume`]: super::Survivors::resume
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSurvivors {
    /// How the records are divided into slots.
    pub(super) bits: SlotBits,
    pub(super) count: u64,
    pub(super) amount: u64,
    /// The length of the file.
    pub(super) file_bytes: u64,
    /// The extents of each slot, over all partitions.
    pub(super) extents: Vec<Vec<Extent>>,
}

impl SavedSurvivors {
    /// The largest number of bits that decide about the slot: more would make more slots than
    /// anybody needs.
    pub(super) const BITS_MAX: u32 = 16;

    /// The number of coins saved.
    #[cfg(any(test, feature = "internals"))]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Serialises the locations: the numbers of bits for partitions and for slots, a byte each;
    /// count, amount and length of the file, 8 bytes each, little endian; for each slot a
    /// CompactSize and as many extents of offset (8 bytes), length and CRC-32C (4 bytes each).
    /// These are about 16 KB, and 16 bytes for each extent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![self.bits.partition as u8, self.bits.slot as u8];
        for number in [self.count, self.amount, self.file_bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for extents in &self.extents {
            put_compact_size(&mut out, extents.len() as u64);
            for extent in extents {
                out.extend_from_slice(&extent.offset.to_le_bytes());
                out.extend_from_slice(&extent.bytes.to_le_bytes());
                out.extend_from_slice(&extent.crc.to_le_bytes());
            }
        }
        out
    }

    /// Reads what [`SavedSurvivors::to_bytes`] wrote.
    ///
    /// # Errors
    /// The bytes are cut short, have more after their end, or name locations that no file can have.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(bytes);
        let (partition, slot) = (u32::from(cursor.u8()?), u32::from(cursor.u8()?));
        let bits = SlotBits { partition, slot };
        if bits.total() > Self::BITS_MAX {
            return Err(cursor.error("too many slots"));
        }
        let (count, amount, file_bytes) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
        let mut extents = Vec::new();
        for _ in 0..1 << bits.total() {
            let len = cursor.compact_size()?;
            if len > cursor.remaining() / 16 {
                return Err(cursor.error("end of data"));
            }
            let read = (0..len).map(|_| read_extent(&mut cursor, file_bytes));
            extents.push(read.collect::<Result<_, _>>()?);
        }
        match cursor.remaining() {
            0 => Ok(Self { bits, count, amount, file_bytes, extents }),
            _ => Err(cursor.error("bytes after the end")),
        }
    }
}

fn read_extent(cursor: &mut Cursor, file_bytes: u64) -> Result<Extent, ParseError> {
    let extent = Extent { offset: cursor.u64()?, bytes: cursor.u32()?, crc: cursor.u32()? };
    let end = extent.offset.checked_add(extent.pages_bytes() as u64);
    let is_whole_pages = extent.offset.is_multiple_of(PAGE_BYTES as u64);
    match end {
        Some(end) if end <= file_bytes && is_whole_pages => Ok(extent),
        _ => Err(cursor.error("an extent after the end of its file")),
    }
}
