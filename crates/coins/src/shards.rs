use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
struct Padded(Mutex<Shard>);

impl Shards {
    /// Returns empty shards.
    pub fn new(hasher: OutPointHasher) -> Self {
        let shards = (0..SHARDS).map(|_| Padded(Mutex::new(Shard::new(hasher)))).collect();
        Self { shards, generation: AtomicU64::new(0), syncing: AtomicBool::new(false) }
    }

    /// Locks a shard. Every lock is held only for the time that it takes to visit about ten
    /// thousand entries.
    pub fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].0.lock().expect("no thread has panicked inside the coins cache")
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
