use std::path::Path;

use super::format::{get_u32, mask};
use crate::disk::{Result, StoreError};

/// Bytes of the blocks that a log is divided into. A record that crosses from one block into the
/// next is cut into pieces, each within one block.
pub const BLOCK_BYTES: usize = 32768;
/// Bytes of the header before each piece: checksum, length and type.
pub const HEADER_BYTES: usize = 7;

/// Type of a piece that is a whole record.
pub const FULL: u8 = 1;
/// Type of the first piece of a record.
pub const FIRST: u8 = 2;
/// Type of a piece that is neither the first nor the last of its record.
pub const MIDDLE: u8 = 3;
/// Type of the last piece of a record.
pub const LAST: u8 = 4;

/// Appends to `out` the bytes by which a log of `offset` bytes grows when `record` is added to it.
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

/// Reads the records of a log from memory.
///
/// A record that the end of the file cuts short is no error and is left out: its writer died before
/// it could report the record as written. Anything else that is wrong is an error, as it is for
/// Bitcoin Core (`paranoid_checks`).
pub(super) struct LogReader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
    record: Vec<u8>,
}

/// What a block of a log holds next.
enum Piece<'a> {
    /// A piece of a record.
    Data { kind: u8, data: &'a [u8] },
    /// Zeros up to the end of the block, as a file system leaves them in space that was reserved
    /// and not written.
    Unwritten,
    /// The end of the log, or a piece that it cuts short.
    End,
}

impl<'a> LogReader<'a> {
    /// A reader at the start of `bytes`, the content of the file at `path`.
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, at: 0, record: Vec::new() }
    }

    /// Offset of the end of the last record that was read.
    pub(super) fn offset(&self) -> u64 {
        self.at as u64
    }

    /// The next record; `None` at the end of the log.
    pub(super) fn next_record(&mut self) -> Result<Option<&[u8]>> {
        self.record.clear();
        let mut inside = false;
        loop {
            let start = self.at;
            let (kind, data) = match self.piece()? {
                Piece::End => return Ok(None),
                Piece::Unwritten if inside => {
                    return Err(self.corrupt(
                        start,
                        "a record breaks off in the middle, before space that was never written",
                    ));
                }
                Piece::Unwritten => continue,
                Piece::Data { kind, data } => (kind, data),
            };
            match kind {
                FULL | FIRST if inside && !self.record.is_empty() => {
                    return Err(
                        self.corrupt(start, "a record starts before the one before it has ended")
                    );
                }
                MIDDLE | LAST if !inside => {
                    return Err(self.corrupt(
                        start,
                        "a piece from the middle or the end of a record, whose start is missing",
                    ));
                }
                FULL | FIRST | MIDDLE | LAST => self.record.extend_from_slice(data),
                _ => {
                    let what = format!("a record of unknown type {kind} (known are 1 to 4)");
                    return Err(self.corrupt(start, &what));
                }
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
            return Err(self.corrupt(self.at, "a record is longer than the rest of its block"));
        };
        if block[6] == 0 && len == 0 {
            self.at += block.len();
            return Ok(Piece::Unwritten);
        }
        let crc = mask(crc32c::crc32c(&block[6..HEADER_BYTES + len]));
        if get_u32(block, 0) != Some(crc) {
            return Err(self.corrupt(self.at, "the checksum of a record does not match its bytes"));
        }
        self.at += HEADER_BYTES + len;
        Ok(Piece::Data { kind: block[6], data })
    }

    fn corrupt(&self, offset: usize, what: &str) -> StoreError {
        StoreError::corrupt(self.path, offset as u64, what)
    }
}

/// Whether the last bytes of a log are a whole piece whose length field was damaged, rather than a
/// piece that was cut short: then the checksum matches for some shorter length. LevelDB would take
/// it for a torn end and drop records that were reported as written.
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
