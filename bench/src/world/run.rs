use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_net::{
    Action, ConnectionType, HeaderChain, Limits, Ourselves, Outgoing, PeerId, PeerManager,
    Settings, Slot, Trial,
};
use apus_testchain::Rng;
use apus_wire::HEADER_BYTES;
use apus_wire::message::{Command, Headers, Services};

use super::chain;
use super::line;
use super::outcome::Outcome;
use super::peer::{Answer, Peer, UNIX_TIME, header};
use super::reader::Reader;
use super::slots::Slots;
use super::spec::{Behaviour, PeerSpec, WorldSpec};

/// Time from one call of [`PeerManager::tick`] to the next, if nothing happens.
const TICK: Duration = Duration::from_millis(100);
/// Time after which a lost peer is replaced.
const REPLACED_AFTER: Duration = Duration::from_secs(1);
/// The time for which a peer that does not say whether it has more headers delays the download, as
/// in `apus-peers`.
const PATIENCE: Duration = Duration::from_secs(5);
/// What `apus-peers` allows to wait in memory.
const WAITING_BYTES_MAX: u64 = 1 << 30;
/// Time from one block to the next at the tip, and milliseconds within which all peers announce it.
const BLOCK_EVERY: Duration = Duration::from_secs(60);
const ANNOUNCED_WITHIN: u64 = 1_000;
/// A world whose headers take longer than this is given up.
const HEADERS_MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs a world, and returns how it went.
pub fn run(spec: &WorldSpec) -> Outcome {
    let (mut network, _) = chain::regtest();
    network.minimum_chain_work = apus_hash::Hash::ZERO;
    let mut tree = Tree::new(network);
    let tip = tree.genesis();
    let mut run = Run::new(spec);
    let mut growing = HeaderChain::growing(&mut tree, tip, UNIX_TIME, [7; 16]);
    run.find_headers(&mut growing);
    run.outcome.headers = run.now;
    let count = chain::headers().len() as u32;
    let best = tree.best_header();
    let blocks: Vec<BlockId> =
        (1..=count).filter_map(|height| tree.ancestor(best, height)).collect();
    run.download(&tree, &blocks);
    run.outcome
}

/// Follows the tip of a world while `count` new blocks are found, one after another. Returns for
/// each the time from its first announcement until it was taken.
pub fn follow(spec: &WorldSpec, count: usize) -> Vec<Duration> {
    let (mut network, _) = chain::regtest();
    network.minimum_chain_work = apus_hash::Hash::ZERO;
    let mut tree = Tree::new(network);
    let genesis = tree.genesis();
    let mut run = Run::new(spec);
    run.top -= count;
    run.find_headers(&mut HeaderChain::growing(&mut tree, genesis, UNIX_TIME, [7; 16]));
    let mut times = Vec::new();
    for _ in 0..count {
        // As in `apus-peers`, all peers are asked for headers in the meantime.
        run.manager.ask_for_headers();
        let before = tree.best_header();
        let announced = run.find_block();
        let mut growing = HeaderChain::growing(&mut tree, before, UNIX_TIME, [7; 16]);
        while growing.tree().best_header() == before {
            run.step(&mut growing, Duration::MAX);
        }
        run.download(&tree, &[tree.best_header()]);
        times.push(run.now - announced);
    }
    times
}

struct Run<'a> {
    spec: &'a WorldSpec,
    rng: Rng,
    manager: PeerManager,
    peers: BTreeMap<PeerId, Peer>,
    next_id: u64,
    now: Duration,
    events: BinaryHeap<Reverse<(Duration, u64)>>,
    /// The events, by number.
    what: BTreeMap<u64, Event>,
    next_event: u64,
    actions: Vec<Action>,
    reader: Option<Reader>,
    /// The height of the last block that there is.
    top: usize,
    slots: Slots,
    /// A message of a block: the header changes, and the length.
    block: Vec<u8>,
    outcome: Outcome,
}

enum Event {
    Message(PeerId, Outgoing),
    /// The peer has the block at this height, and announces it.
    Announce(PeerId, usize),
    Connect(PeerSpec, Slot),
}

impl<'a> Run<'a> {
    fn new(spec: &'a WorldSpec) -> Self {
        let settings = Settings {
            needs: Services::NETWORK.with(Services::WITNESS),
            limits: Limits {
                bytes_max: WAITING_BYTES_MAX,
                block_interval: Duration::from_secs(600),
            },
        };
        let mut run = Self {
            spec,
            rng: Rng::new(spec.seed, 1),
            manager: PeerManager::new(settings),
            peers: BTreeMap::new(),
            next_id: 1,
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            next_event: 0,
            actions: Vec::new(),
            reader: None,
            top: chain::headers().len(),
            slots: Slots::default(),
            block: vec![0; 4_000_000],
            outcome: Outcome::default(),
        };
        for peer in &spec.peers {
            run.at(peer.from + peer.round_trip, Event::Connect(*peer, Slot::Any));
        }
        run
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.events.push(Reverse((time, self.next_event)));
        self.what.insert(self.next_event, event);
        self.next_event += 1;
    }

    /// Finds the next block, after [`BLOCK_EVERY`]. Each peer announces it at a time of its own,
    /// which those with [`Behaviour::Junk`] do first. Returns the time of the first announcement.
    fn find_block(&mut self) -> Duration {
        self.top += 1;
        let found = self.now + BLOCK_EVERY;
        let mut first = Duration::MAX;
        for (id, peer) in self.peers.iter().map(|(id, peer)| (*id, peer.spec)).collect::<Vec<_>>() {
            let spread = match peer.behaviour {
                Behaviour::Junk => Duration::ZERO,
                _ => Duration::from_millis(self.rng.between(0, ANNOUNCED_WITHIN)),
            };
            let time = found + peer.round_trip / 2 + spread;
            first = first.min(time);
            self.at(time, Event::Announce(id, self.top));
        }
        first
    }

    fn find_headers(&mut self, chain: &mut HeaderChain) {
        let all = self.top + 1;
        while !(self.manager.has_all_headers(self.now, PATIENCE) && chain.tree().len() == all) {
            assert!(self.now < HEADERS_MAX_TIME, "the headers take more than a day");
            self.step(chain, Duration::MAX);
        }
    }

    fn download(&mut self, tree: &Tree, blocks: &[BlockId]) {
        let reader = Reader::new(self.spec.method, blocks, self.spec.validation);
        self.manager.schedule().want(Arc::from(blocks), reader.lanes());
        self.reader = Some(reader);
        let mut chain = HeaderChain::fixed(tree, tree.best_header());
        let start = self.now;
        let end = start + self.spec.time;
        let mut last = start;
        while self.now < end && !self.manager.schedule().is_done() {
            self.step(&mut chain, end);
            self.look_for_faster();
            let Some(mut reader) = self.reader.take() else { break };
            let spec = self.spec;
            let size = |id: BlockId| spec.size(tree.node(id).height as usize);
            for _ in reader.work(self.manager.schedule(), self.now, size) {
                let gap = self.now - last;
                self.outcome.longest_gap = self.outcome.longest_gap.max(gap);
                last = self.now;
            }
            self.reader = Some(reader);
            let waiting = self.manager.schedule().waiting_bytes();
            self.outcome.waiting_max = self.outcome.waiting_max.max(waiting);
        }
        self.outcome.longest_gap = self.outcome.longest_gap.max(self.now - last);
        self.outcome.time = self.now - start;
        // What is here of blocks that are not complete is of use as well.
        let outbound = self.peers.values().filter(|peer| !peer.spec.inbound);
        self.outcome.bytes += outbound.map(Peer::partial).sum::<u64>();
    }

    /// Lets a faster peer have the slot of a slower one, as the program does.
    fn look_for_faster(&mut self) {
        if self.spec.pool.is_empty() || !self.slots.is_time(self.now) {
            return;
        }
        match self.slots.check(self.manager.schedule(), self.spec.peers.len(), self.now) {
            Trial::Wait => {}
            Trial::Connect => {
                let peer = self.spec.pool[self.rng.below(self.spec.pool.len() as u64) as usize];
                self.at(self.now + peer.round_trip, Event::Connect(peer, Slot::Candidate));
            }
            Trial::Keep(id) => self.slots.give(id, Slot::Any),
            Trial::Replace(slow, id) => {
                self.slots.give(id, Slot::Fast);
                self.outcome.replaced += 1;
                self.leave(slow);
            }
            Trial::Drop(id) => self.leave(id),
        }
    }

    /// Removes a peer that another one replaces.
    fn leave(&mut self, id: PeerId) {
        self.manager.closed(id);
        self.slots.remove(id);
        self.peers.remove(&id);
    }

    /// Lets time pass until something happens, but at most until `end`.
    fn step(&mut self, chain: &mut HeaderChain, end: Duration) {
        for (id, peer) in &self.peers {
            self.manager.schedule().heard(*id, peer.bytes(), self.now);
        }
        self.manager.tick(chain, self.now, 5, &mut self.actions);
        self.carry_out();
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        let wishes: Vec<f64> = self.peers.values().map(|peer| peer.wish(self.now)).collect();
        let rates = line::share(&wishes, self.spec.downlink as f64);
        let mut next = (self.now + TICK).min(end);
        for (peer, rate) in self.peers.values().zip(&rates) {
            next = next.min(peer.next_change(self.now, *rate, |height| self.spec.size(height)));
        }
        if let Some(Reverse((time, _))) = self.events.peek() {
            next = next.min(*time);
        }
        if let Some(time) = self.reader.as_ref().and_then(Reader::next_done) {
            next = next.min(time);
        }
        let time = next.saturating_sub(self.now);
        if self.reader.is_some() {
            self.count_possible(time);
        }
        for (id, rate) in ids.into_iter().zip(rates) {
            self.flow(id, rate, time, chain);
        }
        self.now = next.max(self.now);
        while let Some(Reverse((time, number))) = self.events.peek().copied() {
            if time > self.now {
                break;
            }
            self.events.pop();
            let Some(event) = self.what.remove(&number) else { continue };
            self.happen(event, chain);
        }
    }

    /// Counts what the outbound peers could send in a time that passes now.
    fn count_possible(&mut self, time: Duration) {
        let most = self.spec.downlink.min(self.spec.validation) as f64;
        let outbound = || self.peers.values().filter(|peer| !peer.spec.inbound);
        let wishes: Vec<f64> = outbound().map(|peer| peer.possible(self.now)).collect();
        let rates = line::share(&wishes, most);
        self.outcome.possible += rates.iter().sum::<f64>() * time.as_secs_f64();
        let outbound = self.peers.values_mut().filter(|peer| !peer.spec.inbound);
        for (peer, rate) in outbound.zip(rates) {
            peer.could_flow(time, rate);
        }
    }

    fn flow(&mut self, id: PeerId, rate: f64, time: Duration, chain: &mut HeaderChain) {
        let now = self.now;
        let spec = self.spec;
        let size = |height: usize| spec.size(height);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let complete = peer.flow(now, time, rate, size, &mut self.rng);
        let closes = peer.closes();
        if let Some(height) = complete {
            let bytes = size(height) as usize;
            self.block[..HEADER_BYTES].copy_from_slice(&header(height).to_bytes());
            let block = std::mem::take(&mut self.block);
            let at = now + time;
            self.manager.received(
                id,
                Command::BLOCK,
                &block[..bytes],
                chain,
                at,
                &mut self.actions,
            );
            self.block = block;
            let mut is_wanted = false;
            for action in &self.actions {
                if let (Action::Block(_, block), Some(reader)) = (action, &mut self.reader) {
                    reader.arrive(*block);
                    is_wanted = true;
                }
            }
            if is_wanted {
                self.outcome.bytes += bytes as u64
            } else {
                self.outcome.wasted += bytes as u64
            }
            self.carry_out();
        }
        if closes {
            self.manager.closed(id);
            self.lose(id);
        }
    }

    fn happen(&mut self, event: Event, chain: &mut HeaderChain) {
        match event {
            Event::Message(id, message) => {
                if self.peers.contains_key(&id) {
                    let Outgoing { command, payload } = message;
                    let now = self.now;
                    let actions = &mut self.actions;
                    self.manager.received(id, command, &payload, chain, now, actions);
                    self.carry_out();
                }
            }
            Event::Announce(id, height) => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.top = height;
                    let headers = Outgoing::new(&Headers(&[*header(height)]));
                    self.happen(Event::Message(id, headers), chain);
                }
            }
            Event::Connect(spec, slot) => {
                let id = PeerId(self.next_id);
                self.next_id += 1;
                self.peers.insert(id, Peer::new(spec, self.top, self.now, &mut self.rng));
                if !spec.inbound {
                    self.slots.connected(id, slot, self.now);
                }
                let kind =
                    if spec.inbound { ConnectionType::Inbound } else { ConnectionType::Automatic };
                let ourselves = Ourselves {
                    nonce: id.0 + (1 << 32),
                    user_agent: "/Apus:world/",
                    services: Services::default(),
                    features: Vec::new(),
                    time: UNIX_TIME,
                    start_height: 0,
                };
                self.manager.connected(id, kind, ourselves, self.now, &mut self.actions);
                if spec.inbound {
                    let (peer, version) = (id, super::peer::version());
                    self.at(self.now, Event::Message(peer, version));
                }
                self.carry_out();
            }
        }
    }

    fn carry_out(&mut self) {
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Send(id, message) => {
                    let Some(peer) = self.peers.get_mut(&id) else { continue };
                    let round_trip = peer.spec.round_trip;
                    for answer in peer.answers(&message, self.now) {
                        if let Answer::Message(message, delay) = answer {
                            let time = self.now + round_trip + delay;
                            self.at(time, Event::Message(id, message));
                        }
                    }
                }
                Action::Disconnect(id, error) => {
                    self.outcome.drops.push((self.now, id.0, error.to_string()));
                    let Some(peer) = self.peers.get(&id) else { continue };
                    match peer.spec.behaviour {
                        Behaviour::Honest | Behaviour::ClosesAfter(_) => {
                            self.outcome.honest_dropped += 1;
                        }
                        _ => self.outcome.others_dropped += 1,
                    }
                    self.lose(id);
                }
                Action::Block(..)
                | Action::Coins(..)
                | Action::Addresses(..)
                | Action::Ready(_) => {}
            }
        }
    }

    /// Removes a peer. If it was honest, another one like it connects.
    fn lose(&mut self, id: PeerId) {
        let slot = self.slots.remove(id).unwrap_or(Slot::Any);
        let Some(peer) = self.peers.remove(&id) else { return };
        if matches!(peer.spec.behaviour, Behaviour::Honest | Behaviour::ClosesAfter(_)) {
            let time = self.now + REPLACED_AFTER + peer.spec.round_trip;
            self.at(time, Event::Connect(peer.spec, slot));
        }
    }
}
