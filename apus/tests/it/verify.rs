//! `apus verify`: it finds damage of every kind, and writes nothing.

use std::sync::atomic::AtomicBool;

use apus_node::{Options, Prune};
use apus_progress::Phase;
use apus_progress::Watch;
use apus_store::IndexKind;
use apus_sync::{Incomplete, Verified, Verify};
use apus_testchain::{Rng, rounds};
use apus_tools as tools;
use apus_wire::Chain;

use crate::pruned::{SPARE, options, sync_with, world as long_world};
use crate::support::chains::small;
use crate::support::damage::{KINDS, Kind, damage};
use crate::support::mounts::run_with_mounts;
use crate::support::program::{apus, assert_ends, stdout};
use crate::support::stop_when::StopWhen;
use crate::support::swift::{Mode, World, small_chain};
use crate::support::tree::tree;
use crate::support::{Place, first_table, with_genesis};

pub fn world() -> World {
    World::of(&small_chain(44, 60, 20_000))
}

fn verify(place: &Place, level: u8, blocks: u32) -> Verified {
    verify_with(&place.options(), level, blocks)
}

fn verify_with(options: &Options, level: u8, blocks: u32) -> Verified {
    tools::verify(options, Verify { level, blocks }, Watch::default()).unwrap()
}

/// The level that finds damage of a kind.
fn level_of(kind: Kind) -> u8 {
    match kind {
        Kind::Block => 1,
        Kind::Undo => 2,
        _ => 3,
    }
}

#[test]
fn a_sound_directory_passes_every_level_and_nothing_is_written() {
    let world = world();
    let place = world.in_order();
    place.shrink();
    let before = tree(&place.datadir());
    for level in 0..=4 {
        for (blocks, from) in [(6, world.height() - 5), (1, world.height()), (0, 1), (5000, 1)] {
            let found = verify(&place, level, blocks);
            assert!(found.is_sound() && found.is_complete(), "{found:?}");
            assert_eq!((found.height, found.best_block), (world.height(), world.tip()));
            assert_eq!(found.levels.len(), usize::from(level) + 1);
            assert!(found.levels.iter().all(|level| level.from == from), "{found:?}");
            assert_eq!(found.counts.blocks, u64::from(world.height() + 1 - from));
            assert_eq!(found.counts.scripts > 0, level == 4 && blocks != 1, "{found:?}");
        }
    }
    assert!(tree(&place.datadir()) == before, "something was written");
    // Nothing but the genesis block.
    let empty = world.place();
    empty.sync_blocks("genesis", &world.blocks[..1]);
    let found = verify(&empty, 4, 0);
    assert!(found.is_sound() && found.is_complete() && found.height == 0, "{found:?}");
}

#[test]
fn damage_of_every_kind_is_found_at_its_level() {
    let world = world();
    let base = world.in_order();
    base.shrink();
    let mut rng = Rng::new(13, 0);
    for (round, kind) in (0..rounds(2)).flat_map(|round| KINDS.map(|kind| (round, kind))) {
        let place = base.copy();
        // Blocks above the last three have transactions.
        let depth = 4 + rng.below(40) as u32;
        let height = world.height() - depth;
        let path = damage(&place, &world, kind, height, &mut rng);
        let what = format!("{kind:?} at {height}, round {round}");
        let level = level_of(kind);
        if level > 1 {
            assert!(verify(&place, level - 1, 0).is_sound(), "{what}");
        }
        // Not among the blocks above.
        let above = verify(&place, 4, depth);
        assert!(above.is_sound() && above.is_complete(), "{what}: {above:?}");
        for level in level..=4 {
            let found = verify(&place, level, depth + 1);
            assert!(!found.is_sound(), "{what}, level {level}");
            let first = &found.damage.listed[0];
            let error = first.error.to_string();
            assert_eq!((first.height, first.block), (height, world.hash(height)), "{error}");
            assert_eq!(first.error.path, path, "{error}");
            assert_eq!(first.error.offset.is_some(), level_of(kind) < 3, "{error}");
            let remedy = if level_of(kind) < 2 { "`apus sync --from`" } else { "`apus reindex" };
            assert!(error.contains(remedy), "{error}");
            if level == 4 {
                assert_eq!(found.levels[4].ended, Some(Incomplete::Damaged), "{what}");
            }
        }
    }
}

/// Several pieces of damage are all found, and what the program says of them.
#[test]
fn the_program_names_all_damage_and_its_repair() {
    let world = world();
    let place = world.in_order();
    let mut rng = Rng::new(14, 0);
    let top = world.height();
    damage(&place, &world, Kind::Amount, top - 4, &mut rng);
    damage(&place, &world, Kind::Undo, top - 6, &mut rng);
    damage(&place, &world, Kind::Block, top - 8, &mut rng);
    assert_ends(&apus(&place, &["verify", "--blocks=4"]), 0, &[]);
    let output = apus(&place, &["verify", "--blocks=20"]);
    let words = [
        "Damaged, at level 3: block",
        "chainstate: the coin ",
        "`apus reindex` rebuilds the chainstate",
        "rev00000.dat at byte",
        "`apus reindex --index` writes the undo data again",
        "blk00000.dat at byte",
        "`apus sync --from` a node or a file that has its blocks, which stores them again",
    ];
    assert_ends(&output, 1, &words);
    assert!(stdout(&output).contains("Damage found: 3"), "{}", stdout(&output));
    let output = apus(&place, &["verify", "-checkblocks=20", "-checklevel=2", "--json"]);
    assert_ends(&output, 1, &[]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["ok"], &json["damage_count"]), (&false.into(), &2.into()), "{json}");
    assert_eq!(json["damaged"][0]["height"], top - 6);
    assert!(json["damaged"][1]["file"].as_str().unwrap().ends_with("blk00000.dat"), "{json}");
    assert!(json["damaged"][1]["offset"].as_u64().unwrap() > 8);
    assert_ends(&apus(&place, &["verify", "--level=5"]), 2, &["0..=4"]);
    assert_ends(&apus(&world.place(), &["verify"]), 1, &["there is no such directory"]);
}

#[test]
fn level_3_stays_in_the_cache_and_says_how_far_it_came() {
    let world = long_world();
    let place = world.in_order();
    let mut last = world.height() + 1;
    for (dbcache_bytes, is_all) in [(1, false), (600_000, false), (100 << 20, true)] {
        let found = verify_with(&Options { dbcache_bytes, ..place.options() }, 4, 0);
        assert!(found.is_sound(), "{found:?}");
        let [.., undo, third, fourth] = found.levels[..] else { panic!("{found:?}") };
        assert_eq!((undo.from, undo.ended), (1, None));
        assert!(third.from <= last && (third.from == 1) == is_all, "{found:?}");
        assert_eq!(third.ended, (!is_all).then_some(Incomplete::CacheFull));
        // What was taken back is connected again.
        assert_eq!((fourth.from, fourth.ended), (third.from, third.ended));
        assert_eq!(found.is_complete(), is_all);
        last = third.from;
    }
}

#[test]
fn pruned_directories_and_those_of_swiftsync_are_verified() {
    let world = long_world();
    let swift = world.swift(Mode::AssumeValid, world.height());
    let pruned = world.place();
    sync_with(&pruned, &options(&pruned, Some(Prune::Target(SPARE))), &world.blocks);
    let before = tree(&pruned.datadir());
    let status = tools::status(&pruned.options()).unwrap();
    for (place, from, undo_from, why) in [
        (&swift, 1, world.height() - 287, Incomplete::NoUndo),
        (&pruned, status.blocks_from, status.blocks_from, Incomplete::Pruned),
    ] {
        let found = verify(place, 4, 0);
        assert!(found.is_sound() && !found.is_complete(), "{found:?}");
        let reached: Vec<_> = found.levels.iter().map(|level| level.from).collect();
        assert_eq!(reached, [from, from, undo_from, undo_from, undo_from]);
        assert!(found.levels[2..].iter().all(|level| level.ended == Some(why)), "{found:?}");
        let enough = verify(place, 4, 288);
        assert!(enough.is_sound() && enough.is_complete(), "{enough:?}");
    }
    assert!(tree(&pruned.datadir()) == before, "something was written");
    // No rebuild can repair what lacks its blocks.
    damage(&pruned, &world, Kind::Removed, world.height() - 4, &mut Rng::new(15, 0));
    let found = verify(&pruned, 3, 0);
    let error = found.damage.listed[0].error.to_string();
    assert!(error.contains("is missing; blocks that a repair needs are pruned"), "{error}");
}

#[test]
fn a_stop_ends_it_with_what_was_found() {
    let world = long_world();
    let place = world.in_order();
    for phase in [Phase::Verifying, Phase::Connecting] {
        let stop = AtomicBool::new(false);
        let observer =
            StopWhen(&stop, |progress: &apus_progress::Progress| progress.phase == phase);
        let asked = Verify { level: 4, blocks: 0 };
        let found = tools::verify(&place.options(), asked, Watch::new(&observer, &stop)).unwrap();
        assert!(found.interrupted && found.is_sound() && !found.is_complete(), "{found:?}");
        assert_eq!(found.levels[4].ended, Some(Incomplete::Stopped), "{found:?}");
        let is_below = found.levels[0].from == 1;
        assert_eq!(is_below, phase == Phase::Connecting, "{found:?}");
    }
}

#[test]
fn a_read_only_mount_and_other_readers_do_not_matter() {
    let world = world();
    let place = world.in_order();
    let _reader = tools::status(&place.options()).unwrap();
    let script = "mount --bind datadir datadir; mount -o remount,ro,bind datadir
        $apus verify --regtest --datadir datadir --level 4 --blocks 0 &
        $apus verify --regtest --datadir datadir --level 4 --blocks 0; wait $!";
    if let Some(output) = run_with_mounts(place.root(), &[], script) {
        assert_ends(&output, 0, &[]);
        assert_eq!(stdout(&output).matches("No damage found").count(), 2, "{}", stdout(&output));
    }
}

#[test]
fn damaged_indexes_are_found_and_named() {
    let whole = Place::new(Chain::Regtest);
    whole.sync_blocks("main", &with_genesis(small(5)));
    assert_ends(
        &apus(
            &whole,
            &["index", "txindex", "txospenderindex", "blockfilterindex", "coinstatsindex"],
        ),
        0,
        &[],
    );
    assert_ends(&apus(&whole, &["verify", "--blocks=0"]), 0, &[]);
    let database = |place: &Place, kind: IndexKind| kind.database(&place.network_dir());
    for kind in IndexKind::ALL {
        let command = format!("`apus index {}`", kind.name());
        // A table that is missing is found when the index is opened; a bit, when it is read.
        for (is_missing, args) in
            [(true, &["verify"][..]), (false, &["verify", "--blocks=0", "--json"])]
        {
            let place = whole.copy();
            let table = first_table(&database(&place, kind));
            let mut bytes = std::fs::read(&table).unwrap();
            bytes[20] ^= 8;
            std::fs::remove_file(&table).unwrap();
            if !is_missing {
                std::fs::write(&table, bytes).unwrap();
            }
            let found = apus(&place, args);
            assert_ends(&found, 1, &["Damaged: the index", kind.name(), &command]);
            if !is_missing {
                let json: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
                assert_eq!(json["damaged_indexes"][0]["index"], kind.name(), "{json}");
            }
        }
    }
    let place = whole.copy();
    std::fs::write(place.network_dir().join("indexes/blockfilter/basic/fltr00000.dat"), [1; 60])
        .unwrap();
    let words = ["Damaged: the index", "fltr00000.dat", "`apus index blockfilterindex`"];
    assert_ends(&apus(&place, &["verify"]), 1, &words);
}
