//! Damage to what a join has saved, and to blocks that it has read, between two runs.

use apus::disk::Disk;
use apus::sync::{Method, Options, Phase};

use super::stopped::{change, stopped};
use super::{BEGUN, Begun, PASSES, Test, Watch, join_dir};
use crate::support::Place;

/// Damages the records of a join.
fn damage_spill(place: &Place) {
    change(&join_dir(place).join("spill.dat"), |bytes| {
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
                assert_eq!(watch.read_at_first(), Some(0), "{what}");
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
        match is_gone {
            true => std::fs::remove_file(path).unwrap(),
            false => change(&path, |bytes| bytes.truncate(bytes.len() - 1)),
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
    let in_order = Options { method: Method::InOrder, ..test.options(&place) };
    let summary = test.run(Begun::Above, &Disk::new(), &in_order, &Watch::default());
    assert_eq!(summary.unwrap().best_block, test.world.tip());
    test.assert_right(&place, "in order");
}
