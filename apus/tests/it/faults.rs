//! A disk on which calls fail, and a slow one: the work stops with an error that names the file,
//! and what was committed is kept; once the disk works again, the same command ends as if nothing
//! had happened. A sync that failed is not taken for one that succeeded later.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apus_disk::{Call, Disk};
use apus_node::Run;
use apus_node::{Options, SyncError};
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Observer, Progress};
use apus_sync as sync;
use apus_testchain::{Rng, rounds};
use apus_tools as tools;
use apus_wire::Chain;
use rustix::io::Errno;

use crate::endurance::{Commits, Endurance};
use crate::support::Place;
use crate::support::block_index::check_block_index;
use crate::support::chains::small;
use crate::support::faults::{Fault, Faults};
use crate::support::power::counted;
use crate::support::swift::{Mode, World, small_chain};
use crate::support::waiting::be_slow;
use crate::support::with_genesis;

/// A kind of work on a directory.
struct Work<'a> {
    name: &'static str,
    base: &'a Place,
    run: &'a (dyn Fn(&Place, &Disk) -> Result<(), SyncError> + Sync),
    /// Panics unless the directory is as it is at the end of the work.
    assert_done: &'a (dyn Fn(&Place, &str) + Sync),
    /// Panics unless the directory is as it is at some moment of the work.
    check: &'a (dyn Fn(&Place, &str) + Sync),
}

impl Work<'_> {
    /// The number of calls of each kind in the whole work.
    fn calls(&self) -> BTreeMap<Call, u64> {
        let place = self.base.copy();
        let faults = Arc::new(Faults::default());
        (self.run)(&place, &faults.on(Disk::new())).unwrap();
        (self.assert_done)(&place, self.name);
        faults.counts()
    }

    /// Makes `n` calls of every kind fail, once or from then on.
    fn fail_everywhere(&self, seed: u64, of_each: u64) {
        let calls = self.calls();
        let mut rng = Rng::new(seed, 1);
        let mut tried = 0;
        let mut refused = 0;
        for (call, count) in calls {
            for round in 0..rounds(of_each) {
                let tries_each = of_each.saturating_mul(rounds(1)) >= count;
                if tries_each && round >= count {
                    break;
                }
                let number = if tries_each { round + 1 } else { rng.between(1, count) };
                let is_full = !matches!(call, Call::Read) && rng.percent(40);
                let error = if is_full { Errno::NOSPC } else { Errno::IO };
                let fault = Fault { call, number, lasts: rng.percent(50), error };
                tried += 1;
                refused += u64::from(self.fail(fault, rng.percent(50)));
            }
        }
        println!("{}: {tried} faults, {refused} of them errors", self.name);
        assert!(refused > tried / 3, "{}: {refused} of {tried}", self.name);
    }

    /// Does the work on a disk with this fault, then, maybe after a power cut, without. Returns
    /// whether the fault was an error.
    fn fail(&self, fault: Fault, cut: bool) -> bool {
        let what = format!("{}, {fault:?}, power cut after it: {cut}", self.name);
        let place = self.base.copy();
        let faults = Faults::of(fault);
        let (disk, power) = counted();
        let result = (self.run)(&place, &faults.on(disk));
        let failed = faults.failed();
        match &result {
            // Tables that are merged away may stay until the next opening.
            Ok(()) if fault.call == Call::Remove => {}
            Ok(()) => assert!(!fault.lasts || failed.len() < 2, "{what}: {failed:?} passed over"),
            Err(error) => assert_names(error, &failed, &what),
        }
        if cut {
            power.lose_unsynced().unwrap();
        }
        (self.check)(&place, &what);
        (self.run)(&place, &Disk::new()).unwrap_or_else(|error| panic!("{what}, then: {error}"));
        (self.assert_done)(&place, &what);
        result.is_err()
    }
}

/// Panics unless an error names one of the files, or its directory, and the reason.
#[track_caller]
fn assert_names(error: &SyncError, failed: &[PathBuf], what: &str) {
    let text = error.to_string();
    let names = |path: &PathBuf| text.contains(&path.display().to_string());
    assert!(failed.iter().any(names), "{what}: '{text}' names none of {failed:?}");
    let reasons = ["Input/output error", "No space left on device", "no storage space"];
    assert!(reasons.iter().any(|reason| text.contains(reason)), "{what}: {text}");
}

#[test]
fn in_order_with_everything() {
    let test = Endurance::new();
    let whole = test.base.copy();
    test.run(&whole, &Disk::new(), &Commits::default()).unwrap();
    let expected = test.end(&whole);
    let seen = Mutex::new(Commits::default());
    let work = Work {
        name: "in order, pruned, rewound",
        base: &test.base,
        run: &|place, disk| {
            let commits = Commits::default();
            let result = test.run(place, disk, &commits);
            *seen.lock().unwrap() = commits;
            result
        },
        assert_done: &|place, what| assert_eq!(test.end(place), expected, "{what}"),
        check: &|place, what| test.check(place, &seen.lock().unwrap(), what),
    };
    work.fail_everywhere(61, 2);
}

/// The UTXO set, and what the index says of each block.
fn held(place: &Place) -> (String, u64, usize) {
    let (set, coins) = place.utxo_hash();
    (set, coins, check_block_index(place).blocks.len())
}

/// The best block's height, 0 without coins.
fn height(place: &Place) -> u32 {
    place.committed().map_or(0, |(height, _)| height)
}

#[test]
fn joins_and_swiftsyncs() {
    let world = World::of(&small_chain(62, 12, 4_000));
    let expected = held(&world.in_order());
    let assert_done = |place: &Place, what: &str| assert_eq!(held(place), expected, "{what}");
    let base = world.place();
    base.sync_blocks("first", &world.blocks[..=118]);
    base.shrink();
    let source = base.write("all", &world.blocks);
    let join = |place: &Place, disk: &Disk| {
        let options = Options { save_every: Duration::ZERO, ..place.join() };
        let sources = std::slice::from_ref(&source);
        sync::sync_on(&Run::on(disk, &options), sources, Watch::default()).map(|_| ())
    };
    let is_one_or_other = |place: &Place, what: &str| {
        let height = height(place);
        assert!(height == 118 || height == world.height(), "{what}: {height}");
    };
    let work = Work {
        name: "join",
        base: &base,
        run: &join,
        assert_done: &assert_done,
        check: &is_one_or_other,
    };
    work.fail_everywhere(62, 2);

    let empty = world.place();
    empty.sync_blocks("genesis", &world.blocks[..1]);
    empty.shrink();
    let hints = world.write_hints(&empty, world.height());
    let sources = world.sources(&empty, Mode::Full, &world.file_order());
    let swift = |place: &Place, disk: &Disk| {
        let save_every = Duration::ZERO;
        let options = Options { save_every, ..world.options(place, Mode::Full, &hints) };
        sync::sync_on(&Run::on(disk, &options), &sources, Watch::default()).map(|_| ())
    };
    let nothing_or_all = |place: &Place, what: &str| {
        let height = height(place);
        assert!(height == 0 || height == world.height(), "{what}: {height}");
    };
    let work = Work {
        name: "SwiftSync",
        base: &empty,
        run: &swift,
        assert_done: &assert_done,
        check: &nothing_or_all,
    };
    work.fail_everywhere(63, 2);
}

#[test]
fn reindexes() {
    let world = World::of(&small_chain(64, 12, 4_000));
    let base = world.in_order();
    base.shrink();
    let expected = held(&base);
    let work = Work {
        name: "reindex --index",
        base: &base,
        run: &|place, disk| {
            let options = place.in_order();
            sync::reindex_files_on(&Run::on(disk, &options), Watch::default()).map(|_| ())
        },
        assert_done: &|place, what| assert_eq!(held(place), expected, "{what}"),
        check: &|place, what| {
            // The index may be gone for the moment; the UTXO set is not.
            let height = height(place);
            assert!(height == world.height() || height == 0, "{what}: {height}");
        },
    };
    work.fail_everywhere(64, 2);
}

/// Raises its flag at a call to a slow disk, and counts calls and reports from then on.
#[derive(Default)]
struct Slow {
    stop: AtomicBool,
    calls: Mutex<Calls>,
}

#[derive(Default, Clone, Copy, Debug)]
struct Calls {
    /// Calls so far.
    all: u64,
    /// Reports of progress, each after other calls than the one before, and the calls before the
    /// last of them.
    reports: u64,
    reported: u64,
    /// Calls before the request to stop.
    stopped: u64,
}

impl Observer for Slow {
    fn observe(&self, _: &Progress) {
        let mut calls = self.calls.lock().unwrap();
        calls.reports += u64::from(calls.all > calls.reported);
        calls.reported = calls.all;
    }
}

/// Syncs on a disk each of whose calls takes `delay`, and asks to stop at a call.
fn on_a_slow_disk(
    run: &dyn Fn(&Place, &Disk, &Slow) -> sync::Summary,
    place: &Place,
    (delay, stop_at): (Duration, u64),
) -> (sync::Summary, Calls) {
    let slow = Arc::new(Slow::default());
    let hooked = Arc::clone(&slow);
    let hook = move |_: Call, _: &std::path::Path| {
        be_slow(delay);
        let mut calls = hooked.calls.lock().unwrap();
        calls.all += 1;
        if calls.all == stop_at {
            calls.stopped = calls.all;
            hooked.stop.store(true, Relaxed);
        }
        Ok(())
    };
    let summary = run(place, &Disk::new().with_hook(Arc::new(hook)), &slow);
    let calls = *slow.calls.lock().unwrap();
    (summary, calls)
}

#[test]
fn a_slow_disk_is_waited_for_until_a_request_to_stop() {
    let world = World::of(&small_chain(65, 40, 4_000));
    let base = world.place();
    base.sync_blocks("genesis", &world.blocks[..1]);
    base.shrink();
    let source = base.write("all", &world.blocks);
    let hints = world.write_hints(&base, world.height());
    for method in Method::ALL {
        let run = |place: &Place, disk: &Disk, slow: &Slow| {
            let mut options = world.options(place, Mode::AssumeValid, &hints).with_join_depth(0);
            options.method = Some(method);
            options.dbcache_bytes = 64 << 10;
            options.swiftsync.hints.take_if(|_| method != Method::SwiftSync);
            sync::sync_on(
                &Run::on(disk, &options),
                std::slice::from_ref(&source),
                Watch::new(slow, &slow.stop),
            )
            .unwrap()
        };
        let delay = Duration::from_millis(2);
        let (summary, whole) = on_a_slow_disk(&run, &base.copy(), (delay, u64::MAX));
        assert_eq!(summary.best_block, world.tip());
        println!("{method:?}: {whole:?}");
        assert!(whole.reports >= 3, "{method:?} reports {} times", whole.reports);
        for share in [4, 2] {
            let place = base.copy();
            let (summary, calls) = on_a_slow_disk(&run, &place, (delay, whole.all / share));
            println!("{method:?}: {calls:?}");
            assert!(summary.interrupted, "{method:?}");
            let after = calls.all - calls.stopped;
            assert!(
                after < whole.all * 3 / 5,
                "{method:?}: {after} calls after the request, {whole:?}"
            );
            let again = run(&place, &Disk::new(), &Slow::default());
            assert_eq!(again.best_block, world.tip());
        }
    }
}

/// What a disk does not give may be whole: nothing is repaired or rebuilt for it.
#[test]
fn an_error_of_the_disk_is_no_damage() {
    type Command = fn(&Disk, &Place) -> Result<(), SyncError>;
    let commands: [(&str, Command); 6] = [
        ("sync", |disk, place| {
            let good = place.root().join("good");
            sync::sync_on(&Run::on(disk, &place.options()), &[good], Watch::default()).map(drop)
        }),
        ("reindex", |disk, place| {
            sync::reindex_on(&Run::on(disk, &place.options()), Watch::default()).map(drop)
        }),
        ("rewind", |disk, place| {
            tools::rewind_on(disk, &place.options(), 50, Watch::default()).map(drop)
        }),
        ("index", |disk, place| {
            let kinds = [apus_store::IndexKind::BlockFilterIndex];
            tools::index_on(disk, &place.options(), &kinds, None, Watch::default()).map(drop)
        }),
        ("verify", |disk, place| {
            let asked = apus_sync::Verify { level: 4, blocks: 0 };
            tools::verify_on(disk, &place.options(), asked, Watch::default()).map(drop)
        }),
        ("reindex --index", |disk, place| {
            sync::reindex_files_on(&Run::on(disk, &place.options()), Watch::default()).map(drop)
        }),
    ];
    let blocks = with_genesis(small(5));
    let base = Place::new(Chain::Regtest);
    base.sync_blocks("good", &blocks);
    let coins = base.utxo_hash();
    for (name, command) in commands {
        for failing in ["blk00000.dat", "rev00000.dat"] {
            let place = base.copy();
            place.write("good", &blocks);
            let disk = Disk::new().with_hook(Arc::new(move |call, path: &std::path::Path| {
                let fails = matches!(call, Call::Read) && path.ends_with(failing);
                if fails { Err(Errno::IO.into()) } else { Ok(()) }
            }));
            match command(&disk, &place) {
                // A reindex reads no undo data, and files are scanned on the system's disk.
                Ok(()) => assert!(name.starts_with("reindex"), "{name}, {failing}"),
                Err(SyncError::Store(error)) => {
                    let why = error.source.as_ref().and_then(Errno::from_io_error);
                    assert_eq!(why, Some(Errno::IO), "{name}: {error}");
                    assert!(error.path.ends_with(failing), "{name}: {error}");
                    assert!(!error.what.contains("`apus "), "{name}: {error}");
                }
                Err(other) => panic!("{name}, {failing}: {other}"),
            }
            assert!(!place.network_dir().join(apus_node::DAMAGE_NOTE).exists(), "{name}");
            let summary = place.sync(&[]);
            assert!(summary.repaired.is_empty(), "{name}: {:?}", summary.repaired);
            assert_eq!(place.utxo_hash(), coins, "{name}");
        }
    }
}
