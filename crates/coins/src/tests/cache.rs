use std::collections::{BTreeMap, BTreeSet};

use apus_wire::{Cursor, OutPoint};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::{coin, outpoint};
use crate::*;

type Tables = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(outpoint: &OutPoint) -> Vec<u8> {
    let mut key = Vec::new();
    put_coin_key(&mut key, outpoint);
    key
}

/// Applies changes like a database, and asserts that they are sorted and without repetition.
fn apply(changes: &Changes, tables: &mut Tables) {
    let mut last = Vec::new();
    let mut count = 0;
    for part in changes.split(3) {
        assert!(!part.is_empty());
        let before = count;
        let apply = |outpoint: &OutPoint, coin: Option<CoinParts>| -> Result<(), ()> {
            let key = key(outpoint);
            assert!(last < key, "sorted");
            last.clone_from(&key);
            count += 1;
            let mut value = Vec::new();
            match coin {
                None => tables.remove(&key),
                Some(coin) => {
                    coin.encode(&mut value);
                    assert_eq!(value.len(), coin.encoded_len());
                    tables.insert(key, value)
                }
            };
            Ok(())
        };
        part.try_for_each(apply).expect("nothing fails");
        assert_eq!(count - before, part.len());
    }
    assert_eq!((count, changes.all().len()), (changes.len(), changes.len()));
}

fn want(cache: &CoinsCache, outpoints: &[OutPoint]) -> Vec<usize> {
    cache.want(outpoints, &cache.sort(outpoints, &[]))
}

fn read(tables: &Tables, outpoint: &OutPoint) -> Option<Coin> {
    tables.get(&key(outpoint)).map(|v| Coin::decode(&mut Cursor::new(v)).expect("a coin"))
}

/// The documents state how much memory a cached coin takes; it depends on the sizes of entries and
/// of the hash table.
#[test]
fn a_cached_coin_takes_as_many_bytes_as_the_documents_say() {
    const COINS: u64 = 1_000_000;
    let cache = CoinsCache::new();
    for first in (0..COINS).step_by(10_000) {
        // Seeds of coins whose scripts are inline.
        let batch: Vec<_> = (first..first + 10_000).map(|n| (outpoint(n), coin(3 * n))).collect();
        let outpoints: Vec<OutPoint> = batch.iter().map(|(outpoint, _)| *outpoint).collect();
        assert_eq!(want(&cache, &outpoints).len(), batch.len());
        cache.fill_batch(cache.generation(), &batch);
        cache.release(&outpoints);
    }
    assert_eq!(cache.sizes().entries, COINS as usize);
    let bytes = cache.sizes().bytes as f64 / COINS as f64;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    for (name, before) in [
        ("docs/design.md", "A cached coin takes "),
        ("docs/budget.md", "| bytes for each cached coin | | "),
        ("crates/coins/src/lib.rs", "A cached coin takes "),
    ] {
        let text = std::fs::read_to_string(format!("{root}{name}")).unwrap();
        let (_, rest) = text.split_once(before).expect(name);
        let said: f64 = rest.split(' ').next().unwrap().parse().expect(name);
        assert!(
            (bytes - said).abs() < 3.0,
            "{name}: {said}, and a million coins take {bytes} each"
        );
    }
}

/// The cache and its tables, and the plain map that they must be equal to.
struct Pair {
    cache: &'static CoinsCache,
    tables: Tables,
    truth: BTreeMap<OutPoint, Coin>,
    /// Coins that were read from the tables and are not in the cache yet, with the cache's
    /// generation before the read.
    reads: Vec<(u64, OutPoint, Coin)>,
    /// Outpoints that a block yet to be connected wants.
    wanted: BTreeSet<OutPoint>,
    /// Those wanted outpoints whose coin the cache has.
    kept: BTreeSet<OutPoint>,
    writing: Option<Writing>,
}

/// A sync in progress.
struct Writing {
    changes: Changes<'static>,
    /// The expected content of the tables after the sync.
    truth: BTreeMap<OutPoint, Coin>,
    /// The tables with the changes, once these have been copied.
    copied: Option<Tables>,
    /// Whether readers see those tables.
    is_visible: bool,
}

impl Pair {
    fn get(&self, outpoint: &OutPoint) -> Option<Coin> {
        match self.cache.peek(outpoint) {
            Lookup::Hit(coin) => Some(coin),
            Lookup::Spent => None,
            Lookup::Unknown => read(&self.tables, outpoint),
        }
    }

    fn step(&mut self, (kind, n, seed): (u8, u64, u64)) -> Result<(), TestCaseError> {
        let at = outpoint(n);
        match kind {
            0..=5 => self.add(&at, coin(seed)),
            6..=11 => self.spend(&at),
            12 => {
                self.cache.restore(&at, &coin(seed));
                self.truth.insert(at, coin(seed));
            }
            13 => {
                self.cache.remove(&at);
                self.truth.remove(&at);
                self.wanted.remove(&at);
            }
            14 | 15 => {
                let generation = self.cache.generation();
                let is_unknown = !want(self.cache, &[at]).is_empty();
                prop_assert_eq!(is_unknown, self.cache.peek(&at) == Lookup::Unknown);
                if self.cache.peek(&at) != Lookup::Spent {
                    self.wanted.insert(at);
                }
                if let Some(coin) = read(&self.tables, &at).filter(|_| is_unknown) {
                    self.reads.push((generation, at, coin));
                }
            }
            16 | 17 => {
                // In any order: a read may be of any age.
                if !self.reads.is_empty() {
                    let index = seed as usize % self.reads.len();
                    let (generation, at, coin) = self.reads.swap_remove(index);
                    self.cache.fill_batch(generation, &[(at, coin)]);
                }
            }
            23 => {
                self.cache.release(&[at]);
                self.wanted.remove(&at);
            }
            18 => self.cache.shrink_to(self.cache.sizes().bytes / 2),
            19 if seed % 3 == 0 && self.writing.is_none() => {
                let failed = self.cache.sync(|_| Err("the disk is full"));
                prop_assert_eq!(failed, Err("the disk is full"));
            }
            19 if self.writing.is_none() => self.write(seed % 3 == 1)?,
            19..=22 => self.write_on(seed)?,
            _ => unreachable!(),
        }
        self.cache.check();
        let here = self.get(&at);
        prop_assert_eq!(here.as_ref(), self.truth.get(&at));
        let is_cached = |at: &&OutPoint| matches!(self.cache.peek(at), Lookup::Hit(_));
        let kept: BTreeSet<_> = self.wanted.iter().filter(is_cached).copied().collect();
        let lost = self.kept.intersection(&self.wanted).find(|at| !kept.contains(*at));
        prop_assert_eq!(lost, None, "a wanted coin was dropped");
        self.kept = kept;
        Ok(())
    }

    /// Takes one step of a sync, interleaved with the other steps.
    fn write_on(&mut self, seed: u64) -> Result<(), TestCaseError> {
        match self.writing.take() {
            None => {
                let changes = self.cache.begin_sync();
                let truth = self.truth.clone();
                prop_assert_eq!(self.cache.sizes().changed, 0);
                self.writing = Some(Writing { changes, truth, copied: None, is_visible: false });
            }
            // Its changes are listed again.
            Some(Writing { is_visible: false, .. }) if seed.is_multiple_of(7) => {}
            Some(writing @ Writing { copied: None, .. }) => {
                let mut copied = self.tables.clone();
                apply(&writing.changes, &mut copied);
                prop_assert_eq!(copied.len(), writing.truth.len());
                let is_held = |(at, coin)| read(&copied, at).as_ref() == Some(coin);
                prop_assert!(writing.truth.iter().all(is_held));
                self.writing = Some(Writing { copied: Some(copied), ..writing });
            }
            Some(writing @ Writing { is_visible: false, .. }) => {
                self.tables = writing.copied.clone().unwrap_or_default();
                self.writing = Some(Writing { is_visible: true, ..writing });
            }
            Some(writing) => writing.changes.end(),
        }
        Ok(())
    }

    fn add(&mut self, at: &OutPoint, coin: Coin) {
        // A caller that does not allow an overwrite knows that there is no such coin.
        let exists = self.truth.contains_key(at);
        let overwrite = if exists { Overwrite::Possible } else { Overwrite::Never };
        self.cache.add(at, &coin, overwrite).expect("no coin is in the way");
        self.truth.insert(*at, coin);
    }

    fn spend(&mut self, at: &OutPoint) {
        let expected = self.truth.remove(at);
        if expected.is_some() {
            self.wanted.remove(at);
        }
        match self.cache.spend(at) {
            Lookup::Hit(coin) => assert_eq!(Some(coin), expected),
            Lookup::Spent => assert_eq!(None, expected),
            Lookup::Unknown => {
                assert_eq!(read(&self.tables, at), expected);
                if expected.is_some() {
                    self.cache.remove(at);
                }
            }
        }
    }

    fn write(&mut self, flush: bool) -> Result<(), TestCaseError> {
        let changed = self.cache.sizes().changed;
        let len = self.cache.sizes().entries;
        let tables = &mut self.tables;
        let write = |changes: &Changes| -> Result<(), ()> {
            assert_eq!(changes.len(), changed);
            apply(changes, tables);
            Ok(())
        };
        let done = if flush { self.cache.flush(write) } else { self.cache.sync(write) };
        if flush {
            self.wanted.clear();
        }
        prop_assert_eq!(done, Ok(()));
        prop_assert_eq!(self.cache.sizes().changed, 0);
        let len_max = if flush { 0 } else { len };
        prop_assert!(self.cache.sizes().entries <= len_max);
        let held = |(at, coin): (&OutPoint, &Coin)| read(&self.tables, at).as_ref() == Some(coin);
        prop_assert!(self.truth.iter().all(held));
        prop_assert_eq!(self.tables.len(), self.truth.len());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn cache_and_tables_equal_a_plain_map(
        steps in proptest::collection::vec((0u8..24, 0u64..60, any::<u32>()), 1..300)
    ) {
        let cache = Box::leak(Box::new(CoinsCache::new()));
        let tables = Tables::new();
        let truth = BTreeMap::new();
        let reads = Vec::new();
        let writing = None;
        let wanted = BTreeSet::new();
        let kept = BTreeSet::new();
        let mut pair = Pair { cache, tables, truth, reads, wanted, kept, writing };
        for (kind, n, seed) in steps {
            pair.step((kind, n, seed.into()))?;
        }
        while pair.writing.is_some() {
            pair.write_on(1)?;
        }
        pair.write(false)?;
        pair.cache.check();
    }
}

#[test]
fn an_entry_goes_through_its_states() {
    let cache = CoinsCache::new();
    let at = outpoint(1);
    let sync = |expected: &[Option<u64>]| {
        let written = |changes: &Changes| -> Result<(), ()> {
            let mut amounts = Vec::new();
            changes.all().try_for_each(|_, coin| {
                amounts.push(coin.map(|coin| coin.amount));
                Ok(())
            })?;
            assert_eq!(amounts, expected);
            Ok(())
        };
        cache.sync(written).expect("written");
        cache.check();
    };
    // A coin spent while fresh leaves no entry, and nothing to write.
    cache.add(&at, &coin(1), Overwrite::Never).expect("free");
    assert_eq!(cache.spend(&at), Lookup::Hit(coin(1)));
    assert_eq!((cache.sizes().entries, cache.peek(&at)), (0, Lookup::Unknown));
    sync(&[]);
    // A fresh coin is clean after it is written; a second sync writes nothing.
    cache.add(&at, &coin(2), Overwrite::Never).expect("free");
    assert_eq!(cache.add(&at, &coin(3), Overwrite::Never), Err(Overwritten(at)));
    sync(&[Some(2)]);
    sync(&[]);
    assert_eq!(cache.add(&at, &coin(3), Overwrite::Never), Err(Overwritten(at)));
    assert_eq!(cache.peek(&at), Lookup::Hit(coin(2)));
    // A coin in the tables that is spent, restored and spent again must still be deleted.
    assert_eq!(cache.spend(&at), Lookup::Hit(coin(2)));
    assert_eq!(cache.spend(&at), Lookup::Spent);
    cache.add(&at, &coin(4), Overwrite::Never).expect("spent");
    assert_eq!(cache.spend(&at), Lookup::Hit(coin(4)));
    sync(&[None]);
    assert!(cache.is_empty());
    // A coin that may overwrite one in the tables is never fresh.
    cache.add(&at, &coin(5), Overwrite::Possible).expect("overwrite");
    assert_eq!(cache.spend(&at), Lookup::Hit(coin(5)));
    sync(&[None]);
    // An unspendable output is not a coin.
    cache.add(&at, &Coin::new(1, &[0x6a], 1, false), Overwrite::Never).expect("ignored");
    assert!(cache.is_empty());
}

/// Fills the cache with a coin that was read from the tables.
fn fill(cache: &CoinsCache, generation: u64, at: &OutPoint, coin: &Coin) {
    cache.fill_batch(generation, &[(*at, coin.clone())]);
    cache.check();
}

#[test]
fn a_read_is_filled_where_the_coin_is_still_awaited() {
    let cache = CoinsCache::new();
    let at = outpoint(1);
    let sync = || cache.sync(|_| Ok::<_, ()>(())).expect("written");
    let first = cache.generation();
    // No block awaits it.
    fill(&cache, first, &at, &coin(1));
    assert!(cache.is_empty());
    // It is spent before it is filled, and the tables delete it.
    assert_eq!(want(&cache, &[at]), [0]);
    assert_eq!((cache.sizes().entries, cache.peek(&at)), (1, Lookup::Unknown));
    assert_eq!(cache.spend(&at), Lookup::Unknown);
    cache.remove(&at);
    fill(&cache, first, &at, &coin(1));
    assert_eq!(cache.peek(&at), Lookup::Spent);
    sync();
    fill(&cache, first, &at, &coin(1));
    assert!(cache.is_empty());
    // Another block awaits it: coins read before that are too old.
    assert_eq!(want(&cache, &[at]), [0]);
    fill(&cache, first, &at, &coin(1));
    assert_eq!(cache.peek(&at), Lookup::Unknown);
    // A sync in the meantime is no reason to look it up again.
    let second = cache.generation();
    sync();
    fill(&cache, second, &at, &coin(2));
    assert_eq!(cache.peek(&at), Lookup::Hit(coin(2)));
    assert_eq!((cache.sizes().changed, want(&cache, &[at])), (0, vec![]));
}

#[test]
fn what_is_being_written_stays_while_the_cache_changes() {
    let cache = CoinsCache::new();
    let kept = outpoint(1);
    let spent = outpoint(2);
    let twice = outpoint(4);
    let gone = outpoint(5);
    let again = outpoint(7);
    for (at, n) in [(kept, 1), (spent, 2), (twice, 3)] {
        cache.add(&at, &coin(n), Overwrite::Never).expect("free");
    }
    cache.remove(&gone);
    cache.remove(&again);
    let changes = cache.begin_sync();
    assert_eq!((changes.len(), cache.sizes().changed), (5, 0));
    assert_eq!(cache.spend(&spent), Lookup::Hit(coin(2)));
    assert_eq!(cache.spend(&spent), Lookup::Spent);
    // Another coin with the same outpoint, spent as well, and restored.
    assert_eq!(cache.add(&twice, &coin(9), Overwrite::Never), Err(Overwritten(twice)));
    cache.add(&twice, &coin(9), Overwrite::Possible).expect("overwrite");
    assert_eq!(cache.spend(&twice), Lookup::Hit(coin(9)));
    cache.restore(&twice, &coin(10));
    cache.add(&again, &coin(11), Overwrite::Never).expect("spent");
    // A lookup from before the end finds the coin in the tables, which have not deleted it yet.
    assert!(want(&cache, &[gone]).is_empty());
    fill(&cache, cache.generation(), &gone, &coin(5));
    assert_eq!(cache.peek(&gone), Lookup::Spent);
    cache.shrink_to(0);
    cache.check();
    let mut tables = Tables::new();
    tables.insert(key(&gone), Vec::new());
    tables.insert(key(&again), Vec::new());
    apply(&changes, &mut tables);
    let written: Vec<_> = [kept, spent, twice].iter().map(|at| read(&tables, at)).collect();
    assert_eq!(written, [Some(coin(1)), Some(coin(2)), Some(coin(3))]);
    assert_eq!(tables.len(), 3);
    changes.end();
    cache.check();
    assert_eq!((cache.peek(&gone), cache.peek(&kept)), (Lookup::Unknown, Lookup::Hit(coin(1))));
    let changes = cache.begin_sync();
    apply(&changes, &mut tables);
    changes.end();
    let written: Vec<_> = [kept, spent, twice, again].iter().map(|at| read(&tables, at)).collect();
    assert_eq!(written, [Some(coin(1)), None, Some(coin(10)), Some(coin(11))]);
    assert_eq!(tables.len(), 3);
}

#[test]
fn a_sync_goes_on_beside_threads_that_use_the_cache() {
    let cache = CoinsCache::new();
    let all: Vec<_> = (0..30_000).map(|n| (outpoint(n), coin(n))).collect();
    let (first, second) = all.split_at(20_000);
    cache.add_batch(first, Overwrite::Never).expect("free");
    let mut tables = Tables::new();
    let outpoints: Vec<_> = first.iter().map(|c| c.0).collect();
    for (n, spent) in outpoints.chunks(5_000).enumerate() {
        let changes = cache.begin_sync();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(cache.spend_batch(spent).iter().all(|l| l != &Lookup::Unknown)));
            let added = &second[2_500 * n..2_500 * (n + 1)];
            scope.spawn(|| cache.add_batch(added, Overwrite::Never).expect("free"));
            scope.spawn(|| assert!(cache.unknown(&outpoints).len() < outpoints.len()));
            scope.spawn(|| apply(&changes, &mut tables));
        });
        assert_eq!(tables.len(), 20_000 - 2_500 * n);
        changes.end();
        cache.check();
    }
    let changes = cache.begin_sync();
    apply(&changes, &mut tables);
    let expected: Tables = second
        .iter()
        .map(|(at, coin)| {
            let mut value = Vec::new();
            coin.encode(&mut value);
            (key(at), value)
        })
        .collect();
    assert_eq!(tables, expected);
}

#[test]
fn batches_equal_single_calls() {
    let one = CoinsCache::new();
    let many = CoinsCache::new();
    let coins: Vec<_> = (0..5000).map(|n| (outpoint(n), coin(n))).collect();
    let outpoints: Vec<_> = (0..7000).step_by(3).map(outpoint).collect();
    for (at, coin) in &coins {
        one.add(at, coin, Overwrite::Never).expect("free");
    }
    many.add_batch(&coins, Overwrite::Never).expect("free");
    assert!(many.add_batch(&coins[..1], Overwrite::Never).is_err());
    let singly = |cache: &CoinsCache, f: fn(&CoinsCache, &OutPoint) -> Lookup| -> Vec<_> {
        outpoints.iter().map(|at| f(cache, at)).collect()
    };
    assert_eq!(singly(&one, CoinsCache::peek), singly(&many, CoinsCache::peek));
    let unknown: Vec<_> = (5000..7000).filter(|n| n % 3 == 0).map(|n| n as usize / 3).collect();
    assert_eq!(many.unknown(&outpoints), unknown);
    assert_eq!(singly(&one, CoinsCache::spend), many.spend_batch(&outpoints));
    let [one_sizes, many_sizes] = [&one, &many].map(|cache| cache.sizes());
    assert_eq!(one_sizes.entries, many_sizes.entries);
    assert_eq!(one_sizes.changed, many_sizes.changed);
    many.remove_batch(&outpoints);
    assert_eq!(singly(&many, CoinsCache::peek), vec![Lookup::Spent; outpoints.len()]);
    many.check();
    // The same outpoint may be in a batch twice; the items are processed in the order given.
    let twice = [outpoint(9000), outpoint(9000)];
    many.add(&twice[0], &coin(1), Overwrite::Possible).expect("free");
    assert_eq!(many.spend_batch(&twice), [Lookup::Hit(coin(1)), Lookup::Spent]);
}

#[test]
fn eviction_takes_only_clean_entries_and_their_memory_is_reused() {
    let cache = CoinsCache::new();
    let coins =
        |range: std::ops::Range<u64>| -> Vec<_> { range.map(|n| (outpoint(n), coin(n))).collect() };
    cache.add_batch(&coins(0..200_000), Overwrite::Never).expect("free");
    cache.sync(|_| Ok::<_, ()>(())).expect("written");
    cache.add_batch(&coins(200_000..240_000), Overwrite::Never).expect("free");
    let before = cache.sizes().bytes;
    cache.shrink_to(before / 2);
    assert!(cache.sizes().bytes <= before / 2, "{} of {before}", cache.sizes().bytes);
    assert_eq!(cache.sizes().changed, 40_000);
    assert!(cache.sizes().entries > 60_000);
    cache.check();
    cache.shrink_to(0);
    assert_eq!(cache.sizes().entries, 40_000);
    cache.add_batch(&coins(300_000..440_000), Overwrite::Never).expect("free");
    assert!(cache.sizes().bytes <= before);
    cache.check();
}

#[test]
fn a_coin_that_a_block_ahead_spends_is_kept_until_it_does() {
    let cache = CoinsCache::new();
    let coins: Vec<_> = (0..10_000).map(|n| (outpoint(n), coin(n))).collect();
    let outpoints: Vec<_> = coins.iter().map(|c| c.0).collect();
    let sync = || cache.sync(|_| Ok::<_, ()>(())).expect("written");
    let cached = || {
        cache.check();
        coins.iter().filter(|(at, coin)| cache.peek(at) == Lookup::Hit(coin.clone())).count()
    };
    cache.add_batch(&coins[..4_000], Overwrite::Never).expect("free");
    sync();
    cache.add_batch(&coins[4_000..5_000], Overwrite::Never).expect("free");
    // Clean, fresh, only in the tables, and yet to be created: 1,000 of each.
    let wanted = [&outpoints[..1_000], &outpoints[4_000..7_000]].concat();
    assert_eq!(want(&cache, &wanted).len(), 2_000);
    cache.fill_batch(cache.generation(), &coins[5_000..6_000]);
    cache.add_batch(&coins[6_000..7_000], Overwrite::Never).expect("free");
    let changes = cache.begin_sync();
    changes.end();
    for _ in 0..20 {
        cache.shrink_to(0);
        assert_eq!((cached(), cache.sizes().clean), (4_000, 0));
    }
    // The coins of one block that is not connected after all, and the others spent.
    cache.release(&wanted[..500]);
    assert_eq!(cache.sizes().clean, 500);
    assert!(cache.spend_batch(&wanted[500..]).iter().all(|l| matches!(l, Lookup::Hit(_))));
    sync();
    cache.shrink_to(0);
    assert_eq!(cache.sizes().entries, 0);
    // A coin that no block creates and the tables do not have.
    assert_eq!(want(&cache, &wanted[..1]), [0]);
    cache.release(&wanted[..1]);
    assert_eq!((cached(), cache.sizes().entries), (0, 0));
}

#[test]
fn a_cached_coin_takes_less_than_110_bytes() {
    let mut script = [0u8; 22];
    script[1] = 20;
    for count in [1_000_000u64, 1_200_000] {
        let cache = CoinsCache::new();
        let all: Vec<_> = (0..count)
            .map(|n| (outpoint(n), Coin::new(n * 1000, &script, 800_000, false)))
            .collect();
        cache.add_batch(&all, Overwrite::Never).expect("free");
        let each = cache.sizes().bytes as f64 / count as f64;
        assert!(each < 110.0, "{each}");
    }
}
