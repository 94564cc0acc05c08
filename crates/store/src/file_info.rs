use std::collections::BTreeMap;

use apus_wire::{Cursor, ParseError, put_varint};

/// Statistics of a blk file and its rev file (Core's `CBlockFileInfo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileInfo {
    /// Number of blocks in the blk file.
    pub blocks: u32,
    /// Number of bytes used in the blk file.
    pub size: u32,
    /// Number of bytes used in the rev file.
    pub undo_size: u32,
    /// Lowest height of a block in the blk file.
    pub height_first: u32,
    /// Highest height of a block in the blk file.
    pub height_last: u32,
    /// Earliest time of a block in the blk file, in seconds since 1970.
    pub time_first: u64,
    /// Latest time of a block in the blk file, in seconds since 1970.
    pub time_last: u64,
}

impl FileInfo {
    /// Counts a block, except for its bytes: the caller updates `size`.
    pub fn add_block(&mut self, height: u32, time: u32) {
        let time = u64::from(time);
        if self.blocks == 0 || self.height_first > height {
            self.height_first = height;
        }
        if self.blocks == 0 || self.time_first > time {
            self.time_first = time;
        }
        self.blocks += 1;
        self.height_last = self.height_last.max(height);
        self.time_last = self.time_last.max(time);
    }

    /// Returns the record in the block index: seven VARINTs.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40);
        let head = [self.blocks, self.size, self.undo_size, self.height_first, self.height_last];
        head.iter().for_each(|value| put_varint(&mut out, u64::from(*value)));
        put_varint(&mut out, self.time_first);
        put_varint(&mut out, self.time_last);
        out
    }

    /// Parses the record in the block index.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(bytes);
        Ok(Self {
            blocks: varint_u32(&mut cursor)?,
            size: varint_u32(&mut cursor)?,
            undo_size: varint_u32(&mut cursor)?,
            height_first: varint_u32(&mut cursor)?,
            height_last: varint_u32(&mut cursor)?,
            time_first: cursor.varint()?,
            time_last: cursor.varint()?,
        })
    }
}

/// The changes to file infos since the block index was written. Only
/// [`super::BlockFiles::end_flush`] creates them, so that the index cannot get ahead of the files.
#[derive(Debug)]
pub struct FileChanges {
    /// The infos that changed, by the numbers of their files.
    pub(super) infos: BTreeMap<u32, FileInfo>,
    /// The number of the last file.
    pub(super) last_file: u32,
}

impl FileChanges {
    /// Splits off the infos that were cleared, and returns the others first. The cleared infos must
    /// be written after the entries of all blocks that the files held: a file without an info is
    /// deleted, but one that an entry names must exist.
    pub fn split_cleared(self) -> (Self, Self) {
        let last_file = self.last_file;
        let is_cleared = |info: &FileInfo| info.size == 0;
        let (cleared, others) = self.infos.into_iter().partition(|(_, info)| is_cleared(info));
        (Self { infos: others, last_file }, Self { infos: cleared, last_file })
    }

    /// Combines both changes.
    pub fn and(self, other: Self) -> Self {
        Self { infos: self.infos.into_iter().chain(other.infos).collect(), ..self }
    }

    /// Returns the changes that are left once these are written: none.
    pub fn written(self) -> Self {
        Self { infos: BTreeMap::new(), ..self }
    }
}

/// Reads a VARINT that Core holds in an unsigned 32-bit number.
pub(super) fn varint_u32(cursor: &mut Cursor) -> Result<u32, ParseError> {
    let error = cursor.error("VARINT over 32 bits");
    u32::try_from(cursor.varint()?).map_err(|_| error)
}

/// Reads a VARINT that Core holds in a signed 32-bit number, which is never negative.
pub(super) fn varint_i32(cursor: &mut Cursor) -> Result<u32, ParseError> {
    let error = cursor.error("VARINT over 31 bits");
    let value = varint_u32(cursor)?;
    if value > i32::MAX as u32 { Err(error) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_varints() {
        let mut info = FileInfo { size: 0x1234, undo_size: 0x80, ..FileInfo::default() };
        info.add_block(300, 0x123456);
        info.add_block(5, 0xffff);
        let bytes = [
            0x02, // blocks
            0xa3, 0x34, // size
            0x80, 0x00, // undo size
            0x05, // lowest height
            0x81, 0x2c, // highest height
            0x82, 0xfe, 0x7f, // earliest
            0xc7, 0xe7, 0x56, // latest
        ];
        assert_eq!(info.to_bytes(), bytes);
        assert_eq!(FileInfo::parse(&bytes), Ok(info));
        for len in 0..bytes.len() {
            assert!(FileInfo::parse(&bytes[..len]).is_err());
        }
        assert!(FileInfo::parse(&[0xff; 70]).is_err());
    }
}
