//! The state between: a second UTXO set from a snapshot, while bitcoind validates the blocks up to
//! it. bitcoind makes it and Apus goes on, and the other way round.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use apus_hash::Hash;
use apus_net::{PeerOptions, Target};
use apus_node::SwiftSyncOptions;
use apus_node::{AssumeValid, Options, Prune, SNAPSHOT_DIRECTORY};
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_sync as sync;
use apus_tools as tools;
use apus_tools::{SnapshotStatus, Status};

use super::daemon::{Daemon, program_in};
use crate::support::Place;
use crate::support::blocks::{block, branch, bytes, genesis_parent};
use crate::support::listed::Listed;
use crate::support::program::{apus, assert_contains, assert_ends, stderr, stdout};
use crate::support::stop_when::StopWhen;
use crate::support::swift::Mode;
use crate::support::waiting::{comes_true, wait_until};

/// Blocks that bitcoind connects on top of the snapshot.
const ON_TOP: usize = 5;

/// A directory in which bitcoind has loaded the snapshot and connected some blocks after it.
fn left_by_core(bitcoind: &Path, listed: &Listed, on_top: usize) -> Place {
    let (_made, out) = listed.with_snapshot();
    let place = listed.world.place();
    let daemon = Daemon::start(bitcoind, &place, &[]);
    daemon.submit_headers(&listed.world.blocks[1..]);
    daemon.ask(&["loadtxoutset", &out.display().to_string()]);
    daemon.submit_blocks(&listed.more(on_top));
    daemon.stop();
    place
}

fn status(place: &Place) -> Status {
    tools::status(&place.options()).unwrap()
}

fn run(options: &Options, sources: &[PathBuf]) -> sync::Summary {
    sync::sync(options, sources, Watch::default()).unwrap()
}

/// Panics unless bitcoind starts with `n` blocks in the validated UTXO set and in the one that
/// it works with; `None` if there is to be one alone, which is checked and counted.
#[track_caller]
fn assert_core_starts(bitcoind: &Path, place: &Place, validated: u32, works_with: Option<u32>) {
    let muhash = place.muhash().0;
    let daemon = Daemon::start(bitcoind, place, &[]);
    let expected = [Some(validated), works_with].into_iter().flatten().map(u64::from);
    let expected = expected.collect::<Vec<_>>();
    let mut found = Vec::new();
    // bitcoind connects blocks that the validated set lacks after it has started.
    let are_there = comes_true(|| {
        let states = daemon.ask_json(&["getchainstates"]);
        let states = states["chainstates"].as_array().unwrap();
        found = states.iter().map(|state| state["blocks"].as_u64().unwrap()).collect();
        found == expected
    });
    assert!(are_there, "{found:?} instead of {expected:?}");
    if works_with.is_none() {
        assert!(!place.network_dir().join(SNAPSHOT_DIRECTORY).exists());
        assert_eq!(daemon.ask(&["verifychain", "4", "0"]), "true");
        let set = daemon.ask_json(&["gettxoutsetinfo", "muhash"]);
        assert_eq!(set["muhash"], muhash.as_str());
    }
    daemon.stop();
}

#[test]
fn each_way_goes_on_where_core_has_loaded_a_snapshot() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let listed = Listed::with_payments();
    let world = &listed.world;
    let base = listed.height();
    let left = left_by_core(&bitcoind, &listed, ON_TOP);
    let top = base + ON_TOP as u32;
    for way in Method::ALL {
        let place = left.copy();
        let found = status(&place);
        let expected =
            SnapshotStatus { base: world.tip(), base_height: Some(base), height: Some(top) };
        assert_eq!((found.height, found.snapshot), (0, Some(expected)));
        let options = match way {
            Method::SwiftSync => {
                let hints = world.write_hints(&place, base);
                world.options(&place, Mode::Full, &hints)
            }
            _ => Options { method: Some(way), ..place.options() },
        };
        if way == Method::InOrder {
            let some = place.write("some", &world.blocks[..=150]);
            assert_eq!(run(&options, &[some]).height, 150);
            assert!(status(&place).snapshot.is_some());
            assert_core_starts(&bitcoind, &place, 150, Some(top));
        }
        let all = world.sources(&place, Mode::Full, &world.file_order());
        assert_eq!(run(&options, &all).height, top, "{way:?}");
        assert_eq!(status(&place).snapshot, None, "{way:?}");
        assert_core_starts(&bitcoind, &place, top, None);
    }
}

/// With the base block as the tip Apus leaves the second set, and bitcoind replaces the one by the
/// other.
#[test]
fn core_ends_what_apus_has_validated() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    for listed in Listed::all() {
        let base = listed.height();
        let place = left_by_core(&bitcoind, &listed, 0);
        assert_eq!(place.sync_blocks("blocks", &listed.world.blocks).height, base);
        assert!(status(&place).snapshot.is_some());
        assert_core_starts(&bitcoind, &place, base, None);
        assert_eq!((status(&place).height, status(&place).snapshot), (base, None));
    }
}

/// Blocks in any order, the base block before others: bitcoind starts whatever is missing.
#[test]
fn core_starts_whatever_blocks_have_come() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let listed = Listed::with_payments();
    let world = &listed.world;
    let base = listed.height();
    for on_top in [0, ON_TOP] {
        let left = left_by_core(&bitcoind, &listed, on_top);
        let top = base + on_top as u32;
        let place = left.copy();
        let some = [&world.blocks[..=250], &world.blocks[290..]].concat();
        assert_eq!(place.sync_blocks("some", &some).height, 250);
        assert_core_starts(&bitcoind, &place, 250, Some(top));
        for way in [Method::Join, Method::SwiftSync] {
            let place = left.copy();
            let options = match way {
                Method::SwiftSync => {
                    let hints = world.write_hints(&place, base);
                    world.options(&place, Mode::AssumeValid, &hints)
                }
                _ => Options { method: Some(way), ..place.options() },
            };
            let source = world.sources(&place, Mode::AssumeValid, &world.shuffled(7));
            let stop = AtomicBool::new(false);
            let late = |progress: &Progress| progress.blocks > 200;
            let summary =
                sync::sync(&options, &source, Watch::new(&StopWhen(&stop, late), &stop)).unwrap();
            println!("{way:?}: {} at {}", summary.interrupted, summary.height);
            if summary.interrupted {
                assert_core_starts(&bitcoind, &place, summary.height, Some(top));
            }
            assert!(run(&options, &source).height >= base);
            assert_core_starts_at(&bitcoind, &place, top);
        }
    }
}

/// Blocks of a peer, which come in any order and are indexed as they come; in a new directory Apus
/// loads the snapshot before them.
#[test]
fn peers_bring_the_blocks_below() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let listed = Listed::with_payments();
    let world = &listed.world;
    let top = listed.height() + ON_TOP as u32;
    let (server_place, snapshot) = listed.with_snapshot();
    server_place.sync(&[server_place.write("more", &listed.more(ON_TOP))]);
    let server = Daemon::start(&bitcoind, &server_place, &[]);
    let left = left_by_core(&bitcoind, &listed, ON_TOP);
    let ways = Method::ALL.map(|way| (way, Some(&left)));
    for (way, left) in ways.into_iter().chain([(Method::SwiftSync, None)]) {
        let place = left.map_or_else(|| world.place(), Place::copy);
        // In a new directory there are no blocks on top of the base block yet.
        let works_with = left.map_or(listed.height(), |_| top);
        let options = from_peer(place.options(), &server);
        let options = match way {
            Method::SwiftSync => with_snapshot(options, &listed, &snapshot),
            _ => Options { method: Some(way), ..options },
        };
        let mut interrupted = 0;
        for blocks in [100, 290, u64::MAX] {
            let stop = AtomicBool::new(false);
            let late = |progress: &Progress| progress.blocks > blocks;
            let summary =
                sync::sync(&options, &[], Watch::new(&StopWhen(&stop, late), &stop)).unwrap();
            println!("{way:?}: {} at {}", summary.interrupted, summary.height);
            if summary.interrupted && summary.height <= listed.height() {
                interrupted += 1;
                // Stored blocks may follow, which bitcoind connects.
                let copy = place.copy();
                let daemon = Daemon::start(&bitcoind, &copy, &[]);
                assert_eq!(daemon.ask(&["getblockcount"]), works_with.to_string(), "{way:?}");
                daemon.stop();
            }
        }
        assert!(interrupted > 0, "{way:?}: never stopped in time");
        assert_eq!(status(&place).height, top, "{way:?}");
        assert_core_starts_at(&bitcoind, &place, top);
    }
    server.stop();
}

/// Options for a sync from this peer that writes the index as often as it can be.
fn from_peer(options: Options, server: &Daemon) -> Options {
    let connect = vec![Target::parse(&server.address(), 0).unwrap()];
    let peers = Some(PeerOptions { connect, ..PeerOptions::new(0) });
    Options { peers, save_every: Duration::ZERO, ..options }
}

/// Options for a SwiftSync with the snapshot, whose base block is assumed valid.
fn with_snapshot(options: Options, listed: &Listed, snapshot: &Path) -> Options {
    let snapshot = Some(snapshot.to_path_buf());
    let assumevalid = AssumeValid::Block(listed.world.tip());
    let mut options = Options {
        assumevalid,
        swiftsync: SwiftSyncOptions { snapshot, ..options.swiftsync.clone() },
        ..options
    };
    options.network.minimum_chain_work = Hash::ZERO;
    options
}

/// A SwiftSync that stores only the last blocks, with the snapshot loaded: stopped, it leaves to
/// bitcoind what that fetches again and validates.
#[test]
fn core_starts_where_a_sync_that_prunes_is_stopped() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let listed = Listed::with_payments();
    let (server_place, snapshot) = listed.with_snapshot();
    let server = Daemon::start(&bitcoind, &server_place, &[]);
    let place = listed.world.place();
    let options = with_snapshot(from_peer(place.options(), &server), &listed, &snapshot);
    let options = Options { prune: Some(Prune::Target(0)), fast_prune: true, ..options };
    let stop = AtomicBool::new(false);
    let late = |progress: &Progress| progress.phase == Phase::SwiftSync && progress.blocks > 290;
    let summary = sync::sync(&options, &[], Watch::new(&StopWhen(&stop, late), &stop)).unwrap();
    let saved = summary.saved.and_then(sync::SavedSync::swiftsync).expect("it is stopped in time");
    println!("{} of {} blocks", saved.done, saved.total);
    let copy = place.copy();
    let peer = format!("-connect={}", server.address());
    let daemon = Daemon::start(&bitcoind, &copy, &["-fastprune", "-prune=1", &peer]);
    assert_eq!(daemon.ask(&["getblockcount"]), "299");
    wait_until_validated(&daemon);
    daemon.stop();
    assert_eq!(run(&options, &[]).height, 299);
    assert_core_starts_with(&bitcoind, &place, 299, &["-fastprune", "-prune=1"]);
    server.stop();
}

/// A block file of the lowest blocks is deleted while there are two sets: bitcoind needs none of
/// it, and validates the rest.
#[test]
fn core_goes_on_after_old_blocks_are_pruned() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let listed = Listed::with_payments();
    let world = &listed.world;
    let small = ["-fastprune", "-prune=1"];
    // Blocks of height 1 that lose fill a small file.
    let losers = (0..280).map(|number| block(&genesis_parent(), &format!("loser {number}")));
    let low = [&world.blocks[..=7], &bytes(&losers.collect::<Vec<_>>())].concat();
    for prune in [Prune::Manual, Prune::Target(0)] {
        let (place, _) = listed.loaded();
        let options = Options { prune: Some(prune), fast_prune: true, ..place.options() };
        run(&options, &[place.write("low", &low)]);
        let summary = run(&options, &[place.write("most", &world.blocks[..=298])]);
        assert_eq!(summary.height, 298, "{prune:?}");
        if prune == Prune::Manual {
            tools::prune(&options, 7).unwrap();
        }
        assert!(!place.network_dir().join("blocks/blk00000.dat").exists(), "{prune:?}");
        assert!(status(&place).snapshot.is_some(), "{prune:?}");
        let copy = place.copy();
        let daemon = Daemon::start(&bitcoind, &copy, &small);
        assert_eq!(daemon.ask(&["getblockcount"]), "299");
        daemon.submit_blocks(&world.blocks[299..]);
        wait_until_validated(&daemon);
        daemon.stop();
        assert_eq!(run(&options, &[place.write("all", &world.blocks)]).height, 299);
        assert_core_starts_with(&bitcoind, &place, 299, &small);
    }
}

/// Waits until bitcoind has validated the blocks up to the snapshot.
#[track_caller]
fn wait_until_validated(daemon: &Daemon) {
    wait_until("bitcoind has validated the snapshot", || {
        let states = daemon.ask_json(&["getchainstates"]);
        let states = states["chainstates"].as_array().unwrap();
        states.len() == 1 && states[0]["validated"] == true
    });
}

/// Panics unless bitcoind mines a block, after which it holds its block index against itself.
#[track_caller]
fn assert_core_mines(bitcoind: &Path, place: &Place) {
    let daemon = Daemon::start(bitcoind, place, &[]);
    let height: u32 = daemon.ask(&["getblockcount"]).parse().unwrap();
    daemon.mine(1, '4');
    assert_eq!(daemon.ask(&["getblockcount"]), (height + 1).to_string());
    daemon.stop();
}

/// Panics unless bitcoind starts, and ends with one UTXO set at this height.
#[track_caller]
fn assert_core_starts_at(bitcoind: &Path, place: &Place, height: u32) {
    assert_core_starts_with(bitcoind, place, height, &[]);
}

/// [`assert_core_starts_at`] with these options.
#[track_caller]
fn assert_core_starts_with(bitcoind: &Path, place: &Place, height: u32, options: &[&str]) {
    let daemon = Daemon::start(bitcoind, place, options);
    let states = daemon.ask_json(&["getchainstates"]);
    assert_eq!(states["chainstates"].as_array().unwrap().len(), 1, "{states}");
    assert_eq!(daemon.ask(&["getblockcount"]), height.to_string());
    daemon.stop();
}

#[test]
fn a_better_chain_without_the_base_block_ends_the_state() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let listed = Listed::with_payments();
    let world = &listed.world;
    let left = left_by_core(&bitcoind, &listed, ON_TOP);
    let (fork, _) = branch(&listed.parent(280), "fork", 40);
    for first in [100, 299] {
        let place = left.copy();
        let some = place.write("some", &world.blocks[..=first]);
        let stop_below = Options { stop_at_height: Some(first as u32), ..place.options() };
        assert_eq!(run(&stop_below, &[some]).height, first as u32);
        assert!(status(&place).snapshot.is_some());
        let blocks = [&world.blocks[..=280], &bytes(&fork)].concat();
        assert_eq!(place.sync_blocks("fork", &blocks).height, 320);
        assert_eq!(status(&place).snapshot, None);
        assert_core_starts(&bitcoind, &place, 320, None);
        assert_core_mines(&bitcoind, &place);
    }
}

#[test]
fn other_commands_leave_a_directory_that_core_starts_on() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let listed = Listed::with_payments();
    let top = listed.height() + ON_TOP as u32;
    let place = left_by_core(&bitcoind, &listed, ON_TOP);
    place.sync_blocks("some", &listed.world.blocks[..=150]);
    let text = stdout(&apus(&place, &["status"]));
    let words = ["bitcoind works with a second UTXO set at height 304", "149 blocks to go"];
    assert_contains(&text, &words);
    let note = "this command uses the other one";
    let out = place.root().join("out").display().to_string();
    assert_ends(&apus(&place, &["txoutset", "info"]), 0, &[note]);
    assert_ends(&apus(&place, &["verify", "--level=4", "--blocks=0"]), 0, &[note]);
    assert_ends(&apus(&place, &["hints", "create", "-o", &out]), 0, &[note]);
    let out = out + ".dat";
    assert_ends(&apus(&place, &["snapshot", "create", "-o", &out]), 0, &[note]);
    let quiet = apus(&place, &["--quiet", "txoutset", "info"]);
    assert!(!stderr(&quiet).contains(note));

    assert_ends(&apus(&place, &["rewind", "--height=100"]), 0, &[]);
    assert_core_starts(&bitcoind, &place, 150, Some(top));
    assert_ends(&apus(&place, &["reindex"]), 0, &[]);
    assert_core_starts(&bitcoind, &place, 150, Some(top));
    // The index that is made of the block files keeps the base block, of which it has the header.
    let output = apus(&place, &["reindex", "--index"]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    assert_core_starts(&bitcoind, &place, 150, Some(top));
    // Without the present index, it lacks the base block.
    std::fs::remove_dir_all(place.network_dir().join("blocks/index")).unwrap();
    let output = apus(&place, &["reindex", "--index"]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    assert_eq!(status(&place).snapshot, None);
    assert_core_starts(&bitcoind, &place, 150, None);
    assert_core_mines(&bitcoind, &place);
}

/// A rebuild that passes the base block: until its end bitcoind finds both sets as they were.
#[test]
fn a_rebuild_gives_the_second_set_up_at_its_end() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let listed = Listed::with_payments();
    let base = listed.height();
    let top = listed.height() + ON_TOP as u32;
    let place = left_by_core(&bitcoind, &listed, ON_TOP);
    let blocks = place.write("blocks", &listed.world.blocks);
    let to_base = Options { stop_at_height: Some(base), ..place.options() };
    assert_eq!(run(&to_base, &[blocks]).height, base);
    let stop = AtomicBool::new(false);
    let is_past = |progress: &Progress| progress.height > base + 1;
    // Commits after every block.
    let options = Options { dbcache_bytes: 1, ..place.options() };
    let summary = sync::reindex(&options, Watch::new(&StopWhen(&stop, is_past), &stop)).unwrap();
    assert!(summary.interrupted && summary.height > base, "{}", summary.height);
    assert!(status(&place).snapshot.is_some());
    let interrupted = place.copy();
    assert_core_starts_at(&bitcoind, &interrupted, top);
    assert_eq!(place.try_reindex().unwrap().height, top);
    assert_eq!(status(&place).snapshot, None);
    assert_core_starts(&bitcoind, &place, top, None);
}

/// What Apus loads: bitcoind works with it, gets the blocks below, and ends with one UTXO set.
#[test]
fn core_validates_what_apus_has_loaded() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    for listed in Listed::all() {
        let (place, _) = listed.loaded();
        let synced = listed.world.in_order();
        let base = listed.height();
        let daemon = Daemon::start(&bitcoind, &place, &[]);
        let states = daemon.ask_json(&["getchainstates"]);
        let [below, works_with] = &states["chainstates"].as_array().unwrap()[..] else {
            panic!("{states}")
        };
        assert_eq!((&below["blocks"], &below["validated"]), (&0.into(), &true.into()));
        assert_eq!(works_with["snapshot_blockhash"], listed.world.tip().to_string());
        assert_eq!(
            (&works_with["blocks"], &works_with["validated"]),
            (&base.into(), &false.into())
        );
        daemon.submit_blocks(&listed.more(2));
        assert_eq!(daemon.ask(&["getblockcount"]), (base + 2).to_string());
        daemon.submit_blocks(&listed.world.blocks[1..]);
        wait_until_validated(&daemon);
        daemon.stop();
        // Only its next start removes the other set, and the block that both have is one.
        let daemon = Daemon::start(&bitcoind, &place, &[]);
        daemon.stop();
        synced.sync(&[synced.write("more", &listed.more(2))]);
        assert_eq!(place.muhash(), synced.muhash(), "base {base}");
        assert_core_starts(&bitcoind, &place, base + 2, None);
    }
}

#[test]
fn headers_for_a_snapshot_come_from_core() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let listed = Listed::with_payments();
    let (server_place, out) = listed.with_snapshot();
    let server = Daemon::start(&bitcoind, &server_place, &[]);
    let place = listed.world.place();
    let connect = vec![Target::parse(&server.address(), 0).unwrap()];
    let peers = Some(PeerOptions { connect, ..PeerOptions::new(0) });
    let options = Options { peers, ..place.options() };
    let loaded = apus_claims::load_snapshot(&options, &out, &[], Watch::default()).unwrap();
    assert_eq!(loaded.base, listed.world.tip());
    server.stop();
    assert_core_starts(&bitcoind, &place, 0, Some(listed.height()));
}
