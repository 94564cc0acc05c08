//! Progress: each phase that takes long reports the share of it that is done.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use apus_node::AssumeValid;
use apus_progress::Watch;
use apus_progress::{Observer, Phase, Progress};
use apus_swiftsync::Format;
use apus_sync as sync;
use apus_tools as tools;
use apus_tools::UtxoHash;
use apus_wire::Chain as Network;

use crate::support::chains::small;
use crate::support::{Place, data, with_genesis};

/// An observer that keeps all reports.
#[derive(Default)]
struct Recorder(Mutex<Vec<(Phase, f64)>>);

impl Observer for Recorder {
    fn observe(&self, progress: &Progress) {
        self.0.lock().unwrap().push((progress.phase, progress.fraction));
    }
}

impl Recorder {
    /// The shares that were reported in a phase.
    fn of(&self, phase: Phase) -> Vec<f64> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|(p, _)| *p == phase).map(|(_, fraction)| *fraction).collect()
    }

    /// Panics unless the reported shares of a phase grow to 1 in at least `steps_min` steps.
    #[track_caller]
    fn assert_complete(&self, phase: Phase, steps_min: usize) {
        let seen = self.of(phase);
        let steps = seen.iter().filter(|fraction| **fraction > 0.0).count();
        assert!(steps >= steps_min, "{phase:?}: {seen:?}");
        assert!(seen.iter().all(|fraction| (0.0..=1.0).contains(fraction)), "{phase:?}: {seen:?}");
        assert!(seen.contains(&1.0), "{phase:?}: {seen:?}");
    }
}

fn place_and_source() -> (Place, std::path::PathBuf) {
    let place = Place::new(Network::Regtest);
    let source = place.write("chain", &with_genesis(small(3)));
    (place, source)
}

#[test]
fn the_last_commit_reports_the_share_done() {
    let (place, source) = place_and_source();
    let recorder = Recorder::default();
    let stop = AtomicBool::new(false);
    sync::sync(&place.options(), &[source], Watch::new(&recorder, &stop)).unwrap();
    recorder.assert_complete(Phase::WritingCoins, 1);
}

#[test]
fn merges_report_the_share_done_and_commits_meanwhile_nothing() {
    let (place, source) = place_and_source();
    let recorder = Recorder::default();
    let stop = AtomicBool::new(false);
    let mut options = place.options();
    options.dbcache_bytes = 1; // commits all the time
    sync::sync(&options, &[source], Watch::new(&recorder, &stop)).unwrap();
    recorder.assert_complete(Phase::Merging, 1);
    assert!(recorder.of(Phase::WritingCoins).len() <= 2, "that of the end alone");
    assert!(recorder.of(Phase::Connecting).len() > 10);
}

#[test]
fn a_commit_of_swiftsync_reports_the_share_done() {
    let (place, source) = place_and_source();
    place.sync(std::slice::from_ref(&source));
    let hints = place.root().join("hints");
    let stop = AtomicBool::new(false);
    apus_claims::create_hints(&place.options(), None, Format::Bip456, &hints, Watch::default())
        .unwrap();
    let recorder = Recorder::default();
    let mut options = place.options();
    (options.swiftsync.hints, options.assumevalid) = (Some(hints), AssumeValid::Nothing);
    sync::reindex(&options, Watch::new(&recorder, &stop)).unwrap();
    recorder.assert_complete(Phase::WritingCoins, 2);
}

#[test]
fn reading_the_utxo_set_reports_the_share_done() {
    let place = Place::new(Network::Main);
    place.sync(&[data("mainnet-0-14131.dat")]);
    for hash in [UtxoHash::None, UtxoHash::MuHash, UtxoHash::HashSerialized3] {
        let recorder = Recorder::default();
        let stop = AtomicBool::new(false);
        tools::txoutset_info(&place.options(), hash, Watch::new(&recorder, &stop))
            .unwrap()
            .unwrap();
        recorder.assert_complete(Phase::ReadingCoins, 1);
    }
}

#[test]
fn hints_below_the_tip_report_the_blocks_above() {
    let (place, source) = place_and_source();
    place.sync(&[source]);
    let recorder = Recorder::default();
    let stop = AtomicBool::new(false);
    let out = place.root().join("hints");
    apus_claims::create_hints(
        &place.options(),
        Some(160),
        Format::Bip456,
        &out,
        Watch::new(&recorder, &stop),
    )
    .unwrap();
    recorder.assert_complete(Phase::ReadingUndo, 40);
    recorder.assert_complete(Phase::MakingHints, 1);
}
