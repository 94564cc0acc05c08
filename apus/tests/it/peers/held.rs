//! Honest peers that hold something back until something else has happened.

use apus_net::Outgoing;
use apus_testpeer::{Answers, Hangup, Honest, ServedChain, Server, without_witnesses};
use apus_wire::message::{Command, InventoryKind, Message};

use super::world::world;
use crate::support::waiting::Gate;

/// What a peer holds back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Everything, from its `version` on.
    All,
    /// Blocks.
    Blocks,
}

struct Late {
    honest: Honest,
    held: Held,
    gates: Vec<Gate>,
}

impl Answers for Late {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        let is_held = match self.held {
            Held::All => matches!(message, Message::Version(_)),
            Held::Blocks => matches!(message, Message::GetData(_)),
        };
        if is_held {
            // If one stays closed, what the test expects of the sync tells.
            for gate in &self.gates {
                gate.wait();
            }
        }
        self.honest.answer(message, out)
    }
}

/// A peer that has all of `chain`, and holds this back until all of the gates are open.
pub fn late(chain: ServedChain, held: Held, gates: Vec<Gate>) -> Server {
    start(move || {
        let honest = Honest::new(chain.clone());
        let gates = gates.clone();
        Box::new(Late { honest, held, gates })
    })
}

struct Counting {
    honest: Honest,
    below: usize,
    left: usize,
    sent: Gate,
}

impl Answers for Counting {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        let Message::GetData(list) = message else { return self.honest.answer(message, out) };
        for item in list.iter() {
            let Some(height) = self.honest.chain.height_of(&item.hash) else { continue };
            if height < self.below {
                let Some(left) = self.left.checked_sub(1) else { continue };
                self.left = left;
            }
            let block = self.honest.chain.block(height);
            let payload =
                if item.kind == InventoryKind::BLOCK { without_witnesses(&block) } else { block };
            out.push(Outgoing { command: Command::BLOCK, payload });
        }
        if self.left == 0 {
            self.sent.open();
        }
        Ok(())
    }
}

/// A peer with all of `chain` that sends only as many `blocks` from below a height, and a gate that
/// opens when it has sent them.
pub fn counting(chain: ServedChain, blocks: usize, below: usize) -> (Server, Gate) {
    let sent = Gate::default();
    let gate = sent.clone();
    let server = start(move || {
        let honest = Honest::new(chain.clone());
        let sent = gate.clone();
        Box::new(Counting { honest, below, left: blocks, sent })
    });
    (server, sent)
}

fn start(begin: impl Fn() -> Box<dyn Answers> + Send + Sync + 'static) -> Server {
    Server::start(world().place().network.magic, true, begin).unwrap()
}
