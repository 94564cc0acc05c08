//! `--witness=0`: peers are asked for blocks without witnesses where a SwiftSync does not store
//! them.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use apus_disk::Disk;
use apus_net::{Outgoing, PeerOptions, Target};
use apus_node::SwiftSyncOptions;
use apus_node::{Options, RuleGroup, SyncError};
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_store::{DataDir, DataDirOptions};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testpeer::{Answers, Hangup, Honest, ServedChain, Server, without_witnesses};
use apus_wire::message::{Command, InventoryKind, Message};
use bitcoin::Block;
use bitcoin::consensus::{deserialize, serialize};

use super::held::{Held, counting, late};
use super::world::{Told, try_sync};
use crate::pruned::{SPARE, assert_holds_together};
use crate::support::Place;
use crate::support::program::{apus, assert_ends};
use crate::support::stop_when::StopWhen;
use crate::support::swift::{World, signed_chain};
use crate::swiftsync::pruned::swift_options;

/// What a peer sends of a block.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Sends {
    /// What it is asked for.
    AsAsked,
    /// Always with its witnesses.
    Witnesses,
    /// Never with its witnesses.
    NoWitnesses,
    /// Where it is asked for none, other witnesses.
    OtherWitnesses,
    /// Where it is asked for no witnesses, the last transaction twice if the merkle root stays.
    Repeats,
}

struct Sender {
    honest: Honest,
    sends: Sends,
}

impl Answers for Sender {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        let Message::GetData(list) = message else { return self.honest.answer(message, out) };
        for item in list.iter() {
            let Some(height) = self.honest.chain.height_of(&item.hash) else { continue };
            let block = self.honest.chain.block(height);
            let is_stripped = item.kind == InventoryKind::BLOCK;
            let payload = match self.sends {
                Sends::Witnesses => block,
                Sends::NoWitnesses => without_witnesses(&block),
                Sends::OtherWitnesses if is_stripped => other_witnesses(&block),
                Sends::Repeats if is_stripped => repeated(&without_witnesses(&block)),
                _ if is_stripped => without_witnesses(&block),
                _ => block,
            };
            out.push(Outgoing { command: Command::BLOCK, payload });
        }
        Ok(())
    }
}

/// A block with a byte more in the first witness that has one.
fn other_witnesses(block: &[u8]) -> Vec<u8> {
    let mut block: Block = deserialize(block).unwrap();
    let mut inputs = block.txdata.iter_mut().flat_map(|tx| &mut tx.input);
    if let Some(input) = inputs.find(|input| !input.witness.is_empty()) {
        input.witness.push([1]);
    }
    serialize(&block)
}

/// A block whose merkle root does not tell that its last transaction comes twice (CVE-2012-2459).
fn repeated(block: &[u8]) -> Vec<u8> {
    let mut block: Block = deserialize(block).unwrap();
    if block.txdata.len() > 1 && block.txdata.len() % 2 == 1 {
        block.txdata.extend(block.txdata.last().cloned());
    }
    serialize(&block)
}

fn world() -> &'static World {
    static WORLD: LazyLock<World> = LazyLock::new(|| World::of(&signed_chain(44, 330, 2_500)));
    &WORLD
}

/// The lowest height whose block is stored: the last 288 are.
fn stored_from() -> u32 {
    world().height() - 287
}

fn chain() -> ServedChain {
    static CHAIN: LazyLock<ServedChain> = LazyLock::new(|| ServedChain::of(world().blocks.clone()));
    CHAIN.clone()
}

fn server(sends: Sends) -> Server {
    let magic = world().place().network.magic;
    let begin =
        move || -> Box<dyn Answers> { Box::new(Sender { honest: Honest::new(chain()), sends }) };
    Server::start(magic, true, begin).unwrap()
}

fn options(place: &Place, witness: bool, servers: &[&Server]) -> Options {
    let target = |server: &&Server| Target::parse(&server.address().to_string(), 0).unwrap();
    let connect = servers.iter().map(target).collect();
    let patience = Duration::from_secs(6);
    let peers = Some(PeerOptions { connect, patience, ..PeerOptions::new(0) });
    Options {
        peers,
        swiftsync: SwiftSyncOptions { witness, ..swift_options(world(), place, SPARE).swiftsync },
        ..swift_options(world(), place, SPARE)
    }
}

/// Panics unless the directory is as it should be, and no block in it lacks its witnesses.
#[track_caller]
fn assert_right(place: &Place, summary: &Summary) {
    static RIGHT: LazyLock<(String, u64)> = LazyLock::new(|| world().in_order().utxo_hash());
    assert_eq!(summary.best_block, world().tip());
    assert_eq!(place.utxo_hash(), *RIGHT);
    assert_eq!(assert_holds_together(place), stored_from());
    let options = DataDirOptions { read_only: true, prune: true, ..DataDirOptions::default() };
    let dir = DataDir::open(&Disk::new(), &place.datadir(), &place.network, options).unwrap();
    let (_, index, files) = dir.open_blocks().unwrap();
    for entry in &index.entries {
        if let Some(pos) = entry.block_pos() {
            let stored = files.read_block(pos).unwrap();
            assert_eq!(stored, world().blocks[entry.height as usize], "{}", entry.height);
            assert!(entry.height == 0 || entry.height >= stored_from(), "{}", entry.height);
        }
    }
}

/// The heights of which witness commitments and weights were not checked.
fn not_checked(summary: &Summary) -> Option<(u32, u32)> {
    let mut ranges = summary.checked.not_checked().iter();
    let stripped = ranges.find(|blocks| blocks.rules.contains(&RuleGroup::WitnessCommitments));
    stripped.map(|blocks| {
        assert_eq!(blocks.rules, RuleGroup::STRIPPED);
        (blocks.first, blocks.last)
    })
}

/// A sync from these servers, of which all but the last send what they should not.
fn sync(witness: bool, servers: &[&Server]) -> (Summary, Told) {
    let told = Told::default();
    (sync_telling(&told, witness, servers), told)
}

/// [`sync`] that notes in `told` what the user is told.
fn sync_telling(told: &Told, witness: bool, servers: &[&Server]) -> Summary {
    let place = world().place();
    let stop = AtomicBool::new(false);
    let summary =
        sync::sync(&options(&place, witness, servers), &[], Watch::new(told, &stop)).unwrap();
    assert_right(&place, &summary);
    summary
}

#[test]
fn less_comes_and_the_same_comes_of_it() {
    let honest = server(Sends::AsAsked);
    let (with, _) = sync(true, &[&honest]);
    let (without, told) = sync(false, &[&honest]);
    let from = stored_from();
    assert_eq!((not_checked(&with), not_checked(&without)), (None, Some((1, from - 1))));
    told.assert_has(&["downloaded without witnesses", "weights are not checked"]);
    let dropped = &world().blocks[1..from as usize];
    let less: usize =
        dropped.iter().map(|block| block.len() - without_witnesses(block).len()).sum();
    assert!(less > 30_000, "{less}");
    assert_eq!(with.counts.bytes, without.counts.bytes + less as u64);
    let bytes = |summary: &Summary| summary.peers.iter().map(|peer| peer.bytes).sum::<u64>();
    assert_eq!(bytes(&with), bytes(&without) + less as u64);
    // The same work otherwise.
    let a = with.counts;
    let b = without.counts;
    assert_eq!((a.blocks, a.transactions, a.inputs), (b.blocks, b.transactions, b.inputs));
}

#[test]
fn what_has_come_with_witnesses_is_checked_in_full() {
    let generous = server(Sends::Witnesses);
    let (summary, _) = sync(false, &[&generous]);
    assert_eq!(not_checked(&summary), None);
    assert!(summary.peers.iter().all(|peer| peer.ended.is_none()), "{:?}", summary.peers);
}

#[test]
fn whoever_sends_another_block_is_dropped() {
    for (sends, witness, words) in [
        // Witnesses are wanted for the last blocks in any case.
        (Sends::NoWitnesses, true, "bad-witness-nonce-size"),
        (Sends::NoWitnesses, false, "bad-witness-nonce-size"),
        (Sends::OtherWitnesses, false, "bad-witness-"),
        (Sends::Repeats, false, "bad-txns-duplicate"),
    ] {
        let bad = server(sends);
        let told = Told::default();
        let dropped = format!("Dropped peer {}:", bad.address());
        let honest = late(chain(), Held::All, vec![told.when_told(&dropped)]);
        sync_telling(&told, witness, &[&bad, &honest]);
        told.assert_has(&[&dropped, words]);
    }
}

/// How many blocks are done when a sync ends that is asked to stop after 310.
fn saved_by_stopped_sync(options: &Options) -> u32 {
    let stop = AtomicBool::new(false);
    let at_work = |p: &Progress| p.phase == Phase::SwiftSync && p.blocks > 310;
    let summary = sync::sync(options, &[], Watch::new(&StopWhen(&stop, at_work), &stop)).unwrap();
    summary.saved.and_then(sync::SavedSync::swiftsync).expect("some blocks never come").done
}

/// What an earlier run has not checked is told at the end.
#[test]
fn it_is_carried_on_with_and_without_the_option() {
    for (first, then) in [(false, true), (true, false)] {
        // Two thirds of the blocks that are not stored, some of which are asked for twice, to learn
        // their sizes.
        let (ending, _) = counting(chain(), 100, stored_from() as usize);
        let place = world().place();
        let saved = saved_by_stopped_sync(&options(&place, first, &[&ending]));
        assert!(saved > 310 && saved < world().height(), "{saved}");
        let honest = server(Sends::AsAsked);
        let summary = try_sync(&options(&place, then, &[&honest])).0.unwrap();
        assert!(summary.counts.blocks <= u64::from(world().height() - saved), "{saved}");
        assert_right(&place, &summary);
        let (low, high) = not_checked(&summary).expect("one of the runs left witnesses out");
        assert_eq!((low, high == stored_from() - 1), (1, first), "{high}");
    }
}

#[test]
fn it_is_refused_where_blocks_are_stored() {
    let honest = server(Sends::AsAsked);
    let place = world().place();
    let right = options(&place, false, &[&honest]);
    let without_prune = Options { prune: None, ..right.clone() };
    let error = try_sync(&without_prune).0.unwrap_err();
    assert!(matches!(&error, SyncError::WrongOptions(what) if what.contains("needs --prune")));
    // The UTXO set that is there needs the blocks until a new one is complete.
    let some = Options {
        prune: None,
        stop_at_height: Some(5),
        swiftsync: SwiftSyncOptions { hints: None, witness: true, ..right.swiftsync.clone() },
        ..right.clone()
    };
    let some = Options { method: Some(apus_progress::Method::InOrder), ..some };
    assert_eq!(try_sync(&some).0.unwrap().height, 5);
    let error = try_sync(&right).0.unwrap_err();
    assert!(matches!(&error, SyncError::WrongOptions(what) if what.contains("empty directory")));
    let refused = apus(&place, &["sync", "--connect=127.0.0.1", "--witness=0", "--prune=550"]);
    assert_ends(&refused, 2, &["--witness=0", "needs --hints"]);
}
