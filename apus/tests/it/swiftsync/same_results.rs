//! The same UTXO set, block index and undo data from a sync in order and from both modes of
//! SwiftSync.

use std::path::Path;

use apus_store::BlockStatus;
use apus_swiftsync::AggregateKind;
use apus_sync::Summary;
use apus_wire::Chain as Network;

use crate::support::judge::Judge;
use crate::support::swift::{MODES, Mode, World, small_chain, try_reindex_with, try_sync_with};
use crate::support::{Place, blocks_of, data, hash_of, shared, with_genesis};

/// The number of blocks up to the hints' height that have undo data in either mode.
const UNDO_BLOCKS: u32 = 288;

/// The sums of a UTXO set and its number of coins, the same after each way to sync.
fn sums(place: &Place) -> (String, String, u64) {
    let (muhash, coins) = place.muhash();
    (place.utxo_hash().0, muhash, coins)
}

/// Compares a directory of SwiftSync with one that was synced in order.
struct Expected<'a> {
    world: &'a World,
    place: Place,
    sums: (String, String, u64),
}

impl<'a> Expected<'a> {
    fn new(world: &'a World, place: Place) -> Self {
        let sums = sums(&place);
        Self { world, place, sums }
    }

    fn check(&self, place: &Place, mode: Mode, summary: &Summary, what: &str) {
        let tip = (summary.height, summary.best_block);
        assert_eq!(tip, (self.world.height(), self.world.tip()), "{what}");
        assert!(summary.refusals.is_empty(), "{what}: {:?}", summary.refusals);
        assert_eq!(summary.coins, Some(self.sums.2), "{what}");
        assert_eq!(summary.counts.blocks, u64::from(self.world.height()), "{what}");
        assert_eq!(sums(place), self.sums, "{what}");
        self.check_blocks(place, mode, what);
        assert!(!place.swift_dir().exists(), "{what}: nothing is left behind");
    }

    /// Compares index and undo data: all of it in full mode, and at least that of the last blocks
    /// in the other.
    fn check_blocks(&self, place: &Place, mode: Mode, what: &str) {
        let theirs = self.place.index();
        let mut ours = place.index();
        let their_undo = self.place.undo();
        let our_undo = place.undo();
        let first = (self.world.height() + 1).saturating_sub(UNDO_BLOCKS);
        assert_eq!(ours.len(), theirs.len(), "{what}");
        for (hash, (height, status, _)) in &mut ours {
            let has_undo = their_undo.contains_key(hash);
            if has_undo && (mode == Mode::Full || *height >= first) {
                assert!(status.has(BlockStatus::BLOCK_HAVE_UNDO), "{what}: block {height}");
            }
            if has_undo {
                status.0 |= BlockStatus::BLOCK_HAVE_UNDO;
            }
        }
        assert_eq!(ours, theirs, "{what}");
        for (hash, undo) in &our_undo {
            assert_eq!(Some(undo), their_undo.get(hash), "{what}: undo data of {hash}");
        }
    }
}

/// The positions of blocks and undo data, by hash.
fn positions(place: &Place) -> Vec<(apus_hash::Hash, u32, u32, u32)> {
    let (index, _) = place.blocks();
    let mut places: Vec<_> = index
        .entries
        .iter()
        .map(|e| (e.hash, e.record.file, e.record.data_pos, e.record.undo_pos))
        .collect();
    places.sort_unstable();
    places
}

fn judged(world: &World, place: &Place, next: &[Vec<u8>]) {
    let judge = Judge::open(place).expect("the engine's start-up verification passes");
    assert_eq!(judge.tip(), (world.height(), world.tip()));
    assert_eq!(judge.process(next), next.len());
    let last = next.last().unwrap();
    assert_eq!(judge.tip(), (world.height() + next.len() as u32, hash_of(last)), "it extends it");
}

/// Syncs real blocks in both modes, from a file in order and from a shuffled one.
fn real_chain(network: Network, blocks: Vec<Vec<u8>>, muhash: &str) {
    let world = World::new(network, blocks);
    let expected = Expected::new(&world, world.in_order());
    assert_eq!(expected.sums.1, muhash, "Core's own");
    for mode in MODES {
        for (threads, order) in [(2, world.file_order()), (3, world.shuffled(1))] {
            let (place, hints, sources) = world.prepared(mode, &order);
            let options = apus_node::Options { threads, ..world.options(&place, mode, &hints) };
            let summary = try_sync_with(&options, &sources).unwrap();
            expected.check(&place, mode, &summary, &format!("{mode:?}, {threads} workers"));
            let judge = Judge::open(&place).expect("the engine opens it");
            assert_eq!(judge.tip(), (world.height(), world.tip()));
        }
    }
}

#[test]
fn mainnet_comes_to_cores_utxo_set() {
    let blocks = blocks_of(&data("mainnet-0-14131.dat"));
    let muhash = "859e27f17a6cce9768b75dd0dbd969890157d29a152b0f4a0afa6c67cbcd5975";
    real_chain(Network::Main, blocks, muhash);
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs testnet3 blocks that may not be copied")]
fn testnet3_comes_to_cores_utxo_set() {
    let blocks = blocks_of(&shared("testnet3-0-4000.dat"));
    let muhash = "6a155d607dccdf17321178f9598283ca7d2b05cc7fa64f8cc4293f2533ff7124";
    real_chain(Network::Test, blocks, muhash);
}

#[test]
fn any_number_of_workers_and_any_order_of_blocks_give_the_same() {
    let chain = small_chain(21, 330, 4_000);
    let world = World::of(&chain);
    let next = with_genesis(&chain.fork(chain.height(), 6, 1)).split_off(world.blocks.len());
    let expected = Expected::new(&world, world.in_order());
    assert_eq!(expected.sums.2, chain.totals().unspent);
    let mut reversed = world.file_order();
    reversed.reverse();
    let orders =
        [("in order", world.file_order()), ("reversed", reversed), ("shuffled", world.shuffled(2))];
    for mode in MODES {
        for (order_name, order) in &orders {
            for threads in [1, 2, 3, 8] {
                let what = format!("{mode:?}, {order_name}, {threads} workers");
                let (place, hints, sources) = world.prepared(mode, order);
                let options = apus_node::Options { threads, ..world.options(&place, mode, &hints) };
                let summary = try_sync_with(&options, &sources).unwrap();
                expected.check(&place, mode, &summary, &what);
                assert_eq!(summary.counts.inputs, chain.totals().inputs, "{what}");
                let scripts = if mode == Mode::Full { summary.counts.inputs } else { 0 };
                assert_eq!(summary.counts.scripts, scripts, "{what}");
                if threads == 1 && *order_name == "in order" && mode == Mode::Full {
                    assert_eq!(positions(&place), positions(&expected.place), "{what}");
                }
                if threads == 2 {
                    judged(&world, &place, &next);
                }
            }
        }
    }
}

/// A directory whose blk files hold blocks in any order, with undo data of all of them.
fn shuffled_directory(world: &World) -> Place {
    let (place, hints, sources) = world.prepared(Mode::AssumeValid, &world.shuffled(3));
    let one = apus_node::Options { threads: 1, ..world.options(&place, Mode::AssumeValid, &hints) };
    try_sync_with(&one, &sources).unwrap();
    let (index, _) = place.blocks();
    let mut entries = index.entries;
    entries.sort_unstable_by_key(|entry| entry.record.data_pos);
    let heights: Vec<u32> = entries.iter().map(|entry| entry.height).collect();
    assert!(!heights.is_sorted(), "one worker stores blocks as they lie in the source");
    assert_eq!(place.try_reindex().unwrap().height, world.height());
    place
}

#[test]
fn a_directory_serves_as_source_and_for_a_reindex() {
    let chain = small_chain(22, 330, 4_000);
    let world = World::of(&chain);
    let source = shuffled_directory(&world);
    let expected = Expected::new(&world, world.in_order());
    assert_eq!(source.undo(), expected.place.undo());
    for mode in MODES {
        for threads in [1, 2, 3, 8] {
            let what = format!("{mode:?}, {threads} workers");
            let place = world.place();
            let hints = world.write_hints(&place, world.height());
            let options = apus_node::Options { threads, ..world.options(&place, mode, &hints) };
            let summary = try_sync_with(&options, &[source.datadir()]).unwrap();
            expected.check(&place, mode, &summary, &what);
        }
        let place = source.copy();
        let before = positions(&place);
        let hints = world.write_hints(&place, world.height());
        let summary = try_reindex_with(&world.options(&place, mode, &hints)).unwrap();
        expected.check(&place, mode, &summary, &format!("{mode:?}, reindex"));
        assert_eq!(positions(&place), before, "a reindex moves nothing");
        assert!(!place.network_dir().join(apus_node::REBUILD_DIRECTORY).exists());
        assert!(!place.network_dir().join(apus_node::REBUILD_MARK).exists());
    }
}

#[test]
fn stale_blocks_are_kept() {
    let chain = small_chain(23, 40, 3_000);
    let stale = [chain.fork(chain.height() - 2, 1, 5), chain.fork(120, 3, 6)];
    let world = World::of(&chain);
    let mut blocks = world.blocks.clone();
    for fork in &stale {
        let fork_blocks = with_genesis(fork);
        let new = fork_blocks.into_iter().filter(|block| !world.blocks.contains(block));
        new.enumerate().for_each(|(i, block)| blocks.insert(60 * i + 7, block));
    }
    assert_eq!(blocks.len(), world.blocks.len() + 4);
    let in_order = world.place();
    in_order.sync(&[in_order.write("blocks", &blocks)]);
    let expected = Expected::new(&world, in_order);
    for mode in MODES {
        let place = world.place();
        let hints = world.write_hints(&place, world.height());
        let mut sources = vec![place.write("blocks", &blocks)];
        if mode == Mode::Full {
            sources = world.sources(&place, mode, &world.file_order());
            sources.push(place.write("stale", &blocks));
        }
        let summary = world.try_swift(&place, mode, &hints, &sources).unwrap();
        expected.check(&place, mode, &summary, &format!("{mode:?}"));
    }
    // A directory that connected a stale branch and disconnected it again has undo data of two
    // blocks on the same parent.
    let reorganised = world.place();
    let branch = reorganised.write("stale", &with_genesis(&stale[0]));
    reorganised.sync(&[branch]);
    reorganised.sync(&[reorganised.write("blocks", &blocks)]);
    assert_eq!(reorganised.muhash().0, expected.sums.1);
    let place = world.place();
    let hints = world.write_hints(&place, world.height());
    let sources = [reorganised.datadir()];
    let summary = world.try_swift(&place, Mode::Full, &hints, &sources).unwrap();
    expected.check(&place, Mode::Full, &summary, "undo data of a stale sibling beside the right");
}

#[test]
fn muhash_proves_the_same() {
    let world = World::of(&small_chain(24, 15, 3_000));
    let expected = Expected::new(&world, world.in_order());
    for mode in MODES {
        let (place, hints, sources) = world.prepared(mode, &world.shuffled(4));
        let mut options = world.options(&place, mode, &hints);
        options.swiftsync.aggregate = AggregateKind::MuHash;
        let summary = try_sync_with(&options, &sources).unwrap();
        expected.check(&place, mode, &summary, &format!("{mode:?}"));
        let too_few = spoiled(&world, &place);
        let fresh = world.place();
        options.swiftsync.hints = Some(too_few);
        options.datadir = fresh.datadir();
        assert_eq!(try_sync_with(&options, &sources).unwrap().best_block, world.tip());
        assert_eq!(fresh.utxo_hash(), place.utxo_hash(), "{mode:?}");
    }
}

/// Hints that lack one output.
fn spoiled(world: &World, place: &Place) -> std::path::PathBuf {
    let mut hints = world.model.hints(world.height(), apus_swiftsync::Numbering::Spendable);
    hints.iter_mut().rev().find_map(|(unspent, _)| unspent.pop()).unwrap();
    let bytes = crate::support::model::encode(&hints, apus_swiftsync::Format::Bip456);
    let path: &Path = &place.write_bytes("spoiled", &bytes);
    path.to_path_buf()
}
