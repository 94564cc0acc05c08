//! Tests in virtual time which peers are dropped at the tip.

use std::time::Duration;

use apus_chain::{BlockId, Tree};

use super::{headers_on, regtest, tree_of};
use crate::{Chosen, NetKind, PeerId, TipWatch, Verdict};

const MINUTE: Duration = Duration::from_secs(60);
const SLOTS: usize = 10;

/// A node at the tip of a chain of 20 blocks.
struct Node {
    tree: Tree,
    watch: TipWatch,
    peers: Vec<Chosen>,
    height: u32,
    now: Duration,
    verdicts: Vec<(u64, Verdict)>,
}

impl Node {
    /// Creates a node with this many peers that have its tip, at height 10.
    fn new(peers: u64) -> Self {
        let (_, genesis) = regtest();
        let tree = tree_of(&[headers_on(&genesis, 10, 0)]);
        let mut node = Self {
            tree,
            watch: TipWatch::default(),
            peers: Vec::new(),
            height: 10,
            now: Duration::ZERO,
            verdicts: Vec::new(),
        };
        (0..peers).for_each(|id| node.connect(id, 10));
        node
    }

    fn at(&self, height: u32) -> BlockId {
        self.tree.ancestor(self.tree.best_header(), height).unwrap()
    }

    fn connect(&mut self, id: u64, height: u32) {
        let best = Some(self.at(height));
        let id = PeerId(id);
        let kind = NetKind::Ipv4;
        let since = self.now;
        self.peers.push(Chosen { id, kind, since, best });
    }

    /// A new block, which these peers announce.
    fn block(&mut self, from: &[u64]) {
        let tip = self.tree.header(self.tree.best_header());
        let header = headers_on(&tip, 1, 0)[0];
        self.tree.restore(header.hash(), &header, false).unwrap();
        self.height += 1;
        self.announce(from);
    }

    fn announce(&mut self, from: &[u64]) {
        let best = Some(self.tree.best_header());
        let peers = self.peers.iter_mut().filter(|peer| from.contains(&peer.id.0));
        peers.for_each(|peer| peer.best = best);
    }

    /// Lets time pass. Peers that are dropped are gone.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_secs(1);
            let tip = self.at(self.height);
            let others = [];
            let verdicts =
                self.watch.check(&self.tree, tip, (&self.peers, &others, SLOTS), self.now);
            for verdict in verdicts {
                if let Verdict::Lags(id) | Verdict::TooMany(id) = verdict {
                    self.peers.retain(|peer| peer.id != id);
                }
                self.verdicts.push((self.now.as_secs(), verdict));
            }
        }
    }
}

#[test]
fn a_peer_that_lags_is_asked_and_then_dropped() {
    let mut node = Node::new(6);
    node.connect(7, 9);
    let before = node.at(9);
    node.run(20 * MINUTE);
    assert_eq!(node.verdicts, []);
    node.run(30 * MINUTE);
    let asked = 1202;
    let dropped = 1202 + 121;
    let id = PeerId(7);
    assert_eq!(node.verdicts, [(asked, Verdict::Ask(id, before)), (dropped, Verdict::Lags(id))]);
}

#[test]
fn a_peer_that_answers_stays() {
    let mut node = Node::new(6);
    node.connect(7, 9);
    node.run(21 * MINUTE);
    assert_eq!(node.verdicts.len(), 1, "it was asked");
    node.announce(&[7]);
    node.run(60 * MINUTE);
    assert_eq!(node.verdicts.len(), 1);
}

/// A peer that is always one block late keeps up; its time begins again with each block.
#[test]
fn a_peer_that_follows_behind_stays() {
    let mut node = Node::new(6);
    node.connect(7, 10);
    for _ in 0..20 {
        node.announce(&[7]);
        node.block(&[0, 1, 2, 3, 4, 5]);
        node.run(15 * MINUTE);
    }
    assert_eq!(node.verdicts, []);
}

#[test]
fn four_peers_are_protected() {
    let mut node = Node::new(6);
    node.run(MINUTE);
    // No other peer has the new block, such as one that is not valid for them.
    node.block(&[]);
    node.run(30 * MINUTE);
    let lag = |verdict: &(u64, Verdict)| matches!(verdict.1, Verdict::Lags(_));
    assert_eq!(node.verdicts.iter().filter(|verdict| lag(verdict)).count(), 2);
    let left: Vec<u64> = node.peers.iter().map(|peer| peer.id.0).collect();
    assert_eq!(left, [0, 1, 2, 3], "the first that had the tip");
}

#[test]
fn a_stale_tip_brings_another_peer() {
    let mut node = Node::new(SLOTS as u64);
    node.run(30 * MINUTE);
    assert!(!node.watch.wants_extra());
    node.run(10 * MINUTE);
    assert!(node.watch.wants_extra(), "the tip is older than three block intervals");
    // A new block ends that.
    let all: Vec<u64> = (0..SLOTS as u64).collect();
    node.block(&all);
    node.run(10 * MINUTE);
    assert!(!node.watch.wants_extra());
    assert_eq!(node.verdicts, []);
}

#[test]
fn of_one_peer_too_many_the_stalest_leaves() {
    let mut node = Node::new(SLOTS as u64);
    node.run(41 * MINUTE);
    node.connect(20, 10);
    node.run(Duration::from_secs(5));
    // It brings a block that the others lack.
    node.block(&[20]);
    node.run(2 * MINUTE);
    // None of the others has announced a block; those before 4 are protected.
    let dropped: Vec<Verdict> = node.verdicts.iter().map(|(_, verdict)| *verdict).collect();
    assert_eq!(dropped, [Verdict::TooMany(PeerId(9))]);
    assert!(!node.watch.wants_extra());
    node.announce(&[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    node.run(41 * MINUTE);
    // The next one brings nothing, and leaves itself.
    node.connect(21, 11);
    node.verdicts.clear();
    node.run(2 * MINUTE);
    let dropped: Vec<Verdict> = node.verdicts.iter().map(|(_, verdict)| *verdict).collect();
    assert_eq!(dropped, [Verdict::TooMany(PeerId(21))]);
}

#[test]
fn the_only_peer_of_a_kind_of_network_stays() {
    let mut node = Node::new(SLOTS as u64);
    node.run(MINUTE);
    node.connect(20, 10);
    node.peers.last_mut().unwrap().kind = NetKind::Onion;
    node.run(2 * MINUTE);
    assert_eq!(node.verdicts.last().map(|it| it.1), Some(Verdict::TooMany(PeerId(9))));
}
