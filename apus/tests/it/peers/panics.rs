//! A panic of the thread that talks to peers ends the sync, whatever it is doing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use apus_net::Outgoing;
use apus_progress::Watch;
use apus_progress::{Observer, Progress};
use apus_sync as sync;
use apus_testpeer::{Answers, Hangup, Honest, Server};
use apus_wire::message::Message;

use super::withheld::LONG;
use super::world::WAYS;
use crate::support::waiting::stopped_at_limit;

/// A block that a SwiftSync asks for after the last 288, which it stores first.
const HEIGHT: usize = 100;

/// Hangs up when it is asked for the block at [`HEIGHT`].
struct Leaving(Honest);

impl Answers for Leaving {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        if let Message::GetData(list) = message
            && list.iter().any(|item| self.0.chain.height_of(&item.hash) == Some(HEIGHT))
        {
            return Err(Hangup);
        }
        self.0.answer(message, out)
    }
}

/// Panics in the thread that talks to peers when it says that a peer is lost.
#[derive(Default)]
struct Panicking(AtomicBool);

impl Observer for Panicking {
    fn observe(&self, _: &Progress) {}

    fn note(&self, text: &str) {
        if text.starts_with("Lost peer") && thread::current().name() == Some("apus-net") {
            self.0.store(true, Relaxed);
            panic!("a bug of the thread that talks to peers");
        }
    }
}

#[test]
fn a_panic_of_the_thread_that_talks_ends_each_way() {
    for way in WAYS {
        let begin = || -> Box<dyn Answers> { Box::new(Leaving(Honest::new((LONG.chain)()))) };
        let place = (LONG.world)().place();
        let server = Server::start(place.network.magic, true, begin).unwrap();
        let options = LONG.options(&place, way, &[&server]);
        let watch = Panicking::default();
        let stop = AtomicBool::new(false);
        let run = || sync::sync(&options, &[], Watch::new(&watch, &stop));
        let run = || catch_unwind(AssertUnwindSafe(run));
        let (ended, is_endless) = stopped_at_limit(&stop, run);
        assert!(watch.0.load(Relaxed), "{way:?}: no peer was lost");
        assert!(!is_endless, "{way:?}: it goes on without peers, and without end");
        assert!(ended.is_err(), "{way:?}: it claims to have ended well");
    }
}
