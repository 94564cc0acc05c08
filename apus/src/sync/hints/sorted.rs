//! Which outputs are unspent, sorted into the order in which the blocks that created them lie in
//! the files: an external sort.

use std::ops::Range;

use rayon::prelude::*;

use crate::disk::{SpillFile, StoreError};
use crate::hash::Hash;
use crate::wire::OutPoint;

/// Of a txid as much as tells transactions of one block apart.
const TXID_BYTES: usize = 16;
/// Place of the block, txid, index of the output; big endian, so that they sort as bytes do.
const ENTRY_BYTES: usize = 4 + TXID_BYTES + 4;

/// An unspent output. The place is that of its block in file order.
pub(super) type Survivor = [u8; ENTRY_BYTES];

/// The survivor of a block at this place.
pub(super) fn survivor(place: u32, outpoint: &OutPoint) -> Survivor {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..4].copy_from_slice(&place.to_be_bytes());
    bytes[4..20].copy_from_slice(txid_start(&outpoint.txid));
    bytes[20..].copy_from_slice(&outpoint.vout.to_be_bytes());
    bytes
}

/// The place of the block.
pub(super) fn place_of(survivor: &Survivor) -> u32 {
    u32::from_be_bytes([survivor[0], survivor[1], survivor[2], survivor[3]])
}

/// The start of the txid, by which the outputs of one block are sorted.
pub(super) fn txid_of(survivor: &Survivor) -> &[u8] {
    &survivor[4..20]
}

/// The index of the output.
pub(super) fn vout_of(survivor: &Survivor) -> u32 {
    u32::from_be_bytes([survivor[20], survivor[21], survivor[22], survivor[23]])
}

/// What [`txid_of`] is for this transaction.
pub(super) fn txid_start(txid: &Hash) -> &[u8] {
    &txid.0[..TXID_BYTES]
}

/// What one thread has collected: whole runs on disk, and the rest in memory.
pub(super) struct Collector<'a> {
    spill: &'a SpillFile,
    groups: &'a [Range<u32>],
    held: Vec<Survivor>,
    held_max: usize,
    runs: Vec<Run>,
}

/// Sorted survivors.
struct Run {
    /// Index among them of the first of each group, and at last their number.
    starts: Vec<u32>,
    place: Place,
}

enum Place {
    Memory(Vec<Survivor>),
    /// At this offset of the spill.
    Disk(u64),
}

impl<'a> Collector<'a> {
    /// A collector that never holds more than `bytes_max`, but at least one survivor. `groups` are
    /// ranges of places, one after the other.
    pub fn new(spill: &'a SpillFile, groups: &'a [Range<u32>], bytes_max: usize) -> Self {
        let held_max = (bytes_max / ENTRY_BYTES).clamp(1, u32::MAX as usize);
        Self { spill, groups, held: Vec::new(), held_max, runs: Vec::new() }
    }

    #[inline]
    pub fn push(&mut self, survivor: Survivor) -> Result<(), StoreError> {
        if self.held.len() == self.held_max {
            self.write_run()?;
        }
        if self.held.len() == self.held.capacity() {
            // As much again, but never beyond the bound.
            let more = self.held.len().max(1024).min(self.held_max - self.held.len());
            self.held.reserve_exact(more);
        }
        self.held.push(survivor);
        Ok(())
    }

    fn write_run(&mut self) -> Result<(), StoreError> {
        self.held.sort_unstable();
        let starts = self.starts();
        let offset = self.spill.append(self.held.as_flattened())?;
        self.runs.push(Run { starts, place: Place::Disk(offset) });
        self.held.clear();
        Ok(())
    }

    fn into_runs(mut self) -> Vec<Run> {
        self.held.sort_unstable();
        let starts = self.starts();
        self.runs.push(Run { starts, place: Place::Memory(self.held) });
        self.runs
    }

    fn starts(&self) -> Vec<u32> {
        let first_of = |group: &Range<u32>| {
            self.held.partition_point(|survivor| place_of(survivor) < group.start) as u32
        };
        self.groups.iter().map(first_of).chain([self.held.len() as u32]).collect()
    }
}

/// All survivors, to be had group by group.
pub(super) struct Sorted<'a> {
    spill: &'a SpillFile,
    runs: Vec<Run>,
}

impl<'a> Sorted<'a> {
    /// What all threads have collected; what is in memory is sorted on the caller's pool.
    pub fn new(spill: &'a SpillFile, collectors: Vec<Collector>) -> Self {
        let runs = collectors.into_par_iter().flat_map_iter(Collector::into_runs).collect();
        Self { spill, runs }
    }

    /// The survivors of a group, sorted, into `out`, in the place of what it held.
    pub fn load(&self, group: usize, out: &mut Vec<Survivor>) -> Result<(), StoreError> {
        out.clear();
        let (mut bytes, mut parts) = (Vec::new(), 0);
        for run in &self.runs {
            let (start, end) = (run.starts[group] as usize, run.starts[group + 1] as usize);
            if start == end {
                continue;
            }
            parts += 1;
            match &run.place {
                Place::Memory(held) => out.extend_from_slice(&held[start..end]),
                Place::Disk(offset) => {
                    bytes.clear();
                    let offset = offset + (start * ENTRY_BYTES) as u64;
                    self.spill.read(offset, (end - start) * ENTRY_BYTES, &mut bytes)?;
                    out.extend_from_slice(bytes.as_chunks().0);
                }
            }
        }
        if parts > 1 {
            // The stable sort merges what is sorted already.
            out.sort();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::sha256;

    #[test]
    fn what_was_collected_comes_back_sorted_whatever_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let groups = [0..3, 3..4, 4..90, 90..100];
        let made = |n: u32| {
            let txid = Hash(sha256(&(n / 3).to_le_bytes()));
            survivor(txid.0[0] as u32 * 100 / 256, &OutPoint { txid, vout: n % 3 })
        };
        for (bytes_max, threads) in [(0, 1), (24 * 7, 3), (24 * 100, 2), (1 << 20, 8)] {
            let spill = SpillFile::unlinked(&dir.path().join("out"), ".test");
            let collector = || Collector::new(&spill, &groups, bytes_max);
            let mut collectors: Vec<_> = (0..threads).map(|_| collector()).collect();
            for n in 0..1_000 {
                collectors[n as usize % threads].push(made(n)).unwrap();
            }
            assert_eq!(spill.len() == 0, bytes_max > 24_000);
            let survivors = Sorted::new(&spill, collectors);
            let (mut all, mut loaded) = (Vec::new(), Vec::new());
            for (index, group) in groups.iter().enumerate() {
                survivors.load(index, &mut loaded).unwrap();
                assert!(loaded.iter().all(|survivor| group.contains(&place_of(survivor))));
                all.append(&mut loaded);
            }
            let mut expected: Vec<_> = (0..1_000).map(made).collect();
            expected.sort_unstable();
            assert_eq!(all, expected);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing stays behind");
    }
}
