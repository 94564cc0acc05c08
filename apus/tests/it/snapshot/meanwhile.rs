//! `apus sync --snapshot` while blocks are missing: bitcoind gets a UTXO set to work with first,
//! and has it whenever the sync ends before the proof. With bitcoind: `bitcoind/snapshot_state.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::SystemTime;

use apus_disk::{Call, Disk};
use apus_hash::Hash;
use apus_net::{Outgoing, PeerOptions, Target};
use apus_node::Run;
use apus_node::{AssumeValid, Options, SNAPSHOT_BASE_FILE, SNAPSHOT_DIRECTORY, SyncError};
use apus_progress::Watch;
use apus_progress::{Observer, Phase, Progress};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testpeer::{Answers, Hangup, Honest, ServedChain, Server, not_found};
use apus_wire::message::Message;

use super::found;
use crate::peers::world::Told;
use crate::support::Place;
use crate::support::judge::Judge;
use crate::support::listed::Listed;
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::assert_contains;
use crate::support::snapshot::Snapshot;
use crate::support::waiting::Gate;

const LOADED: &str = "The snapshot is loaded";
const NOT_LOADED: &str = "bitcoind has no UTXO set";

/// An honest peer with the blocks of a listed chain, and `n` empty ones after them.
fn server(listed: &Listed, more: usize) -> Server {
    let chain = ServedChain::of([listed.world.blocks.clone(), listed.more(more)].concat());
    let begin = move || -> Box<dyn Answers> { Box::new(Honest::new(chain.clone())) };
    Server::start(listed.world.place().network.magic, true, begin).unwrap()
}

/// Options for a sync with a snapshot, whose base block is assumed valid.
fn options(place: &Place, listed: &Listed, snapshot: &Path) -> Options {
    let mut options = place.options();
    options.swiftsync.snapshot = Some(snapshot.to_path_buf());
    options.assumevalid = AssumeValid::Block(listed.world.tip());
    options.network.minimum_chain_work = Hash::ZERO;
    options
}

fn with_peer(options: Options, server: &Server) -> Options {
    let connect = vec![Target::parse(&server.address().to_string(), 0).unwrap()];
    Options { peers: Some(PeerOptions { connect, ..PeerOptions::new(0) }), ..options }
}

/// Raises a flag at the first report for which the condition holds, and keeps what the user was
/// told.
struct Watcher<C> {
    condition: C,
    stop: AtomicBool,
    told: Told,
}

impl<C: Fn(&Progress) -> bool + Sync> Observer for Watcher<C> {
    fn observe(&self, progress: &Progress) {
        let is_time = (self.condition)(progress);
        self.stop.fetch_or(is_time, Relaxed);
    }

    fn note(&self, text: &str) {
        self.told.note(text);
    }
}

/// A sync from peers and files that is stopped when the condition holds, and what the user was
/// told.
fn run_until(
    options: &Options,
    sources: &[PathBuf],
    condition: impl Fn(&Progress) -> bool + Sync,
) -> (Result<Summary, SyncError>, Told) {
    let watch = Watcher { condition, stop: AtomicBool::new(false), told: Told::default() };
    let summary = sync::sync(options, sources, Watch::new(&watch, &watch.stop));
    (summary, watch.told)
}

fn run(options: &Options, sources: &[PathBuf]) -> (Result<Summary, SyncError>, Told) {
    run_until(options, sources, |_| false)
}

/// Whether some blocks have come, and not yet all.
fn half_way(progress: &Progress) -> bool {
    matches!(progress.phase, Phase::DownloadingBlocks | Phase::SwiftSync) && progress.blocks > 40
}

/// The files of the second UTXO set with the times of their last changes.
fn second_set(place: &Place) -> Vec<(PathBuf, SystemTime)> {
    let entries = std::fs::read_dir(place.network_dir().join(SNAPSHOT_DIRECTORY)).unwrap();
    let of =
        |entry: std::fs::DirEntry| (entry.path(), entry.metadata().unwrap().modified().unwrap());
    let mut files: Vec<_> = entries.map(|entry| of(entry.unwrap())).collect();
    files.sort();
    files
}

/// Panics unless Core's engine opens a copy of the directory at this height.
#[track_caller]
fn assert_core_opens_at(place: &Place, height: u32) {
    let copy = place.copy();
    let judge = Judge::open(&copy).expect("the engine opens it");
    assert_eq!(judge.tip().0, height);
}

/// A peer that has all headers and no blocks.
struct HeadersAlone(Honest);

impl Answers for HeadersAlone {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        match message {
            Message::GetData(list) => out.extend(list.iter().map(not_found)),
            _ => return self.0.answer(message, out),
        }
        Ok(())
    }
}

/// A directory with all headers and no blocks, left by a sync from a peer.
fn with_headers(listed: &Listed) -> Place {
    let place = listed.world.place();
    let chain = ServedChain::of(listed.world.blocks.clone());
    let begin = move || -> Box<dyn Answers> { Box::new(HeadersAlone(Honest::new(chain.clone()))) };
    let server = Server::start(place.network.magic, true, begin).unwrap();
    let options = with_peer(place.options(), &server);
    let comes = |progress: &Progress| {
        !matches!(progress.phase, Phase::FindingPeers | Phase::DownloadingHeaders | Phase::Headers)
    };
    assert!(run_until(&options, &[], comes).0.unwrap().interrupted);
    assert_eq!(found(&place), (0, None));
    place
}

#[test]
fn it_is_loaded_before_peers_bring_the_blocks_and_once() {
    for (listed, more) in Listed::all().into_iter().zip([3, 0, 3]) {
        let (synced, snapshot) = listed.with_snapshot();
        let place = listed.world.place();
        let server = server(&listed, more);
        let options = with_peer(options(&place, &listed, &snapshot), &server);
        let loaded = (0, Some((listed.world.tip(), Some(listed.height()))));

        let (summary, told) = run_until(&options, &[], half_way);
        assert!(summary.unwrap().interrupted);
        told.assert_has(&["is first loaded for bitcoind", &listed.world.tip().to_string()]);
        assert_eq!((told.count(LOADED), found(&place)), (1, loaded));
        assert_core_opens_at(&place, listed.height());

        let before = second_set(&place);
        let (summary, told) = run_until(&options, &[], |progress| {
            progress.phase == Phase::SwiftSync && progress.blocks > 60
        });
        if summary.unwrap().interrupted {
            assert_eq!((told.count(LOADED), found(&place)), (0, loaded));
            assert_eq!(second_set(&place), before, "it is loaded again");
            assert_core_opens_at(&place, listed.height());
        }

        let (summary, told) = run(&options, &[]);
        let top = listed.height() + more as u32;
        assert_eq!((summary.unwrap().height, told.count(LOADED)), (top, 0));
        // At the base block itself bitcoind makes one set of both.
        let left = (more == 0).then_some((listed.world.tip(), Some(top)));
        assert_eq!(found(&place), (top, left));
        synced.sync_blocks("all", &[listed.world.blocks.clone(), listed.more(more)].concat());
        assert_eq!(place.utxo_hash(), synced.utxo_hash());
        assert_core_opens_at(&place, top);
    }
}

#[test]
fn without_peers_the_error_names_the_block_and_what_core_can_do() {
    let listed = Listed::with_payments();
    let (_made, snapshot) = listed.with_snapshot();
    let place = with_headers(&listed);
    let options = options(&place, &listed, &snapshot);
    let some = place.write("some", &listed.world.blocks[..=100]);
    for (notes, sources) in [(1, &[some][..]), (0, &[])] {
        let (summary, told) = run(&options, sources);
        let error = summary.unwrap_err().to_string();
        let missing = listed.world.hash(if notes == 1 { 101 } else { 1 }).to_string();
        let words = [&missing, "is in no source", LOADED, "bitcoind starts here at height 299"];
        assert_contains(&error, &words);
        assert_eq!(told.count(LOADED), notes);
        assert_eq!(found(&place), (0, Some((listed.world.tip(), Some(299)))));
    }
    assert_core_opens_at(&place, listed.height());
}

#[test]
fn what_core_would_not_take_is_proved_all_the_same() {
    let listed = Listed::with_payments();
    let (synced, snapshot) = listed.with_snapshot();
    let unlisted = synced.root().join("unlisted.dat");
    apus_claims::create_snapshot(&synced.options(), Some(298), &unlisted, Watch::default())
        .unwrap();
    let server = server(&listed, 0);
    let nothing = |place: &Place| assert!(!place.network_dir().join(SNAPSHOT_DIRECTORY).exists());

    let place = listed.world.place();
    let (summary, told) = run(&with_peer(options(&place, &listed, &unlisted), &server), &[]);
    assert_eq!((summary.unwrap().height, told.count(LOADED)), (299, 0));
    told.assert_has(&[NOT_LOADED, "at the heights 110, 200, 299"]);
    nothing(&place);

    // Its base block is stored, and others are missing.
    let place = with_headers(&listed);
    let last = place.write("last", &listed.world.blocks[290..]);
    place.sync(&[last]);
    let (summary, told) = run(&with_peer(options(&place, &listed, &snapshot), &server), &[]);
    assert_eq!((summary.unwrap().height, told.count(LOADED)), (299, 0));
    told.assert_has(&[NOT_LOADED, "is stored here"]);
    nothing(&place);

    // Nothing is missing.
    let place = listed.world.place();
    let blocks = place.write("blocks", &listed.world.blocks);
    let (summary, told) = run(&options(&place, &listed, &snapshot), &[blocks]);
    assert_eq!(summary.unwrap().height, 299);
    assert_eq!((told.count(LOADED), told.count(NOT_LOADED)), (0, 0));
    nothing(&place);
}

#[test]
fn one_with_another_hash_is_refused_before_blocks_come() {
    let listed = Listed::with_payments();
    let (_made, path) = listed.with_snapshot();
    let mut snapshot = Snapshot::parse(&std::fs::read(&path).unwrap());
    snapshot.coins[7].1.amount += 1;
    std::fs::write(&path, snapshot.to_bytes()).unwrap();
    let place = listed.world.place();
    let server = server(&listed, 0);
    let (summary, told) = run(&with_peer(options(&place, &listed, &path), &server), &[]);
    let error = summary.unwrap_err();
    assert!(matches!(error, SyncError::Snapshot { .. }), "{error}");
    assert!(error.to_string().contains("its coins have the hash"), "{error}");
    assert_eq!((told.count(LOADED), found(&place)), (0, (0, None)));
    assert!(!place.network_dir().join(SNAPSHOT_DIRECTORY).exists());
    assert_core_opens_at(&place, 0);
}

#[test]
fn a_follower_waits_for_the_proof() {
    let listed = Listed::with_payments();
    let (_made, snapshot) = listed.with_snapshot();
    let place = listed.world.place();
    let server = server(&listed, 2);
    let mut options = with_peer(options(&place, &listed, &snapshot), &server);
    options.peers.as_mut().unwrap().follow = true;
    let (summary, told) = run_until(&options, &[], half_way);
    assert!(summary.unwrap().interrupted);
    assert_eq!(told.count(LOADED), 1);
    assert_core_opens_at(&place, 299);
    let follows = |progress: &Progress| progress.phase == Phase::Following;
    let (summary, told) = run_until(&options, &[], follows);
    assert_eq!((summary.unwrap().height, told.count(LOADED)), (301, 0));
    assert_eq!(found(&place), (301, None));
}

/// A set that reaches some height already: the new one is built next to it, and bitcoind validates
/// from that height on.
#[test]
fn it_is_loaded_next_to_a_set_that_another_will_replace() {
    let listed = Listed::with_payments();
    let (synced, snapshot) = listed.with_snapshot();
    let place = listed.world.place();
    let server = server(&listed, 3);
    place.sync_blocks("some", &listed.world.blocks[..=150]);
    let options = with_peer(options(&place, &listed, &snapshot), &server);
    let (summary, told) = run_until(&options, &[], half_way);
    assert!(summary.unwrap().interrupted);
    assert_eq!(told.count(LOADED), 1);
    assert_eq!(found(&place), (150, Some((listed.world.tip(), Some(299)))));
    assert_core_opens_at(&place, 299);
    let (summary, told) = run(&options, &[]);
    assert_eq!((summary.unwrap().height, told.count(LOADED)), (302, 0));
    assert_eq!(found(&place), (302, None));
    synced.sync(&[synced.write("more", &listed.more(3))]);
    assert_eq!(place.utxo_hash(), synced.utxo_hash());
}

/// The index on disk does not name the base block before the end, which comes first here.
#[test]
fn a_swiftsync_from_files_goes_on_where_it_was_stopped() {
    let listed = Listed::with_payments();
    let (_made, snapshot) = listed.with_snapshot();
    let (place, _) = listed.loaded();
    let source = place.write("reversed", listed.world.blocks.iter().rev());
    let options = options(&place, &listed, &snapshot);
    // After some blocks, no other is stored before it is stopped.
    let stopped = Gate::default();
    let written = AtomicUsize::new(0);
    let gate = stopped.clone();
    let hook = move |call: Call, path: &Path| -> std::io::Result<()> {
        let is_block = path.file_name().is_some_and(|name| name == "blk00000.dat");
        if is_block && call == Call::Write && written.fetch_add(1, Relaxed) > 60 {
            gate.wait();
        }
        Ok(())
    };
    let held = Disk::new().with_hook(Arc::new(hook));
    let condition = |progress: &Progress| {
        let is_time = progress.phase == Phase::SwiftSync && progress.blocks > 20;
        if is_time {
            stopped.open();
        }
        is_time
    };
    let watch = Watcher { condition, stop: AtomicBool::new(false), told: Told::default() };
    let sources = [source];
    let first = sync::sync_on(&Run::on(&held, &options), &sources, Watch::new(&watch, &watch.stop))
        .unwrap();
    let saved = first.saved.and_then(sync::SavedSync::swiftsync).expect("it is stopped in time");
    assert!(saved.done > 20, "{}", saved.done);
    assert_core_opens_at(&place, 299);
    let second = run(&options, &sources).0.unwrap();
    assert_eq!((second.height, second.counts.blocks), (299, u64::from(299 - saved.done)));
}

/// Wherever the power fails, Core opens what is left, and the same command goes on.
#[test]
fn power_may_fail_at_any_step_of_a_sync_that_loads_it() {
    let listed = Listed::with_payments();
    let (_made, snapshot) = listed.with_snapshot();
    let begun = with_headers(&listed);
    begun.shrink();
    let run = |place: &Place, disk: &Disk| {
        let some = place.write("some", &listed.world.blocks[..=100]);
        let options = options(place, &listed, &snapshot);
        sync::sync_on(&Run::on(disk, &options), &[some], Watch::default())
    };
    let (disk, counter) = counted();
    run(&begun.copy(), &disk).unwrap_err();
    let mut without = 0;
    let mut with = 0;
    for power in power_cuts(1..=counter.steps(), 3) {
        let place = begun.copy();
        run(&place, &failing(&power)).unwrap_err();
        power.lose_unsynced().unwrap();
        let is_marked = place.network_dir().join(SNAPSHOT_BASE_FILE).exists();
        *if is_marked { &mut with } else { &mut without } += 1;
        if !power.is_torn() {
            assert_core_opens_at(&place, if is_marked { 299 } else { 0 });
        }
        let error = run(&place, &Disk::new()).unwrap_err().to_string();
        assert!(error.contains(LOADED), "{power:?}: {error}");
        assert_eq!(found(&place).1, Some((listed.world.tip(), Some(299))), "{power:?}");
    }
    println!("{with} loaded, {without} not");
    assert!(without > 10);
}
