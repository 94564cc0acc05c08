use apus_wire::OutPoint;
use rayon::prelude::*;

use super::changes::Changes;
use super::coin::Coin;
use super::groups::{Groups, shard_of};
use super::hasher::OutPointHasher;
use super::lookup::{Lookup, Overwrite, Overwritten};
use super::sections::SortedCoins;
use super::shard::Shard;
use super::shards::{CacheSizes, Locked, SHARDS, Shards};

/// The coins that have changed since the last sync, and as many others as memory allows (Core's
/// `CCoinsViewCache`). The cache never reads the tables itself: for a coin that it does not hold it
/// returns [`Lookup::Unknown`].
///
/// Each method may be called from several threads at once, unless it says otherwise. A batch takes
/// the lock of each of its shards once; items of a batch that have the same outpoint are processed
/// in the order given.
pub struct CoinsCache {
    pub(super) hasher: OutPointHasher,
    shards: Shards,
}

impl Default for CoinsCache {
    fn default() -> Self {
        Self::new()
    }
}

impl CoinsCache {
    /// Returns an empty cache.
    pub fn new() -> Self {
        let hasher = OutPointHasher::new();
        Self { hasher, shards: Shards::new(hasher) }
    }

    /// Returns the state of one outpoint.
    pub fn peek(&self, outpoint: &OutPoint) -> Lookup {
        let (shard, hash) = self.place(outpoint);
        self.lock(shard).lookup(hash, outpoint)
    }

    /// Returns the ascending indices of the outpoints that are [`Lookup::Unknown`].
    pub fn unknown(&self, outpoints: &[OutPoint]) -> Vec<usize> {
        let groups = Groups::new(&self.hasher, outpoints, |outpoint| outpoint);
        let is_known = |shard: &mut Shard, hash, outpoint: &OutPoint| {
            !matches!(shard.lookup(hash, outpoint), Lookup::Unknown)
        };
        self.indices(outpoints, &groups, is_known)
    }

    /// Announces that a block yet to be connected spends these coins, sorted by
    /// [`CoinsCache::sort`]: their entries are kept until they are spent, or released by
    /// [`CoinsCache::release`]. Returns the ascending indices of those that are [`Lookup::Unknown`]
    /// and must be looked up in the tables. From now on they are awaited: from
    /// [`CoinsCache::fill_batch`], or from a block that creates them.
    pub fn want(&self, outpoints: &[OutPoint], sorted: &SortedCoins) -> Vec<usize> {
        // The generation is read while the shard is locked: an entry that a sync has dropped is
        // then awaited since a later generation than that in which the sync began.
        let want = |shard: &mut Shard, hash, o: &OutPoint| shard.want(hash, o, self.generation());
        self.indices(outpoints, &sorted.spent, want)
    }

    /// Announces that the block that wanted these coins will not be connected.
    pub fn release(&self, outpoints: &[OutPoint]) {
        self.for_each(outpoints, |o| o, |shard, hash, _, o| shard.release(hash, o));
    }

    /// Adds a coin that a block creates (Core's `AddCoin`). An unspendable output is not a coin,
    /// and is ignored.
    ///
    /// # Errors
    /// With [`Overwrite::Never`], the cache has an unspent coin with the same outpoint.
    pub fn add(
        &self,
        outpoint: &OutPoint,
        coin: &Coin,
        overwrite: Overwrite,
    ) -> Result<(), Overwritten> {
        let (shard, hash) = self.place(outpoint);
        self.lock(shard).add(hash, outpoint, coin, overwrite)
    }

    /// Like [`CoinsCache::add`], for many coins. If some of them give an error, all others are
    /// added nevertheless, and one of the errors is returned.
    pub fn add_batch(
        &self,
        coins: &[(OutPoint, Coin)],
        overwrite: Overwrite,
    ) -> Result<(), Overwritten> {
        let mut result = Ok(());
        self.for_each(
            coins,
            |(o, _)| o,
            |shard, hash, _, (outpoint, coin)| {
                if let Err(e) = shard.add(hash, outpoint, coin, overwrite) {
                    result = Err(e);
                }
            },
        );
        result
    }

    /// Spends a cached coin and returns it. A coin that is [`Lookup::Unknown`] but in the tables
    /// can be spent with [`CoinsCache::remove`].
    pub fn spend(&self, outpoint: &OutPoint) -> Lookup {
        let (shard, hash) = self.place(outpoint);
        self.lock(shard).spend(hash, outpoint)
    }

    /// Like [`CoinsCache::spend`], for many outpoints; the results are in the order given.
    pub fn spend_batch(&self, outpoints: &[OutPoint]) -> Vec<Lookup> {
        let mut spent = vec![Lookup::Unknown; outpoints.len()];
        self.for_each(outpoints, |o| o, |shard, hash, i, o| spent[i] = shard.spend(hash, o));
        spent
    }

    /// Spends the coin with this outpoint, whether it is cached or only in the tables. It may be a
    /// coin that has just been read from the tables, or an output of a disconnected block.
    pub fn remove(&self, outpoint: &OutPoint) {
        let (shard, hash) = self.place(outpoint);
        self.lock(shard).remove(hash, outpoint);
    }

    /// Like [`CoinsCache::remove`], for many outpoints.
    pub fn remove_batch(&self, outpoints: &[OutPoint]) {
        self.for_each(outpoints, |o| o, |shard, hash, _, o| shard.remove(hash, o));
    }

    /// Restores a coin that a disconnected block spent, replacing any coin with this outpoint.
    pub fn restore(&self, outpoint: &OutPoint, coin: &Coin) {
        let added = self.add(outpoint, coin, Overwrite::Possible);
        added.expect("a coin that may overwrite another is always added");
    }

    /// Returns the number of syncs that have ended. It must be read after [`CoinsCache::want`] and
    /// before coins are read from the tables, and passed with them to [`CoinsCache::fill_batch`].
    pub fn generation(&self) -> u64 {
        self.shards.generation()
    }

    /// Makes coins read from the tables clean entries if they have been awaited since `generation`
    /// or before; ignores others.
    ///
    /// A coin spent after it was read has a spent entry. A sync deletes the coin from the tables
    /// and then drops that entry, so that adding the coin after that would bring it back. If
    /// another block awaits the coin by then, it has done so only since a later generation.
    pub fn fill_batch(&self, generation: u64, coins: &[(OutPoint, Coin)]) {
        self.for_each(
            coins,
            |(o, _)| o,
            |shard, hash, _, (outpoint, coin)| shard.fill(hash, outpoint, generation, coin),
        );
    }

    /// Begins a sync: the changes made so far are to be written to the tables, while the cache may
    /// be used and changed further. Each change to be written takes 4 bytes meanwhile.
    ///
    /// # Panics
    /// The previous sync has not ended.
    pub fn begin_sync(&self) -> Changes<'_> {
        Changes::begin(&self.shards)
    }

    /// Passes the changed entries to `write`. If that succeeds, they become clean and spent ones
    /// are dropped; if it fails, the cache is as before.
    pub fn sync<E>(&self, write: impl FnOnce(&Changes) -> Result<(), E>) -> Result<(), E> {
        let changes = self.begin_sync();
        write(&changes)?;
        changes.end();
        Ok(())
    }

    /// Syncs the cache, like [`CoinsCache::sync`], and then empties it.
    pub fn flush<E>(&self, write: impl FnOnce(&Changes) -> Result<(), E>) -> Result<(), E> {
        self.sync(write)?;
        (0..SHARDS).for_each(|shard| *self.lock(shard) = Shard::new(self.hasher));
        Ok(())
    }

    /// Does the same as [`CoinsCache::shrink_to`] with all threads of the present pool.
    pub fn shrink_in_parallel(&self, bytes_max: usize) {
        let bytes = self.sizes().bytes;
        (0..SHARDS).into_par_iter().for_each(|shard| self.shrink_shard(shard, bytes_max, bytes));
    }

    /// Drops clean entries, roughly the oldest first, until at most `bytes_max` bytes are in use or
    /// none is left. Entries wanted by blocks yet to be connected are kept. The memory is not
    /// returned to the system, but reused before more is allocated.
    pub fn shrink_to(&self, bytes_max: usize) {
        let bytes = self.sizes().bytes;
        (0..SHARDS).for_each(|shard| self.shrink_shard(shard, bytes_max, bytes));
    }

    /// Shrinks a shard of a cache with `bytes` bytes as [`CoinsCache::shrink_to`] does the cache.
    fn shrink_shard(&self, shard: usize, bytes_max: usize, bytes: usize) {
        if bytes > bytes_max {
            let mut shard = self.lock(shard);
            let share = shard.bytes() as u128 * bytes_max as u128 / bytes as u128;
            shard.evict(share as usize);
        }
    }

    /// Returns how much the cache holds.
    pub fn sizes(&self) -> CacheSizes {
        self.shards.sizes()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.sizes().entries == 0
    }

    /// Checks the whole cache, and panics unless every invariant holds.
    pub fn check(&self) {
        for index in 0..SHARDS {
            let shard = self.lock(index);
            shard.check();
            for outpoint in shard.outpoints() {
                assert_eq!(self.place(outpoint).0, index, "an entry in the wrong shard");
            }
        }
    }

    fn place(&self, outpoint: &OutPoint) -> (usize, u64) {
        let hash = self.hasher.hash(outpoint);
        (shard_of(hash), hash.outpoint)
    }

    /// Returns the ascending indices of the outpoints for which `is_known` returns false.
    fn indices(
        &self,
        outpoints: &[OutPoint],
        groups: &Groups,
        is_known: impl Fn(&mut Shard, u64, &OutPoint) -> bool,
    ) -> Vec<usize> {
        let mut indices = Vec::new();
        self.for_each_in(groups, |shard, hash, index| {
            if !is_known(shard, hash, &outpoints[index]) {
                indices.push(index);
            }
        });
        indices.sort_unstable();
        indices
    }

    pub(super) fn lock(&self, shard: usize) -> Locked<'_> {
        self.shards.lock(shard)
    }

    /// Calls `act(shard, hash, index, item)` for each item, locking each shard once.
    fn for_each<T>(
        &self,
        items: &[T],
        outpoint: impl Fn(&T) -> &OutPoint,
        mut act: impl FnMut(&mut Shard, u64, usize, &T),
    ) {
        let groups = Groups::new(&self.hasher, items, outpoint);
        self.for_each_in(&groups, |shard, hash, index| act(shard, hash, index, &items[index]));
    }

    /// Calls `act(shard, hash, index)` for the item at each index, locking each shard once.
    fn for_each_in(&self, groups: &Groups, mut act: impl FnMut(&mut Shard, u64, usize)) {
        for (shard, members) in groups.of(0..SHARDS) {
            let mut shard = self.lock(shard);
            shard.warm(members.iter().map(|member| member.hash));
            for member in members {
                act(&mut shard, member.hash, member.index as usize);
            }
        }
    }
}
