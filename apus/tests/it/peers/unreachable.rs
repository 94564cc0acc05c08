//! Peers and proxies that cannot be reached: the user hears why, again and again.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_net::Target;
use apus_node::Options;
use apus_peers as peers;
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Observer, Phase, Progress};
use apus_sync as sync;

use super::world::{Told, with_peers_at, world};
use crate::support::Place;
use crate::support::ports::free_port;

/// Reports of progress, ten a second while no peer is there, after which a sync is stopped.
const REPORTS_MAX: usize = 300;

/// Stops a sync once the user has read these words `n` times.
struct Watcher {
    words: &'static str,
    times: usize,
    told: Told,
    progress: Mutex<Vec<Progress>>,
    stop: AtomicBool,
}

impl Observer for Watcher {
    fn observe(&self, progress: &Progress) {
        let mut list = self.progress.lock().unwrap();
        list.push(progress.clone());
        if list.len() >= REPORTS_MAX || self.told.count(self.words) >= self.times {
            self.stop.store(true, Relaxed);
        }
    }

    fn note(&self, text: &str) {
        self.told.note(text);
    }
}

/// The messages of a sync with these options, up to the `n`th with these words.
fn told(options: &Options, words: &'static str, times: usize) -> (Told, Vec<Progress>) {
    let told = Told::default();
    let progress = Mutex::default();
    let stop = AtomicBool::new(false);
    let watch = Watcher { words, times, told, progress, stop };
    let summary = sync::sync(options, &[], Watch::new(&watch, &watch.stop)).unwrap();
    assert!(summary.interrupted);
    assert_eq!(watch.told.count(words), times, "{words}");
    (watch.told, watch.progress.into_inner().unwrap())
}

fn unreachable(place: &Place) -> (Options, String) {
    let address = format!("127.0.0.1:{}", free_port());
    (with_peers_at(place, Method::InOrder, std::slice::from_ref(&address)), address)
}

#[test]
fn the_reason_is_said_again_while_no_peer_is_there() {
    let place = world().place();
    let (options, address) = unreachable(&place);
    let (told, progress) = told(&options, "Cannot connect to", 3);
    for wait in ["1 s", "2 s", "4 s"] {
        told.assert_has(&[&address, "refused", &format!("trying again in {wait}")]);
    }
    // The best header says nothing about peers.
    let finding = |progress: &&Progress| progress.phase == Phase::FindingPeers;
    assert!(progress.iter().filter(finding).count() > 0);
    assert!(progress.iter().filter(finding).all(|progress| progress.time == 0));
}

#[test]
fn a_proxy_that_does_not_answer_is_named() {
    let place = world().place();
    let (mut options, address) = unreachable(&place);
    let proxy = format!("127.0.0.1:{}", free_port());
    let words = format!("proxy {proxy}: ");
    let peers = options.peers.as_mut().unwrap();
    peers.proxies.add(&proxy).unwrap();
    let (named, _) = told(&options, "Cannot connect to", 1);
    named.assert_has(&[&address, &words, "refused"]);
    // The user has not named the peer here: its address is in the book.
    let peers = options.peers.as_mut().unwrap();
    peers.connect.clear();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let book = format!("apus peers 1\n9.1.1.1 18444 409 {now} 0 0 0\n");
    std::fs::write(place.network_dir().join(peers::ADDRESSES_FILE), book).unwrap();
    let (found, _) = told(&options, "Cannot connect to any peer", 1);
    found.assert_has(&["Cannot connect to any peer", &words, "refused"]);
}

#[test]
fn an_onion_service_without_a_proxy_is_explained() {
    let place = world().place();
    let (mut options, _) = unreachable(&place);
    let name = format!("{}.onion", "a".repeat(56));
    options.peers.as_mut().unwrap().connect = vec![Target::parse(&name, 1).unwrap()];
    let (told, _) = told(&options, "Cannot connect to", 1);
    told.assert_has(&[&name, "is an onion service", "--onion=127.0.0.1:9050"]);
}
