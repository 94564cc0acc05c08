use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use rayon::prelude::*;

use crate::wire::OutPoint;

use super::changes::Changes;
use super::coin::Coin;
use super::hasher::{OutPointHash, OutPointHasher};
use super::lookup::{Lookup, Overwrite, Overwritten};
use super::shard::Shard;

/// Shards of the cache, a power of two: enough that 64 workers seldom meet, few enough that a
/// block's 3,000 inputs find several in each.
const SHARDS: usize = 64;

/// The coins that were changed since the last sync, and as many others as memory allows (Core's
/// `CCoinsViewCache`). The cache never reads the tables itself: what it does not know it says is
/// [`Lookup::Unknown`].
///
/// Every method may be called from several threads. A batch costs one lock for each shard in it;
/// the entries of a batch that share an outpoint are taken in the order given.
pub struct CoinsCache {
    hasher: OutPointHasher,
    shards: Vec<Padded>,
    generation: AtomicU64,
    syncing: AtomicBool,
}

/// On cache lines of its own, so that two shards' locks never share one.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl Default for CoinsCache {
    fn default() -> Self {
        Self::new()
    }
}

impl CoinsCache {
    /// An empty cache.
    pub fn new() -> Self {
        let hasher = OutPointHasher::new();
        let shards = (0..SHARDS).map(|_| Padded(Mutex::new(Shard::new(hasher)))).collect();
        let (generation, syncing) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { hasher, shards, generation, syncing }
    }

    /// What is known of one outpoint.
    pub fn peek(&self, outpoint: &OutPoint) -> Lookup {
        let (shard, hash) = self.place(outpoint);
        self.lock(shard).lookup(hash, outpoint)
    }

    /// Indices, ascending, of the outpoints of which nothing is known: those to look up in the
    /// tables. Everything, while a sync runs: then it is too early to look.
    pub fn unknown(&self, outpoints: &[OutPoint]) -> Vec<usize> {
        let groups = Groups::new(&self.hasher, outpoints, |o| o);
        let mut unknown = Vec::new();
        for (shard, members) in groups.iter() {
            let shard = self.lock_unless_syncing(shard);
            if let Some(shard) = &shard {
                shard.warm(members.iter().map(|member| member.hash));
            }
            unknown.extend(members.iter().filter_map(|member| {
                let index = member.index as usize;
                match &shard {
                    Some(shard) if shard.knows(member.hash, &outpoints[index]) => None,
                    _ => Some(index),
                }
            }));
        }
        unknown.sort_unstable();
        unknown
    }

    /// Adds a coin that a block creates (Core's `AddCoin`); an unspendable one is no coin and is
    /// passed over.
    ///
    /// # Errors
    /// With [`Overwrite::Never`], the cache has an unspent coin under the same outpoint.
    pub fn add(
        &self,
        outpoint: &OutPoint,
        coin: &Coin,
        overwrite: Overwrite,
    ) -> Result<(), Overwritten> {
        let (shard, hash) = self.place(outpoint);
        self.lock(shard).add(hash, outpoint, coin, overwrite)
    }

    /// As [`CoinsCache::add`], for many. After an error every other coin has been added, and the
    /// error names one of the outpoints in question.
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

    /// Spends a coin that is cached. On [`Lookup::Unknown`] nothing happened: if the tables hold
    /// the coin, [`CoinsCache::remove`] spends it.
    pub fn spend(&self, outpoint: &OutPoint) -> Lookup {
        let (shard, hash) = self.place(outpoint);
        self.lock(shard).spend(hash, outpoint)
    }

    /// As [`CoinsCache::spend`], for many, answers in the order given.
    pub fn spend_batch(&self, outpoints: &[OutPoint]) -> Vec<Lookup> {
        let mut spent = vec![Lookup::Unknown; outpoints.len()];
        self.for_each(outpoints, |o| o, |shard, hash, i, o| spent[i] = shard.spend(hash, o));
        spent
    }

    /// Spends whatever lies under an outpoint, known here or only in the tables: a coin that was
    /// just read from there, or an output of a block that is disconnected.
    pub fn remove(&self, outpoint: &OutPoint) {
        let (shard, hash) = self.place(outpoint);
        self.lock(shard).remove(hash, outpoint);
    }

    /// As [`CoinsCache::remove`], for many.
    pub fn remove_batch(&self, outpoints: &[OutPoint]) {
        self.for_each(outpoints, |o| o, |shard, hash, _, o| shard.remove(hash, o));
    }

    /// Brings back a coin that a disconnected block spent, over whatever is there.
    pub fn restore(&self, outpoint: &OutPoint, coin: &Coin) {
        // With `possible_overwrite` there is no such thing as a coin in the way.
        let _ = self.add(outpoint, coin, Overwrite::Possible);
    }

    /// Counts the syncs. Ask for it before reading from the tables what is then given to
    /// [`CoinsCache::fill`].
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Adds, as clean, a coin read from the tables. Ignored if there is an entry, and if there was
    /// a sync since `generation`: a coin spent in between had an entry that said so, and that sync
    /// dropped the entry when it deleted the coin from the tables, so that filling now what was
    /// read before would bring a spent coin back.
    pub fn fill(&self, generation: u64, outpoint: &OutPoint, coin: &Coin) {
        let (shard, hash) = self.place(outpoint);
        if let Some(mut shard) = self.lock_unless_syncing(shard)
            && generation == self.generation()
        {
            shard.fill(hash, outpoint, coin);
        }
    }

    /// As [`CoinsCache::fill`], for many.
    pub fn fill_batch(&self, generation: u64, coins: &[(OutPoint, Coin)]) {
        let groups = Groups::new(&self.hasher, coins, |(outpoint, _)| outpoint);
        for (shard, members) in groups.iter() {
            let Some(mut shard) = self.lock_unless_syncing(shard) else { return };
            // No sync can end while a shard is locked.
            if generation != self.generation() {
                return;
            }
            for member in members {
                let (outpoint, coin) = &coins[member.index as usize];
                shard.fill(member.hash, outpoint, coin);
            }
        }
    }

    /// Hands the changed entries, sorted as the tables sort, to `write`; once that has returned
    /// Ok they are clean and spent ones are gone. After an error the cache is as before.
    ///
    /// Every shard stays locked meanwhile, and 16 bytes for each change are held. `write` may use a
    /// thread pool whose other threads call `fill` and `unknown`, which give up while a sync runs;
    /// every other method would wait, and a pool that waits for the sync that waits for the pool
    /// never ends.
    pub fn sync<E>(&self, write: impl FnOnce(&Changes) -> Result<(), E>) -> Result<(), E> {
        self.sync_then(write, Shard::mark_clean)
    }

    /// As [`CoinsCache::sync`], and empties the cache.
    pub fn flush<E>(&self, write: impl FnOnce(&Changes) -> Result<(), E>) -> Result<(), E> {
        self.sync_then(write, |shard| *shard = Shard::new(self.hasher))
    }

    /// Drops clean entries, about the oldest first, until at most `bytes_max` are in use or none
    /// is left. Their memory is not given back but used again before any more is taken.
    pub fn shrink_to(&self, bytes_max: usize) {
        let bytes = self.bytes();
        if bytes <= bytes_max {
            return;
        }
        for shard in 0..SHARDS {
            let mut shard = self.lock(shard);
            let share = shard.bytes() as u128 * bytes_max as u128 / bytes as u128;
            shard.evict(share as usize);
        }
    }

    /// Memory in use, in bytes: slots, tables, scripts too long for a slot. What was in use once
    /// and is not now is used again before more is taken, so that the highest value of this ever
    /// is also the memory that the process holds for the cache.
    pub fn bytes(&self) -> usize {
        (0..SHARDS).map(|shard| self.lock(shard).bytes()).sum()
    }

    /// Entries, spent ones included.
    pub fn len(&self) -> usize {
        (0..SHARDS).map(|shard| self.lock(shard).len()).sum()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries that the next sync has to write or delete.
    pub fn changed(&self) -> usize {
        (0..SHARDS).map(|shard| self.lock(shard).changed()).sum()
    }

    /// Walks everything and panics unless every invariant holds.
    pub fn check(&self) {
        for index in 0..SHARDS {
            let shard = self.lock(index);
            shard.check();
            for slot in shard.changed_slots() {
                let (place, _) = self.place(&shard.slab().get(slot).outpoint);
                assert_eq!(place, index, "an entry in the wrong shard");
            }
        }
    }

    fn sync_then<E>(
        &self,
        write: impl FnOnce(&Changes) -> Result<(), E>,
        after: impl Fn(&mut Shard) + Sync,
    ) -> Result<(), E> {
        let _syncing = Syncing::start(&self.syncing);
        let mut shards: Vec<_> = (0..SHARDS).map(|shard| self.lock(shard)).collect();
        write(&Changes::collect(shards.iter().map(|shard| &**shard).collect()))?;
        self.generation.fetch_add(1, Ordering::Release);
        let mut shards: Vec<&mut Shard> = shards.iter_mut().map(|shard| &mut **shard).collect();
        shards.par_iter_mut().for_each(|shard| after(shard));
        Ok(())
    }

    fn place(&self, outpoint: &OutPoint) -> (usize, u64) {
        let hash = self.hasher.hash(outpoint);
        (shard_of(hash), hash.outpoint)
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].0.lock().expect("no thread has panicked inside the coins cache")
    }

    /// The shard, or `None` while a sync holds it; other holders are done in microseconds.
    fn lock_unless_syncing(&self, shard: usize) -> Option<MutexGuard<'_, Shard>> {
        loop {
            match self.shards[shard].0.try_lock() {
                Ok(shard) => return Some(shard),
                Err(TryLockError::WouldBlock) if self.syncing.load(Ordering::Relaxed) => {
                    return None;
                }
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                Err(TryLockError::Poisoned(_)) => return None,
            }
        }
    }

    /// Calls `act(shard, hash, index, item)` for every item, locking each shard once.
    fn for_each<T>(
        &self,
        items: &[T],
        outpoint: impl Fn(&T) -> &OutPoint,
        mut act: impl FnMut(&mut Shard, u64, usize, &T),
    ) {
        let groups = Groups::new(&self.hasher, items, outpoint);
        for (shard, members) in groups.iter() {
            let mut shard = self.lock(shard);
            shard.warm(members.iter().map(|member| member.hash));
            for member in members {
                let index = member.index as usize;
                act(&mut shard, member.hash, index, &items[index]);
            }
        }
    }
}

fn shard_of(hash: OutPointHash) -> usize {
    (hash.txid >> (64 - SHARDS.trailing_zeros())) as usize
}

/// The items of a batch, grouped by shard; those of one shard are in the order given.
struct Groups {
    members: Vec<Member>,
    /// The end of each shard's members.
    ends: [u32; SHARDS],
}

/// An item of a batch.
#[derive(Clone, Copy, Default)]
struct Member {
    /// Its index in the batch.
    index: u32,
    /// The hash of its outpoint.
    hash: u64,
}

impl Groups {
    fn new<T>(hasher: &OutPointHasher, items: &[T], outpoint: impl Fn(&T) -> &OutPoint) -> Self {
        assert!(items.len() < u32::MAX as usize, "a batch has less than 2^32 items");
        let mut starts = [0u32; SHARDS];
        let hashes = items.iter().map(|item| hasher.hash(outpoint(item)));
        let hashes: Vec<_> = hashes.map(|hash| (shard_of(hash), hash.outpoint)).collect();
        hashes.iter().for_each(|(shard, _)| starts[*shard] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        let mut members = vec![Member::default(); items.len()];
        for (i, (shard, hash)) in hashes.iter().enumerate() {
            members[starts[*shard] as usize] = Member { index: i as u32, hash: *hash };
            starts[*shard] += 1;
        }
        Self { members, ends: starts }
    }

    /// Each shard that has members, with its members.
    fn iter(&self) -> impl Iterator<Item = (usize, &[Member])> {
        (0..SHARDS).filter_map(|shard| {
            let start = if shard == 0 { 0 } else { self.ends[shard - 1] };
            let members = &self.members[start as usize..self.ends[shard] as usize];
            (!members.is_empty()).then_some((shard, members))
        })
    }
}

/// Sets a flag until dropped, on every way out.
struct Syncing<'a>(&'a AtomicBool);

impl<'a> Syncing<'a> {
    fn start(flag: &'a AtomicBool) -> Self {
        flag.store(true, Ordering::Relaxed);
        Self(flag)
    }
}

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
