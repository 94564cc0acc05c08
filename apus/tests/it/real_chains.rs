//! Real blocks, and what Bitcoin Core v31.99 says of them.

use apus_progress::Counts;
use apus_tools::{UtxoHash, UtxoStats};
use apus_wire::Chain;

use crate::support::{Place, data, shared};

struct Figures {
    height: u32,
    best_block: &'static str,
    txouts: u64,
    transactions: u64,
    bogosize: u64,
    total_amount: u64,
    muhash: &'static str,
    hash_serialized_3: &'static str,
}

const MAINNET: Figures = Figures {
    height: 14_131,
    best_block: "00000000b3e750f37fdb42e1018799a9f44b546d393b130b369590a072430a1c",
    txouts: 13_416,
    transactions: 13_407,
    bogosize: 1_567_404,
    total_amount: 70_655_000_000_000,
    muhash: "859e27f17a6cce9768b75dd0dbd969890157d29a152b0f4a0afa6c67cbcd5975",
    hash_serialized_3: "74c5a654587d4eaac9248b73889453e0b2fbc918bbc7bb8d8e6301d4d8c98db3",
};

const TESTNET3: Figures = Figures {
    height: 4_000,
    best_block: "00000000185b36fa6e406626a722793bea80531515e0b2a99ff05b73738901f1",
    txouts: 4_197,
    transactions: 4_155,
    bogosize: 354_492,
    total_amount: 20_000_000_000_000,
    muhash: "6a155d607dccdf17321178f9598283ca7d2b05cc7fa64f8cc4293f2533ff7124",
    hash_serialized_3: "d47a6ca2d786f0db1f8ce4bb8d56d5b26778c8dff317f62036e56b9d7ea0e82c",
};

fn assert_figures(place: &Place, figures: &Figures) {
    let assert_same = |stats: &UtxoStats, hash: Option<&str>| {
        assert_eq!(stats.height, figures.height);
        assert_eq!(stats.best_block.to_string(), figures.best_block);
        assert_eq!(stats.txouts, figures.txouts);
        assert_eq!(stats.transactions, figures.transactions);
        assert_eq!(stats.bogosize, figures.bogosize);
        assert_eq!(stats.total_amount, figures.total_amount);
        assert_eq!(stats.hash.map(|(_, hash)| hash.to_string()).as_deref(), hash);
    };
    assert_same(&place.stats(UtxoHash::MuHash), Some(figures.muhash));
    assert_same(&place.stats(UtxoHash::HashSerialized3), Some(figures.hash_serialized_3));
    assert_same(&place.stats(UtxoHash::None), None);
}

fn sync_and_compare(place: &Place, file: std::path::PathBuf, figures: &Figures) -> Counts {
    let summary = place.sync(&[file]);
    assert!(summary.refusals.is_empty(), "{:?}", summary.refusals);
    assert_eq!(summary.height, figures.height);
    assert_eq!(summary.coins, Some(figures.txouts));
    assert_eq!(summary.counts.scripts, summary.counts.inputs, "every script is checked");
    assert_figures(place, figures);
    summary.counts
}

#[test]
fn mainnet_ends_in_cores_utxo_set() {
    let place = Place::new(Chain::Main);
    let synced = sync_and_compare(&place, data("mainnet-0-14131.dat"), &MAINNET);
    assert_eq!((synced.blocks, synced.inputs), (14_131, 865));

    let reindexed = place.try_reindex().unwrap();
    assert_eq!(reindexed.counts, synced);
    assert_figures(&place, &MAINNET);
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs testnet3 blocks that may not be copied")]
fn testnet3_ends_in_cores_utxo_set() {
    let place = Place::new(Chain::Test);
    sync_and_compare(&place, shared("testnet3-0-4000.dat"), &TESTNET3);
    place.try_reindex().unwrap();
    assert_figures(&place, &TESTNET3);
}
