//! The manager with peers that exist only in memory: honest ones, and one for each fault.

use std::collections::{BTreeMap, VecDeque};
use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_consensus::{Work, block_work, proof_of_work};
use apus_hash::Hash;
use apus_wire::message::{
    Command, Headers, Inventory, InventoryItem, InventoryKind, Message, Nonce, Raw, Services,
    Version,
};
use apus_wire::{Header, Network};

use super::regtest;
use crate::session::{Ourselves, Outgoing, SessionFault};
use crate::{
    Action, ConnectionType, Fault, HeaderChain, HeadersFault, Limits, OfferedFeature, PeerError,
    PeerId, PeerManager, Settings,
};

pub(super) const SERVICES: Services = Services::NETWORK.with(Services::WITNESS);
const UNIX_TIME: i64 = 1_700_000_000;
pub(super) const OUR_NONCE: u64 = 99;

/// Mines `count` headers on `first`.
pub(super) fn mine(network: &Network, first: &Header, count: u32, seed: u32) -> Vec<Header> {
    let mut prev = *first;
    let next = |number: u32| {
        let merkle_root = Hash([seed as u8; 32]);
        let time = prev.time + 60 + number % 3;
        let mut header =
            Header { prev: prev.hash(), merkle_root, time, nonce: 0, version: 4, ..prev };
        while !proof_of_work(&header.hash(), header.bits, network) {
            header.nonce += 1;
        }
        prev = header;
        header
    };
    (0..count).map(next).collect()
}

/// A message that a peer sends unasked or instead of the right answer.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Habit {
    Honest,
    /// Sends this after the handshake.
    Sends(Outgoing),
    /// Sends this before its `version`.
    SendsFirst(Outgoing),
    /// Answers every request for headers with these.
    Headers(Vec<Header>),
    /// Sends endless headers of no work.
    EndlessHeaders,
    /// Says this about itself.
    Version(i32, Services),
    /// Never answers requests for headers.
    NoHeaders,
    /// Never says anything.
    Silent,
    /// Says nothing after the handshake.
    Mute,
    /// Sends blocks that were not requested.
    OtherBlocks,
    /// Says that it has no blocks.
    NotFound,
}

struct FakePeer {
    habit: Habit,
    chain: Vec<Header>,
    inbox: VecDeque<Outgoing>,
    /// Number of messages of endless headers.
    count: u32,
}

/// A manager and its peers, with a simulated clock.
pub(super) struct World {
    network: Network,
    pub(super) tree: Tree,
    pub(super) manager: PeerManager,
    peers: BTreeMap<PeerId, FakePeer>,
    now: Duration,
    pub(super) dropped: BTreeMap<PeerId, PeerError>,
    pub(super) blocks: Vec<BlockId>,
    headers_sent: usize,
}

impl World {
    pub(super) fn new(minimum_blocks: u32) -> Self {
        let (mut network, genesis) = regtest();
        let work = (0..minimum_blocks)
            .fold(Work::ZERO, |work, _| work.plus(block_work(genesis.bits)))
            .to_be_bytes();
        let mut minimum = Hash(work);
        minimum.0.reverse();
        network.minimum_chain_work = minimum;
        let settings = Settings {
            needs: SERVICES,
            limits: Limits { bytes_max: 1 << 30, block_interval: Duration::from_secs(600) },
        };
        Self {
            tree: Tree::new(network.clone()),
            network,
            manager: PeerManager::new(settings),
            peers: BTreeMap::new(),
            now: Duration::ZERO,
            dropped: BTreeMap::new(),
            blocks: Vec::new(),
            headers_sent: 0,
        }
    }

    fn genesis(&self) -> Header {
        self.tree.header(self.tree.genesis())
    }

    pub(super) fn connect(&mut self, habit: Habit, chain: &[Header]) -> PeerId {
        self.connect_as(ConnectionType::Automatic, habit, chain)
    }

    pub(super) fn connect_as(
        &mut self,
        kind: ConnectionType,
        habit: Habit,
        chain: &[Header],
    ) -> PeerId {
        let id = PeerId(self.peers.len() as u64 + self.dropped.len() as u64 + 1);
        let peer = FakePeer { habit, chain: chain.to_vec(), inbox: VecDeque::new(), count: 0 };
        self.peers.insert(id, peer);
        let mut actions = Vec::new();
        let ourselves = ourselves(Vec::new());
        self.manager.connected(id, kind, ourselves, self.now, &mut actions);
        self.carry_out(actions);
        id
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(id, message) => {
                    if let Some(peer) = self.peers.get_mut(&id) {
                        peer.inbox.push_back(message);
                    }
                }
                Action::Disconnect(id, error) => {
                    self.peers.remove(&id);
                    assert!(self.dropped.insert(id, error).is_none());
                }
                Action::Block(_, block) => self.blocks.push(block),
                Action::Addresses(..) | Action::Ready(_) | Action::Coins(..) => {}
            }
        }
    }

    pub(super) fn receive(&mut self, id: PeerId, message: &Outgoing) {
        let mut actions = Vec::new();
        let tip = self.tree.genesis();
        let mut chain = HeaderChain::growing(&mut self.tree, tip, UNIX_TIME, [7; 16]);
        let command = message.command;
        let payload = &message.payload;
        self.manager.received(id, command, payload, &mut chain, self.now, &mut actions);
        self.carry_out(actions);
    }

    fn tick(&mut self) {
        let mut actions = Vec::new();
        let tip = self.tree.genesis();
        let mut chain = HeaderChain::growing(&mut self.tree, tip, UNIX_TIME, [7; 16]);
        self.manager.tick(&mut chain, self.now, 5, &mut actions);
        self.carry_out(actions);
    }

    /// Delivers messages until there are none left; `false` if that takes too long.
    pub(super) fn talk(&mut self) -> bool {
        for _ in 0..20_000 {
            self.tick();
            let ids: Vec<PeerId> = self.peers.keys().copied().collect();
            let mut said = false;
            for id in ids {
                let Some(peer) = self.peers.get_mut(&id) else { continue };
                let Some(message) = peer.inbox.pop_front() else { continue };
                said = true;
                for answer in peer.answers(&message) {
                    self.headers_sent += usize::from(answer.command == Command::HEADERS);
                    self.receive(id, &answer);
                }
            }
            self.now += Duration::from_millis(1);
            if !said {
                return true;
            }
        }
        false
    }

    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            self.talk();
        }
    }

    pub(super) fn best_height(&self) -> u32 {
        self.tree.node(self.tree.best_header()).height
    }
}

pub(super) fn version(version: i32, services: Services, nonce: u64) -> Outgoing {
    Outgoing::new(&Version {
        version,
        services,
        time: UNIX_TIME,
        receiver: [0; 26],
        nonce,
        user_agent: b"/fake/",
        start_height: 0,
        relay: true,
    })
}

/// Returns what we say about ourselves, with these features.
pub(super) fn ourselves(features: Vec<OfferedFeature>) -> Ourselves {
    Ourselves {
        nonce: OUR_NONCE,
        user_agent: "/Apus:test/",
        services: Services::default(),
        features,
        time: UNIX_TIME,
        start_height: 0,
    }
}

impl FakePeer {
    fn answers(&mut self, message: &Outgoing) -> Vec<Outgoing> {
        if self.habit == Habit::Silent {
            return Vec::new();
        }
        let decoded = Message::decode(message.command, &message.payload).unwrap();
        match decoded {
            Message::Version(_) => {
                let ours = match self.habit {
                    Habit::Version(number, services) => version(number, services, 1),
                    _ => version(70_016, SERVICES, 1),
                };
                let first = match &self.habit {
                    Habit::SendsFirst(message) => Some(message.clone()),
                    _ => None,
                };
                let hello = [ours, Outgoing::empty(Command::WTXIDRELAY)];
                first.into_iter().chain(hello).collect()
            }
            Message::Verack => {
                let verack = Outgoing::empty(Command::VERACK);
                match &self.habit {
                    Habit::Sends(message) => vec![verack, message.clone()],
                    _ => vec![verack],
                }
            }
            _ if self.habit == Habit::Mute => Vec::new(),
            Message::Ping(nonce) => vec![Outgoing::new(&nonce.unwrap().pong())],
            Message::GetHeaders(request) => self.headers_after(request.locator.iter().collect()),
            Message::GetData(list) => list.iter().map(|item| self.block(item.hash)).collect(),
            _ => Vec::new(),
        }
    }

    fn headers_after(&mut self, locator: Vec<Hash>) -> Vec<Outgoing> {
        match &self.habit {
            Habit::NoHeaders => Vec::new(),
            Habit::Headers(headers) => vec![Outgoing::new(&Headers(headers))],
            // Always new headers.
            Habit::EndlessHeaders => {
                let (network, genesis) = regtest();
                let last = self.chain.last().filter(|last| locator[0] == last.hash());
                let next = mine(&network, &last.copied().unwrap_or(genesis), 2000, self.count);
                self.count += 1;
                self.chain.clone_from(&next);
                vec![Outgoing::new(&Headers(&next))]
            }
            _ => {
                let known = locator
                    .iter()
                    .find_map(|hash| self.chain.iter().position(|header| header.hash() == *hash));
                let rest = &self.chain[known.map_or(0, |at| at + 1)..];
                vec![Outgoing::new(&Headers(&rest[..rest.len().min(2000)]))]
            }
        }
    }

    fn block(&self, hash: Hash) -> Outgoing {
        let of = |hash: Hash| {
            let header = self.chain.iter().find(|header| header.hash() == hash).unwrap();
            let bytes = [&header.to_bytes()[..], &[0]].concat();
            Outgoing { command: Command::BLOCK, payload: bytes }
        };
        match self.habit {
            Habit::OtherBlocks => of(self.chain[self.chain.len() - 1].hash()),
            Habit::NotFound => {
                let item = InventoryItem { kind: InventoryKind::WITNESS_BLOCK, hash };
                Outgoing::new(&Inventory(Command::NOTFOUND, &[item]))
            }
            _ => of(hash),
        }
    }
}

#[test]
fn headers_come_from_one_peer_and_then_from_all() {
    let mut world = World::new(0);
    let chain = mine(&world.network, &world.genesis(), 4500, 1);
    let fork = mine(&world.network, &chain[4397], 200, 2);
    let mut other = chain[..4398].to_vec();
    other.extend(fork);
    world.connect(Habit::Honest, &chain);
    let second = world.connect(Habit::Honest, &other);
    world.connect(Habit::Honest, &chain[..100]);
    assert!(world.talk());
    assert!(world.manager.has_all_headers(world.now, Duration::MAX));
    assert_eq!(world.best_height(), 4598);
    assert_eq!(world.tree.len(), 1 + 4500 + 200);
    assert!(world.dropped.is_empty(), "{:?}", world.dropped);
    // Three messages of the first peer, and what the others have that the first lacks.
    assert!(world.headers_sent <= 3 + 2 + 2, "{} messages of headers", world.headers_sent);
    assert_eq!(world.manager.them(second).unwrap().user_agent, "/fake/");
}

#[test]
fn a_long_chain_of_little_work_is_not_kept() {
    let mut world = World::new(9000);
    let good = mine(&world.network, &world.genesis(), 9000, 1);
    let low = mine(&world.network, &world.genesis(), 8000, 2);
    let liar = world.connect(Habit::Honest, &low);
    assert!(world.talk());
    assert_eq!(world.tree.len(), 1, "nothing of it is kept");
    assert!(matches!(world.dropped[&liar], PeerError::Headers(HeadersFault::LowWork(_))));
    world.connect(Habit::Honest, &good);
    assert!(world.talk());
    assert_eq!((world.best_height(), world.tree.len()), (9000, 9001));
    assert!(world.manager.has_all_headers(world.now, Duration::MAX));
}

#[test]
fn endless_headers_are_not_kept() {
    let mut world = World::new(60_000);
    let endless = world.connect(Habit::EndlessHeaders, &[]);
    assert!(world.talk());
    assert!(matches!(world.dropped[&endless], PeerError::Headers(HeadersFault::LowWork(_))));
    assert!(world.headers_sent > 30);
    assert_eq!(world.tree.len(), 1);
}

/// A peer that answers each request with the same headers has no more, however many they are.
#[test]
fn the_same_headers_again_and_again_come_to_an_end() {
    for (minimum, count) in [(0, 20), (0, 2000), (1500, 2000)] {
        let mut world = World::new(minimum);
        let chain = mine(&world.network, &world.genesis(), 2000, 1);
        world.connect(Habit::Headers(chain[..count].to_vec()), &chain);
        assert!(world.talk(), "{count} headers: the requests never end");
        assert!(world.manager.has_all_headers(world.now, Duration::MAX), "{count} headers");
        assert_eq!(world.best_height() as usize, count);
        // Once for the answer, once to see that it is the same, and twice if the work is low.
        assert!(world.headers_sent <= 4, "{} messages of headers", world.headers_sent);
    }
    // With too little work, repeated headers do not follow those before.
    let mut world = World::new(3000);
    let chain = mine(&world.network, &world.genesis(), 2000, 1);
    let low = world.connect(Habit::Headers(chain.clone()), &chain);
    assert!(world.talk());
    assert!(matches!(world.dropped[&low], PeerError::Headers(HeadersFault::LowWork(_))));
}

/// Announcements of unknown blocks are no answers, and do not restart the wait.
#[test]
fn announcements_do_not_put_off_the_end() {
    const PATIENCE: Duration = Duration::from_secs(120);
    let (network, genesis) = regtest();
    let chain = mine(&network, &genesis, 20, 1);
    let mut world = World::new(0);
    world.connect(Habit::Honest, &chain);
    assert!(world.talk());
    let evasive = world.connect(Habit::NoHeaders, &chain);
    let unknown = InventoryItem { kind: InventoryKind::BLOCK, hash: Hash([1; 32]) };
    let announcement = Outgoing::new(&Inventory(Command::INV, &[unknown]));
    for second in 0..=130 {
        world.wait(1);
        world.receive(evasive, &announcement);
        let is_over = world.manager.has_all_headers(world.now, PATIENCE);
        assert!(second > 110 || !is_over, "it waited for only {second} s");
    }
    assert!(world.manager.has_all_headers(world.now, PATIENCE));
    assert!(world.dropped.is_empty(), "{:?}", world.dropped);
}

fn all_blocks(world: &mut World) -> Arc<[BlockId]> {
    let best = world.tree.best_header();
    let mut plan: Vec<BlockId> = world.tree.ancestors(best).collect();
    plan.reverse();
    plan.remove(0);
    let plan: Arc<[BlockId]> = plan.into();
    world.manager.schedule().want(Arc::clone(&plan), once(0..plan.len()));
    plan
}

fn take_all(world: &mut World) {
    world.manager.schedule().read(0);
    while let Some(block) = world.blocks.pop() {
        world.manager.schedule().taken(0, block);
    }
}

#[test]
fn blocks_come_from_any_peer_that_has_them() {
    let mut world = World::new(0);
    let chain = mine(&world.network, &world.genesis(), 600, 1);
    world.connect(Habit::Honest, &chain);
    let nothing = world.connect(Habit::NotFound, &chain);
    let other = world.connect(Habit::OtherBlocks, &chain);
    assert!(world.talk());
    let plan = all_blocks(&mut world);
    while !world.manager.schedule().is_done() {
        assert!(world.talk());
        take_all(&mut world);
    }
    assert_eq!(plan.len(), 600);
    assert_eq!(world.dropped.get(&other), Some(&PeerError::UnaskedBlock));
    assert_eq!(world.dropped.get(&nothing), Some(&PeerError::Download(Fault::Refuses)));
}

/// Headers that no honest peer sends, with words of the reason for which it is dropped.
fn wrong_headers(network: &Network, chain: &[Header]) -> Vec<(&'static str, Habit)> {
    let mined = |mut header: Header, has_work: bool| {
        while proof_of_work(&header.hash(), header.bits, network) != has_work {
            header.nonce += 1;
        }
        header
    };
    let mut no_work = chain.to_vec();
    let mut not_continuous = chain.to_vec();
    no_work.truncate(11);
    no_work[10] = mined(no_work[10], false);
    not_continuous.remove(10);
    let invalid = |header: Header| ("invalid header", Habit::Headers(vec![mined(header, true)]));
    vec![
        ("without proof of work", Habit::Headers(no_work)),
        ("do not build on each other", Habit::Headers(not_continuous)),
        invalid(Header { bits: 0x207f_fffe, ..chain[0] }),
        invalid(Header { time: 0, ..chain[0] }),
        invalid(Header { version: 1, ..chain[0] }),
    ]
}

#[test]
fn each_fault_costs_the_connection() {
    let (network, genesis) = regtest();
    let chain = mine(&network, &genesis, 20, 1);
    let raw = |command: Command, payload: &[u8]| Outgoing::new(&Raw(command, payload));
    let item = |kind: InventoryKind| InventoryItem { kind, hash: Hash([1; 32]) };
    let inv = |kind| Outgoing::new(&Inventory(Command::INV, &[item(kind)]));
    let block = [&chain[3].to_bytes()[..], &[0]].concat();
    // What the peer does, and words of the reason for which it is dropped.
    let cases: Vec<(&str, Habit)> = vec![
        (
            "`headers` message with 2001 items",
            Habit::Sends(raw(Command::HEADERS, &[0xfd, 0xd1, 0x07])),
        ),
        ("`inv` message with 50001 items", Habit::Sends(raw(Command::INV, &too_many(50_001, 36)))),
        (
            "`getdata` message with 50001 items",
            Habit::Sends(raw(Command::GETDATA, &too_many(50_001, 36))),
        ),
        ("`addr` message with 1001 items", Habit::Sends(raw(Command::ADDR, &too_many(1_001, 30)))),
        ("a transaction", Habit::Sends(raw(Command::TX, &[1, 2, 3]))),
        ("a transaction", Habit::Sends(inv(InventoryKind::TX))),
        ("a transaction", Habit::Sends(inv(InventoryKind::WTX))),
        ("not asked for", Habit::Sends(raw(Command::BLOCK, &block))),
        ("`wtxidrelay` after the handshake", Habit::Sends(Outgoing::empty(Command::WTXIDRELAY))),
        ("`sendaddrv2` after the handshake", Habit::Sends(Outgoing::empty(Command::SENDADDRV2))),
        ("neither yes nor no", Habit::Sends(raw(Command::SENDCMPCT, &[2, 2, 0, 0, 0, 0, 0, 0, 0]))),
        ("`getheaders` message with 102 items", {
            let locator = [&[0, 0, 0, 0, 102][..], &vec![0; 103 * 32]].concat();
            Habit::Sends(raw(Command::GETHEADERS, &locator))
        }),
        ("version 31799 of the protocol, which is too old", Habit::Version(31_799, SERVICES)),
        ("does not serve the blocks we need", Habit::Version(70_016, Services::WITNESS)),
        ("does not serve the blocks we need", Habit::Version(70_016, Services::NETWORK)),
        (
            "does not serve the blocks we need",
            Habit::Version(70_016, Services::NETWORK_LIMITED.with(Services::WITNESS)),
        ),
        ("`feature` after the handshake", Habit::Sends(raw(Command::FEATURE, b"\x04name\0"))),
        ("`getbspent`, though we do not offer", Habit::Sends(raw(Command::GETBSPENT, &[0; 36]))),
        ("coins that were not asked for", Habit::Sends(raw(Command::BSPENT, &[0; 33]))),
        ("`bspent`", Habit::Sends(raw(Command::BSPENT, &[0; 31]))),
        ("it is ourselves", Habit::SendsFirst(version(70_016, SERVICES, OUR_NONCE))),
    ];
    for (reason, habit) in cases.into_iter().chain(wrong_headers(&network, &chain)) {
        let mut world = World::new(0);
        let bad = world.connect(habit, &chain);
        world.connect(Habit::Honest, &chain);
        assert!(world.talk(), "{reason}");
        world.wait(1);
        assert_eq!(world.dropped.len(), 1, "{reason}");
        let dropped = world.dropped[&bad].to_string();
        assert!(dropped.contains(reason), "{reason}: {dropped}");
        assert_eq!(world.best_height(), 20, "{reason}: the other peer serves");
    }
}

/// Returns a payload of this many items, each of this many bytes.
fn too_many(items: u16, bytes: usize) -> Vec<u8> {
    [&[0xfd][..], &items.to_le_bytes(), &vec![0; usize::from(items) * bytes]].concat()
}

#[test]
fn what_core_ignores_is_ignored() {
    let raw = |command: Command, payload: &[u8]| Outgoing::new(&Raw(command, payload));
    let other = Command::new("whatever");
    let mut long_user_agent = version(70_016, SERVICES, 1);
    long_user_agent.payload[80..83].copy_from_slice(&[0xfd, 0x01, 0x01]);
    let (network, genesis) = regtest();
    let chain = mine(&network, &genesis, 20, 1);
    for habit in [
        Habit::SendsFirst(raw(Command::TX, &[])),
        Habit::SendsFirst(raw(other, &[1; 5])),
        Habit::SendsFirst(Outgoing::empty(Command::VERACK)),
        Habit::Sends(raw(other, &[1; 100])),
        Habit::Sends(version(70_016, SERVICES, 1)),
        Habit::Sends(Outgoing::empty(Command::VERACK)),
        Habit::Sends(Outgoing::new(&Nonce(5).pong())),
        Habit::Sends(raw(Command::PING, &[])),
        Habit::Sends(raw(Command::PONG, &[1])),
        Habit::Sends(raw(Command::FEEFILTER, &[0; 8])),
        Habit::Sends(Outgoing::empty(Command::SENDHEADERS)),
        Habit::Sends(Outgoing::empty(Command::GETADDR)),
        Habit::Sends(raw(Command::SENDCMPCT, &[1, 2, 0, 0, 0, 0, 0, 0, 0])),
        Habit::Sends(raw(Command::NOTFOUND, &[0])),
        Habit::Sends(raw(Command::ADDR, &[0])),
        // Messages that cannot be decoded.
        Habit::SendsFirst(raw(Command::VERSION, &[0; 20])),
        Habit::SendsFirst(long_user_agent),
        Habit::Sends(raw(Command::HEADERS, &[1, 2, 3])),
        Habit::Sends(raw(Command::INV, &[2, 1, 0, 0, 0])),
        Habit::Sends(raw(Command::INV, &[0xfd, 0x51, 0xc3])),
        Habit::Sends(raw(Command::GETDATA, &[1])),
        Habit::Sends(raw(Command::GETHEADERS, &[0, 0, 0, 0, 102])),
        Habit::Sends(raw(Command::ADDR, &[0xfd, 0xe9, 0x03])),
        Habit::Sends(raw(Command::ADDRV2, &[1, 0, 0, 0, 0])),
        Habit::Sends(raw(Command::SENDCMPCT, &[1])),
        Habit::Sends(raw(Command::BLOCK, &[0; 79])),
        Habit::Sends(raw(Command::BLOCK, &[0; 80])),
        // Messages that Core ignores before the handshake, or has no limit for.
        Habit::SendsFirst(raw(Command::INV, &too_many(50_001, 36))),
        Habit::Sends(raw(Command::NOTFOUND, &too_many(50_001, 36))),
    ] {
        let mut world = World::new(0);
        world.connect(habit.clone(), &chain);
        assert!(world.talk());
        assert!(world.dropped.is_empty(), "{habit:?}: {:?}", world.dropped);
        assert_eq!(world.best_height(), 20, "{habit:?}");
    }
}

#[test]
fn those_who_say_nothing_are_dropped_when_core_would() {
    let (network, genesis) = regtest();
    let chain = mine(&network, &genesis, 20, 1);
    let session = |fault| PeerError::Session(fault);
    for (habit, seconds, error) in [
        (Habit::Silent, 60, session(SessionFault::HandshakeTimeout)),
        (Habit::Mute, 20 * 60, session(SessionFault::Idle)),
        // 15 minutes, and a millisecond for each header that seems to be missing.
        (Habit::NoHeaders, 15 * 60, PeerError::Headers(HeadersFault::Timeout)),
    ] {
        let mut world = World::new(0);
        let id = world.connect(habit.clone(), &chain);
        world.wait(seconds - 1);
        assert!(world.dropped.is_empty(), "{habit:?}: {:?}", world.dropped);
        world.wait(30 * 60);
        assert_eq!(world.dropped.get(&id), Some(&error), "{habit:?}");
    }
}

/// Another peer is asked for headers when the first one does not answer.
#[test]
fn a_peer_without_headers_holds_up_nobody_for_long() {
    let (network, genesis) = regtest();
    let chain = mine(&network, &genesis, 20, 1);
    let mut world = World::new(0);
    world.connect(Habit::NoHeaders, &chain);
    assert!(world.talk());
    world.connect(Habit::Honest, &chain);
    assert_eq!(world.best_height(), 0);
    world.wait(2);
    assert_eq!(world.best_height(), 20);
}

#[test]
fn a_changed_block_costs_the_peer_and_comes_from_another() {
    let (network, genesis) = regtest();
    let chain = mine(&network, &genesis, 5, 1);
    let mut world = World::new(0);
    world.connect(Habit::Honest, &chain);
    world.connect(Habit::Honest, &chain);
    assert!(world.talk());
    let plan = all_blocks(&mut world);
    assert!(world.talk());
    world.manager.schedule().read(0);
    let block = plan[2];
    let mut actions = Vec::new();
    let by = *world.peers.keys().next().unwrap();
    world.blocks.clear();
    world.manager.changed_block(by, block, "bad-txnmrklroot".to_string(), &mut actions);
    world.carry_out(actions);
    assert!(matches!(world.dropped[&by], PeerError::ChangedBlock(_)));
    assert!(world.talk());
    assert!(world.blocks.contains(&block), "it came again");
}
