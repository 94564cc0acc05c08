//! Sorted runs of changes to the UTXO set, which are merged: a partition of a join, or a slot of a
//! SwiftSync, that is too large for memory is sorted in runs that fit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use apus_disk::{SpillFile, StoreError};

/// The number of bytes that are written at a time, and the maximum and minimum read at a time from
/// each run.
const BUFFER_BYTES: usize = 256 << 10;
const BUFFER_BYTES_MIN: usize = 8 << 10;
/// The number of bytes that are read at a time from all runs together.
const MERGE_BYTES: usize = 4 << 20;

/// A destination for changes to the UTXO set, in ascending key order.
pub trait ChangeSink {
    /// Sets the coin, in its chainstate form, for a key of the chainstate.
    fn put(&mut self, key: &[u8], coin: &mut [u8]) -> Result<(), StoreError>;
    /// Deletes the coin for a key of the chainstate.
    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError>;
}

/// Sorted runs in an unnamed file.
pub struct SortedRuns {
    file: SpillFile,
    runs: Vec<Run>,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Run {
    next: u64,
    end: u64,
}

/// A run that is being read.
struct Reader<'a> {
    file: &'a SpillFile,
    run: Run,
    /// The number of bytes that are read at a time.
    bytes_max: usize,
    bytes: Vec<u8>,
    at: usize,
}

impl SortedRuns {
    /// Returns an empty set of runs, whose file will be in the directory of `path`.
    pub fn new(path: &Path) -> Self {
        let file = SpillFile::unlinked(path, ".runs");
        Self { file, runs: Vec::new(), buffer: Vec::new() }
    }

    /// Begins another run.
    ///
    /// # Errors
    /// The disk fails.
    pub fn begin(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        let end = self.file.bytes_written();
        self.runs.push(Run { next: end, end });
        Ok(())
    }

    /// Passes all changes to `sink`, in the key order over all runs.
    ///
    /// # Errors
    /// The disk fails.
    pub fn merge(mut self, sink: &mut impl ChangeSink) -> Result<(), StoreError> {
        self.flush()?;
        let bytes_max = MERGE_BYTES / self.runs.len().max(1);
        let bytes_max = bytes_max.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES);
        let reader =
            |run: &Run| Reader { file: &self.file, run: *run, bytes_max, bytes: Vec::new(), at: 0 };
        let mut readers: Vec<Reader> = self.runs.iter().map(reader).collect();
        let mut heap = BinaryHeap::new();
        for (index, reader) in readers.iter_mut().enumerate() {
            if let Some(change) = reader.next()? {
                heap.push(Reverse((change, index)));
            }
        }
        while let Some(Reverse(((key, coin), index))) = heap.pop() {
            match coin {
                Some(mut coin) => sink.put(&key, &mut coin)?,
                None => sink.delete(&key)?,
            }
            if let Some(change) = readers[index].next()? {
                heap.push(Reverse((change, index)));
            }
        }
        Ok(())
    }

    fn add(&mut self, key: &[u8], coin: Option<&[u8]>) -> Result<(), StoreError> {
        // Keys have at most 38 bytes, coins about 10,000.
        let len = coin.map_or(u16::MAX, |coin| coin.len() as u16);
        self.buffer.push(key.len() as u8);
        self.buffer.extend_from_slice(&len.to_le_bytes());
        self.buffer.extend_from_slice(key);
        self.buffer.extend_from_slice(coin.unwrap_or_default());
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if !self.buffer.is_empty() {
            self.file.append(&self.buffer)?;
            self.buffer.clear();
        }
        if let Some(run) = self.runs.last_mut() {
            run.end = self.file.bytes_written();
        }
        Ok(())
    }
}

impl ChangeSink for SortedRuns {
    fn put(&mut self, key: &[u8], coin: &mut [u8]) -> Result<(), StoreError> {
        self.add(key, Some(coin))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.add(key, None)
    }
}

/// A key, and its coin, or `None` if the coin is deleted.
type Change = (Vec<u8>, Option<Vec<u8>>);

impl Reader<'_> {
    fn next(&mut self) -> Result<Option<Change>, StoreError> {
        self.fill(3)?;
        let Some(&[key_len, low, high]) = self.bytes.get(self.at..self.at + 3) else {
            return Ok(None);
        };
        let key_len = usize::from(key_len);
        let coin_len = u16::from_le_bytes([low, high]);
        let has_coin = coin_len != u16::MAX;
        let coin_len = if has_coin { usize::from(coin_len) } else { 0 };
        self.fill(3 + key_len + coin_len)?;
        let start = self.at + 3;
        let end = self.at + 3 + key_len + coin_len;
        let key = self.bytes[start..start + key_len].to_vec();
        let coin = has_coin.then(|| self.bytes[start + key_len..end].to_vec());
        self.at = end;
        Ok(Some((key, coin)))
    }

    /// Reads on until `wanted` bytes are buffered, or up to the end of the run.
    fn fill(&mut self, wanted: usize) -> Result<(), StoreError> {
        if self.bytes.len() - self.at >= wanted || self.run.next == self.run.end {
            return Ok(());
        }
        self.bytes.drain(..self.at);
        self.at = 0;
        let left = self.run.end - self.run.next;
        let len = left.min(wanted.max(self.bytes_max) as u64);
        self.file.read(self.run.next, len as usize, &mut self.bytes)?;
        self.run.next += len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use apus_testdata::Random;

    use super::*;

    #[derive(Default)]
    struct Changes(Vec<Change>);

    impl ChangeSink for Changes {
        fn put(&mut self, key: &[u8], coin: &mut [u8]) -> Result<(), StoreError> {
            self.0.push((key.to_vec(), Some(coin.to_vec())));
            Ok(())
        }

        fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
            self.0.push((key.to_vec(), None));
            Ok(())
        }
    }

    #[test]
    fn runs_are_merged_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut random = Random(5);
        let mut runs = SortedRuns::new(&dir.path().join("spill"));
        let mut expected = Vec::new();
        for _ in 0..7 {
            runs.begin().unwrap();
            let mut run: Vec<Change> = (0..3000)
                .map(|_| {
                    let len = random.below(300usize);
                    let coin = (random.below(4u32) > 0).then(|| random.bytes(len));
                    (random.bytes(36), coin)
                })
                .collect();
            run.sort();
            for (key, coin) in &run {
                match coin {
                    Some(coin) => runs.put(key, &mut coin.clone()).unwrap(),
                    None => runs.delete(key).unwrap(),
                }
            }
            expected.extend(run);
        }
        expected.sort();
        let mut found = Changes::default();
        runs.merge(&mut found).unwrap();
        assert!(found.0 == expected);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
