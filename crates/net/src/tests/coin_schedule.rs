use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_wire::message::{Command, Message};

use super::{headers_on, regtest, tree_of};
use crate::{Arrival, CoinSchedule, Has, Limits, PeerId, coins_cutoff};

const NOW: Duration = Duration::from_secs(1);
const A: PeerId = PeerId(1);
const B: PeerId = PeerId(2);

/// A schedule that wants the coins of `count` blocks, for which a thread waits.
fn wanting(count: u32) -> (CoinSchedule, Tree, Vec<BlockId>) {
    let headers = headers_on(&regtest().1, count, 1);
    let tree = tree_of(std::slice::from_ref(&headers));
    let blocks: Vec<BlockId> =
        headers.iter().map(|header| tree.find(&header.hash()).unwrap()).collect();
    let limits = Limits { bytes_max: 1 << 30, block_interval: Duration::from_secs(600) };
    let mut coins = CoinSchedule::new(limits);
    coins.want(Arc::from(&blocks[..]));
    coins.read();
    (coins, tree, blocks)
}

fn connect(coins: &mut CoinSchedule, id: PeerId, best: BlockId) {
    coins.set_peer(id, Has { best, is_limited: false, is_inbound: false });
}

/// The blocks whose coins are requested now, and from whom.
fn asked(coins: &mut CoinSchedule, tree: &Tree) -> Vec<(PeerId, BlockId)> {
    let requests = coins.requests(tree, NOW).into_iter();
    let block_of = |payload: &[u8]| match Message::decode(Command::GETBSPENT, payload) {
        Ok(Message::GetSpentCoins(request)) => {
            let block = tree.find(&request.block).unwrap();
            assert_eq!(request.cutoff, coins_cutoff(tree.height(block)));
            block
        }
        other => panic!("{other:?}"),
    };
    requests.map(|(id, request)| (id, block_of(&request.payload))).collect()
}

#[test]
fn each_block_is_asked_for_once_and_answers_are_told_apart() {
    let (mut coins, tree, blocks) = wanting(3);
    assert!(asked(&mut coins, &tree).is_empty(), "there is no peer");
    connect(&mut coins, A, blocks[2]);
    let mut expected = blocks.clone();
    while let Some(block) = expected.first().copied() {
        assert_eq!(coins.arrived(A, block, 50, NOW), Arrival::NotAsked);
        for (_, asked) in asked(&mut coins, &tree) {
            assert_eq!(coins.arrived(A, asked, 50, NOW), Arrival::Wanted);
            assert_eq!(coins.arrived(A, asked, 50, NOW), Arrival::NotAsked, "it comes twice");
            coins.taken(asked);
            assert_eq!(expected.remove(0), asked);
        }
    }
    assert!(asked(&mut coins, &tree).is_empty());
}

#[test]
fn coins_that_one_peer_lacks_or_has_wrong_are_requested_from_another() {
    let (mut coins, tree, blocks) = wanting(1);
    connect(&mut coins, A, blocks[0]);
    assert_eq!(asked(&mut coins, &tree), [(A, blocks[0])]);
    coins.lacks(A, blocks[0]);
    assert!(asked(&mut coins, &tree).is_empty());
    connect(&mut coins, B, blocks[0]);
    assert_eq!(coins.give_up(&tree), None, "another has them");
    assert_eq!(asked(&mut coins, &tree), [(B, blocks[0])]);
    assert_eq!(coins.arrived(B, blocks[0], 50, NOW), Arrival::Wanted);
    coins.refused(B, blocks[0]);
    coins.remove_peer(B);
    connect(&mut coins, PeerId(3), blocks[0]);
    assert_eq!(asked(&mut coins, &tree), [(PeerId(3), blocks[0])]);
}

#[test]
fn coins_that_all_peers_lack_are_given_up_and_others_are_not() {
    let (mut coins, tree, blocks) = wanting(3);
    assert_eq!(coins.give_up(&tree), None, "without peers they are waited for");
    connect(&mut coins, A, blocks[2]);
    let first = asked(&mut coins, &tree);
    assert_eq!(first[0], (A, blocks[0]));
    coins.lacks(A, blocks[0]);
    assert_eq!(coins.give_up(&tree), Some(blocks[0]));
    assert_eq!(coins.give_up(&tree), None);
    let mut left = blocks[1..].to_vec();
    let mut requests: Vec<_> = first[1..].to_vec();
    while !left.is_empty() {
        requests.extend(asked(&mut coins, &tree));
        for (_, block) in std::mem::take(&mut requests) {
            assert_eq!(coins.arrived(A, block, 50, NOW), Arrival::Wanted);
            coins.taken(block);
            left.retain(|other| *other != block);
        }
    }
}

/// It may still be needed for its blocks.
#[test]
fn a_peer_that_lacks_many_is_not_asked_again_but_stays() {
    let (mut coins, tree, blocks) = wanting(60);
    connect(&mut coins, A, blocks[59]);
    let mut number = 0;
    let mut last = Vec::new();
    while number < 20 {
        last = asked(&mut coins, &tree);
        for (_, block) in &last {
            coins.lacks(A, *block);
            number += 1;
        }
        coins.read();
        while coins.give_up(&tree).is_some() {
            coins.read();
        }
    }
    assert!(coins.tick(NOW).is_empty(), "it is not dropped");
    assert!(asked(&mut coins, &tree).is_empty());
    assert_eq!(coins.arrived(A, last[0].1, 50, NOW), Arrival::Late, "it may have been on its way");
    connect(&mut coins, A, blocks[59]);
    assert!(asked(&mut coins, &tree).is_empty());
    assert!(coins.give_up(&tree).is_some(), "no peer has them");
}
