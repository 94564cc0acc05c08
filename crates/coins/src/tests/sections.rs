//! Blocks that pass the sections of the cache in any order, next to a map.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use apus_hash::Hash;
use apus_wire::OutPoint;
use proptest::prelude::*;

use crate::{BlockCoins, Coin, CoinsCache, Lookup, Overwrite, SECTIONS};

/// Outpoints of few transactions, so that blocks often spend what others create.
fn outpoint() -> impl Strategy<Value = OutPoint> {
    (0..60u8, 0..3u32).prop_map(|(txid, vout)| OutPoint { txid: Hash([txid; 32]), vout })
}

/// Blocks, each with what it spends and creates, and the order in which sections take it.
fn blocks() -> impl Strategy<Value = Vec<(Vec<OutPoint>, BTreeSet<OutPoint>, Vec<usize>)>> {
    let sections = Just((0..SECTIONS).collect::<Vec<_>>()).prop_shuffle();
    let block = (
        prop::collection::vec(outpoint(), 0..8),
        prop::collection::btree_set(outpoint(), 0..12),
        sections,
    );
    prop::collection::vec(block, 1..40)
}

fn coin(outpoint: &OutPoint, height: u32) -> Coin {
    Coin::new(u64::from(outpoint.vout), &[0x51, outpoint.txid.0[0]], height, false)
}

/// Passes a block through the sections in this order. Returns what it spends, or `None` after
/// everything was taken back because a coin is missing or exists already.
fn connect(
    cache: &CoinsCache,
    block: BlockCoins,
    sections: &[usize],
    tables: &BTreeMap<OutPoint, Coin>,
) -> Option<Vec<Coin>> {
    let read = |outpoints: &[OutPoint]| {
        let found = outpoints.iter().map(|outpoint| tables.get(outpoint).cloned());
        Ok::<_, Infallible>(found.collect())
    };
    let mut spent = BTreeMap::new();
    let mut is_whole = true;
    for section in sections {
        match cache.connect_section(*section, block, read).unwrap() {
            Some(coins) => _ = spent.insert(*section, coins),
            None => is_whole = false,
        }
    }
    if is_whole {
        return Some(block.sorted.merge(spent.into_values()));
    }
    for (section, coins) in spent.into_iter().rev() {
        cache.disconnect_section(section, block, coins);
    }
    None
}

proptest! {
    #[test]
    fn sections_together_do_to_coins_what_a_block_does(
        blocks in blocks(),
        in_tables in prop::collection::btree_set(outpoint(), 0..60),
        flush_at in 0..40usize,
    ) {
        let cache = CoinsCache::new();
        let mut tables: BTreeMap<_, _> =
            in_tables.into_iter().map(|outpoint| (outpoint, coin(&outpoint, 1))).collect();
        let mut coins = tables.clone();
        for (height, (spends, creates, sections)) in (2..).zip(&blocks) {
            // A block cannot create what may exist, unless its coins are all new.
            let created: Vec<(OutPoint, Coin)> = creates
                .iter()
                .map(|outpoint| (*outpoint, coin(outpoint, height)))
                .filter(|(outpoint, _)| !tables.contains_key(outpoint))
                .collect();
            let sorted = cache.sort(spends, &created);
            let block = BlockCoins {
                spent: spends,
                created: &created,
                created_by_coinbase: 0,
                sorted: &sorted,
            };
            cache.want(spends, &sorted);
            let expected = expected(&coins, spends, &created);
            let spent = connect(&cache, block, sections, &tables);
            prop_assert_eq!(&spent, &expected);
            match spent {
                None => (0..SECTIONS).for_each(|at| cache.release_section(at, block)),
                Some(_) => {
                    spends.iter().for_each(|outpoint| _ = coins.remove(outpoint));
                    coins.extend(created.iter().cloned());
                }
            }
            cache.check();
            if height as usize == flush_at {
                cache.flush(|_| Ok::<_, Infallible>(())).unwrap();
                tables = coins.clone();
            }
        }
        prop_assert_eq!(unspent(&cache, &tables), coins);
    }

    #[test]
    fn sections_at_different_blocks_are_taken_back(
        blocks in blocks(),
        in_cache in prop::collection::btree_set(outpoint(), 0..60),
        reach in prop::collection::vec(0..40usize, SECTIONS),
        broken in outpoint(),
    ) {
        let cache = CoinsCache::new();
        let in_cache = in_cache.into_iter().filter(|outpoint| *outpoint != broken);
        let mut coins: BTreeMap<_, _> =
            in_cache.map(|outpoint| (outpoint, coin(&outpoint, 1))).collect();
        coins.iter().for_each(|(at, coin)| cache.add(at, coin, Overwrite::Never).unwrap());
        let before = coins.clone();
        let mut chain = Vec::new();
        for (height, (mut spends, mut creates, _)) in (2..).zip(blocks) {
            spends.retain(|outpoint| *outpoint != broken);
            creates.remove(&broken);
            let created: Vec<(OutPoint, Coin)> =
                creates.iter().map(|outpoint| (*outpoint, coin(outpoint, height))).collect();
            if expected(&coins, &spends, &created).is_some() {
                spends.iter().for_each(|outpoint| _ = coins.remove(outpoint));
                coins.extend(created.iter().cloned());
                let sorted = cache.sort(&spends, &created);
                chain.push((spends, created, sorted));
            }
        }
        // Another block spends a coin of the tables, which cannot be read.
        let spends: Vec<OutPoint> = coins.keys().copied().chain([broken]).collect();
        let sorted = cache.sort(&spends, &[]);
        chain.push((spends, Vec::new(), sorted));
        let block = |at: usize| {
            let (spent, created, sorted) = &chain[at];
            BlockCoins { spent, created, created_by_coinbase: 0, sorted }
        };
        let mut passed = Vec::new();
        for (section, reach) in reach.into_iter().enumerate() {
            for at in 0..reach.min(chain.len()) {
                match cache.connect_section(section, block(at), |_| Err(())) {
                    Ok(spent) => passed.push((at, section, spent.expect("no coin is missing"))),
                    Err(()) => prop_assert_eq!(at, chain.len() - 1),
                }
            }
        }
        passed.sort_by_key(|(at, ..)| *at);
        for (at, section, spent) in passed.into_iter().rev() {
            cache.disconnect_section(section, block(at), spent);
        }
        cache.check();
        prop_assert_eq!(unspent(&cache, &BTreeMap::new()), before);
    }
}

fn unspent(cache: &CoinsCache, tables: &BTreeMap<OutPoint, Coin>) -> BTreeMap<OutPoint, Coin> {
    let all = (0..60u8)
        .flat_map(|txid| (0..3).map(move |vout| OutPoint { txid: Hash([txid; 32]), vout }));
    let coin = |outpoint: OutPoint| match cache.peek(&outpoint) {
        Lookup::Hit(coin) => Some((outpoint, coin)),
        Lookup::Spent => None,
        Lookup::Unknown => Some((outpoint, tables.get(&outpoint)?.clone())),
    };
    all.filter_map(coin).collect()
}

/// Returns the coins that a block spends, if each is there and none that it creates is.
fn expected(
    coins: &BTreeMap<OutPoint, Coin>,
    spends: &[OutPoint],
    created: &[(OutPoint, Coin)],
) -> Option<Vec<Coin>> {
    let mut left = coins.clone();
    let spent = spends.iter().map(|outpoint| left.remove(outpoint)).collect::<Option<Vec<_>>>()?;
    created.iter().all(|(outpoint, _)| !left.contains_key(outpoint)).then_some(spent)
}
