//! Data directories that Apus and Bitcoin Core's engine write in turn.

use apus_wire::{BlockView, Chain};

use crate::support::judge::Judge;
use crate::support::{Place, blocks_of, data, regtest_chain};

/// Tests start this program often, for processes that are killed.
#[test]
fn these_tests_start_without_cores_random_generator() {
    assert_eq!(apus_scripts::random_init_was_replaced(), cfg!(target_os = "linux"));
}

#[test]
fn the_engine_opens_what_apus_wrote_and_reads_all_undo_data() {
    let place = Place::new(Chain::Main);
    let summary = place.sync(&[data("mainnet-0-14131.dat")]);
    let judge = Judge::open(&place).expect("the engine's start-up verification passes");
    assert_eq!(judge.tip(), (summary.height, summary.best_block));
    let (coins, _) = judge.read_everything();
    assert_eq!(coins, summary.counts.inputs);
}

#[test]
fn the_engine_extends_what_apus_wrote_and_apus_carries_on() {
    let place = Place::new(Chain::Regtest);
    let chain = regtest_chain();
    place.sync(&[place.write("first", &chain[..101])]);
    {
        let judge = Judge::open(&place).expect("the engine opens the directory");
        assert_eq!(judge.tip().0, 100);
        assert_eq!(judge.process(&chain[101..151]), 50);
        assert_eq!(judge.tip().0, 150);
    }
    let extended = place.sync(&[place.write("all", &chain)]);
    assert_eq!(extended.height, 206);
    assert_eq!(extended.counts.blocks, 56, "what the engine connected is not connected again");

    let alone = Place::new(Chain::Regtest);
    alone.sync(&[alone.write("all", &chain)]);
    assert_eq!(place.utxo_hash(), alone.utxo_hash());
    let judge = Judge::open(&place).expect("the engine opens the directory again");
    assert_eq!(judge.tip(), (206, extended.best_block));
    judge.read_everything();
}

#[test]
fn apus_opens_reindexes_and_extends_what_the_engine_wrote() {
    let mainnet = blocks_of(&data("mainnet-0-14131.dat"));
    let place = Place::new(Chain::Main);
    {
        let judge = Judge::open(&place).unwrap();
        assert_eq!(judge.process(&mainnet[1..10_001]), 10_000);
    }
    let own = Place::new(Chain::Main);
    own.sync(&[own.write("blocks", &mainnet[..10_001])]);
    assert_eq!(place.utxo_hash(), own.utxo_hash(), "as the engine left it, log files included");

    let reindexed = place.try_reindex().unwrap();
    assert_eq!(reindexed.height, 10_000);
    assert_eq!(place.utxo_hash(), own.utxo_hash(), "rebuilt");

    let extended = place.sync(&[data("mainnet-0-14131.dat")]);
    assert_eq!((extended.height, extended.counts.blocks), (14_131, 4_131));
    let judge = Judge::open(&place).expect("the engine opens the result");
    assert_eq!(judge.tip(), (14_131, extended.best_block));
    judge.read_everything();
}

#[test]
fn a_source_may_be_a_directory_that_the_engine_wrote() {
    let chain = regtest_chain();
    let theirs = Place::new(Chain::Regtest);
    {
        let judge = Judge::open(&theirs).unwrap();
        judge.process(&chain[1..]);
    }
    for source in [theirs.datadir(), theirs.network_dir(), theirs.network_dir().join("blocks")] {
        let ours = Place::new(Chain::Regtest);
        let summary = ours.sync(&[source]);
        let tip = BlockView::parse(&chain[206]).unwrap().hash();
        assert_eq!((summary.height, summary.best_block), (206, tip));
        assert!(summary.refusals.is_empty(), "{:?}", summary.refusals);
    }
}
