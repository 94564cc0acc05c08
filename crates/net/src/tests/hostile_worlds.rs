//! Random worlds near the tip: one honest outbound peer among up to seven hostile ones, and up to
//! fifty hostile inbound ones. They withhold blocks and branches in every way, say nothing, come
//! late, come and go. Whatever they do, a new block is connected in seconds, and a sync ends.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::OnceLock;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_hash::Hash;
use apus_testchain::Rng;
use apus_wire::Header;
use apus_wire::message::{
    Command, Headers, Inventory, InventoryItem, InventoryKind, InventoryList, Message, Services,
};

use super::manager::{OUR_NONCE, SERVICES, mine, version};
use super::regtest;
use crate::session::{Ourselves, Outgoing};
use crate::{Action, ConnectionType, HeaderChain, Limits, PeerId, PeerManager, Settings};

/// The time from a message to the answer.
const ROUND_TRIP: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(100);
/// The time within which a block must be connected after an honest peer has announced it.
const CONNECTED_WITHIN: Duration = Duration::from_secs(3);
/// The time within which a sync must end after the last honest block was announced or, at the
/// start, after the honest peer is there.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// The time for which a sync waits at its end, as in `apus-peers`.
const PATIENCE: Duration = Duration::from_secs(20);
/// Blocks that are here at the start, that there are then, and that there are in the end.
const HERE: usize = 40;
const AT_START: usize = 60;
const IN_THE_END: usize = 63;
/// Depths of forks below the first tip.
const FORKS: [usize; 4] = [0, 1, 5, 20];

/// How a peer answers requests for headers.
#[derive(Clone, Copy, PartialEq, Debug)]
enum OfHeaders {
    Answers,
    Silent,
    /// Sends known ones after a while.
    Known,
    /// Says that there are none.
    Empty,
}

/// How a peer answers requests for blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
enum OfBlocks {
    Sends,
    NotFound,
    Silent,
    /// Sends messages that are no blocks.
    Junk,
    /// Sends the right header and other transactions.
    Changed,
    /// Sends a byte a second.
    Drips,
    /// Sends half of the block at once, and then a byte a second.
    Halves,
}

#[derive(Clone, Copy, Debug)]
struct Spec {
    inbound: bool,
    headers: OfHeaders,
    blocks: OfBlocks,
    /// The branch that it claims to have: 0 is the honest chain.
    branch: usize,
    from: Duration,
    /// How long it stays each time before it hangs up and comes back.
    stays: Option<Duration>,
    /// Whether it says nothing after the handshake.
    stops: bool,
}

const HONEST: Spec = Spec {
    inbound: false,
    headers: OfHeaders::Answers,
    blocks: OfBlocks::Sends,
    branch: 0,
    from: Duration::ZERO,
    stays: None,
    stops: false,
};

/// The honest chain, and branches that always have more work.
fn branches() -> &'static [Vec<Header>] {
    static BRANCHES: OnceLock<Vec<Vec<Header>>> = OnceLock::new();
    BRANCHES.get_or_init(|| {
        let (network, genesis) = regtest();
        let honest = mine(&network, &genesis, IN_THE_END as u32, 1);
        let mut all = vec![honest.clone()];
        for seed in 2..6 {
            for depth in FORKS {
                let common = &honest[..AT_START - depth];
                let count = (IN_THE_END + 3 - common.len()) as u32;
                let own = mine(&network, &common[common.len() - 1], count, seed);
                all.push([common, &own[..]].concat());
            }
        }
        all
    })
}

fn random_peer(rng: &mut Rng, inbound: bool) -> Spec {
    let of_headers = [
        OfHeaders::Answers,
        OfHeaders::Answers,
        OfHeaders::Silent,
        OfHeaders::Known,
        OfHeaders::Empty,
    ];
    let of_blocks = [
        OfBlocks::NotFound,
        OfBlocks::Silent,
        OfBlocks::Junk,
        OfBlocks::Changed,
        OfBlocks::Drips,
        OfBlocks::Halves,
    ];
    let seconds = |from: u64, to: u64, rng: &mut Rng| Duration::from_millis(rng.between(from, to));
    Spec {
        inbound,
        headers: of_headers[rng.below(5) as usize],
        blocks: of_blocks[rng.below(6) as usize],
        branch: if rng.percent(50) { 0 } else { rng.below(branches().len() as u64) as usize },
        from: if rng.percent(60) { Duration::ZERO } else { seconds(0, 15_000, rng) },
        stays: rng.percent(20).then(|| seconds(500, 20_000, rng)),
        stops: rng.percent(15),
    }
}

enum Event {
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

struct World {
    rng: Rng,
    tree: Tree,
    tip: BlockId,
    manager: PeerManager,
    peers: BTreeMap<PeerId, Peer>,
    now: Duration,
    unix_time: i64,
    next: u64,
    events: BinaryHeap<Reverse<(Duration, u64)>>,
    what: BTreeMap<u64, Event>,
    /// The height of the honest chain, and when an honest peer announced it.
    top: usize,
    announced: Option<Duration>,
    /// Until when the best chain is being connected, while the tree does not grow.
    connecting: Option<(Duration, BlockId)>,
    actions: VecDeque<Action>,
    log: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let (network, genesis) = regtest();
        let mut tree = Tree::new(network, genesis);
        let mut tip = tree.genesis();
        tree.mark_available(tip);
        let unix_time = i64::from(branches()[0][IN_THE_END - 1].time) + 600;
        for header in &branches()[0][..HERE] {
            tip = tree.accept_header(header, unix_time).unwrap();
            tree.mark_available(tip);
        }
        let settings = Settings {
            needs: SERVICES,
            limits: Limits { bytes_max: 1 << 30, block_interval: Duration::from_secs(600) },
        };
        let mut manager = PeerManager::new(settings);
        manager.ask_for_headers();
        manager.follow(tip, u32::MAX);
        Self {
            rng: Rng::new(seed, 11),
            tree,
            tip,
            manager,
            peers: BTreeMap::new(),
            now: Duration::ZERO,
            unix_time,
            next: 1,
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            top: AT_START,
            announced: None,
            connecting: None,
            actions: VecDeque::new(),
            log: Vec::new(),
        }
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.next += 1;
        self.events.push(Reverse((time, self.next)));
        self.what.insert(self.next, event);
    }

    /// Lets time pass to `end`, or until it `is_over`.
    fn run(&mut self, end: Duration, is_over: impl Fn(&mut Self) -> bool) {
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
            self.connect_best();
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
    }

    fn with_chain(
        &mut self,
        work: impl FnOnce(&mut PeerManager, &mut HeaderChain, Duration, &mut Vec<Action>),
    ) {
        let mut out = Vec::new();
        let mut chain = match self.connecting {
            None => HeaderChain::growing(&mut self.tree, self.tip, self.unix_time, [7; 16]),
            Some(_) => HeaderChain::fixed(&self.tree, self.tip),
        };
        work(&mut self.manager, &mut chain, self.now, &mut out);
        self.actions.extend(out);
        while let Some(action) = self.actions.pop_front() {
            self.carry_out(action);
        }
    }

    /// Makes the best chain that is here active, which takes a while.
    fn connect_best(&mut self) {
        if let Some((until, best)) = self.connecting {
            if self.now < until {
                return;
            }
            assert!(self.tree.node(best).work > self.tree.node(self.tip).work);
            (self.tip, self.connecting) = (best, None);
            self.manager.ask_for_headers();
            self.manager.follow(best, u32::MAX);
            return;
        }
        let best = self.tree.best_candidate().unwrap();
        if self.tree.is_better(best, self.tip) {
            let takes = Duration::from_millis(self.rng.below(300));
            self.connecting = Some((self.now + takes, best));
        }
    }

    fn has_all(&self) -> bool {
        self.tree.node(self.tip).hash == branches()[0][self.top - 1].hash()
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
                    let height = if spec.branch == 0 { self.top } else { self.top + 1 };
                    self.at(self.now + Duration::from_millis(after), Event::Announce(id, height));
                }
            }
            Event::Announce(id, height) => {
                let Some(peer) = self.peers.get_mut(&id) else { return };
                peer.top = peer.top.max(height);
                let spec = peer.spec;
                let header = branches()[peer.spec.branch][height - 1];
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
        let top = if spec.branch == 0 { self.top } else { self.top + 1 };
        self.peers.insert(id, Peer { spec, top, bytes: 0, drips: false });
        let kind = if spec.inbound { ConnectionType::Inbound } else { ConnectionType::Automatic };
        let ourselves = Ourselves {
            nonce: OUR_NONCE,
            user_agent: "/Apus:test/",
            services: Services::default(),
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
                    self.tree.mark_available(block);
                } else {
                    let mut out = Vec::new();
                    self.manager.changed_block(id, block, "other".to_string(), &mut out);
                    self.actions.extend(out);
                }
            }
            Action::Addresses(..) | Action::Ready(_) => {}
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
                let all = &branches()[spec.branch][..peer.top];
                let known =
                    locator.iter().find_map(|hash| all.iter().position(|h| h.hash() == *hash));
                match spec.headers {
                    OfHeaders::Answers => {
                        vec![Outgoing::new(&Headers(&all[known.map_or(0, |at| at + 1)..]))]
                    }
                    OfHeaders::Silent => Vec::new(),
                    OfHeaders::Known => vec![Outgoing::new(&Headers(&all[..10]))],
                    OfHeaders::Empty => vec![Outgoing::new(&Headers(&[]))],
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
            let header = branches()[spec.branch].iter().find(|header| header.hash() == item.hash);
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

/// Runs the world of a seed.
fn run(seed: u64) {
    let mut world = World::new(seed);
    let mut rng = Rng::new(seed, 12);
    let hostile = [0, 1, 7][rng.below(3) as usize];
    let inbound = [0, 1, 50][rng.below(3) as usize];
    let mut specs: Vec<Spec> = (0..hostile).map(|_| random_peer(&mut rng, false)).collect();
    specs.extend((0..inbound).map(|_| random_peer(&mut rng, true)));
    let from = Duration::from_millis(if rng.percent(50) { 0 } else { rng.between(5_000, 15_000) });
    for spec in specs {
        world.at(spec.from, Event::Connect(spec));
    }
    world.at(from, Event::Connect(Spec { from, ..HONEST }));
    let end = from + ENDS_WITHIN;
    world.run(end, |world| world.has_all());
    assert!(
        world.has_all(),
        "seed {seed}: not synced {ENDS_WITHIN:?} after the honest peer came: {:#?}",
        world.log
    );
    for _ in AT_START..IN_THE_END {
        // The clock may jump.
        if rng.percent(20) {
            let last = i64::from(branches()[0][IN_THE_END - 1].time);
            world.unix_time = last + [-3_600, 600, 86_400][rng.below(3) as usize];
        }
        let longest = if rng.percent(10) { 40 } else { 6 };
        let wait = Duration::from_secs(rng.between(0, longest));
        world.run(world.now + wait, |_| false);
        let now = world.now;
        world.at(now, Event::Block);
        // The honest peer announces it after a second.
        world.run(now + Duration::from_secs(1) + CONNECTED_WITHIN, |world| {
            world.announced.is_some() && world.has_all()
        });
        assert!(world.has_all(), "seed {seed}: block {} is late: {:#?}", world.top, world.log);
    }
    let last = world.now;
    world.manager.ask_for_headers();
    world.run(last + ENDS_WITHIN, |world| {
        let awaits = world.now <= last + PATIENCE && world.manager.awaits_any(&world.tree);
        !awaits && world.manager.has_all_headers(world.now, PATIENCE)
    });
    assert!(world.now < last + ENDS_WITHIN, "seed {seed}: the sync does not end");
}

#[test]
fn a_quarter_of_a_hundred_hostile_worlds_does_not_hold_up_the_tip() {
    (0..25).for_each(run);
}

#[test]
fn nor_does_the_second_quarter() {
    (25..50).for_each(run);
}

#[test]
fn nor_does_the_third_quarter() {
    (50..75).for_each(run);
}

#[test]
fn nor_does_the_last_quarter() {
    (75..100).for_each(run);
}
