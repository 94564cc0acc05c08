//! A sync in order whose cache of coins holds those of a few blocks.

use std::iter::once;

use apus_progress::Method;
use apus_progress::Watch;
use apus_sync as sync;
use apus_testchain::{Spends, Wide, WideSpec};
use apus_wire::{Chain, genesis_block};

use crate::support::Place;

/// Blocks of 2,400 outputs and 500 inputs, which leave thirty times the coins that the cache holds.
fn spec(spends: Spends) -> WideSpec {
    WideSpec {
        seed: 7,
        quiet_blocks: 120,
        busy_blocks: 240,
        txs: 100,
        spends,
        empty_blocks_after: 0,
        top_blocks: 0,
    }
}

#[test]
fn each_coin_is_read_from_the_tables_once_at_most() {
    for spends in [Spends::Mixed, Spends::Old, Spends::Bursts] {
        let place = Place::new(Chain::Regtest);
        let mut wide = Wide::new(spec(spends));
        let mut blocks: Vec<Vec<u8>> = once(genesis_block(&place.network)).collect();
        blocks.extend(wide.by_ref().map(|block| block.bytes));
        let source = place.write("blocks", &blocks);
        let mut options = place.options();
        options.method = Some(Method::InOrder);
        options.dbcache_bytes = 1_500_000;
        let summary = sync::sync(&options, &[source], Watch::default()).unwrap();
        let totals = wide.totals();
        assert_eq!(summary.coins, Some(totals.unspent));
        assert_eq!(place.utxo_hash().1, totals.unspent);
        let spent = totals.inputs - totals.inputs_in_block;
        let read = summary.waits.looked_up;
        assert!(read > spent / 2, "{spends:?}: {read} coins read for {spent} spends");
        assert!(read <= spent, "{spends:?}: {read} coins read for {spent} spends");
    }
}
