//! Peers that keep some blocks back, and a chain for them.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};

use apus_net::Outgoing;
use apus_node::{AssumeValid, Method, Options};
use apus_peers::serve::{Answers, Hangup, Honest, ServedChain, Server, not_found};
use apus_sync::Summary;
use apus_wire::message::{Command, Message};

use super::world::{chain, with_peers, world};
use crate::support::Place;
use crate::support::swift::{World, small_chain};

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
        let options = with_peers(place, way, servers);
        let world = (self.world)();
        match way {
            Method::SwiftSync => Options {
                hints: Some(world.write_hints(place, world.height())),
                assumevalid: AssumeValid::Block(world.tip()),
                ..options
            },
            _ => options,
        }
    }

    /// A peer that has all blocks but these.
    pub fn without(self, heights: &'static [usize], refusal: Refusal) -> Withholding {
        let asked = Arc::new(AtomicBool::new(false));
        let (chain, to_note) = ((self.chain)(), Arc::clone(&asked));
        let begin = move || -> Box<dyn Answers> {
            let (honest, asked) = (Honest::new(chain.clone()), Arc::clone(&to_note));
            Box::new(Peer { honest, heights, refusal, asked })
        };
        let magic = (self.world)().place().network.magic;
        Withholding { server: Server::start(magic, true, begin).unwrap(), asked }
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
    /// Whether it was asked for one of them.
    pub asked: Arc<AtomicBool>,
}

struct Peer {
    honest: Honest,
    heights: &'static [usize],
    refusal: Refusal,
    asked: Arc<AtomicBool>,
}

impl Answers for Peer {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        let Message::GetData(list) = message else { return self.honest.answer(message, out) };
        for item in list.iter() {
            match (self.honest.chain.height_of(&item.hash), self.refusal) {
                (Some(height), refusal) if self.heights.contains(&height) => {
                    self.asked.store(true, Relaxed);
                    if let Refusal::NotFound = refusal {
                        out.push(not_found(item));
                    }
                }
                (Some(height), _) => {
                    let payload = self.honest.chain.block(height);
                    out.push(Outgoing { command: Command::BLOCK, payload });
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
