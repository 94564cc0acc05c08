//! What commands report, phase by phase: the share that is done. And requests to stop (Ctrl-C):
//! whatever phase a command is in, it ends there, says that it did, and begins nothing else but to
//! save.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus::tables;
use apus_descriptors::Range;
use apus_node as node;
use apus_node::SwiftSyncOptions;
use apus_node::{AssumeValid, Options, SyncError};
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Observer, Phase, Progress};
use apus_store::IndexKind;
use apus_swiftsync::Format;
use apus_sync as sync;
use apus_sync::Summary;
use apus_tables::{Destination, Export, ExportTable, HistoryAsked};
use apus_tools as tools;
use apus_tools::UtxoHash;
use apus_wire::Chain as Network;

use crate::support::chains::small;
use crate::support::listed::Listed;
use crate::support::snapshot::Snapshot;
use crate::support::swift::{Mode, World};
use crate::support::{Place, data, with_genesis};
use Phase::{
    Connecting, Disconnecting, Exporting, Headers, Indexing, JoinChecking, JoinMatching,
    JoinReading, MakingHints, Merging, ReadingBlocks, ReadingCoins, ReadingFilters,
    ReadingSnapshot, ReadingUndo, SwiftSync, WritingCoins, WritingSnapshot,
};

/// An observer that keeps all reports, and raises the flag at a chosen one: the n-th of a phase.
struct Watching<'a> {
    stop: &'a AtomicBool,
    at: Option<(Phase, usize)>,
    reports: Mutex<Vec<(Phase, f64)>>,
    /// The number of reports up to that one.
    raised: Mutex<Option<usize>>,
}

impl Observer for Watching<'_> {
    fn observe(&self, progress: &Progress) {
        let mut reports = self.reports.lock().unwrap();
        reports.push((progress.phase, progress.fraction));
        let Some((phase, count)) = self.at.filter(|_| !self.stop.load(Relaxed)) else { return };
        if reports.iter().filter(|(seen, _)| *seen == phase).count() == count {
            *self.raised.lock().unwrap() = Some(reports.len());
            self.stop.store(true, Relaxed);
        }
    }
}

/// Phases and shares done, one of each report.
type Reports = Vec<(Phase, f64)>;

/// Runs `command` with the flag raised at a report; returns whether it was interrupted, the reports
/// before that one and those after it.
fn watch(
    at: Option<(Phase, usize)>,
    command: &dyn Fn(&dyn Observer, &AtomicBool) -> bool,
) -> (bool, Reports, Reports) {
    let stop = AtomicBool::new(false);
    let watching =
        Watching { stop: &stop, at, reports: Mutex::default(), raised: Mutex::default() };
    let interrupted = command(&watching, &stop);
    let mut before = watching.reports.into_inner().unwrap();
    let raised = watching.raised.into_inner().unwrap().unwrap_or(before.len());
    let after = before.split_off(raised);
    (interrupted, before, after)
}

/// Phases whose reports come from the threads that do the work, before they do any more.
const STEP_BY_STEP: [Phase; 7] = [
    ReadingCoins,
    ReadingUndo,
    ReadingBlocks,
    MakingHints,
    WritingSnapshot,
    Disconnecting,
    Merging,
];

/// The shares that were reported in a phase.
fn shares(reports: &Reports, phase: Phase) -> Vec<f64> {
    reports.iter().filter(|(seen, _)| *seen == phase).map(|(_, share)| *share).collect()
}

/// Panics unless the reported shares of a phase grow to 1 in at least `steps_min` steps.
#[track_caller]
fn assert_complete(reports: &Reports, phase: Phase, steps_min: usize) {
    let seen = shares(reports, phase);
    let steps = seen.iter().filter(|share| **share > 0.0).count();
    assert!(steps >= steps_min, "{phase:?}: {seen:?}");
    assert!(seen.iter().all(|share| (0.0..=1.0).contains(share)), "{phase:?}: {seen:?}");
    assert!(seen.contains(&1.0), "{phase:?}: {seen:?}");
}

/// Asks a command to stop in each phase that it goes through, at the first report and at the second
/// one. In `phases` it must end there: nothing that follows but a commit is begun, and the result
/// says so. In any other phase, what is done is being saved, or the only report is that of the end.
/// Returns what the command reports when it is not stopped.
fn assert_stops(
    name: &str,
    phases: &[Phase],
    command: impl Fn(&dyn Observer, &AtomicBool) -> bool,
) -> Reports {
    let (interrupted, whole, _) = watch(None, &command);
    assert!(!interrupted, "{name}: nobody asked it to stop");
    let mut order: Vec<Phase> = Vec::new();
    whole.iter().for_each(|(phase, _)| {
        if !order.contains(phase) {
            order.push(*phase);
        }
    });
    for phase in phases {
        assert!(order.contains(phase), "{name}: it does not come through {phase:?}, but {order:?}");
    }
    for (place, phase) in order.iter().copied().enumerate() {
        let later = order[place + 1..].iter().filter(|phase| **phase != WritingCoins);
        let later: Vec<Phase> = later.copied().collect();
        for count in [1, 2] {
            if !phases.contains(&phase) && count > 1 {
                continue;
            }
            let (interrupted, before, after) = watch(Some((phase, count)), &command);
            let what = format!("{name}, report {count} of {phase:?}");
            let is_end = before.last().is_some_and(|(_, share)| *share >= 1.0);
            if !phases.contains(&phase) || count > 1 && (is_end || after.is_empty()) {
                continue;
            }
            assert!(interrupted, "{what}: it went on to the end");
            let others = after.iter().find(|(seen, _)| later.contains(seen));
            assert_eq!(others, None, "{what}: it began another phase");
            let is_whole = after.iter().any(|(seen, share)| *seen == phase && *share >= 1.0);
            let is_whole = is_whole && STEP_BY_STEP.contains(&phase);
            assert!(!is_whole, "{what}: it went on to the end of the phase: {after:?}");
        }
    }
    whole
}

/// A chain, a directory that was synced in order, its snapshot, and hints.
struct Synced {
    world: World,
    place: Place,
}

impl Synced {
    fn new() -> Self {
        let world = World::of(small(5));
        let place = world.in_order();
        Self { world, place }
    }

    /// The options of a single thread, so that little is done after the flag is raised.
    fn options(&self, place: &Place) -> Options {
        Options { threads: 1, ..place.options() }
    }

    fn snapshot(&self) -> Snapshot {
        super::snapshot::made(&self.place, self.world.height())
    }

    /// The path of the snapshot.
    fn write_snapshot(&self) -> PathBuf {
        self.place.write_bytes("utxo.dat", &self.snapshot().to_bytes())
    }
}

/// A file that a command makes, and the number of entries of its directory without it.
struct Made {
    path: PathBuf,
    beside: usize,
}

impl Made {
    fn new(place: &Place, name: &str) -> Self {
        let path = place.root().join(name);
        let beside = entries_beside(&path);
        Self { path, beside }
    }

    /// Panics if an interrupted command left the file, if one that ended did not make it, or if
    /// anything else is new. Removes the file.
    fn check(&self, interrupted: bool) -> bool {
        assert_ne!(interrupted, self.path.exists(), "only a command that ends makes the file");
        let _ = std::fs::remove_file(&self.path);
        assert_eq!(entries_beside(&self.path), self.beside, "something else is left");
        interrupted
    }
}

fn entries_beside(path: &Path) -> usize {
    path.parent().unwrap().read_dir().unwrap().count()
}

fn is_interrupted(result: Result<Summary, SyncError>) -> bool {
    match result {
        Ok(summary) => summary.interrupted,
        Err(SyncError::Stopped) => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn statistics_of_the_utxo_set() {
    let it = Synced::new();
    for hash in [UtxoHash::None, UtxoHash::MuHash, UtxoHash::HashSerialized3] {
        let whole = assert_stops(&format!("{hash:?}"), &[ReadingCoins], |observer, stop| {
            let options = it.options(&it.place);
            tools::txoutset_info(&options, hash, Watch::new(observer, stop)).unwrap().is_none()
        });
        assert_complete(&whole, ReadingCoins, 1);
    }
}

#[test]
fn syncs_report_the_share_done() {
    let blocks = with_genesis(small(3));
    let reports = |dbcache_bytes| {
        let place = Place::new(Network::Regtest);
        let source = [place.write("chain", &blocks)];
        let options = Options { dbcache_bytes, ..place.options() };
        watch(None, &|observer, stop| {
            is_interrupted(sync::sync(&options, &source, Watch::new(observer, stop)))
        })
    };
    let place = Place::new(Network::Regtest);
    let (_, of_one_commit, _) = reports(place.options().dbcache_bytes);
    assert_complete(&of_one_commit, WritingCoins, 1);
    // It commits all the time.
    let (_, of_many, _) = reports(1);
    assert_complete(&of_many, Merging, 1);
    assert!(shares(&of_many, WritingCoins).len() <= 2, "that of the end alone");
    assert!(shares(&of_many, Connecting).len() > 10);

    place.sync_blocks("chain", &blocks);
    let hints = place.root().join("hints");
    let (_, of_hints, _) = watch(None, &|observer, stop| {
        let format = Format::Bip456;
        let watch = Watch::new(observer, stop);
        let made = apus_claims::create_hints(&place.options(), Some(160), format, &hints, watch);
        made.unwrap().interrupted
    });
    assert_complete(&of_hints, ReadingUndo, 40);
    assert_complete(&of_hints, MakingHints, 1);
    std::fs::remove_file(&hints).unwrap();
    apus_claims::create_hints(&place.options(), None, Format::Bip456, &hints, Watch::default())
        .unwrap();
    let (_, of_swiftsync, _) = watch(None, &|observer, stop| {
        let options = place.options().with_hints(&hints);
        is_interrupted(sync::reindex(&options, Watch::new(observer, stop)))
    });
    assert_complete(&of_swiftsync, WritingCoins, 2);
}

#[test]
fn commands_that_make_and_prove_hints() {
    let it = Synced::new();
    let place = &it.place;
    let options = it.options(&it.place);
    let height = it.world.height();
    let snapshot = it.write_snapshot();
    let hints = it.world.write_hints(place, height);
    let out = Made::new(place, "out");
    for (below, phases) in
        [(0, &[ReadingCoins, MakingHints][..]), (20, &[ReadingCoins, ReadingUndo, MakingHints])]
    {
        // The cache is small for the hints below the tip alone.
        let dbcache_bytes = if below > 0 { 0 } else { options.dbcache_bytes };
        let options = Options { dbcache_bytes, ..options.clone() };
        assert_stops("hints create", phases, |observer, stop| {
            let at = Some(height - below);
            let format = Format::Bip456;
            let made = apus_claims::create_hints(
                &options,
                at,
                format,
                &out.path,
                Watch::new(observer, stop),
            );
            out.check(made.unwrap().interrupted)
        });
    }
    assert_stops("hints create --snapshot", &[MakingHints], |observer, stop| {
        let format = Format::Bip456;
        let made = apus_claims::create_hints_of_snapshot(
            &options,
            &snapshot,
            format,
            &out.path,
            Watch::new(observer, stop),
        );
        out.check(made.unwrap().interrupted)
    });
    let file = sync::HintsFile::open(&hints).unwrap();
    assert_stops("hints convert", &[MakingHints], |observer, stop| {
        let made = apus_claims::convert_hints(
            &file,
            &options,
            Format::Booster,
            &out.path,
            Watch::new(observer, stop),
        );
        out.check(made.unwrap().interrupted)
    });
    assert_stops("hints compress", &[MakingHints], |observer, stop| {
        let made = apus_claims::compress_hints(&file, 1, &out.path, Watch::new(observer, stop));
        out.check(made.unwrap().interrupted)
    });
    assert_stops("prove hints", &[SwiftSync], |observer, stop| {
        is_interrupted(apus_claims::prove(&options, &hints, &[], Watch::new(observer, stop)))
    });
}

#[test]
fn commands_that_make_and_prove_snapshots() {
    let it = Synced::new();
    let place = &it.place;
    let options = it.options(&it.place);
    let height = it.world.height();
    let snapshot = it.write_snapshot();
    let hints = it.world.write_hints(place, height);
    let out = Made::new(place, "out");
    for (below, phases) in [(0, &[WritingSnapshot][..]), (20, &[ReadingUndo, WritingSnapshot])] {
        assert_stops("snapshot create", phases, |observer, stop| {
            let at = Some(height - below);
            let made =
                apus_claims::create_snapshot(&options, at, &out.path, Watch::new(observer, stop));
            out.check(made.unwrap().interrupted)
        });
    }
    let phases = [ReadingBlocks, WritingSnapshot];
    assert_stops("snapshot create --hints", &phases, |observer, stop| {
        let made = apus_claims::create_snapshot_of_hints(
            &options,
            &hints,
            &out.path,
            Watch::new(observer, stop),
        );
        out.check(made.unwrap().interrupted)
    });
    let mut reversed = it.snapshot();
    reversed.coins.reverse();
    let reversed = place.write_bytes("reversed.dat", &reversed.to_bytes());
    assert_stops("snapshot info", &[ReadingSnapshot], |observer, stop| {
        apus_node::snapshot_info(&reversed, 1, Watch::new(observer, stop)).unwrap().is_none()
    });
    assert_stops("prove a snapshot", &[SwiftSync], |observer, stop| {
        is_interrupted(apus_claims::prove(&options, &snapshot, &[], Watch::new(observer, stop)))
    });
    let blocks = [place.write("blocks", &it.world.blocks)];
    let phases = [JoinReading, JoinMatching, JoinChecking];
    assert_stops("prove --full", &phases, |observer, stop| {
        is_interrupted(apus_claims::prove(&options, &snapshot, &blocks, Watch::new(observer, stop)))
    });
}

#[test]
fn loading_a_snapshot() {
    let listed = Listed::with_payments();
    let (_made, out) = listed.with_snapshot();
    let mut reversed = Snapshot::parse(&std::fs::read(&out).unwrap());
    reversed.coins.reverse();
    let load = |path: &Path, observer: &dyn Observer, stop: &AtomicBool| {
        let place = listed.world.place();
        let blocks = place.write("blocks", &listed.world.blocks);
        let options = Options { threads: 1, ..place.options() };
        let loaded =
            apus_claims::load_snapshot(&options, path, &[blocks], Watch::new(observer, stop))
                .unwrap();
        let directory = place.network_dir().join(node::SNAPSHOT_DIRECTORY);
        assert_ne!(loaded.interrupted, directory.exists());
        let status = tools::status(&options);
        let is_found = status.is_ok_and(|status| status.snapshot.is_some());
        assert_eq!(is_found, directory.exists());
        loaded.interrupted
    };
    let in_another_order = out.with_extension("reversed");
    std::fs::write(&in_another_order, reversed.to_bytes()).unwrap();
    for path in [&out, &in_another_order] {
        let name = path.display().to_string();
        assert_stops(&name, &[Headers, ReadingSnapshot], |observer, stop| {
            load(path, observer, stop)
        });
    }
}

#[test]
fn exports() {
    let it = Synced::new();
    let options = it.options(&it.place);
    let out = Made::new(&it.place, "out");
    for format in [tables::Format::Parquet, tables::Format::Sqlite, tables::Format::Csv] {
        for table in [ExportTable::Coins, ExportTable::Inputs] {
            assert_stops(&format!("{table:?}, {format:?}"), &[Exporting], |observer, stop| {
                let forms = tables::Forms::default();
                let start_height = None;
                let stop_height = None;
                let asked = Export { table, format, forms, start_height, stop_height };
                let to = Destination::File(&out.path);
                let watch = Watch::new(observer, stop);
                let exported = apus_tables::export(&options, &asked, to, watch).unwrap();
                assert!(!exported.interrupted || exported.rows == 0);
                out.check(exported.interrupted)
            });
        }
    }
}

#[test]
fn exports_of_a_history() {
    let it = Synced::new();
    let options = it.options(&it.place);
    let out = Made::new(&it.place, "history.csv");
    let index = &[IndexKind::BlockFilterIndex];
    let descriptors = ["raw(51)".to_string()];
    for (has_filters, phases) in [(false, &[Exporting][..]), (true, &[ReadingFilters])] {
        if has_filters {
            tools::index(&options, index, None, Watch::default()).unwrap();
        }
        assert_stops(&format!("filters: {has_filters}"), phases, |observer, stop| {
            let asked = HistoryAsked {
                descriptors: &descriptors,
                range: Range::default(),
                format: tables::Format::Csv,
                forms: tables::Forms::default(),
                start_height: None,
                stop_height: None,
            };
            let to = Destination::File(&out.path);
            let watch = Watch::new(observer, stop);
            let history = apus_tables::export_history(&options, &asked, to, watch).unwrap();
            out.check(history.exported.interrupted)
        });
    }
}

#[test]
fn a_rewind() {
    let it = Synced::new();
    let height = it.world.height() - 20;
    assert_stops("rewind", &[Disconnecting], |observer, stop| {
        let place = it.place.copy();
        is_interrupted(tools::rewind(&it.options(&place), height, Watch::new(observer, stop)))
    });
}

#[test]
fn syncs_and_rebuilds_by_every_method() {
    let it = Synced::new();
    let hints = it.world.write_hints(&it.place, it.world.height());
    let snapshot = it.write_snapshot();
    let expected = it.place.utxo_hash();
    let source = it.world.sources(&it.place, Mode::Full, &it.world.file_order());
    let ways = |options: Options| {
        let swift = |assumevalid| Options { assumevalid, ..options.clone() };
        let assumed = || {
            let mut options = swift(AssumeValid::Block(it.world.tip()));
            options.network.minimum_chain_work = apus_hash::Hash::ZERO;
            options
        };
        let of_snapshot =
            SwiftSyncOptions { snapshot: Some(snapshot.clone()), ..Default::default() };
        let in_order = vec![Connecting, WritingCoins, Merging];
        let joined = vec![JoinReading, JoinMatching, JoinChecking];
        [
            (
                "order",
                // So many commits leave something to be merged.
                Options { method: Some(Method::InOrder), dbcache_bytes: 20_000, ..options.clone() },
                in_order,
            ),
            (
                "join",
                Options { method: Some(Method::Join), ..options.clone() }.with_join_depth(0),
                joined,
            ),
            (
                "hints",
                swift(AssumeValid::Nothing).with_hints(&hints),
                vec![SwiftSync, WritingCoins],
            ),
            ("hints, assumed valid", assumed().with_hints(&hints), vec![SwiftSync, WritingCoins]),
            (
                "snapshot",
                Options { swiftsync: of_snapshot.clone(), ..assumed() },
                vec![ReadingSnapshot, SwiftSync],
            ),
        ]
    };
    let assert_carried_on = |place: &Place, what: &str| {
        // It is carried on, or begins again.
        assert_eq!(place.utxo_hash(), expected, "{what}");
    };
    for at in 0..5 {
        let (name, _, phases) = ways(it.place.options()).into_iter().nth(at).unwrap();
        let of = |place: &Place| ways(it.options(place)).into_iter().nth(at).unwrap().1;
        assert_stops(&format!("sync, {name}"), &phases, |observer, stop| {
            let place = it.world.place();
            let options = of(&place);
            let interrupted =
                is_interrupted(sync::sync(&options, &source, Watch::new(observer, stop)));
            let again = sync::sync(&options, &source, Watch::default()).unwrap();
            assert!(!again.interrupted);
            assert_carried_on(&place, name);
            interrupted
        });
        assert_stops(&format!("reindex, {name}"), &phases, |observer, stop| {
            let place = it.place.copy();
            let options = of(&place);
            let interrupted = is_interrupted(sync::reindex(&options, Watch::new(observer, stop)));
            assert!(!sync::reindex(&options, Watch::default()).unwrap().interrupted);
            assert_carried_on(&place, name);
            interrupted
        });
    }
}

#[test]
fn scans_of_many_headers_and_the_check_of_many_blocks() {
    let place = Place::new(Network::Main);
    let blocks = [data("mainnet-0-14131.dat")];
    place.sync(&blocks);
    let options = |place: &Place| Options { threads: 1, ..place.options() };
    assert_stops("reindex --index", &[Headers, Indexing], |observer, stop| {
        let place = place.copy();
        let stop_at_height = Some(200);
        let options = Options { allow_shrink: true, stop_at_height, ..options(&place) };
        let interrupted = is_interrupted(sync::reindex_files(&options, Watch::new(observer, stop)));
        assert!(!interrupted || place.stats(UtxoHash::None).height == 14_131, "it is as it was");
        interrupted
    });
    assert_stops("sync", &[Headers], |observer, stop| {
        let place = Place::new(Network::Main);
        let options = Options { stop_at_height: Some(200), ..options(&place) };
        is_interrupted(sync::sync(&options, &blocks, Watch::new(observer, stop)))
    });
}
