use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::{coin, outpoint};
use crate::coins::*;
use crate::wire::{Cursor, OutPoint};

type Tables = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(outpoint: &OutPoint) -> Vec<u8> {
    let mut key = Vec::new();
    put_coin_key(&mut key, outpoint);
    key
}

/// Applies changes as a database would, and asserts that they are sorted and without repetition.
fn apply(changes: &Changes, tables: &mut Tables) {
    let parts: Vec<_> = changes.split(3).into_iter().flatten().collect();
    assert_eq!(parts.len(), changes.len());
    assert_eq!(changes.iter().count(), changes.len());
    let mut last = Vec::new();
    for (outpoint, coin) in parts {
        let key = key(outpoint);
        assert!(last < key, "sorted");
        last.clone_from(&key);
        match coin {
            None => {
                tables.remove(&key);
            }
            Some(coin) => {
                let mut value = Vec::new();
                coin.encode(&mut value);
                assert_eq!(value.len(), coin.encoded_len());
                tables.insert(key, value);
            }
        }
    }
}

fn read(tables: &Tables, outpoint: &OutPoint) -> Option<Coin> {
    tables.get(&key(outpoint)).map(|v| Coin::decode(&mut Cursor::new(v)).expect("a coin"))
}

/// The cache and its tables, and the plain map that they must be equal to.
struct Pair {
    cache: CoinsCache,
    tables: Tables,
    truth: BTreeMap<OutPoint, Coin>,
    /// Coins that were read from the tables and are not in the cache yet, with the cache's
    /// generation before.
    reads: Vec<(u64, OutPoint, Coin)>,
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
            }
            14 | 15 => {
                if let Some(coin) = read(&self.tables, &at) {
                    self.reads.push((self.cache.generation(), at, coin));
                }
            }
            16 | 17 => {
                if let Some((generation, at, coin)) = self.reads.pop() {
                    self.cache.fill_batch(generation, &[(at, coin)]);
                }
            }
            18 => self.cache.shrink_to(self.cache.bytes() / 2),
            19 if seed % 3 == 0 => {
                let failed = self.cache.sync(|_| Err("the disk is full"));
                prop_assert_eq!(failed, Err("the disk is full"));
            }
            19 => self.write(seed % 3 == 1)?,
            _ => unreachable!(),
        }
        self.cache.check();
        let here = self.get(&at);
        prop_assert_eq!(here.as_ref(), self.truth.get(&at));
        Ok(())
    }

    fn add(&mut self, at: &OutPoint, coin: Coin) {
        // A caller that does not allow an overwrite knows that there is no such coin.
        let exists = self.truth.contains_key(at);
        let overwrite = if exists { Overwrite::Possible } else { Overwrite::Never };
        self.cache.add(at, &coin, overwrite).expect("nothing is in the way");
        self.truth.insert(*at, coin);
    }

    fn spend(&mut self, at: &OutPoint) {
        let expected = self.truth.remove(at);
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
        let (changed, len) = (self.cache.changed(), self.cache.len());
        let tables = &mut self.tables;
        let write = |changes: &Changes| -> Result<(), ()> {
            assert_eq!(changes.len(), changed);
            apply(changes, tables);
            Ok(())
        };
        let done = if flush { self.cache.flush(write) } else { self.cache.sync(write) };
        prop_assert_eq!(done, Ok(()));
        prop_assert_eq!(self.cache.changed(), 0);
        let len_max = if flush { 0 } else { len };
        prop_assert!(self.cache.len() <= len_max);
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
        steps in proptest::collection::vec((0u8..20, 0u64..60, any::<u32>()), 1..300)
    ) {
        let (cache, tables) = (CoinsCache::new(), Tables::new());
        let mut pair = Pair { cache, tables, truth: BTreeMap::new(), reads: Vec::new() };
        for (kind, n, seed) in steps {
            pair.step((kind, n, seed.into()))?;
        }
        pair.write(false)?;
        pair.cache.check();
    }
}

#[test]
fn an_entry_goes_through_its_states() {
    let (cache, at) = (CoinsCache::new(), outpoint(1));
    let sync = |expected: &[Option<u64>]| {
        let written = |changes: &Changes| -> Result<(), ()> {
            let amounts: Vec<_> = changes.iter().map(|(_, c)| c.map(|c| c.amount)).collect();
            assert_eq!(amounts, expected);
            Ok(())
        };
        cache.sync(written).expect("written");
        cache.check();
    };
    // A coin spent while fresh leaves no entry, and nothing to write.
    cache.add(&at, &coin(1), Overwrite::Never).expect("free");
    assert_eq!(cache.spend(&at), Lookup::Hit(coin(1)));
    assert_eq!((cache.len(), cache.peek(&at)), (0, Lookup::Unknown));
    sync(&[]);
    // A fresh coin is clean after it is written; a second sync writes nothing.
    cache.add(&at, &coin(2), Overwrite::Never).expect("free");
    assert_eq!(cache.add(&at, &coin(3), Overwrite::Never), Err(Overwritten(at)));
    sync(&[Some(2)]);
    sync(&[]);
    assert_eq!(cache.add(&at, &coin(3), Overwrite::Never), Err(Overwritten(at)));
    assert_eq!(cache.peek(&at), Lookup::Hit(coin(2)));
    // A coin in the tables that is spent, restored and spent again is still to be deleted.
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
    cache.add(&at, &Coin::new(1, &[0x6a], 1, false), Overwrite::Never).expect("passed over");
    assert!(cache.is_empty());
}

#[test]
fn a_read_from_before_a_sync_is_not_filled() {
    let (cache, at) = (CoinsCache::new(), outpoint(1));
    let generation = cache.generation();
    cache.remove(&at);
    cache.fill(generation, &at, &coin(1));
    assert_eq!(cache.peek(&at), Lookup::Spent);
    cache.sync(|_| Ok::<_, ()>(())).expect("written");
    cache.fill(generation, &at, &coin(1));
    assert_eq!(cache.peek(&at), Lookup::Unknown);
    cache.fill(cache.generation(), &at, &coin(1));
    assert_eq!(cache.peek(&at), Lookup::Hit(coin(1)));
    assert_eq!(cache.changed(), 0);
}

#[test]
fn prefetching_gives_up_while_a_sync_runs() {
    let cache = CoinsCache::new();
    let all: Vec<_> = (0..1000).map(|n| (outpoint(n), coin(n))).collect();
    let outpoints: Vec<_> = all.iter().map(|c| c.0).collect();
    let generation = cache.generation();
    let write = |_: &Changes| -> Result<(), ()> {
        std::thread::scope(|scope| {
            scope.spawn(|| cache.fill_batch(generation, &all));
            scope.spawn(|| assert_eq!(cache.unknown(&outpoints).len(), 1000));
        });
        Ok(())
    };
    cache.sync(write).expect("written");
    assert!(cache.is_empty());
}

#[test]
fn batches_equal_single_calls() {
    let (one, many) = (CoinsCache::new(), CoinsCache::new());
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
    assert_eq!((one.len(), one.changed()), (many.len(), many.changed()));
    many.remove_batch(&outpoints);
    assert_eq!(singly(&many, CoinsCache::peek), vec![Lookup::Spent; outpoints.len()]);
    many.check();
    // The same outpoint may be in a batch twice; its members are processed in the order given.
    let twice = [outpoint(9000), outpoint(9000)];
    many.add(&twice[0], &coin(1), Overwrite::Possible).expect("free");
    assert_eq!(many.spend_batch(&twice), [Lookup::Hit(coin(1)), Lookup::Spent]);
}

#[test]
fn eviction_takes_clean_entries_only_and_its_memory_is_used_again() {
    let cache = CoinsCache::new();
    let coins =
        |range: std::ops::Range<u64>| -> Vec<_> { range.map(|n| (outpoint(n), coin(n))).collect() };
    cache.add_batch(&coins(0..200_000), Overwrite::Never).expect("free");
    cache.sync(|_| Ok::<_, ()>(())).expect("written");
    cache.add_batch(&coins(200_000..240_000), Overwrite::Never).expect("free");
    let before = cache.bytes();
    cache.shrink_to(before / 2);
    assert!(cache.bytes() <= before / 2, "{} of {before}", cache.bytes());
    assert_eq!(cache.changed(), 40_000);
    assert!(cache.len() > 60_000);
    cache.check();
    cache.shrink_to(0);
    assert_eq!(cache.len(), 40_000);
    cache.add_batch(&coins(300_000..440_000), Overwrite::Never).expect("free");
    assert!(cache.bytes() <= before);
    cache.check();
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
        let each = cache.bytes() as f64 / count as f64;
        assert!(each < 110.0, "{each}");
    }
}
