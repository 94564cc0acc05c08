//! Files and peers together: what is missing or damaged in files, or in the data directory, comes
//! from peers.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apus_net::PeerOptions;
use apus_node::Options;
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Observer, Phase, Progress};
use apus_sync as sync;

use super::world::{Told, from_files, honest, try_sync, with_peers, with_peers_at, world};
use crate::support::outcome::Outcome;

/// Headers are waited for on a busy machine, too: files are read once, before any peer is asked for
/// blocks.
fn with_patience(options: Options) -> Options {
    let patience = Duration::from_secs(120);
    let peers = options.peers.map(|peers| PeerOptions { patience, ..peers });
    Options { peers, ..options }
}

#[test]
fn peers_have_what_is_missing_in_files_or_damaged() {
    for way in [Method::InOrder, Method::Join] {
        let place = world().place();
        let mut blocks = world().blocks.clone();
        *blocks[150].last_mut().unwrap() ^= 1;
        blocks.drain(120..130);
        let file = place.write("some", &blocks);
        let server = honest(true);
        let options = with_patience(with_peers(&place, way, &[&server]));
        let told = Told::default();
        let summary =
            sync::sync(&options, &[file], Watch::new(&told, &AtomicBool::new(false))).unwrap();
        assert_eq!(summary.refusals.len(), 1, "{:?}", summary.refusals);
        assert!((11..30).contains(&summary.peers[0].blocks), "{:?}", summary.peers);
        Outcome::of(&place, summary).assert_holds_same(from_files(way), "files and peers");
    }
}

/// Somebody who stops a sync when its tip has reached a height.
struct StopsAt<'a>(u32, &'a AtomicBool);

impl Observer for StopsAt<'_> {
    fn observe(&self, progress: &Progress) {
        if progress.height >= self.0 && progress.phase == Phase::FindingPeers {
            self.1.store(true, Relaxed);
        }
    }
}

#[test]
fn files_do_not_wait_for_a_peer_that_is_dead() {
    let place = world().place();
    let file = place.write("all", &world().blocks);
    // Nobody listens on this port.
    let options = with_peers_at(&place, Method::InOrder, &["127.0.0.1:1".to_string()]);
    let stop = AtomicBool::new(false);
    let observer = StopsAt(world().height(), &stop);
    let summary = sync::sync(&options, &[file], Watch::new(&observer, &stop)).unwrap();
    // Whether this is the best chain is not known without a peer.
    assert!(summary.interrupted);
    assert_eq!(summary.best_block, world().tip());
}

/// Where one file has a damaged copy and another a good one, the order in which blocks came is made
/// anew: those that peers have keep their places.
#[test]
fn a_damaged_copy_does_not_hide_what_peers_have() {
    for way in [Method::InOrder, Method::Join] {
        let place = world().place();
        let mut blocks = world().blocks.clone();
        *blocks[150].last_mut().unwrap() ^= 1;
        // Those above genesis, which is stored, and some in the middle.
        blocks.drain(160..165);
        blocks.drain(1..11);
        let files = [place.write("some", &blocks), place.write("copy", &world().blocks[150..=150])];
        let server = honest(true);
        let options = with_patience(with_peers(&place, way, &[&server]));
        let summary = sync::sync(&options, &files, Watch::default());
        let summary = summary.unwrap();
        assert_eq!(summary.refusals.len(), 1, "{:?}", summary.refusals);
        assert_eq!(summary.peers[0].blocks, 15, "{way:?}: those that no file has");
        Outcome::of(&place, summary).assert_holds_same(from_files(way), "files and peers");
    }
}

#[test]
fn a_stored_block_that_is_damaged_is_asked_for_again() {
    let place = world().place();
    let server = honest(true);
    let options = with_peers(&place, Method::InOrder, &[&server]);
    let stop_at_height = Some(100);
    try_sync(&apus_node::Options { stop_at_height, ..options.clone() }).0.unwrap();
    // Stored, and not connected.
    let rest = place.write("rest", &world().blocks[101..]);
    let stored = apus_node::Options { peers: None, stop_at_height: Some(150), ..options.clone() };
    sync::sync(&stored, &[rest], Watch::default()).unwrap();
    damage(&place, 140);
    let summary =
        sync::reindex(&apus_node::Options { peers: None, ..options.clone() }, Watch::default());
    assert!(summary.unwrap_err().to_string().contains("is damaged"));
    let summary = try_sync(&options).0.unwrap();
    assert_eq!(summary.height, world().height());
    let words = "was replaced by that of a peer";
    assert!(summary.repaired.iter().any(|block| block.reason.contains(words)));
}

/// Changes the last byte of the stored block at a height.
fn damage(place: &crate::support::Place, height: usize) {
    use std::os::unix::fs::FileExt as _;
    let (index, files) = place.blocks();
    let hash = world().hash(height as u32);
    let entry = index.entries.iter().find(|entry| entry.hash == hash).unwrap();
    let pos = entry.block_pos().unwrap();
    let path = files.block_path(pos.file);
    drop(files);
    let at = u64::from(pos.pos) + world().blocks[height].len() as u64 - 1;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}
