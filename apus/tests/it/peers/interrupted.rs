//! A sync that is interrupted or killed carries on, and downloads little again.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

use apus_disk::{Call, Disk};
use apus_node::Options;
use apus_node::Run;
use apus_progress::Method;
use apus_progress::{Observer, Phase, Progress, Watch};
use apus_sync as sync;
use apus_sync::Summary;
use rustix::io::Errno;

use super::held::counting;
use super::world::{WAYS, chain, honest, tip, try_sync, with_peers, with_peers_at, world};
use crate::support::faults::{Fault, Faults};
use crate::support::program::{Lines, other_process, start};

/// Raises a flag with the report of this number.
struct StopsAt {
    left: AtomicUsize,
    stop: AtomicBool,
}

impl Observer for StopsAt {
    fn observe(&self, _: &Progress) {
        if self.left.fetch_sub(1, Relaxed) == 1 {
            self.stop.store(true, Relaxed);
        }
    }

    fn note(&self, _: &str) {}
}

/// A sync that is stopped at its `n`th report, if there is one.
fn sync_until(options: &Options, report: usize) -> Summary {
    let watch = StopsAt { left: AtomicUsize::new(report), stop: AtomicBool::new(false) };
    sync::sync(options, &[], Watch::new(&watch, &watch.stop)).unwrap()
}

#[test]
fn an_interrupted_sync_downloads_nothing_again() {
    for way in WAYS {
        let mut report = 1;
        let mut is_interrupted = true;
        while is_interrupted {
            let place = world().place();
            let server = honest(true);
            let options = with_peers(&place, way, &[&server]);
            let runs = [sync_until(&options, report), sync_until(&options, usize::MAX)];
            assert_eq!(runs[1].best_block, tip(), "{way:?}, {report}");
            let blocks = |run: &Summary| run.peers.iter().map(|peer| peer.blocks).sum::<u64>();
            let downloaded = runs.each_ref().map(blocks);
            let all = u64::from(world().height());
            assert_eq!(downloaded.iter().sum::<u64>(), all, "{way:?}, {report}: {downloaded:?}");
            (report, is_interrupted) = (report + 1 + report / 2, runs[0].interrupted);
        }
    }
}

/// A disk that is full from some write on: the first error is the one that is reported, and the
/// temporary files of a join are gone, also if blocks have arrived that were not read yet.
#[test]
fn a_full_disk_leaves_no_temporary_files() {
    let run = |way, number| {
        let place = world().place();
        let server = honest(true);
        let fault = Fault { call: Call::Write, number, lasts: true, error: Errno::NOSPC };
        let faults = Faults::of(fault);
        let options = with_peers(&place, way, &[&server]);
        let result =
            sync::sync_on(&Run::on(&faults.on(Disk::new()), &options), &[], Watch::default());
        assert!(!options.spill_path().exists(), "{way:?}, write {number}: {result:?}");
        let writes = faults.counts().get(&Call::Write).copied().unwrap_or_default();
        let first = faults.failed().first().map(|path| path.display().to_string());
        if let Some((first, Err(error))) = first.map(|first| (first, result)) {
            let is_first = error.to_string().contains(&first);
            assert!(is_first, "{way:?}, write {number}: {error}, not {first}");
        }
        writes
    };
    let all = run(Method::Join, u64::MAX);
    (1..5).for_each(|part| _ = run(Method::Join, all * part / 5));
    run(Method::SwiftSync, run(Method::SwiftSync, u64::MAX) / 2);
}

/// The environment variable that gives [`killed_child`] its task: data directory, way, address of
/// the peer, and the number of blocks to save.
const CHILD: &str = "APUS_TEST_PEERS_CHILD";
/// What [`killed_child`] prints once it has saved all blocks.
const SAVED: &str = "the blocks are saved";

/// Prints [`SAVED`] once all blocks are saved that can be.
struct Saves {
    enough: u64,
    /// The blocks of the last report.
    reported: AtomicU64,
    /// Those of the last report before a join has saved how far it is.
    saved: AtomicU64,
    is_told: AtomicBool,
}

impl Observer for Saves {
    fn observe(&self, progress: &Progress) {
        let saved = match progress.phase {
            // What these report is saved.
            Phase::Connecting | Phase::DownloadingBlocks => progress.blocks,
            _ => self.saved.load(Relaxed),
        };
        if saved >= self.enough && !self.is_told.swap(true, Relaxed) {
            // Past the capture of what tests print.
            std::io::stdout().write_all(format!("{SAVED}\n").as_bytes()).unwrap();
        }
        self.reported.store(progress.blocks, Relaxed);
    }
}

/// Not a test, but the process that the test below starts and kills. It saves more often than the
/// program does.
#[test]
#[ignore = "a process that another test starts and kills"]
fn killed_child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let [datadir, way, address, enough] = told.split('|').collect::<Vec<_>>().try_into().unwrap();
    let way = WAYS.into_iter().find(|known| known.name() == way).unwrap();
    let place = world().place();
    let options = with_peers_at(&place, way, &[address.to_string()]);
    let options = Options { datadir: datadir.into(), save_every: Duration::ZERO, ..options };
    let watch = Arc::new(Saves {
        enough: enough.parse().unwrap(),
        reported: AtomicU64::new(0),
        saved: AtomicU64::new(0),
        is_told: AtomicBool::new(false),
    });
    let hooked = Arc::clone(&watch);
    let hook = move |call: Call, path: &Path| {
        if call == Call::Rename && path.ends_with("join/progress") {
            hooked.saved.store(hooked.reported.load(Relaxed), Relaxed);
        }
        Ok(())
    };
    let disk = Disk::new().with_hook(Arc::new(hook));
    let _ =
        sync::sync_on(&Run::on(&disk, &options), &[], Watch::new(&*watch, &AtomicBool::new(false)));
}

#[test]
fn what_was_saved_before_a_kill_is_not_downloaded_again() {
    const SENT: usize = 100;
    for way in WAYS {
        let place = world().place();
        let (ending, sent) = counting(chain(), SENT, usize::MAX);
        // Blocks of spans that no worker reads yet wait in memory.
        let waiting = if way == Method::InOrder { 2 } else { SENT * 3 / 4 };
        let datadir = place.datadir();
        let enough = SENT - waiting;
        let told = format!("{}|{}|{}|{enough}", datadir.display(), way.name(), ending.address());
        let mut child = start(other_process("peers::interrupted::killed_child", CHILD, &told));
        let lines = Lines::of(child.stdout.take().unwrap());
        let is_saved = sent.wait() && lines.wait_for(&[SAVED]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_saved, "{way:?}: {enough} of {SENT} blocks are not saved");
        let server = honest(true);
        let summary = try_sync(&with_peers(&place, way, &[&server])).0.unwrap();
        assert_eq!(summary.best_block, tip());
        let again = summary.peers[0].blocks as usize + SENT - world().height() as usize;
        println!("{way:?}: {SENT} blocks had come, {again} of them come again");
        assert!(again <= waiting, "{way:?}: {again} of {SENT} come again");
    }
}
