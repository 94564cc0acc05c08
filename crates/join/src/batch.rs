//! Batches of records that a thread gathers for a part before it takes the part's lock. Each batch
//! names the source of its records, so that a reader can skip the records of a source that was
//! given up.

use std::ops::Range;

use apus_disk::{Parts, StoreError};
use apus_wire::ParseError;

/// Bytes of a batch's header: its source and its length, 32 bits each, little endian.
const HEAD_BYTES: usize = 8;

/// Gathers the records of one thread and appends them to parts in batches. It must be flushed
/// before it is dropped.
pub struct BatchWriter<'a> {
    parts: &'a Parts,
    /// The number of the first part that this writer writes.
    first: usize,
    /// Number of the source of the records.
    source: u32,
    batches: Vec<Vec<u8>>,
    batch_bytes: usize,
}

impl<'a> BatchWriter<'a> {
    /// Creates a writer for `count` parts from `first` on, which gathers up to about `batch_bytes`
    /// bytes for each.
    pub fn new(parts: &'a Parts, first: usize, count: usize, batch_bytes: usize) -> Self {
        let batches = (0..count).map(|_| Vec::new()).collect();
        Self { parts, first, source: 0, batches, batch_bytes }
    }

    /// Sets the source of the records that follow.
    ///
    /// # Errors
    /// As for [`BatchWriter::flush`].
    pub fn set_source(&mut self, source: u32) -> Result<(), StoreError> {
        if source != self.source {
            self.flush()?;
            self.source = source;
        }
        Ok(())
    }

    /// Adds a record to a part, whose number is counted from the writer's first part.
    ///
    /// # Errors
    /// The disk fails.
    #[inline]
    pub fn push(&mut self, part: usize, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), StoreError> {
        let batch = &mut self.batches[part];
        if batch.is_empty() {
            batch.reserve(self.batch_bytes + self.batch_bytes / 2);
            begin_batch(batch, self.source);
        }
        put(batch);
        if batch.len() >= self.batch_bytes { self.flush_part(part) } else { Ok(()) }
    }

    /// Appends all gathered records to their parts, and frees the memory of the batches.
    ///
    /// # Errors
    /// The disk fails.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        for part in 0..self.batches.len() {
            self.flush_part(part)?;
            self.batches[part] = Vec::new();
        }
        Ok(())
    }

    fn flush_part(&mut self, part: usize) -> Result<(), StoreError> {
        let batch = &mut self.batches[part];
        if batch.is_empty() {
            return Ok(());
        }
        end_batch(batch, 0);
        self.parts.append(self.first + part, batch)?;
        batch.clear();
        if batch.capacity() > 4 * self.batch_bytes {
            *batch = Vec::new();
        }
        Ok(())
    }
}

/// Begins a batch at the end of `out`, and returns its offset.
pub(super) fn begin_batch(out: &mut Vec<u8>, source: u32) -> usize {
    let start = out.len();
    out.extend_from_slice(&source.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    start
}

/// Ends the batch that begins at offset `start` of `out`, by writing its length into its header.
pub(super) fn end_batch(out: &mut [u8], start: usize) {
    let len = (out.len() - start - HEAD_BYTES) as u32;
    out[start + 4..start + HEAD_BYTES].copy_from_slice(&len.to_le_bytes());
}

/// The error for bytes that are not valid records, in whole batches.
#[derive(Debug, thiserror::Error)]
#[error("the records of outputs and spends are damaged")]
pub struct Damaged;

impl From<ParseError> for Damaged {
    fn from(_: ParseError) -> Self {
        Self
    }
}

/// Returns the source of every batch in `range` of `bytes`, and the range of its records.
#[inline]
pub fn batches(
    bytes: &[u8],
    range: Range<usize>,
) -> impl Iterator<Item = Result<(u32, Range<usize>), Damaged>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let batch = batch_at(bytes, at).filter(|(_, records)| records.end <= range.end);
        at = batch.as_ref().map_or(range.end, |(_, records)| records.end);
        Some(batch.ok_or(Damaged))
    })
}

fn batch_at(bytes: &[u8], at: usize) -> Option<(u32, Range<usize>)> {
    let start = at + HEAD_BYTES;
    Some((word(bytes, at)?, start..start + word(bytes, at + 4)? as usize))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use apus_disk::{Caching, Disk, PartBuffer};
    use apus_testdata::Random;

    use super::*;

    /// Records by part and source; each record is its length in two bytes, and random bytes.
    type Records = BTreeMap<(usize, u32), Vec<Vec<u8>>>;

    fn read_all(parts: &Parts) -> Records {
        let mut records = Records::new();
        for part in 0..parts.parts() {
            let each = |piece: &[u8]| -> Result<(), StoreError> {
                for batch in batches(piece, 0..piece.len()) {
                    let (source, range) = batch.expect("a piece holds whole batches");
                    let mut rest = &piece[range];
                    while let [low, high, others @ ..] = rest {
                        let len = usize::from(u16::from_le_bytes([*low, *high]));
                        let record = others[..len].to_vec();
                        records.entry((part, source)).or_default().push(record);
                        rest = &others[len..];
                    }
                }
                Ok(())
            };
            parts.for_each_piece(part, &mut PartBuffer::new(), each).unwrap();
        }
        records
    }

    #[test]
    fn all_records_come_back_under_their_part_and_source() {
        const FIRST: usize = 3;
        const COUNT: usize = 5;
        for (seed, batch_bytes) in [(1, 0), (2, 16), (3, 512), (4, 1 << 20)] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("spill.dat");
            let parts = Parts::new(&Disk::new(), path, FIRST + COUNT + 1, 4096, Caching::Direct);
            let mut random = Random(seed);
            let mut expected = Records::new();
            // Two writers at a time, like two threads.
            let writer = || BatchWriter::new(&parts, FIRST, COUNT, batch_bytes);
            let mut writers = [(writer(), 10), (writer(), 20)];
            for (writer, source) in &mut writers {
                writer.set_source(*source).unwrap();
            }
            for _ in 0..3000 {
                let (writer, source) = &mut writers[random.below(2usize)];
                if random.below(200u32) == 0 {
                    *source += 1;
                    writer.set_source(*source).unwrap();
                }
                if random.below(300u32) == 0 {
                    writer.flush().unwrap();
                }
                let part = random.below(COUNT);
                let len = if random.below(50u32) == 0 { 3000 } else { random.below(60usize) };
                let record = random.bytes(len);
                let put = |out: &mut Vec<u8>| {
                    out.extend_from_slice(&(len as u16).to_le_bytes());
                    out.extend_from_slice(&record);
                };
                writer.push(part, put).unwrap();
                expected.entry((FIRST + part, *source)).or_default().push(record);
            }
            for (writer, _) in &mut writers {
                writer.flush().unwrap();
            }
            assert!(expected.len() > 2 * COUNT);
            assert!(read_all(&parts) == expected, "batches of {batch_bytes} bytes");
        }
    }

    #[test]
    fn bytes_that_are_no_whole_batches_are_noticed() {
        let mut bytes = Vec::new();
        for (source, len) in [(7, 30), (8, 0), (9, 5)] {
            let start = begin_batch(&mut bytes, source);
            bytes.resize(bytes.len() + len, source as u8);
            end_batch(&mut bytes, start);
        }
        let found =
            |bytes: &[u8], range| batches(bytes, range).collect::<Result<Vec<_>, Damaged>>();
        assert_eq!(found(&bytes, 0..59).unwrap(), [(7, 8..38), (8, 46..46), (9, 54..59)]);
        assert_eq!(found(&bytes, 38..59).unwrap(), [(8, 46..46), (9, 54..59)]);
        assert_eq!(found(&bytes, 5..5).unwrap(), []);
        for end in (1..59).filter(|end| ![38, 46].contains(end)) {
            assert!(found(&bytes[..end], 0..end).is_err(), "cut at {end}");
            assert!(found(&bytes, 0..end).is_err(), "the range ends at {end}");
        }
        let mut too_long = bytes.clone();
        too_long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(found(&too_long, 0..59).is_err());
    }
}
