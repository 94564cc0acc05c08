//! The check on start, as bitcoind makes it: a command that goes on with the UTXO set first holds
//! the last blocks against it.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use apus_node::StartCheck;
use apus_node::{Options, Prune, SyncError};
use apus_progress::Watch;
use apus_progress::{Observer, Phase, Progress};
use apus_sync as sync;
use apus_testchain::Rng;
use apus_tools as tools;

use crate::pruned::{SPARE, options, sync_with, world as long_world};
use crate::support::damage::{KINDS, Kind, damage};
use crate::support::judge::Judge;
use crate::support::program::{apus, assert_ends, stdout};
use crate::support::swift::World;
use crate::support::{Place, change_file, first_table};
use crate::verify::world;

/// The error of a sync that has nothing to connect.
fn refused(place: &Place, options: &Options) -> SyncError {
    let synced = sync::sync(options, &[], Watch::default());
    synced.expect_err(&format!("{} is damaged", place.datadir().display()))
}

/// Damages a coin of the block at this depth below the tip.
fn damage_coin(place: &Place, world: &World, depth: u32) {
    damage(place, world, Kind::Removed, world.height() - depth, &mut Rng::new(19, 0));
}

#[test]
fn a_sync_with_nothing_to_connect_finds_damaged_coins() {
    let world = world();
    let base = world.in_order();
    let coins = base.utxo_hash();
    let top = world.height();
    for damaged in [
        |place: &Place, world: &World| damage_coin(place, world, 2),
        |place: &Place, _: &World| {
            change_file(&first_table(&place.network_dir().join("chainstate")), |bytes| {
                // All coins but the first and the last; what is read to open the table stays.
                let end = bytes.len() / 4 * 3;
                assert!(end > 20_000, "{} bytes", bytes.len());
                bytes[5_000..end].iter_mut().step_by(1_000).for_each(|byte| *byte ^= 4);
            });
        },
    ] {
        let place = base.copy();
        damaged(&place, &world);
        let output = apus(&place, &["sync", "--connect=0"]);
        let words = ["/chainstate", "`apus reindex` rebuilds the chainstate from the blocks"];
        assert_ends(&output, 1, &words);
        assert_eq!(stdout(&output), "");
        // What builds the set anew does not check the old one.
        let built = place.try_reindex().unwrap();
        assert_eq!((built.height, place.utxo_hash()), (top, coins.clone()));
        assert_ends(&apus(&place, &["sync", "--connect=0"]), 0, &[]);
    }
}

#[test]
fn damage_of_every_kind_in_the_last_six_blocks_is_found() {
    let world = world();
    let base = world.in_order();
    let mut rng = Rng::new(20, 0);
    for kind in KINDS {
        let place = base.copy();
        // Of these, the last three have a coinbase alone.
        let path = damage(&place, &world, kind, world.height() - 4, &mut rng);
        let text = refused(&place, &place.options()).to_string();
        let block = world.hash(world.height() - 4).to_string();
        let height = format!("at height {}", world.height() - 4);
        for words in [path.to_str().unwrap(), &block, &height, "`apus "] {
            assert!(text.contains(words), "{kind:?}: '{words}' is not in: {text}");
        }
        assert_eq!(text.matches("`apus reindex").count() + text.matches("replaces it").count(), 1);
        // Core's engine refuses it as well, but for witnesses, which it does not hash here.
        assert!(kind == Kind::Block || Judge::open(&place.copy()).is_err(), "{kind:?}");
        // The seventh block from the tip is not checked.
        let place = base.copy();
        damage(&place, &world, kind, world.height() - 6, &mut rng);
        let synced = place.try_sync(&[]);
        assert!(synced.is_ok() && Judge::open(&place).is_ok(), "{kind:?}: {synced:?}");
    }
}

#[test]
fn the_options_of_core_say_how_much_is_checked() {
    let world = world();
    let place = world.in_order();
    let sync = |args: &[&str]| apus(&place, &[&["sync", "--connect=0"][..], args].concat());
    let before = place.utxo_hash();
    for level in ["0", "1", "2", "3", "4"] {
        let output = sync(&[&format!("-checklevel={level}"), "-checkblocks=0", "--json"]);
        assert_ends(&output, 0, &[]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        // What was checked is no work of the sync, and leaves nothing behind.
        assert_eq!((&json["blocks"], &json["scripts_checked"]), (&0.into(), &0.into()), "{json}");
        assert_eq!(json["height"], world.height());
        assert_eq!(json["coins"], before.1);
    }
    assert_eq!(place.utxo_hash(), before);
    damage_coin(&place, &world, 8);
    for (args, code) in [
        (&[][..], 0),
        (&["-checkblocks=8"], 0),
        (&["-checkblocks=9"], 1),
        (&["-checkblocks=0"], 1),
        (&["-checkblocks=9", "-checklevel=2"], 0),
        (&["-checkblocks=9", "-checklevel=4"], 1),
        (&["-checklevel=5"], 2),
    ] {
        let words: &[&str] =
            if code == 1 { &["the coin", "is missing", "`apus reindex`"] } else { &[] };
        assert_ends(&sync(args), code, words);
    }
    // Settings count, too, as Core takes them.
    let conf = |text: &str| std::fs::write(place.datadir().join("bitcoin.conf"), text).unwrap();
    for (text, code) in [
        ("[regtest]\ncheckblocks=9\n", 1),
        ("[regtest]\ncheckblocks=-1\nchecklevel=9\n", 1),
        ("[regtest]\ncheckblocks=9\nchecklevel=-1\n", 0),
    ] {
        conf(text);
        assert_ends(&sync(&[]), code, &[]);
        assert_ends(&sync(&["-checkblocks=1", "-checklevel=0"]), 0, &[]);
    }
    // A rebuild checks every block anyway.
    assert_ends(&apus(&place, &["reindex", "-checkblocks=1"]), 2, &["--checkblocks"]);
    assert_ends(&apus(&place, &["reindex"]), 0, &[]);
    assert_eq!(place.utxo_hash(), before);
}

/// What these commands change cannot be repaired afterwards.
#[test]
fn nothing_is_rewound_or_pruned_where_coins_are_damaged() {
    let world = long_world();
    let place = world.place();
    sync_with(&place, &options(&place, None), &world.blocks);
    damage_coin(&place, &world, 5);
    for args in [&["rewind", "--height=500"][..], &["prune", "--height=300", "-fastprune"]] {
        assert_ends(&apus(&place, args), 1, &["the coin", "`apus reindex` rebuilds"]);
    }
    assert!(!tools::status(&place.options()).unwrap().pruned);
    assert_eq!(place.try_reindex().unwrap().best_block, world.tip());
    assert_ends(&apus(&place, &["rewind", "--height=600"]), 0, &[]);
}

#[test]
fn a_pruned_directory_names_what_repairs_it() {
    let world = long_world();
    let place = world.place();
    let target = options(&place, Some(Prune::Target(SPARE)));
    sync_with(&place, &target, &world.blocks);
    damage_coin(&place, &world, 5);
    let text = refused(&place, &target).to_string();
    assert!(text.contains("are pruned: `apus sync` into an empty directory"), "{text}");
    assert!(!text.contains("reindex"), "{text}");
}

#[test]
fn a_damaged_block_is_replaced_where_others_have_it() {
    let world = world();
    let place = world.in_order();
    let coins = place.utxo_hash();
    let path = damage(&place, &world, Kind::Block, world.height() - 4, &mut Rng::new(21, 0));
    let source = |name: &str, blocks: &[Vec<u8>]| vec![place.write(name, blocks)];
    let poor = source("poor", &world.blocks[..100]);
    let text = place.try_sync(&poor).unwrap_err().to_string();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    assert!(text.contains("no good copy is among the files given with --from"), "{text}");
    let summary = place.sync(&source("good", &world.blocks));
    let reasons: Vec<&str> = summary.repaired.iter().map(|r| r.reason.as_str()).collect();
    assert!(reasons.len() == 1 && reasons[0].contains("was replaced by"), "{reasons:?}");
    assert_eq!((summary.height, place.utxo_hash()), (world.height(), coins));
    // What was damaged below it as well is found once the block is there.
    damage(&place, &world, Kind::Block, world.height() - 3, &mut Rng::new(22, 0));
    damage_coin(&place, &world, 4);
    let text = place.try_sync(&source("good", &world.blocks)).unwrap_err().to_string();
    assert!(text.contains("the coin"), "{text}");
}

/// Notes the blocks that are checked.
#[derive(Default)]
struct Seen(Mutex<Vec<u64>>);

impl Observer for Seen {
    fn observe(&self, progress: &Progress) {
        if progress.phase == Phase::Verifying {
            assert_eq!(progress.blocks_all, 6);
            self.0.lock().unwrap().push(progress.blocks);
        }
    }
}

#[test]
fn each_block_that_is_checked_is_progress() {
    let world = world();
    let place = world.in_order();
    let seen = Seen::default();
    sync::sync(&place.options(), &[], Watch::new(&seen, &AtomicBool::new(false))).unwrap();
    let mut blocks = seen.0.into_inner().unwrap();
    blocks.sort_unstable();
    assert_eq!(blocks, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_cache_too_small_for_what_was_asked_is_an_error() {
    let world = long_world();
    let place = world.in_order();
    let small = Options { dbcache_bytes: 1, ..place.options() };
    // Six blocks were not asked for.
    sync::sync(&small, &[], Watch::default()).unwrap();
    let all = Options { start_check: StartCheck { blocks: 0, ..small.start_check }, ..small };
    let text = refused(&place, &all).to_string();
    assert!(text.contains("checkblocks") && text.contains("dbcache"), "{text}");
}
