//! SwiftSync that checks everything with blocks and the coins that they spend from peers, and no
//! undo data anywhere.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apus_coins::{Coin, put_spent_coins};
use apus_hash::Hash;
use apus_net::{BLOCK_SPENT_COINS, COIN_RANGE_BLOCKS, Outgoing, coins_cutoff};
use apus_node::{AssumeValid, Options};
use apus_progress::{Method, Phase, Progress, Watch};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testpeer::{Answers, Hangup, Honest, Server, not_found};
use apus_wire::message::{Command, Feature, GetSpentCoins, InventoryItem, InventoryKind, Message};
use apus_wire::put_compact_size;

use super::world::{Told, chain, from_files, honest, try_sync, with_peers, with_peers_at, world};
use crate::serving::client::Serving;
use crate::support::Place;
use crate::support::outcome::Outcome;
use crate::support::stop_when::StopWhen;
use crate::support::waiting::Gate;
use crate::swiftsync::refusals::assert_nothing_committed;

/// Coins, each with the index of the input that spends it.
type Listed = Vec<(u32, Coin)>;

/// What a peer does to the coins that it sends.
#[derive(Clone)]
struct Deed {
    /// Changes the coins of a block at a height.
    coins: fn(&mut Listed, u32),
    /// Changes the payload.
    payload: fn(&mut Vec<u8>),
    /// How often it sends its answer.
    times: usize,
    /// Whether it says that it lacks the coins of a block at a height.
    lacks: fn(u32) -> bool,
    /// After the coins of how many blocks it hangs up.
    ends_after: usize,
}

const HONEST: Deed =
    Deed { coins: |_, _| {}, payload: |_| {}, times: 1, lacks: |_| false, ends_after: usize::MAX };

/// A peer that has all of [`world`] and sends the coins that its blocks spend.
struct CoinPeer {
    honest: Honest,
    deed: Deed,
    /// Opened before it answers a request for coins.
    gates: Vec<Gate>,
    asked: Arc<Mutex<HashSet<u32>>>,
}

impl CoinPeer {
    fn send(&self, request: &GetSpentCoins, out: &mut Vec<Outgoing>) {
        for gate in &self.gates {
            gate.wait();
        }
        let height = self.honest.chain.height_of(&request.block).unwrap() as u32;
        self.asked.lock().unwrap().insert(height);
        if (self.deed.lacks)(height) {
            let item = InventoryItem { kind: InventoryKind::BLOCK, hash: request.block };
            out.push(not_found(item));
            return;
        }
        let coins = world().model.blocks[height as usize].undo.iter().flatten().cloned();
        let all = (0..).zip(coins);
        let mut listed: Listed = all.filter(|(_, coin)| coin.height < request.cutoff).collect();
        (self.deed.coins)(&mut listed, height);
        let mut payload = payload(request.block, &listed);
        (self.deed.payload)(&mut payload);
        let answer = Outgoing { command: Command::BSPENT, payload };
        out.extend(std::iter::repeat_n(answer, self.deed.times));
    }
}

/// The payload of `bspent`.
fn payload(block: Hash, listed: &[(u32, Coin)]) -> Vec<u8> {
    let mut payload = block.0.to_vec();
    put_compact_size(&mut payload, listed.len() as u64);
    for (index, coin) in listed {
        let mut undo = vec![1, 1];
        coin.encode_undo(&mut undo);
        let mut alone = Vec::new();
        assert_eq!(put_spent_coins(&undo, 0, usize::MAX, &mut alone), Ok(true));
        payload.extend_from_slice(&index.to_le_bytes());
        payload.extend_from_slice(&alone[5..]);
    }
    payload
}

impl Answers for CoinPeer {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        match message {
            Message::GetSpentCoins(request) => {
                self.send(request, out);
                if self.asked.lock().unwrap().len() == self.deed.ends_after {
                    return Err(Hangup);
                }
            }
            Message::Version(_) => {
                self.honest.answer(message, out)?;
                let id = BLOCK_SPENT_COINS.as_bytes();
                out.insert(1, Outgoing::new(&Feature { id, data: &[0] }));
            }
            _ => return self.honest.answer(message, out),
        }
        Ok(())
    }
}

/// A server of [`world`] that does this to coins, and the heights of the blocks whose coins it was
/// asked for.
fn coin_server(deed: &Deed, gates: Vec<Gate>) -> (Server, Arc<Mutex<HashSet<u32>>>) {
    let asked: Arc<Mutex<HashSet<u32>>> = Arc::default();
    let magic = world().place().network.magic;
    let deed = deed.clone();
    let heights = Arc::clone(&asked);
    let server = Server::start(magic, true, move || {
        Box::new(CoinPeer {
            honest: Honest::new(chain()),
            deed: deed.clone(),
            gates: gates.clone(),
            asked: Arc::clone(&heights),
        })
    });
    (server.unwrap(), asked)
}

/// Options for a SwiftSync that checks every script.
fn full(options: Options) -> Options {
    Options { assumevalid: AssumeValid::Nothing, ..options }
}

/// Panics unless a sync with these options comes to the same as a sync in order.
#[track_caller]
fn assert_as_in_order(place: &Place, options: &Options, told: &Told) {
    let stop = AtomicBool::new(false);
    let summary = sync::sync(options, &[], Watch::new(told, &stop)).unwrap();
    let in_order = from_files(Method::InOrder);
    assert_eq!(summary.counts.scripts, in_order.summary.counts.inputs, "every script is checked");
    assert_holds_same(place, summary);
}

/// Panics unless a directory holds the same as after a sync in order.
#[track_caller]
fn assert_holds_same(place: &Place, summary: Summary) {
    let in_order = from_files(Method::InOrder);
    let outcome = Outcome::of(place, summary);
    assert_eq!(outcome.undo.len(), world().height() as usize);
    outcome.assert_holds_same(in_order, "with coins of peers");
}

#[test]
fn blocks_and_coins_of_peers_come_to_the_same_as_a_sync_in_order() {
    let without = honest(true);
    let (with, asked) = coin_server(&HONEST, Vec::new());
    for servers in [&[&with][..], &[&without, &with]] {
        let place = world().place();
        let options = full(with_peers(&place, Method::SwiftSync, servers));
        asked.lock().unwrap().clear();
        assert_as_in_order(&place, &options, &Told::default());
        assert_eq!(asked.lock().unwrap().len(), world().height() as usize);
    }
}

/// Coins that blocks of one range create and spend are not sent.
#[test]
fn fewer_coins_are_asked_for_than_blocks_spend() {
    let mut all = 0;
    let mut asked = 0;
    for (height, block) in (0..).zip(&world().model.blocks) {
        let cutoff = coins_cutoff(height);
        assert!(cutoff <= height.max(1) && height < cutoff + COIN_RANGE_BLOCKS);
        all += block.undo.iter().flatten().count();
        asked += block.undo.iter().flatten().filter(|coin| coin.height < cutoff).count();
    }
    assert!(asked < all / 10 * 9 && asked > all / 10, "{asked} of {all}");
}

#[test]
fn coins_come_from_a_directory_that_is_served() {
    let served = world().in_order();
    let server = Serving::start(&served, &[]);
    let place = world().place();
    let addresses = [server.address.to_string()];
    let options = full(with_peers_at(&place, Method::SwiftSync, &addresses));
    assert_as_in_order(&place, &options, &Told::default());
}

/// A worker that ends for a save gives back the rest of its range, with the blocks before it.
#[test]
fn saves_and_interruptions_change_nothing() {
    let (server, _) = coin_server(&HONEST, Vec::new());
    let place = world().place();
    let options = Options {
        save_every: Duration::ZERO,
        ..full(with_peers(&place, Method::SwiftSync, &[&server]))
    };
    assert_as_in_order(&place, &options, &Told::default());
    // Ranges are begun in one run, and carried on with in the next.
    for threads in [1, 3] {
        let place = world().place();
        let peers = full(with_peers(&place, Method::SwiftSync, &[&server]));
        let options = Options { threads, ..peers };
        for blocks in [37, 90, 133, 160] {
            let stop = AtomicBool::new(false);
            let condition = |progress: &Progress| {
                progress.phase == Phase::SwiftSync && progress.blocks >= blocks
            };
            let watch = StopWhen(&stop, condition);
            let summary = sync::sync(&options, &[], Watch::new(&watch, &stop)).unwrap();
            assert!(summary.interrupted, "{blocks}");
        }
        let summary = sync::sync(&options, &[], Watch::default()).unwrap();
        assert!(summary.counts.blocks < 20, "{:?}", summary.counts);
        assert_holds_same(&place, summary);
    }
}

/// What a peer does that costs it the connection, and words of the reason.
fn faults() -> Vec<(&'static str, &'static str, Deed)> {
    let coins = |coins| Deed { coins, ..HONEST };
    let payload = |payload| Deed { payload, ..HONEST };
    vec![
        ("cut", "bspent", payload(|bytes| bytes.truncate(20))),
        ("cut in a coin", "wrong spent coins", payload(|bytes| bytes.truncate(bytes.len() - 1))),
        ("too long", "bytes follow", payload(|bytes| bytes.push(0))),
        ("of another block", "not asked for", payload(|bytes| bytes[0] ^= 1)),
        ("twice", "not asked for", Deed { times: 2, ..HONEST }),
        ("the last is missing", "are missing", coins(|list, _| drop(list.pop()))),
        (
            "the first is missing",
            "out of order",
            coins(|list, _| drop(list.drain(..1.min(list.len())))),
        ),
        ("in reverse", "out of order", coins(|list, _| list.reverse())),
        (
            "repeated",
            "out of order",
            coins(|list, _| {
                if let Some(first) = list.first().cloned() {
                    list.insert(0, first);
                }
            }),
        ),
        (
            "one too many",
            "more coins",
            coins(|list, _| {
                if let Some((index, coin)) = list.last().cloned() {
                    list.push((index + 1, coin));
                }
            }),
        ),
        (
            "of the block itself",
            "was not asked for",
            coins(|list, height| {
                list.iter_mut().for_each(|(_, coin)| coin.height = height);
            }),
        ),
        (
            "of nothing",
            "bad-txns-in-belowout",
            coins(|list, _| {
                list.iter_mut().for_each(|(_, coin)| coin.amount = 0);
            }),
        ),
    ]
}

#[test]
fn wrong_coins_cost_a_peer_the_connection() {
    for (name, reason, deed) in faults() {
        println!("{name}");
        let (hostile, _) = coin_server(&deed, Vec::new());
        let told = Told::default();
        let dropped = format!("Dropped peer {}:", hostile.address());
        let (late, _) = coin_server(&HONEST, vec![told.when_told(&dropped)]);
        let place = world().place();
        let options = full(with_peers(&place, Method::SwiftSync, &[&hostile, &late]));
        assert_as_in_order(&place, &options, &told);
        told.assert_has(&[&dropped, reason]);
    }
}

#[test]
fn coins_that_a_peer_lacks_come_from_another() {
    let (lacking, _) = coin_server(&Deed { lacks: |height| height > 100, ..HONEST }, Vec::new());
    let (other, _) = coin_server(&HONEST, Vec::new());
    let place = world().place();
    let options = full(with_peers(&place, Method::SwiftSync, &[&lacking, &other]));
    let told = Told::default();
    assert_as_in_order(&place, &options, &told);
    assert_eq!(told.count("Dropped"), 0);
}

/// While no peer offers coins, they are waited for.
#[test]
fn the_only_peer_with_coins_may_leave_and_come_back() {
    let without = honest(true);
    let (with, _) = coin_server(&Deed { ends_after: 50, ..HONEST }, Vec::new());
    let place = world().place();
    let options = full(with_peers(&place, Method::SwiftSync, &[&without, &with]));
    let told = Told::default();
    assert_as_in_order(&place, &options, &told);
    told.assert_has(&[&format!("Lost peer {}", with.address())]);
    assert!(!told.has(&["are looked up in the stored blocks"]));
}

/// They may exceed the limit of a message.
#[test]
fn coins_that_no_peer_sends_are_looked_up_in_the_blocks() {
    let lacks = |height| height == 130 || height == 131 || height == 168;
    let (lacking, _) = coin_server(&Deed { lacks, ..HONEST }, Vec::new());
    let place = world().place();
    let options = full(with_peers(&place, Method::SwiftSync, &[&lacking]));
    let told = Told::default();
    assert_as_in_order(&place, &options, &told);
    told.assert_has(&["No peer sends the coins that 3 blocks spend"]);
}

#[test]
fn a_peer_that_offers_no_coins_is_not_asked_for_any() {
    let without = honest(true);
    let place = world().place();
    let options = full(with_peers(&place, Method::SwiftSync, &[&without]));
    let error = try_sync(&options).0.unwrap_err().to_string();
    assert!(error.contains("a peer that offers the coins"), "{error}");
    assert_nothing_committed(&place, "no coins");
}

/// The sums show that there are some, and the blocks which.
#[test]
fn wrong_coins_that_all_rules_accept_are_corrected() {
    fn one_height_less(list: &mut Listed, _: u32) {
        let is_p2pkh = |coin: &Coin| coin.script.as_bytes().first() == Some(&0);
        if let Some((_, coin)) =
            list.iter_mut().find(|(_, coin)| is_p2pkh(coin) && !coin.is_coinbase && coin.height > 1)
        {
            coin.height -= 1;
        }
    }
    let (lying, _) = coin_server(&Deed { coins: one_height_less, ..HONEST }, Vec::new());
    let place = world().place();
    let options = full(with_peers(&place, Method::SwiftSync, &[&lying]));
    assert_as_in_order(&place, &options, &Told::default());
}
