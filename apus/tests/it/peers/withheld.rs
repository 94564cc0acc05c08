//! Peers that keep some blocks back, and a chain for them.

use std::sync::LazyLock;

use apus_net::Outgoing;
use apus_node::Options;
use apus_progress::Method;
use apus_sync::Summary;
use apus_testpeer::{Answers, Hangup, Honest, ServedChain, Server, not_found};
use apus_wire::message::{Command, Message, Nonce};

use super::world::{chain, options_of, with_peers, world};
use crate::support::Place;
use crate::support::swift::{World, small_chain};
use crate::support::waiting::Gate;

/// A chain, and how it is served.
#[derive(Clone, Copy)]
pub struct Served {
    pub world: fn() -> &'static World,
    pub chain: fn() -> ServedChain,
}

/// [`world`].
pub const SHORT: Served = Served { world, chain };

/// More blocks than SwiftSync stores before it begins: the last 288.
pub const LONG: Served = Served { world: long_world, chain: long_chain };

fn long_world() -> &'static World {
    static WORLD: LazyLock<World> = LazyLock::new(|| World::of(&small_chain(8, 320, 1_000)));
    &WORLD
}

fn long_chain() -> ServedChain {
    static CHAIN: LazyLock<ServedChain> =
        LazyLock::new(|| ServedChain::of(long_world().blocks.clone()));
    CHAIN.clone()
}

impl Served {
    /// Options for a sync in this way from these peers.
    pub fn options(self, place: &Place, way: Method, servers: &[&Server]) -> Options {
        let peers = with_peers(place, way, servers).peers;
        Options { peers, ..options_of((self.world)(), place, way) }
    }

    /// A peer that has all blocks but these.
    pub fn without(self, heights: &'static [usize], refusal: Refusal) -> Withholding {
        self.keeping_back((self.chain)(), heights, refusal)
    }

    /// A peer that has all blocks of another chain but these.
    pub fn keeping_back(
        self,
        chain: ServedChain,
        heights: &'static [usize],
        refusal: Refusal,
    ) -> Withholding {
        let asked = Gate::default();
        let come = Gate::default();
        let gates = (asked.clone(), come.clone());
        let begin = move || -> Box<dyn Answers> {
            let honest = Honest::new(chain.clone());
            let (asked, come) = gates.clone();
            let left = honest.top - heights.len();
            Box::new(Peer { honest, heights, refusal, left, asked, come })
        };
        let magic = (self.world)().place().network.magic;
        Withholding { server: Server::start(magic, true, begin).unwrap(), asked, come }
    }

    /// A peer that has all blocks.
    pub fn honest(self) -> Server {
        self.without(&[], Refusal::Silence).server
    }
}

/// What a peer answers who keeps a block back.
#[derive(Clone, Copy)]
pub enum Refusal {
    Silence,
    NotFound,
}

/// A server that keeps blocks back.
pub struct Withholding {
    pub server: Server,
    /// Opens when it is asked for one of them.
    pub asked: Gate,
    /// Opens when all other blocks have come: the other side has answered what was sent after them.
    pub come: Gate,
}

struct Peer {
    honest: Honest,
    heights: &'static [usize],
    refusal: Refusal,
    /// The number of other blocks that it has yet to send.
    left: usize,
    asked: Gate,
    come: Gate,
}

impl Answers for Peer {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        let list = match message {
            Message::GetData(list) => list,
            Message::Pong(_) => {
                self.come.open();
                return Ok(());
            }
            _ => return self.honest.answer(message, out),
        };
        for item in list.iter() {
            match (self.honest.chain.height_of(&item.hash), self.refusal) {
                (Some(height), refusal) if self.heights.contains(&height) => {
                    self.asked.open();
                    if let Refusal::NotFound = refusal {
                        out.push(not_found(item));
                    }
                }
                (Some(height), _) => {
                    let payload = self.honest.chain.block(height);
                    out.push(Outgoing { command: Command::BLOCK, payload });
                    self.left = self.left.saturating_sub(1);
                    if self.left == 0 && !self.heights.is_empty() {
                        out.push(Outgoing::new(&Nonce(1).ping()));
                    }
                }
                (None, _) => out.push(not_found(item)),
            }
        }
        Ok(())
    }
}

/// The blocks that all peers sent.
pub fn downloaded(summary: &Summary) -> u64 {
    summary.peers.iter().map(|peer| peer.blocks).sum()
}
