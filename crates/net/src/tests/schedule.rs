//! Random swarms of peers, some of which go silent, die, crawl, lie or lack blocks: whatever they
//! do, every block arrives, memory stays within its bound, and no good peer is dropped.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_testchain::Rng;

use super::{has, headers_on, regtest, scheduled, tree_of};
use crate::{Arrival, Fault, Has, Limits, PeerId, Schedule};

const STEP: Duration = Duration::from_millis(20);
const BYTES_MAX: u64 = 20_000_000;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Nature {
    Good,
    /// A hundredth as fast as the others.
    Slow,
    /// Sends nothing more after this many blocks.
    Stalls(u32),
    /// Disconnects after this many blocks.
    Dies(u32),
    /// Sends other bytes than those asked for.
    Corrupt,
    /// Says that it does not have what it is asked for.
    Lacks,
    /// Is on another branch.
    Fork,
    /// Has the last blocks only.
    Limited,
}

struct Peer {
    nature: Nature,
    speed: u64,
    asked: Vec<BlockId>,
    /// Bytes sent of the first block asked for.
    sent: u64,
    /// Bytes sent of all blocks.
    all_sent: u64,
    blocks: u32,
}

struct Swarm {
    rng: Rng,
    tree: Tree,
    plan: Arc<[BlockId]>,
    sizes: HashMap<BlockId, u64>,
    schedule: Schedule,
    peers: BTreeMap<PeerId, Peer>,
    now: Duration,
    next_peer: u64,
    here: HashSet<BlockId>,
    dropped: Vec<(Nature, Fault)>,
    most_waiting: u64,
}

fn lanes(rng: &mut Rng, blocks: usize) -> Vec<Range<usize>> {
    let count = [1, 1, 2, 5][rng.below(4) as usize];
    let mut ends: Vec<usize> = (0..count - 1).map(|_| rng.below(blocks as u64) as usize).collect();
    ends.extend([0, blocks]);
    ends.sort_unstable();
    ends.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

impl Swarm {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 1);
        let (_, genesis) = regtest();
        let count = rng.between(20, 400) as u32;
        let main = headers_on(&genesis, count, 1);
        let fork_at = rng.below(u64::from(count)) as usize;
        let fork = match fork_at {
            0 => headers_on(&genesis, 5, 2),
            at => headers_on(&main[at - 1], 5, 2),
        };
        let tree = tree_of(&[main.clone(), fork]);
        let plan: Arc<[BlockId]> =
            main.iter().map(|header| tree.find(&header.hash()).unwrap()).collect();
        let typical = [300, 50_000, 1_500_000][rng.below(3) as usize];
        let sizes = plan.iter().map(|id| (*id, rng.between(typical / 2, typical * 2))).collect();
        let limits = Limits { bytes_max: BYTES_MAX, block_interval: Duration::from_secs(600) };
        let mut schedule = Schedule::new(limits);
        schedule.want(Arc::clone(&plan), lanes(&mut rng, plan.len()));
        Self {
            rng,
            tree,
            plan,
            sizes,
            schedule,
            peers: BTreeMap::new(),
            now: Duration::ZERO,
            next_peer: 0,
            here: HashSet::new(),
            dropped: Vec::new(),
            most_waiting: 0,
        }
    }

    fn connect(&mut self, nature: Nature) {
        let id = PeerId(self.next_peer);
        self.next_peer += 1;
        let usual = self.rng.between(2_000_000, 8_000_000);
        let speed = if nature == Nature::Slow { usual / 100 } else { usual };
        let best = match nature {
            Nature::Fork => self.tree.ids().last().unwrap(),
            _ => self.plan[self.plan.len() - 1],
        };
        self.schedule
            .set_peer(id, Has { best, is_limited: nature == Nature::Limited, is_inbound: false });
        let peer = Peer { nature, speed, asked: Vec::new(), sent: 0, all_sent: 0, blocks: 0 };
        self.peers.insert(id, peer);
    }

    fn disconnect(&mut self, id: PeerId) {
        self.schedule.remove_peer(id);
        self.peers.remove(&id);
    }

    /// Simulates a step of time.
    fn step(&mut self, lanes: &[Range<usize>], taken: &mut [usize]) {
        self.now += STEP;
        for (id, blocks) in self.schedule.requests(&self.tree, self.now) {
            self.peers.get_mut(&id).unwrap().asked.extend(blocks);
        }
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            self.send(id);
        }
        self.most_waiting = self.most_waiting.max(self.schedule.waiting_bytes());
        for (id, fault) in self.schedule.tick(self.now) {
            self.dropped.push((self.peers[&id].nature, fault));
            self.disconnect(id);
            // There are always others to connect to.
            self.connect(Nature::Good);
        }
        for (number, lane) in lanes.iter().enumerate() {
            self.schedule.read(number);
            // Up to three blocks of each lane in a step.
            for _ in 0..self.rng.below(4) {
                let Some(block) = self.plan[lane.clone()].get(taken[number]).copied() else {
                    break;
                };
                if !self.here.contains(&block) {
                    break;
                }
                self.schedule.taken(number, block);
                taken[number] += 1;
            }
        }
    }

    /// Lets a peer send for a step.
    fn send(&mut self, id: PeerId) {
        let peer = self.peers.get_mut(&id).unwrap();
        let bytes = peer.speed * STEP.as_millis() as u64 / 1000;
        peer.sent += bytes;
        let is_silent = matches!(peer.nature, Nature::Stalls(after) if peer.blocks >= after);
        if !peer.asked.is_empty() && !is_silent {
            peer.all_sent += bytes;
            self.schedule.heard(id, peer.all_sent, self.now);
        }
        loop {
            let Some(peer) = self.peers.get_mut(&id) else { return };
            let Some(block) = peer.asked.first().copied() else {
                peer.sent = 0;
                return;
            };
            let size = self.sizes[&block];
            match peer.nature {
                Nature::Stalls(after) if peer.blocks >= after => return,
                Nature::Dies(after) if peer.blocks >= after => return self.disconnect(id),
                _ if peer.sent < size => return,
                _ => {}
            }
            peer.sent -= size;
            peer.blocks += 1;
            peer.asked.remove(0);
            match peer.nature {
                Nature::Lacks => self.schedule.refused(id, block),
                Nature::Corrupt => {
                    let arrival = self.schedule.arrived(id, block, size, self.now);
                    if arrival == Arrival::Wanted {
                        self.schedule.refused(id, block);
                    }
                    self.disconnect(id);
                }
                _ => {
                    let arrival = self.schedule.arrived(id, block, size, self.now);
                    // The first answer counts.
                    let is_new = self.here.insert(block);
                    assert_eq!(arrival == Arrival::Wanted, is_new, "{arrival:?}");
                }
            }
        }
    }
}

fn nature(rng: &mut Rng) -> Nature {
    let after = rng.below(30) as u32;
    let all = [
        Nature::Good,
        Nature::Good,
        Nature::Slow,
        Nature::Stalls(after),
        Nature::Dies(after),
        Nature::Corrupt,
        Nature::Lacks,
        Nature::Fork,
        Nature::Limited,
    ];
    all[rng.below(all.len() as u64) as usize]
}

fn run(seed: u64) -> Swarm {
    let mut rng = Rng::new(seed, 2);
    let mut swarm = Swarm::new(seed);
    let lanes = lanes(&mut Rng::new(seed, 3), swarm.plan.len());
    swarm.schedule.want(Arc::clone(&swarm.plan), lanes.clone());
    for _ in 0..rng.between(0, 6) {
        let nature = nature(&mut rng);
        swarm.connect(nature);
    }
    swarm.connect(Nature::Good);
    let mut taken = vec![0; lanes.len()];
    while !swarm.schedule.is_done() {
        swarm.step(&lanes, &mut taken);
        let state = format!("{seed}: {taken:?} of {lanes:?}, dropped {:?}", swarm.dropped);
        assert!(swarm.now < Duration::from_secs(4 * 3600), "{state}");
    }
    swarm
}

#[test]
fn a_thousand_swarms_deliver_every_block() {
    let mut dropped: HashMap<String, u32> = HashMap::new();
    for seed in 0..1000 {
        let swarm = run(seed);
        assert_eq!(swarm.here.len(), swarm.plan.len());
        // Blocks in flight were counted at the average size, not at their own.
        assert!(swarm.most_waiting <= 2 * BYTES_MAX, "{seed}: {}", swarm.most_waiting);
        for (nature, fault) in &swarm.dropped {
            let is_right = match nature {
                Nature::Good | Nature::Fork | Nature::Limited => false,
                Nature::Slow => *fault == Fault::BlockTimeout,
                Nature::Stalls(_) => matches!(fault, Fault::Silent(_) | Fault::BlockTimeout),
                Nature::Lacks => *fault == Fault::Refuses,
                Nature::Dies(_) | Nature::Corrupt => false,
            };
            assert!(is_right, "{seed}: {nature:?} was dropped for {fault:?}");
            *dropped.entry(format!("{fault:?}").split(' ').next().unwrap().into()).or_default() +=
                1;
        }
    }
    // Each kind of fault occurred.
    assert!(dropped.len() >= 2, "{dropped:?}");
}

/// A single peer is never dropped for stalling: there is no other to ask.
#[test]
fn a_lone_peer_may_take_its_time() {
    let (tree, plan, mut schedule) = scheduled(10, 1000);
    schedule.want(Arc::clone(&plan), once(0..10));
    let peer = PeerId(1);
    schedule.set_peer(peer, has(&plan));
    schedule.read(0);
    // Memory is too small even for one block: the first is requested all the same.
    assert_eq!(schedule.requests(&tree, Duration::ZERO), [(peer, vec![plan[0]])]);
    assert!(schedule.tick(Duration::from_secs(599)).is_empty());
    assert_eq!(schedule.tick(Duration::from_secs(601)), [(peer, Fault::BlockTimeout)]);
}

#[test]
fn a_block_that_was_not_asked_for_is_noticed() {
    let (tree, plan, mut schedule) = scheduled(10, 1 << 30);
    schedule.want(Arc::clone(&plan), once(0..5));
    let first = PeerId(1);
    let second = PeerId(2);
    schedule.set_peer(first, has(&plan));
    assert_eq!(schedule.requests(&tree, Duration::ZERO).len(), 1);
    let now = Duration::from_secs(1);
    assert_eq!(schedule.arrived(first, plan[7], 100, now), Arrival::NotAsked);
    assert_eq!(schedule.arrived(second, plan[0], 100, now), Arrival::NotAsked);
    assert_eq!(schedule.arrived(first, plan[0], 100, now), Arrival::Wanted);
    assert_eq!(schedule.arrived(first, plan[0], 100, now), Arrival::NotAsked);
    // Blocks in flight are no fault when other blocks are wanted.
    let asked = schedule.requests(&tree, now);
    assert!(asked[0].0 == first && asked[0].1.contains(&plan[1]), "{asked:?}");
    let in_flight = plan[1];
    schedule.want(plan, []);
    assert_eq!(schedule.arrived(first, in_flight, 100, now), Arrival::Late);
}

fn one_block(peers: u64) -> (Tree, BlockId, Schedule) {
    let (tree, plan, mut schedule) = scheduled(1, 1 << 30);
    schedule.want(Arc::clone(&plan), once(0..1));
    (1..=peers).for_each(|id| schedule.set_peer(PeerId(id), has(&plan)));
    schedule.read(0);
    (tree, plan[0], schedule)
}

/// A peer whose block is late is not dropped while it sends: another one is asked, and the first
/// answer counts.
#[test]
fn another_peer_is_asked_for_a_late_block() {
    let (tree, block, mut schedule) = one_block(3);
    let asked = schedule.requests(&tree, Duration::ZERO);
    let [(first, _)] = asked[..] else { panic!("{asked:?}") };
    let mut others = Vec::new();
    for second in 1..=60 {
        let now = Duration::from_secs(second);
        schedule.heard(first, second * 20_000, now);
        let asked = schedule.requests(&tree, now);
        others.extend(asked.into_iter().map(|(peer, blocks)| (peer, blocks, second)));
        assert_eq!(schedule.tick(now).iter().find(|(peer, _)| *peer == first), None);
    }
    let [(second, blocks, at), ..] = &others[..] else { panic!("nobody else is asked") };
    assert!(*second != first && blocks == &[block] && *at <= 10, "{others:?}");
    let now = Duration::from_secs(61);
    assert_eq!(schedule.arrived(*second, block, 2_000_000, now), Arrival::Wanted);
    assert_eq!(schedule.arrived(first, block, 2_000_000, now), Arrival::Late);
    schedule.taken(0, block);
    assert!(schedule.is_done());
}

#[test]
fn a_peer_that_sends_nothing_is_dropped_if_others_send() {
    let (tree, _, mut schedule) = one_block(2);
    let asked = schedule.requests(&tree, Duration::ZERO);
    let [(silent, _)] = asked[..] else { panic!("{asked:?}") };
    let asked = schedule.requests(&tree, Duration::from_secs(10));
    let [(other, _)] = asked[..] else { panic!("{asked:?}") };
    for second in 10..=20 {
        let now = Duration::from_secs(second);
        schedule.heard(other, second * 1000, now);
        assert_eq!(schedule.tick(now), []);
    }
    let since = Duration::from_secs(21);
    let now = Duration::from_secs(21);
    schedule.heard(other, 21_000, now);
    assert_eq!(schedule.tick(now), [(silent, Fault::Silent(since))]);
}

/// A block that was not requested does not end a peer's silence, and shows no speed.
#[test]
fn useless_bytes_are_no_progress() {
    let (tree, _, mut schedule) = one_block(2);
    let asked = schedule.requests(&tree, Duration::ZERO);
    let [(useless, _)] = asked[..] else { panic!("{asked:?}") };
    let mut other = None;
    for second in 0..=21 {
        // Both have a round trip of no time.
        let now = Duration::from_secs(second);
        schedule.heard(useless, (second + 1) * 50_000, now);
        schedule.useless(useless, 50_000);
        let asked = schedule.requests(&tree, now);
        other = other.or(asked.first().map(|(id, _)| *id));
        if let Some(other) = other {
            schedule.heard(other, second * 1000, now);
        }
        let faults = schedule.tick(now);
        assert_eq!(faults.iter().any(|(id, _)| *id == useless), second > 20, "{faults:?}");
    }
    assert!(other.is_some_and(|other| other != useless), "it is late");
}

#[test]
fn a_peer_that_alone_owes_a_block_is_dropped_if_there_are_others() {
    let (tree, block, mut schedule) = one_block(2);
    let asked = schedule.requests(&tree, Duration::ZERO);
    let [(silent, _)] = asked[..] else { panic!("{asked:?}") };
    let others = (0..2).map(PeerId).filter(|id| *id != silent);
    others.for_each(|other| schedule.refused(other, block));
    assert!(schedule.tick(Duration::from_secs(20)).is_empty());
    let faults = schedule.tick(Duration::from_secs(21));
    assert!(matches!(faults[..], [(id, Fault::Silent(_))] if id == silent), "{faults:?}");
}

#[test]
fn a_lone_peer_that_never_sends_a_block_is_dropped_in_the_end() {
    let (tree, block, mut schedule) = one_block(1);
    assert_eq!(schedule.requests(&tree, Duration::ZERO).len(), 1);
    // The block is wanted again: it is expected from no peer, and may still come.
    schedule.want(Arc::new([block]), once(0..1));
    assert!(schedule.tick(Duration::from_secs(600)).is_empty());
    let faults = schedule.tick(Duration::from_secs(601));
    assert!(matches!(faults[..], [(_, Fault::BlockTimeout)]), "{faults:?}");
}

#[test]
fn inbound_peers_are_asked_for_what_no_other_has() {
    let (tree, block, mut schedule) = one_block(1);
    let inbound = PeerId(9);
    let has = Has { best: block, is_limited: false, is_inbound: true };
    schedule.set_peer(inbound, has);
    let outbound = schedule.requests(&tree, Duration::ZERO);
    assert_eq!(outbound, [(PeerId(1), vec![block])]);
    schedule.remove_peer(PeerId(1));
    assert_eq!(schedule.requests(&tree, Duration::ZERO), [(inbound, vec![block])]);
}

/// The first blocks are assumed to be large. Three that are not show it.
#[test]
fn small_blocks_are_soon_known_to_be_small() {
    let (tree, plan, mut schedule) = scheduled(100, 1 << 30);
    schedule.want(Arc::clone(&plan), once(0..100));
    let peer = PeerId(1);
    schedule.set_peer(peer, has(&plan));
    let mut in_flight = Vec::new();
    for expected in [1, 2, 3, 4] {
        let asked = schedule.requests(&tree, Duration::ZERO);
        in_flight.extend(asked.into_iter().flat_map(|(_, blocks)| blocks));
        assert_eq!(in_flight.len(), expected);
        let block = in_flight.remove(0);
        assert_eq!(schedule.arrived(peer, block, 100_000, Duration::ZERO), Arrival::Wanted);
    }
}

/// A peer is asked for a number of bytes at first, and never for more than a quarter of what may
/// wait.
#[test]
fn a_new_peer_is_asked_for_little() {
    let (tree, plan, mut schedule) = scheduled(300, 40_000_000);
    schedule.want(Arc::clone(&plan), once(0..300));
    let peer = PeerId(1);
    schedule.set_peer(peer, has(&plan));
    let mut in_flight: Vec<BlockId> = Vec::new();
    let mut bytes = 0;
    for step in 0u64..250 {
        let now = Duration::from_millis(step);
        in_flight.extend(schedule.requests(&tree, now).into_iter().flat_map(|(_, blocks)| blocks));
        let most = if step == 0 { 1 } else { 10 };
        assert!(in_flight.len() <= most, "{} blocks at step {step}", in_flight.len());
        // A block of 1 MB in each millisecond.
        bytes += 1_000_000;
        schedule.heard(peer, bytes, now);
        let block = in_flight.remove(0);
        assert_eq!(schedule.arrived(peer, block, 1_000_000, now), Arrival::Wanted);
        schedule.read(0);
        schedule.taken(0, block);
    }
}
