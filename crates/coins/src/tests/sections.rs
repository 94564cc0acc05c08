//! Blocks that pass the sections of the cache in any order, next to a map.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use apus_hash::Hash;
use apus_wire::OutPoint;
use proptest::prelude::*;

use crate::{BlockCoins, Coin, CoinsCache, Lookup, SECTIONS};

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
        for txid in 0..60u8 {
            for vout in 0..3 {
                let outpoint = OutPoint { txid: Hash([txid; 32]), vout };
                let found = match cache.peek(&outpoint) {
                    Lookup::Hit(coin) => Some(coin),
                    Lookup::Spent => None,
                    Lookup::Unknown => tables.get(&outpoint).cloned(),
                };
                prop_assert_eq!(found.as_ref(), coins.get(&outpoint));
            }
        }
    }
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
