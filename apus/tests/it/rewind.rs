//! `apus rewind`: the UTXO set at a lower height, and up again.

use apus_disk::Disk;
use apus_node::{Options, Prune, SyncError};
use apus_progress::Watch;
use apus_sync as sync;
use apus_sync::Summary;
use apus_tools as tools;

use crate::pruned::{SPARE, options, sync_with, world as long_world};
use crate::support::Place;
use crate::support::judge::Judge;
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::{apus, assert_ends};
use crate::support::swift::{Mode, World, small_chain};

fn world() -> World {
    World::of(&small_chain(43, 60, 20_000))
}

fn rewind(place: &Place, height: u32) -> Result<Summary, SyncError> {
    tools::rewind(&place.in_order(), height, Watch::default())
}

/// The UTXO set at a height, by a sync that stops there.
fn set_at(world: &World, height: u32) -> (String, u64) {
    let place = world.place();
    let stop = Options { stop_at_height: Some(height), ..place.in_order() };
    sync_with(&place, &stop, &world.blocks);
    place.utxo_hash()
}

#[test]
fn the_set_is_that_of_the_height_and_goes_up_again() {
    let world = world();
    let place = world.in_order();
    let top = world.height();
    let tip = place.utxo_hash();
    for height in [top, top - 1, 120, 1, 0] {
        let summary = rewind(&place, height).unwrap();
        assert_eq!((summary.height, summary.interrupted), (height, false));
        assert_eq!(summary.best_block, world.hash(height));
        assert_eq!(place.utxo_hash(), set_at(&world, height), "{height}");
        let status = tools::status(&place.in_order()).unwrap();
        assert_eq!((status.height, status.headers, status.blocks_from), (height, top, 1));
    }
    // Core's engine connects the blocks that are stored, and so does a sync.
    let copy = place.copy();
    assert_eq!(Judge::open(&copy).expect("the engine opens it").tip(), (top, world.tip()));
    let again = sync::sync(&place.in_order(), &[], Watch::default()).unwrap();
    assert_eq!((again.height, again.counts.blocks), (top, u64::from(top)));
    assert_eq!(place.utxo_hash(), tip);
}

#[test]
fn what_cannot_be_undone_is_refused_before_anything_changes() {
    let world = world();
    let place = world.in_order();
    let high = apus(&place, &["rewind", "--height=5000"]);
    assert_ends(&high, 1, &["--height 5000 is above the tip, which is at height"]);
    assert_ends(&apus(&place, &["rewind"]), 2, &["--height"]);
    let none = world.place();
    assert_ends(&apus(&none, &["rewind", "--height=5"]), 1, &["there is no such directory"]);
    // SwiftSync leaves undo data of the last 288 blocks alone; pruning the last 288 blocks.
    let world = long_world();
    let swift = world.swift(Mode::AssumeValid, world.height());
    let pruned = world.place();
    sync_with(&pruned, &options(&pruned, Some(Prune::Target(SPARE))), &world.blocks);
    let words = ["its undo data is not stored; `apus reindex` writes it", "the block is pruned"];
    for (place, words) in [swift, pruned].iter().zip(words) {
        let before = place.utxo_hash();
        let error = rewind(place, 200).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(place.utxo_hash(), before);
        assert_eq!(rewind(place, world.height() - 250).unwrap().height, world.height() - 250);
    }
}

#[test]
fn power_may_fail_at_any_step_of_a_rewind() {
    let world = world();
    let base = world.in_order();
    base.shrink();
    let run = |place: &Place, disk: &Disk| {
        // Commits after every block.
        let options = Options { dbcache_bytes: 1, ..place.in_order() };
        tools::rewind_on(disk, &options, world.height() - 8, Watch::default())
    };
    let whole = base.copy();
    let (disk, counter) = counted();
    run(&whole, &disk).unwrap();
    let expected = whole.utxo_hash();
    let mut cuts = 0;
    for power in power_cuts(1..=counter.steps(), 13) {
        let place = base.copy();
        let _ = run(&place, &failing(&power));
        power.lose_unsynced().unwrap();
        let height = place.stats(tools::UtxoHash::None).height;
        assert!((world.height() - 8..=world.height()).contains(&height), "{height}");
        run(&place, &Disk::new()).unwrap();
        assert_eq!(place.utxo_hash(), expected, "{power:?}");
        cuts += 1;
    }
    println!("{cuts} power cuts, of {} steps", counter.steps());
}
