//! SwiftSync that checks everything with blocks and the coins that they spend from peers, and no
//! undo data anywhere.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apus_hash::Hash;
use apus_net::{BLOCK_SPENT_COINS, COIN_RANGE_BLOCKS, Outgoing, coins_cutoff};
use apus_node::{AssumeValid, Options};
use apus_progress::{Method, Phase, Progress, Watch};
use apus_swiftsync::{Format, Numbering};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testpeer::{Answers, Hangup, Honest, Server, not_found};
use apus_wire::message::{Command, Feature, GetSpentCoins, InventoryItem, InventoryKind, Message};
use bitcoin::Script;

use super::world::{Told, chain, from_files, honest, try_sync, with_peers, with_peers_at, world};
use crate::serving::client::Serving;
use crate::serving::spent_coins::{EXPECTED, SpentCoin, payload};
use crate::support::Place;
use crate::support::model::encode;
use crate::support::outcome::Outcome;
use crate::support::program::{assert_ends, program_on};
use crate::support::stop_when::StopWhen;
use crate::support::waiting::Gate;
use crate::swiftsync::refusals::assert_nothing_committed;

/// What a peer does to the coins that it sends.
#[derive(Clone)]
struct Deed {
    /// Changes the coins of a block at a height.
    coins: fn(&mut Vec<SpentCoin>, u32),
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
        let is_asked = |coin: &&SpentCoin| coin.height < request.cutoff;
        let mut coins: Vec<SpentCoin> =
            EXPECTED[height as usize].iter().filter(is_asked).cloned().collect();
        (self.deed.coins)(&mut coins, height);
        let mut payload = payload(request.block, &coins);
        (self.deed.payload)(&mut payload);
        let answer = Outgoing { command: Command::BSPENT, payload };
        out.extend(std::iter::repeat_n(answer, self.deed.times));
    }
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

/// Changes the first coin, if there is one.
fn change_first(coins: &mut [SpentCoin], change: fn(&mut SpentCoin)) {
    if let Some(coin) = coins.first_mut() {
        change(coin);
    }
}

/// What a peer does that costs it the connection, and words of the reason.
fn faults() -> Vec<(&'static str, &'static str, Deed)> {
    let coins = |coins| Deed { coins, ..HONEST };
    let payload = |payload| Deed { payload, ..HONEST };
    vec![
        ("cut", "bspent", payload(|bytes| bytes.truncate(20))),
        ("empty", "bspent", payload(Vec::clear)),
        ("cut in a coin", "wrong spent coins", payload(|bytes| bytes.truncate(bytes.len() - 1))),
        ("cut after the hash", "wrong spent coins", payload(|bytes| bytes.truncate(32))),
        ("too long", "bytes follow", payload(|bytes| bytes.push(0))),
        ("oversized", "over the limit", payload(|bytes| bytes.resize(4_000_001, 0))),
        ("as large as may be", "bytes follow", payload(|bytes| bytes.resize(4_000_000, 0))),
        ("of another block", "not asked for", payload(|bytes| bytes[0] ^= 1)),
        ("of the block before", "not asked for", {
            payload(|bytes| {
                let hash = Hash(*bytes.first_chunk().unwrap());
                let height = chain().height_of(&hash).unwrap() as u32;
                bytes[..32].copy_from_slice(&world().hash(height.max(2) - 1).0);
            })
        }),
        ("twice", "not asked for", Deed { times: 2, ..HONEST }),
        ("a hundred times", "not asked for", Deed { times: 100, ..HONEST }),
        ("2^32 coins", "wrong spent coins", {
            payload(|bytes| drop(bytes.splice(32..33, [0xff, 0, 0, 0, 0, 1, 0, 0, 0])))
        }),
        ("a number in a longer form", "wrong spent coins", {
            payload(|bytes| drop(bytes.splice(32..33, [0xfd, bytes[32], 0])))
        }),
        ("none", "are missing", coins(|coins, _| coins.clear())),
        ("the last is missing", "are missing", coins(|coins, _| drop(coins.pop()))),
        ("the first is missing", "out of order", {
            coins(|coins, _| drop(coins.drain(..1.min(coins.len()))))
        }),
        ("in reverse", "out of order", coins(|coins, _| coins.reverse())),
        ("repeated", "out of order", {
            coins(|coins, _| drop(coins.splice(..0, coins.first().cloned())))
        }),
        ("one too many", "more coins", {
            coins(|coins, _| {
                if let Some(last) = coins.last().cloned() {
                    coins.push(SpentCoin { index: last.index + 1, ..last });
                }
            })
        }),
        ("of the block itself", "was not asked for", {
            coins(|coins, height| coins.iter_mut().for_each(|coin| coin.height = height))
        }),
        ("of height 0", "height 0", {
            coins(|coins, _| {
                change_first(coins, |coin| (coin.height, coin.is_coinbase) = (0, true))
            })
        }),
        ("of the greatest height", "was not asked for", {
            coins(|coins, _| change_first(coins, |coin| coin.height = u32::MAX >> 1))
        }),
        ("a script of no known form", "unknown form", {
            payload(|bytes| {
                if let Some(form) = bytes.get_mut(32 + 1 + 8) {
                    *form = 9;
                }
            })
        }),
        ("a script of more than 10,000 bytes", "more than 10,000 bytes", {
            coins(|coins, _| change_first(coins, |coin| coin.script = vec![0x51; 10_001]))
        }),
        ("a script that nobody can spend", "the block is invalid", {
            coins(|coins, _| change_first(coins, |coin| coin.script = vec![0x6a]))
        }),
        ("of nothing", "bad-txns-in-belowout", {
            coins(|coins, _| coins.iter_mut().for_each(|coin| coin.amount = 0))
        }),
        ("more than there is money", "bad-txns-inputvalues-outofrange", {
            coins(|coins, _| change_first(coins, |coin| coin.amount = 21_000_000 * 100_000_000 + 1))
        }),
        ("a young coinbase", "bad-txns-premature-spend-of-coinbase", {
            coins(|coins, height| {
                if let Some(coin) = coins.iter_mut().find(|coin| coin.height + 100 > height) {
                    coin.is_coinbase = true;
                }
            })
        }),
    ]
}

/// A sync of a second for each of 28 faults.
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
    fn one_height_less(coins: &mut [SpentCoin]) {
        let is_lied_about = |coin: &&mut SpentCoin| {
            Script::from_bytes(&coin.script).is_p2pkh() && !coin.is_coinbase && coin.height > 1
        };
        if let Some(coin) = coins.iter_mut().find(is_lied_about) {
            coin.height -= 1;
        }
    }
    let (lying, _) =
        coin_server(&Deed { coins: |coins, _| one_height_less(coins), ..HONEST }, Vec::new());
    let place = world().place();
    let options = full(with_peers(&place, Method::SwiftSync, &[&lying]));
    assert_as_in_order(&place, &options, &Told::default());
}

/// Such hints are found with the blocks of the first round; the coins that are missing are looked
/// up in another one.
#[test]
fn hints_found_wrong_before_coins_are_looked_up_are_named() {
    let (lacking, _) = coin_server(&Deed { lacks: |height| height == 168, ..HONEST }, Vec::new());
    let model = &world().model;
    let mut hints = model.hints(world().height(), Numbering::Spendable);
    let (height, index) = (1..168)
        .find_map(|height| {
            let spendable = model.blocks[height].outputs.iter().filter(|output| output.spendable);
            let own = (0..).zip(spendable).find(|(_, it)| it.spent_at == Some(height as u32));
            own.map(|(index, _)| (height, index))
        })
        .expect("an output that its own block spends");
    hints[height - 1].0.push(index);
    hints[height - 1].0.sort_unstable();
    let place = world().place();
    let wrong = place.write_bytes("wrong.hints", &encode(&hints, Format::Bip456));
    let mut apus = program_on(&place, &["sync", "--minimumchainwork=0", "--assumevalid=0"]);
    apus.arg("--hints").arg(&wrong).arg(format!("--connect={}", lacking.address()));
    let spent = format!("named as unspent, but block {height} spends it");
    let named = [
        "No peer sends the coins that 1 block spends",
        "wrong.hints is wrong about 1 output",
        &spent,
    ];
    assert_ends(&apus.output().unwrap(), 0, &named);
    assert_eq!(place.utxo_hash(), world().in_order().utxo_hash());
}
