//! Pruning: which block files go, what is left, and what a directory whose files were pruned serves
//! for.

use std::collections::BTreeSet;
use std::process::Output;
use std::sync::atomic::AtomicBool;

use apus_disk::Disk;
use apus_node::Run;
use apus_node::{Options, Prune};
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_store::{DataDir, DataDirOptions};
use apus_sync as sync;
use apus_sync::Summary;
use apus_tools as tools;
use apus_wire::Chain;
use bitcoin::Block;
use bitcoin::consensus::deserialize;

use crate::support::block_index::{CheckedIndex, check_block_index};
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::{assert_contains, assert_ends, program, stdout};
use crate::support::stop_when::StopWhen;
use crate::support::swift::{World, small_chain};
use crate::support::{Place, blocks, regtest_chain};
use crate::swiftsync::pruned::swift_options;

/// The regtest chain, with the entries of blocks below height 100 as if they were pruned.
pub fn pruned() -> Place {
    let place = Place::new(Chain::Regtest);
    place.sync(&[place.write("chain", &regtest_chain())]);
    place.forget_blocks(1..100);
    place
}

fn apus(place: &Place, args: &[&str]) -> Output {
    let datadir = format!("-datadir={}", place.datadir().display());
    let mut command = program();
    command.current_dir(place.root()).args(args).args(["-regtest", &datadir]).output().unwrap()
}

#[test]
fn what_needs_all_blocks_says_what_works_instead() {
    let place = pruned();
    for args in [&["sync", "--from", "chain"][..], &["reindex"]] {
        let refused = apus(&place, args);
        let words = ["blocks: block files", "were pruned", "--prune", "`apus txoutset info`"];
        assert_ends(&refused, 1, &words);
    }
    let hints = apus(&place, &["hints", "create", "-o", "x"]);
    assert_ends(&hints, 1, &["was pruned", "directory that holds them"]);
}

#[test]
fn the_utxo_set_of_a_pruned_directory_is_read() {
    let place = pruned();
    let info = apus(&place, &["txoutset", "info", "--hash=none"]);
    assert_ends(&info, 0, &[]);
    assert!(stdout(&info).contains("\"height\": 206"));
}

/// Of a pruned directory, nothing can be connected where the blocks below it are not known.
#[test]
fn a_pruned_source_is_named_with_its_height() {
    let world = world();
    let source = world.place();
    sync_with(&source, &options(&source, Some(Prune::Target(SPARE))), &world.blocks);
    let from = assert_holds_together(&source);
    assert!(from > 1, "{from}");
    let path = source.datadir();
    let first = |count: u32| {
        let place = world.place();
        if count > 0 {
            place.sync_blocks("first", &world.blocks[..=count as usize]);
        }
        place
    };
    for below in [0, from - 10] {
        let error = first(below).try_sync(std::slice::from_ref(&path)).unwrap_err().to_string();
        let words = [
            format!("{} has no blocks below height {from}: ", path.display()),
            format!(" ends at height {below}: put the missing file back"),
        ];
        assert!(words.iter().all(|words| error.contains(words)), "{error}");
    }
    let summary = first(from - 1).sync(&[path]);
    assert_eq!(summary.best_block, world.tip(), "{:?}", summary.refusals);
}

/// 700 blocks, the last 590 with some 6 kB each: about ten to a small file.
pub fn world() -> World {
    World::of(&small_chain(41, 590, 6_000))
}

/// Options with small files and this prune target.
pub fn options(place: &Place, prune: Option<Prune>) -> Options {
    Options { prune, fast_prune: true, ..place.in_order() }
}

pub fn sync_with(place: &Place, options: &Options, blocks: &[Vec<u8>]) -> Summary {
    let source = place.write("blocks", blocks);
    sync::sync(options, &[source], Watch::default()).unwrap()
}

/// The room that pruning leaves for the chunks by which files grow: a target of so many bytes
/// leaves none for blocks.
pub const SPARE: u64 = 17 << 20;

/// The numbers of the blk files that there are.
pub fn files(place: &Place) -> BTreeSet<u32> {
    let names = place.network_dir().join("blocks").read_dir().unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let number = |name: String| name.strip_prefix("blk")?.strip_suffix(".dat")?.parse().ok();
    names.filter_map(number).collect()
}

/// [`check_block_index`], and there is no file that the index does not name.
#[track_caller]
pub fn assert_holds_together(place: &Place) -> u32 {
    let CheckedIndex { from, files: named, .. } = check_block_index(place);
    assert_eq!(named, files(place), "files that the index names, and those that there are");
    from
}

#[test]
fn files_above_the_target_go_while_blocks_are_connected() {
    let world = world();
    let place = world.place();
    sync_with(&place, &options(&place, None), &world.blocks);
    let coins = place.utxo_hash();
    let all = files(&place).len();
    let used = Prune::Target(u64::MAX);
    let used = sync::sync(&options(&place, Some(used)), &[], Watch::default());
    let three_quarters = used.unwrap().pruned.unwrap().usage / 4 * 3;
    let height = world.height();
    for (target, kept_blocks) in
        [(SPARE + three_quarters, 350..650), (SPARE, 288..320), (u64::MAX, height..height + 1)]
    {
        let place = world.place();
        let summary =
            sync_with(&place, &options(&place, Some(Prune::Target(target))), &world.blocks);
        assert_eq!(summary.best_block, world.tip());
        assert_eq!(place.utxo_hash(), coins);
        let pruned = summary.pruned.unwrap();
        let from = assert_holds_together(&place);
        assert_eq!(pruned.blocks_from, from);
        assert!(kept_blocks.contains(&(height + 1 - from)), "{from}");
        assert_eq!(files(&place).len() == all, target == u64::MAX);
        assert_eq!(pruned.freed_bytes > 0, target != u64::MAX);
        // A second run from the same file stores nothing again and deletes nothing more.
        let again = sync_with(&place, &options(&place, Some(Prune::Target(target))), &world.blocks);
        assert_eq!((again.counts.blocks, again.pruned.unwrap().freed_bytes), (0, 0));
        assert_eq!(assert_holds_together(&place), from);
    }
}

#[test]
fn a_pruned_directory_carries_on_and_reorganises() {
    let world = world();
    let place = world.place();
    let target = options(&place, Some(Prune::Target(SPARE)));
    sync_with(&place, &Options { stop_at_height: Some(600), ..target.clone() }, &world.blocks);
    assert!(assert_holds_together(&place) > 200);
    let summary = sync_with(&place, &target, &world.blocks);
    assert_eq!(summary.best_block, world.tip());
    let from = assert_holds_together(&place);
    // A branch from 287 blocks below the tip wins.
    let fork = world.height() as usize - 287;
    let (branch, _) = branch_of(&world, fork, 290);
    let summary = sync_with(&place, &target, &branch);
    assert_eq!(summary.height as usize, fork + 290);
    assert_holds_together(&place);
    // One that begins below what is stored is refused before anything changes.
    let (deep, _) = branch_of(&world, from as usize - 20, 700);
    let source = place.write("deep", &deep);
    let error = sync::sync(&target, &[source], Watch::default()).unwrap_err();
    assert!(error.to_string().contains(": the block is pruned"), "{error}");
    let status = tools::status(&target).unwrap();
    assert_eq!(status.height as usize, fork + 290);
}

/// In a reorganisation deeper than 288 blocks, files are deleted by the height of the new branch's
/// tip, not by that of the old one.
#[test]
fn a_deep_reorganisation_keeps_what_it_may_need() {
    let world = world();
    let place = world.place();
    sync_with(&place, &options(&place, None), &world.blocks);
    let fork = world.height() as usize - 400;
    let (branch, _) = branch_of(&world, fork, 420);
    // Nothing is too many before blocks of the branch are stored.
    let used = tools::prune(&options(&place, None), 0).unwrap().usage;
    let target = options(&place, Some(Prune::Target(SPARE + used + 8_000)));
    let source = place.write("branch", &branch);
    let stop = AtomicBool::new(false);
    let after = fork as u32 + 90;
    let is_time = |p: &Progress| p.phase == Phase::Connecting && p.height >= after && p.blocks > 80;
    let observer = StopWhen(&stop, is_time);
    let summary =
        sync::sync(&target, std::slice::from_ref(&source), Watch::new(&observer, &stop)).unwrap();
    assert!(summary.interrupted && summary.height < 550, "{}", summary.height);
    let pruned = summary.pruned.unwrap();
    assert!(pruned.blocks_from <= summary.height - 287, "{pruned:?} at {}", summary.height);
    // Without the rest of the branch, the old one is the best again, and whole.
    for (sources, height) in [(vec![], world.height() as usize), (vec![source], fork + 420)] {
        let again = sync::sync(&target, &sources, Watch::default()).unwrap();
        assert_eq!(again.height as usize, height);
        assert_holds_together(&place);
    }
}

/// Blocks on the block at height `fork`.
pub fn branch_of(world: &World, fork: usize, count: usize) -> (Vec<Vec<u8>>, usize) {
    let mut parent = blocks::genesis_parent();
    for block in &world.blocks[1..=fork] {
        parent = parent.child(&deserialize(block).unwrap());
    }
    let (branch, _) = blocks::branch(&parent, "pruned", count);
    (blocks::bytes(&branch), count)
}

#[test]
fn a_join_that_is_asked_for_is_refused_where_files_were_pruned() {
    let place = pruned();
    let joined = apus(&place, &["sync", "--prune=1", "--method=join", "--from", "chain"]);
    assert_ends(&joined, 2, &["block files were pruned", "remove --method=join"]);
    let auto = apus(&place, &["sync", "--prune=1", "--from", "chain"]);
    assert_ends(&auto, 0, &[]);
}

#[test]
fn a_join_makes_room_for_pruning() {
    let world = world();
    let place = world.place();
    let target = Options { method: None, ..options(&place, Some(Prune::Target(SPARE))) };
    let summary = sync_with(&place, &target, &world.blocks);
    let chosen = summary.chosen.unwrap();
    assert_eq!(chosen.method, Method::InOrder);
    assert!(chosen.why.contains("--prune deletes block files"), "{}", chosen.why);
}

#[test]
fn swiftsync_prunes_once_it_has_ended() {
    let world = world();
    let place = world.place();
    let summary = sync_with(&place, &swift_options(&world, &place, SPARE), &world.blocks);
    assert_eq!(summary.best_block, world.tip());
    assert!(assert_holds_together(&place) > 200);
    // Hints for a greater height would need the blocks again.
    let all = files(&place).len();
    let lower = world.place();
    let stop = Options { stop_at_height: Some(600), ..options(&lower, Some(Prune::Target(SPARE))) };
    sync_with(&lower, &stop, &world.blocks);
    let source = lower.write("again", &world.blocks);
    let target = swift_options(&world, &lower, SPARE);
    let error = sync::sync(&target, &[source], Watch::default()).unwrap_err();
    assert!(error.to_string().contains("leave out --hints"), "{error}");
    assert!(all > 0);
}

#[test]
fn files_are_pruned_by_hand() {
    let world = world();
    let place = world.place();
    let file = place.write("blocks", &world.blocks);
    let synced = apus(&place, &["sync", "-fastprune", "--method=order", "--from", "blocks"]);
    assert_ends(&synced, 0, &[]);
    drop(file);
    let all = files(&place);
    // Nothing whose height is not given, or above the tip.
    assert_ends(&apus(&place, &["prune"]), 2, &["--height"]);
    assert_ends(&apus(&place, &["prune", "--height=5000", "-fastprune"]), 1, &["above the tip"]);
    assert_eq!(files(&place), all);
    let short = apus(&place, &["prune", "--height=300"]);
    assert_ends(&short, 1, &["too short to be pruned", "1000"]);
    let pruned = apus(&place, &["prune", "--height=300", "-fastprune", "--json"]);
    assert_ends(&pruned, 0, &[]);
    let json: serde_json::Value = serde_json::from_slice(&pruned.stdout).unwrap();
    let from = assert_holds_together(&place);
    assert_eq!(json["blocks_from"], from);
    assert!((280..=301).contains(&from), "{from}");
    // Whatever is asked for, the last 288 blocks stay. Times are taken, too.
    let times = world.blocks.iter().map(|block| deserialize::<Block>(block).unwrap().header.time);
    let time = u64::from(times.max().unwrap()) + 7200;
    let late = apus(&place, &["prune", &format!("--height={time}"), "-fastprune"]);
    assert_ends(&late, 0, &[]);
    let words = stdout(&late);
    assert!(
        words.contains("are pruned") && words.contains("start bitcoind with -prune"),
        "{words}"
    );
    let from = assert_holds_together(&place);
    assert!((400..=world.height() - 287).contains(&from), "{from}");
    let later = apus(&place, &["prune", &format!("--height={}", time + 1), "-fastprune"]);
    assert_ends(&later, 1, &["no block is as late"]);
    // It is carried on with --prune.
    let carried = apus(&place, &["sync", "-fastprune", "-prune=1", "--from", "blocks"]);
    assert_ends(&carried, 0, &[]);
    assert_eq!(assert_holds_together(&place), from);
    let status = apus(&place, &["status"]);
    assert!(stdout(&status).contains("pruned, stored from height"), "{}", stdout(&status));
}

/// Wherever the power fails while files are pruned, blocks connected and reorganised, every block
/// that the index names can be read, and the same command then ends as if nothing had happened.
#[test]
fn power_may_fail_at_any_step_of_pruning() {
    let world = world();
    let base = world.place();
    let fork = world.height() as usize - 3;
    let (branch, _) = branch_of(&world, fork, 6);
    sync_with(&base, &options(&base, None), &world.blocks[..=fork + 2]);
    base.shrink();
    let source = base.write("rest", world.blocks[fork + 3..].iter().chain(&branch));
    let run = |place: &Place, disk: &Disk| {
        // Commits after every block.
        let target = options(place, Some(Prune::Target(SPARE)));
        let target = Options { dbcache_bytes: 1, ..target };
        let sources = std::slice::from_ref(&source);
        sync::sync_on(&Run::on(disk, &target), sources, Watch::default())
    };
    let whole = base.copy();
    let (disk, counter) = counted();
    let summary = run(&whole, &disk).unwrap();
    assert_eq!(summary.height as usize, fork + 6);
    let from = assert_holds_together(&whole);
    let utxo_hash = whole.utxo_hash();
    assert!(from > 300, "{from}");
    let mut cuts = 0;
    for power in power_cuts(1..=counter.steps(), 13) {
        let place = base.copy();
        let result = run(&place, &failing(&power));
        let is_last = power.cut_at() + 40 > counter.steps();
        assert!(result.is_err() || !power.is_off() || is_last, "{power:?}");
        power.lose_unsynced().unwrap();
        check_block_index(&place);
        let summary = run(&place, &Disk::new()).unwrap();
        assert_eq!(summary.height as usize, fork + 6, "{power:?}");
        assert_eq!(place.utxo_hash(), utxo_hash, "{power:?}");
        assert_eq!(assert_holds_together(&place), from, "{power:?}");
        cuts += 1;
    }
    println!("{cuts} power cuts, of {} steps", counter.steps());
}

/// Pruning a directory that holds all its blocks begins only with consent.
#[test]
fn an_archive_is_pruned_only_on_request() {
    let world = world();
    let place = world.place();
    sync_with(&place, &options(&place, None), &world.blocks);
    let mut pruning = options(&place, Some(Prune::Target(SPARE)));
    pruning.allow_delete_blocks = false;
    let before = files(&place);
    let expected = sync::first_pruning(&pruning).unwrap().unwrap();
    let error = sync::sync(&pruning, &[], Watch::default()).unwrap_err().to_string();
    assert_contains(&error, &[&expected.to_string(), "--allow-delete-blocks", "Leave out --prune"]);
    assert_eq!(files(&place), before);
    pruning.allow_delete_blocks = true;
    assert_eq!(sync::first_pruning(&pruning).unwrap(), None);
    let pruned = sync::sync(&pruning, &[], Watch::default()).unwrap().pruned.unwrap();
    assert!(pruned.freed_bytes > 0, "{pruned:?}");
    // Once it has begun, it goes on without being asked for again.
    pruning.allow_delete_blocks = false;
    sync::sync(&pruning, &[], Watch::default()).unwrap();
    // A directory that was synced with pruning from the start needs no consent.
    let new = world.place();
    let always = Options { allow_delete_blocks: false, ..options(&new, pruning.prune) };
    sync_with(&new, &always, &world.blocks);
    sync::sync(&always, &[], Watch::default()).unwrap();
}

/// Answers the question for consent on a terminal. Prints what the program shows there.
const ON_A_TERMINAL: &str = "
import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    # `nohup make test &` ignores the interrupt.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(sys.argv[2], sys.argv[2:])
shown = b''
while True:
    try:
        part = os.read(terminal, 1000)
    except OSError:
        break
    shown += part
    if b'[y/N]' in shown and sys.argv[1]:
        os.write(terminal, sys.argv[1].encode())
        sys.argv[1] = ''
_, status = os.waitpid(pid, 0)
print(shown.decode())
sys.exit(os.waitstatus_to_exitcode(status) % 256)
";

#[test]
fn consent_is_asked_for_on_a_terminal() {
    let world = world();
    let archive = world.place();
    sync_with(&archive, &options(&archive, None), &world.blocks);
    // The smallest target is 550 MiB: the first file says that it holds more.
    let how = DataDirOptions::default();
    let dir = DataDir::open(&Disk::new(), &archive.datadir(), &archive.network, how).unwrap();
    let (db, _, block_files) = dir.open_blocks().unwrap();
    block_files.note_used(0, 1 << 30).unwrap();
    db.write(&block_files.flush().unwrap(), &[]).unwrap();
    drop((db, dir));
    // Yes, no, nothing, the end of input, and an interrupt, which ends the program by its signal.
    for (answer, status) in [("yes\n", 0), ("no\n", 1), ("\n", 1), ("\u{4}", 1), ("\u{3}", 254)] {
        let place = archive.copy();
        let before = files(&place);
        let mut asked = std::process::Command::new("python3");
        asked.args(["-c", ON_A_TERMINAL, answer]).arg(program().get_program());
        asked.args(["sync", "--connect=0", "--prune=550", "-fastprune", "--chain=regtest"]);
        asked.arg("--datadir").arg(place.datadir()).env("HOME", place.root());
        let output = asked.output().unwrap();
        assert_ends(&output, status, &[]);
        assert!(stdout(&output).contains("Delete them? [y/N]"), "{}", stdout(&output));
        assert_eq!(files(&place) == before, status != 0, "{answer:?}: {}", stdout(&output));
    }
}
