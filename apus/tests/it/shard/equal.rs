//! Valid chains.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_disk::Disk;
use apus_node::{Options, SyncError};
use apus_progress::{Observer, Phase, Progress, Watch};
use apus_shard as shard;
use apus_shard::{Destination, Results};
use apus_wire::Chain as Network;

use crate::join::source::{ASSUMED, Assumed, Files, Run, Source, VARIED};
use crate::support::outcome::Outcome;
use crate::support::sharding::{Sharded, Sharding};
use crate::support::swift::{small_chain, try_sync_with};
use crate::support::{Place, blocks_of, data, regtest_chain, with_genesis};

/// Makes a data directory by tasks, and looks at it as a sync does that finds nothing to do.
fn sharded(source: &Source, files: Files, assumed: Assumed, cut: Sharding) -> (Place, Outcome) {
    let place = Place::new(source.network);
    // A mebibyte is little enough for partitions to be matched in slices.
    let mut options = place.join();
    options.dbcache_bytes = if cut.seed.is_multiple_of(2) { 0 } else { 100 << 20 };
    source.assume(&mut options, assumed);
    let job = Sharded::plan(&place, &options, &[source.write(&place, files)], cut);
    assert!(job.run_to_end(cut.seed).is_none());
    let summary = try_sync_with(&options, &[]).unwrap();
    let outcome = Outcome::of(&place, summary);
    (place, outcome)
}

fn check(source: &Source, runs: &[(Files, Assumed, Sharding)]) {
    for (files, assumed, cut) in runs {
        let run = Run { files: *files, assumed: *assumed, threads: 2, dbcache_bytes: 100 << 20 };
        let (_, expected) = source.join(run);
        let (_, outcome) = sharded(source, *files, *assumed, *cut);
        outcome.assert_holds_same(&expected, &format!("{files:?}, {assumed:?}, {cut:?}"));
    }
}

#[test]
fn tasks_leave_the_same_directory_as_a_join() {
    let cuts = [
        Sharding::of(1, 1),
        Sharding::of(3, 2),
        Sharding::of(17, 3),
        Sharding { spans: 17, partitions: 1, buckets: 3, seed: 4 },
        Sharding { spans: 1, partitions: 17, buckets: 17, seed: 5 },
    ];
    let files = [Files::InOrder, Files::Shuffled, Files::Twice, Files::Directory, Files::Reversed];
    let runs: Vec<_> =
        files.into_iter().zip(cuts).map(|(files, cut)| (files, Assumed::Nothing, cut)).collect();
    check(&VARIED, &runs);
}

#[test]
fn tasks_skip_scripts_that_are_assumed_valid() {
    let spec = apus_testchain::Spec {
        busy_blocks: 60,
        busy_bytes: 6_000,
        empty_blocks_after: 2_100,
        mix: apus_testchain::Mix::varied(),
        ..apus_testchain::Spec::small(206)
    };
    let source = Source::regtest(&apus_testchain::Chain::new(spec));
    let runs = ASSUMED.map(|assumed| (Files::Shuffled, assumed, Sharding::of(3, 6)));
    check(&source, &runs);
}

#[test]
fn tasks_meet_real_blocks_where_bip30_is_looked_up() {
    let main = Source::real(Network::Main, blocks_of(&data("mainnet-0-14131.dat")));
    check(&main, &[(Files::Shuffled, Assumed::Nothing, Sharding::of(3, 7))]);
    let regtest = Source::real(Network::Regtest, regtest_chain());
    check(&regtest, &[(Files::InOrder, Assumed::Nothing, Sharding::of(3, 8))]);
}

/// Asks to stop as soon as blocks are being stored.
struct StopsWhileStoring(AtomicBool);

impl Observer for StopsWhileStoring {
    fn observe(&self, progress: &Progress) {
        if progress.phase == Phase::StoringBlocks {
            self.0.store(true, Relaxed);
        }
    }
}

#[test]
fn a_finish_that_was_stopped_goes_on_with_the_blocks_it_has() {
    let place = Place::new(VARIED.network);
    let sources = [VARIED.write(&place, Files::Shuffled)];
    let job = Sharded::plan(&place, &place.join(), &sources, Sharding::of(3, 10));
    job.run_all(10);
    let opened = job.open(&Disk::new());
    let results = Results::find(&opened).unwrap();
    let stops = StopsWhileStoring(AtomicBool::new(false));
    let destination = Destination::DataDir(&job.options);
    let watch = Watch::new(&stops, &stops.0);
    let stopped = shard::finish(&opened, results, &destination, watch);
    assert!(matches!(stopped, Err(SyncError::Stopped)));
    assert_eq!(place.blocks().0.entries.iter().filter(|e| e.block_pos().is_some()).count(), 2);
    assert!(job.finish(&destination).refusal.is_none());
    let expected = VARIED.in_order(Files::InOrder, Assumed::Nothing);
    let summary = try_sync_with(&place.join(), &[]).unwrap();
    Outcome::of(&place, summary).assert_holds_same(&expected, "after a stop");
}

#[test]
fn a_snapshot_of_tasks_is_that_of_the_directory() {
    let (place, _) = sharded(&VARIED, Files::InOrder, Assumed::Nothing, Sharding::of(3, 9));
    let job = Sharded {
        url: place.root().join("job").to_str().unwrap().into(),
        options: place.options(),
    };
    let [ours, due] = ["ours", "due"].map(|name| place.root().join(name));
    let finished = job.finish(&Destination::Snapshot(&ours));
    let summary =
        apus_claims::create_snapshot(&place.options(), None, &due, Watch::default()).unwrap();
    assert_eq!((finished.coins, finished.best_block), (summary.coins, summary.base));
    assert!(std::fs::read(ours).unwrap() == std::fs::read(due).unwrap());
    let verdict = job.finish(&Destination::Verdict);
    assert_eq!((verdict.coins, verdict.amount), (finished.coins, finished.amount));
}

#[test]
fn a_directory_that_knows_a_better_chain_is_refused() {
    let chain = small_chain(205, 120, 6_000);
    let place = Place::new(VARIED.network);
    let sources = [VARIED.write(&place, Files::InOrder)];
    let job = Sharded::plan(&place, &place.join(), &sources, Sharding::of(1, 11));
    job.run_all(11);
    let branch = with_genesis(&chain.fork(chain.height() - 2, 5, 5));
    let options = Options { stop_at_height: Some(0), ..place.in_order() };
    let summary = try_sync_with(&options, &[place.write("branch", &branch)]).unwrap();
    assert_eq!(summary.height, 0);
    let opened = job.open(&Disk::new());
    let results = Results::find(&opened).unwrap();
    let destination = Destination::DataDir(&job.options);
    let refused = shard::finish(&opened, results, &destination, Watch::default());
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("headers of a better chain"), "{error}");
}
