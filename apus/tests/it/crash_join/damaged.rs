//! Damage to what a join has saved, and to blocks that it has read, between two runs.

use apus_disk::Disk;
use apus_node::{AssumeValid, Options};
use apus_progress::Method;
use apus_progress::Phase;
use apus_testchain::Rng;
use apus_wire::Chain as Network;

use super::stopped::stopped;
use super::{BEGUN, Begun, Held, PASSES, Test, Watcher, join_dir};
use crate::join::draft::{Draft, pay};
use crate::join::refused::{TRUNK, assume_valid};
use crate::support::blocks::hash;
use crate::support::damage::{Kind, damage};
use crate::support::judge::Judge;
use crate::support::swift::World;
use crate::support::{Place, change_file};

/// Damages the records of a join.
fn damage_spill(place: &Place) {
    change_file(&join_dir(place).join("spill.dat"), |bytes| {
        bytes.iter_mut().step_by(16).for_each(|byte| *byte ^= 1);
    });
}

#[test]
fn damaged_records_are_said_and_the_join_starts_over() {
    let test = Test::small(95);
    for begun in BEGUN {
        for pass in PASSES {
            let what = format!("{begun:?}, stopped in {pass:?}");
            let place = stopped(&test, begun, pass);
            damage_spill(&place);
            let watch = test.finish(begun, &place, &what);
            // All blocks may have been checked before it stopped.
            if pass != Phase::JoinChecking || watch.seen()[0].is_some() {
                watch.told.assert_has(&["spill.dat", "CRC-32C", "starts over"]);
                assert!(watch.read_at_first().is_some(), "{what}: blocks are read again");
            }
        }
    }
}

#[test]
fn what_a_join_has_saved_and_is_damaged_or_gone_is_said() {
    let test = Test::small(97);
    for (name, is_gone) in [("progress", false), ("spill.dat", true), ("spill.dat", false)] {
        let place = stopped(&test, Begun::Above, Phase::JoinMatching);
        let path = join_dir(&place).join(name);
        if is_gone {
            std::fs::remove_file(path).unwrap()
        } else {
            change_file(&path, |bytes| bytes.truncate(bytes.len() - 1))
        }
        let watch = test.finish(Begun::Above, &place, name);
        watch.told.assert_has(&[name, "starts over"]);
    }
}

#[test]
fn with_damaged_records_a_sync_in_order_goes_on() {
    let test = Test::small(98);
    let place = stopped(&test, Begun::Above, Phase::JoinMatching);
    damage_spill(&place);
    let in_order = Options { method: Some(Method::InOrder), ..test.options(&place) };
    let summary = test.run(Begun::Above, &Disk::new(), &in_order, &Watcher::default());
    assert_eq!(summary.unwrap().best_block, test.world.tip());
    test.assert_right(&place, "in order");
}

/// The last pass reads block 40 again and block 10 not: both are damaged, and good copies are
/// written where they stood, beside the undo data of block 10.
#[test]
fn damaged_blocks_are_put_back_and_undo_data_stays_right() {
    let mut draft = Draft::new(TRUNK);
    for coin in 1..=15 {
        draft.add([pay([draft.coin(coin)], [7; 400])]);
    }
    let world = World::new(Network::Regtest, draft.bytes());
    let origin = world.place();
    let source = origin.write("blocks", &world.blocks);
    let right = Held::by(&world.in_order());
    let test = Test { world, _origin: origin, source, right };
    let place = test.begin(Begun::Empty);
    let run = |watch: &Watcher| {
        let mut options = Options { threads: 1, fast_prune: true, ..test.options(&place) };
        assume_valid(&mut options, hash(draft.at(30)));
        assert!(matches!(options.assumevalid, AssumeValid::Block(_)));
        test.run(Begun::Empty, &Disk::new(), &options, watch).unwrap()
    };
    assert!(run(&Watcher::stopping_in(Phase::JoinMatching)).interrupted);
    let file_of = |height: u32| {
        let entries = place.blocks().0.entries;
        let entry = entries.iter().find(|entry| entry.hash == test.world.hash(height)).unwrap();
        entry.block_pos().unwrap().file
    };
    let first = file_of(10);
    assert!(first == file_of(40) && first < file_of(test.world.height()));
    for height in [10, 40] {
        damage(&place, &test.world, Kind::Block, height, &mut Rng::new(u64::from(height), 1));
    }
    assert_eq!(run(&Watcher::default()).best_block, test.world.tip());
    assert_eq!((file_of(10), file_of(40)), (first, first), "the good copies are where they stood");
    test.assert_right(&place, "put back");
    Judge::open(&place).expect("the engine opens it").read_everything();
}
