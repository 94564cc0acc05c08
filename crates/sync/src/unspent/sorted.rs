//! An external sort of unspent outputs by the blocks that created them, which the caller numbers:
//! by their places in the files, or by height.

use std::ops::Range;
use std::sync::Arc;

use apus_disk::{SpillFile, StoreError};
use apus_hash::Hash;
use apus_wire::OutPoint;
use rayon::prelude::*;

/// Bytes of a txid in a key: enough to distinguish the transactions of one block.
const TXID_BYTES: usize = 16;
/// Bytes of an [`OutputKey`].
const KEY_BYTES: usize = 4 + TXID_BYTES + 4;

/// The sort key of an unspent output: index of its block, start of the txid, index of the output.
/// Numbers are big endian, so that keys sort as bytes.
pub type OutputKey = [u8; KEY_BYTES];

pub fn output_key(block: u32, outpoint: &OutPoint) -> OutputKey {
    let mut bytes = [0; KEY_BYTES];
    bytes[..4].copy_from_slice(&block.to_be_bytes());
    bytes[4..20].copy_from_slice(txid_start(&outpoint.txid));
    bytes[20..].copy_from_slice(&outpoint.vout.to_be_bytes());
    bytes
}

pub fn block_of(key: &OutputKey) -> u32 {
    u32::from_be_bytes([key[0], key[1], key[2], key[3]])
}

/// Returns the start of an output's txid, which the key holds.
pub fn txid_of(key: &OutputKey) -> &[u8] {
    &key[4..20]
}

/// Returns the index of an output in its transaction.
pub fn vout_of(key: &OutputKey) -> u32 {
    u32::from_be_bytes([key[20], key[21], key[22], key[23]])
}

/// Returns the first eight bytes of an output's txid as a number that sorts like them.
pub fn txid_prefix(key: &OutputKey) -> u64 {
    words(key)[0] << 32 | words(key)[1] >> 32
}

/// Returns a key as numbers that sort like its bytes, and take fewer instructions to compare.
#[inline]
fn words(key: &OutputKey) -> [u64; 3] {
    let words = key.as_chunks().0;
    std::array::from_fn(|at| u64::from_be_bytes(words[at]))
}

/// Returns the start of a txid that keys hold, and that [`txid_of`] returns.
pub fn txid_start(txid: &Hash) -> &[u8] {
    &txid.0[..TXID_BYTES]
}

/// The keys that one thread has collected: sorted runs on disk, and the latest keys in memory.
pub struct Collector {
    spill: Arc<SpillFile>,
    groups: Arc<[Range<u32>]>,
    /// Keys that are in no run yet.
    held: Vec<OutputKey>,
    /// Maximum number of keys held.
    held_max: usize,
    runs: Vec<Run>,
}

/// A run of sorted keys.
struct Run {
    /// For each group of blocks, the index of its first key in the run; at the end, the number of
    /// keys.
    starts: Vec<u32>,
    keys: RunKeys,
}

/// The keys of a run.
enum RunKeys {
    /// Keys in memory.
    Held(Vec<OutputKey>),
    /// Keys in the temporary file, from this offset on.
    Spilled { offset: u64 },
}

impl Collector {
    /// Creates a collector that holds at most `bytes_max` bytes of keys, or one key. `groups` are
    /// consecutive ranges of block indices.
    pub fn new(spill: Arc<SpillFile>, groups: Arc<[Range<u32>]>, bytes_max: usize) -> Self {
        let held_max = (bytes_max / KEY_BYTES).clamp(1, u32::MAX as usize);
        Self { spill, groups, held: Vec::new(), held_max, runs: Vec::new() }
    }

    /// Adds a key.
    #[inline]
    pub fn push(&mut self, key: OutputKey) -> Result<(), StoreError> {
        if self.held.len() == self.held_max {
            self.write_run()?;
        }
        if self.held.len() == self.held.capacity() {
            // Doubles the capacity, but never beyond the bound.
            let more = self.held.len().max(1024).min(self.held_max - self.held.len());
            self.held.reserve_exact(more);
        }
        self.held.push(key);
        Ok(())
    }

    /// Sorts the keys held and writes them as a run.
    fn write_run(&mut self) -> Result<(), StoreError> {
        self.held.sort_unstable_by_key(words);
        let starts = self.starts();
        let offset = self.spill.append(self.held.as_flattened())?;
        self.runs.push(Run { starts, keys: RunKeys::Spilled { offset } });
        self.held.clear();
        Ok(())
    }

    /// Returns all runs; the last one has the keys held in memory.
    fn into_runs(mut self) -> Vec<Run> {
        self.held.sort_unstable_by_key(words);
        let starts = self.starts();
        self.runs.push(Run { starts, keys: RunKeys::Held(self.held) });
        self.runs
    }

    /// Returns [`Run::starts`] for the keys held, which must be sorted.
    fn starts(&self) -> Vec<u32> {
        let first_of = |group: &Range<u32>| {
            self.held.partition_point(|key| block_of(key) < group.start) as u32
        };
        self.groups.iter().map(first_of).chain([self.held.len() as u32]).collect()
    }
}

/// All keys in order, loaded a group of blocks at a time.
pub struct SortedKeys {
    spill: Arc<SpillFile>,
    runs: Vec<Run>,
}

impl SortedKeys {
    /// Takes the keys that all threads have collected, and sorts those in memory on the caller's
    /// thread pool.
    pub fn new(spill: Arc<SpillFile>, collectors: Vec<Collector>) -> Self {
        let runs = collectors.into_par_iter().flat_map_iter(Collector::into_runs).collect();
        Self { spill, runs }
    }

    /// Replaces the content of `out` with the sorted keys of a group.
    pub fn load(&self, group: usize, out: &mut Vec<OutputKey>) -> Result<(), StoreError> {
        out.clear();
        let mut bytes = Vec::new();
        let mut parts = 0;
        for run in &self.runs {
            let start = run.starts[group] as usize;
            let end = run.starts[group + 1] as usize;
            if start == end {
                continue;
            }
            parts += 1;
            match &run.keys {
                RunKeys::Held(held) => out.extend_from_slice(&held[start..end]),
                RunKeys::Spilled { offset } => {
                    bytes.clear();
                    let offset = offset + (start * KEY_BYTES) as u64;
                    self.spill.read(offset, (end - start) * KEY_BYTES, &mut bytes)?;
                    out.extend_from_slice(bytes.as_chunks().0);
                }
            }
        }
        if parts > 1 {
            // The stable sort merges parts that are sorted already.
            out.sort_by_key(words);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use apus_hash::sha256;

    use super::*;

    #[test]
    fn collected_keys_come_back_sorted_whatever_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let groups: Arc<[_]> = Arc::from([0..3, 3..4, 4..90, 90..100]);
        let made = |n: u32| {
            let txid = Hash(sha256(&(n / 3).to_le_bytes()));
            output_key(txid.0[0] as u32 * 100 / 256, &OutPoint { txid, vout: n % 3 })
        };
        for (bytes_max, threads) in [(0, 1), (24 * 7, 3), (24 * 100, 2), (1 << 20, 8)] {
            let spill = Arc::new(SpillFile::unlinked(&dir.path().join("out"), ".test"));
            let collector = || Collector::new(Arc::clone(&spill), Arc::clone(&groups), bytes_max);
            let mut collectors: Vec<_> = (0..threads).map(|_| collector()).collect();
            for n in 0..1_000 {
                collectors[n as usize % threads].push(made(n)).unwrap();
            }
            assert_eq!(spill.bytes_written() == 0, bytes_max > 24_000);
            let sorted = SortedKeys::new(spill, collectors);
            let mut all = Vec::new();
            let mut loaded = Vec::new();
            for (index, group) in groups.iter().enumerate() {
                sorted.load(index, &mut loaded).unwrap();
                assert!(loaded.iter().all(|key| group.contains(&block_of(key))));
                all.append(&mut loaded);
            }
            let mut expected: Vec<_> = (0..1_000).map(made).collect();
            expected.sort_unstable();
            assert_eq!(all, expected);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no temporary file is left");
    }
}
