//! A disk that fills up while a SwiftSync writes the tables of a snapshot next to blocks that peers
//! send.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use apus_disk::{Call, Disk};
use apus_net::PeerOptions;
use apus_node::Watch;
use apus_node::{ErrorKind, Method, Options, Unobserved};
use apus_sync as sync;
use apus_tools as tools;
use rustix::io::Errno;

use super::withheld::{LONG, Refusal, downloaded};
use super::world::try_sync;

/// The time in which all other blocks come.
const SETTLE: Duration = Duration::from_secs(3);
/// The most that the sync may take after that: far less than blocks are waited for.
const SOON: Duration = Duration::from_secs(20);

/// A disk that is full once tables of coins are written, after a peer was `asked` for a block that
/// it keeps back, until these tables are removed.
fn filling(asked: Arc<AtomicBool>) -> Disk {
    let is_full = AtomicBool::new(false);
    let hook = move |call: Call, path: &Path| -> io::Result<()> {
        let is_table = path.extension().is_some_and(|ext| ext == "ldb")
            && path.parent().is_some_and(|dir| dir.ends_with("chainstate"));
        match call {
            Call::Write if is_table => {
                let begun = Instant::now();
                while !asked.load(Relaxed) && begun.elapsed() < SOON {
                    std::thread::sleep(Duration::from_millis(10));
                }
                std::thread::sleep(SETTLE);
                is_full.store(true, Relaxed);
            }
            Call::Remove if is_table => is_full.store(false, Relaxed),
            _ => {}
        }
        match is_full.load(Relaxed) && matches!(call, Call::Write | Call::Allocate) {
            true => Err(Errno::NOSPC.into()),
            false => Ok(()),
        }
    };
    Disk::new().with_hook(Arc::new(hook))
}

#[test]
fn a_full_disk_under_the_tables_ends_a_sync_at_once_and_keeps_what_came() {
    let world = (LONG.world)();
    let (synced, place) = (world.in_order(), world.place());
    // Other tables are those of the block index, and the one that a new chainstate begins with.
    place.sync_blocks("genesis", &world.blocks[..1]);
    let snapshot = place.root().join("utxo.dat");
    let stop = AtomicBool::new(false);
    tools::create_snapshot(&synced.options(), None, &snapshot, Watch::new(&Unobserved, &stop))
        .unwrap();
    let with = |options: Options| Options {
        hints: None,
        snapshot: Some(snapshot.clone()),
        peers: options.peers.map(|peers| PeerOptions { patience: 10 * SOON, ..peers }),
        ..options
    };
    // The block is none of the last, which are stored before the tables are begun.
    let silent = LONG.without(&[60], Refusal::Silence);
    let options = with(LONG.options(&place, Method::SwiftSync, &[&silent.server]));
    let begun = Instant::now();
    let result = std::thread::scope(|scope| {
        let (over, is_over) = mpsc::channel::<()>();
        let stop = &stop;
        // Ends with the sync, or has it end.
        scope.spawn(move || {
            let is_late = is_over.recv_timeout(3 * SOON) == Err(RecvTimeoutError::Timeout);
            stop.fetch_or(is_late, Relaxed);
        });
        let disk = filling(Arc::clone(&silent.asked));
        let result = sync::sync_on(&disk, &options, &[], Watch::new(&Unobserved, stop));
        drop(over);
        result
    });
    let took = begun.elapsed();
    let error = result.map(|summary| summary.interrupted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disk, "{error}");
    assert!(error.to_string().contains("chainstate"), "{error}");
    assert!(took < SOON, "it went on for {took:?}");

    let honest = LONG.honest();
    let summary = try_sync(&with(LONG.options(&place, Method::SwiftSync, &[&honest]))).0.unwrap();
    assert_eq!((summary.height, downloaded(&summary)), (world.height(), 1));
    assert_eq!(place.muhash(), synced.muhash());
}
