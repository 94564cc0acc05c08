//! How the parts of a run share the memory.

use apus_chain::Tree;

use apus_host::memory::limit::{MemoryLimit, memory_limit};
use apus_host::memory::pressure::Squeeze;
use apus_host::root::Root;

const MIB: u64 = 1 << 20;

/// Core's default size in bytes of the coins cache (`-dbcache`), which is the largest that is
/// chosen here: a sync with ten times as much takes 0.92 times as long (docs/bench/figures.md).
pub const CACHE_BYTES_DEFAULT: u64 = 450 * MIB;
/// The part of the free memory that the cache takes by default. The system needs some for the pages
/// of the tables, and other programs may start.
const CACHE_SHARE: u64 = 4;
/// Minimum size in bytes of the cache of a sync in order.
const CACHE_BYTES_MIN: u64 = 16 * MIB;
/// Bytes of the program, its threads, and small data; measured with small blocks.
const PROGRAM_BYTES: u64 = 24 * MIB;
/// Bytes of a known header outside the tree while its block waits to be connected: 20 for the
/// record of its block, 16 for its place in a file, 32 for its step, 8 for its weight, 21 for
/// times, marks, chains and a set of blocks that are done.
const HEADER_BYTES: usize = 97;
/// Those of them that are in files if the tree is: record and place.
const FILE_HEADER_BYTES: usize = 36;
/// Bytes of a known header in the copy for readers, outside the tree: 20 for the record, 8 for the
/// number of transactions, 4 for the active chain.
const READERS_HEADER_BYTES: usize = 32;
/// The part of the memory that is left to the system: for pages of tables, for what the allocator
/// cannot return, and for what is not counted here.
const SYSTEM_SHARE: u64 = 8;
/// Bytes of a block in progress, with its offsets and the coins that it spends.
const BLOCK_BYTES: u64 = 2 * MIB;
/// The most blocks in progress of a sync in order, and the fewest: two thirds are prepared ahead,
/// and one third is being checked.
const BLOCKS_MAX: u64 = 48;
const BLOCKS_MIN: u64 = 6;
/// Bytes of tables that are being built during a sync in order.
const TABLES_BYTES: u64 = 20 * MIB;
/// Bytes that a sync in order uses per 100 bytes of cached coins: the coins, and the sorted list of
/// a commit.
const IN_ORDER_PERCENT: u64 = 130;
/// The most bytes of downloaded blocks that wait in memory, and the fewest; others wait in a file.
const EARLY_BYTES_MAX: u64 = 128 * MIB;
const EARLY_BYTES_MIN: u64 = 8 * MIB;
/// The part of the free memory that downloaded blocks may take.
const EARLY_SHARE: u64 = 16;
/// Bytes of a SwiftSync worker: 4 MiB for coins that it has yet to hand over, and a parsed block of
/// 4 MB.
const WORKER_BYTES: u64 = 16 * MIB;
/// Minimum number of bytes of a SwiftSync for coins to be written: one page for each of 1024 slots.
const SURVIVORS_BYTES_MIN: u64 = 4 * MIB;
/// The least memory for the work of a SwiftSync.
const LEAST_SWIFT_BYTES: u64 = WORKER_BYTES + SURVIVORS_BYTES_MIN;
/// Bytes of a thread that writes tables: two buffers of 2 MiB and a filter.
const TABLE_WRITER_BYTES: u64 = 6 * MIB;
/// Number of parts of all coins; a thread that writes tables sorts one part at a time.
const SORTED_PARTS: u64 = 1024;
/// Bytes of a coin in memory while it is sorted: 66 for the coin, 32 for its place in the order;
/// twice that, since a part of up to twice the average size is sorted at once.
const SORTED_COIN_BYTES: u64 = 200;

/// Returns the size in bytes of the coins cache if the user chooses none: a quarter of the memory
/// that a process of the system below `root` may use, from 16 to 450 MiB.
pub fn default_cache_bytes(root: &Root) -> usize {
    cache_by_default(memory_limit(root).as_ref())
}

fn cache_by_default(limit: Option<&MemoryLimit>) -> usize {
    let share = limit.map_or(u64::MAX, |limit| limit.bytes / CACHE_SHARE);
    share.clamp(CACHE_BYTES_MIN, CACHE_BYTES_DEFAULT) as usize
}

/// Returns the bytes of memory that all known headers of an opened directory take while their
/// blocks wait to be connected; readers who are shown them have copies.
pub fn header_bytes(tree: &Tree, has_readers: bool) -> u64 {
    let in_tree = tree.bytes_per_block();
    let outside = HEADER_BYTES - if tree.is_in_file() { FILE_HEADER_BYTES } else { 0 };
    let of_readers = if has_readers { in_tree + READERS_HEADER_BYTES } else { 0 };
    (tree.len() * (in_tree + outside + of_readers)) as u64
}

/// Returns the most bytes of downloaded blocks that wait in memory: a sixteenth of the free memory,
/// from 8 to 128 MiB.
pub fn early_bytes() -> u64 {
    let limit = memory_limit(&Root::system());
    early_by_limit(limit.map_or(u64::MAX, |limit| limit.bytes))
}

fn early_by_limit(limit: u64) -> u64 {
    (limit / EARLY_SHARE).clamp(EARLY_BYTES_MIN, EARLY_BYTES_MAX)
}

/// Returns the memory for everything else, where a process may use `limit` bytes and holds `held`
/// all the time besides the program and downloaded blocks.
fn room(limit: u64, held: u64) -> u64 {
    (limit - limit / SYSTEM_SHARE)
        .saturating_sub(PROGRAM_BYTES + early_by_limit(limit))
        .saturating_sub(held)
}

/// How a sync in order divides the available memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InOrderShare {
    /// Maximum size in bytes of the coins cache.
    pub cache_bytes: usize,
    /// The most blocks that are prepared before they can be connected.
    pub blocks_ahead: usize,
    /// The most blocks that are connected before their checks are finished.
    pub blocks_in_flight: usize,
}

impl InOrderShare {
    /// Returns the share of a cache of this size, with as many blocks in progress as are useful.
    pub fn full(cache_bytes: usize) -> Self {
        Self::of(cache_bytes as u64, u64::MAX)
    }

    /// Divides the memory for a cache of `dbcache_bytes`, next to all known headers, which take
    /// `header_bytes`.
    /// The cache is smaller if memory is too short; the user is then warned, unless the size was
    /// not theirs.
    pub fn new(dbcache_bytes: usize, header_bytes: u64) -> Self {
        let Some(limit) = memory_limit(&Root::system()) else { return Self::full(dbcache_bytes) };
        let wanted = dbcache_bytes as u64;
        let room = room(limit.bytes, header_bytes);
        let held = limit.bytes - room;
        let share = Self::of(wanted, room);
        let fits = share.cache_bytes as u64;
        let least = PROGRAM_BYTES + header_bytes + share.bytes();
        let is_chosen = dbcache_bytes > cache_by_default(Some(&limit));
        if fits < wanted && is_chosen || least > limit.bytes {
            tracing::warn!(
                "--dbcache of {} MiB takes about {} MiB of memory, with everything else that a \
                 sync needs, but {} MiB are available ({}): {} MiB are used for cached coins{}",
                wanted / MIB,
                (held + Self::full(dbcache_bytes).bytes()) / MIB,
                limit.bytes / MIB,
                limit.source,
                fits / MIB,
                if least > limit.bytes { ", and the system may kill the sync" } else { "" }
            );
        }
        share
    }

    /// Divides `room` bytes: blocks in progress get up to a third of what tables leave, and the
    /// cache the rest.
    fn of(wanted: u64, room: u64) -> Self {
        let room = room.saturating_sub(TABLES_BYTES);
        let blocks = (room / 3 / BLOCK_BYTES).clamp(BLOCKS_MIN, BLOCKS_MAX);
        let left = room.saturating_sub(blocks * BLOCK_BYTES);
        let cache = wanted.min((left / IN_ORDER_PERCENT * 100).max(CACHE_BYTES_MIN));
        Self {
            cache_bytes: usize::try_from(cache).unwrap_or(usize::MAX),
            blocks_ahead: (blocks - blocks / 3) as usize,
            blocks_in_flight: (blocks / 3) as usize,
        }
    }

    /// Returns what is left of this while the system is short of memory, but at least what a sync
    /// needs.
    pub fn squeezed(&self, squeeze: &Squeeze) -> Self {
        let least = self.cache_bytes.min(CACHE_BYTES_MIN as usize);
        let ahead = self.blocks_ahead.min((BLOCKS_MIN - BLOCKS_MIN / 3) as usize);
        Self {
            cache_bytes: squeeze.of(self.cache_bytes).max(least),
            blocks_ahead: squeeze.of(self.blocks_ahead).max(ahead),
            blocks_in_flight: squeeze.of(self.blocks_in_flight).max(1),
        }
    }

    fn bytes(&self) -> u64 {
        let blocks = (self.blocks_ahead + self.blocks_in_flight) as u64;
        let cache = (self.cache_bytes as u64).saturating_mul(IN_ORDER_PERCENT) / 100;
        (TABLES_BYTES + blocks * BLOCK_BYTES).saturating_add(cache)
    }
}

/// How a SwiftSync divides the available memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwiftShare {
    /// Number of threads that work on blocks.
    pub workers: usize,
    /// Bytes of coins held in memory, to be written at the end.
    pub survivors_bytes: usize,
    /// Bytes for the threads that write tables at the end.
    tables_bytes: u64,
}

impl SwiftShare {
    /// Divides the memory for a SwiftSync with at most `workers` workers and `survivors_bytes` of
    /// coins, next to all known headers and whatever else is held all the time, which take
    /// `held_bytes`.
    ///
    /// # Errors
    /// There is too little memory for one worker.
    pub fn new(workers: usize, survivors_bytes: usize, held_bytes: u64) -> Result<Self, String> {
        let limit = memory_limit(&Root::system());
        let all = limit.as_ref().map_or(u64::MAX, |limit| limit.bytes);
        let held = PROGRAM_BYTES + held_bytes;
        // What is left to the system comes last: less of it is slow, and no SwiftSync is possible
        // without the rest.
        let room = room(all, held_bytes).max(all.saturating_sub(held).min(LEAST_SWIFT_BYTES));
        Self::of(workers, survivors_bytes, room).ok_or_else(|| {
            format!(
                "SwiftSync needs at least {} MiB of memory for this chain, and {} MiB are \
                 available ({}): make more memory available",
                (held + LEAST_SWIFT_BYTES).div_ceil(MIB),
                all / MIB,
                limit.map_or_else(String::new, |limit| limit.source),
            )
        })
    }

    /// Divides `room` bytes: one worker and the minimum for coins come first; half of the rest may
    /// go to more workers, and what they leave to coins. `None` if `room` is too small.
    fn of(workers: usize, survivors_bytes: usize, room: u64) -> Option<Self> {
        let workers = workers.max(1);
        let wanted = survivors_bytes as u64;
        let after_one = room.checked_sub(LEAST_SWIFT_BYTES)?;
        let more = after_one / 2 / WORKER_BYTES;
        let workers = workers.min(1 + usize::try_from(more).unwrap_or(usize::MAX));
        let left = room - workers as u64 * WORKER_BYTES;
        let survivors = wanted.min(left).max(SURVIVORS_BYTES_MIN);
        let survivors_bytes = usize::try_from(survivors).unwrap_or(usize::MAX);
        Some(Self { workers, survivors_bytes, tables_bytes: room - survivors })
    }

    /// Returns the number of threads that may write the tables of `coins` coins, at most `wanted`.
    pub fn table_writers(&self, wanted: usize, coins: u64) -> usize {
        let each = TABLE_WRITER_BYTES + coins.saturating_mul(SORTED_COIN_BYTES) / SORTED_PARTS;
        wanted.min(usize::try_from(self.tables_bytes / each).unwrap_or(usize::MAX)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_follows_the_free_memory() {
        let limit = |mib| MemoryLimit { bytes: mib * MIB, source: String::new() };
        let cache = |mib| cache_by_default(Some(&limit(mib))) as u64 / MIB;
        assert_eq!([20, 64, 300, 1_000, 1_800, 64_000].map(cache), [16, 16, 75, 250, 450, 450]);
        assert_eq!(cache_by_default(None) as u64, CACHE_BYTES_DEFAULT);
        let early = [100, 300, 1_000, 4_000].map(|mib| early_by_limit(mib * MIB) / MIB);
        assert_eq!(early, [8, 18, 62, 128]);
    }

    #[test]
    fn a_sync_in_order_divides_the_memory_that_there_is() {
        let share = |wanted: u64, room: u64| {
            let share = InOrderShare::of(wanted * MIB, room * MIB);
            (share.cache_bytes as u64 / MIB, share.blocks_ahead, share.blocks_in_flight)
        };
        assert_eq!(share(450, 24_000), (450, 32, 16));
        assert_eq!(share(450, 300), (144, 31, 15));
        assert_eq!(share(50, 120), (50, 11, 5));
        assert_eq!(share(50, 80), (30, 7, 3));
        assert_eq!(share(50, 10), (16, 4, 2));
        assert_eq!(share(16, 10), (16, 4, 2));
        for room in 53..500 {
            let share = InOrderShare::of(450 * MIB, room * MIB);
            assert!(share.bytes() <= room * MIB, "{room}: {share:?}");
        }
    }

    /// The limits that docs/guide/low-memory-and-pruning.md promises.
    #[test]
    fn mainnet_fits_in_300_mb_in_order() {
        let in_file = (HEADER_BYTES - FILE_HEADER_BYTES) as u64 + 11;
        let room = room(300_000_000, 950_000 * in_file);
        assert!(InOrderShare::of(450 * MIB, room).bytes() <= room);
    }

    #[test]
    fn a_swiftsync_divides_the_memory_that_there_is() {
        let share = |room: u64| {
            SwiftShare::of(9, 200 << 20, room * MIB)
                .map(|s| (s.workers, s.survivors_bytes as u64 / MIB))
        };
        assert_eq!(share(19), None);
        assert_eq!(share(20), Some((1, 4)));
        assert_eq!(share(76), Some((2, 44)));
        assert_eq!(share(119), Some((4, 55)));
        assert_eq!(share(24_000), Some((9, 200)));
        for room in 20..500 {
            let (workers, survivors) = share(room).unwrap();
            assert!(workers as u64 * WORKER_BYTES + survivors * MIB <= room * MIB, "{room}");
        }
    }

    #[test]
    fn few_threads_write_tables_where_memory_is_short() {
        let share = |room: u64| SwiftShare::of(3, 200 << 20, room * MIB).unwrap();
        assert_eq!(share(40).table_writers(4, 1_000_000), 2);
        assert_eq!(share(20).table_writers(4, 175_000_000), 1);
        assert_eq!(share(24_000).table_writers(4, 175_000_000), 4);
    }
}
