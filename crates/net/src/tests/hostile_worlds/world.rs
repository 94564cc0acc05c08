//! The world: peers as they are specified, and the sync as far as peers matter to it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_hash::Hash;
use apus_testchain::Rng;
use apus_wire::message::{
    Command, Headers, Inventory, InventoryItem, InventoryKind, InventoryList, Message, Services,
};

use super::{
    AT_START, HONEST_WITHIN, LONG, OfBlocks, OfHeaders, PATIENCE_BEFORE_BLOCKS, ROUND_TRIP, Spec,
    TICK, WITHHELD_MAX, branches, clock, low_work,
};
use crate::session::{Ourselves, Outgoing};
use crate::tests::manager::{OUR_NONCE, SERVICES, version};
use crate::tests::regtest;
use crate::{
    Action, ConnectionType, GivesUp, Has, HeaderChain, Limits, Missing, PeerId, PeerManager,
    Settings, claim,
};

pub(super) enum Event {
    Connect(Spec),
    Message(PeerId, Outgoing),
    /// So many bytes of blocks have come from the peer in all.
    Bytes(PeerId, u64),
    Close(PeerId),
    /// The next honest block is there.
    Block,
    /// The block at this height of its branch is announced by a peer.
    Announce(PeerId, usize),
}

struct Peer {
    spec: Spec,
    /// Headers of its branch that it has.
    top: usize,
    bytes: u64,
    /// Blocks that it drips.
    drips: bool,
}

/// A manager and its peers, with a simulated clock.
pub(super) struct World {
    rng: Rng,
    pub tree: Tree,
    tip: BlockId,
    pub manager: PeerManager,
    peers: BTreeMap<PeerId, Peer>,
    pub now: Duration,
    pub unix_time: i64,
    next: u64,
    events: BinaryHeap<Reverse<(Duration, u64)>>,
    what: BTreeMap<u64, Event>,
    /// The height of the honest chain, and when an honest peer announced it.
    pub top: usize,
    pub announced: Option<Duration>,
    /// Whether the headers of the first sync are being searched for.
    is_first: bool,
    /// Blocks that only peers have and that count as available.
    claimed: BTreeSet<BlockId>,
    /// The chain that is being connected, while the tree does not grow.
    pipeline: Option<Pipeline>,
    actions: VecDeque<Action>,
    pub log: Vec<String>,
}

/// Connects a chain.
struct Pipeline {
    until: Duration,
    best: BlockId,
    /// The blocks that must still come.
    rest: VecDeque<BlockId>,
    missing: Missing,
    /// The block that it waits for although an honest peer is here, and since when.
    held: Option<(BlockId, Duration)>,
}

impl World {
    /// Creates a world in which `here` blocks are stored; `is_first` says whether the sync has just
    /// begun, or has been at the tip.
    pub fn new(seed: u64, here: usize, is_first: bool) -> Self {
        let mut tree = Tree::new(regtest().0);
        let mut tip = tree.genesis();
        tree.mark_available(tip);
        let unix_time = clock();
        for header in &branches()[0].headers[..here] {
            tip = tree.accept_header(header, unix_time).unwrap();
            tree.mark_available(tip);
        }
        let settings = Settings {
            needs: SERVICES,
            limits: Limits { bytes_max: 1 << 30, block_interval: Duration::from_secs(600) },
        };
        let mut world = Self {
            rng: Rng::new(seed, 11),
            tree,
            tip,
            manager: PeerManager::new(settings),
            peers: BTreeMap::new(),
            now: Duration::ZERO,
            unix_time,
            next: 1,
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            top: AT_START,
            announced: None,
            is_first,
            claimed: BTreeSet::new(),
            pipeline: None,
            actions: VecDeque::new(),
            log: Vec::new(),
        };
        world.search();
        world
    }

    /// Begins to search for headers and, unless it is the first time, for blocks near the tip.
    fn search(&mut self) {
        self.manager.want_nothing();
        self.manager.ask_for_headers();
        if !self.is_first {
            self.manager.follow(self.tip, u32::MAX);
        }
    }

    pub fn at(&mut self, time: Duration, event: Event) {
        self.next += 1;
        self.events.push(Reverse((time, self.next)));
        self.what.insert(self.next, event);
    }

    /// Lets time pass to `end`, or until it `is_over`.
    pub fn run(&mut self, end: Duration, is_over: impl Fn(&mut Self) -> bool) {
        while self.now < end && !is_over(self) {
            let next = self.events.peek().map_or(end, |Reverse((time, _))| *time);
            self.now = next.min(self.now + TICK).min(end).max(self.now);
            while let Some(Reverse((time, number))) = self.events.peek().copied()
                && time <= self.now
            {
                self.events.pop();
                let event = self.what.remove(&number).unwrap();
                self.happen(event);
            }
            self.work();
            self.tick();
        }
    }

    fn tick(&mut self) {
        for (id, peer) in &mut self.peers {
            if peer.drips {
                let bytes = peer.bytes + self.now.as_secs();
                self.manager.schedule().heard(*id, bytes, self.now);
            }
        }
        self.with_chain(|manager, chain, now, out| {
            manager.tick(chain, now, 5, out);
            manager.assert_right(chain, now);
        });
        self.check_pipeline();
    }

    /// Panics unless the invariants 7 and 9 of docs/peers.md hold.
    fn check_pipeline(&mut self) {
        let Some(pipeline) = &mut self.pipeline else { return };
        let front = pipeline.rest.front().copied().filter(|next| self.claimed.contains(next));
        let honest = self.peers.iter().find(|(_, peer)| peer.spec.blocks == OfBlocks::Sends);
        let best = honest.and_then(|(id, _)| self.manager.best(*id));
        let Some((front, best)) = front.zip(best) else {
            pipeline.held = None;
            return;
        };
        let is_honest = self.tree.ancestor(best, self.tree.node(front).height) == Some(front);
        let (front_before, since) = *pipeline.held.get_or_insert((front, self.now));
        if front_before != front {
            pipeline.held = Some((front, self.now));
            return;
        }
        let held = self.now - since;
        let most = if is_honest { HONEST_WITHIN } else { WITHHELD_MAX };
        assert!(held <= most, "a pipeline is held up for {held:?}, by honest block: {is_honest}");
    }

    fn with_chain(
        &mut self,
        work: impl FnOnce(&mut PeerManager, &mut HeaderChain, Duration, &mut Vec<Action>),
    ) {
        let mut out = Vec::new();
        let mut chain = match self.pipeline {
            None => HeaderChain::growing(&mut self.tree, self.tip, self.unix_time, [7; 16]),
            Some(_) => HeaderChain::fixed(&self.tree, self.tip),
        };
        work(&mut self.manager, &mut chain, self.now, &mut out);
        self.actions.extend(out);
        while let Some(action) = self.actions.pop_front() {
            self.carry_out(action);
        }
    }

    /// Does what the sync does between messages: begins a pipeline, or ends one.
    fn work(&mut self) {
        match self.pipeline.take() {
            None if self.is_first => self.end_first_search(),
            None => self.begin_pipeline(),
            Some(pipeline) => self.go_on(pipeline),
        }
    }

    /// Claims all that peers have once the headers are here.
    fn end_first_search(&mut self) {
        if self.manager.has_all_headers(self.now, PATIENCE_BEFORE_BLOCKS) {
            self.is_first = false;
            self.claim(true);
            self.begin_pipeline();
            if self.pipeline.is_none() {
                self.search();
            }
        }
    }

    /// Lets blocks that peers have count as available.
    fn claim(&mut self, is_first: bool) {
        let having: Vec<Has> = self.manager.schedule().having().collect();
        let claimed = claim(&mut self.tree, self.tip, &having, is_first);
        let height = self.tree.node(self.tip).height;
        for block in &claimed {
            let on_tip = self.tree.ancestor(*block, height) == Some(self.tip);
            assert!(on_tip, "a block would be disconnected for one that is not here");
            let leads = having.iter().any(|has| !has.is_inbound && self.is_better(has.best));
            let is_outbound = |has: &Has| !has.is_inbound && has.has(&self.tree, *block);
            assert!(!leads || having.iter().any(is_outbound), "an inbound peer leads");
        }
        self.claimed.extend(claimed);
    }

    fn is_better(&self, best: BlockId) -> bool {
        self.tree.node(best).work > self.tree.node(self.tip).work
    }

    /// Begins to connect the best chain that is available, if it is better than the active one.
    fn begin_pipeline(&mut self) {
        let best = self.tree.best_candidate().unwrap();
        if !self.tree.is_better(best, self.tip) {
            return;
        }
        self.claim(false);
        let best = self.tree.best_candidate().unwrap();
        assert!(self.is_better(best));
        let branch = self.tree.ancestors(best).take_while(|id| *id != self.tip);
        let mut rest: VecDeque<BlockId> = branch.filter(|id| self.claimed.contains(id)).collect();
        rest.make_contiguous().reverse();
        let takes = Duration::from_millis(self.rng.below(300));
        let mut missing = Missing::new(Duration::from_secs(30));
        missing.begin(GivesUp::Near);
        self.manager.want_nothing();
        let blocks: Arc<[BlockId]> = rest.iter().copied().collect();
        self.manager.schedule().want(Arc::clone(&blocks), once(0..blocks.len()));
        self.manager.schedule().read(0);
        self.pipeline = Some(Pipeline { until: self.now + takes, best, rest, missing, held: None });
    }

    fn go_on(&mut self, mut pipeline: Pipeline) {
        while let Some(next) = pipeline.rest.front().copied()
            && !self.claimed.contains(&next)
        {
            self.manager.schedule().taken(0, next);
            pipeline.rest.pop_front();
        }
        let is_alone = self.manager.ready() == 0;
        let schedule = self.manager.schedule();
        let (gone, _) = pipeline.missing.look(schedule, is_alone, &self.tree, self.now);
        if let Some(gone) = gone.filter(|gone| pipeline.rest.front() == Some(gone)) {
            pipeline.best = self.tree.node(gone).prev.unwrap();
            pipeline.rest.clear();
        }
        if self.now < pipeline.until || !pipeline.rest.is_empty() {
            self.pipeline = Some(pipeline);
            return;
        }
        let work = |id| self.tree.node(id).work;
        assert!(work(pipeline.best) >= work(self.tip), "the tip has less work than before");
        self.tip = pipeline.best;
        let mut claimed: Vec<BlockId> = std::mem::take(&mut self.claimed).into_iter().collect();
        claimed.sort_by_key(|id| Reverse(self.tree.node(*id).height));
        claimed.iter().for_each(|id| self.tree.mark_missing(*id));
        self.search();
    }

    /// The machine sleeps: the clock goes on, and all connections are lost.
    pub fn sleep(&mut self) {
        self.unix_time += 3_600;
        let peers: Vec<PeerId> = self.peers.keys().copied().collect();
        for id in peers {
            self.manager.closed(id);
            self.lose(id);
        }
    }

    /// Returns how many blocks of a branch there are.
    fn top_of(&self, branch: usize) -> usize {
        match branches()[branch].headers.len() {
            LONG => LONG,
            _ if branch == 0 => self.top,
            _ => self.top + 1,
        }
    }

    pub fn has_all(&self) -> bool {
        self.tree.node(self.tip).hash == branches()[0].headers[self.top - 1].hash()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Connect(spec) => self.connect(spec),
            Event::Close(id) => {
                self.manager.closed(id);
                self.lose(id);
            }
            Event::Bytes(id, bytes) => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.bytes += bytes;
                    self.manager.schedule().heard(id, peer.bytes, self.now);
                }
            }
            Event::Message(id, message) => {
                if self.peers.contains_key(&id) {
                    let Outgoing { command, payload } = message;
                    self.with_chain(|manager, chain, now, out| {
                        manager.received(id, command, &payload, chain, now, out);
                    });
                }
            }
            Event::Block => {
                self.top += 1;
                self.announced = None;
                let peers: Vec<(PeerId, Spec)> =
                    self.peers.iter().map(|(id, peer)| (*id, peer.spec)).collect();
                for (id, spec) in peers {
                    let is_honest = spec.blocks == OfBlocks::Sends;
                    let after = if is_honest { 1_000 } else { self.rng.below(1_500) };
                    let height = self.top_of(spec.branch);
                    self.at(self.now + Duration::from_millis(after), Event::Announce(id, height));
                }
            }
            Event::Announce(id, height) => {
                let Some(peer) = self.peers.get_mut(&id) else { return };
                peer.top = peer.top.max(height);
                let spec = peer.spec;
                let header = branches()[spec.branch].headers[height - 1];
                if spec.stops {
                    return;
                }
                if spec.blocks == OfBlocks::Sends {
                    self.announced = Some(self.now);
                }
                let time = self.now + ROUND_TRIP / 2;
                self.at(time, Event::Message(id, Outgoing::new(&Headers(&[header]))));
            }
        }
    }

    fn connect(&mut self, spec: Spec) {
        self.next += 1;
        let id = PeerId(self.next);
        let top = self.top_of(spec.branch);
        self.peers.insert(id, Peer { spec, top, bytes: 0, drips: false });
        let kind = if spec.inbound {
            ConnectionType::Inbound
        } else if spec.named {
            ConnectionType::Manual
        } else {
            ConnectionType::Automatic
        };
        let ourselves = Ourselves {
            nonce: OUR_NONCE,
            user_agent: "/Apus:test/",
            services: Services::default(),
            features: Vec::new(),
            time: self.unix_time,
            start_height: 0,
        };
        self.with_chain(|manager, _, now, out| manager.connected(id, kind, ourselves, now, out));
        if spec.inbound {
            self.at(self.now, Event::Message(id, version(70_016, SERVICES, 1)));
        }
        if let Some(stays) = spec.stays {
            self.at(self.now + stays, Event::Close(id));
        }
    }

    /// A peer that is lost comes back.
    fn lose(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.remove(&id) {
            let wait = Duration::from_millis(self.rng.between(1_000, 3_000));
            self.at(self.now + wait, Event::Connect(peer.spec));
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Send(id, message) => self.answer(id, &message),
            Action::Disconnect(id, error) => {
                let spec = self.peers[&id].spec;
                self.log.push(format!("{:?} {id:?} {error} {spec:?}", self.now));
                assert!(spec.blocks != OfBlocks::Sends, "an honest peer is dropped: {error}");
                self.lose(id);
            }
            Action::Block(id, block) => {
                let spec = self.peers[&id].spec;
                if spec.blocks == OfBlocks::Sends {
                    self.claimed.remove(&block);
                    self.tree.mark_available(block);
                } else {
                    let mut out = Vec::new();
                    self.manager.changed_block(id, block, "other".to_string(), &mut out);
                    self.actions.extend(out);
                }
            }
            Action::Addresses(..) | Action::Ready(_) | Action::Coins(..) => {}
        }
    }

    fn answer(&mut self, id: PeerId, message: &Outgoing) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let spec = peer.spec;
        let answers: Vec<Outgoing> = match Message::decode(message.command, &message.payload) {
            Ok(Message::Version(_)) if spec.inbound => Vec::new(),
            Ok(Message::Version(_)) => vec![version(70_016, SERVICES, 1)],
            Ok(Message::Verack) => vec![Outgoing::empty(Command::VERACK)],
            _ if spec.stops => Vec::new(),
            Ok(Message::Ping(Some(nonce))) => vec![Outgoing::new(&nonce.pong())],
            Ok(Message::GetHeaders(request)) => {
                let locator: Vec<Hash> = request.locator.iter().collect();
                let all = &branches()[spec.branch].headers[..peer.top];
                let places = &branches()[spec.branch].places;
                let place = |hash: &Hash| places.get(hash).copied().filter(|at| *at < peer.top);
                let known = locator.iter().find_map(place);
                match spec.headers {
                    OfHeaders::Answers => {
                        vec![Outgoing::new(&Headers(&all[known.map_or(0, |at| at + 1)..]))]
                    }
                    OfHeaders::Silent => Vec::new(),
                    OfHeaders::Known => vec![Outgoing::new(&Headers(&all[..10]))],
                    OfHeaders::Empty => vec![Outgoing::new(&Headers(&[]))],
                    OfHeaders::LowWork => vec![Outgoing::new(&Headers(low_work()))],
                }
            }
            Ok(Message::GetData(list)) => return self.send_blocks(id, &list),
            _ => Vec::new(),
        };
        let is_late = spec.headers == OfHeaders::Known && message.command == Command::GETHEADERS;
        let late = Duration::from_millis(if is_late { 4_900 } else { 0 });
        for answer in answers {
            self.at(self.now + ROUND_TRIP + late, Event::Message(id, answer));
        }
    }

    fn send_blocks(&mut self, id: PeerId, list: &InventoryList) {
        const BYTES: u64 = 50_000;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let spec = peer.spec;
        for (at, item) in list.iter().enumerate() {
            let time = self.now + ROUND_TRIP + Duration::from_millis(20) * at as u32;
            let branch = &branches()[spec.branch];
            let header = match branch.places.get(&item.hash) {
                Some(at) => Some(&branch.headers[*at]),
                None => low_work().iter().find(|header| header.hash() == item.hash),
            };
            let header = header.expect("it was asked for what it has");
            let block = |bytes: u64| {
                let mut payload = header.to_bytes().to_vec();
                payload.resize(bytes as usize, 0);
                Outgoing { command: Command::BLOCK, payload }
            };
            match spec.blocks {
                OfBlocks::Sends | OfBlocks::Changed => {
                    self.at(time, Event::Bytes(id, BYTES));
                    self.at(time, Event::Message(id, block(BYTES)));
                }
                OfBlocks::NotFound => {
                    let kind = InventoryKind::WITNESS_BLOCK;
                    let item = InventoryItem { kind, hash: item.hash };
                    let message = Outgoing::new(&Inventory(Command::NOTFOUND, &[item]));
                    self.at(time, Event::Message(id, message));
                }
                OfBlocks::Silent => {}
                OfBlocks::Junk => {
                    let mut junk = block(BYTES);
                    junk.payload[..80].fill(3);
                    self.at(time, Event::Bytes(id, BYTES));
                    self.at(time, Event::Message(id, junk));
                }
                OfBlocks::Halves => {
                    self.at(time, Event::Bytes(id, BYTES / 2));
                    self.peers.get_mut(&id).unwrap().drips = true;
                }
                OfBlocks::Drips => self.peers.get_mut(&id).unwrap().drips = true,
            }
        }
    }
}
