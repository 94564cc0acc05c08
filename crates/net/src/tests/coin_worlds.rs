//! Random worlds in which blocks and the coins that they spend are needed together (draft BIP 455):
//! one honest peer that has both, honest ones that have only blocks, and up to seven that lie about
//! coins, withhold them, send them unasked, or come and go. Threads take ranges of blocks as a
//! SwiftSync does. Every block gets its coins in time, from the honest peer if need be, no honest
//! peer is dropped, peers that lie are, and what waits stays within its limit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::iter::once;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_hash::Hash;
use apus_testchain::Rng;
use apus_wire::Header;
use apus_wire::message::{
    Command, Feature, Headers, Inventory, InventoryItem, InventoryKind, Message,
};

use super::manager::{SERVICES, mine, ourselves, version};
use super::regtest;
use crate::{
    Action, BLOCK_SPENT_COINS, COIN_RANGE_BLOCKS, ConnectionType, HeaderChain, Limits, Outgoing,
    PeerError, PeerId, PeerManager, Settings, coins_cutoff,
};

const BLOCKS: u32 = 200;
const BLOCK_BYTES: u64 = 50_000;
const COINS_BYTES: u64 = 6_000;
/// Bytes that may wait: those of coins have a quarter of it, which is not even one range of all
/// threads.
const BYTES_MAX: u64 = 1_000_000;
const ROUND_TRIP: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(100);
/// The time within which all is done once the honest peer is here, which alone takes 12 s for all
/// blocks and coins at its slowest pace.
const DONE_WITHIN: Duration = Duration::from_secs(30);

/// How a peer answers requests for coins.
#[derive(Clone, Copy, PartialEq, Debug)]
enum OfCoins {
    Sends,
    /// Does not offer them.
    None,
    /// Says that it lacks those of one block in three.
    Lacks,
    LacksAll,
    Silent,
    /// Sends other coins than those that the block spends.
    Wrong,
    /// Sends those of the next block.
    OfAnother,
    Twice,
    /// Sends a message that is too short.
    Cut,
    /// Sends ten bytes a second.
    Drips,
    /// Sends those of some blocks, and hangs up.
    HangsUp,
}

const HOSTILE: [OfCoins; 9] = [
    OfCoins::Lacks,
    OfCoins::LacksAll,
    OfCoins::Silent,
    OfCoins::Wrong,
    OfCoins::OfAnother,
    OfCoins::Twice,
    OfCoins::Cut,
    OfCoins::Drips,
    OfCoins::HangsUp,
];

#[derive(Clone, Copy, Debug)]
struct Spec {
    coins: OfCoins,
    /// The time between two answers.
    pace: Duration,
}

impl Spec {
    /// Returns whether nothing that the peer does is a reason to drop it.
    fn is_honest(self) -> bool {
        matches!(self.coins, OfCoins::Sends | OfCoins::None | OfCoins::Lacks | OfCoins::LacksAll)
    }
}

enum Event {
    Connect(Spec),
    Message(PeerId, Outgoing),
    Close(PeerId),
}

struct Peer {
    spec: Spec,
    /// Bytes of blocks and coins that it has sent in all.
    bytes: u64,
    /// When it has sent all that it was asked for.
    busy_until: Duration,
    answered: usize,
    drips: bool,
}

/// A thread that checks ranges of blocks one after another.
struct Worker {
    range: Vec<BlockId>,
    /// Whether the first of them has been taken, and waits for its coins.
    holds_block: bool,
}

struct World {
    rng: Rng,
    tree: Tree,
    tip: BlockId,
    manager: PeerManager,
    peers: BTreeMap<PeerId, Peer>,
    now: Duration,
    next: u64,
    events: BinaryHeap<Reverse<(Duration, u64)>>,
    what: HashMap<u64, Event>,
    /// Ranges that no worker has begun with, the last first.
    ranges: Vec<Vec<BlockId>>,
    workers: Vec<Worker>,
    blocks_here: BTreeSet<BlockId>,
    coins_here: HashMap<BlockId, PeerId>,
    /// Blocks whose coins no peer has, as the manager says.
    given_up: BTreeSet<BlockId>,
    checked: usize,
    dropped: Vec<(Spec, PeerError)>,
}

fn headers() -> &'static [Header] {
    static HEADERS: OnceLock<Vec<Header>> = OnceLock::new();
    HEADERS.get_or_init(|| {
        let (network, genesis) = regtest();
        mine(&network, &genesis, BLOCKS, 1)
    })
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 21);
        let mut tree = Tree::new(regtest().0);
        let unix_time = i64::from(headers()[headers().len() - 1].time) + 600;
        let blocks: Vec<BlockId> =
            headers().iter().map(|header| tree.accept_header(header, unix_time).unwrap()).collect();
        let limits = Limits { bytes_max: BYTES_MAX, block_interval: Duration::from_secs(600) };
        let mut manager = PeerManager::new(Settings { needs: SERVICES, limits });
        let wanted: Arc<[BlockId]> = blocks.iter().copied().collect();
        manager.schedule().want(Arc::clone(&wanted), once(0..wanted.len()));
        manager.want_coins(wanted);
        let range_of = |id: &BlockId| tree.height(*id) / COIN_RANGE_BLOCKS;
        let of_range = |one: &BlockId, other: &BlockId| range_of(one) == range_of(other);
        let ranges = blocks.chunk_by(of_range).rev().map(<[BlockId]>::to_vec).collect();
        let idle = || Worker { range: Vec::new(), holds_block: false };
        let workers = (0..rng.between(1, 4)).map(|_| idle()).collect();
        Self {
            rng,
            tip: tree.genesis(),
            tree,
            manager,
            peers: BTreeMap::new(),
            now: Duration::ZERO,
            next: 1,
            events: BinaryHeap::new(),
            what: HashMap::new(),
            ranges,
            workers,
            blocks_here: BTreeSet::new(),
            coins_here: HashMap::new(),
            given_up: BTreeSet::new(),
            checked: 0,
            dropped: Vec::new(),
        }
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.next += 1;
        self.events.push(Reverse((time, self.next)));
        self.what.insert(self.next, event);
    }

    fn run(&mut self, end: Duration) {
        while self.now < end && self.checked < BLOCKS as usize {
            let next = self.events.peek().map_or(end, |Reverse((time, _))| *time);
            self.now = next.min(self.now + TICK).max(self.now);
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

    fn happen(&mut self, event: Event) {
        match event {
            Event::Connect(spec) => {
                self.next += 1;
                let id = PeerId(self.next);
                let busy_until = self.now;
                let peer = Peer { spec, bytes: 0, busy_until, answered: 0, drips: false };
                self.peers.insert(id, peer);
                let kind = ConnectionType::Automatic;
                let ourselves = ourselves(Vec::new());
                self.with_manager(|manager, _, now, out| {
                    manager.connected(id, kind, ourselves, now, out);
                });
            }
            Event::Message(id, message) => {
                let Some(peer) = self.peers.get_mut(&id) else { return };
                if matches!(message.command, Command::BLOCK | Command::BSPENT) {
                    peer.bytes += message.payload.len() as u64;
                }
                self.with_manager(|manager, chain, now, out| {
                    manager.received(id, message.command, &message.payload, chain, now, out);
                });
            }
            Event::Close(id) => {
                self.manager.closed(id);
                self.lose(id);
            }
        }
    }

    fn tick(&mut self) {
        for (id, peer) in &self.peers {
            let dripped = if peer.drips { self.now.as_secs() * 10 } else { 0 };
            self.manager.schedule().heard(*id, peer.bytes + dripped, self.now);
            self.manager.coins().heard(*id, peer.bytes + dripped, self.now);
        }
        while let Some(block) = self.manager.coins().give_up(&self.tree) {
            let ready = |(id, peer): (&PeerId, &Peer)| {
                peer.spec.coins == OfCoins::Sends && self.manager.best(*id).is_some()
            };
            assert!(!self.peers.iter().any(ready), "coins that a peer has are given up");
            self.given_up.insert(block);
        }
        self.with_manager(|manager, chain, now, out| manager.tick(chain, now, 5, out));
        let waiting = self.coins_here.len() as u64 * COINS_BYTES;
        assert!(waiting <= BYTES_MAX / 4 + COINS_BYTES, "{waiting} bytes of coins wait");
    }

    fn with_manager(
        &mut self,
        work: impl FnOnce(&mut PeerManager, &mut HeaderChain, Duration, &mut Vec<Action>),
    ) {
        let mut out = Vec::new();
        let mut chain = HeaderChain::fixed(&self.tree, self.tip);
        work(&mut self.manager, &mut chain, self.now, &mut out);
        for action in out {
            match action {
                Action::Send(id, message) => self.answer(id, &message),
                Action::Disconnect(id, error) => {
                    let spec = self.peers[&id].spec;
                    assert!(!spec.is_honest(), "an honest peer is dropped: {error} {spec:?}");
                    self.dropped.push((spec, error));
                    self.lose(id);
                }
                Action::Block(_, block) => assert!(self.blocks_here.insert(block)),
                Action::Coins(id, block) => {
                    assert_eq!(self.coins_here.insert(block, id), None);
                }
                Action::Addresses(..) | Action::Ready(_) => {}
            }
        }
    }

    /// Lets each worker take what it waits for.
    fn work(&mut self) {
        for at in 0..self.workers.len() {
            while self.step(at) {}
        }
    }

    /// Lets a worker take a block or coins, and returns whether it could.
    fn step(&mut self, at: usize) -> bool {
        let worker = &mut self.workers[at];
        let Some(block) = worker.range.first().copied() else {
            let Some(range) = self.ranges.pop() else { return false };
            worker.range = range;
            return true;
        };
        if !worker.holds_block {
            if self.blocks_here.contains(&block) {
                worker.holds_block = true;
                self.manager.schedule().taken(0, block);
                return true;
            }
            self.manager.schedule().read(0);
            return false;
        }
        if let Some(from) = self.coins_here.remove(&block) {
            // It may have left.
            if self.peers.get(&from).is_some_and(|peer| peer.spec.coins == OfCoins::Wrong) {
                self.with_manager(|manager, _, _, out| {
                    manager.wrong_coins(from, block, "other ones".to_string(), out);
                });
                return true;
            }
            self.manager.coins().taken(block);
        } else if !self.given_up.contains(&block) {
            self.manager.coins().read();
            return false;
        }
        let worker = &mut self.workers[at];
        worker.range.remove(0);
        worker.holds_block = false;
        self.checked += 1;
        true
    }

    /// A hostile peer that is lost comes back as another one; one that is not comes back as it was.
    fn lose(&mut self, id: PeerId) {
        let Some(peer) = self.peers.remove(&id) else { return };
        let wait = Duration::from_millis(self.rng.between(1_000, 5_000));
        let spec = if peer.spec.is_honest() { peer.spec } else { hostile(&mut self.rng) };
        self.at(self.now + wait, Event::Connect(spec));
    }

    fn answer(&mut self, id: PeerId, message: &Outgoing) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let coins = peer.spec.coins;
        let answers = match Message::decode(message.command, &message.payload) {
            Ok(Message::Version(_)) => {
                let mut answers = vec![version(70_017, SERVICES, 1)];
                if coins != OfCoins::None {
                    let id = BLOCK_SPENT_COINS.as_bytes();
                    answers.push(Outgoing::new(&Feature { id, data: &[0] }));
                }
                answers
            }
            Ok(Message::Verack) => vec![Outgoing::empty(Command::VERACK)],
            Ok(Message::Ping(Some(nonce))) => vec![Outgoing::new(&nonce.pong())],
            Ok(Message::GetHeaders(request)) => {
                let is_known =
                    |header: &Header| request.locator.iter().next() == Some(header.hash());
                let known = headers().iter().position(is_known);
                vec![Outgoing::new(&Headers(&headers()[known.map_or(0, |at| at + 1)..]))]
            }
            Ok(Message::GetData(list)) => list.iter().map(|item| block(item.hash)).collect(),
            Ok(Message::GetSpentCoins(request)) => {
                let height = self.tree.height(self.tree.find(&request.block).unwrap());
                assert_eq!(request.cutoff, coins_cutoff(height));
                assert!(coins != OfCoins::None, "a peer that offers no coins is asked for some");
                peer.answered += 1;
                peer.drips |= coins == OfCoins::Drips;
                of_coins(coins, request.block, height)
            }
            _ => Vec::new(),
        };
        let mut time = self.now + ROUND_TRIP;
        for answer in answers {
            let peer = self.peers.get_mut(&id).unwrap();
            if matches!(answer.command, Command::BLOCK | Command::BSPENT | Command::NOTFOUND) {
                time = time.max(peer.busy_until + peer.spec.pace);
                peer.busy_until = time;
            }
            self.at(time, Event::Message(id, answer));
        }
        let peer = &self.peers[&id];
        if peer.spec.coins == OfCoins::HangsUp && peer.answered == 10 {
            self.at(time, Event::Close(id));
        }
    }
}

fn block(hash: Hash) -> Outgoing {
    let header = headers().iter().find(|header| header.hash() == hash).unwrap();
    let mut payload = header.to_bytes().to_vec();
    payload.resize(BLOCK_BYTES as usize, 0);
    Outgoing { command: Command::BLOCK, payload }
}

fn of_coins(coins: OfCoins, block: Hash, height: u32) -> Vec<Outgoing> {
    let bspent = |hash: Hash, bytes: u64| {
        let mut payload = hash.0.to_vec();
        payload.resize(bytes as usize, 0);
        Outgoing { command: Command::BSPENT, payload }
    };
    let not_found = || {
        let item = InventoryItem { kind: InventoryKind::BLOCK, hash: block };
        vec![Outgoing::new(&Inventory(Command::NOTFOUND, &[item]))]
    };
    let whole = bspent(block, COINS_BYTES);
    match coins {
        OfCoins::Sends | OfCoins::Wrong | OfCoins::HangsUp => vec![whole],
        OfCoins::Lacks if height.is_multiple_of(3) => not_found(),
        OfCoins::Lacks => vec![whole],
        OfCoins::LacksAll => not_found(),
        OfCoins::None | OfCoins::Silent | OfCoins::Drips => Vec::new(),
        OfCoins::OfAnother => {
            vec![bspent(headers()[height as usize % headers().len()].hash(), COINS_BYTES)]
        }
        OfCoins::Twice => vec![whole.clone(), whole],
        OfCoins::Cut => vec![bspent(block, 20)],
    }
}

fn pace(rng: &mut Rng) -> Duration {
    Duration::from_millis(rng.between(1, 30))
}

fn hostile(rng: &mut Rng) -> Spec {
    Spec { coins: HOSTILE[rng.below(HOSTILE.len() as u64) as usize], pace: pace(rng) }
}

/// Runs the world of a seed, and returns the peers that were dropped, and why.
fn run(seed: u64) -> Vec<(Spec, PeerError)> {
    let mut rng = Rng::new(seed, 22);
    let mut world = World::new(seed);
    for _ in 0..[0, 1, 3, 7][rng.below(4) as usize] {
        let from = Duration::from_millis(rng.between(0, 3_000));
        let spec = hostile(&mut rng);
        world.at(from, Event::Connect(spec));
    }
    for _ in 0..rng.below(3) {
        let spec = Spec { coins: OfCoins::None, pace: pace(&mut rng) };
        world.at(Duration::ZERO, Event::Connect(spec));
    }
    let from = Duration::from_millis(if rng.percent(50) { 0 } else { rng.between(500, 8_000) });
    world.at(from, Event::Connect(Spec { coins: OfCoins::Sends, pace: pace(&mut rng) }));
    world.run(from + DONE_WITHIN);
    assert_eq!(world.checked, BLOCKS as usize, "seed {seed}: {:?}", world.dropped);
    world.dropped
}

#[test]
fn blocks_get_their_coins_in_a_hundred_hostile_worlds() {
    let mut dropped: BTreeMap<String, usize> = BTreeMap::new();
    for (spec, error) in (0..100).flat_map(run) {
        let expected: &[&str] = match spec.coins {
            OfCoins::Wrong => &["wrong spent coins"],
            OfCoins::OfAnother | OfCoins::Twice => &["not asked for"],
            OfCoins::Cut => &["bspent"],
            OfCoins::Silent | OfCoins::Drips => &["it has sent nothing", "does not send a block"],
            _ => &[],
        };
        let error = error.to_string();
        assert!(expected.iter().any(|words| error.contains(words)), "{spec:?}: {error}");
        *dropped.entry(format!("{:?}", spec.coins)).or_default() += 1;
    }
    let kinds = ["Wrong", "OfAnother", "Twice", "Cut"];
    assert!(kinds.iter().all(|kind| dropped.contains_key(*kind)), "{dropped:?}");
}
