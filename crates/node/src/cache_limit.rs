//! How full the coins cache may be, and when its changes are to be committed.

use std::sync::Arc;

use apus_coins::CoinsCache;
use apus_host::memory::pressure::Squeeze;

use super::memory_share::InOrderShare;

/// Percentage of the cache's limit in bytes above which a commit may begin. The rest is for the
/// coins of blocks that connect while it is written: with 60, it was full before a large commit was
/// written, and validation waited.
const BEGIN_PERCENT: usize = 50;
/// Percentage of the cache's entries that must have changed for a commit to begin, not counting
/// entries awaited by blocks to come. A lower one would make more and smaller runs of tables, which
/// must be merged; a higher one would leave no space for clean coins.
const CHANGED_PERCENT: usize = 60;
/// Percentage of its limit to which a full cache is shrunk.
const SHRUNK_PERCENT: usize = 97;
/// Percentage of the cache's entries that must be clean for a full cache to be shrunk.
const CLEAN_PERCENT_MIN: usize = 5;
/// Percentage of its limit to which the cache is shrunk after a commit. A higher one saves
/// look-ups, which cost little, since workers make them in advance; a lower one leaves more space
/// for new coins while the next commit is written, and fewer entries for the connecting thread to
/// drop.
const KEPT_PERCENT: usize = 20;

/// Bytes of the cache for a coin, but for those of a long script.
pub const CACHED_COIN_BYTES: usize = 106;

/// The memory for the coins cache and for blocks in progress.
pub struct CacheLimit {
    /// The memory while the system has enough.
    pub share: InOrderShare,
    /// How far less of it is used while the system is short of memory.
    squeeze: Arc<Squeeze>,
}

impl CacheLimit {
    pub fn new(dbcache_bytes: usize, squeeze: Arc<Squeeze>) -> Self {
        Self { share: InOrderShare::full(dbcache_bytes), squeeze }
    }

    /// Returns the memory for the cache and for blocks in progress now.
    pub fn share_now(&self) -> InOrderShare {
        self.share.squeezed(&self.squeeze)
    }

    /// Returns whether the cache will have more bytes than it may have now once as many coins as
    /// `coming` are added.
    pub fn is_over(&self, cache: &CoinsCache, coming: usize) -> bool {
        cache.sizes().bytes + coming * CACHED_COIN_BYTES > self.bytes_max()
    }

    /// Returns whether the cache is nearly full, and so much of it has changed that a commit is
    /// worth it.
    pub fn is_reached_by_changes(&self, cache: &CoinsCache) -> bool {
        let sizes = cache.sizes();
        sizes.bytes > self.bytes_max() / 100 * BEGIN_PERCENT
            && sizes.changed * 100 >= (sizes.changed + sizes.clean) * CHANGED_PERCENT
    }

    /// Drops clean coins of a full cache if it has many of them.
    pub fn shrink(&self, cache: &CoinsCache) {
        let sizes = cache.sizes();
        if sizes.clean * 100 >= sizes.entries * CLEAN_PERCENT_MIN {
            cache.shrink_to(self.bytes_max() / 100 * SHRUNK_PERCENT);
        }
    }

    /// Returns the bytes to which the cache is shrunk after a commit.
    pub fn kept_bytes(&self) -> usize {
        self.bytes_max() / 100 * KEPT_PERCENT
    }

    fn bytes_max(&self) -> usize {
        self.share_now().cache_bytes
    }
}
