//! Damaged stored blocks: replaced by a source's copies, and until then reported with the remedy.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use apus_disk::Disk;
use apus_node::JoinOptions;
use apus_node::Options;
use apus_node::Run;
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_store::FlatFilePos;
use apus_sync as sync;
use apus_sync::{Summary, Verify};
use apus_tools as tools;
use apus_wire::{Chain, Network, genesis_block};
use bitcoin::VarInt;
use bitcoin::consensus::{deserialize, serialize};

use crate::support::blocks::{branch, bytes, genesis_parent};
use crate::support::chains::{small, small_fork};
use crate::support::judge::Judge;
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::{apus, assert_contains, assert_ends, stderr, stdout};
use crate::support::stop_when::StopWhen;
use crate::support::{Place, hash_of, with_genesis};

/// A synced directory, the blocks in it, and a file with good copies.
struct Synced {
    place: Place,
    blocks: Vec<Vec<u8>>,
    good: PathBuf,
    set: (String, u64),
}

impl Synced {
    fn new() -> Self {
        let blocks = with_genesis(small(5));
        let place = Place::new(Chain::Regtest);
        let good = place.write("good", &blocks);
        place.sync(std::slice::from_ref(&good));
        let set = place.utxo_hash();
        Self { place, blocks, good, set }
    }

    /// Where the block at `height` is stored.
    fn pos(&self, height: usize) -> FlatFilePos {
        let hash = hash_of(&self.blocks[height]);
        let (index, _) = self.place.blocks();
        index.entries.iter().find(|entry| entry.hash == hash).unwrap().block_pos().unwrap()
    }

    /// Where each block is stored, by height.
    fn positions(&self) -> Vec<FlatFilePos> {
        let (mut index, _) = self.place.blocks();
        index.entries.sort_by_key(|entry| entry.height);
        index.entries.iter().map(|entry| entry.block_pos().unwrap()).collect()
    }

    /// Changes the file that holds the block at `height`; `change` gets its bytes and the block's
    /// offset.
    fn damage(&self, height: usize, change: impl FnOnce(&mut Vec<u8>, usize)) {
        let pos = self.pos(height);
        let path = self.blk(pos.file);
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes, pos.pos as usize);
        std::fs::write(&path, bytes).unwrap();
    }

    fn blk(&self, file: u32) -> PathBuf {
        self.place.network_dir().join(format!("blocks/blk{file:05}.dat"))
    }

    /// Removes the coins, so that the stored blocks are connected again.
    fn forget_coins(&self) {
        std::fs::remove_dir_all(self.place.network_dir().join("chainstate")).unwrap();
    }

    /// Panics unless everything is as before the damage, for Bitcoin Core's engine too.
    fn assert_whole(&self) {
        assert_eq!(self.place.utxo_hash(), self.set);
        let judge = Judge::open(&self.place).expect("the engine opens the result");
        assert_eq!(judge.tip().0 as usize, self.blocks.len() - 1);
        judge.read_everything();
    }
}

/// The report on each replaced block.
fn replaced(summary: &Summary) -> Vec<&str> {
    summary.repaired.iter().map(|block| block.reason.as_str()).collect()
}

type Damage = fn(&mut Vec<u8>, usize);

#[test]
fn every_kind_of_damage_is_replaced_when_the_block_is_connected() {
    let kinds: [(&str, Damage); 6] = [
        ("body", |bytes, at| bytes[at + 120] ^= 0x10),
        ("header", |bytes, at| bytes[at + 70] ^= 0x10),
        ("magic", |bytes, at| bytes[at - 8] ^= 0x10),
        ("length", |bytes, at| bytes[at - 4] ^= 0x01),
        ("huge length", |bytes, at| bytes[at - 1] ^= 0x7f),
        ("cut file", |bytes, at| bytes.truncate(at + 100)),
    ];
    for (kind, damage) in kinds {
        let synced = Synced::new();
        let last = synced.blocks.len() - 1;
        let height = if kind == "cut file" { last } else { 150 };
        synced.damage(height, damage);
        synced.forget_coins();
        let before = std::fs::read(synced.blk(0)).unwrap();
        let error = synced.place.try_sync(&[]).expect_err(kind);
        let at = format!("blk00000.dat at byte {}", synced.pos(height).pos);
        let hash = hash_of(&synced.blocks[height]).to_string();
        let named = format!("at height {height}");
        assert_contains(&error, &[&at, &hash, &named, "damaged", "`apus sync --from`"]);
        // The blocks before the damaged one are kept.
        assert_eq!(synced.place.stats(tools::UtxoHash::None).height as usize, height - 1, "{kind}");
        let summary = synced.place.sync(std::slice::from_ref(&synced.good));
        let [said] = replaced(&summary)[..] else { panic!("{kind}: {:?}", summary.refusals) };
        assert!(said.contains("good at byte"), "{said}");
        assert_eq!((summary.height as usize, summary.refusals.len()), (last, 0), "{kind}");
        let after = std::fs::read(synced.blk(0)).unwrap();
        assert!(after[..before.len().min(1000)] == before[..before.len().min(1000)]);
        synced.assert_whole();
        assert!(synced.place.sync(&[]).refusals.is_empty(), "{kind}: once");
    }
}

/// Whatever finds the damage, one command repairs it, and nothing else is rebuilt: not even the
/// indexes, which name the places of transactions.
#[test]
fn a_damaged_block_below_the_tip_is_put_back_where_it_was() {
    let kinds: [(&str, Damage); 5] = [
        ("a flipped bit", |bytes, at| bytes[at + 120] ^= 0x10),
        ("a flipped bit of the header", |bytes, at| bytes[at + 70] ^= 1),
        ("a zeroed block", |bytes, at| bytes[at - 8..at + 200].fill(0)),
        ("a zeroed length", |bytes, at| bytes[at - 4..at].fill(0)),
        ("a cut record", |bytes, at| bytes.truncate(at + 100)),
    ];
    let finders = [&["verify", "--level=1", "--blocks=0"][..], &["index", "blockfilterindex"]];
    for (at, (kind, damage)) in kinds.into_iter().enumerate() {
        let synced = Synced::new();
        assert_ends(&apus(&synced.place, &["index", "txindex"]), 0, &[]);
        let files = [synced.blk(0), synced.blk(0).with_file_name("rev00000.dat")];
        let before = files.each_ref().map(|path| std::fs::read(path).unwrap());
        synced.damage(50 + at, damage);
        let found = apus(&synced.place, finders[at % finders.len()]);
        let said = stdout(&found) + &stderr(&found);
        assert!(!found.status.success(), "{kind}: {said}");
        assert!(said.contains("`apus sync --from`") && !said.contains("reindex"), "{kind}: {said}");
        let good = synced.good.to_str().unwrap();
        let repaired = apus(&synced.place, &["sync", "--connect=0", "--from", good]);
        assert_ends(&repaired, 0, &["Repaired: block ", "was damaged", "was replaced by"]);
        assert!(stdout(&repaired).contains("\nrepaired "), "{}", stdout(&repaired));
        for (path, mut before) in files.iter().zip(before) {
            let mut now = std::fs::read(path).unwrap();
            // Reserved space may be gone.
            let len = now.len().max(before.len());
            now.resize(len, 0);
            before.resize(len, 0);
            assert!(now == before, "{kind}: {}", path.display());
        }
        let whole = apus(&synced.place, &["verify", "--level=4", "--blocks=0"]);
        assert_ends(&whole, 0, &[]);
        synced.assert_whole();
    }
}

type Loss = fn(&Path);

/// A file that is gone as a whole comes back byte for byte, so that `txindex` stays right.
#[test]
fn a_whole_file_is_put_back_where_it_was() {
    let kinds: [(&str, Loss); 3] = [
        ("missing", |path| std::fs::remove_file(path).unwrap()),
        ("empty", |path| std::fs::write(path, []).unwrap()),
        ("zeros", |path| std::fs::write(path, vec![0; 1 << 21]).unwrap()),
    ];
    for (kind, damage) in kinds {
        let whole = Synced::new();
        let place = Place::new(Chain::Regtest);
        let good = whole.good.display().to_string();
        let from = |file| ["sync", "--connect=0", "-fastprune", "--from", file];
        assert_ends(&apus(&place, &from(&good)), 0, &[]);
        assert_ends(&apus(&place, &["index", "txindex"]), 0, &[]);
        let synced = Synced { place, ..whole };
        let pos = synced.positions();
        let first = pos.iter().position(|pos| pos.file == 1).unwrap();
        let last = pos.iter().rposition(|pos| pos.file == 1).unwrap();
        let before = std::fs::read(synced.blk(1)).unwrap();
        damage(&synced.blk(1));
        let found = apus(&synced.place, &["verify", "--level=1", "--blocks=0"]);
        let said = stdout(&found) + &stderr(&found);
        assert!(!found.status.success() && said.contains("`apus sync --from`"), "{kind}: {said}");
        // Half of the blocks, and then all: what was put back stays.
        let half = synced.place.write("half", &synced.blocks[..(first + last) / 2]);
        let some = apus(&synced.place, &from(half.to_str().unwrap()));
        assert!(!some.status.success(), "{kind}: {}", stderr(&some));
        assert_ends(&apus(&synced.place, &from(&good)), 0, &["Repaired: "]);
        let now = std::fs::read(synced.blk(1)).unwrap();
        let end = pos[last].pos as usize + synced.blocks[last].len();
        assert!(now.len() >= end && now[..end] == before[..end], "{kind}");
        assert_eq!(synced.positions(), pos, "{kind}");
        assert_ends(&apus(&synced.place, &["verify", "--level=4", "--blocks=0"]), 0, &[]);
        synced.assert_whole();
    }
}

/// What a file holds that is not the one of the index may be stored nowhere else.
#[test]
fn blocks_that_are_not_where_the_index_says_are_not_overwritten() {
    let synced = Synced::new();
    let key = std::fs::read(synced.place.network_dir().join("blocks/xor.dat")).unwrap();
    let bytes = std::fs::read(synced.blk(0)).unwrap();
    // Without the record of block 1, all others are elsewhere, and genesis is damaged.
    let from = synced.pos(2).pos as usize - 8;
    let to = synced.pos(1).pos as usize - 8;
    let moved = bytes[from..]
        .iter()
        .zip(from..)
        .map(|(byte, at)| byte ^ key[at % 8] ^ key[(at - from + to) % 8]);
    let mut shifted: Vec<u8> = bytes[..to].iter().copied().chain(moved).collect();
    shifted[20] ^= 1;
    shifted.truncate(synced.pos(synced.blocks.len() - 1).pos as usize);
    std::fs::write(synced.blk(0), &shifted).unwrap();
    assert!(!apus(&synced.place, &["verify", "--level=1", "--blocks=0"]).status.success());
    let good = synced.good.to_str().unwrap();
    let repaired = apus(&synced.place, &["sync", "--connect=0", "--from", good]);
    assert_ends(&repaired, 0, &["Repaired: block "]);
    assert!(std::fs::read(synced.blk(0)).unwrap().starts_with(&shifted));
    synced.assert_whole();
}

/// The solution of a signet block is checked before its merkle root, as in Core.
#[test]
fn a_flipped_bit_condemns_no_block_of_a_signet() {
    let (blocks, _) = branch(&genesis_parent(), "signet", 10);
    let blocks = [vec![genesis_block(&Network::new(Chain::Regtest))], bytes(&blocks)].concat();
    let mut place = Place::new(Chain::Regtest);
    // OP_1, which each block with a witness commitment solves.
    place.network.signet_challenge = Some(vec![0x51]);
    let good = place.write("good", &blocks);
    place.sync(std::slice::from_ref(&good));
    let synced = Synced { set: place.utxo_hash(), place, blocks, good };
    let commitment = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];
    for method in [Method::InOrder, Method::Join] {
        // The file is obfuscated, which moves no byte.
        let found = synced.blocks[5].windows(6).position(|window| window == commitment).unwrap();
        synced.damage(5, |bytes, at| bytes[at + found + 3] ^= 1);
        synced.forget_coins();
        let sync = |from: &[PathBuf]| {
            let options = Options { method: Some(method), ..synced.place.options() };
            sync::sync(&options.with_join_depth(1), from, Watch::default())
        };
        let error = sync(&[]).expect_err("it is damaged");
        assert_contains(&error, &["at height 5", "damaged", "bad-signet-blksig"]);
        let summary = sync(std::slice::from_ref(&synced.good)).unwrap();
        assert_eq!((summary.height, replaced(&summary).len()), (10, 1), "{method:?}");
        assert_eq!(synced.place.utxo_hash(), synced.set);
    }
}

#[test]
fn a_reindex_names_the_damage_and_goes_on_after_a_repair() {
    let synced = Synced::new();
    synced.damage(120, |bytes, at| bytes[at + 100] ^= 1);
    synced.damage(170, |bytes, at| bytes[at + 100] ^= 1);
    let error = synced.place.try_reindex().expect_err("a block is damaged");
    assert_contains(&error, &["blk00000.dat at byte", "at height 120", "`apus sync --from`"]);
    assert_eq!(synced.place.utxo_hash(), synced.set, "the old coins are as they were");
    // Without a good copy nothing changes.
    let poor = synced.place.write("poor", &synced.blocks[..100]);
    let summary = synced.place.sync(&[poor]);
    assert!(replaced(&summary).is_empty());
    assert!(
        summary.refusals.iter().any(|r| r.reason.contains("damaged")),
        "{:?}",
        summary.refusals
    );
    // All damaged blocks of the file are replaced in one run.
    let summary = synced.place.sync(std::slice::from_ref(&synced.good));
    assert_eq!((replaced(&summary).len(), summary.refusals.len()), (2, 0));
    assert_eq!(summary.counts.blocks, 0);
    let summary = synced.place.try_reindex().unwrap();
    let rest = synced.blocks.len() as u64 - 120;
    assert_eq!(summary.counts.blocks, rest, "it carried on where it had to stop");
    synced.assert_whole();
    assert!(synced.place.sync(std::slice::from_ref(&synced.good)).refusals.is_empty());
}

#[test]
fn a_repair_is_reported_as_such_and_is_no_failure() {
    let synced = Synced::new();
    let good = synced.good.to_str().unwrap();
    for json in [false, true] {
        synced.damage(150, |bytes, at| bytes[at + 120] ^= 0x10);
        synced.forget_coins();
        let mut args = vec!["sync", "--from", good];
        args.extend(json.then_some("--json"));
        let output = apus(&synced.place, &args);
        assert_ends(&output, 0, &["Repaired: block ", "was damaged", "was replaced by"]);
        assert!(!stderr(&output).contains("Refused"), "{}", stderr(&output));
        if json {
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let hash = hash_of(&synced.blocks[150]).to_string();
            assert_eq!(json["repaired"][0]["block"], hash);
            assert_eq!(json["refused"], serde_json::json!([]));
        }
    }
}

#[test]
fn a_bad_copy_is_passed_over_for_a_good_one() {
    let synced = Synced::new();
    let mut wrong = synced.blocks.clone();
    wrong[150][130] ^= 1;
    let bad = synced.place.write("bad", &wrong);
    synced.damage(150, |bytes, at| bytes[at + 200] ^= 1);
    synced.forget_coins();
    let error = synced.place.try_sync(std::slice::from_ref(&bad)).expect_err("no good copy");
    assert_contains(&error, &["blk00000.dat at byte", "no good copy", "`apus sync --from`"]);
    let summary = synced.place.sync(&[bad, synced.good.clone()]);
    assert_eq!((replaced(&summary).len(), summary.refusals.len()), (1, 1));
    synced.assert_whole();
}

/// A damaged block would restore and remove the wrong coins if it were disconnected.
#[test]
fn a_damaged_block_is_replaced_before_it_is_disconnected() {
    let fork = with_genesis(small_fork(5, 195, 15, 9));
    let alone = Place::new(Chain::Regtest);
    alone.sync(&[alone.write("fork", &fork)]);
    let synced = Synced::new();
    // The amount of an output changes: the block still parses, and the transaction has another id.
    synced.damage(199, |bytes, at| bytes[at + 81 + 4 + 3 + 41 + 20] ^= 1);
    let fork = synced.place.write("fork", &fork[196..]);
    let error = synced.place.try_sync(std::slice::from_ref(&fork)).expect_err("it is damaged");
    assert_contains(&error, &["blk00000.dat at byte", "at height 199", "`apus sync --from`"]);
    let summary = synced.place.sync(&[fork, synced.good.clone()]);
    assert_eq!((summary.height, replaced(&summary).len()), (210, 1));
    assert_eq!(synced.place.utxo_hash(), alone.utxo_hash());
    Judge::open(&synced.place).expect("the engine opens the result").read_everything();
}

/// The polynomial of CRC-32C as bits in the order in which they are read. Added to any bytes, it
/// leaves their CRC as it is.
const CRC_32C: [u8; 5] = [0xf1, 0x76, 0xec, 0x05, 0x01];

/// Between its first and its last pass a join knows a block by a hash that nobody can aim at.
#[test]
fn a_block_that_changes_within_a_join_is_replaced() {
    let blocks = with_genesis(small(5));
    let place = Place::new(Chain::Regtest);
    let good = [place.write("good", &blocks)];
    let options = Options {
        method: Some(Method::Join),
        join: JoinOptions { depth: 0, ..Default::default() },
        ..place.options()
    };
    let stop = AtomicBool::new(false);
    let until = StopWhen(&stop, |seen: &Progress| seen.phase == Phase::JoinMatching);
    let stopped = sync::sync(&options, &good, Watch::new(&until, &stop)).unwrap();
    assert!(stopped.saved.and_then(sync::SavedSync::join).is_some());
    let synced = Synced { place, blocks, good: good[0].clone(), set: Default::default() };
    // What the coinbase's witness has is used in the first pass alone.
    let parsed: bitcoin::Block = deserialize(&synced.blocks[150]).unwrap();
    assert_eq!(parsed.txdata[0].input[0].witness.len(), 1);
    let coinbase = serialize(&parsed.txdata[0]).len();
    let reserved = 80 + VarInt(parsed.txdata.len() as u64).size() + coinbase - 4 - 32;
    synced.damage(150, |bytes, at| {
        let block = &mut bytes[at..][..synced.blocks[150].len()];
        let before = crc32c::crc32c(block);
        block[reserved..].iter_mut().zip(CRC_32C).for_each(|(byte, bits)| *byte ^= bits);
        assert_eq!(crc32c::crc32c(block), before);
        assert_ne!(block, synced.blocks[150]);
    });
    let read_again = AtomicBool::new(false);
    let stop = AtomicBool::new(false);
    let watch = StopWhen(&read_again, |seen: &Progress| seen.phase == Phase::JoinReading);
    let summary = sync::sync(&options, &good, Watch::new(&watch, &stop)).unwrap();
    assert_eq!(summary.height as usize, synced.blocks.len() - 1);
    assert!(!read_again.into_inner(), "it has carried on with the saved join");
    assert_eq!(replaced(&summary).len(), 1, "{:?}", summary.refusals);
    let all = Verify { level: 1, blocks: 0 };
    let found = tools::verify(&synced.place.options(), all, Watch::default()).unwrap();
    assert!(found.is_sound(), "{:?}", found.damage);
}

#[test]
fn a_power_cut_while_blocks_are_replaced_loses_nothing() {
    let synced = Synced::new();
    for height in [197, 199] {
        synced.damage(height, |bytes, at| bytes[at + 100] ^= 1);
    }
    let error = synced.place.try_reindex().expect_err("a block is damaged");
    assert_contains(&error, &["at height 197"]);
    synced.place.shrink();
    let run = |place: &Place, disk: &Disk| {
        let options = place.options();
        sync::sync_on(
            &Run::on(disk, &options),
            std::slice::from_ref(&synced.good),
            Watch::default(),
        )
    };
    let (disk, counter) = counted();
    run(&synced.place.copy(), &disk).unwrap();
    assert!(counter.steps() > 10, "there is something to cut: {}", counter.steps());
    for power in power_cuts(1..=counter.steps(), 3) {
        let place = synced.place.copy();
        let cut = run(&place, &failing(&power));
        assert!(cut.is_err(), "{power:?}");
        power.lose_unsynced().unwrap();
        let summary = run(&place, &Disk::new());
        let summary = summary.unwrap_or_else(|error| panic!("{power:?}: {error}"));
        assert!(replaced(&summary).len() <= 2, "{power:?}");
        let summary = place.try_reindex();
        let summary = summary.unwrap_or_else(|error| panic!("{power:?}: {error}"));
        assert_eq!(summary.height as usize, synced.blocks.len() - 1, "{power:?}");
        assert_eq!(place.utxo_hash(), synced.set, "{power:?}");
        if power.cut_at() % 12 == 1 {
            Judge::open(&place).expect("the engine opens the result").read_everything();
        }
    }
}
