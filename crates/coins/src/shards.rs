use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::hasher::OutPointHasher;
use super::shard::Shard;

/// The number of shards, a power of two: enough that 64 workers rarely wait for each other, and few
/// enough that several of a block's 3,000 inputs fall into each.
pub(super) const SHARDS: usize = 64;

/// The shards of a cache, each with its own lock, and the state of its syncs.
pub(super) struct Shards {
    shards: Vec<Padded>,
    /// The number of syncs whose changes the tables hold.
    generation: AtomicU64,
    /// Whether a sync has begun and not ended.
    syncing: AtomicBool,
}

/// A shard with its own cache lines, so that the locks of two shards never share one.
#[repr(align(128))]
struct Padded {
    shard: Mutex<Shard>,
    sizes: AtomicSizes,
}

/// How much a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSizes {
    /// The memory in use, in bytes: slots, tables, and scripts that are too long for a slot. Memory
    /// no longer in use is reused before more is allocated, so that the process holds as much for
    /// the cache as the largest value ever returned.
    pub bytes: usize,
    /// The number of entries, spent ones included.
    pub entries: usize,
    /// The number of entries that the next sync has to write to the tables or delete from them.
    pub changed: usize,
    /// The number of entries that [`CoinsCache::shrink_to`](super::CoinsCache::shrink_to) may drop.
    pub clean: usize,
}

/// The sizes of a shard when its lock was last released.
#[derive(Default)]
struct AtomicSizes {
    bytes: AtomicUsize,
    entries: AtomicUsize,
    changed: AtomicUsize,
    clean: AtomicUsize,
}

/// A shard that is locked.
pub(super) struct Locked<'a> {
    shard: MutexGuard<'a, Shard>,
    sizes: &'a AtomicSizes,
}

impl Deref for Locked<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Self { shard, sizes } = self;
        sizes.bytes.store(shard.bytes(), Ordering::Relaxed);
        sizes.entries.store(shard.len(), Ordering::Relaxed);
        sizes.changed.store(shard.changed(), Ordering::Relaxed);
        sizes.clean.store(shard.clean(), Ordering::Relaxed);
    }
}

impl Shards {
    /// Returns empty shards.
    pub fn new(hasher: OutPointHasher) -> Self {
        let new =
            |_| Padded { shard: Mutex::new(Shard::new(hasher)), sizes: AtomicSizes::default() };
        let shards = (0..SHARDS).map(new).collect();
        Self { shards, generation: AtomicU64::new(0), syncing: AtomicBool::new(false) }
    }

    /// Locks a shard. Every lock is held only for the time that it takes to visit about ten
    /// thousand entries.
    pub fn lock(&self, shard: usize) -> Locked<'_> {
        let Padded { shard, sizes } = &self.shards[shard];
        let shard = shard.lock().expect("no thread has panicked inside the coins cache");
        Locked { shard, sizes }
    }

    /// Returns how much all shards hold, without a lock.
    pub fn sizes(&self) -> CacheSizes {
        let mut sum = CacheSizes::default();
        for Padded { sizes, .. } in &self.shards {
            sum.bytes += sizes.bytes.load(Ordering::Relaxed);
            sum.entries += sizes.entries.load(Ordering::Relaxed);
            sum.changed += sizes.changed.load(Ordering::Relaxed);
            sum.clean += sizes.clean.load(Ordering::Relaxed);
        }
        sum
    }

    /// Returns the number of syncs whose changes the tables hold.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Notes that the tables hold the changes of another sync.
    pub fn raise_generation(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Begins a sync.
    ///
    /// # Panics
    /// Another sync has not ended.
    pub fn begin_sync(&self) {
        let other = self.syncing.swap(true, Ordering::AcqRel);
        assert!(!other, "another sync of the coins cache has not ended");
    }

    /// Ends the sync.
    pub fn end_sync(&self) {
        self.syncing.store(false, Ordering::Release);
    }
}
