use std::path::Path;

use super::format::{get_u32, mask};
use crate::disk::{Result, StoreError};

/// A log is cut into blocks of this many bytes; no record's piece crosses from one to the next.
pub const BLOCK_BYTES: usize = 32768;
/// Checksum, length and type before each piece.
pub const HEADER_BYTES: usize = 7;

/// Type of a piece that is a whole record.
pub const FULL: u8 = 1;
/// Of a record's first piece.
pub const FIRST: u8 = 2;
/// Of one that is neither the first nor the last.
pub const MIDDLE: u8 = 3;
/// Of the last.
pub const LAST: u8 = 4;

/// Appends to `out` the bytes of `record` as they stand in a log that is `offset` bytes long.
pub(super) fn put_record(out: &mut Vec<u8>, mut offset: u64, record: &[u8]) {
    let mut rest = record;
    let mut first = true;
    loop {
        let left = BLOCK_BYTES - (offset % BLOCK_BYTES as u64) as usize;
        if left < HEADER_BYTES {
            out.resize(out.len() + left, 0);
            offset += left as u64;
            continue;
        }
        let (piece, after) = rest.split_at(rest.len().min(left - HEADER_BYTES));
        let kind = match (first, after.is_empty()) {
            (true, true) => FULL,
            (true, false) => FIRST,
            (false, false) => MIDDLE,
            (false, true) => LAST,
        };
        let crc = crc32c::crc32c_append(crc32c::crc32c(&[kind]), piece);
        out.extend_from_slice(&mask(crc).to_le_bytes());
        out.extend_from_slice(&(piece.len() as u16).to_le_bytes());
        out.push(kind);
        out.extend_from_slice(piece);
        offset += (HEADER_BYTES + piece.len()) as u64;
        rest = after;
        first = false;
        if rest.is_empty() {
            return;
        }
    }
}

/// Reads the records of a log that is in memory.
///
/// A record that the end of the file cuts short is left out without an error, since its writer
/// may have died: it was never promised. Anything else that is wrong is an error, as it is for
/// Bitcoin Core (`paranoid_checks`).
pub(super) struct LogReader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
    record: Vec<u8>,
}

enum Piece<'a> {
    Data(u8, &'a [u8]),
    /// Zeros, as a file system leaves them in space that was reserved and not written.
    Nothing,
    End,
}

impl<'a> LogReader<'a> {
    /// A reader at the start of `bytes`; `path` is for messages.
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, at: 0, record: Vec::new() }
    }

    /// Offset behind the last record.
    pub(super) fn offset(&self) -> u64 {
        self.at as u64
    }

    /// The next record; `None` at the end.
    pub(super) fn next_record(&mut self) -> Result<Option<&[u8]>> {
        self.record.clear();
        let mut inside = false;
        loop {
            let start = self.at;
            let (kind, data) = match self.piece()? {
                Piece::End => return Ok(None),
                Piece::Nothing if inside => {
                    return Err(self.corrupt(start, "a record breaks off in the middle"));
                }
                Piece::Nothing => continue,
                Piece::Data(kind, data) => (kind, data),
            };
            match kind {
                FULL | FIRST if inside && !self.record.is_empty() => {
                    return Err(self.corrupt(start, "a record has no end"));
                }
                MIDDLE | LAST if !inside => {
                    return Err(self.corrupt(start, "a record has no start"));
                }
                FULL | FIRST | MIDDLE | LAST => self.record.extend_from_slice(data),
                _ => return Err(self.corrupt(start, "a record of unknown type")),
            }
            if kind == FULL || kind == LAST {
                return Ok(Some(&self.record));
            }
            inside = true;
        }
    }

    fn piece(&mut self) -> Result<Piece<'a>> {
        let mut left = BLOCK_BYTES - self.at % BLOCK_BYTES;
        if left < HEADER_BYTES {
            self.at += left;
            left = BLOCK_BYTES;
        }
        let block = self.bytes.get(self.at..).unwrap_or_default();
        let last_block = block.len() < left;
        let block = &block[..left.min(block.len())];
        if block.len() < HEADER_BYTES {
            self.at = self.bytes.len();
            return Ok(Piece::End);
        }
        let len = usize::from(u16::from_le_bytes([block[4], block[5]]));
        let Some(data) = block.get(HEADER_BYTES..HEADER_BYTES + len) else {
            if last_block && !holds_whole_piece(block) {
                return Ok(Piece::End);
            }
            return Err(self.corrupt(self.at, "a record is longer than its block"));
        };
        if block[6] == 0 && len == 0 {
            self.at += block.len();
            return Ok(Piece::Nothing);
        }
        let crc = mask(crc32c::crc32c(&block[6..HEADER_BYTES + len]));
        if get_u32(block, 0) != Some(crc) {
            return Err(self.corrupt(self.at, "a record's checksum is wrong"));
        }
        self.at += HEADER_BYTES + len;
        Ok(Piece::Data(block[6], data))
    }

    fn corrupt(&self, offset: usize, what: &str) -> StoreError {
        StoreError::corrupt(self.path, offset as u64, what)
    }
}

/// Whether the bytes are a piece whose length was damaged rather than one that was cut short: then
/// the checksum is right for some shorter length. LevelDB would take it for a torn end and forget
/// records that were promised.
fn holds_whole_piece(block: &[u8]) -> bool {
    let stored = get_u32(block, 0);
    let mut crc = crc32c::crc32c(&block[6..HEADER_BYTES]);
    let whole = |crc| stored == Some(mask(crc));
    whole(crc)
        || block[HEADER_BYTES..].iter().any(|byte| {
            crc = crc32c::crc32c_append(crc, &[*byte]);
            whole(crc)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut reader = LogReader::new(Path::new("test.log"), bytes);
        let mut records = Vec::new();
        while let Some(record) = reader.next_record()? {
            records.push(record.to_vec());
        }
        Ok(records)
    }

    #[test]
    fn records_of_every_length_come_back() {
        let (mut bytes, mut records, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for len in [0, 1, 32754, 32761, 3, 32760, 100_000, 32755, 7, 0, 65_536] {
            let record = vec![len as u8; len];
            let offset = bytes.len() as u64;
            put_record(&mut bytes, offset, &record);
            records.push(record);
            ends.push(bytes.len());
        }
        assert_eq!(read(&bytes).unwrap(), records);
        for cut in (0..bytes.len()).step_by(1009).chain(ends.iter().flat_map(|e| [e - 1, *e])) {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(read(&bytes[..cut]).unwrap(), records[..whole]);
        }
        bytes.extend_from_slice(&[0; 3000]);
        assert_eq!(read(&bytes).unwrap(), records);
        bytes[50_000] ^= 1;
        assert!(read(&bytes).unwrap_err().to_string().contains("checksum"));
        let mut bytes = Vec::new();
        put_record(&mut bytes, 0, b"promised");
        bytes[4] ^= 16;
        assert!(read(&bytes).is_err(), "a damaged length is not a torn end");
    }
}
