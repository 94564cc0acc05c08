//! Power cuts, kills and interruptions: what was committed is kept, and the same command carries
//! on.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apus_disk::{Disk, PowerCut};
use apus_node as node;
use apus_node::Run;
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_sync as sync;
use apus_tools as tools;
use apus_wire::Chain;
use rustix::process::Signal;

use crate::support::blocks::{branch, bytes, genesis_parent};
use crate::support::chains::{long, small};
use crate::support::judge::Judge;
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::{Lines, program_on, signal};
use crate::support::stop_when::StopWhen;
use crate::support::waiting::wait_until;
use crate::support::{Place, with_genesis};

/// The hashes of the UTXO sets at these heights.
fn sets(place: &Place, source: &Path, heights: std::ops::RangeInclusive<u32>) -> Vec<String> {
    let place = place.copy();
    let sets = heights.map(|height| {
        let mut options = place.options();
        options.stop_at_height = Some(height);
        sync::sync(&options, &[source.to_path_buf()], Watch::default()).unwrap();
        place.utxo_hash().0
    });
    sets.collect()
}

#[test]
fn a_power_cut_at_any_moment_leaves_a_height_with_its_coins() {
    let base = Place::new(Chain::Regtest);
    let blocks = with_genesis(small(7));
    base.sync(&[base.write("base", &blocks[..181])]);
    base.shrink();
    let source = base.write("all", &blocks[..191]);
    let expected = sets(&base, &source, 180..=190);

    let run = |place: &Place, power: &Arc<PowerCut>| {
        let mut options = place.options();
        options.dbcache_bytes = 1; // commits after every block
        let sources = [source.clone()];
        sync::sync_on(&Run::on(&failing(power), &options), &sources, Watch::default())
    };
    let (_, counter) = counted();
    run(&base.copy(), &counter).unwrap();
    let steps = counter.steps();
    assert!(steps > 50, "there is something to cut: {steps}");
    for (number, power) in power_cuts(1..=steps, 23).enumerate() {
        let place = base.copy();
        let result = run(&place, &power);
        // The number of changes varies a little with the moments of the commits.
        assert!(result.is_err() || !power.is_off() || power.cut_at() + 40 > steps, "{power:?}");
        power.lose_unsynced().unwrap();
        let stats = place.stats(tools::UtxoHash::HashSerialized3);
        let set = stats.hash.unwrap().1.to_string();
        assert_eq!(Some(&set), expected.get(stats.height as usize - 180), "{power:?}");
        let summary = place.sync(std::slice::from_ref(&source));
        assert_eq!(summary.height, 190, "{power:?}");
        assert_eq!(&place.utxo_hash().0, expected.last().unwrap(), "{power:?}");
        if number % 5 == 0 {
            let judge = Judge::open(&place).expect("the engine opens it");
            assert_eq!(judge.tip().0, 190);
            judge.read_everything();
        }
    }
}

/// A file with a chain that takes some seconds to check, and its number of coins.
fn long_chain(place: &Place) -> (PathBuf, u64) {
    (place.write("long", &with_genesis(long())), long().totals().unspent)
}

/// The program, which leaves the file `then` if it ends with success, and the lines of its log,
/// which has one for each new tip.
fn start_sync(place: &Place, source: &Path) -> (Child, Lines) {
    let log = "--debuglogfile=/dev/stderr";
    let mut command = program_on(place, &["sync", "--assumevalid=0", "--json", log]);
    command.arg("--from").arg(source).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.arg("--then").arg(format!("echo > '{}'", place.root().join("then").display()));
    let mut child = command.spawn().unwrap();
    let lines = Lines::of(child.stderr.take().unwrap());
    (child, lines)
}

/// Waits until the block at this height is the tip; returns false if the program ends before.
fn wait_for_tip(lines: &Lines, height: u32) -> bool {
    lines.wait_for(&["UpdateTip: ", &format!(" height={height} ")])
}

#[test]
fn interrupted_it_saves_and_carries_on() {
    let place = Place::new(Chain::Regtest);
    let (source, coins) = long_chain(&place);
    let (child, lines) = start_sync(&place, &source);
    assert!(wait_for_tip(&lines, 160), "it ends before");
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(!place.root().join("then").exists(), "the command is run after an interrupt");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["interrupted"], true);
    let height = json["height"].as_u64().unwrap();
    assert_eq!(u64::from(place.stats(tools::UtxoHash::None).height), height);

    let rest = place.sync(&[source]);
    assert_eq!((rest.height, rest.coins), (270, Some(coins)));
    assert_eq!(rest.counts.blocks, 270 - height, "only what was missing");
}

#[test]
fn killed_at_any_tip_it_ends_right() {
    let place = Place::new(Chain::Regtest);
    let (source, coins) = long_chain(&place);
    // The first is killed soon after it has made the directory.
    for height in [0, 1, 155, 200, 170, 0] {
        let (mut child, lines) = start_sync(&place, &source);
        match height {
            0 => wait_until("the directory is made", || place.datadir().exists()),
            height => assert!(wait_for_tip(&lines, height), "it ends below height {height}"),
        }
        signal(&child, Signal::KILL);
        child.wait().unwrap();
    }
    let summary = place.sync(&[source]);
    assert_eq!((summary.height, summary.coins), (270, Some(coins)));
    let judge = Judge::open(&place).expect("the engine opens the result");
    assert_eq!(judge.tip(), (270, summary.best_block));
}

/// Wherever the power fails during a first sync, a reorganisation or a rebuild of the coins, Core's
/// engine opens what is left, and the same command then ends as if nothing had happened. Every
/// seventh step is tried, and each one with `APUS_TEST_ROUNDS=7`.
#[test]
fn power_may_fail_at_any_step_of_a_sync() {
    let (trunk, fork) = branch(&genesis_parent(), "trunk", 12);
    let (short, _) = branch(&fork, "short", 3);
    let (long, _) = branch(&fork, "long", 5);
    let old = bytes(trunk.iter().chain(&short));
    let new = bytes(&long);
    let run = |place: &Place, disk: &Disk, sources: &[PathBuf]| {
        let options = place.options();
        sync::sync_on(&Run::on(disk, &options), sources, Watch::default())
    };
    let reindex = |place: &Place, disk: &Disk| {
        let options = place.options();
        sync::reindex_on(&Run::on(disk, &options), Watch::default())
    };
    cut_everywhere(|_| {}, |place, disk| run(place, disk, &[place.write("old", &old)]), 15);
    let first = |place: &Place| drop(place.sync_blocks("old", &old));
    cut_everywhere(first, |place, disk| run(place, disk, &[place.write("new", &new)]), 17);
    cut_everywhere(first, |place, disk| reindex(place, disk), 15);
}

fn cut_everywhere(
    before: impl Fn(&Place),
    work: impl Fn(&Place, &Disk) -> Result<sync::Summary, node::SyncError>,
    height: u32,
) {
    let whole = Place::new(Chain::Regtest);
    before(&whole);
    let (disk, counter) = counted();
    let summary = work(&whole, &disk).unwrap();
    assert_eq!(summary.height, height);
    for (number, power) in power_cuts(1..=counter.steps(), 13).enumerate() {
        let place = Place::new(Chain::Regtest);
        before(&place);
        let result = work(&place, &failing(&power));
        if result.is_ok() {
            continue;
        }
        power.lose_unsynced().unwrap();
        // Core refuses a manifest whose last record is torn; Apus opens it, and writes another.
        if number % 3 == 0 && !power.is_torn() {
            let judge = Judge::open(&place);
            judge.unwrap_or_else(|why| panic!("refused after {power:?}: {why}")).read_everything();
        }
        let again = work(&place, &Disk::new());
        let again = again.unwrap_or_else(|error| panic!("{power:?}: {error}"));
        assert_eq!(again.best_block, summary.best_block, "{power:?}");
        assert_eq!(place.utxo_hash(), whole.utxo_hash(), "{power:?}");
        Judge::open(&place).expect("the engine opens it").read_everything();
    }
}

/// A rebuild that is to check every script does not carry on from one that skipped some.
#[test]
fn an_interrupted_rebuild_is_carried_on_if_it_checked_as_much() {
    use node::AssumeValid::{Block, Nothing};
    let (blocks, _) = branch(&genesis_parent(), "a", 400);
    let place = Place::new(Chain::Regtest);
    let tip = place.sync_blocks("blocks", &bytes(&blocks)).best_block;
    let mut options = place.options();
    for (first, second, carried_on) in
        [(Block(tip), Nothing, false), (Nothing, Block(tip), true), (Nothing, Nothing, true)]
    {
        let stop = AtomicBool::new(false);
        options.assumevalid = first;
        let observer = StopWhen(&stop, |progress: &Progress| {
            progress.phase == Phase::Connecting && progress.blocks > 0
        });
        let begun = sync::reindex(&options, Watch::new(&observer, &stop)).unwrap();
        assert!(begun.interrupted && begun.height > 0 && begun.height < 400);
        options.assumevalid = second;
        let rest = sync::reindex(&options, Watch::default()).unwrap();
        let skipped = if carried_on { u64::from(begun.height) } else { 0 };
        assert_eq!((rest.height, rest.counts.blocks), (400, 400 - skipped));
    }
}
