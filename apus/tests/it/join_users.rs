//! The join as users meet it: interrupted and carried on, with temporary files elsewhere.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_node::{Options, SyncError};
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_sync as sync;
use apus_tools as tools;
use apus_tools::Unfinished;
use apus_wire::Chain;

use crate::support::program::{apus, assert_contains, assert_ends, stdout};
use crate::support::stop_when::StopWhen;
use crate::support::{Place, data};

/// Options for a join of the whole chain, with its temporary files in `spill`.
fn options(place: &Place, spill: Option<&Path>) -> Options {
    let mut options = place.join();
    options.join.spill_dir = spill.map(Path::to_path_buf);
    options
}

/// Runs a sync that is stopped when it comes to `phase`.
/// A join that is asked to stop in this phase, in the first one once it has read a block.
fn stop_in(options: &Options, phase: Phase) -> sync::Summary {
    let stop = AtomicBool::new(false);
    let has_begun = |progress: &Progress| phase != Phase::JoinReading || progress.blocks > 0;
    let observer =
        StopWhen(&stop, |progress: &Progress| progress.phase == phase && has_begun(progress));
    sync::sync(options, &[data("regtest-1-206.dat")], Watch::new(&observer, &stop)).unwrap()
}

fn finish(options: &Options) -> sync::Summary {
    try_to_finish(options).unwrap()
}

fn try_to_finish(options: &Options) -> Result<sync::Summary, SyncError> {
    // Not all blocks are stored where the first pass was interrupted.
    sync::sync(options, &[data("regtest-1-206.dat")], Watch::default())
}

fn entries(directory: &Path) -> Vec<std::path::PathBuf> {
    directory.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn expected() -> String {
    let place = Place::new(Chain::Regtest);
    place.sync(&[data("regtest-1-206.dat")]);
    place.utxo_hash().0
}

#[test]
fn an_interrupted_join_is_named_and_carried_on() {
    for phase in [Phase::JoinReading, Phase::JoinMatching, Phase::JoinChecking] {
        let place = Place::new(Chain::Regtest);
        let summary = stop_in(&options(&place, None), phase);
        let saved = summary.saved.and_then(sync::SavedSync::join).expect("it says what is saved");
        assert!(summary.interrupted && saved.total == 206 && saved.blocks_read > 0, "{saved:?}");
        assert!(summary.counts.blocks > 0 && summary.height == 0, "{:?}", summary.counts);
        let status = tools::status(&place.options()).unwrap();
        assert_eq!(status.unfinished, [Unfinished::Join(saved)]);
        let text = stdout(&apus(&place, &["status"]));
        assert!(text.contains("unfinished  a join, in pass "), "{text}");
        let text = stdout(&apus(&place, &["status", "--json"]));
        assert!(text.contains(r#""what":"join""#) && text.contains(r#""total":206"#), "{text}");
        // So few bytes would go in order.
        let auto = Options { method: None, ..options(&place, None) };
        let summary = finish(&auto);
        let chosen = summary.chosen.unwrap();
        assert_eq!(chosen.method, Method::Join, "{}", chosen.why);
        assert_eq!((summary.height, summary.saved), (206, None));
        assert_eq!(place.utxo_hash().0, expected());
        assert!(!place.network_dir().join("join").exists());
    }
}

#[test]
fn data_directories_may_share_a_place_for_temporary_files() {
    let one = Place::new(Chain::Regtest);
    let other = Place::new(Chain::Regtest);
    let spill = one.root().join("spill");
    std::fs::create_dir(&spill).unwrap();
    std::fs::create_dir(spill.join("join")).unwrap();
    std::fs::write(spill.join("join/mine"), "a file of the user").unwrap();
    for place in [&one, &other] {
        let saved = stop_in(&options(place, Some(&spill)), Phase::JoinReading)
            .saved
            .and_then(sync::SavedSync::join);
        assert!(saved.is_some());
    }
    assert_eq!(entries(&spill).len(), 3, "{:?}", entries(&spill));
    // Without --spilldir it is carried on where it is.
    for (place, spill) in [(&one, None), (&other, Some(spill.as_path()))] {
        assert_eq!(finish(&options(place, spill)).height, 206);
        assert_eq!(place.utxo_hash().0, expected());
    }
    assert_eq!(entries(&spill), [spill.join("join")]);
    assert!(spill.join("join/mine").exists());
}

#[test]
fn a_join_that_moves_or_is_given_up_leaves_no_temporary_files() {
    let place = Place::new(Chain::Regtest);
    let at = |name: &str| {
        let directory = place.root().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        directory
    };
    let one = at("one");
    let two = at("two");
    stop_in(&options(&place, Some(&one)), Phase::JoinReading);
    assert_eq!(entries(&one).len(), 1);
    stop_in(&options(&place, Some(&two)), Phase::JoinReading);
    assert_eq!((entries(&one).len(), entries(&two).len()), (0, 1));
    let in_order = Options { method: Some(Method::InOrder), ..options(&place, None) };
    assert_eq!(finish(&in_order).height, 206);
    assert!(entries(&two).is_empty() && !place.network_dir().join("join").exists());
    assert_eq!(place.utxo_hash().0, expected());
}

/// Finishes a join, and returns whether it has read blocks again.
fn reads_again(options: &Options) -> bool {
    let stop = AtomicBool::new(false);
    let reads = AtomicBool::new(false);
    let observer = StopWhen(&stop, |progress: &Progress| {
        reads.fetch_or(progress.phase == Phase::JoinReading, Relaxed);
        false
    });
    let watch = Watch::new(&observer, &stop);
    let summary = sync::sync(options, &[data("regtest-1-206.dat")], watch).unwrap();
    assert_eq!(summary.height, 206);
    reads.into_inner()
}

#[test]
fn a_copy_leaves_the_saved_work_of_the_original() {
    for is_elsewhere in [false, true] {
        let place = Place::new(Chain::Regtest);
        let spill = place.root().join("spill");
        std::fs::create_dir(&spill).unwrap();
        let spill = is_elsewhere.then_some(spill.as_path());
        assert!(stop_in(&options(&place, spill), Phase::JoinMatching).saved.is_some());
        let copies = [Method::Join, Method::InOrder].map(|method| (method, place.copy()));
        for (method, copy) in &copies {
            let options = Options { method: Some(*method), ..options(copy, None) };
            assert_eq!(finish(&options).height, 206);
            assert_eq!(copy.utxo_hash().0, expected());
        }
        assert!(!reads_again(&options(&place, spill)), "{is_elsewhere}: it was all saved");
        assert_eq!(place.utxo_hash().0, expected());
    }
}

#[test]
fn a_join_is_carried_on_in_a_directory_that_was_moved() {
    let place = Place::new(Chain::Regtest);
    assert!(stop_in(&options(&place, None), Phase::JoinMatching).saved.is_some());
    let moved = place.root().join("moved");
    std::fs::rename(place.datadir(), &moved).unwrap();
    assert!(!reads_again(&Options { datadir: moved, ..options(&place, None) }));
}

#[test]
fn another_method_says_that_it_gives_up_a_join() {
    let place = Place::new(Chain::Regtest);
    stop_in(&options(&place, None), Phase::JoinMatching);
    let args = ["txoutset", "info"];
    assert_ends(&apus(&place, &args), 1, &["a sync that was interrupted", "`apus status`"]);
    let output = apus(&place, &["sync", "--connect=0", "--method=order", "--assumevalid=0"]);
    assert_ends(&output, 0, &["The interrupted join is given up"]);
}

#[test]
fn an_interrupted_join_without_its_block_files_is_not_given_up() {
    // On a busy machine all blocks may be read before the request is seen.
    let stopped = (0..30).find_map(|_| {
        let place = Place::new(Chain::Regtest);
        let saved = stop_in(&options(&place, None), Phase::JoinReading)
            .saved
            .and_then(sync::SavedSync::join)?;
        (saved.blocks_read < saved.total).then_some((place, saved))
    });
    let (place, saved) = stopped.expect("it can be asked to stop");
    let alone = |method, place: &Place| {
        let options = Options { method, ..options(place, None) };
        sync::sync(&options, &[], Watch::default())
    };
    let error = alone(None, &place).unwrap_err().to_string();
    assert_contains(&error, &["height 206", "--from", "--method=order"]);
    let unfinished = |place: &Place| tools::status(&place.options()).unwrap().unfinished;
    assert_eq!(unfinished(&place), [Unfinished::Join(saved)]);
    let given_up = place.copy();
    assert!(alone(Some(Method::InOrder), &given_up).unwrap().height < 206);
    assert_eq!(unfinished(&given_up), []);
    assert_eq!(finish(&Options { method: None, ..options(&place, None) }).height, 206);
    assert_eq!(place.utxo_hash().0, expected());
}

#[test]
fn a_disk_for_temporary_files_that_is_not_mounted_costs_no_work() {
    let place = Place::new(Chain::Regtest);
    let spill = place.root().join("disk");
    std::fs::create_dir(&spill).unwrap();
    stop_in(&options(&place, Some(&spill)), Phase::JoinReading);
    let elsewhere = place.root().join("elsewhere");
    std::fs::rename(&spill, &elsewhere).unwrap();
    for named in [None, Some(spill.as_path())] {
        // As an empty mount point is.
        std::fs::create_dir_all(&spill).unwrap();
        let error = try_to_finish(&options(&place, named)).unwrap_err().to_string();
        let join = place.network_dir().join("join").display().to_string();
        let words = ["not mounted", "remove ", &join, "--method=order", spill.to_str().unwrap()];
        assert_contains(&error, &words);
    }
    std::fs::remove_dir(&spill).unwrap();
    std::fs::rename(&elsewhere, &spill).unwrap();
    assert_eq!(finish(&options(&place, Some(&spill))).height, 206);
    assert!(entries(&spill).is_empty());
}

#[test]
fn temporary_files_of_a_crash_before_the_first_save_are_found() {
    let place = Place::new(Chain::Regtest);
    let spill = place.root().join("spill");
    let other = place.root().join("other");
    std::fs::create_dir(&spill).unwrap();
    std::fs::create_dir(&other).unwrap();
    stop_in(&options(&place, Some(&spill)), Phase::JoinReading);
    std::fs::remove_file(place.network_dir().join("join/progress")).unwrap();
    assert_eq!(finish(&options(&place, Some(&other))).height, 206);
    assert!(entries(&spill).is_empty() && entries(&other).is_empty());
    assert!(!place.network_dir().join("join").exists());
}

#[test]
fn an_unusable_place_for_temporary_files_is_named_at_the_start() {
    let place = Place::new(Chain::Regtest);
    let source = data("regtest-1-206.dat");
    let file = place.root().join("file");
    std::fs::write(&file, "").unwrap();
    for (spill, code) in [(file.as_path(), 2), (Path::new("/proc"), 1), (Path::new("/nowhere"), 2)]
    {
        let spilldir = format!("--spilldir={}", spill.display());
        let args = ["sync", "--method=join", "--testing=joindepth=0", &spilldir, "--from"];
        let output = apus(&place, &[&args[..], &[source.to_str().unwrap()]].concat());
        assert_ends(&output, code, &[spill.to_str().unwrap()]);
    }
}
