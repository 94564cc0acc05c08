//! What comes before and after a SwiftSync: directories that are not empty, several sources, blocks
//! above the hints' height, other branches.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use apus_hash::Hash;
use apus_node as node;
use apus_node::SwiftSyncOptions;
use apus_node::{AssumeValid, Options};
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_sync as sync;
use apus_testchain::Chain;

use super::refusals::{Blame, assert_unchanged};
use crate::support::judge::Judge;
use crate::support::model::encode;
use crate::support::stop_when::StopWhen;
use crate::support::swift::{MODES, Mode, World, small_chain, try_reindex_with, try_sync_with};
use crate::support::{Place, with_genesis};

fn in_order_up_to(world: &World, height: u32) -> Place {
    let place = world.place();
    let options = Options { stop_at_height: Some(height), ..place.options() };
    let summary = try_sync_with(&options, &[place.write("blocks", &world.blocks)]).unwrap();
    assert_eq!(summary.height, height);
    place
}

/// Panics unless the tip, the coins, and the undo data of the last blocks are right.
fn assert_whole(world: &World, place: &Place, right: &Place, what: &str) {
    assert_eq!(place.utxo_hash(), right.utxo_hash(), "{what}");
    let ours = place.undo();
    let theirs = right.undo();
    for height in world.height().saturating_sub(287).max(1)..=world.height() {
        let hash = world.hash(height);
        assert!(ours.contains_key(&hash), "{what}: no undo data for block {height}");
        assert_eq!(ours[&hash], theirs[&hash], "{what}: block {height}");
    }
    assert!(!place.swift_dir().exists(), "{what}");
}

#[test]
fn in_order_carries_on_above_the_hints() {
    let world = World::of(&small_chain(71, 60, 5_000));
    let tip = world.height();
    let right = world.in_order();
    for mode in MODES {
        for height in [tip, tip - 1, tip - 20, tip / 2, 1] {
            let what = format!("{mode:?}, hints for {height}");
            let place = world.swift(mode, height);
            assert_whole(&world, &place, &right, &what);
            assert_eq!(place.index().len(), right.index().len(), "{what}");
        }
        // The same command again has nothing to do.
        let place = world.swift(mode, tip - 20);
        let hints = world.write_hints(&place, tip - 20);
        let summary = world.try_swift(&place, mode, &hints, &[]).unwrap();
        assert_eq!((summary.height, summary.counts.blocks), (tip, 0));
        // A run may stop at the hints' height, and the next one goes on from there.
        let place = world.place();
        let hints = world.write_hints(&place, tip - 20);
        let sources = world.sources(&place, mode, &world.shuffled(1));
        let mut options = world.options(&place, mode, &hints);
        options.stop_at_height = Some(tip - 20);
        assert_eq!(try_sync_with(&options, &sources).unwrap().height, tip - 20);
        assert_eq!(place.utxo_hash(), in_order_up_to(&world, tip - 20).utxo_hash());
        assert_eq!(place.sync(&sources).height, tip);
        assert_whole(&world, &place, &right, "later");
    }
}

fn coins_of(chain: &Chain) -> (String, u64) {
    World::of(chain).in_order().utxo_hash()
}

#[test]
fn a_better_branch_below_the_hints_wins_afterwards() {
    let chain = small_chain(72, 345, 1_500);
    let world = World::of(&chain);
    let tip = world.height();
    let main = world.in_order().utxo_hash();
    for mode in MODES {
        let base = world.swift(mode, tip);
        // Any directory of Apus can disconnect 288 blocks, whichever way it was synced.
        for depth in [1, 30, 288] {
            let fork = chain.fork(tip - depth, depth + 1, u64::from(depth));
            let place = base.copy();
            let branch = with_genesis(&fork).split_off((tip - depth) as usize + 1);
            let summary = place.sync(&[place.write("branch", &branch)]);
            assert_eq!(summary.height, tip + 1, "{mode:?}, {depth} blocks");
            assert_eq!(place.utxo_hash(), coins_of(&fork), "{mode:?}, {depth} blocks");
            let judge = Judge::open(&place).expect("the engine opens it");
            assert_eq!(judge.tip(), (tip + 1, summary.best_block));
        }
    }
    // For one block more there is undo data in full mode; otherwise the error says that there is
    // none.
    let fork = chain.fork(tip - 289, 290, 9);
    let branch = with_genesis(&fork).split_off((tip - 289) as usize + 1);
    let place = world.swift(Mode::Full, tip);
    assert_eq!(place.sync(&[place.write("branch", &branch)]).height, tip + 1);
    assert_eq!(place.utxo_hash(), coins_of(&fork));
    let place = world.swift(Mode::AssumeValid, tip);
    let error = place.try_sync(&[place.write("branch", &branch)]).unwrap_err();
    assert_eq!(Blame::of(&error), Blame::Disk, "{error}");
    assert!(error.to_string().contains("undo data"), "{error}");
    assert_eq!(place.utxo_hash(), main, "the coins stay");
}

#[test]
fn the_engine_takes_back_blocks_of_a_swiftsync() {
    let chain = small_chain(73, 40, 3_000);
    let world = World::of(&chain);
    let fork = chain.fork(world.height() - 30, 31, 5);
    for mode in MODES {
        let place = world.swift(mode, world.height());
        {
            let judge = Judge::open(&place).expect("the engine opens it");
            judge.process(&with_genesis(&fork)[1..]);
            assert_eq!(judge.tip().0, world.height() + 1);
        }
        assert_eq!(place.utxo_hash(), coins_of(&fork), "{mode:?}");
    }
}

#[test]
fn what_is_synced_is_built_anew_only_below_the_hints() {
    let world = World::of(&small_chain(74, 60, 4_000));
    let tip = world.height();
    let right = world.in_order();
    for mode in MODES {
        for (synced, hinted) in [(1, tip), (115, tip), (tip - 1, tip), (120, tip - 10), (140, 130)]
        {
            let what = format!("{mode:?}, synced to {synced}, hints for {hinted}");
            let place = in_order_up_to(&world, synced);
            let hints = world.write_hints(&place, hinted);
            let sources = world.sources(&place, mode, &world.shuffled(2));
            let summary = world.try_swift(&place, mode, &hints, &sources).unwrap();
            assert_eq!(summary.best_block, world.tip(), "{what}");
            let anew = if synced < hinted { tip } else { tip - synced };
            assert_eq!(summary.counts.blocks, u64::from(anew), "{what}");
            assert_whole(&world, &place, &right, &what);
            assert!(!place.network_dir().join(node::REBUILD_DIRECTORY).exists(), "{what}");
        }
        // Wrong hints do not change what was synced before.
        let place = in_order_up_to(&world, 130);
        let before = place.utxo_hash();
        let mut wrong = world.model.hints(tip, apus_swiftsync::Numbering::Spendable);
        let (unspent, outputs) = wrong.last_mut().unwrap();
        unspent.push(*outputs);
        *outputs += 1;
        let wrong = place.write_bytes("wrong", &encode(&wrong, apus_swiftsync::Format::Bip456));
        let sources = world.sources(&place, mode, &world.file_order());
        let error = world.try_swift(&place, mode, &wrong, &sources).unwrap_err();
        assert_eq!(Blame::of(&error), Blame::Hints, "{error}");
        assert_unchanged(&place, &before, "wrong hints");
        assert_eq!(place.sync(&sources).height, tip);
        assert_whole(&world, &place, &right, "in order, afterwards");
    }
}

#[test]
fn blocks_may_be_in_several_sources_twice_and_damaged() {
    let world = World::of(&small_chain(76, 60, 4_000));
    let right = world.in_order();
    let tip = world.height() as usize;
    let mut damaged = World::new(world.network, world.blocks.clone());
    for height in [1, 115, 140, tip - 4] {
        let last = damaged.blocks[height].len() - 10;
        damaged.blocks[height][last] ^= 1;
    }
    let first_half: Vec<usize> = world.shuffled(4).into_iter().filter(|at| *at <= 150).collect();
    let second_half: Vec<usize> = world.shuffled(5).into_iter().filter(|at| *at >= 130).collect();
    let twice: Vec<usize> = first_half.iter().chain(&first_half).copied().collect();
    let records: Vec<_> =
        (1..=world.height()).map(|height| (height, world.model.undo(height))).collect();
    for mode in MODES {
        let place = world.place();
        let hints = world.write_hints(&place, world.height());
        let part = |of: &World, name: &str, order: &[usize]| match mode {
            Mode::AssumeValid => place.write(name, order.iter().map(|at| &of.blocks[*at])),
            Mode::Full => of.write_source_with(&place, name, order, &records),
        };
        let sources: Vec<PathBuf> = vec![
            part(&damaged, "damaged", &world.shuffled(6)),
            part(&world, "twice", &twice),
            part(&world, "second", &second_half),
        ];
        let summary = world.try_swift(&place, mode, &hints, &sources).unwrap();
        assert_eq!(summary.best_block, world.tip(), "{mode:?}");
        let mut refused: Vec<Hash> = summary.refusals.iter().filter_map(|r| r.block).collect();
        refused.sort_unstable();
        refused.dedup();
        assert_eq!(refused.len(), 4, "{mode:?}: {:?}", summary.refusals);
        let text = summary.refusals[0].to_string();
        assert!(text.contains("damaged") && text.contains("at byte"), "{text}");
        assert_whole(&world, &place, &right, &format!("{mode:?}"));
        let judge = Judge::open(&place).expect("the engine opens it");
        assert_eq!(judge.tip(), (world.height(), world.tip()));
    }
}

/// Whether a block at `height` or above it is connected.
fn connected(height: u32) -> impl Fn(&Progress) -> bool {
    move |progress| progress.phase == Phase::Connecting && progress.height >= height
}

#[test]
fn an_interrupted_reindex_may_change_between_order_and_hints() {
    let world = World::of(&small_chain(77, 200, 3_000));
    let right = world.in_order();
    right.shrink();
    for mode in MODES {
        for hinted in [world.height(), world.height() - 40] {
            let place = right.copy();
            let hints = world.write_hints(&place, hinted);
            let stop = AtomicBool::new(false);
            let observer = StopWhen(&stop, connected(150));
            let options = Options { threads: 1, ..place.options() };
            let summary = sync::reindex(&options, Watch::new(&observer, &stop)).unwrap();
            assert!(summary.interrupted && summary.height < hinted, "{}", summary.height);
            let options = world.options(&place, mode, &hints);
            let summary = try_reindex_with(&options).unwrap();
            assert_eq!(summary.best_block, world.tip());
            assert_whole(&world, &place, &right, &format!("{mode:?}, in order before"));
        }
        // A SwiftSync is interrupted above the hints' height; then everything is checked in order.
        let place = right.copy();
        let hints = world.write_hints(&place, 120);
        let stop = AtomicBool::new(false);
        let observer = StopWhen(&stop, connected(130));
        let options = Options { threads: 1, ..world.options(&place, mode, &hints) };
        assert!(sync::reindex(&options, Watch::new(&observer, &stop)).unwrap().interrupted);
        let summary = sync::reindex(&place.options(), Watch::default()).unwrap();
        assert_eq!(summary.best_block, world.tip());
        let anew = mode == Mode::AssumeValid;
        let all = summary.counts.scripts == right.try_reindex().unwrap().counts.scripts;
        assert_eq!(all, anew, "what was taken as valid is not carried on from");
        assert_whole(&world, &place, &right, &format!("{mode:?}, hints before"));
    }
}

#[test]
fn a_reindex_does_not_build_on_a_swiftsync_of_outpoints_alone() {
    let world = World::of(&small_chain(81, 200, 3_000));
    let right = world.in_order();
    right.shrink();
    let snapshot = right.root().join("120.utxo");
    apus_claims::create_snapshot(&right.options(), Some(120), &snapshot, Watch::default()).unwrap();
    let hints = world.write_hints(&right, 120);
    for of_snapshot in [false, true] {
        let place = right.copy();
        let claims = if of_snapshot {
            world.options_of_snapshot(&place, Mode::AssumeValid, &snapshot)
        } else {
            world.options(&place, Mode::AssumeValid, &hints)
        };
        let claims = Options { threads: 1, ..claims };
        let plain = Options { swiftsync: SwiftSyncOptions::default(), ..claims.clone() };
        let stop = AtomicBool::new(false);
        let observer = StopWhen(&stop, connected(130));
        let summary = sync::reindex(&claims, Watch::new(&observer, &stop)).unwrap();
        assert!(summary.interrupted && summary.height >= 120, "{}", summary.height);
        let summary = try_reindex_with(&plain).unwrap();
        assert_eq!(summary.counts.blocks, u64::from(world.height()), "snapshot: {of_snapshot}");
        assert_whole(&world, &place, &right, "anew");
    }
}

#[test]
fn assumevalid_may_name_a_block_above_the_hints() {
    let world = World::of(&small_chain(78, 30, 4_000));
    let right = world.in_order().utxo_hash();
    for (assumed, hinted) in [(world.height(), 120), (130, 130), (130, 111)] {
        let place = world.place();
        let hints = world.write_hints(&place, hinted);
        let sources = world.sources(&place, Mode::AssumeValid, &world.file_order());
        let mut options = world.options(&place, Mode::AssumeValid, &hints);
        options.assumevalid = AssumeValid::Block(world.hash(assumed));
        assert_eq!(try_sync_with(&options, &sources).unwrap().best_block, world.tip());
        assert_eq!(place.utxo_hash(), right);
    }
}

#[test]
fn undo_data_may_be_of_another_copy_and_a_good_one_come_later() {
    let world = World::of(&small_chain(79, 40, 4_000));
    let right = world.in_order();
    // The first copy of each block comes without undo data.
    let (place, hints, mut sources) = world.prepared(Mode::Full, &world.shuffled(1));
    sources.insert(0, place.write("plain", &world.blocks));
    world.try_swift(&place, Mode::Full, &hints, &sources).unwrap();
    assert_whole(&world, &place, &right, "undo data beside another copy");
    assert_eq!(place.undo().len(), right.undo().len());
    // The only copy of a block is damaged; the next run carries on with what was done before.
    let mut damaged = World::new(world.network, world.blocks.clone());
    let middle = damaged.blocks[140].len() / 2;
    damaged.blocks[140][middle] ^= 1;
    for mode in MODES {
        let place = world.place();
        let hints = world.write_hints(&place, world.height());
        let mut options = world.options(&place, mode, &hints);
        options.save_every = std::time::Duration::ZERO;
        let sources = damaged.sources(&place, mode, &world.file_order());
        let error = try_sync_with(&options, &sources).unwrap_err();
        assert_eq!(Blame::of(&error), Blame::Block, "{error}");
        let sources = world.sources(&place, mode, &world.file_order());
        assert_eq!(try_sync_with(&options, &sources).unwrap().best_block, world.tip());
        assert_whole(&world, &place, &right, &format!("{mode:?}, a good copy"));
    }
}

#[test]
fn a_salt_that_a_crash_left_behind_is_removed() {
    let world = World::of(&small_chain(80, 10, 3_000));
    for mode in MODES {
        let place = world.swift(mode, world.height());
        let hints = world.write_hints(&place, world.height());
        std::fs::create_dir(place.swift_dir()).unwrap();
        std::fs::write(place.swift_dir().join("progress"), b"a salt").unwrap();
        world.try_swift(&place, mode, &hints, &[]).unwrap();
        assert!(!place.swift_dir().exists(), "{mode:?}");
    }
}
