//! Wrong undo data, in the rev files of a source and in the directory's own. Full mode takes every
//! coin from undo data, trusts none of it, and corrects it where it is wrong.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use apus_coins::{Coin, CompactScript};
use apus_node::UndoFaults;
use apus_progress::{Phase, Progress, Watch};
use apus_swiftsync::{Format, Numbering};

use super::refusals::{
    Blame, Due, assert_due, assert_in_order_succeeds, assert_nothing_committed, assert_right,
    assert_unchanged,
};
use crate::support::model::{Deeds, encode, encode_undo};
use crate::support::stop_when::StopWhen;
use crate::support::swift::{
    Mode, World, frame_undo, small_chain, try_reindex_with, try_sync_with,
};
use crate::support::undo_files::{overwrite_record, overwrite_undo};
use crate::support::{Place, change_file};

/// A P2PKH coin, whose signatures do not commit to amounts.
fn is_p2pkh(coin: &Coin) -> bool {
    coin.script.as_bytes().first() == Some(&0)
}

struct Edit {
    name: &'static str,
    /// The coin to change, which the block at this height spends.
    wanted: fn(&Coin, u32) -> bool,
    change: fn(&mut Coin, u32),
    /// Whether the changed coin has as many bytes as before, so that it fits into the directory's
    /// own files.
    as_long: bool,
}

const EDITS: [Edit; 9] = [
    Edit {
        name: "an amount is a satoshi more",
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height,
        change: |coin, _| coin.amount += 1,
        as_long: false,
    },
    Edit {
        name: "an amount is nothing",
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height && coin.amount > 50_000_000,
        change: |coin, _| coin.amount = 0,
        as_long: false,
    },
    Edit {
        name: "a height is one less",
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height && !coin.is_coinbase,
        change: |coin, _| coin.height -= 1,
        as_long: true,
    },
    Edit {
        name: "a height is the block's own",
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height && coin.height > 70,
        change: |coin, height| coin.height = height,
        as_long: true,
    },
    Edit {
        name: "a young coin is called a coinbase's",
        wanted: |coin, height| coin.height < height && !coin.is_coinbase,
        change: |coin, _| coin.is_coinbase = true,
        as_long: true,
    },
    Edit {
        name: "a coinbase's coin is called another's",
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height && coin.is_coinbase,
        change: |coin, _| coin.is_coinbase = false,
        as_long: true,
    },
    Edit {
        name: "a script is another key's",
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height,
        change: |coin, _| {
            let script = [&[0x76, 0xa9, 20][..], &[7; 20], &[0x88, 0xac]].concat();
            coin.script = CompactScript::new(&script);
        },
        as_long: true,
    },
    Edit {
        name: "a script lets everybody spend",
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height,
        change: |coin, _| coin.script = CompactScript::new(&[0x51]),
        as_long: false,
    },
    Edit {
        name: "a coin of the block itself is another",
        wanted: |coin, height| coin.height == height,
        change: |coin, _| coin.amount += 1,
        as_long: false,
    },
];

impl Edit {
    /// The height of a block, and its changed undo data.
    fn apply(&self, world: &World) -> (u32, Vec<u8>) {
        for (height, deeds) in (0u32..).zip(&world.model.blocks).skip(1) {
            let mut deeds: Deeds = deeds.clone();
            let coin = deeds.undo.iter_mut().flatten().find(|coin| (self.wanted)(coin, height));
            let Some(coin) = coin else { continue };
            (self.change)(coin, height);
            let changed = encode_undo(&deeds.undo);
            if self.as_long && changed.len() != world.model.undo(height).len() {
                continue;
            }
            return (height, changed);
        }
        panic!("{}: no coin to change", self.name);
    }
}

/// Undo data, by height.
type Records = Vec<(u32, Vec<u8>)>;

fn records(world: &World) -> Records {
    (1..=world.height()).map(|height| (height, world.model.undo(height))).collect()
}

/// What a sync in order leaves.
struct Right<'a> {
    world: &'a World,
    utxo_hash: (String, u64),
}

impl<'a> Right<'a> {
    fn of(world: &'a World) -> Self {
        Self { world, utxo_hash: world.in_order().utxo_hash() }
    }

    /// Panics unless the directory has the right coins and right undo data.
    #[track_caller]
    fn assert(&self, place: &Place, what: &str) {
        assert_right(place, self.world, &self.utxo_hash, what);
        assert!(!place.swift_dir().exists(), "{what}");
    }

    /// Panics unless SwiftSync in full mode, from the source that `write` writes, ends with the
    /// right coins and right undo data.
    #[track_caller]
    fn assert_corrected(&self, what: &str, write: impl FnOnce(&Place)) {
        let world = self.world;
        let place = world.place();
        write(&place);
        let hints = world.write_hints(&place, world.height());
        let result = world.try_swift(&place, Mode::Full, &hints, &[place.root().join("source")]);
        result.unwrap_or_else(|error| panic!("{what}: {error}"));
        self.assert(&place, what);
    }

    /// The same from a source with this undo data.
    #[track_caller]
    fn assert_records_corrected(&self, what: &str, undo: &[(u32, Vec<u8>)]) {
        let order = self.world.file_order();
        self.assert_corrected(what, |place| {
            self.world.write_source_with(place, "source", &order, undo);
        });
    }
}

#[test]
fn a_changed_coin_is_corrected() {
    let world = World::of(&small_chain(51, 40, 6_000));
    let right = Right::of(&world);
    for edit in &EDITS {
        let (height, changed) = edit.apply(&world);
        let mut undo = records(&world);
        undo[height as usize - 1].1 = changed;
        right.assert_records_corrected(edit.name, &undo);
    }
    // In assumevalid mode undo data is not needed.
    let place = world.place();
    let (height, changed) = EDITS[0].apply(&world);
    let mut undo = records(&world);
    undo[height as usize - 1].1 = changed;
    let source = world.write_source_with(&place, "source", &world.file_order(), &undo);
    let hints = world.write_hints(&place, world.height());
    world.try_swift(&place, Mode::AssumeValid, &hints, &[source]).unwrap();
    assert_eq!(place.utxo_hash(), right.utxo_hash);
}

/// A coin is changed in the undo data of a thousand blocks, in every way.
#[test]
fn a_thousand_changed_coins_are_corrected() {
    let world = World::of(&small_chain(54, 1_000, 900));
    let right = Right::of(&world);
    let mut undo = Records::new();
    let mut changed = 0;
    for (height, deeds) in (0u32..).zip(&world.model.blocks).skip(1) {
        let mut spent = deeds.undo.clone();
        let first = height as usize % EDITS.len();
        for edit in EDITS[first..].iter().chain(&EDITS[..first]) {
            let mut coins = spent.iter_mut().flatten();
            if let Some(coin) = coins.find(|coin| (edit.wanted)(coin, height)) {
                (edit.change)(coin, height);
                changed += 1;
                break;
            }
        }
        undo.push((height, encode_undo(&spent)));
    }
    assert!(changed > 900, "{changed}");
    right.assert_records_corrected("many coins", &undo);
}

/// Both the hints and undo data are wrong about the same coins, and the run is interrupted while it
/// looks for them, and again before blocks are checked with the right ones.
#[test]
fn an_interrupted_correction_is_continued() {
    let world = World::of(&small_chain(55, 40, 6_000));
    let right = Right::of(&world);
    let mut undo = records(&world);
    let mut hints = world.model.hints(world.height(), Numbering::Spendable);
    for edit in &EDITS[..2] {
        let (height, changed) = edit.apply(&world);
        undo[height as usize - 1].1 = changed;
        assert!(height < 150, "{height}");
    }
    // All outputs are called unspent.
    for (unspent, outputs) in &mut hints[..150] {
        *unspent = (0..*outputs).collect();
    }
    // The coins that a block spends are not known at all.
    let damaged = 130;
    undo[damaged - 1].1.pop();
    let place = world.place();
    let source = world.write_source_with(&place, "source", &world.file_order(), &undo);
    let hints = place.write_bytes("wrong.hints", &encode(&hints, Format::Bip456));
    let options = world.options(&place, Mode::Full, &hints);
    let sources = [source];
    for phase in [Phase::NamingCoins, Phase::CheckingAgain] {
        let stop = AtomicBool::new(false);
        let observer = StopWhen(&stop, |progress: &Progress| progress.phase == phase);
        let watch = Watch::new(&observer, &stop);
        let summary = apus_sync::sync(&options, &sources, watch).unwrap();
        assert!(summary.interrupted && place.swift_dir().exists(), "{phase:?}");
    }
    assert_eq!(try_sync_with(&options, &sources).unwrap().best_block, world.tip());
    right.assert(&place, "after an interruption");
}

#[test]
fn records_that_do_not_belong_are_corrected() {
    let chain = small_chain(52, 40, 6_000);
    let world = World::of(&chain);
    let all_right = Right::of(&world);
    let right = records(&world);
    let txs = |height: u32| world.model.blocks[height as usize].undo.len();
    let busy: Vec<u32> = (1..=world.height()).filter(|height| txs(*height) > 3).collect();
    let a = busy[3] as usize - 1;
    let b = busy[9] as usize - 1;
    let spoil = |name, change: &dyn Fn(&mut Records)| {
        let mut undo = right.clone();
        change(&mut undo);
        all_right.assert_records_corrected(name, &undo);
    };
    spoil("two blocks' undo data swapped", &|undo| {
        let other = std::mem::replace(&mut undo[a].1, right[b].1.clone());
        undo[b].1 = other;
    });
    spoil("a record is missing", &|undo| drop(undo.remove(a)));
    spoil("it is cut short by a byte", &|undo| {
        undo[a].1.truncate(right[a].1.len() - 1);
    });
    spoil("a byte behind its end", &|undo| undo[a].1.push(0));
    let edit = |change: &dyn Fn(&mut Vec<Vec<Coin>>)| {
        let mut txs = world.model.blocks[a + 1].undo.clone();
        change(&mut txs);
        encode_undo(&txs)
    };
    let fewer = edit(&|txs| drop(txs[0].pop()));
    spoil("a coin too few", &|undo| undo[a].1 = fewer.clone());
    let more = edit(&|txs| {
        let coin = txs[0][0].clone();
        txs[0].push(coin);
    });
    spoil("a coin too many", &|undo| undo[a].1 = more.clone());
    let fewer = edit(&|txs| drop(txs.pop()));
    spoil("a transaction too few", &|undo| undo[a].1 = fewer.clone());
    let swapped = edit(&|txs| txs.swap(0, 1));
    spoil("two transactions swapped", &|undo| undo[a].1 = swapped.clone());
    let sibling = World::of(&chain.fork(busy[3] - 1, 1, 2)).model.undo(busy[3]);
    spoil("a stale sibling's", &|undo| undo[a].1 = sibling.clone());
    // Next to the right record a wrong one does no harm, in any order of records.
    let place = world.place();
    let mut undo = right.clone();
    undo.insert(a, (busy[3], sibling));
    undo.reverse();
    let source = world.write_source_with(&place, "source", &world.shuffled(6), &undo);
    let hints = world.write_hints(&place, world.height());
    world.try_swift(&place, Mode::Full, &hints, &[source]).unwrap();
    assert_eq!(place.utxo_hash(), all_right.utxo_hash);
}

#[test]
fn without_a_rev_file_it_is_refused() {
    let world = World::of(&small_chain(53, 30, 5_000));
    let place = world.place();
    let source = world.write_source(&place, "source", &world.file_order());
    std::fs::remove_file(source.join("rev00000.dat")).unwrap();
    let hints = world.write_hints(&place, world.height());
    let absent = Due(Blame::Disk, &["no undo data for block", "without --hints"]);
    assert_due(&absent, world.try_swift(&place, Mode::Full, &hints, &[source]), "no rev file");
    assert_nothing_committed(&place, "no rev file");
}

#[test]
fn damaged_rev_files_are_corrected() {
    let world = World::of(&small_chain(53, 30, 5_000));
    let right = Right::of(&world);
    let spoil = |name: &str, change: &dyn Fn(&Path)| {
        right.assert_corrected(name, |place| {
            let source = world.write_source(place, "source", &world.file_order());
            change(&source.join("rev00000.dat"));
        });
    };
    spoil("an empty rev file", &|rev| std::fs::write(rev, b"").unwrap());
    spoil("half a rev file", &|rev| {
        change_file(rev, |bytes| bytes.truncate(bytes.len() / 2));
    });
    spoil("a flipped bit in a record", &|rev| {
        change_file(rev, |bytes| {
            let at = bytes.len() * 3 / 4;
            bytes[at] ^= 4;
        });
    });
    let record = |height: u32| {
        let prev = world.hash(height - 1);
        frame_undo(&world.place().network.magic, &prev, &world.model.undo(height)).len()
    };
    let third_last: usize = (world.height() - 5..=world.height()).map(record).sum();
    spoil("a bad checksum", &|rev| {
        change_file(rev, |bytes| {
            let at = bytes.len() - third_last - 1;
            bytes[at] ^= 1;
        });
    });
    let to_last_busy: usize = (1..=120).map(record).sum();
    spoil("the magic of a record", &|rev| {
        change_file(rev, |bytes| bytes[to_last_busy] ^= 1);
    });
}

#[test]
fn wrong_undo_data_of_our_own_is_corrected_by_a_reindex() {
    let world = World::of(&small_chain(51, 40, 6_000));
    let right = Right::of(&world);
    let place = world.in_order();
    place.shrink();
    let hints = world.write_hints(&place, world.height());
    let options = world.options(&place, Mode::Full, &hints);
    for edit in EDITS.iter().filter(|edit| edit.as_long) {
        let (height, changed) = edit.apply(&world);
        overwrite_undo(&place, &world, height, &changed);
        assert_eq!(try_reindex_with(&options).unwrap().best_block, world.tip(), "{}", edit.name);
        right.assert(&place, edit.name);
    }
    overwrite_record(&place, &world, 130, &world.model.undo(130), |record| {
        *record.last_mut().unwrap() ^= 1;
    });
    assert_eq!(try_reindex_with(&options).unwrap().best_block, world.tip());
    right.assert(&place, "a bad checksum");
}

/// Undo data that is wrong for too many blocks, or that cannot be used for blocks that spend too
/// many coins, is refused.
#[test]
fn too_much_wrong_undo_data_is_refused() {
    let world = World::of(&small_chain(51, 40, 6_000));
    let synced = world.in_order();
    synced.shrink();
    let utxo_hash = synced.utxo_hash();
    let few_blocks = UndoFaults { blocks_max: 2, ..UndoFaults::default() };
    let few_coins = UndoFaults { coins_max: 40, ..UndoFaults::default() };
    let many_blocks = ["with which it is valid", "nor for 2 other blocks", "without --hints"];
    let many_coins = ["spend more than 40 coins", "that can be used", "without --hints"];
    for (undo_faults, words) in [(few_blocks, many_blocks), (few_coins, many_coins)] {
        let mut undo = records(&world);
        let mut of_synced = Vec::new();
        for (height, record) in &mut undo[119..140] {
            // The last byte is one of a script, without which the record cannot be read.
            of_synced.push((*height, record.clone()));
            record.pop();
        }
        let place = world.place();
        let source = world.write_source_with(&place, "source", &world.file_order(), &undo);
        let hints = world.write_hints(&place, world.height());
        let mut options = world.options(&place, Mode::Full, &hints);
        options.swiftsync.undo_faults = undo_faults;
        let due = Due(Blame::Disk, &[]);
        let sources = [source];
        let result = try_sync_with(&options, &sources);
        let text = result.as_ref().map_or_else(ToString::to_string, |_| String::new());
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert_due(&due, result, &text);
        assert_nothing_committed(&place, &text);
        assert_in_order_succeeds(&place, &sources, &utxo_hash, &text);
        // The same on a directory that has coins already.
        let place = synced.copy();
        let hints = world.write_hints(&place, world.height());
        let mut options = world.options(&place, Mode::Full, &hints);
        options.swiftsync.undo_faults = undo_faults;
        for (height, right) in &of_synced {
            overwrite_record(&place, &world, *height, right, |record| {
                *record.last_mut().unwrap() ^= 1;
            });
        }
        let undo_before = std::fs::read(place.network_dir().join("blocks/rev00000.dat")).unwrap();
        let text = try_reindex_with(&options).unwrap_err().to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert_unchanged(&place, &utxo_hash, &text);
        let undo_after = std::fs::read(place.network_dir().join("blocks/rev00000.dat")).unwrap();
        assert!(undo_before == undo_after, "{text}");
    }
}
