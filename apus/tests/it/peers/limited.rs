//! Peers that the user names and that keep the last blocks alone (BIP159).

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_net::Outgoing;
use apus_progress::{Method, Observer, Phase, Progress, Watch};
use apus_sync as sync;
use apus_testpeer::{Answers, Hangup, Honest, Server};
use apus_wire::message::{Message, Services, Version};

use super::withheld::LONG;
use super::world::{Told, try_sync};

/// Core's `NODE_NETWORK_LIMITED_MIN_BLOCKS`, and two blocks for what may come meanwhile: a peer
/// that is asked for more hangs up.
const KEPT: usize = 288 + 2;

/// A peer that prunes.
struct Pruned(Honest);

impl Answers for Pruned {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        match message {
            Message::Version(_) => {
                let services = Services::NETWORK_LIMITED.with(Services::WITNESS);
                out.push(Outgoing::new(&Version {
                    version: 70_016,
                    services,
                    time: 0,
                    receiver: [0; 26],
                    nonce: 5,
                    user_agent: b"/odd/",
                    start_height: 0,
                    relay: true,
                }));
                out.push(Outgoing::empty(apus_wire::message::Command::VERACK));
                Ok(())
            }
            Message::GetData(list) => {
                let height = |item| self.0.chain.height_of(&item).unwrap();
                let is_gone = |item| height(item) + KEPT < self.0.top;
                if list.iter().any(|item| is_gone(item.hash)) {
                    Err(Hangup)
                } else {
                    self.0.answer(message, out)
                }
            }
            _ => self.0.answer(message, out),
        }
    }
}

fn pruned() -> Server {
    let begin = || -> Box<dyn Answers> { Box::new(Pruned(Honest::new((LONG.chain)()))) };
    Server::start((LONG.world)().place().network.magic, true, begin).unwrap()
}

/// Stops when the user hears that no peer has what is missing.
#[derive(Default)]
struct Stopping {
    told: Told,
    stop: AtomicBool,
    /// The progress after that.
    then: Mutex<Option<Progress>>,
}

impl Observer for Stopping {
    fn observe(&self, progress: &Progress) {
        if self.stop.load(Relaxed) {
            self.then.lock().unwrap().get_or_insert(progress.clone());
        }
    }

    fn note(&self, text: &str) {
        self.told.note(text);
        if text.contains("waiting for one that has") || text.starts_with("Dropped") {
            self.stop.store(true, Relaxed);
        }
    }
}

#[test]
fn a_pruned_peer_serves_a_gap_of_the_last_blocks() {
    let world = (LONG.world)();
    for stored in [world.height() - 285, world.height() - 2] {
        let place = world.place();
        place.sync_blocks("first", &world.blocks[..=stored as usize]);
        let server = pruned();
        let options = LONG.options(&place, Method::InOrder, &[&server]);
        let (summary, told) = try_sync(&options);
        let summary = summary.unwrap();
        assert_eq!((summary.height, summary.best_block), (world.height(), world.tip()));
        assert_eq!(summary.peers.len(), 1, "{:?}", summary.peers);
        told.assert_has(&["Connected to", "it is pruned", "286 blocks"]);
    }
}

#[test]
fn a_gap_that_a_pruned_peer_cannot_close_is_waited_for() {
    let place = (LONG.world)().place();
    let server = pruned();
    let options = LONG.options(&place, Method::InOrder, &[&server]);
    let watch = Stopping::default();
    let summary = sync::sync(&options, &[], Watch::new(&watch, &watch.stop)).unwrap();
    assert!(summary.interrupted && summary.height == 0, "{}", summary.height);
    watch.told.assert_has(&["it is pruned", "286 blocks"]);
    watch.told.assert_has(&["No peer has the next blocks: waiting for one that has"]);
    assert_eq!((watch.told.count("Lost"), watch.told.count("Dropped")), (0, 0));
    let then = watch.then.lock().unwrap().take().unwrap();
    assert_eq!((then.phase, then.height), (Phase::WaitingForBlocks, 0));
}
