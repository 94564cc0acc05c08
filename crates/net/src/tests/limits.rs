//! Inputs that a schedule tolerates: late reports, blocks that no peer has, and blocks that
//! are larger than expected.

use std::collections::HashSet;
use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};

use super::{has, headers_on, regtest, scheduled, tree_of};
use crate::{Arrival, GivesUp, Has, Missing, PeerId, Schedule, claim};

const PEER: PeerId = PeerId(1);
const OTHER: PeerId = PeerId(2);

/// Returns a schedule with room for `bytes_max` bytes and with [`PEER`], which has a chain of
/// `count` blocks.
fn schedule(count: u32, bytes_max: u64) -> (Schedule, Tree, Arc<[BlockId]>) {
    let (tree, plan, mut schedule) = scheduled(count, bytes_max);
    schedule.set_peer(PEER, has(&plan));
    // Blocks are small, so that many of them are requested at a time.
    for _ in 0..200 {
        schedule.want(Arc::clone(&plan), once(0..1));
        assert_eq!(requests(&mut schedule, &tree), [(PEER, vec![plan[0]])]);
        assert_eq!(schedule.arrived(PEER, plan[0], 100, Duration::ZERO), Arrival::Wanted);
    }
    (schedule, tree, plan)
}

/// Returns the blocks to request from each peer, in the order of the plan.
fn requests(schedule: &mut Schedule, tree: &Tree) -> Vec<(PeerId, Vec<BlockId>)> {
    schedule.requests(tree, Duration::ZERO)
}

#[test]
fn words_of_lanes_that_are_gone_do_no_harm() {
    let (mut schedule, tree, plan) = schedule(10, 1 << 30);
    schedule.want(Arc::clone(&plan), [0..5, 5..10]);
    schedule.read(1);
    assert_eq!(requests(&mut schedule, &tree).len(), 1);
    assert_eq!(schedule.arrived(PEER, plan[7], 100, Duration::ZERO), Arrival::Wanted);
    schedule.want(plan[..8].into(), once(0..8));
    assert_eq!(schedule.waiting_bytes(), 0);
    // These are about the second lane, which no longer exists, and about one that never did.
    schedule.read(1);
    schedule.taken(1, plan[7]);
    schedule.read(99);
    schedule.taken(99, plan[3]);
    assert!(!schedule.is_done());
    assert_eq!(requests(&mut schedule, &tree), [(PEER, plan[..8].to_vec())], "none is taken");
    for block in &plan[..8] {
        assert_eq!(schedule.arrived(PEER, *block, 100, Duration::ZERO), Arrival::Wanted);
        schedule.taken(0, *block);
    }
    assert!(schedule.is_done());
    assert_eq!(schedule.waiting_bytes(), 0);
    schedule.read(0);
    schedule.taken(0, plan[3]);
    assert!(schedule.is_done() && schedule.missing(&tree).is_none());
}

#[test]
fn a_block_that_nobody_has_is_asked_of_each_peer_once() {
    let (mut schedule, tree, plan) = schedule(5, 1 << 30);
    schedule.want(Arc::clone(&plan), once(0..5));
    schedule.read(0);
    assert_eq!(requests(&mut schedule, &tree), [(PEER, plan.to_vec())]);
    let lacking = plan[2];
    schedule.refused_by(PEER, lacking);
    for _ in 0..3 {
        assert_eq!(requests(&mut schedule, &tree), []);
        // The peer has said so, and is not asked again; refusals of blocks not asked for do not
        // count.
        schedule.refused_by(PEER, lacking);
        schedule.refused_by(OTHER, lacking);
    }
    assert_eq!(schedule.missing(&tree), None, "no reader waits for it yet");
    for block in [plan[0], plan[1]] {
        schedule.arrived(PEER, block, 100, Duration::ZERO);
        schedule.taken(0, block);
    }
    assert_eq!(schedule.missing(&tree), Some(lacking));
    schedule.set_peer(OTHER, has(&plan));
    assert_eq!(schedule.missing(&tree), None, "another may have it");
    assert_eq!(requests(&mut schedule, &tree), [(OTHER, vec![lacking])]);
    assert_eq!(schedule.missing(&tree), None, "it is on its way");
    schedule.refused_by(OTHER, lacking);
    assert_eq!(requests(&mut schedule, &tree), []);
    assert_eq!(schedule.missing(&tree), Some(lacking));
    // A peer that connects again is asked again.
    schedule.remove_peer(PEER);
    schedule.set_peer(PEER, has(&plan));
    let asked = requests(&mut schedule, &tree);
    assert_eq!(asked.iter().filter(|(_, blocks)| blocks.contains(&lacking)).count(), 1);
}

/// Blocks arrive in reverse order, and each has many times the expected size.
#[test]
fn what_has_no_room_is_thrown_away_and_asked_for_again() {
    const BYTES_MAX: u64 = 40_000_000;
    const SIZE: u64 = 30_000_000;
    let (mut schedule, tree, plan) = schedule(50, BYTES_MAX);
    schedule.want(Arc::clone(&plan), once(0..plan.len()));
    schedule.read(0);
    let mut here = HashSet::new();
    let mut thrown = 0;
    let mut next = 0;
    for second in 0..200 {
        let now = Duration::from_secs(second);
        let asked: Vec<BlockId> =
            schedule.requests(&tree, now).into_iter().flat_map(|(_, blocks)| blocks).collect();
        for block in asked.into_iter().rev() {
            match schedule.arrived(PEER, block, SIZE, now) {
                Arrival::Wanted => assert!(here.insert(block), "nothing is kept twice"),
                Arrival::Late => thrown += 1,
                Arrival::NotAsked => panic!("it was asked for"),
            }
            let waiting = schedule.waiting_bytes();
            assert!(waiting <= 2 * BYTES_MAX + SIZE, "{waiting} bytes wait");
        }
        while plan.get(next).is_some_and(|block| here.contains(block)) {
            schedule.taken(0, plan[next]);
            next += 1;
        }
    }
    assert!(schedule.is_done(), "{next} of {} blocks were taken", plan.len());
    assert!(thrown > 0, "there was room for all");
    assert_eq!(schedule.waiting_bytes(), 0);
}

/// Returns how many blocks a pipeline claims, and makes them missing again.
fn claimed(tree: &mut Tree, having: &[Has], is_first: bool) -> usize {
    let claimed = claim(tree, tree.genesis(), having, is_first);
    claimed.iter().for_each(|id| tree.mark_missing(*id));
    claimed.len()
}

/// Headers are cheap where the difficulty is low: a peer must have sent a block of them before a
/// pipeline waits for the others.
#[test]
fn headers_alone_begin_no_pipeline() {
    let (_, genesis) = regtest();
    let chain = headers_on(&genesis, 400, 1);
    let mut tree = tree_of(std::slice::from_ref(&chain));
    tree.mark_available(tree.genesis());
    let block = |tree: &Tree, height: u32| tree.ancestor(tree.best_header(), height).unwrap();
    let has = Has { best: tree.best_header(), is_limited: false, is_inbound: false };
    assert_eq!(claimed(&mut tree, &[has], false), 0);
    // A block further up does not show that those below exist.
    let second = block(&tree, 2);
    tree.mark_available(second);
    assert_eq!(claimed(&mut tree, &[has], false), 0);
    let first = block(&tree, 1);
    tree.mark_available(first);
    assert_eq!(claimed(&mut tree, &[has], false), 400 - 144 - 2);
    assert_eq!(claimed(&mut tree, &[Has { is_limited: true, ..has }], false), 0);
    let near = Has { best: block(&tree, 288), ..has };
    assert_eq!(claimed(&mut tree, &[near], false), 0, "there are few");
}

/// An inbound peer delays no outbound one, but serves where none does.
#[test]
fn chains_of_inbound_peers_are_claimed_last() {
    let (_, genesis) = regtest();
    let long = headers_on(&genesis, 400, 1);
    let short = headers_on(&genesis, 300, 2);
    let mut tree = tree_of(&[long.clone(), short.clone()]);
    tree.mark_available(tree.genesis());
    let id = |tree: &Tree, header: &apus_wire::Header| tree.find(&header.hash()).unwrap();
    let inbound = Has { best: id(&tree, &long[399]), is_limited: false, is_inbound: true };
    let outbound = Has { best: id(&tree, &short[299]), is_inbound: false, ..inbound };
    assert_eq!(claimed(&mut tree, &[inbound], true), 400);
    assert_eq!(claimed(&mut tree, &[inbound, outbound], true), 300);
    let pruned = Has { is_limited: true, ..outbound };
    assert_eq!(claimed(&mut tree, &[inbound, pruned], true), 400 + 286, "it lacks the next block");
    let behind = Has { best: tree.genesis(), ..outbound };
    assert_eq!(claimed(&mut tree, &[inbound, behind], true), 400);
}

/// Deep blocks are waited for, unless an outbound peer has a chain without them.
#[test]
fn a_disputed_block_is_given_up() {
    let seconds = Duration::from_secs;
    let (_, genesis) = regtest();
    let long = headers_on(&genesis, 400, 1);
    let short = headers_on(&genesis, 20, 2);
    let tree = tree_of(&[long.clone(), short.clone()]);
    let id = |header: &apus_wire::Header| tree.find(&header.hash()).unwrap();
    let plan: Arc<[BlockId]> = long.iter().map(id).collect();
    for gives_up in [GivesUp::Nothing, GivesUp::Disputed, GivesUp::Near] {
        let (mut schedule, _, _) = schedule(1, 1 << 30);
        schedule.set_peer(PEER, has(&plan));
        schedule.want(Arc::clone(&plan), once(0..400));
        schedule.read(0);
        let mut missing = Missing::new(seconds(30));
        missing.begin(gives_up);
        let mut gone = |schedule: &Schedule, now| missing.look(schedule, false, &tree, now).0;
        assert_eq!(gone(&schedule, seconds(0)), None);
        assert_eq!(gone(&schedule, seconds(3_600)), None, "all have it");
        let other = Has { best: id(&short[19]), is_limited: false, is_inbound: true };
        schedule.set_peer(OTHER, other);
        assert_eq!(gone(&schedule, seconds(3_601)), None, "an inbound peer disputes nothing");
        schedule.set_peer(OTHER, Has { is_inbound: false, ..other });
        assert_eq!(gone(&schedule, seconds(3_602)), None, "it has 10 s");
        let expected = Some(plan[0]).filter(|_| gives_up != GivesUp::Nothing);
        assert_eq!(gone(&schedule, seconds(3_613)), expected, "{gives_up:?}");
    }
}

/// A sample of sizes is no reason to wait for a block, but a slow line has time to send it.
#[test]
fn a_block_that_is_not_needed_is_awaited_longer_while_bytes_come() {
    for (bytes_come, last) in [(false, 10), (true, 20)] {
        let (mut schedule, tree, plan) = schedule(400, 1 << 30);
        schedule.want(Arc::clone(&plan), once(0..400));
        schedule.read(0);
        requests(&mut schedule, &tree);
        let mut missing = Missing::new(Duration::from_secs(30));
        missing.begin(GivesUp::Any);
        for at in 0..=last + 1 {
            let now = Duration::from_secs(at);
            if bytes_come {
                // Fewer have come before.
                schedule.heard(PEER, (1 << 20) + at, now);
            }
            let gone = missing.look(&schedule, false, &tree, now).0;
            assert_eq!(gone, Some(plan[0]).filter(|_| at > last), "{bytes_come}, {at} s");
        }
    }
}

/// Each pipeline would wait anew for the same block that no peer sends.
#[test]
fn a_block_that_was_given_up_is_not_awaited_by_the_next_pipeline() {
    let (mut schedule, tree, plan) = schedule(400, 1 << 30);
    schedule.want(Arc::clone(&plan), once(300..400));
    schedule.read(0);
    let mut missing = Missing::new(Duration::from_secs(30));
    missing.begin(GivesUp::Near);
    let gone = |missing: &mut Missing, at| {
        missing.look(&schedule, false, &tree, Duration::from_secs(at)).0
    };
    assert_eq!(gone(&mut missing, 0), None);
    assert_eq!(gone(&mut missing, 11), Some(plan[300]));
    missing.begin(GivesUp::Near);
    assert_eq!(gone(&mut missing, 12), Some(plan[300]), "at once");
    missing.begin(GivesUp::Nothing);
    assert_eq!(gone(&mut missing, 60), None, "it is known to exist");
}
