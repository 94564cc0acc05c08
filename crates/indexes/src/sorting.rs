//! An external sort: entries of a fixed length, in any order, go to partitions by their first
//! bytes, in memory while they fit and in one file otherwise. Then one partition after another is
//! sorted and written to tables.

use std::cmp::Ordering;
use std::path::PathBuf;

use apus_disk::{Caching, Disk, PartBuffer, Parts, SavedParts, Share, StoreError};
use apus_leveldb::{RunBuilder, RunWriter};
use apus_node::error::SyncError;
use apus_node::workers::for_each_on_pool;
use apus_progress::Watch;
use rayon::ThreadPool;

use super::uniform::sort_uniform;

/// The most partitions: each takes a buffer in each thread.
const PARTITIONS_MAX: u64 = 4096;
/// Number of partitions for each thread, unless they are smaller than [`PARTITION_BYTES_MIN`].
const PARTITIONS_PER_THREAD: u64 = 8;
/// Bytes of a partition above which more partitions are made for more threads: each has tables of
/// its own.
const PARTITION_BYTES_MIN: u64 = 4 << 20;
/// Bytes that a thread gathers for a partition before it locks it.
const BUCKET_BYTES: usize = 1024;

/// How entries of `N` bytes are ordered and written.
pub trait Entry<const N: usize>: Sync {
    fn first_byte(&self) -> u8;
    /// Returns the order of two entries: first by their first eight bytes, which are hashes. Of
    /// entries with the same key, the last one counts.
    fn compare(&self, a: &[u8; N], b: &[u8; N]) -> Ordering {
        a[..8].cmp(&b[..8]).then_with(|| {
            // Two outputs or txids with one hash, by chance: their keys go on with the places,
            // which are not in the order of the heights.
            let key = |entry| {
                let mut key = Vec::new();
                self.put(entry, &mut key, &mut Vec::new());
                key
            };
            key(a).cmp(&key(b))
        })
    }
    /// Appends the rest of the key, which begins with the first four bytes of the entry, and the
    /// value.
    fn put(&self, entry: &[u8; N], key: &mut Vec<u8>, value: &mut Vec<u8>);
}

/// An entry of the database beside the sorted ones: a key, and its value or `None` to delete it.
pub type Other = (Vec<u8>, Option<Vec<u8>>);

/// Entries of `N` bytes that are being collected.
pub struct Sorter<const N: usize> {
    parts: Parts,
}

/// The entries that one thread adds.
pub struct SortBuffer<'a, const N: usize> {
    sorter: &'a Sorter<N>,
    buckets: Vec<Vec<u8>>,
    /// The first error, after which nothing is added.
    failed: Option<StoreError>,
}

impl<const N: usize> Sorter<N> {
    /// Returns a sorter without entries, for about `entries` of them. While they are collected they
    /// take up to `memory` bytes, and as many while `threads` threads sort them; the rest is in a
    /// file at `path`.
    pub fn new(disk: &Disk, path: PathBuf, entries: u64, memory: usize, threads: usize) -> Self {
        // Each thread holds a partition three times: as it was read, and before and after it is
        // sorted.
        let bytes = entries * N as u64;
        let at_once = 3 * threads as u64 * bytes;
        // The threads end at about the same time if each gets some partitions.
        let some = (PARTITIONS_PER_THREAD * threads as u64).min(bytes / PARTITION_BYTES_MIN);
        let partitions =
            (at_once / memory.max(1) as u64 + 1).max(some).min(PARTITIONS_MAX) as usize;
        let part_bytes = memory / partitions;
        Self { parts: Parts::new(disk, path, partitions, part_bytes, Caching::PageCache) }
    }

    /// Returns the sorter whose entries [`Sorter::save`] has made durable in the file at `path`.
    ///
    /// # Errors
    /// The file is not there, or shorter.
    pub fn resume(
        disk: &Disk,
        path: PathBuf,
        saved: &SavedParts,
        memory: usize,
    ) -> Result<Self, StoreError> {
        let part_bytes = memory / saved.parts().max(1);
        let parts = Parts::resume(disk, path, part_bytes, saved, Caching::PageCache)?;
        Ok(Self { parts })
    }

    /// Makes all entries durable, and returns where they are.
    pub fn save(&self) -> Result<SavedParts, StoreError> {
        self.parts.save()
    }

    /// Returns a buffer for the entries of one thread.
    pub fn buffer(&self) -> SortBuffer<'_, N> {
        SortBuffer { sorter: self, buckets: vec![Vec::new(); self.parts.parts()], failed: None }
    }

    pub fn bytes(&self) -> u64 {
        (0..self.parts.parts()).map(|part| self.parts.bytes(part)).sum()
    }

    /// Returns the partition of a key without its first byte, or of an entry.
    fn partition(&self, bytes: &[u8]) -> usize {
        let mut first = [0; 4];
        let len = bytes.len().min(4);
        first[..len].copy_from_slice(&bytes[..len]);
        ((u64::from(u32::from_be_bytes(first)) * self.parts.parts() as u64) >> 32) as usize
    }

    /// Sorts all entries on the threads of `pool`, and writes them and `others`, which ascend, to
    /// `run`. Unless `keeps` is set, the space of a partition is freed when it has been written.
    /// Returns the number of entries.
    ///
    /// # Errors
    /// The disk fails, or `watch` asks to stop. The run cannot be committed then.
    pub fn write(
        &self,
        entry: &impl Entry<N>,
        run: &RunBuilder,
        others: &[Other],
        pool: &ThreadPool,
        keeps: bool,
        (watch, share): (Watch, &Share),
    ) -> Result<u64, SyncError> {
        let partitions = self.parts.parts();
        let of_key = |(key, _): &Other| match key[0].cmp(&entry.first_byte()) {
            Ordering::Less => 0,
            Ordering::Equal => self.partition(&key[1..]),
            Ordering::Greater => partitions - 1,
        };
        let new = || (PartBuffer::new(), (Vec::new(), Vec::new()), 0);
        let counts = for_each_on_pool(pool, 0..partitions, watch.stop, new, |state, part| {
            let (buffer, (sorted, scratch), count) = state;
            self.read_sorted(part, entry, buffer, (sorted, scratch))?;
            let from = others.partition_point(|other| of_key(other) < part);
            let to = others.partition_point(|other| of_key(other) <= part);
            let mut writer = Writer { entries: run.writer(), others: &others[from..to] };
            *count += writer.put_all(entry, sorted)?;
            writer.finish()?;
            if !keeps {
                self.parts.forget(part);
                self.parts.release(self.parts.take_forgotten())?;
            }
            share.add((sorted.len() * N) as u64);
            Ok(())
        })?;
        Ok(counts.into_iter().map(|(.., count)| count).sum())
    }

    /// Replaces the content of `sorted` by the entries of a partition, in order. The content of
    /// `scratch` does not matter.
    fn read_sorted(
        &self,
        part: usize,
        entry: &impl Entry<N>,
        buffer: &mut PartBuffer,
        (sorted, scratch): (&mut Vec<[u8; N]>, &mut Vec<[u8; N]>),
    ) -> Result<(), StoreError> {
        sorted.clear();
        self.parts.with_part(part, buffer, |bytes, pieces| {
            for piece in pieces {
                sorted.extend_from_slice(bytes[piece.clone()].as_chunks::<N>().0);
            }
        })?;
        let first = |bytes: &[u8; N]| bytes.first_chunk().map_or(0, |key| u64::from_be_bytes(*key));
        sort_uniform(sorted, scratch, first, |a, b| entry.compare(a, b));
        Ok(())
    }

    /// Removes all entries.
    pub fn discard(self) -> Result<(), StoreError> {
        self.parts.destroy()
    }
}

impl<const N: usize> SortBuffer<'_, N> {
    /// Adds an entry. Errors are returned by [`SortBuffer::finish`].
    pub fn push(&mut self, entry: &[u8; N]) {
        let part = self.sorter.partition(entry);
        let bucket = &mut self.buckets[part];
        bucket.extend_from_slice(entry);
        if bucket.len() >= BUCKET_BYTES {
            self.empty(part);
        }
    }

    fn empty(&mut self, part: usize) {
        let bucket = &mut self.buckets[part];
        if self.failed.is_none() && !bucket.is_empty() {
            self.failed = self.sorter.parts.append(part, bucket).err();
        }
        bucket.clear();
    }

    /// Returns the first error so far.
    pub fn check(&mut self) -> Result<(), StoreError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Adds everything that waits to the partitions.
    pub fn finish(mut self) -> Result<(), StoreError> {
        (0..self.buckets.len()).for_each(|part| self.empty(part));
        self.check()
    }
}

/// Writes the sorted entries of one partition, and the other entries of the database between them.
struct Writer<'a> {
    entries: RunWriter<'a>,
    others: &'a [Other],
}

impl Writer<'_> {
    /// Writes all `sorted` entries, but only the last of those with the same key; returns how many.
    fn put_all<const N: usize>(
        &mut self,
        entry: &impl Entry<N>,
        sorted: &[[u8; N]],
    ) -> Result<u64, StoreError> {
        let mut key = Vec::new();
        let mut value = Vec::new();
        let mut count = 0;
        let mut next_key = Vec::new();
        let mut next_value = Vec::new();
        for bytes in sorted {
            next_key.clear();
            next_value.clear();
            next_key.push(entry.first_byte());
            entry.put(bytes, &mut next_key, &mut next_value);
            if !key.is_empty() && next_key != key {
                self.put(&key, &value)?;
                count += 1;
            }
            (key, next_key) = (next_key, key);
            (value, next_value) = (next_value, value);
        }
        if !key.is_empty() {
            self.put(&key, &value)?;
            count += 1;
        }
        Ok(count)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.put_others(|other| other < key)?;
        // Nothing that is written now is deleted.
        if self.others.first().is_some_and(|(other, _)| other == key) {
            self.others = &self.others[1..];
        }
        self.entries.put(key, value)
    }

    fn put_others(&mut self, is_next: impl Fn(&[u8]) -> bool) -> Result<(), StoreError> {
        while let Some(((key, value), rest)) = self.others.split_first()
            && is_next(key)
        {
            match value {
                Some(value) => self.entries.put(key, value)?,
                None => self.entries.delete(key)?,
            }
            self.others = rest;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), StoreError> {
        self.put_others(|_| true)?;
        self.entries.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    use apus_host::threads::pool;
    use apus_leveldb::{Db, Options};
    use apus_progress::Unobserved;

    use super::*;

    /// Entries whose key are the first 6 bytes, and whose value the last 2.
    struct Six;

    impl Entry<8> for Six {
        fn first_byte(&self) -> u8 {
            b'k'
        }

        fn compare(&self, a: &[u8; 8], b: &[u8; 8]) -> Ordering {
            a.cmp(b)
        }

        fn put(&self, entry: &[u8; 8], key: &mut Vec<u8>, value: &mut Vec<u8>) {
            key.extend_from_slice(&entry[..6]);
            value.extend_from_slice(&entry[6..]);
        }
    }

    fn entry(number: u64) -> [u8; 8] {
        let mut bytes = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        // Some keys occur many times.
        bytes[3..6].fill(0);
        bytes[2] &= 3;
        bytes[6..].copy_from_slice(&(number as u16).to_be_bytes());
        bytes
    }

    #[test]
    fn entries_are_sorted_and_the_last_of_a_key_counts() {
        for (memory, threads) in [(1 << 20, 1), (1 << 16, 3), (1, 2)] {
            let dir = tempfile::tempdir().unwrap();
            let disk = Disk::new();
            let file = dir.path().join("sort");
            let pool = pool(threads).unwrap();
            let sorter = Sorter::<8>::new(&disk, file.clone(), 50_000, memory, threads);
            let mut expected: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            std::thread::scope(|scope| {
                for part in 0..2 {
                    let mut buffer = sorter.buffer();
                    scope.spawn(move || {
                        (0..25_000).for_each(|n| buffer.push(&entry(2 * n + part)));
                        buffer.finish().unwrap();
                    });
                }
            });
            for bytes in (0..50_000).map(entry) {
                let key = [&b"k"[..], &bytes[..6]].concat();
                let value = bytes[6..].to_vec();
                let last = expected.entry(key).or_default();
                *last = last.clone().max(value);
            }
            let some = expected.keys().nth(700).unwrap().clone();
            let mut others: Vec<Other> = vec![
                (b"B".to_vec(), Some(b"first".to_vec())),
                (b"k\x01extra one".to_vec(), Some(b"between".to_vec())),
                (b"k\x01gone".to_vec(), None),
                (some, None),
                (b"z".to_vec(), Some(b"last".to_vec())),
            ];
            others.sort();
            let options = Options { create_if_missing: true, ..Options::default() };
            let db = Db::open(disk.clone(), &dir.path().join("db"), options).unwrap();
            let run = db.new_run().unwrap();
            let never = AtomicBool::new(false);
            let watch = Watch::new(&Unobserved, &never);
            let share = Share::new(sorter.bytes(), &|_| {});
            let progress = (watch, &share);
            let keeps = threads == 3;
            let written = sorter.write(&Six, &run, &others, &pool, keeps, progress).unwrap();
            run.commit().unwrap();
            assert_eq!(sorter.bytes() > 0, keeps);
            sorter.discard().unwrap();
            assert_eq!(written, expected.len() as u64);
            assert!(!file.exists());
            for (key, value) in others.into_iter().filter(|(key, _)| key.len() != 7) {
                expected.extend(value.map(|value| (key, value)));
            }
            let mut found = BTreeMap::new();
            let mut cursor = db.scan(&[], None).unwrap();
            while let Some((key, value)) = cursor.next_entry().unwrap() {
                found.insert(key.to_vec(), value.to_vec());
            }
            assert!(found == expected, "memory {memory}");
        }
    }
}
