//! Valid chains: whatever the workers, the memory, the files and what is assumed valid, a join
//! comes to what a sync in order comes to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use apus_node as node;
use apus_node::{Options, SyncError};
use apus_progress::Watch;
use apus_store::{BlockStatus, FlatFilePos};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testchain::{Mix, Spec};
use apus_wire::Chain as Network;

use super::source::{ASSUMED, Assumed, FILES, Files, Run, Source, VARIED};
use crate::support::judge::Judge;
use crate::support::outcome::Outcome;
use crate::support::swift::try_reindex_with;
use crate::support::{Place, blocks_of, data, hash_of, regtest_chain, shared};

#[test]
fn a_chain_of_every_kind_of_script() {
    VARIED.check_all(1, &FILES, &[Assumed::Nothing], 2);
}

#[test]
fn a_chain_that_is_assumed_valid_in_part() {
    let spec = Spec {
        busy_blocks: 60,
        busy_bytes: 6_000,
        empty_blocks_after: 2_100,
        mix: Mix::varied(),
        ..Spec::small(206)
    };
    let source = Source::regtest(&apus_testchain::Chain::new(spec));
    let scripts =
        ASSUMED.map(|assumed| source.in_order(Files::InOrder, assumed).summary.counts.scripts);
    assert!(scripts[0] > scripts[2] && scripts[2] > scripts[1], "{scripts:?}");
    source.check_all(2, &FILES[..3], &ASSUMED, 2);
}

#[test]
fn a_chain_with_many_spends_inside_blocks() {
    let spec = Spec {
        busy_bytes: 20_000,
        in_block_percent: 60,
        never_spent_percent: 0,
        ..Spec::small(207)
    };
    let source = Source::regtest(&apus_testchain::Chain::new(spec));
    source.check_all(3, &FILES[1..3], &[Assumed::Nothing], 1);
}

#[test]
fn a_chain_like_mainnet() {
    let spec = Spec { empty_blocks_after: 5, ..Spec::mainnet_like(208, 12, 700_000) };
    let source = Source::regtest(&apus_testchain::Chain::new(spec));
    source.check_all(4, &[Files::Shuffled], &[Assumed::Nothing], 1);
}

#[test]
fn mainnet_where_bip30_is_looked_up() {
    let source = Source::real(Network::Main, blocks_of(&data("mainnet-0-14131.dat")));
    source.check_all(5, &[Files::InOrder, Files::Shuffled], &[Assumed::Nothing], 0);
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs testnet3 blocks that may not be copied")]
fn testnet3_where_bip30_is_looked_up() {
    let source = Source::real(Network::Test, blocks_of(&shared("testnet3-0-4000.dat")));
    source.check_all(6, &[Files::InOrder, Files::Shuffled], &[Assumed::Nothing], 0);
}

#[test]
fn regtest_blocks_of_bitcoin_core() {
    Source::real(Network::Regtest, regtest_chain()).check_all(
        7,
        &FILES[..4],
        &[Assumed::Nothing],
        0,
    );
}

#[test]
fn the_engine_opens_verifies_and_extends_the_result() {
    for (threads, dbcache_bytes) in [(1, 0), (3, 100 << 20)] {
        let files = Files::Shuffled;
        let assumed = Assumed::Nothing;
        let (place, outcome) = VARIED.join(Run { files, assumed, threads, dbcache_bytes });
        {
            let judge = Judge::open(&place).expect("the engine's start-up verification passes");
            assert_eq!(judge.tip(), (outcome.height(), VARIED.tip()));
            let (coins, _) = judge.read_everything();
            assert_eq!(coins, outcome.summary.counts.inputs);
            assert_eq!(judge.process(&VARIED.next), VARIED.next.len());
            assert_eq!(judge.tip().1, hash_of(VARIED.next.last().unwrap()));
        }
        let extended = place.utxo_hash();
        let whole = Place::new(Network::Regtest);
        whole.sync(&[whole.write("blocks", VARIED.blocks.iter().chain(&VARIED.next))]);
        assert_eq!(extended, whole.utxo_hash());
    }
}

/// A reader that follows the chain reads a few files only, and these in order.
#[test]
fn each_block_file_holds_neighbouring_heights() {
    for threads in [1, 3] {
        let files = Files::Shuffled;
        let assumed = Assumed::Nothing;
        let dbcache_bytes = 1 << 20;
        let (place, _) = VARIED.join(Run { files, assumed, threads, dbcache_bytes });
        let (index, _) = place.blocks();
        let mut by_file: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for entry in index.entries.iter().filter(|entry| entry.height > 0) {
            let FlatFilePos { file, pos } = entry.block_pos().unwrap();
            by_file.entry(file).or_default().push((pos, entry.height));
        }
        for (file, mut blocks) in by_file {
            blocks.sort_unstable();
            let in_row = |pair: &[(u32, u32)]| pair[1].1 == pair[0].1 + 1;
            assert!(blocks.windows(2).all(in_row), "{threads} workers, file {file}: {blocks:?}");
        }
    }
}

/// A directory with two branches, one of which was connected before, and its outcome.
fn directory() -> Place {
    let place = Place::new(Network::Regtest);
    place.sync(&[VARIED.write(&place, Files::Stale)]);
    place.shrink();
    place
}

fn rev_files(place: &Place) -> BTreeMap<PathBuf, Vec<u8>> {
    let dir = place.network_dir().join("blocks");
    let is_rev = |path: &PathBuf| path.to_string_lossy().contains("/rev");
    let paths = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| PathBuf::from(path.file_name().unwrap());
    paths.filter(is_rev).map(|path| (name(&path), std::fs::read(path).unwrap())).collect()
}

const REINDEXES: [(usize, usize); 4] = [(1, 0), (2, 100 << 20), (3, 1 << 20), (8, 0)];

#[test]
fn a_reindex_comes_to_the_same_and_leaves_the_undo_data_alone() {
    let base = directory();
    let in_order = base.copy();
    let summary = try_reindex_with(&in_order.in_order()).unwrap();
    let expected = Outcome::of(&in_order, summary);
    for (threads, dbcache_bytes) in REINDEXES {
        let what = format!("{threads} workers, {dbcache_bytes} bytes");
        let place = base.copy();
        let before = rev_files(&place);
        let options = Options { threads, dbcache_bytes, ..place.join() };
        let summary = try_reindex_with(&options).unwrap();
        assert!(rev_files(&place) == before, "{what}: rev files");
        Outcome::of(&place, summary).assert_same(&expected, &what);
        assert!(!place.network_dir().join(node::REBUILD_DIRECTORY).exists(), "{what}");
        assert!(!options.spill_path().exists(), "{what}");
    }
}

fn reindex_files(options: &Options) -> Result<Summary, SyncError> {
    sync::reindex_files(options, Watch::default())
}

#[test]
fn without_rev_files_a_reindex_writes_the_same_bytes() {
    let base = directory();
    let blocks = base.network_dir().join("blocks");
    std::fs::remove_file(blocks.join("rev00000.dat")).unwrap();
    std::fs::remove_dir_all(blocks.join("index")).unwrap();
    let in_order = base.copy();
    let summary = reindex_files(&in_order.in_order()).unwrap();
    let expected = Outcome::of(&in_order, summary);
    let has_undo = |status: &BlockStatus| status.has(BlockStatus::BLOCK_HAVE_UNDO);
    let with_undo = expected.index.values().filter(|(_, status, _)| has_undo(status)).count();
    assert_eq!(with_undo, VARIED.blocks.len() - 1);
    for (threads, dbcache_bytes) in REINDEXES {
        let what = format!("{threads} workers, {dbcache_bytes} bytes");
        let place = base.copy();
        let options = Options { threads, dbcache_bytes, ..place.join() };
        let summary = reindex_files(&options).unwrap();
        Outcome::of(&place, summary).assert_same(&expected, &what);
        assert!(rev_files(&place) == rev_files(&in_order), "{what}: rev files");
    }
}

/// The join ends this many blocks below the best header, and the rest is connected in order.
#[test]
fn the_last_blocks_are_connected_in_order() {
    let expected = VARIED.in_order(Files::InOrder, Assumed::Nothing);
    for join_depth in [1, 60, 233, 1000] {
        let place = Place::new(Network::Regtest);
        let options = place.join().with_join_depth(join_depth);
        let sources = [VARIED.write(&place, Files::Shuffled)];
        let outcome = Outcome::of_sync(&place, &options, &sources);
        outcome.assert_same(&expected, &format!("depth {join_depth}"));
    }
}

#[test]
fn a_height_to_stop_at_is_kept() {
    for height in [0, 1, 60, 200, 10_000] {
        let run = |options: fn(&Place) -> Options| {
            let place = Place::new(Network::Regtest);
            let options = Options { stop_at_height: Some(height), ..options(&place) };
            let sources = [VARIED.write(&place, Files::InOrder)];
            Outcome::of_sync(&place, &options, &sources)
        };
        let expected = run(Place::in_order);
        run(Place::join).assert_same(&expected, &format!("to stop at {height}"));
    }
}
