//! Directories that Apus has pruned and bitcoind carries on with, and the other way round.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use apus_disk::Disk;
use apus_hash::Hash;
use apus_net::{PeerOptions, Target};
use apus_node as node;
use apus_node::SwiftSyncOptions;
use apus_node::{Options, Prune, RuleGroup};
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_store::{DataDir, DataDirOptions, FileInfo, IndexRecord};
use apus_sync as sync;
use apus_tools as tools;

use super::daemon::{Daemon, program_in};
use crate::pruned::{SPARE, files, options, sync_with, world};
use crate::support::Place;
use crate::support::program::{apus, assert_ends};
use crate::support::stop_when::StopWhen;
use crate::support::swift::{World, signed_chain};
use crate::support::waiting::wait_until;
use crate::swiftsync::pruned::swift_options;

/// Options of a bitcoind whose block files are small, and that prunes by hand.
const SMALL: [&str; 2] = ["-fastprune", "-prune=1"];

/// The block index: what is stored of each block and in each file.
fn index_of(place: &Place) -> (BTreeMap<Hash, IndexRecord>, Vec<FileInfo>) {
    let options = DataDirOptions { read_only: true, prune: true, ..DataDirOptions::default() };
    let dir = DataDir::open(&Disk::new(), &place.datadir(), &place.network, options).unwrap();
    let (_, index, _) = dir.open_blocks().unwrap();
    assert!(index.pruned);
    let records = index.entries.iter().map(|entry| (entry.hash, entry.record));
    (records.collect(), index.files)
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// Panics unless bitcoind starts on the directory, finds it in order, and has the blocks that Apus
/// says are there. Mines a block.
#[track_caller]
fn assert_core_carries_on(bitcoind: &Path, place: &Place, options: &[&str]) {
    let status = tools::status(&place.in_order()).unwrap();
    let muhash = place.muhash().0;
    let daemon = Daemon::start(bitcoind, place, options);
    let info = json(&daemon.ask(&["getblockchaininfo"]));
    assert_eq!(info["bestblockhash"], status.best_block.to_string());
    // To Core a block without its undo data is pruned, too.
    let from = status.blocks_from.max(status.undo_from);
    assert_eq!((&info["pruned"], &info["pruneheight"]), (&true.into(), &from.into()));
    assert_eq!(daemon.ask(&["verifychain", "4", "200"]), "true");
    // Counted, whatever an index says that may not be ready.
    let count = ["-named", "gettxoutsetinfo", "hash_type=muhash", "use_index=false"];
    let set = json(&daemon.ask(&count));
    assert_eq!(set["muhash"], muhash.as_str());
    daemon.mine(1, '3');
    daemon.stop();
}

#[test]
fn core_carries_on_with_what_was_pruned() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let world = world();
    for way in [Method::InOrder, Method::SwiftSync] {
        let place = world.place();
        let hints = (way == Method::SwiftSync).then(|| world.write_hints(&place, world.height()));
        let assumevalid = match way {
            Method::SwiftSync => node::AssumeValid::Block(world.tip()),
            _ => node::AssumeValid::Nothing,
        };
        let target = options(&place, Some(Prune::Target(SPARE)));
        let target = Options {
            method: Some(way),
            assumevalid,
            swiftsync: SwiftSyncOptions { hints, ..target.swiftsync.clone() },
            ..target
        };
        let summary = sync_with(&place, &target, &world.blocks);
        assert!(summary.pruned.unwrap().blocks_from > 200, "{way:?}");
        assert_core_carries_on(&bitcoind, &place, &SMALL);
        // And back: the block that was mined is there, and the next one comes from a file.
        let height = tools::status(&target).unwrap().height;
        assert_eq!(height, world.height() + 1, "{way:?}");
        let again = Options {
            method: Some(Method::InOrder),
            swiftsync: SwiftSyncOptions { hints: None, ..target.swiftsync.clone() },
            ..target
        };
        let summary = sync::sync(&again, &[], Watch::default()).unwrap();
        assert_eq!(summary.height, height, "{way:?}");
    }
}

/// A node that prunes is asked for the last blocks alone: it hangs up on a peer that wants more.
#[test]
fn a_pruned_core_serves_a_gap_to_one_who_names_it() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let world = world();
    let pruned = world.place();
    sync_with(&pruned, &options(&pruned, Some(Prune::Target(SPARE))), &world.blocks);
    let server = Daemon::start(&bitcoind, &pruned, &SMALL);
    for gap in [285, 3] {
        let place = world.place();
        place.sync_blocks("first", &world.blocks[..=(world.height() - gap) as usize]);
        let connect = vec![Target::parse(&server.address(), 0).unwrap()];
        let peers = Some(PeerOptions { connect, ..PeerOptions::new(0) });
        let options = Options { peers, ..place.in_order() };
        let summary = sync::sync(&options, &[], Watch::default()).unwrap();
        assert_eq!((summary.height, summary.best_block), (world.height(), world.tip()));
        let [peer] = &summary.peers[..] else { panic!("{:?}", summary.peers) };
        assert_eq!((peer.blocks, &peer.ended), (gap.into(), &None));
    }
    server.stop();
}

/// Options of a SwiftSync of `world` from this bitcoind, which stores the last 288 blocks.
fn from_core(world: &World, place: &Place, server: &Daemon, witness: bool) -> Options {
    let connect = vec![Target::parse(&server.address(), 0).unwrap()];
    let peers = Some(PeerOptions { connect, ..PeerOptions::new(0) });
    Options {
        peers,
        swiftsync: SwiftSyncOptions { witness, ..swift_options(world, place, SPARE).swiftsync },
        ..swift_options(world, place, SPARE)
    }
}

/// bitcoind on all blocks of `world`.
fn serving(bitcoind: &Path, world: &World) -> (Place, Daemon) {
    let place = world.in_order();
    let daemon = Daemon::start(bitcoind, &place, &["-v2transport=1"]);
    (place, daemon)
}

#[test]
fn from_core_without_witnesses_and_back() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let world = World::of(&signed_chain(41, 590, 6_000));
    let (_place, server) = serving(&bitcoind, &world);
    let mut received = Vec::new();
    for witness in [true, false] {
        let place = world.place();
        let options = from_core(&world, &place, &server, witness);
        let summary = sync::sync(&options, &[], Watch::default()).unwrap();
        assert_eq!(summary.pruned.unwrap().blocks_from, world.height() - 287);
        received.push(summary.peers.iter().map(|peer| peer.bytes).sum::<u64>());
        let rules = summary.checked.not_checked().iter().flat_map(|blocks| blocks.rules);
        let is_stripped = rules.copied().any(|rule| rule == RuleGroup::WitnessCommitments);
        assert_eq!(is_stripped, !witness);
        assert_core_carries_on(&bitcoind, &place, &SMALL);
        let again = Options {
            method: Some(Method::InOrder),
            swiftsync: SwiftSyncOptions { hints: None, witness: true, ..options.swiftsync.clone() },
            ..options
        };
        let again = Options { peers: None, ..again };
        let summary = sync::sync(&again, &[], Watch::default()).unwrap();
        assert_eq!(summary.height, world.height() + 1);
    }
    assert!(received[1] * 10 < received[0] * 9, "{received:?}");
    server.stop();
}

/// bitcoind on the directory of a SwiftSync that was interrupted, or whose hints were wrong.
#[test]
fn core_begins_anew_where_a_swiftsync_has_not_ended() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let world = world();
    let (_place, server) = serving(&bitcoind, &world);
    for witness in [true, false] {
        let place = world.place();
        let options = from_core(&world, &place, &server, witness);
        let stop = AtomicBool::new(false);
        let at_work = |p: &Progress| p.phase == Phase::SwiftSync && p.blocks > 300;
        let summary =
            sync::sync(&options, &[], Watch::new(&StopWhen(&stop, at_work), &stop)).unwrap();
        if !summary.interrupted {
            println!("it was faster than the request to stop");
            continue;
        }
        assert!(index_of(&place).0.values().any(|r| r.tx_count > 0 && r.block_pos().is_none()));
        let saved = place.copy();
        let daemon = Daemon::start(&bitcoind, &place, &SMALL);
        assert_eq!(daemon.ask(&["getblockcount"]), "0");
        daemon.ask(&["addnode", &server.address(), "onetry"]);
        daemon.wait_for_tip(&world.tip());
        // All of its blocks are there now, and it knows where.
        assert_eq!(json(&daemon.ask(&["getblockchaininfo"]))["pruneheight"], 0);
        daemon.ask(&["pruneblockchain", "300"]);
        daemon.stop();
        assert_core_carries_on(&bitcoind, &place, &SMALL);
        // Apus carries its own work on.
        let options = Options { datadir: saved.datadir(), ..options };
        let summary = sync::sync(&options, &[], Watch::default()).unwrap();
        assert!(summary.counts.blocks < u64::from(world.height()));
        assert_core_carries_on(&bitcoind, &saved, &SMALL);
    }
    server.stop();
}

#[test]
fn the_same_files_go_as_with_core() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let world = world();
    let base = world.place();
    sync_with(&base, &options(&base, None), &world.blocks);
    let last = world.height() - 288;
    for height in [1, 150, 300, last - 1, last, last + 1, world.height()] {
        let ours = base.copy();
        let theirs = base.copy();
        let height = height.to_string();
        let pruned = apus(&ours, &["prune", "-fastprune", "--height", &height]);
        assert_ends(&pruned, 0, &[]);
        let daemon = Daemon::start(&bitcoind, &theirs, &SMALL);
        let answer: i64 = daemon.ask(&["pruneblockchain", &height]).parse().unwrap();
        daemon.stop();
        assert_eq!(files(&ours), files(&theirs), "{height}");
        let is_pruned = files(&ours) != files(&base);
        if is_pruned {
            assert_eq!(index_of(&ours), index_of(&theirs), "{height}");
            let status = tools::status(&ours.in_order()).unwrap();
            assert_eq!(i64::from(status.blocks_from), answer + 1, "{height}");
        }
        // What Core has pruned, Apus carries on with.
        let manual = options(&theirs, Some(Prune::Manual));
        let summary = sync::sync(&manual, &[], Watch::default()).unwrap();
        assert_eq!(summary.best_block, world.tip(), "{height}");
    }
}

#[test]
fn an_index_of_cores_holds_pruning_back() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let world = world();
    let place = world.place();
    let stop = Options { stop_at_height: Some(300), ..options(&place, None) };
    sync_with(&place, &stop, &world.blocks);
    let indexed = ["-fastprune", "-prune=1", "-coinstatsindex", "-blockfilterindex"];
    let daemon = Daemon::start(&bitcoind, &place, &indexed);
    wait_until("both indexes are synced", || {
        let info = json(&daemon.ask(&["getindexinfo"]));
        let indexes = info.as_object().unwrap();
        indexes.len() == 2 && indexes.values().all(|index| index["synced"] == true)
    });
    daemon.stop();
    let target = options(&place, Some(Prune::Target(SPARE)));
    let summary = sync_with(&place, &target, &world.blocks);
    let pruned = summary.pruned.unwrap();
    assert_eq!(pruned.held_at, Some(300));
    assert!((200..=290).contains(&pruned.blocks_from), "{pruned:?}");
    // The indexes start, and have all that they need.
    assert_core_carries_on(&bitcoind, &place, &indexed);
}
