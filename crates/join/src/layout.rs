//! How the join divides txids and heights into parts of the spill file, and memory among its users.

use apus_hash::Hash;

/// Minimum bytes of the pieces in which parts are written.
const PIECE_BYTES_MIN: usize = 64 << 10;
/// Maximum bytes of the pieces in which parts are written: larger ones gain nothing on any disk.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// Bounds on the number of partitions, as powers of two: enough that every worker has one, and few
/// enough for pieces of a size that suits a spinning disk.
const PARTITION_BITS_MIN: u32 = 5;
const PARTITION_BITS_MAX: u32 = 12;
/// Bytes of outputs in a partition, if memory allows that many partitions: with its table, such a
/// partition fits the second-level cache of most processors.
const PARTITION_BYTES: u64 = 3 << 20;
/// Bytes of memory that matching a partition takes for each byte of its outputs' records.
const MATCHING_FACTOR: u64 = 2;
/// Bytes of memory that matching takes for each byte of spends whose coins may be older than the
/// join.
const BYTES_PER_SPEND_BYTE: u64 = 2;
/// Minimum bytes of memory for a worker to match a partition; one transaction is never split.
const MATCHING_BYTES_MIN: u64 = 16 << 10;
/// Maximum bytes of memory for a worker to match a partition: a slice then has about 2 GiB of
/// outputs, and their offsets fit in 32 bits.
const MATCHING_BYTES_MAX: u64 = 4 << 30;
/// Minimum and maximum bytes of a worker's batch for each part.
const BATCH_BYTES_MIN: usize = 512;
const BATCH_BYTES_MAX: usize = 4096;
/// Bytes of all batches of a worker together.
const BATCHES_BYTES: usize = 4 << 20;
/// Bounds on the bytes of spent coins in a bucket; the last pass has two buckets in memory at a
/// time. Buckets are larger if the pieces of that many buckets would take more memory.
const BUCKET_BYTES_MAX: u64 = 32 << 20;
const BUCKET_BYTES_MIN: u64 = 64 << 10;
/// A bucket's share of the memory is the memory divided by this.
const BUCKET_SHARE: u64 = 8;
/// Bytes of output records that reach a partition, for 100 bytes of blocks; measured from 25 to
/// 130.
const OUTPUTS_PERCENT: u64 = 60;
/// Bytes of spent coins for 100 bytes of blocks, on average: a block of 1 MB may spend 240 MB of
/// coins with long scripts.
const COINS_PERCENT: u64 = 20;

/// The memory that a join may take, and how many threads share it.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// All memory, in bytes.
    pub bytes: usize,
    /// Number of threads.
    pub workers: usize,
}

impl Memory {
    /// Returns the most bytes of a bucket to hold in memory at a time, where the bucket's blocks
    /// have `block_bytes`: a share of the memory, or twice the spent coins that such blocks have on
    /// average if that is more. The coins of one block are never divided.
    pub fn bucket_bytes(&self, block_bytes: u64) -> u64 {
        (self.bytes as u64 / BUCKET_SHARE).max(block_bytes / 100 * 2 * COINS_PERCENT)
    }

    /// Returns the number of slices in which a worker matches a partition that has `outputs` bytes
    /// of output records and `looked_up` bytes of spends that it may have to look up: each slice
    /// fits in the worker's share of the memory.
    pub fn slices(&self, outputs: u64, looked_up: u64) -> u64 {
        let share = self.bytes as u64 * 3 / 5 / self.workers.max(1) as u64;
        let share = share.clamp(MATCHING_BYTES_MIN, MATCHING_BYTES_MAX);
        (outputs * MATCHING_FACTOR + looked_up * BYTES_PER_SPEND_BYTE).div_ceil(share).max(1)
    }
}

/// The parts of the spill file: one of outputs and one of spends for each partition of the txids,
/// and one of spent coins for each bucket of neighbouring heights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of partitions, at most 2^16.
    pub partitions: u32,
    /// For each bucket, the first height after it.
    pub bucket_ends: Vec<u32>,
    /// The height of the first block.
    pub first_height: u32,
}

impl Layout {
    /// Lays out the parts for blocks of these `sizes` in bytes, the first of which is at
    /// `first_height`.
    pub fn new(first_height: u32, sizes: &[u64], memory: Memory) -> Self {
        let all: u64 = sizes.iter().sum();
        let outputs = all / 100 * OUTPUTS_PERCENT;
        let each = (memory.bytes / 2 / memory.workers.max(1)) as u64 / MATCHING_FACTOR;
        let each = each.min(PARTITION_BYTES);
        let wanted = (outputs / each.max(1)).max(4 * memory.workers as u64).max(1);
        // Pieces for outputs and for spends may take a quarter of the memory.
        let most = (memory.bytes / 4 / (2 * PIECE_BYTES_MIN)).max(1).ilog2();
        let bits = wanted.next_power_of_two().ilog2();
        let most = most.clamp(PARTITION_BITS_MIN, PARTITION_BITS_MAX);
        let partitions = 1 << bits.clamp(PARTITION_BITS_MIN, most);
        let bucket_bytes = memory.bytes as u64 / BUCKET_SHARE;
        let bucket_bytes = bucket_bytes.clamp(BUCKET_BYTES_MIN, BUCKET_BYTES_MAX);
        // Pieces for all buckets then take as much as one bucket: 100 MB for 150 GB of coins.
        let balanced = (all / 100 * COINS_PERCENT * PIECE_BYTES_MIN as u64).isqrt();
        let bucket_bytes = bucket_bytes.max(balanced);
        let bucket_ends = bucket_ends(first_height, sizes, bucket_bytes * 100 / COINS_PERCENT);
        Self { partitions, bucket_ends, first_height }
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> usize {
        self.partitions as usize
    }

    /// Returns the number of buckets of blocks.
    pub fn buckets(&self) -> usize {
        self.bucket_ends.len()
    }

    /// Returns the number of all parts.
    pub fn parts(&self) -> usize {
        self.first_bucket() + self.buckets()
    }

    /// Returns the part of a partition's outputs.
    pub fn outputs(&self, partition: usize) -> usize {
        partition
    }

    /// Returns the part of a partition's spends.
    pub fn spends(&self, partition: usize) -> usize {
        self.partitions() + partition
    }

    /// Returns the part of the first bucket; the others follow it.
    pub fn first_bucket(&self) -> usize {
        2 * self.partitions()
    }

    /// Returns the partition of a txid.
    #[inline]
    pub fn partition_of(&self, txid: &Hash) -> usize {
        let head = u32::from(u16::from_be_bytes([txid.0[0], txid.0[1]]));
        ((head * self.partitions) >> u16::BITS) as usize
    }

    /// Returns the bucket of a height.
    #[inline]
    pub fn bucket_of(&self, height: u32) -> usize {
        self.bucket_ends.partition_point(|end| *end <= height)
    }

    /// Returns the heights of a bucket.
    pub fn heights(&self, bucket: usize) -> std::ops::Range<u32> {
        let first = match bucket {
            0 => self.first_height,
            _ => self.bucket_ends[bucket - 1],
        };
        first..self.bucket_ends[bucket]
    }

    /// Returns whether the layout begins at the first of these heights and has buckets for all of
    /// them.
    pub fn covers(&self, heights: std::ops::Range<u32>) -> bool {
        let begins = std::iter::once(&self.first_height).chain(&self.bucket_ends);
        let is_ascending = begins.zip(&self.bucket_ends).all(|(begin, end)| begin < end);
        let reaches = self.bucket_ends.last().is_some_and(|end| *end >= heights.end);
        is_ascending && reaches && self.first_height == heights.start
    }

    /// Returns the bytes of the pieces in which parts are written.
    pub fn piece_bytes(&self, memory: Memory) -> usize {
        (memory.bytes / 4 / self.parts().max(1)).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    /// Returns the bytes that a worker gathers for each part if there are this many.
    pub fn batch_bytes(parts: usize) -> usize {
        (BATCHES_BYTES / parts.max(1)).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX)
    }
}

fn bucket_ends(first_height: u32, sizes: &[u64], bytes_max: u64) -> Vec<u32> {
    let mut ends = Vec::new();
    let mut bytes = 0;
    for (height, size) in (first_height..).zip(sizes) {
        if bytes > 0 && bytes + size > bytes_max {
            ends.push(height);
            bytes = 0;
        }
        bytes += size;
    }
    if !sizes.is_empty() {
        ends.push(first_height + sizes.len() as u32);
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_height_has_a_bucket_and_every_txid_a_partition() {
        let memory = Memory { bytes: 100 << 20, workers: 3 };
        let sizes = vec![2_000_000; 3000];
        let layout = Layout::new(11, &sizes, memory);
        let mut next = 11;
        for bucket in 0..layout.buckets() {
            assert_eq!(layout.heights(bucket).start, next);
            next = layout.heights(bucket).end;
            assert_eq!(layout.bucket_of(next - 1), bucket);
        }
        assert_eq!(next, 3011);
        assert!(layout.covers(11..3011) && layout.covers(11..20));
        assert!(!layout.covers(11..3012) && !layout.covers(12..20));
        let bucket_ends = vec![50, 40, 5000];
        assert!(!Layout { bucket_ends, ..layout.clone() }.covers(11..20));
        assert!(layout.buckets() > 50 && layout.partitions() >= 128, "{layout:?}");
        assert_eq!(layout.partition_of(&Hash([0xff; 32])), layout.partitions() - 1);
        assert_eq!(layout.partition_of(&Hash::ZERO), 0);
        let pieces = layout.piece_bytes(memory) * layout.parts();
        assert!(pieces <= memory.bytes / 2, "{pieces} of {}", memory.bytes);
    }

    #[test]
    fn a_long_chain_leaves_memory_bounded() {
        const MB: usize = 1_000_000;
        let sizes = vec![850_000; 900_000];
        for (bytes, workers) in [(100 * MB, 17), (450 * MB, 3), (4000 * MB, 17)] {
            let memory = Memory { bytes, workers };
            let layout = Layout::new(1, &sizes, memory);
            let pieces = layout.piece_bytes(memory) * layout.parts();
            assert!(pieces <= bytes / 2 + 100 * MB, "{bytes}: {pieces} bytes of pieces");
            let largest = (0..layout.buckets()).map(|bucket| layout.heights(bucket).len()).max();
            let coins = largest.unwrap() * 850_000 / 100 * COINS_PERCENT as usize;
            assert!(2 * coins <= bytes + 200 * MB, "{bytes}: {coins} bytes in a bucket");
        }
    }

    #[test]
    fn what_is_matched_at_once_has_offsets_of_32_bits() {
        let memory = Memory { bytes: 200 << 30, workers: 1 };
        for gib in [1, 3, 4, 9, 40] {
            let outputs = gib << 30;
            let slices = memory.slices(outputs, 0);
            // Slices are about equal, and each has some padding and whole transactions.
            assert!(outputs / slices <= 3 << 30, "{gib} GiB in {slices} slices");
            assert!(gib > 1 || slices == 1);
        }
        let memory = Memory { bytes: 100 << 20, workers: 2 };
        assert_eq!([0, 15, 16].map(|mb| memory.slices(mb << 20, 0)), [1, 1, 2]);
        assert_eq!(memory.slices(10 << 20, 10 << 20), 2);
    }

    #[test]
    fn no_blocks_have_no_buckets() {
        let layout = Layout::new(1, &[], Memory { bytes: 0, workers: 1 });
        assert_eq!((layout.buckets(), layout.partitions()), (0, 32));
    }
}
