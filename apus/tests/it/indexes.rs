//! `apus index`: what it leaves after reorganisations, interruptions, power cuts and damage.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use apus_disk::{Call, Disk};
use apus_node::{Options, Prune};
use apus_progress::Method;
use apus_progress::{Phase, Progress, Watch};
use apus_store::IndexKind;
use apus_testchain::Rng;
use apus_tools::{Indexed, index_on};
use apus_wire::{Chain as Network, Network as Parameters};

use crate::pruned::{SPARE, options, sync_with, world as long_world};
use crate::support::chains::{FIRST_TIP, branches, small, small_fork};
use crate::support::indexes::{Indexes, entries, indexed, of_active_chain, try_index};
use crate::support::killed::{Changes, NEVER, is_killed, killing_at};
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::{apus, assert_ends, other_process, stdout};
use crate::support::stop_when::StopWhen;
use crate::support::swift::{Mode, World};
use crate::support::{Place, change_file, regtest_chain, with_genesis};

/// Twenty times, a branch that is one block longer takes over, and the indexes follow.
#[test]
fn indexes_follow_twenty_reorganisations() {
    let main = with_genesis(small(5));
    let place = Place::new(Network::Regtest);
    place.sync_blocks("main", &main[..=FIRST_TIP as usize]);
    indexed(&place);
    for (turn, fork) in (1..).zip(branches()) {
        let summary = place.sync_blocks("fork", &fork);
        assert_eq!((summary.height, summary.disconnected > 0), (FIRST_TIP + turn, true));
        let found = indexed(&place);
        if turn % 6 == 0 {
            let alone = Place::new(Network::Regtest);
            assert_eq!(alone.sync_blocks("all", &fork).best_block, summary.best_block);
            of_active_chain(found).assert_equal(&of_active_chain(indexed(&alone)));
        }
    }
    // A lower tip, too.
    assert_ends(&apus(&place, &["rewind", "--height=140"]), 0, &[]);
    let alone = Place::new(Network::Regtest);
    alone.sync_blocks("main", &main[..141]);
    let mut low = of_active_chain(indexed(&place));
    low.filters.retain(|key, _| key[1..] <= 140u32.to_be_bytes()[..]);
    low.statistics.retain(|key, _| key[0] != b't' || key[1..] <= 140u32.to_be_bytes()[..]);
    low.assert_equal(&of_active_chain(indexed(&alone)));
}

/// Blocks stay where they are, so that indexes stay right.
#[test]
fn a_reindex_leaves_indexes_as_they_are() {
    let place = Place::new(Network::Regtest);
    place.sync_blocks("blocks", &with_genesis(small(5)));
    let before = indexed(&place);
    for how in ["--method=order", "--method=join", "--index"] {
        assert_ends(&apus(&place, &["reindex", how, "--assumevalid=0"]), 0, &[]);
        assert!(try_index(&place, &IndexKind::ALL).unwrap().lacked.is_empty(), "{how}");
        Indexes::read(&place.network_dir()).assert_equal(&before);
    }
}

#[test]
fn a_little_memory_gives_the_same_indexes() {
    let blocks = with_genesis(small(5));
    let place = Place::new(Network::Regtest);
    place.sync_blocks("blocks", &blocks);
    let small = place.copy();
    // Many partitions, most of them in the file.
    let options = Options { dbcache_bytes: 4 << 10, threads: 3, ..small.options() };
    apus_tools::index(&options, &IndexKind::ALL, None, Watch::default()).unwrap();
    let found = Indexes::read(&small.network_dir()).without_hashes();
    found.assert_equal(&indexed(&place).without_hashes());
}

/// Returns options with so little memory that a batch has few blocks, and with a save after each.
fn many_saves(place: &Place) -> Options {
    Options { dbcache_bytes: 4 << 10, save_every: Duration::ZERO, ..place.options() }
}

/// Returns options with a save after each of some batches.
fn some_saves(place: &Place) -> Options {
    Options { dbcache_bytes: 64 << 10, ..many_saves(place) }
}

/// Indexes until `is_there` says so; returns the result, and the lowest height that was read.
fn index_until(
    options: &Options,
    is_there: impl Fn(&Progress) -> bool + Sync,
) -> (Indexed, Option<u32>) {
    let stop = AtomicBool::new(false);
    let lowest = AtomicU32::new(u32::MAX);
    let observer = StopWhen(&stop, |progress: &Progress| {
        if progress.phase == Phase::ReadingForIndexes {
            lowest.fetch_min(progress.height, Relaxed);
        }
        is_there(progress)
    });
    let indexed = apus_tools::index(options, &IndexKind::ALL, None, Watch::new(&observer, &stop));
    let lowest = lowest.into_inner();
    (indexed.unwrap(), (lowest < u32::MAX).then_some(lowest))
}

/// Whether the blocks up to this height were read.
fn read(height: u32) -> impl Fn(&Progress) -> bool + Sync {
    move |progress| progress.phase == Phase::ReadingForIndexes && progress.height >= height
}

/// Returns the number of indexes whose unfinished work is saved.
fn saved(place: &Place) -> usize {
    unfinished(place).iter().filter(|name| name.ends_with(".saved")).count()
}

/// Returns the names of the files for unfinished work.
fn unfinished(place: &Place) -> Vec<String> {
    let mut names = Disk::new().list(place.network_dir().join("indexes")).unwrap();
    names.retain(|name| name.starts_with("apus-"));
    names
}

#[test]
fn an_interrupted_run_is_continued() {
    let place = Place::new(Network::Regtest);
    place.sync_blocks("blocks", &with_genesis(small(5)));
    let expected = indexed(&place.copy()).without_hashes();
    for save_every in [Duration::ZERO, Duration::MAX] {
        let place = place.copy();
        let options = Options { save_every, ..many_saves(&place) };
        let (first, lowest) = index_until(&options, read(60));
        assert!(first.interrupted && lowest.is_some_and(|height| height < 60));
        assert_eq!(saved(&place), 2);
        let (second, lowest) = index_until(&options, read(120));
        assert!(second.interrupted && lowest.is_some_and(|height| height > 60));
        let written = |progress: &Progress| progress.phase == Phase::WritingIndexes;
        let (third, lowest) = index_until(&options, written);
        assert!(third.interrupted && lowest.is_some_and(|height| height > 120));
        assert_eq!(saved(&place), 2);
        // Filters and statistics are complete, and no block is read again.
        let (last, lowest) = index_until(&options, |_| false);
        let lacked = last.lacked.into_iter().map(|(kind, _)| kind);
        assert!(lacked.eq([IndexKind::TxIndex, IndexKind::TxoSpenderIndex]));
        assert_eq!((last.interrupted, lowest), (false, None));
        assert_eq!(unfinished(&place), [""; 0]);
        Indexes::read(&place.network_dir()).without_hashes().assert_equal(&expected);
    }
}

#[test]
fn what_was_saved_on_another_branch_is_not_used() {
    let place = Place::new(Network::Regtest);
    place.sync_blocks("main", &with_genesis(small(5)));
    let (first, _) = index_until(&many_saves(&place), read(160));
    assert!(first.interrupted);
    place.sync_blocks("fork", &with_genesis(small_fork(5, 150, 60, 3)));
    let other = place.copy();
    for name in unfinished(&other) {
        std::fs::remove_file(other.network_dir().join("indexes").join(name)).unwrap();
    }
    indexed(&place).without_hashes().assert_equal(&indexed(&other).without_hashes());
}

#[test]
fn saved_entries_that_are_damaged_are_collected_again() {
    let place = Place::new(Network::Regtest);
    place.sync_blocks("blocks", &with_genesis(small(5)));
    let expected = indexed(&place.copy()).without_hashes();
    for (name, at) in [("apus-txindex.saved", 20), ("apus-txindex.sort", 20)] {
        let place = place.copy();
        index_until(&many_saves(&place), read(100));
        change_file(&place.network_dir().join("indexes").join(name), |bytes| bytes[at] ^= 1);
        if name.ends_with("sort") {
            let error = try_index(&place, &IndexKind::ALL).unwrap_err().to_string();
            assert!(error.contains("apus-txindex.sort"), "{error}");
        }
        indexed(&place).without_hashes().assert_equal(&expected);
    }
}

#[test]
fn power_may_fail_at_any_step_of_an_index() {
    let blocks = with_genesis(small(5));
    let new = Place::new(Network::Regtest);
    new.sync_blocks("blocks", &blocks);
    let begun = Place::new(Network::Regtest);
    begun.sync_blocks("begin", &blocks[..171]);
    indexed(&begun);
    begun.sync_blocks("blocks", &blocks);
    let expected = of_active_chain(indexed(&new.copy()));
    new.shrink();
    cut_power(&new, 97, some_saves, &expected);
    cut_power(&new, 11, Place::options, &expected);
    begun.shrink();
    cut_power(&begun, 7, Place::options, &expected);
}

/// Cuts the power at every `n`th step of an index, which another run then finishes.
fn cut_power(base: &Place, every: u64, options: fn(&Place) -> Options, expected: &Indexes) {
    let run = |place: &Place, disk: &Disk| {
        index_on(disk, &options(place), &IndexKind::ALL, None, Watch::default())
    };
    let (disk, counter) = counted();
    run(&base.copy(), &disk).unwrap();
    let mut cuts = 0;
    for power in power_cuts(1..=counter.steps(), every) {
        let place = base.copy();
        let coins = place.utxo_hash();
        let _ = run(&place, &failing(&power));
        power.lose_unsynced().unwrap();
        assert_eq!(place.utxo_hash(), coins, "{power:?}");
        run(&place, &Disk::new()).unwrap();
        of_active_chain(Indexes::read(&place.network_dir())).assert_equal(expected);
        assert_eq!(unfinished(&place), [""; 0], "{power:?}");
        cuts += 1;
    }
    println!("{cuts} power cuts, of {} steps", counter.steps());
}

/// Tells [`killed_child`] at which change to kill itself, and where the data directory is.
const CHILD: &str = "APUS_TEST_INDEX_CHILD";

/// Not a test, but the process that the next test starts, and that kills itself. It saves more
/// often than the program does.
#[test]
#[ignore = "a process that another test starts, and that kills itself"]
fn killed_child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (number, datadir) = told.split_once('|').unwrap();
    let network = Parameters::new(Network::Regtest);
    let options = killed_options(Options::new(Path::new(datadir).to_path_buf(), network));
    let disk = killing_at(number.parse().unwrap());
    index_on(&disk, &options, &IndexKind::ALL, None, Watch::default()).unwrap();
}

fn killed_options(base: Options) -> Options {
    Options { dbcache_bytes: 64 << 10, save_every: Duration::ZERO, threads: 2, ..base }
}

/// A process that indexes a place and kills itself at the change to files of this number.
fn child_of(place: &Place, number: u64) -> Command {
    let told = format!("{number}|{}", place.datadir().display());
    other_process("indexes::killed_child", CHILD, &told)
}

/// Killed at any of its changes to files, again while it carries on, and then left alone.
#[test]
fn killed_at_any_moment_it_carries_on() {
    let place = Place::new(Network::Regtest);
    place.sync_blocks("blocks", &with_genesis(small(5)));
    place.shrink();
    let whole = place.copy();
    let (disk, changes) = Changes::counted();
    index_on(&disk, &killed_options(whole.options()), &IndexKind::ALL, None, Watch::default())
        .unwrap();
    let expected = Indexes::read(&whole.network_dir()).without_hashes();
    let mut rng = Rng::new(34, 1);
    let mut carried_on = 0;
    let all = changes.count();
    let coins = place.utxo_hash();
    let parts = 6;
    for part in 0..parts {
        let place = place.copy();
        let number = all * part / parts + rng.between(1, all / parts);
        assert!(is_killed(child_of(&place, number.min(all - all / 20))), "{number} of {all}");
        carried_on += usize::from(saved(&place) > 0);
        is_killed(child_of(&place, rng.between(1, all / 4)));
        let names = IndexKind::ALL.map(IndexKind::name);
        match part % 2 {
            0 => assert!(!is_killed(child_of(&place, NEVER))),
            _ => assert_ends(&apus(&place, &[&["index"], &names[..]].concat()), 0, &[]),
        }
        Indexes::read(&place.network_dir()).without_hashes().assert_equal(&expected);
        assert_eq!(place.utxo_hash(), coins, "{number} of {all}");
        assert_eq!(unfinished(&place), [""; 0], "{number} of {all}");
    }
    assert!(carried_on > 0, "{carried_on} of {parts} had something to carry on from");
}

#[test]
fn a_failing_disk_or_a_damaged_block_ends_it() {
    let place = Place::new(Network::Regtest);
    place.sync_blocks("blocks", &with_genesis(small(5)));
    let coins = place.utxo_hash();
    for (call, number) in [(Call::Write, 3), (Call::Write, 9), (Call::Sync, 4), (Call::Allocate, 0)]
    {
        let disk = Disk::failing(call, number..u64::MAX);
        let failed = index_on(&disk, &place.options(), &IndexKind::ALL, None, Watch::default());
        assert!(failed.is_err(), "{call:?} {number}");
        assert_eq!(place.utxo_hash(), coins);
    }
    let good = place.copy();
    // A block far below those that are checked first.
    change_file(&place.network_dir().join("blocks/blk00000.dat"), |bytes| bytes[40_000] ^= 1);
    let error = try_index(&place, &IndexKind::ALL).unwrap_err().to_string();
    assert!(error.contains("blk00000.dat"), "{error}");
    indexed(&good);
}

#[test]
fn what_cannot_be_indexed_is_refused() {
    let none = Place::new(Network::Regtest);
    assert_ends(&apus(&none, &["index", "txindex"]), 1, &["there is no such directory"]);
    assert_ends(&apus(&none, &["index"]), 2, &["NAME"]);
    assert_ends(&apus(&none, &["index", "addrindex"]), 2, &["txospenderindex"]);
    let world = long_world();
    let pruned = world.place();
    sync_with(&pruned, &options(&pruned, Some(Prune::Target(SPARE))), &world.blocks);
    for (name, words) in [
        ("txindex", "Prune mode is incompatible with -txindex"),
        ("txospenderindex", "Prune mode is incompatible with -txospenderindex"),
        ("blockfilterindex", "is not stored here, and the index needs it"),
        ("coinstatsindex", "is not stored here, and the index needs it"),
    ] {
        assert_ends(&apus(&pruned, &["index", name]), 1, &[words]);
    }
    let swift = world.swift(Mode::AssumeValid, world.height());
    let words = ["the undo data of the block", "(coinstatsindex)", "`apus reindex` writes"];
    assert_ends(&apus(&swift, &["index", "coinstatsindex"]), 1, &words);
    assert_ends(&apus(&swift, &["index", "txindex", "txospenderindex"]), 0, &[]);
}

#[test]
fn the_report_names_what_was_indexed() {
    let place = Place::new(Network::Regtest);
    place.sync_blocks("blocks", &regtest_chain());
    let output = apus(&place, &["index", "coinstatsindex", "txindex"]);
    assert_ends(&output, 0, &[]);
    let text = stdout(&output);
    assert!(text.contains("txindex (+207 blocks), coinstatsindex (+207 blocks)"), "{text}");
    let again = stdout(&apus(&place, &["index", "txindex", "coinstatsindex"]));
    assert!(again.starts_with("Complete already, up to height 206\ntxindex up to"), "{again}");
    let json = stdout(&apus(&place, &["index", "blockfilterindex", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["indexes"][0]["name"], "blockfilterindex");
    assert_eq!((&json["height"], &json["interrupted"]), (&206.into(), &false.into()));
}

#[test]
fn a_sync_builds_the_indexes_that_its_options_name() {
    let blocks = with_genesis(small(5));
    let expected = Place::new(Network::Regtest);
    expected.sync_blocks("blocks", &blocks);
    let expected = of_active_chain(indexed(&expected));
    for method in [Method::InOrder, Method::Join] {
        let place = Place::new(Network::Regtest);
        let base = Options { method: Some(method), ..place.options() };
        let options = Options { indexes: IndexKind::ALL.to_vec(), ..base.with_join_depth(0) };
        // Half of the chain, and then the rest.
        for blocks in [&blocks[..160], &blocks] {
            let source = place.write("blocks", blocks);
            apus_sync::sync(&options, &[source], Watch::default()).unwrap();
        }
        of_active_chain(Indexes::read(&place.network_dir())).assert_equal(&expected);
        assert!(try_index(&place, &IndexKind::ALL).unwrap().lacked.is_empty());
    }
}

#[test]
fn a_swiftsync_that_checks_all_builds_all_indexes() {
    let world = World::new(Network::Regtest, with_genesis(small(5)));
    let in_order = world.in_order();
    let place = world.place();
    let hints = world.write_hints(&place, 190);
    let source = world.write_source(&place, "source", &world.shuffled(7));
    let options =
        Options { indexes: IndexKind::ALL.to_vec(), ..world.options(&place, Mode::Full, &hints) };
    apus_sync::sync(&options, &[source], Watch::default()).unwrap();
    assert!(place.undo() == in_order.undo(), "the undo data of every block is written");
    let built = Indexes::read(&place.network_dir());
    of_active_chain(indexed(&in_order)).assert_equal(&of_active_chain(built));
    // The same places of transactions, which depend on where the blocks are, as without the sync.
    let built = Indexes::read(&place.network_dir()).without_hashes();
    std::fs::remove_dir_all(place.network_dir().join("indexes")).unwrap();
    indexed(&place).without_hashes().assert_equal(&built);
}

#[test]
fn indexes_are_named_by_options_and_settings() {
    let place = Place::new(Network::Regtest);
    let blocks = place.write("blocks", &regtest_chain());
    std::fs::create_dir_all(place.datadir()).unwrap();
    let conf = "[regtest]\ntxindex=1\nblockfilterindex=basic\ncoinstatsindex=1\n";
    std::fs::write(place.datadir().join("bitcoin.conf"), conf).unwrap();
    let sync = |more: &[&str]| {
        let from = blocks.to_str().unwrap();
        apus(&place, &[&["sync", "--from", from][..], more].concat())
    };
    assert_ends(&sync(&["--txospenderindex", "--coinstatsindex=0"]), 0, &["txindex=1"]);
    let there = |kind: IndexKind| kind.database(&place.network_dir()).exists();
    assert_eq!(IndexKind::ALL.map(there), [true, true, true, false]);
    assert_ends(&sync(&["--blockfilterindex=extended"]), 2, &["blockfilterindex=extended"]);
    assert_ends(&sync(&["--prune=550"]), 2, &["--prune=550 deletes blocks, and txindex from "]);
    let hints = ["--hints=x", "--coinstatsindex"];
    assert_ends(&sync(&hints), 2, &["--coinstatsindex needs undo data, and a SwiftSync"]);
    let checked = [&hints[..], &["--assumevalid=0", "--txindex=0"]].concat();
    assert_ends(&sync(&checked), 1, &["x: "]);
}

/// Pruning waits for an index that has not read the blocks, and begins when it has.
#[test]
fn pruning_waits_for_the_indexes_of_a_sync() {
    let world = long_world();
    let place = world.place();
    let indexes = vec![IndexKind::BlockFilterIndex, IndexKind::CoinStatsIndex];
    let options = Options { indexes, ..options(&place, Some(Prune::Target(SPARE))) };
    let summary = sync_with(&place, &options, &world.blocks);
    assert!(summary.pruned.is_some_and(|pruned| pruned.freed_bytes > 0), "{:?}", summary.pruned);
    let whole = world.place();
    sync_with(&whole, &crate::pruned::options(&whole, None), &world.blocks);
    let kinds = [IndexKind::BlockFilterIndex, IndexKind::CoinStatsIndex];
    apus_tools::index(&whole.options(), &kinds, None, Watch::default()).unwrap();
    let heights = |place: &Place, kind| entries(&place.network_dir(), kind);
    for kind in kinds {
        assert!(heights(&place, kind) == heights(&whole, kind), "{}", kind.name());
    }
}

#[test]
fn statistics_of_a_height_need_the_index() {
    let place = Place::new(Network::Regtest);
    place.sync_blocks("blocks", &regtest_chain());
    let ask = |more: &[&str]| apus(&place, &[&["txoutset", "info"][..], more].concat());
    assert_ends(&ask(&["--height=9"]), 1, &["`apus index coinstatsindex` builds it"]);
    assert_ends(&ask(&["--height=207"]), 1, &["above the tip, which is at height 206"]);
    assert_ends(&ask(&["--height=9", "--hash=hash_serialized_3"]), 2, &["of the tip alone"]);
    try_index(&place, &[IndexKind::CoinStatsIndex]).unwrap();
    let json = |output| serde_json::from_str::<serde_json::Value>(&stdout(&output)).unwrap();
    let tip = json(ask(&["--hash=muhash"]));
    let at_tip = json(ask(&["--height=206"]));
    for name in ["height", "bestblock", "txouts", "bogosize", "muhash", "total_amount"] {
        assert_eq!(tip[name], at_tip[name], "{name}");
    }
    let genesis = json(ask(&["--height=0", "--hash=none"]));
    assert_eq!(genesis["block_info"]["unspendables"]["genesis_block"], 50.0);
    assert_eq!((&genesis["txouts"], genesis.get("muhash")), (&0.into(), None));
}

/// Damage to a file of an index.
type Damage = fn(&Path);

/// Damage to an index is found even if nothing is to be appended, and the message says how to build
/// the index again.
#[test]
fn a_damaged_index_is_built_again_as_its_message_says() {
    let whole = Place::new(Network::Regtest);
    whole.sync_blocks("main", &with_genesis(small(5)));
    let expected = indexed(&whole);
    let filters = "indexes/blockfilter/basic/fltr00000.dat";
    let kinds: [(&str, &str, Damage); 4] = [
        ("blockfilterindex", filters, |file| std::fs::remove_file(file).unwrap()),
        ("blockfilterindex", filters, |file| std::fs::write(file, [1; 40]).unwrap()),
        ("txindex", "indexes/txindex/CURRENT", |file| std::fs::write(file, [0; 16]).unwrap()),
        ("coinstatsindex", "indexes/coinstatsindex/db/CURRENT", |file| {
            std::fs::write(file, "MANIFEST-000999\n").unwrap();
        }),
    ];
    for (index, file, damage) in kinds {
        let place = whole.copy();
        damage(&place.network_dir().join(file));
        let command = format!("`apus index {index}`");
        let found = apus(&place, &["verify"]);
        assert_ends(&found, 1, &[index, "remove ", &command]);
        assert!(!found.stderr.contains(&0), "{index}");
        let refused = apus(&place, &["index", index]);
        assert_ends(&refused, 1, &["remove ", &command]);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        let directory = text.split("remove ").nth(1).unwrap().split(' ').next().unwrap();
        std::fs::remove_dir_all(directory).unwrap();
        assert_ends(&apus(&place, &["index", index]), 0, &[]);
        indexed(&place).assert_equal(&expected);
    }
}
