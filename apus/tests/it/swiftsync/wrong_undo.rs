//! Wrong undo data, in the rev files of a source and in the directory's own. Full mode takes every
//! coin from undo data, and trusts none of it.

use std::path::Path;

use apus_coins::{Coin, CompactScript};

use super::refusals::{
    Blame, Due, assert_due, assert_in_order_succeeds, assert_nothing_committed, assert_unchanged,
};
use crate::support::Place;
use crate::support::model::{Deeds, encode_undo};
use crate::support::swift::{Mode, World, frame_undo, small_chain, try_reindex_with};
use crate::support::undo_files::{overwrite_record, overwrite_undo};

const UNBALANCED: Due = Due(Blame::Hints, &["or undo data is wrong"]);
const REFUSED: Due = Due(Blame::Block, &["its undo data is wrong"]);
const ABSENT: Due = Due(Blame::Disk, &["no undo data for block", "without --hints"]);

/// A P2PKH coin, whose signatures do not commit to amounts.
fn is_p2pkh(coin: &Coin) -> bool {
    coin.script.as_bytes().first() == Some(&0)
}

struct Edit {
    name: &'static str,
    due: Due,
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
        due: UNBALANCED,
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height,
        change: |coin, _| coin.amount += 1,
        as_long: false,
    },
    Edit {
        name: "an amount is nothing",
        due: Due(Blame::Block, &["bad-txns-in-belowout"]),
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height && coin.amount > 50_000_000,
        change: |coin, _| coin.amount = 0,
        as_long: false,
    },
    Edit {
        name: "a height is one less",
        due: UNBALANCED,
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height && !coin.is_coinbase,
        change: |coin, _| coin.height -= 1,
        as_long: true,
    },
    Edit {
        name: "a height is the block's own",
        due: Due(Blame::Block, &["its undo data is wrong", "is not from an earlier block"]),
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height && coin.height > 70,
        change: |coin, height| coin.height = height,
        as_long: true,
    },
    Edit {
        name: "a young coin is called a coinbase's",
        due: Due(Blame::Block, &["bad-txns-premature-spend-of-coinbase"]),
        wanted: |coin, height| coin.height < height && !coin.is_coinbase,
        change: |coin, _| coin.is_coinbase = true,
        as_long: true,
    },
    Edit {
        name: "a coinbase's coin is called another's",
        due: UNBALANCED,
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height && coin.is_coinbase,
        change: |coin, _| coin.is_coinbase = false,
        as_long: true,
    },
    Edit {
        name: "a script is another key's",
        due: Due(Blame::Block, &["block-script-verify-flag-failed"]),
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height,
        change: |coin, _| {
            let script = [&[0x76, 0xa9, 20][..], &[7; 20], &[0x88, 0xac]].concat();
            coin.script = CompactScript::new(&script);
        },
        as_long: true,
    },
    Edit {
        name: "a script lets everybody spend",
        due: UNBALANCED,
        wanted: |coin, height| is_p2pkh(coin) && coin.height < height,
        change: |coin, _| coin.script = CompactScript::new(&[0x51]),
        as_long: false,
    },
    Edit {
        name: "a coin of the block itself is another",
        due: Due(Blame::Block, &["its undo data is wrong", "is not from an earlier block"]),
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

/// Runs SwiftSync in full mode from a source with this undo data.
fn check(world: &World, name: &str, undo: &[(u32, Vec<u8>)], due: &Due, muhash: &(String, u64)) {
    check_source(world, name, due, muhash, |place| {
        world.write_source_with(place, "source", &world.file_order(), undo);
    });
}

fn check_source(
    world: &World,
    name: &str,
    due: &Due,
    muhash: &(String, u64),
    write: impl FnOnce(&Place),
) {
    let place = world.place();
    write(&place);
    let hints = world.write_hints(&place, world.height());
    let sources = [place.root().join("source")];
    assert_due(due, world.try_swift(&place, Mode::Full, &hints, &sources), name);
    assert_nothing_committed(&place, name);
    assert_in_order_succeeds(&place, &sources, muhash, name);
}

#[test]
fn a_changed_coin_is_refused() {
    let world = World::of(&small_chain(51, 40, 6_000));
    let muhash = world.in_order().muhash();
    for edit in &EDITS {
        let (height, changed) = edit.apply(&world);
        let mut undo = records(&world);
        undo[height as usize - 1].1 = changed;
        check(&world, edit.name, &undo, &edit.due, &muhash);
    }
    // In assumevalid mode undo data is not needed.
    let place = world.place();
    let (height, changed) = EDITS[0].apply(&world);
    let mut undo = records(&world);
    undo[height as usize - 1].1 = changed;
    let source = world.write_source_with(&place, "source", &world.file_order(), &undo);
    let hints = world.write_hints(&place, world.height());
    world.try_swift(&place, Mode::AssumeValid, &hints, &[source]).unwrap();
    assert_eq!(place.muhash(), muhash);
}

#[test]
fn records_that_do_not_belong_are_refused() {
    let chain = small_chain(52, 40, 6_000);
    let world = World::of(&chain);
    let muhash = world.in_order().muhash();
    let right = records(&world);
    let txs = |height: u32| world.model.blocks[height as usize].undo.len();
    let busy: Vec<u32> = (1..=world.height()).filter(|height| txs(*height) > 3).collect();
    let a = busy[3] as usize - 1;
    let b = busy[9] as usize - 1;
    let spoil = |name, due, change: &dyn Fn(&mut Records)| {
        let mut undo = right.clone();
        change(&mut undo);
        check(&world, name, &undo, &due, &muhash);
    };
    spoil("two blocks' undo data swapped", REFUSED, &|undo| {
        let other = std::mem::replace(&mut undo[a].1, right[b].1.clone());
        undo[b].1 = other;
    });
    spoil("a record is missing", REFUSED, &|undo| drop(undo.remove(a)));
    spoil("it is cut short by a byte", REFUSED, &|undo| {
        undo[a].1.truncate(right[a].1.len() - 1);
    });
    spoil("a byte behind its end", REFUSED, &|undo| undo[a].1.push(0));
    let edit = |change: &dyn Fn(&mut Vec<Vec<Coin>>)| {
        let mut txs = world.model.blocks[a + 1].undo.clone();
        change(&mut txs);
        encode_undo(&txs)
    };
    let fewer = edit(&|txs| drop(txs[0].pop()));
    spoil("a coin too few", REFUSED, &|undo| undo[a].1 = fewer.clone());
    let more = edit(&|txs| {
        let coin = txs[0][0].clone();
        txs[0].push(coin);
    });
    spoil("a coin too many", REFUSED, &|undo| undo[a].1 = more.clone());
    let fewer = edit(&|txs| drop(txs.pop()));
    spoil("a transaction too few", REFUSED, &|undo| undo[a].1 = fewer.clone());
    let swapped = edit(&|txs| txs.swap(0, 1));
    spoil("two transactions swapped", Due(Blame::Block, &[]), &|undo| undo[a].1 = swapped.clone());
    let sibling = World::of(&chain.fork(busy[3] - 1, 1, 2)).model.undo(busy[3]);
    spoil("a stale sibling's", Due(Blame::Block, &[]), &|undo| undo[a].1 = sibling.clone());
    // Next to the right record a wrong one does no harm, in any order of records.
    let place = world.place();
    let mut undo = right.clone();
    undo.insert(a, (busy[3], sibling));
    undo.reverse();
    let source = world.write_source_with(&place, "source", &world.shuffled(6), &undo);
    let hints = world.write_hints(&place, world.height());
    world.try_swift(&place, Mode::Full, &hints, &[source]).unwrap();
    assert_eq!(place.muhash(), muhash);
}

#[test]
fn damaged_rev_files_are_refused() {
    let world = World::of(&small_chain(53, 30, 5_000));
    let muhash = world.in_order().muhash();
    let spoil = |name: &str, due: &Due, change: &dyn Fn(&Path)| {
        check_source(&world, name, due, &muhash, |place| {
            let source = world.write_source(place, "source", &world.file_order());
            change(&source.join("rev00000.dat"));
        });
    };
    let rewrite = |path: &Path, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = std::fs::read(path).unwrap();
        change(&mut bytes);
        std::fs::write(path, bytes).unwrap();
    };
    spoil("no rev file", &ABSENT, &|rev| std::fs::remove_file(rev).unwrap());
    spoil("an empty rev file", &REFUSED, &|rev| std::fs::write(rev, b"").unwrap());
    spoil("half a rev file", &REFUSED, &|rev| {
        rewrite(rev, &|bytes| bytes.truncate(bytes.len() / 2));
    });
    spoil("a flipped bit in a record", &REFUSED, &|rev| {
        rewrite(rev, &|bytes| {
            let at = bytes.len() * 3 / 4;
            bytes[at] ^= 4;
        });
    });
    let record = |height: u32| {
        let prev = world.hash(height - 1);
        frame_undo(&world.place().network.magic, &prev, &world.model.undo(height)).len()
    };
    let third_last: usize = (world.height() - 5..=world.height()).map(record).sum();
    spoil("a bad checksum", &REFUSED, &|rev| {
        rewrite(rev, &|bytes| {
            let at = bytes.len() - third_last - 1;
            bytes[at] ^= 1;
        });
    });
    let to_last_busy: usize = (1..=120).map(record).sum();
    spoil("the magic of a record", &REFUSED, &|rev| {
        rewrite(rev, &|bytes| bytes[to_last_busy] ^= 1);
    });
}

#[test]
fn wrong_undo_data_of_our_own_stops_a_reindex() {
    let world = World::of(&small_chain(51, 40, 6_000));
    let place = world.in_order();
    place.shrink();
    let muhash = place.muhash();
    let hints = world.write_hints(&place, world.height());
    let options = world.options(&place, Mode::Full, &hints);
    for edit in EDITS.iter().filter(|edit| edit.as_long) {
        let (height, changed) = edit.apply(&world);
        overwrite_undo(&place, &world, height, &changed);
        assert_due(&edit.due, try_reindex_with(&options), edit.name);
        assert_unchanged(&place, &muhash, edit.name);
        overwrite_undo(&place, &world, height, &world.model.undo(height));
    }
    overwrite_record(&place, &world, 130, &world.model.undo(130), |record| {
        *record.last_mut().unwrap() ^= 1;
    });
    let due = Due(Blame::Block, &["rev00000.dat", "at byte", "checksum"]);
    assert_due(&due, try_reindex_with(&options), "a bad checksum");
    assert_unchanged(&place, &muhash, "a bad checksum");
    overwrite_undo(&place, &world, 130, &world.model.undo(130));
    // Once the undo data is repaired, the run succeeds.
    assert_eq!(try_reindex_with(&options).unwrap().best_block, world.tip());
    assert_eq!(place.muhash(), muhash);
}
