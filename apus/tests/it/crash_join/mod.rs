//! Joins that are interrupted in each pass, in every way: the next run carries on or starts over,
//! and ends as a sync in order does.

mod damaged;
mod full;
mod stopped;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use apus_coins::Chainstate;
use apus_disk::{Disk, PowerCut};
use apus_hash::Hash;
use apus_node::Run;
use apus_node::{Options, REBUILD_MARK, SyncError};
use apus_progress::Watch;
use apus_progress::{Observer, Phase, Progress};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testchain::{Chain, Rng, Spec, rounds};
use rustix::process::Signal;

use crate::peers::world::Told;
use crate::support::Place;
use crate::support::judge::Judge;
use crate::support::killed::{Changes, is_killed, killing_at};
use crate::support::power::{counted, failing};
use crate::support::program::{Lines, other_process, program_on, signal};
use crate::support::swift::{Indexed, Mode, World, small_chain};

/// The passes of a join, in order.
const PASSES: [Phase; 3] = [Phase::JoinReading, Phase::JoinMatching, Phase::JoinChecking];

/// The block that a join above an existing UTXO set begins after, of 125.
const BASE_HEIGHT: u32 = 118;

/// What a join begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Begun {
    /// No block but the first.
    Empty,
    /// The UTXO set at [`BASE_HEIGHT`].
    Above,
    /// The whole UTXO set and no undo data: it is rebuilt next to it.
    Beside,
}

const BEGUN: [Begun; 3] = [Begun::Empty, Begun::Above, Begun::Beside];

/// A chain and what a sync of it in order comes to.
struct Test {
    world: World,
    /// Keeps the file of all blocks.
    _origin: Place,
    /// A file of all blocks.
    source: PathBuf,
    right: Held,
}

/// What a data directory holds, wherever in its files.
#[derive(PartialEq, Eq)]
struct Held {
    coins: (String, u64),
    index: BTreeMap<Hash, Indexed>,
    undo: BTreeMap<Hash, Vec<u8>>,
}

impl Held {
    fn by(place: &Place) -> Self {
        Self { coins: place.utxo_hash(), index: place.index(), undo: place.undo() }
    }
}

impl Test {
    fn of(chain: &Chain) -> Self {
        let world = World::of(chain);
        let origin = world.place();
        let source = origin.write("blocks", &world.blocks);
        let right = Held::by(&world.in_order());
        Self { world, _origin: origin, source, right }
    }

    fn small(seed: u64) -> Self {
        Self::of(&small_chain(seed, 12, 4_000))
    }

    /// A directory in which a join can begin.
    fn begin(&self, begun: Begun) -> Place {
        let to = |height: u32| {
            let place = self.world.place();
            place.sync_blocks("first", &self.world.blocks[..=height as usize]);
            place
        };
        match begun {
            Begun::Empty => to(0),
            Begun::Above => {
                let place = to(BASE_HEIGHT);
                place.shrink();
                place
            }
            Begun::Beside => self.world.swift(Mode::AssumeValid, self.world.height()),
        }
    }

    fn options(&self, place: &Place) -> Options {
        Options { dbcache_bytes: 1 << 20, save_every: Duration::MAX, ..place.join() }
    }

    /// Syncs, or reindexes.
    fn run(
        &self,
        begun: Begun,
        disk: &Disk,
        options: &Options,
        watch: &Watcher,
    ) -> Result<Summary, SyncError> {
        match begun {
            Begun::Beside => {
                sync::reindex_on(&Run::on(disk, options), Watch::new(watch, &watch.stop))
            }
            _ => sync::sync_on(
                &Run::on(disk, options),
                std::slice::from_ref(&self.source),
                Watch::new(watch, &watch.stop),
            ),
        }
    }

    /// Runs a join to its end, and returns what was observed.
    fn finish(&self, begun: Begun, place: &Place, what: &str) -> Watcher {
        let watch = Watcher::default();
        let summary = self.run(begun, &Disk::new(), &self.options(place), &watch);
        let summary = summary.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(summary.best_block, self.world.tip(), "{what}");
        self.assert_right(place, what);
        watch
    }

    /// Panics unless the directory holds what a sync in order comes to, and nothing else is left.
    fn assert_right(&self, place: &Place, what: &str) {
        let held = Held::by(place);
        assert_eq!(held.coins, self.right.coins, "{what}");
        assert!(held.index == self.right.index, "{what}: block index");
        assert!(held.undo == self.right.undo, "{what}: undo data");
        assert!(!join_dir(place).exists(), "{what}: temporary files");
        assert_no_tables_left(place, what);
    }
}

fn join_dir(place: &Place) -> PathBuf {
    place.options().spill_path()
}

/// Panics if there are tables that are not part of the UTXO set.
fn assert_no_tables_left(place: &Place, what: &str) {
    let dir = place.network_dir().join("chainstate");
    let options = apus_leveldb::Options { read_only: true, ..Default::default() };
    let live = Chainstate::open(Disk::new(), &dir, options).unwrap().disk_bytes();
    let files = dir.read_dir().unwrap().map(|entry| entry.unwrap());
    let tables = files.filter(|entry| entry.path().extension().is_some_and(|ext| ext == "ldb"));
    let bytes: u64 = tables.map(|entry| entry.metadata().unwrap().len()).sum();
    assert_eq!(bytes, live, "{what}: bytes of tables");
}

/// An observer of the passes, which may ask to stop at the first report of one.
#[derive(Default)]
struct Watcher {
    stop: AtomicBool,
    stop_in: Option<Phase>,
    /// The file of saved progress.
    progress: Option<PathBuf>,
    /// Counts steps at which the power can be cut.
    power: Option<Arc<PowerCut>>,
    seen: Mutex<[Option<Seen>; 3]>,
    told: Told,
}

/// What was seen of a pass.
#[derive(Clone, Copy)]
struct Seen {
    /// Blocks done at the first report.
    blocks: u64,
    /// The saved progress at the first report.
    progress: Option<(u64, SystemTime)>,
    /// Whether progress was saved while the pass went on.
    has_saved: bool,
    /// Steps at which the power can be cut before the first report.
    steps: u64,
}

impl Watcher {
    fn stopping_in(pass: Phase) -> Self {
        Self { stop_in: Some(pass), ..Self::default() }
    }

    fn of(place: &Place, power: &Arc<PowerCut>) -> Self {
        let progress = Some(join_dir(place).join("progress"));
        Self { progress, power: Some(Arc::clone(power)), ..Self::default() }
    }

    fn seen(&self) -> [Option<Seen>; 3] {
        *self.seen.lock().unwrap()
    }

    /// Blocks that were read at the first report of the first pass; `None` if there was none.
    fn read_at_first(&self) -> Option<u64> {
        self.seen()[0].map(|seen| seen.blocks)
    }
}

impl Observer for Watcher {
    fn observe(&self, progress: &Progress) {
        let Some(pass) = PASSES.iter().position(|pass| *pass == progress.phase) else { return };
        let metadata = self.progress.as_ref().and_then(|path| path.metadata().ok());
        let file = metadata.map(|found| (found.ino(), found.modified().unwrap()));
        let mut seen = self.seen.lock().unwrap();
        let steps = self.power.as_ref().map_or(0, |power| power.steps());
        let first = Seen { blocks: progress.blocks, progress: file, has_saved: false, steps };
        let seen = seen[pass].get_or_insert(first);
        seen.has_saved |= seen.progress != file;
        if self.stop_in == Some(progress.phase) {
            self.stop.store(true, Relaxed);
        }
    }

    fn note(&self, text: &str) {
        self.told.note(text);
    }
}

/// One of the steps of an observed join before the first pass, one in each pass, and one after the
/// last pass has begun; none where there are none, as in a second pass that is too short to save.
fn cuts(watch: &Watcher, steps: u64, rng: &mut Rng) -> Vec<u64> {
    let begun = watch.seen().map(|seen| seen.expect("each pass reports").steps);
    let parts = [(0, begun[0]), (begun[0], begun[1]), (begun[1], begun[2]), (begun[2], steps)];
    assert!(steps > 20, "there is something to cut: {parts:?}");
    let parts = parts.into_iter().filter(|(start, end)| start < end);
    parts.map(|(start, end)| rng.between(start + 1, end)).collect()
}

/// Joins that a power cut ends, and what came of it.
struct PowerCuts {
    test: Test,
    rng: Rng,
    /// How often the next run carried on from what was saved in each pass.
    carried_on: [u32; 3],
}

impl PowerCuts {
    /// Cuts the power before, in, and after each pass.
    fn each_pass(&mut self, begun: Begun, base: &Place, save_every: Duration) {
        let run = |test: &Test, place: &Place, power: &Arc<PowerCut>| {
            let disk = failing(power);
            let options = Options { save_every, ..test.options(place) };
            let watch = Watcher::of(place, power);
            (test.run(begun, &disk, &options, &watch), watch)
        };
        let (_, counter) = counted();
        let (whole, watch) = run(&self.test, &base.copy(), &counter);
        whole.unwrap();
        let steps = counter.steps();
        for cut_at in cuts(&watch, steps, &mut self.rng) {
            let power = if self.rng.percent(50) {
                Arc::new(PowerCut::at(cut_at))
            } else {
                Arc::new(PowerCut::torn(cut_at, self.rng.below(1 << 32)))
            };
            let what = format!("{begun:?}, every {save_every:?}, {power:?}, {steps} in all");
            let place = base.copy();
            let (_, watch) = run(&self.test, &place, &power);
            power.lose_unsynced().unwrap();
            self.carry_on(begun, base, (&place, &watch), &what);
        }
    }

    /// Checks what a power cut has left of an observed join, and ends it.
    fn carry_on(&mut self, begun: Begun, base: &Place, cut: (&Place, &Watcher), what: &str) {
        let test = &self.test;
        let (place, watch) = cut;
        let shown = place.committed();
        let new = Some((test.world.height(), test.world.tip()));
        assert!(shown == base.committed() || shown == new, "{what}: {shown:?}");
        // Core refuses a manifest whose last record is torn; Apus opens it, and writes another.
        let is_torn = watch.power.as_ref().is_some_and(|power| power.is_torn());
        if begun != Begun::Empty && !is_torn && self.rng.percent(50) {
            Judge::open(&place.copy())
                .unwrap_or_else(|refused| panic!("{what}: the engine refuses: {refused}"));
        }
        // Without its mark, a rebuilt set that was about to take the place of the other is rebuilt
        // once more.
        let mark = place.network_dir().join(REBUILD_MARK);
        let is_carried_on = begun != Begun::Beside || mark.is_file();
        let rest = test.finish(begun, place, what);
        let last_saved = watch.seen().iter().rposition(|s| s.is_some_and(|s| s.has_saved));
        if let Some(pass) = last_saved.filter(|_| is_carried_on) {
            self.carried_on[pass] += 1;
            let again = rest.seen()[..pass].iter().any(Option::is_some);
            assert!(!again, "{what}: what was done before pass {pass} was done again");
            let read = rest.read_at_first();
            assert!(read.is_none_or(|blocks| blocks > 1), "{what}: {read:?}");
        }
    }
}

#[test]
fn a_power_cut_at_any_moment_shows_all_or_nothing() {
    let mut cuts = PowerCuts { test: Test::small(91), rng: Rng::new(91, 1), carried_on: [0; 3] };
    let bases = BEGUN.map(|begun| (begun, cuts.test.begin(begun)));
    // A cut may come before the first save of a pass, so it takes some to have seen each.
    for round in 0.. {
        let is_seen = cuts.carried_on.iter().all(|times| *times > 0);
        if round >= rounds(1) && is_seen {
            break;
        }
        assert!(round < rounds(20), "carried on from each pass: {:?}", cuts.carried_on);
        for (begun, base) in &bases {
            for save_every in [Duration::ZERO, Duration::MAX] {
                cuts.each_pass(*begun, base, save_every);
            }
        }
    }
}

/// A chain that takes a second or so.
fn long_chain() -> Chain {
    Chain::new(Spec { empty_blocks_after: 0, ..Spec::mainnet_like(92, 60, 6_000_000) })
}

fn program(place: &Place, source: &Path) -> Command {
    let args = ["sync", "--method=join", "--testing=joindepth=0", "--assumevalid=0", "--par=2"];
    let mut command = program_on(place, &args);
    command.arg("--debug=validation").arg("--from").arg(source);
    command
}

/// The options of [`program`].
fn options_of_program(datadir: PathBuf, place: &Place) -> Options {
    Options { datadir, ..place.join() }
}

/// The environment variable that gives [`killed_child`] its task: data directory, source, and the
/// number of the change to files at which it is to kill itself.
const CHILD: &str = "APUS_TEST_JOIN_CHILD";

/// Not a test, but a process that the test below starts, and that kills itself.
#[test]
#[ignore = "a process that another test starts, and that kills itself"]
fn killed_child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let [datadir, source, number] = told.split('|').collect::<Vec<_>>().try_into().unwrap();
    let place = Place::new(apus_wire::Chain::Regtest);
    let options = options_of_program(datadir.into(), &place);
    let disk = killing_at(number.parse().unwrap());
    sync::sync_on(&Run::on(&disk, &options), &[source.into()], Watch::default()).unwrap();
}

#[test]
fn interrupted_and_killed_it_ends_right() {
    let test = Test::of(&long_chain());
    let mut rng = Rng::new(92, 1);
    let whole = test.world.place();
    let place = test.world.place();
    let (disk, changes) = Changes::counted();
    let options = options_of_program(whole.datadir(), &whole);
    test.run(Begun::Empty, &disk, &options, &Watcher::default()).unwrap();
    test.assert_right(&whole, "not interrupted");
    let assert_none_or_all = || {
        let shown = place.committed();
        let tip = (test.world.height(), test.world.tip());
        assert!(shown.is_none_or(|shown| shown == tip), "{shown:?}");
    };
    let changes = changes.count();
    let mut ends = [0, 0];
    // As it begins, and after the first two passes.
    for (words, number) in [("Joining blocks", 0), ("read blocks", 1), ("matched spends", 2)] {
        // An interrupt saves what is done; then it is killed while it carries on.
        let mut command = program(&place, &test.source);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = Lines::of(child.stderr.take().unwrap());
        ends[0] += u32::from(lines.wait_for(&[words]));
        signal(&child, Signal::INT);
        child.wait().unwrap();
        assert_none_or_all();
        let share = 5 + rng.below(25) + 10 * number;
        let datadir = place.datadir();
        let source = test.source.display();
        let told = format!("{}|{source}|{}", datadir.display(), changes * share / 100);
        ends[1] += u32::from(is_killed(other_process("crash_join::killed_child", CHILD, &told)));
        assert_none_or_all();
    }
    println!("{ends:?} of 3 ends, {changes} changes");
    assert!(ends.iter().all(|times| *times > 0), "{ends:?}");
    assert!(program(&place, &test.source).output().unwrap().status.success());
    test.assert_right(&place, "killed");
    let judge = Judge::open(&place).expect("the engine opens it");
    judge.read_everything();
}
