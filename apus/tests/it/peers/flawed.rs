//! Peers with flaws: whoever is slow, stalls, sends corrupt blocks, has another branch or dies does
//! not keep a sync from its end.

use std::time::Duration;

use apus_hash::Hash;
use apus_net::Outgoing;
use apus_progress::Method;
use apus_progress::Phase;
use apus_testpeer::{Answers, Hangup, Honest, ServedChain, Server};
use apus_wire::message::{Command, Message};

use super::world::{Told, WAYS, assert_as_from_files_in_the_end, chain, world};
use crate::support::blocks;
use crate::support::waiting::{Gate, be_slow};

/// What a peer does otherwise than it should.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Flaw {
    None,
    /// Takes so long for each block.
    Slow(Duration),
    /// Falls silent after `n` blocks.
    Stalls(usize),
    /// Changes every block at a height of which this is a divisor.
    Corrupts(usize),
    /// Has another branch from this height on, with less work.
    Fork(usize),
    /// Hangs up after `n` blocks.
    Dies(usize),
}

struct Flawed {
    honest: Honest,
    flaw: Flaw,
    sent: usize,
}

impl Flawed {
    fn block(&mut self, hash: &Hash, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        let Some(height) = self.honest.chain.height_of(hash) else { return Ok(()) };
        let mut payload = self.honest.chain.block(height);
        self.sent += 1;
        match self.flaw {
            Flaw::Slow(time) => be_slow(time),
            Flaw::Stalls(count) if self.sent > count => return Ok(()),
            Flaw::Dies(count) if self.sent > count => return Err(Hangup),
            // The last byte is of a transaction's lock time.
            Flaw::Corrupts(divisor) if height.is_multiple_of(divisor) => {
                *payload.last_mut().unwrap() ^= 1;
            }
            _ => {}
        }
        out.push(Outgoing { command: Command::BLOCK, payload });
        Ok(())
    }
}

impl Answers for Flawed {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        match message {
            Message::GetData(list) => list.iter().try_for_each(|item| self.block(&item.hash, out)),
            _ => self.honest.answer(message, out),
        }
    }
}

/// What a server with a flaw answers on each connection.
fn answering(flaw: Flaw) -> impl Fn() -> Flawed {
    let chain = match flaw {
        Flaw::Fork(height) => fork(height),
        _ => chain(),
    };
    move || Flawed { honest: Honest::new(chain.clone()), flaw, sent: 0 }
}

/// A server with a flaw.
fn flawed(flaw: Flaw, accept_v2: bool) -> Server {
    let magic = world().place().network.magic;
    let begin = answering(flaw);
    Server::start(magic, accept_v2, move || Box::new(begin())).unwrap()
}

/// The chain up to `height`, and ten other blocks on it.
fn fork(height: usize) -> ServedChain {
    branch(height, 10.min(world().blocks.len() - height - 2))
}

/// The chain up to `height`, and `count` other blocks on it.
pub fn branch(height: usize, count: usize) -> ServedChain {
    let mut list = world().blocks[..=height].to_vec();
    let mut parent = blocks::genesis_parent();
    for block in &list[1..] {
        parent = parent.child(&bitcoin::consensus::deserialize(block).unwrap());
    }
    let (others, _) = blocks::branch(&parent, "fork", count);
    list.extend(blocks::bytes(&others));
    ServedChain::of(list)
}

/// Syncs from five peers with flaws. Returns whether the corrupt one and the one that dies were
/// found out: on a busy machine others may have sent all blocks before.
fn sync_from_five(way: Method) -> bool {
    let flaws = [
        Flaw::Slow(Duration::from_millis(20)),
        Flaw::Stalls(20),
        Flaw::Corrupts(3),
        Flaw::Fork(100),
        Flaw::Dies(10),
    ];
    let servers = flaws.map(|flaw| flawed(flaw, true));
    let told = Told::default();
    assert_as_from_files_in_the_end(&told, way, &servers.each_ref());
    let at = |index: usize| servers[index].address().to_string();
    assert!(told.count(&format!("peer {}: ", at(0))) < 3, "the slow one is dropped on and on");
    assert_eq!(told.count(&format!("Dropped peer {}", at(3))), 0, "a branch is no fault");
    told.has(&["Dropped peer", &at(2), "a block that was changed on its way"])
        && told.has(&["Lost peer", &at(4)])
}

#[test]
fn a_sync_ends_with_five_peers_none_of_which_is_good() {
    for way in WAYS {
        assert!((0..3).any(|_| sync_from_five(way)), "{way:?}: two were never found out");
    }
}

/// What two peers wait for so that their headers come one after the other.
#[derive(Clone, Default)]
struct Steps {
    /// The first one is asked for headers.
    asked: Gate,
    /// The second one is connected.
    connected: Gate,
}

/// A peer that shows its headers once another one is connected.
struct First {
    answers: Flawed,
    steps: Steps,
}

impl Answers for First {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        if let Message::GetHeaders(_) = message {
            self.steps.asked.open();
            self.steps.connected.wait();
        }
        self.answers.answer(message, out)
    }
}

/// A peer that greets us once the first one is asked for headers, and shows its own headers once
/// `shown` is open.
struct Second {
    answers: Flawed,
    steps: Steps,
    shown: Gate,
}

impl Answers for Second {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        match message {
            Message::Version(_) => {
                self.steps.asked.wait();
            }
            Message::Verack => self.steps.connected.open(),
            Message::GetHeaders(_) => {
                self.shown.wait();
            }
            _ => {}
        }
        self.answers.answer(message, out)
    }
}

#[test]
fn a_better_branch_that_comes_late_wins() {
    let magic = world().place().network.magic;
    for way in WAYS {
        let told = Told::default();
        let steps = Steps::default();
        // The other branch is worked on, or too short for the hints.
        let phase = match way {
            Method::SwiftSync => Phase::WaitingForHeaders,
            Method::Join => Phase::JoinReading,
            Method::InOrder => Phase::Connecting,
        };
        let shown = told.when_seen(move |progress| progress.phase == phase);
        let first = steps.clone();
        let begin = answering(Flaw::Fork(100));
        let fork = Server::start(magic, false, move || {
            Box::new(First { answers: begin(), steps: first.clone() })
        });
        let begin = answering(Flaw::None);
        let late = Server::start(magic, false, move || {
            let steps = steps.clone();
            let shown = shown.clone();
            Box::new(Second { answers: begin(), steps, shown })
        });
        assert_as_from_files_in_the_end(&told, way, &[&fork.unwrap(), &late.unwrap()]);
    }
}
