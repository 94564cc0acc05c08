use std::path::Path;

use apus_disk::{Result, StoreError};

use super::format::{get_u32, mask};

/// Size in bytes of the blocks of a log. A record that crosses a block boundary is split into
/// pieces, each within one block.
pub const BLOCK_BYTES: usize = 32768;
/// Length in bytes of the header before each piece: checksum, length and type.
pub const HEADER_BYTES: usize = 7;

/// Type of a piece that is a whole record.
pub const FULL: u8 = 1;
/// Type of the first piece of a record.
pub const FIRST: u8 = 2;
/// Type of a piece that is neither the first nor the last of its record.
pub const MIDDLE: u8 = 3;
/// Type of the last piece of a record.
pub const LAST: u8 = 4;

/// Appends to `out` the bytes that add `record` to a log of `offset` bytes.
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

/// Number of bytes that a disk writes in one step.
const SECTOR_BYTES: usize = 512;

/// Reads the records of a log from memory.
///
/// A last record that is cut short by the end of the file, or some of whose sectors were never
/// written, is skipped without an error: the power failed before its writer could report it as
/// written. Any other damage is an error, as it is for Bitcoin Core (`paranoid_checks`), which also
/// refuses a record that lacks some of its sectors.
pub(super) struct LogReader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
    record: Vec<u8>,
}

/// The next item in a block of a log.
enum Piece<'a> {
    /// A piece of a record.
    Data { kind: u8, data: &'a [u8] },
    /// Zeros up to the end of the block, as a file system leaves them in space that was reserved
    /// but not written.
    Unwritten { bytes: usize },
    /// The end of the log, or a piece that it cuts short.
    End,
}

/// Damage in a log, and its offset.
struct Damage {
    at: usize,
    what: String,
}

impl<'a> LogReader<'a> {
    /// Returns a reader at the start of `bytes`, the content of the file at `path`.
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, at: 0, record: Vec::new() }
    }

    /// Returns the offset after the last record that was read.
    pub(super) fn offset(&self) -> u64 {
        self.at as u64
    }

    /// Returns the next record; `None` at the end of the log.
    pub(super) fn next_record(&mut self) -> Result<Option<&[u8]>> {
        let start = self.at;
        match self.read_record() {
            Ok(true) => Ok(Some(&self.record)),
            Ok(false) => Ok(None),
            Err(damage) if self.is_torn(start, damage.at) => {
                self.at = self.bytes.len();
                Ok(None)
            }
            Err(Damage { at, what }) => Err(StoreError::corrupt(self.path, at as u64, what)),
        }
    }

    /// Reads the next record; returns `false` at the end of the log.
    fn read_record(&mut self) -> std::result::Result<bool, Damage> {
        self.record.clear();
        let mut inside = false;
        loop {
            let start = piece_start(self.at);
            let damage = |what: &str| Damage { at: start, what: what.to_string() };
            let (kind, data) = match self.piece(start).map_err(damage)? {
                Piece::End => {
                    self.at = self.bytes.len();
                    return Ok(false);
                }
                Piece::Unwritten { .. } if inside => {
                    return Err(damage(
                        "a record is incomplete: space that was never written follows it",
                    ));
                }
                Piece::Unwritten { bytes } => {
                    self.at = start + bytes;
                    continue;
                }
                Piece::Data { kind, data } => (kind, data),
            };
            match kind {
                FULL | FIRST if inside && !self.record.is_empty() => {
                    return Err(damage("a record starts before the previous one has ended"));
                }
                MIDDLE | LAST if !inside => {
                    return Err(damage(
                        "the start of a record is missing: this is a middle or last piece",
                    ));
                }
                FULL | FIRST | MIDDLE | LAST => self.record.extend_from_slice(data),
                _ => {
                    return Err(damage(&format!(
                        "a record has the unknown type {kind} (valid are 1 to 4)"
                    )));
                }
            }
            self.at = start + HEADER_BYTES + data.len();
            if kind == FULL || kind == LAST {
                return Ok(true);
            }
            inside = true;
        }
    }

    /// Returns the piece at `at`, or a description of its damage.
    fn piece(&self, at: usize) -> std::result::Result<Piece<'a>, &'static str> {
        let left = BLOCK_BYTES - at % BLOCK_BYTES;
        let block = self.bytes.get(at..).unwrap_or_default();
        let last_block = block.len() < left;
        let block = &block[..left.min(block.len())];
        if block.len() < HEADER_BYTES {
            return Ok(Piece::End);
        }
        let len = usize::from(u16::from_le_bytes([block[4], block[5]]));
        let Some(data) = block.get(HEADER_BYTES..HEADER_BYTES + len) else {
            if last_block && !holds_whole_piece(block) {
                return Ok(Piece::End);
            }
            return Err("a record is longer than the rest of its block");
        };
        if block[6] == 0 && len == 0 {
            return if block.iter().all(|byte| *byte == 0) {
                Ok(Piece::Unwritten { bytes: block.len() })
            } else {
                Err("zeros where a record must start, followed by other bytes")
            };
        }
        let crc = mask(crc32c::crc32c(&block[6..HEADER_BYTES + len]));
        if get_u32(block, 0) != Some(crc) {
            return Err("the checksum of a record does not match its bytes");
        }
        Ok(Piece::Data { kind: block[6], data })
    }

    /// Returns whether the damage at `damaged` is that of a last record, starting at `start`, of
    /// which the disk wrote only some sectors: one of them is all zeros, and no record begins after
    /// the damage.
    fn is_torn(&self, start: usize, damaged: usize) -> bool {
        let rest = &self.bytes[start..];
        let first = rest.len().min(SECTOR_BYTES - start % SECTOR_BYTES);
        let (first, others) = rest.split_at(first);
        let mut sectors = std::iter::once(first).chain(others.chunks(SECTOR_BYTES));
        sectors.any(|sector| sector.iter().all(|byte| *byte == 0)) && !self.begins_from(damaged)
    }

    /// Returns whether a record with a valid checksum begins anywhere from `at` on.
    fn begins_from(&self, mut at: usize) -> bool {
        while at < self.bytes.len() {
            match self.whole_piece(at) {
                Some((FULL | FIRST, _)) => return true,
                Some((_, bytes)) => at += bytes,
                None => at += 1,
            }
        }
        false
    }

    /// Returns the type and the length of the piece at `at`, header included, if its checksum is
    /// valid.
    fn whole_piece(&self, at: usize) -> Option<(u8, usize)> {
        let end = self.bytes.len().min(at - at % BLOCK_BYTES + BLOCK_BYTES);
        let block = &self.bytes[at..end];
        let kind = block.get(6).filter(|kind| (FULL..=LAST).contains(*kind))?;
        let bytes = HEADER_BYTES + usize::from(u16::from_le_bytes([block[4], block[5]]));
        let crc = mask(crc32c::crc32c(block.get(6..bytes)?));
        (get_u32(block, 0) == Some(crc)).then_some((*kind, bytes))
    }
}

/// Returns the start of the next piece, at or after `at`: no header crosses into the next block.
fn piece_start(at: usize) -> usize {
    let left = BLOCK_BYTES - at % BLOCK_BYTES;
    if left < HEADER_BYTES { at + left } else { at }
}

/// Returns whether the last bytes of a log are a whole piece with a damaged length field, and not a
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
    use apus_testdata::Random;

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
        let mut bytes = Vec::new();
        let mut records = Vec::new();
        let mut ends = Vec::new();
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

    /// A last record of which only some sectors were written is skipped; it is an error if another
    /// record follows, or if the damage is of another kind.
    #[test]
    fn a_torn_last_record_counts_as_absent() {
        let mut random = Random(5);
        for (before, torn) in [(100, 3000), (40_000, 2000), (32_000, 90_000), (510, 600)] {
            let mut bytes = Vec::new();
            let records = [random.bytes(before), random.bytes(torn)];
            put_record(&mut bytes, 0, &records[0]);
            let start = bytes.len();
            put_record(&mut bytes, start as u64, &records[1]);
            let first = start / SECTOR_BYTES;
            let sectors = bytes.len().div_ceil(SECTOR_BYTES) - first;
            for round in 0..200 {
                let mut left = bytes.clone();
                for sector in first..first + sectors {
                    // At least one is lost.
                    if random.below(2) == 0 || sector - first == round % sectors {
                        let from = start.max(sector * SECTOR_BYTES);
                        let to = left.len().min((sector + 1) * SECTOR_BYTES);
                        left[from..to].fill(0);
                    }
                }
                assert_eq!(read(&left).unwrap(), records[..1], "{before} {torn}");
                left.truncate(bytes.len() - random.below(bytes.len() - start));
                assert_eq!(read(&left).unwrap(), records[..1], "{before} {torn}");
                let mut flipped = bytes.clone();
                flipped[start + random.below(bytes.len() - start)] ^= 1;
                assert!(read(&flipped).is_err(), "no sector is missing");
                // With a record after it, this is damage that no power cut causes.
                let mut followed = bytes.clone();
                let sector = first + round % sectors;
                let from = sector * SECTOR_BYTES;
                let to = (sector + 1) * SECTOR_BYTES;
                followed[from.max(start)..to.min(bytes.len())].fill(0);
                put_record(&mut followed, bytes.len() as u64, b"after");
                assert!(read(&followed).is_err(), "{before} {torn}");
            }
        }
    }
}
