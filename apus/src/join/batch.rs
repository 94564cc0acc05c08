//! Batches of records: what one thread gathers for a part before it takes the part's lock. Each
//! says where its records come from, so that they can be passed over if their source is given up.

use crate::disk::{Parts, StoreError};

/// The bytes before the records of a batch: its source and its length, 32 bits each, little endian.
const HEAD_BYTES: usize = 8;

/// Gathers the records of one thread and appends them to parts in batches. It must be flushed
/// before it is dropped.
pub(crate) struct BatchWriter<'a> {
    parts: &'a Parts,
    /// The number of the first part that this writer writes.
    first: usize,
    /// Number of the source of the records.
    source: u32,
    batches: Vec<Vec<u8>>,
    batch_bytes: usize,
}

impl<'a> BatchWriter<'a> {
    /// A writer for the `count` parts from `first` on, which gathers up to `batch_bytes` for each.
    pub fn new(parts: &'a Parts, first: usize, count: usize, batch_bytes: usize) -> Self {
        let batches = (0..count).map(|_| Vec::new()).collect();
        Self { parts, first, source: 0, batches, batch_bytes }
    }

    /// Says where the records that follow come from.
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

    /// Adds a record to a part, counted from the writer's first.
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

    /// Hands over all records, and frees the memory that they were gathered in.
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

/// Begins a batch at the end of `out`, and returns where it begins.
pub(super) fn begin_batch(out: &mut Vec<u8>, source: u32) -> usize {
    let start = out.len();
    out.extend_from_slice(&source.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    start
}

/// Ends the batch that begins at `start` of `out`, where it says from now on how long it is.
pub(super) fn end_batch(out: &mut [u8], start: usize) {
    let len = (out.len() - start - HEAD_BYTES) as u32;
    out[start + 4..start + HEAD_BYTES].copy_from_slice(&len.to_le_bytes());
}

/// The bytes are no whole batches.
#[derive(Debug)]
pub struct NoBatch;

/// Calls `each` with the source and the range of the records of every batch in `range` of `bytes`.
pub fn for_each_batch<E: From<NoBatch>>(
    bytes: &[u8],
    range: std::ops::Range<usize>,
    mut each: impl FnMut(u32, std::ops::Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
    let mut at = range.start;
    while at < range.end {
        let (source, len) = (word(bytes, at).ok_or(NoBatch)?, word(bytes, at + 4).ok_or(NoBatch)?);
        let start = at + HEAD_BYTES;
        let end = start + len as usize;
        if end > range.end {
            return Err(NoBatch.into());
        }
        each(source, start..end)?;
        at = end;
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}
