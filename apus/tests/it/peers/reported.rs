//! What is reported of the download while it runs, and at its end.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use apus_net::Outgoing;
use apus_progress::Method;
use apus_progress::Watch;
use apus_sync as sync;
use apus_testpeer::{Answers, Hangup, Honest, Server};
use apus_wire::message::{Command, Message, Nonce};

use super::world::{Told, WAYS, chain, honest, try_sync, with_peers, world};
use crate::support::waiting::Gate;

/// A peer that sends the last block once a gate is open.
struct Late {
    honest: Honest,
    is_asked: bool,
    gate: Gate,
}

impl Answers for Late {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        let list = match message {
            Message::GetData(list) => list,
            // All other blocks that it was asked for have arrived.
            Message::Pong(_) if std::mem::take(&mut self.is_asked) => {
                assert!(self.gate.wait(), "what is left was never reported");
                let payload = self.honest.chain.block(self.honest.top);
                out.push(Outgoing { command: Command::BLOCK, payload });
                return Ok(());
            }
            _ => return self.honest.answer(message, out),
        };
        for item in list.iter() {
            let height = self.honest.chain.height_of(&item.hash).unwrap();
            if height == self.honest.top {
                self.is_asked = true;
            } else {
                let payload = self.honest.chain.block(height);
                out.push(Outgoing { command: Command::BLOCK, payload });
            }
        }
        if self.is_asked {
            out.push(Outgoing::new(&Nonce(1).ping()));
        }
        Ok(())
    }
}

#[test]
fn what_is_left_and_the_wait_for_it_are_reported() {
    for way in WAYS {
        let place = world().place();
        let told = Told::default();
        let gate = told.when_seen(|progress| {
            let download = progress.download.unwrap_or_default();
            let is_waited_for = download.left > 0 && download.waited > Duration::ZERO;
            (download.peers, download.outbound) == (1, 1) && is_waited_for
        });
        let server = Server::start(place.network.magic, true, move || {
            let honest = Honest::new(chain());
            let gate = gate.clone();
            Box::new(Late { honest, is_asked: false, gate })
        });
        let server = server.unwrap();
        let stop = AtomicBool::new(false);
        let options = with_peers(&place, way, &[&server]);
        let summary = sync::sync(&options, &[], Watch::new(&told, &stop)).unwrap();
        assert_eq!(summary.best_block, world().tip());
        assert!(summary.waited_for_peers > Duration::ZERO, "{way:?}");
    }
}

/// The end of a sync may be where the peers want it.
#[test]
fn an_old_tip_and_a_lonely_peer_are_reported() {
    let first = honest(true);
    let second = honest(true);
    for (servers, is_alone) in [(vec![&first], true), (vec![&first, &second], false)] {
        let place = world().place();
        let (summary, told) = try_sync(&with_peers(&place, Method::InOrder, &servers));
        assert_eq!(summary.unwrap().best_block, world().tip());
        told.assert_has(&["The last block is", "old: if the network is alive"]);
        assert_eq!(told.has(&["Only one peer has said which chain it has"]), is_alone);
    }
}
