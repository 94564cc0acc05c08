//! About fifty interruptions of every kind: a request to stop, a power cut, kill -9. The next run
//! carries on or starts over, and ends right.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apus_disk::{Disk, PowerCut};
use apus_hash::Hash;
use apus_node::Run;
use apus_node::{AssumeValid, Options};
use apus_progress::Watch;
use apus_progress::{Observer, Phase, Progress};
use apus_sync as sync;
use apus_testchain::{Chain, Rng, Spec, rounds};
use apus_wire::{Chain as NetworkName, Network};
use rustix::process::Signal;

use crate::support::judge::Judge;
use crate::support::killed::{Changes, is_killed, killing_at};
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::{Lines, other_process, program_on, signal};
use crate::support::swift::{MODES, Mode, World, small_chain, try_sync_with};
use crate::support::{Place, change_file};

/// The time between two saves: none, so that each run saves after its first block.
const SAVE_EVERY: Duration = Duration::ZERO;

fn progress_file(place: &Place) -> PathBuf {
    place.swift_dir().join("progress")
}

/// Whether there is saved progress, which only its owner may read.
fn assert_private(place: &Place) -> bool {
    let Ok(metadata) = progress_file(place).metadata() else { return false };
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "it holds the salt");
    true
}

/// Panics if coins were committed before the end.
fn assert_no_coins(place: &Place) {
    assert_eq!(place.committed(), None, "a half-built UTXO set is not shown");
}

/// An observer that asks to stop after a number of reports of a SwiftSync, and keeps the first and
/// the last.
struct StopAfter {
    stop: AtomicBool,
    looks: Mutex<u64>,
    first: Mutex<Option<Progress>>,
    last: Mutex<Option<Progress>>,
}

impl StopAfter {
    fn new(looks: u64) -> Self {
        let first = Mutex::new(None);
        let last = Mutex::new(None);
        Self { stop: AtomicBool::new(false), looks: Mutex::new(looks), first, last }
    }

    fn blocks_seen(&self) -> Option<(u64, u64, u64)> {
        let first = self.first.lock().unwrap();
        let last = self.last.lock().unwrap();
        let first = first.as_ref()?;
        let last = last.as_ref()?;
        Some((first.blocks, last.blocks, last.bytes))
    }
}

impl Observer for StopAfter {
    fn observe(&self, progress: &Progress) {
        if progress.phase != Phase::SwiftSync {
            return;
        }
        self.first.lock().unwrap().get_or_insert_with(|| progress.clone());
        *self.last.lock().unwrap() = Some(progress.clone());
        let mut looks = self.looks.lock().unwrap();
        *looks = looks.saturating_sub(1);
        if *looks == 0 {
            self.stop.store(true, Relaxed);
        }
    }
}

/// Runs SwiftSync. Returns whether it was interrupted, and from its reports the blocks done at
/// first and at last, and the bytes of this run.
fn run(
    world: &World,
    place: &Place,
    (mode, sources): (Mode, &[PathBuf]),
    looks: u64,
    save_every: Duration,
) -> (bool, (u64, u64, u64)) {
    let hints = world.write_hints(place, world.height());
    let observer = StopAfter::new(looks);
    let options = Options { save_every, ..world.options(place, mode, &hints) };
    let summary = sync::sync(&options, sources, Watch::new(&observer, &observer.stop)).unwrap();
    if !summary.interrupted {
        assert_eq!(summary.best_block, world.tip());
        // The counts are of this run alone.
        assert!(summary.counts.blocks <= u64::from(world.height()));
    }
    (summary.interrupted, observer.blocks_seen().expect("there was work left"))
}

#[test]
fn asked_to_stop_it_carries_on_without_doing_a_block_twice() {
    let world = World::of(&small_chain(81, 60, 5_000));
    let right = world.in_order().utxo_hash();
    let all_bytes: usize = world.blocks[1..].iter().map(Vec::len).sum();
    let mut rng = Rng::new(81, 1);
    for mode in MODES {
        // The work done before a run notices the request depends on the machine.
        let mut interruptions = 0;
        for round in 0.. {
            assert!(round < 60, "{mode:?}: it ends before it can be asked to stop");
            let place = world.place();
            let sources = world.sources(&place, mode, &world.shuffled(7));
            let mut done = 0;
            let mut bytes_done = 0;
            loop {
                let save_every = if rng.percent(50) { SAVE_EVERY } else { Duration::MAX };
                let looks = if interruptions < 10 { rng.between(1, 3) } else { u64::MAX };
                let (interrupted, (first, last, bytes)) =
                    run(&world, &place, (mode, &sources), looks, save_every);
                assert!(first >= done && last >= first, "{first} and {last} after {done}");
                bytes_done += bytes;
                if !interrupted {
                    break;
                }
                (interruptions, done) = (interruptions + 1, last);
                assert!(assert_private(&place), "{mode:?}");
                assert_no_coins(&place);
            }
            // Blocks in progress at the request are in no report.
            assert!(bytes_done <= all_bytes as u64, "{mode:?}: a block was done twice");
            assert_eq!(place.utxo_hash(), right, "{mode:?}");
            assert!(!place.swift_dir().exists(), "{mode:?}: the salt is gone");
            let judge = Judge::open(&place).expect("the engine opens it");
            assert_eq!(judge.tip(), (world.height(), world.tip()));
            if interruptions >= 10 {
                break;
            }
        }
    }
}

#[test]
fn what_was_saved_serves_the_same_work_and_no_other() {
    let world = World::of(&small_chain(82, 40, 5_000));
    let right = world.in_order().utxo_hash();
    let all_bytes = world.blocks[1..].iter().map(|block| block.len() as u64).sum::<u64>();
    let interrupted_place = |mode, sources: &dyn Fn(&Place) -> Vec<PathBuf>| {
        for _ in 0..30 {
            let place = world.place();
            let from = sources(&place);
            let (interrupted, (_, done, _)) = run(&world, &place, (mode, &from), 1, Duration::MAX);
            if interrupted && done > 0 {
                return (place, from);
            }
        }
        panic!("{mode:?}: it ends before it can be asked to stop");
    };
    let sources = |place: &Place| world.sources(place, Mode::Full, &world.file_order());
    let spoil = |place: &Place| {
        change_file(&progress_file(place), |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        });
    };
    for mode in MODES {
        let other = if mode == Mode::Full { Mode::AssumeValid } else { Mode::Full };
        for (next, spoilt, anew) in [(mode, false, false), (other, false, true), (mode, true, true)]
        {
            let (place, from) = interrupted_place(mode, &sources);
            assert!(assert_private(&place));
            if spoilt {
                spoil(&place);
            }
            let (_, (_, _, bytes)) = run(&world, &place, (next, &from), u64::MAX, Duration::MAX);
            assert!(bytes <= all_bytes);
            assert_eq!(bytes == all_bytes, anew, "{mode:?}, then {next:?}, spoilt: {spoilt}");
            assert_eq!(place.utxo_hash(), right);
        }
        // A sync in order removes what was saved.
        let (place, from) = interrupted_place(mode, &sources);
        assert_eq!(place.sync(&from).best_block, world.tip());
        assert_eq!(place.utxo_hash(), right);
        assert!(!place.swift_dir().exists());
    }
}

#[test]
fn the_number_of_coins_is_known_after_a_power_cut_in_the_commit() {
    let world = World::of(&small_chain(83, 12, 4_000));
    let coins = Some(world.in_order().utxo_hash().1);
    for mode in MODES {
        let sync = |place: &Place, disk: &Disk| {
            let hints = world.write_hints(place, world.height());
            let sources = world.sources(place, mode, &world.file_order());
            let options = world.options(place, mode, &hints);
            sync::sync_on(&Run::on(disk, &options), &sources, Watch::default())
        };
        let (disk, counter) = counted();
        sync(&world.place(), &disk).unwrap();
        let last = counter.steps().saturating_sub(45)..=counter.steps();
        for power in power_cuts(last, 3) {
            let place = world.place();
            let _ = sync(&place, &failing(&power));
            power.lose_unsynced().unwrap();
            let summary = sync(&place, &Disk::new()).unwrap();
            assert_eq!(summary.coins, coins, "{mode:?}, {power:?}");
        }
    }
}

#[test]
fn a_power_cut_at_any_moment_shows_all_or_nothing() {
    let world = World::of(&small_chain(83, 25, 4_000));
    let base = world.in_order();
    base.shrink();
    let right = base.utxo_hash();
    let mut rng = Rng::new(83, 1);
    for mode in MODES {
        let run = |place: &Place, power: &Arc<PowerCut>, save_every| {
            let hints = world.write_hints(place, world.height());
            let options = Options { save_every, ..world.options(place, mode, &hints) };
            let disk = failing(power);
            sync::reindex_on(&Run::on(&disk, &options), Watch::default())
        };
        // Power cuts while it saves, as often as the clock has it, and then while it commits.
        for (save_every, cuts, share) in [(Duration::ZERO, 4, 3), (Duration::MAX, 8, 1)] {
            let (_, counter) = counted();
            run(&base.copy(), &counter, save_every).unwrap();
            let steps = counter.steps() / share;
            assert!(steps >= 8, "there is something to cut: {steps}");
            let mut were_cut = 0;
            for number in 0..cuts {
                let cut_at = steps * number / cuts + rng.between(1, steps / cuts);
                let power = match number % 2 {
                    0 => Arc::new(PowerCut::at(cut_at)),
                    _ => Arc::new(PowerCut::torn(cut_at, rng.below(1 << 32))),
                };
                let what = format!("{mode:?}, every {save_every:?}, {power:?}");
                let place = base.copy();
                let result = run(&place, &power, save_every);
                // How often it saves depends on the machine: it may end before the cut.
                assert!(result.is_err() || !power.is_off() || cut_at + 4 > steps, "{what}");
                were_cut += usize::from(power.is_off());
                power.lose_unsynced().unwrap();
                assert_private(&place);
                assert_eq!(place.utxo_hash(), right, "{what}: all of the old coins or the new");
                let whole = Arc::new(PowerCut::at(u64::MAX));
                let summary = run(&place, &whole, save_every).unwrap();
                assert_eq!(summary.best_block, world.tip(), "{what}");
                assert_eq!(place.utxo_hash(), right, "{what}");
                assert!(!place.swift_dir().exists(), "{what}");
            }
            assert!(were_cut > 0, "{mode:?}, every {save_every:?}: none of {cuts} was cut");
        }
    }
}

#[test]
fn a_power_cut_while_blocks_are_stored_loses_none_that_counts() {
    let world = World::of(&small_chain(84, 25, 4_000));
    let right = world.in_order().utxo_hash();
    let base = world.place();
    let first = base.write("first", &world.blocks[..1]);
    base.sync(&[first]);
    for (mode, cuts) in [(Mode::AssumeValid, [9, 17, 26]), (Mode::Full, [12, 21, 33])] {
        for power in cuts.into_iter().flat_map(|cut_at| PowerCut::kinds(cut_at, rounds(1))) {
            let place = base.copy();
            let hints = world.write_hints(&place, world.height());
            let sources = world.sources(&place, mode, &world.shuffled(8));
            let mut options = world.options(&place, mode, &hints);
            options.save_every = SAVE_EVERY;
            let result =
                sync::sync_on(&Run::on(&failing(&power), &options), &sources, Watch::default());
            assert!(result.is_err(), "{mode:?}: {power:?}");
            power.lose_unsynced().unwrap();
            assert_private(&place);
            assert_no_coins(&place);
            assert_eq!(try_sync_with(&options, &sources).unwrap().best_block, world.tip());
            assert_eq!(place.utxo_hash(), right, "{mode:?}, {power:?}");
            let judge = Judge::open(&place).expect("the engine opens it");
            assert_eq!(judge.tip(), (world.height(), world.tip()));
            if mode == Mode::Full {
                judge.read_everything();
            }
        }
    }
}

/// A chain that takes a second or so.
fn long_chain() -> World {
    let spec = Spec { empty_blocks_after: 0, ..Spec::mainnet_like(85, 60, 6_000_000) };
    World::of(&Chain::new(spec))
}

/// The program, in a place that [`killed_child`] can work in, too.
fn program(world: &World, place: &Place, mode: Mode) -> Command {
    let assumevalid = match mode {
        Mode::AssumeValid => world.tip().to_string(),
        Mode::Full => "0".to_string(),
    };
    let args = ["sync", "--minimumchainwork=0", "--par=2", "--debug=validation"];
    let mut command = program_on(place, &args);
    command.args(["--assumevalid", &assumevalid]);
    command.arg("--hints").arg(place.root().join(HINTS));
    command.arg("--from").arg(place.root().join(SOURCE));
    command
}

/// A place with hints and a source, but no data directory.
fn prepared(world: &World, mode: Mode, order: &[usize]) -> Place {
    let place = world.place();
    let hints = world.write_hints(&place, world.height());
    std::fs::rename(&hints, place.root().join(HINTS)).unwrap();
    let source = world.sources(&place, mode, order).remove(0);
    std::fs::rename(&source, place.root().join(SOURCE)).unwrap();
    place
}

/// Panics unless all or nothing is shown.
#[track_caller]
fn assert_none_or_all(world: &World, place: &Place) {
    let tip = place.committed();
    assert!(tip.is_none_or(|tip| tip == (world.height(), world.tip())), "{tip:?}");
}

/// Panics unless everything is shown, and nothing is left to carry on from.
#[track_caller]
fn assert_ended(world: &World, place: &Place, right: &(String, u64)) {
    assert_eq!(&place.utxo_hash(), right);
    assert!(!place.swift_dir().exists());
    let judge = Judge::open(place).expect("the engine opens it");
    assert_eq!(judge.tip(), (world.height(), world.tip()));
}

#[test]
fn interrupted_and_killed_it_ends_right() {
    let world = long_chain();
    let right = world.in_order().utxo_hash();
    let mut rng = Rng::new(85, 1);
    for mode in MODES {
        let place = prepared(&world, mode, &world.shuffled(9));
        let whole = prepared(&world, mode, &world.shuffled(9));
        let (disk, changes) = Changes::counted();
        let options = world.options(&whole, mode, &whole.root().join(HINTS));
        let source = [whole.root().join(SOURCE)];
        sync::sync_on(&Run::on(&disk, &options), &source, Watch::default()).unwrap();
        let changes = changes.count();
        let mut ends = [0, 0];
        for number in 0..3 {
            // An interrupt saves what is done; then it is killed while it carries on.
            let mut command = program(&world, &place, mode);
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let lines = Lines::of(child.stderr.take().unwrap());
            ends[0] += u32::from(lines.wait_for(&["working through blocks"]));
            signal(&child, Signal::INT);
            child.wait().unwrap();
            assert_private(&place);
            assert_none_or_all(&world, &place);
            let share = 5 + rng.below(25) + 10 * number;
            let at = changes * share / 100;
            ends[1] += u32::from(is_killed(child_of(&world, &place, mode, at)));
            assert_private(&place);
            assert_none_or_all(&world, &place);
        }
        println!("{mode:?}: {ends:?} of 3 ends, {changes} changes");
        assert!(ends.iter().all(|times| *times > 0), "{mode:?}: {ends:?}");
        assert!(program(&world, &place, mode).output().unwrap().status.success(), "{mode:?}");
        assert_ended(&world, &place, &right);
    }
}

/// The environment variable that gives [`killed_child`] its task: root directory, hash of the tip,
/// mode, and the number of the change to files at which it is to kill itself.
const CHILD: &str = "APUS_TEST_SWIFTSYNC_CHILD";
/// The name of its hints.
const HINTS: &str = "right.swiftsync.hints";
/// The name of its source.
const SOURCE: &str = "blocks-of-it";

/// A process that kills itself at a change to files.
fn child_of(world: &World, place: &Place, mode: Mode, number: u64) -> Command {
    let root = place.root().display();
    let tip = world.tip();
    let told = format!("{root}|{tip}|{mode:?}|{number}");
    other_process("swiftsync::interrupted::killed_child", CHILD, &told)
}

/// Not a test, but the process that the test above starts, and that kills itself. It saves more
/// often than the program does.
#[test]
#[ignore = "a process that another test starts, and that kills itself"]
fn killed_child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let [root, tip, mode, number] = told.split('|').collect::<Vec<_>>().try_into().unwrap();
    let root = Path::new(root);
    let disk = killing_at(number.parse().unwrap());
    let mut options = Options::new(root.join("datadir"), Network::new(NetworkName::Regtest));
    options.network.minimum_chain_work = Hash::ZERO;
    options.threads = 2;
    options.save_every = SAVE_EVERY;
    options.swiftsync.hints = Some(root.join(HINTS));
    options.assumevalid = match mode {
        "Full" => AssumeValid::Nothing,
        _ => AssumeValid::Block(tip.parse().unwrap()),
    };
    sync::sync_on(&Run::on(&disk, &options), &[root.join(SOURCE)], Watch::default()).unwrap();
}
