//! SwiftSync with `--prune`: blocks that would be deleted again are summed and not stored, whatever
//! interrupts it, and however it ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use apus_disk::Disk;
use apus_hash::Hash;
use apus_net::{PeerOptions, Target};
use apus_node as node;
use apus_node::Run;
use apus_node::SwiftSyncOptions;
use apus_node::{AssumeValid, Options, Prune};
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Observer, Progress};
use apus_store::{DataDir, DataDirOptions, IndexRecord};
use apus_swiftsync::{Format, Numbering};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testchain::{Chain, Rng, Spec};
use apus_testpeer::{Honest, ServedChain, Server};
use apus_tools as tools;

use crate::pruned::{SPARE, assert_holds_together, files, options, world};
use crate::support::Place;
use crate::support::block_index::{CheckedIndex, check_block_index};
use crate::support::killed::{NEVER, is_killed, killing_after};
use crate::support::model::{Hinted, encode};
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::other_process;
use crate::support::swift::{Mode, World, small_chain};

/// Options of a SwiftSync that prunes to `target` bytes.
pub fn swift_options(world: &World, place: &Place, target: u64) -> Options {
    Options {
        method: Some(Method::SwiftSync),
        assumevalid: AssumeValid::Block(world.tip()),
        swiftsync: SwiftSyncOptions {
            hints: Some(world.write_hints(place, world.height())),
            ..options(place, Some(Prune::Target(target))).swiftsync
        },
        ..options(place, Some(Prune::Target(target)))
    }
}

fn sync(options: &Options, sources: &[PathBuf]) -> Summary {
    sync::sync(options, sources, Watch::default()).unwrap()
}

/// The records of all blocks.
fn records(place: &Place) -> BTreeMap<Hash, IndexRecord> {
    let options = DataDirOptions { read_only: true, prune: true, ..DataDirOptions::default() };
    let dir = DataDir::open(&Disk::new(), &place.datadir(), &place.network, options).unwrap();
    let (_, index, _) = dir.open_blocks().unwrap();
    index.entries.iter().map(|entry| (entry.hash, entry.record)).collect()
}

/// Whether genesis is stored: bitcoind needs it as long as there is no UTXO set.
pub fn has_genesis(world: &World, place: &Place) -> bool {
    let records = records(place);
    // Before the first write of the index there is nothing.
    records.is_empty() || records[&world.hash(0)].block_pos().is_some()
}

/// Bytes of the blk files.
fn bytes_of_blocks(place: &Place) -> u64 {
    let path = |number: &u32| place.network_dir().join(format!("blocks/blk{number:05}.dat"));
    let numbers = place.network_dir().join("blocks").is_dir().then(|| files(place));
    let bytes = |number: &u32| path(number).metadata().map_or(0, |file| file.len());
    numbers.iter().flatten().map(bytes).sum()
}

/// Keeps the most bytes of blocks that there were at any report, and what the user is told.
struct Watcher<'a> {
    place: &'a Place,
    most: Mutex<u64>,
    told: Mutex<String>,
}

impl<'a> Watcher<'a> {
    fn new(place: &'a Place) -> Self {
        Self { place, most: Mutex::default(), told: Mutex::default() }
    }
}

impl Observer for Watcher<'_> {
    fn observe(&self, _: &Progress) {
        let mut most = self.most.lock().unwrap();
        *most = (*most).max(bytes_of_blocks(self.place));
    }

    fn note(&self, text: &str) {
        *self.told.lock().unwrap() += text;
    }
}

/// A server of all blocks, and the options of who asks it.
fn served(world: &World) -> (Server, PeerOptions) {
    let chain = ServedChain::of(world.blocks.clone());
    let magic = world.place().network.magic;
    let server = Server::start(magic, true, move || Box::new(Honest::new(chain.clone()))).unwrap();
    let connect = vec![Target::parse(&server.address().to_string(), 0).unwrap()];
    let patience = Duration::from_secs(6);
    (server, PeerOptions { connect, patience, ..PeerOptions::new(0) })
}

#[test]
fn what_would_be_deleted_is_never_stored() {
    let world = world();
    let (_server, peers) = served(&world);
    // All stored, and then deleted.
    let old = world.place();
    let old_options = swift_options(&world, &old, u64::MAX);
    let source = old.write("blocks", &world.blocks);
    sync(&old_options, std::slice::from_ref(&source));
    let utxo_hash = old.utxo_hash();
    let whole = bytes_of_blocks(&old);
    let then = Options { prune: Some(Prune::Target(SPARE)), ..old_options };
    sync(&then, &[]);
    let old_from = assert_holds_together(&old);
    let old_records = records(&old);
    assert!(old_from > 300, "{old_from}");
    let order = world.shuffled(3);
    let source = old.write("shuffled", order.iter().map(|at| &world.blocks[*at]));
    let most_of_it = SPARE + whole / 3 * 2;
    // The sizes of so few blocks of peers are not known before they come.
    for (sources, peers, target, kept) in [
        (vec![source.clone()], None, SPARE, 288..=288),
        (vec![source], None, most_of_it, 350..=440),
        (vec![], Some(peers), SPARE, 288..=288),
    ] {
        let place = world.place();
        let options = Options { peers, ..swift_options(&world, &place, target) };
        let watch = Watcher::new(&place);
        let summary =
            sync::sync(&options, &sources, Watch::new(&watch, &AtomicBool::new(false))).unwrap();
        assert_eq!(summary.best_block, world.tip());
        assert_eq!(place.utxo_hash(), utxo_hash);
        let told = watch.told.into_inner().unwrap();
        let from = told.split_once("Blocks below height ").expect(&told).1;
        let from: u32 = from.split_once(" are not stored").expect(&told).0.parse().unwrap();
        let stored = world.height() + 1 - from;
        assert!(kept.contains(&stored), "{stored} for {target}");
        // Undo data takes some of the room, and then a file goes at the end.
        let left = world.height() + 1 - assert_holds_together(&place);
        assert!((288..=stored).contains(&left), "{left} of {stored}");
        // Files grow by 16 KiB, and end where the next block does not fit.
        let kept: usize = world.blocks[from as usize..].iter().map(Vec::len).sum();
        let most = watch.most.into_inner().unwrap();
        assert!(most < kept as u64 + whole / 10, "{most} for {kept} of {whole}");
        // To bitcoind, the blocks that neither has are the same.
        let records = records(&place);
        let lacks = |hash: &Hash| {
            let both = [&records[hash], &old_records[hash]];
            both.iter().all(|record| record.block_pos().is_none())
        };
        let heights = 1..from.min(old_from);
        let dropped: Vec<Hash> = heights.map(|at| world.hash(at)).filter(lacks).collect();
        assert!(dropped.len() > 250, "{}", dropped.len());
        for hash in dropped {
            assert_eq!(records[&hash], old_records[&hash]);
        }
    }
}

#[test]
fn what_was_saved_without_blocks_serves_runs_that_prune_alone() {
    let world = world();
    let all_bytes: usize = world.blocks[1..].iter().map(Vec::len).sum();
    let interrupted = || {
        for _ in 0..30 {
            let place = world.place();
            let source = place.write("blocks", &world.blocks);
            let options = swift_options(&world, &place, SPARE);
            let stop = AtomicBool::new(false);
            let at_work =
                |p: &Progress| p.phase == apus_progress::Phase::SwiftSync && p.blocks > 100;
            let observer = crate::support::stop_when::StopWhen(&stop, at_work);
            let sources = [source];
            let summary = sync::sync(&options, &sources, Watch::new(&observer, &stop)).unwrap();
            if summary.interrupted {
                assert!(summary.saved.and_then(sync::SavedSync::swiftsync).unwrap().done > 100);
                let named = check_block_index(&place).files;
                assert_eq!(named, files(&place));
                assert!(has_genesis(&world, &place));
                return (place, options, sources);
            }
        }
        panic!("it ends before it can be asked to stop");
    };
    // bitcoind asks for -prune from then on, and so does Apus.
    let (place, options, sources) = interrupted();
    let not = Options { prune: None, ..options.clone() };
    let error = sync::sync(&not, &sources, Watch::default()).unwrap_err();
    assert!(error.to_string().contains("--prune"), "{error}");
    assert!(place.swift_dir().join("progress").is_file());
    for (prune, keeps) in [(SPARE, true), (u64::MAX, true), (0, false)] {
        let (place, options, sources) = interrupted();
        let prune = if prune == 0 { Prune::Manual } else { Prune::Target(prune) };
        let again = Options { prune: Some(prune), ..options };
        let summary = sync(&again, &sources);
        assert_eq!(summary.best_block, world.tip());
        assert_eq!((summary.counts.bytes as usize) < all_bytes, keeps, "{prune:?}");
        let from = assert_holds_together(&place);
        // By hand, all that this run has summed is stored.
        assert_eq!(from > 1, keeps, "{prune:?}: {from}");
        assert!(world.height() + 1 - from >= 288);
    }
    // What a run stored that did not prune serves one that does.
    let place = world.place();
    let source = [place.write("blocks", &world.blocks)];
    let options = swift_options(&world, &place, SPARE);
    let stop = AtomicBool::new(false);
    let at_work = |p: &Progress| p.phase == apus_progress::Phase::SwiftSync && p.blocks > 100;
    let observer = crate::support::stop_when::StopWhen(&stop, at_work);
    let first = Options { prune: None, ..options.clone() };
    let first = sync::sync(&first, &source, Watch::new(&observer, &stop)).unwrap();
    let summary = sync(&options, &source);
    assert_eq!((summary.counts.bytes as usize) < all_bytes, first.interrupted);
    assert!(world.height() + 1 - assert_holds_together(&place) < 320);
}

#[test]
fn wrong_hints_cost_the_blocks_and_nothing_else() {
    let world = world();
    let place = world.place();
    let source = [place.write("blocks", &world.blocks)];
    let right = swift_options(&world, &place, SPARE);
    // An unspent output is said to be spent; and later, one that does not exist is named.
    let mut hints = world.model.hints(world.height(), Numbering::Spendable);
    assert!(hints[200].0.pop().is_some());
    let with = |hints: &[Hinted], name: &str, place: &Place| Options {
        datadir: place.datadir(),
        swiftsync: SwiftSyncOptions {
            hints: Some(place.write_bytes(name, &encode(hints, Format::Bip456))),
            ..right.swiftsync.clone()
        },
        ..right.clone()
    };
    // The blocks that are not stored are still in their source.
    let corrected = world.place();
    assert_eq!(sync(&with(&hints, "by_one.hints", &corrected), &source).best_block, world.tip());
    assert_eq!(corrected.utxo_hash(), world.in_order().utxo_hash());
    let (unspent, outputs) = hints.last_mut().unwrap();
    unspent.push(*outputs);
    *outputs += 1;
    let wrong = with(&hints, "wrong.hints", &place);
    let error = sync::sync(&wrong, &source, Watch::default()).unwrap_err();
    assert!(matches!(error, node::SyncError::Hints { .. }), "{error}");
    let named = check_block_index(&place).files;
    assert_eq!(named, files(&place));
    assert!(has_genesis(&world, &place));
    assert_eq!(tools::status(&right).unwrap().height, 0);
    assert!(!place.swift_dir().exists());
    let utxo_hash = world.in_order().utxo_hash();
    for options in [
        Options {
            method: None,
            swiftsync: SwiftSyncOptions { hints: None, ..right.swiftsync.clone() },
            ..right.clone()
        },
        right,
    ] {
        let place = place.copy();
        let options = Options { datadir: place.datadir(), ..options };
        let summary = sync(&options, &source);
        assert_eq!(summary.best_block, world.tip());
        assert_eq!(summary.counts.blocks, u64::from(world.height()));
        assert_eq!(place.utxo_hash(), utxo_hash);
        assert!(assert_holds_together(&place) > 300);
    }
}

#[test]
fn with_scripts_checked_or_beside_another_set_all_are_stored() {
    let world = world();
    for (mode, stop_at) in [(Mode::Full, None), (Mode::AssumeValid, Some(150))] {
        let place = world.place();
        let sources = [world.write_source(&place, "source", &world.file_order())];
        let mut options = swift_options(&world, &place, SPARE);
        if mode == Mode::Full {
            options.assumevalid = AssumeValid::Nothing;
        }
        if stop_at.is_some() {
            let hints = None;
            let method = Method::InOrder;
            let first = Options {
                stop_at_height: stop_at,
                method: Some(method),
                swiftsync: SwiftSyncOptions { hints, ..options.swiftsync.clone() },
                ..options.clone()
            };
            assert_eq!(sync(&Options { prune: None, ..first }, &sources).height, 150);
        }
        let watch = Watcher::new(&place);
        let summary =
            sync::sync(&options, &sources, Watch::new(&watch, &AtomicBool::new(false))).unwrap();
        assert_eq!(summary.best_block, world.tip());
        let told = watch.told.into_inner().unwrap();
        assert!(told.contains("All blocks are stored: --prune deletes old ones"), "{told}");
        let from = assert_holds_together(&place);
        assert!(from > 300, "{mode:?}: {from}");
        let pruned = summary.pruned.unwrap();
        assert_eq!(pruned.blocks_from, from);
        assert!(pruned.freed_bytes > 1_000_000);
    }
}

/// Blocks of all heights that are asked for before the others, to learn their sizes, keep no file.
#[test]
fn a_sample_of_blocks_is_not_stored() {
    let spec = Spec { quiet_blocks: 2_100, ..Spec::mainnet_like(43, 20, 3_000) };
    let world = World::of(&Chain::new(spec));
    let (_server, peers) = served(&world);
    let place = world.place();
    let options = Options { peers: Some(peers), ..options(&place, Some(Prune::Target(SPARE))) };
    let summary = sync(&options, &[]);
    assert_eq!(summary.best_block, world.tip());
    assert_holds_together(&place);
    assert!(!files(&place).contains(&0), "{:?}", files(&place));
}

/// A chain of which 155 blocks are not stored.
fn small_world() -> World {
    World::of(&small_chain(44, 330, 2_500))
}

#[test]
fn power_may_fail_at_any_step() {
    let world = small_world();
    let utxo_hash = world.in_order().utxo_hash();
    let run = |place: &Place, disk: &Disk, save_every| {
        let options = Options { save_every, ..swift_options(&world, place, SPARE) };
        let source = [place.write("blocks", &world.blocks)];
        sync::sync_on(&Run::on(disk, &options), &source, Watch::default())
    };
    let mut cuts = 0;
    for (save_every, every) in [(Duration::ZERO, 240), (Duration::MAX, 29)] {
        let (disk, counter) = counted();
        run(&world.place(), &disk, save_every).unwrap();
        for power in power_cuts(20..=counter.steps(), every) {
            let place = world.place();
            let _ = run(&place, &failing(&power), save_every);
            power.lose_unsynced().unwrap();
            if place.network_dir().join("chainstate/CURRENT").is_file() {
                check_block_index(&place);
                let is_empty = tools::status(&place.in_order()).unwrap().height == 0;
                assert!(!is_empty || has_genesis(&world, &place), "{power:?}");
            }
            let summary = run(&place, &Disk::new(), Duration::MAX).unwrap();
            assert_eq!(summary.best_block, world.tip(), "{power:?}");
            assert_eq!(place.utxo_hash(), utxo_hash, "{power:?}");
            let CheckedIndex { from, files: named, .. } = check_block_index(&place);
            assert_eq!(world.height() + 1 - from, 288, "{power:?}");
            // A file that was begun before the cut is used again, if so many are needed again.
            assert!(named.is_subset(&files(&place)), "{power:?}");
            cuts += 1;
        }
    }
    println!("{cuts} power cuts");
}

/// The environment variable that gives [`killed_child`] its task: the root directory, and after how
/// many changes to files since its first save it kills itself.
const CHILD: &str = "APUS_TEST_SWIFTSYNC_PRUNED_CHILD";

/// Not a test, but the process that the test below starts, and that kills itself.
#[test]
#[ignore = "a process that another test starts, and that kills itself"]
fn killed_child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (root, changes) = told.split_once('|').unwrap();
    let world = small_world();
    let place = Place::new(apus_wire::Chain::Regtest);
    let root = Path::new(root);
    let options = Options {
        datadir: root.join("datadir"),
        save_every: Duration::ZERO,
        ..swift_options(&world, &place, SPARE)
    };
    let disk = killing_after("swiftsync/progress", changes.parse().unwrap());
    sync::sync_on(&Run::on(&disk, &options), &[root.join("blocks")], Watch::default()).unwrap();
}

#[test]
fn killed_after_it_has_saved_it_carries_on() {
    let world = small_world();
    let utxo_hash = world.in_order().utxo_hash();
    let place = world.place();
    place.write("blocks", &world.blocks);
    let run = |changes: u64| {
        let told = format!("{}|{changes}", place.root().display());
        is_killed(other_process("swiftsync::pruned::killed_child", CHILD, &told))
    };
    let progress = place.swift_dir().join("progress");
    let mut saved = 0;
    let mut rng = Rng::new(44, 1);
    for _ in 0..5 {
        saved += usize::from(run(rng.between(1, 30)) && progress.is_file());
        check_block_index(&place);
    }
    assert!(saved > 0, "it was killed while there was something to carry on from");
    assert!(!run(NEVER));
    assert_eq!(place.utxo_hash(), utxo_hash);
    assert_eq!(world.height() + 1 - assert_holds_together(&place), 288);
}
