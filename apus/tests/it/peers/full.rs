//! A disk that fills up while a SwiftSync writes the tables of a snapshot next to blocks that peers
//! send.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use apus_disk::{Call, Disk};
use apus_net::PeerOptions;
use apus_node::Run;
use apus_node::{ErrorKind, Options};
use apus_progress::Method;
use apus_progress::{Phase, Watch};
use apus_sync as sync;
use rustix::io::Errno;

use super::withheld::{LONG, Refusal, downloaded};
use super::world::{Told, try_sync};
use crate::support::swift::Mode;
use crate::support::waiting::{Gate, stopped_at_limit};

/// The most that the sync may take: far less than blocks are waited for.
const SOON: Duration = Duration::from_secs(20);

/// A disk that is full once tables of coins are written and all blocks but one are `done`, until
/// these tables are removed.
fn filling(done: Gate) -> Disk {
    let is_full = AtomicBool::new(false);
    let hook = move |call: Call, path: &Path| -> io::Result<()> {
        let is_table = path.extension().is_some_and(|ext| ext == "ldb")
            && path.parent().is_some_and(|dir| dir.ends_with("chainstate"));
        match call {
            Call::Write if is_table => {
                done.wait();
                is_full.store(true, Relaxed);
            }
            Call::Remove if is_table => is_full.store(false, Relaxed),
            _ => {}
        }
        if is_full.load(Relaxed) && matches!(call, Call::Write | Call::Allocate) {
            Err(Errno::NOSPC.into())
        } else {
            Ok(())
        }
    };
    Disk::new().with_hook(Arc::new(hook))
}

#[test]
fn a_full_disk_ends_a_sync_and_keeps_what_came() {
    let world = (LONG.world)();
    let synced = world.in_order();
    let place = world.place();
    // Other tables are those of the block index, and the one that a new chainstate begins with.
    place.sync_blocks("genesis", &world.blocks[..1]);
    let snapshot = place.root().join("utxo.dat");
    let stop = AtomicBool::new(false);
    apus_claims::create_snapshot(&synced.options(), None, &snapshot, Watch::default()).unwrap();
    let with = |options: Options| Options {
        method: options.method,
        peers: options.peers.map(|peers| PeerOptions { patience: 10 * SOON, ..peers }),
        ..world.options_of_snapshot(&place, Mode::AssumeValid, &snapshot)
    };
    // The block is none of the last, which are stored before the tables are begun.
    let silent = LONG.without(&[60], Refusal::Silence);
    let options = with(LONG.options(&place, Method::SwiftSync, &[&silent.server]));
    let told = Told::default();
    let all = u64::from(world.height());
    let done = told.when_seen(move |p| p.phase == Phase::SwiftSync && p.blocks + 1 == all);
    let disk = filling(done);
    let begun = Instant::now();
    let (result, _) = stopped_at_limit(&stop, || {
        sync::sync_on(&Run::on(&disk, &options), &[], Watch::new(&told, &stop))
    });
    let took = begun.elapsed();
    let error = result.map(|summary| summary.interrupted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disk, "{error}");
    assert!(error.to_string().contains("chainstate"), "{error}");
    assert!(took < SOON, "it went on for {took:?}");

    let honest = LONG.honest();
    let summary = try_sync(&with(LONG.options(&place, Method::SwiftSync, &[&honest]))).0.unwrap();
    assert_eq!((summary.height, downloaded(&summary)), (world.height(), 1));
    assert_eq!(place.utxo_hash(), synced.utxo_hash());
}
