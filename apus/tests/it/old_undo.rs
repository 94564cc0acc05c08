//! Undo data that Bitcoin Core before 0.15 wrote: it has the heights of few coins. What disconnects
//! blocks finds them where Core finds them, and what needs them and cannot find them refuses. No
//! coin ever gets a wrong height.

use std::sync::LazyLock;

use apus_node::{AssumeValid, Options};
use apus_progress::Method;
use apus_progress::Watch;
use apus_store::IndexKind;
use apus_sync as sync;
use apus_sync::Verify;
use apus_tables::ChainReader;
use apus_tools as tools;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::server::client::Running;
use crate::support::chains::{small, small_fork};
use crate::support::indexes::{entries, try_index};
use crate::support::judge::Judge;
use crate::support::program::{apus, assert_contains, assert_ends};
use crate::support::swift::{Mode, World};
use crate::support::undo_files::{OldUndo, make_old, old_undo};
use crate::support::{Place, with_genesis};

/// What every refusal names: the cause and the command that helps.
const NAMED: [&str; 2] = ["Bitcoin Core before 0.15", "`apus reindex --index` writes it again"];

/// A chain, and a directory that was synced in order.
static NEW: LazyLock<(World, Place)> = LazyLock::new(|| {
    let world = World::of(small(5));
    let place = world.in_order();
    place.shrink();
    (world, place)
});

/// Returns a copy of the directory with old undo data from a height on.
fn old_from(form: OldUndo, from: u32) -> Place {
    let (world, place) = &*NEW;
    let old = place.copy();
    make_old(&old, world, form, from..world.height() + 1);
    old
}

fn rewind(place: &Place, height: u32, dbcache_bytes: usize) -> Result<(), String> {
    let options = Options { dbcache_bytes, ..place.in_order() };
    let rewound = tools::rewind(&options, height, Watch::default());
    rewound.map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_rewind_restores_the_same_coins_as_with_new_undo_data() {
    let (world, place) = &*NEW;
    // With a small cache each block is committed before the next is disconnected.
    for dbcache in [450 << 20, 1] {
        let new = place.copy();
        let old = old_from(OldUndo::LastOnly, 1);
        for height in [world.height() - 1, 170, 120, 1] {
            rewind(&new, height, dbcache).unwrap();
            rewind(&old, height, dbcache).unwrap();
            assert_eq!(old.utxo_hash(), new.utxo_hash(), "height {height}, dbcache {dbcache}");
        }
        assert_eq!(sync::sync(&old.options(), &[], Watch::default()).unwrap().height, 200);
        assert_eq!(old.utxo_hash(), place.utxo_hash());
    }
}

#[test]
fn a_reorganisation_leaves_the_same_coins_as_cores_engine() {
    let fork = with_genesis(small_fork(5, 140, 70, 4));
    let alone = Place::new(apus_wire::Chain::Regtest);
    alone.sync_blocks("fork", &fork);
    let ours = old_from(OldUndo::LastOnly, 1);
    let theirs = old_from(OldUndo::LastOnly, 1);
    assert_eq!(ours.sync_blocks("fork", &fork).height, 210);
    {
        let judge = Judge::open(&theirs).unwrap();
        judge.process(&fork[141..]);
        assert_eq!(judge.tip().0, 210);
    }
    assert_eq!(ours.utxo_hash(), alone.utxo_hash());
    assert_eq!(theirs.utxo_hash(), alone.utxo_hash());
}

#[test]
fn verify_finds_no_damage_at_any_level() {
    let old = old_from(OldUndo::LastOnly, 1);
    for level in 0..=4 {
        let asked = Verify { level, blocks: 0 };
        let found = tools::verify(&old.options(), asked, Watch::default()).unwrap();
        assert!(found.is_sound() && found.is_complete(), "{found:?}");
        assert!(found.levels.iter().all(|level| level.from == 1), "{found:?}");
    }
}

/// No version of Core wrote this: no output of some transaction has its height.
#[test]
fn what_no_other_output_tells_is_refused_before_anything_changes() {
    let (world, place) = &*NEW;
    let old = old_from(OldUndo::Nothing, 1);
    let before = old.utxo_hash();
    let asked = Verify { level: 4, blocks: 0 };
    let found = tools::verify(&old.options(), asked, Watch::default()).unwrap();
    let [damage] = &found.damage.listed[..] else { panic!("{found:?}") };
    assert_eq!(damage.level, 3);
    let rewound = rewind(&old, 100, 450 << 20).unwrap_err();
    for message in [damage.error.to_string(), rewound] {
        let words = [&["rev00000.dat", "the height of the coin "][..], &NAMED].concat();
        assert_contains(&message, &words);
    }
    assert_eq!(old.utxo_hash(), before);
    // The command that is named helps.
    assert_ends(&apus(&old, &["reindex", "--index", "--assumevalid=0"]), 0, &[]);
    assert_eq!(old.undo(), place.undo());
    rewind(&old, 100, 450 << 20).unwrap();
    let new = place.copy();
    rewind(&new, 100, 450 << 20).unwrap();
    assert_eq!(old.utxo_hash(), new.utxo_hash());
    assert_eq!(world.hash(100), old.stats(tools::UtxoHash::None).best_block);
}

#[test]
fn what_needs_heights_refuses_and_writes_nothing() {
    let (_, place) = &*NEW;
    let old = old_from(OldUndo::LastOnly, 1);
    for what in [
        &["snapshot", "create", "--height=150", "-o", "utxo.dat"][..],
        &["hints", "create", "--height=150", "-o", "a.hints"],
        &["export", "inputs", "-o", "inputs.csv"],
    ] {
        let mut args: Vec<String> = what.iter().map(|arg| arg.to_string()).collect();
        let file = old.root().join(args.pop().unwrap());
        args.push(file.display().to_string());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert_ends(&apus(&old, &args), 1, &NAMED);
        assert!(!file.exists(), "{what:?}");
    }
    assert_ends(&apus(&old, &["index", "coinstatsindex"]), 1, &NAMED);
    let reader = ChainReader::open(&old.options(), &apus_progress::Unobserved).unwrap();
    let spent = |height| reader.spent(height).map_err(|error| error.to_string());
    let refused = (1..=200).filter_map(|height| spent(height).err());
    let refused: Vec<String> = refused.collect();
    assert!(!refused.is_empty());
    assert!(refused.iter().all(|error| NAMED.iter().all(|word| error.contains(word))));
    drop(reader);
    assert_eq!(old.utxo_hash(), place.utxo_hash());
}

#[test]
fn what_needs_no_heights_is_the_same_as_with_new_undo_data() {
    let (_, place) = &*NEW;
    let new = place.copy();
    let old = old_from(OldUndo::LastOnly, 1);
    let made = |place: &Place, table: &str| {
        let path = place.root().join(format!("{table}.csv"));
        let output = apus(place, &["export", table, "-o", path.to_str().unwrap()]);
        assert_ends(&output, 0, &[]);
        std::fs::read(path).unwrap()
    };
    for table in ["blocks", "transactions"] {
        assert!(made(&old, table) == made(&new, table), "{table}");
    }
    let filters = [&new, &old].map(|place| {
        try_index(place, &[IndexKind::BlockFilterIndex]).unwrap();
        entries(&place.network_dir(), IndexKind::BlockFilterIndex)
    });
    assert_eq!(filters[0], filters[1]);
}

#[test]
fn answers_leave_out_heights_that_are_unknown() {
    let (world, place) = &*NEW;
    let new = place.copy();
    let old = old_from(OldUndo::LastOnly, 1);
    let serve = ["serve", "--bind=127.0.0.1", "--port=0"];
    let [new, old] = [&new, &old].map(|place| Running::start(place, &serve));
    let mut left_out = 0;
    for height in [160, 200] {
        let hash = world.hash(height).to_string();
        for (method, params) in [
            ("getblock", json!([hash, 2])),
            ("getblock", json!([hash, 3])),
            ("getblockstats", json!([hash])),
        ] {
            let mut answers = [&new, &old].map(|running| running.ask(method, params.clone()));
            let [with, without] = &mut answers;
            left_out += remove_left_out(with, without);
            assert_eq!(with, without, "{method} {params}");
            assert!(with["code"].is_null(), "{with}");
        }
    }
    assert!(left_out > 0);
    for running in [new, old] {
        assert_ends(&running.end(Signal::TERM), 0, &[]);
    }
}

/// Removes the heights and flags from an answer that another leaves out, and returns their number.
fn remove_left_out(with: &mut Value, without: &Value) -> usize {
    match (with, without) {
        (Value::Object(with), Value::Object(without)) => {
            let before = with.len();
            with.retain(|key, _| {
                without.contains_key(key) || !["height", "generated"].contains(&&key[..])
            });
            let below = with.iter_mut().map(|(key, value)| {
                without.get(key).map_or(0, |without| remove_left_out(value, without))
            });
            let below: usize = below.sum();
            before - with.len() + below
        }
        (Value::Array(with), Value::Array(without)) => {
            with.iter_mut().zip(without).map(|(with, without)| remove_left_out(with, without)).sum()
        }
        _ => 0,
    }
}

/// SwiftSync and proofs do what they do if undo data is missing.
#[test]
fn old_undo_data_is_as_good_as_none_for_a_swiftsync() {
    let (world, place) = &*NEW;
    let new = world.place();
    let records = old_undo(world, OldUndo::LastOnly);
    let source = world.write_source_with(&new, "source", &world.file_order(), &records);
    let hints = world.write_hints(&new, world.height());
    let refused = world.try_swift(&new, Mode::Full, &hints, std::slice::from_ref(&source));
    let error = refused.unwrap_err().to_string();
    assert_contains(&error, &[&["no undo data for block", "without --hints"][..], &NAMED].concat());
    new.sync(std::slice::from_ref(&source));
    assert_eq!(new.utxo_hash(), place.utxo_hash());
    // A proof takes a join, from files and from the directory itself.
    let old = old_from(OldUndo::LastOnly, 1);
    let from = source.to_str().unwrap();
    for from in [&[][..], &["--from", from]] {
        let args = ["prove", hints.to_str().unwrap(), "--full"];
        let proved = apus(&old, &[&args[..], from].concat());
        assert_ends(&proved, 0, &["There is no undo data for block"]);
    }
    let options = Options {
        method: Some(Method::SwiftSync),
        assumevalid: AssumeValid::Nothing,
        ..world.options(&old, Mode::Full, &hints)
    };
    let error = sync::reindex(&options, Watch::default()).unwrap_err().to_string();
    assert!(NAMED.iter().all(|word| error.contains(word)), "{error}");
    assert_eq!(old.utxo_hash(), place.utxo_hash());
}
