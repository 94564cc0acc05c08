//! Disks that fill up in each pass: that of the temporary files, of the blocks, or of the coins.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use apus_disk::Disk;
use apus_hash::Hash;
use apus_node::Run;
use apus_node::{AssumeValid, Options, SyncError};
use apus_progress::Phase;
use apus_progress::Watch;
use apus_sync as sync;
use apus_testchain::{Chain, Spec};

use super::{Begun, Held, PASSES, Test, Watcher};
use crate::support::Place;
use crate::support::fill_disk::FillDisk;
use crate::support::mounts::{run_on_small_disk, small_disk};
use crate::support::program::assert_contains;

/// What is on a disk of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Volume {
    Spill,
    Blocks,
    Chainstate,
}

const VOLUMES: [Volume; 3] = [Volume::Spill, Volume::Blocks, Volume::Chainstate];

#[test]
fn a_join_stopped_by_a_full_disk_carries_on_with_room() {
    // Room for what both runs may reserve, 16 MiB for each worker's block file, and for the 50 MiB
    // that must stay free.
    run_on_small_disk(200, "crash_join::full::on_a_small_disk");
}

/// Not a test, but what the test above runs where the small disk is mounted.
#[test]
#[ignore = "a process that another test starts"]
fn on_a_small_disk() {
    let Some(small) = small_disk() else { return };
    let test = Test::small(96);
    let mut saved = 0;
    for volume in VOLUMES {
        for pass in PASSES {
            let full = fill_up(&test, &small, volume, pass, Duration::ZERO);
            // The commit writes coins and the block index; the spill may have all it needs by then.
            let is_full = full.is_some() || volume == Volume::Spill;
            assert!(is_full, "{volume:?}, {pass:?}: it was not full");
            saved += usize::from(full.is_some_and(|full| full.has_saved));
        }
    }
    assert!(saved > 0, "there was something to carry on from");
    // Enough for pieces to be written to the spill before anything is saved.
    let spec = Spec { empty_blocks_after: 0, ..Spec::mainnet_like(96, 40, 6_000_000) };
    let test = Test::of(&Chain::new(spec));
    let full = fill_up(&test, &small, Volume::Spill, PASSES[0], Duration::MAX).unwrap();
    assert!(!full.has_saved && full.text.contains("nothing was saved"), "{}", full.text);
    assert_contains(&full.text, &["the disk is full", "--spilldir", "--method=order"]);
}

/// How a join ended on a disk that was full.
struct Full {
    text: String,
    /// Whether there was progress to carry on from.
    has_saved: bool,
}

/// Joins in a new directory and fills the disk of `volume` in a pass, then makes room and joins
/// again. `None` if the first join ended well.
fn fill_up(
    test: &Test,
    small: &Path,
    volume: Volume,
    pass: Phase,
    save_every: Duration,
) -> Option<Full> {
    let what = format!("{volume:?} full in {pass:?}");
    let place = test.world.place();
    let dir = small.join("dir");
    std::fs::create_dir(&dir).unwrap();
    std::fs::create_dir_all(place.network_dir()).unwrap();
    let mut options = Options { save_every, ..test.options(&place) };
    options.assumevalid = AssumeValid::Block(test.world.tip());
    options.network.minimum_chain_work = Hash::ZERO;
    match volume {
        Volume::Spill => options.join.spill_dir = Some(dir.clone()),
        Volume::Blocks => symlink(&dir, place.network_dir().join("blocks")).unwrap(),
        Volume::Chainstate => symlink(&dir, place.network_dir().join("chainstate")).unwrap(),
    }
    let fill = FillDisk::new(pass, small.join("other"));
    let stop = AtomicBool::new(false);
    let sources = [test.source.clone()];
    let result =
        sync::sync_on(&Run::on(&Disk::new(), &options), &sources, Watch::new(&fill, &stop));
    std::fs::remove_file(small.join("other")).unwrap();
    let full = match result {
        Ok(summary) => {
            assert_eq!(summary.best_block, test.world.tip(), "{what}");
            None
        }
        Err(SyncError::Store(error)) => {
            let kind = error.source.as_ref().map(|source| source.kind());
            assert_eq!(kind, Some(std::io::ErrorKind::StorageFull), "{what}: {error}");
            let text = error.to_string();
            assert!(text.contains("free some space"), "{what}: {text}");
            let has_saved = holds_progress(&options);
            assert_eq!(
                text.contains("run the same command to continue"),
                has_saved,
                "{what}: {text}"
            );
            let spill = options.spill_path();
            assert_eq!(spill.join("spill.dat").exists(), has_saved, "{what}: temporary files");
            Some(Full { text, has_saved })
        }
        Err(other) => panic!("{what}: {other}"),
    };
    finish(test, &place, &options, full.as_ref(), &what);
    drop(place);
    std::fs::remove_dir_all(dir).unwrap();
    full
}

/// Joins again when there is room.
fn finish(test: &Test, place: &Place, options: &Options, full: Option<&Full>, what: &str) {
    let watch = Watcher::default();
    let summary = test.run(Begun::Empty, &Disk::new(), options, &watch);
    let summary = summary.unwrap_or_else(|error| panic!("{what}, then: {error}"));
    assert_eq!(summary.best_block, test.world.tip(), "{what}");
    let held = Held::by(place);
    assert!(held == test.right, "{what}: it is as in order");
    assert!(!options.spill_path().exists(), "{what}: temporary files");
    if full.is_some_and(|full| full.has_saved) {
        let read = watch.read_at_first();
        assert!(read.is_none_or(|blocks| blocks > 1), "{what}: carried on: {read:?}");
    }
}

/// Whether there is saved progress.
fn holds_progress(options: &Options) -> bool {
    let next_to_chainstate = options.network_dir().join("join");
    [options.spill_path(), next_to_chainstate].iter().any(|dir| dir.join("progress").is_file())
}
