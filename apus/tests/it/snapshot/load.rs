//! `apus snapshot load`: a listed snapshot becomes the UTXO set that Core works with, whole or not
//! at all, and a sync makes one of two again. With bitcoind: `bitcoind/snapshot_state.rs`.

use std::path::{Path, PathBuf};

use apus_claims::SnapshotLoaded;
use apus_disk::Disk;
use apus_node::Run;
use apus_node::{
    Options, SNAPSHOT_BASE_FILE, SNAPSHOT_DIRECTORY, SNAPSHOT_GIVEN_UP_FILE, SyncError,
};
use apus_progress::Watch;
use apus_sync as sync;

use super::found;
use crate::support::Place;
use crate::support::judge::Judge;
use crate::support::listed::Listed;
use crate::support::mounts::run_with_mounts;
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::{apus, assert_contains, assert_ends, stdout};
use crate::support::snapshot::Snapshot;

fn load_on(
    disk: &Disk,
    options: &Options,
    snapshot: &Path,
    sources: &[PathBuf],
) -> Result<SnapshotLoaded, SyncError> {
    apus_claims::load_snapshot_on(disk, options, snapshot, sources, Watch::default())
}

#[test]
fn core_works_with_a_loaded_set_and_a_sync_makes_one_of_two() {
    for listed in Listed::all() {
        let (place, blocks) = listed.loaded();
        let base = (listed.world.tip(), Some(listed.height()));
        assert_eq!(found(&place), (0, Some(base)));
        let judge = Judge::open(&place).expect("the engine opens it");
        assert_eq!(judge.tip(), (listed.height(), listed.world.tip()));
        drop(judge);
        let more = place.write("more", &listed.more(3));
        let top = place.sync(&[blocks, more]).height;
        assert_eq!(top, listed.height() + 3);
        assert_eq!(found(&place), (top, None));
        assert!(!place.network_dir().join(SNAPSHOT_DIRECTORY).exists());
        let judge = Judge::open(&place).expect("the engine opens it");
        assert_eq!(judge.tip().0, top);
        judge.read_everything();
    }
}

#[test]
fn coins_in_another_order_are_sorted() {
    let listed = Listed::with_payments();
    let (_made, out) = listed.with_snapshot();
    let mut snapshot = Snapshot::parse(&std::fs::read(&out).unwrap());
    snapshot.coins.reverse();
    std::fs::write(&out, snapshot.to_bytes()).unwrap();
    let place = listed.world.place();
    let blocks = place.write("blocks", &listed.world.blocks);
    load_on(&Disk::new(), &place.options(), &out, &[blocks]).unwrap();
    assert_eq!(Judge::open(&place).unwrap().tip().0, listed.height());
}

#[test]
fn what_core_would_refuse_is_refused_and_leaves_nothing() {
    let listed = Listed::with_payments();
    let (synced, out) = listed.with_snapshot();
    let bytes = std::fs::read(&out).unwrap();
    let place = listed.world.place();
    let blocks = place.write("blocks", &listed.world.blocks);
    let refused = |place: &Place, snapshot: &[u8], sources: &[PathBuf], words: &str| {
        std::fs::write(&out, snapshot).unwrap();
        let error = load_on(&Disk::new(), &place.options(), &out, sources).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    };
    let nothing = || assert!(!place.network_dir().join(SNAPSHOT_DIRECTORY).exists());
    let changed = |change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = Snapshot::parse(&bytes);
        change(&mut snapshot);
        snapshot.to_bytes()
    };
    let from = std::slice::from_ref(&blocks);
    refused(&place, &changed(&|it| it.magic[0] ^= 1), from, "another network than regtest");
    refused(&place, &changed(&|it| it.base.0[0] ^= 1), from, "at the heights 110, 200, 299");
    refused(&place, &changed(&|it| it.coins[7].1.amount += 1), from, "its coins have the hash");
    let fewer = changed(&|it| {
        it.coins.pop();
        it.count -= 1;
    });
    refused(&place, &fewer, from, "its coins have the hash");
    refused(&place, &bytes[..bytes.len() - 1], from, "cut short");
    nothing();
    let place_without = listed.world.place();
    refused(&place_without, &bytes, &[], "is not known");
    let shorter = place.write("shorter", &listed.world.blocks[..200]);
    refused(&place_without, &bytes, &[shorter], "is not known");
    refused(&synced, &bytes, &[], "the snapshot cannot be used");
    // The blocks up to the base block are stored, and not all of them connected.
    let stored = synced.copy();
    assert_ends(&apus(&stored, &["rewind", "--height=290"]), 0, &[]);
    refused(&stored, &bytes, &[], "is stored here");
    load_on(&Disk::new(), &place.options(), &out, from).unwrap();
    refused(&place, &bytes, from, "already");
}

#[test]
fn a_disk_without_room_for_the_tables_is_reported_first() {
    let listed = Listed::with_payments();
    let (made, out) = listed.with_snapshot();
    let some = made.write("some", &listed.world.blocks[..=10]);
    let blocks = made.write("blocks", &listed.world.blocks);
    // Less is free at first than has to stay free.
    let script = "
        mkdir disk; mount -t tmpfs -o size=120m none disk
        $apus sync --regtest --datadir disk --from $some
        mount -o remount,size=60m disk
        $apus snapshot load $snapshot --regtest --datadir disk --from $blocks && exit 9
        test -e disk/regtest/chainstate_snapshot && exit 8
        mount -o remount,size=120m disk
        $apus snapshot load $snapshot --regtest --datadir disk --from $blocks";
    let variables = [("some", &*some), ("blocks", &*blocks), ("snapshot", &*out)];
    let Some(output) = run_with_mounts(made.root(), &variables, script) else { return };
    let words = ["the disk is too small", "1 MiB of coins of the snapshot", "MiB are free"];
    assert_ends(&output, 0, &words);
    assert!(stdout(&output).contains("Loaded 299 coins"), "{}", stdout(&output));
}

/// Wherever the power fails, Core finds no second UTXO set or a whole one, and the same command
/// then makes it whole.
#[test]
fn power_may_fail_at_any_step_of_loading() {
    let listed = Listed::with_payments();
    let (_made, out) = listed.with_snapshot();
    let sources = |place: &Place| [place.write("blocks", &listed.world.blocks)];
    let (disk, counter) = counted();
    let whole = listed.world.place();
    load_on(&disk, &whole.options(), &out, &sources(&whole)).unwrap();
    let mut without = 0;
    let mut with = 0;
    for (number, power) in power_cuts(1..=counter.steps(), 2).enumerate() {
        let place = listed.world.place();
        let result = load_on(&failing(&power), &place.options(), &out, &sources(&place));
        assert!(result.is_err() || power.cut_at() + 5 > counter.steps(), "{power:?}");
        power.lose_unsynced().unwrap();
        let base = (listed.world.tip(), Some(listed.height()));
        let is_marked = place.network_dir().join(SNAPSHOT_BASE_FILE).exists();
        if number % 3 == 0 && !power.is_torn() {
            let judge = Judge::open(&place);
            let judge = judge.unwrap_or_else(|why| panic!("refused after {power:?}: {why}"));
            let expected = if is_marked { listed.height() } else { 0 };
            assert_eq!(judge.tip().0, expected, "{power:?}");
        }
        if is_marked {
            with += 1
        } else {
            without += 1;
            load_on(&Disk::new(), &place.options(), &out, &sources(&place))
                .unwrap_or_else(|error| panic!("{power:?}: {error}"));
        }
        assert_eq!(found(&place), (0, Some(base)), "{power:?}");
    }
    println!("{with} whole, {without} none");
    assert!(without > 10);
}

/// Wherever the power fails while a sync passes the base block, Core opens what is left, and the
/// same command ends with one UTXO set.
#[test]
fn power_may_fail_at_any_step_of_giving_the_second_set_up() {
    let listed = Listed::with_payments();
    let (loaded, blocks) = listed.loaded();
    let most = loaded.write("most", &listed.world.blocks[..=295]);
    loaded.sync(&[most]);
    assert_eq!(found(&loaded).0, 295);
    let more = loaded.write("more", &listed.more(3));
    let run = |place: &Place, disk: &Disk| {
        // Commits after every block.
        let options = Options { dbcache_bytes: 1, ..place.options() };
        let sources = [blocks.clone(), more.clone()];
        sync::sync_on(&Run::on(disk, &options), &sources, Watch::default())
    };
    let (disk, counter) = counted();
    let whole = loaded.copy();
    assert_eq!(run(&whole, &disk).unwrap().height, 302);
    let mut marked = 0;
    let mut given_up = 0;
    for (number, power) in power_cuts(1..=counter.steps(), 3).enumerate() {
        let place = loaded.copy();
        let _ = run(&place, &failing(&power));
        power.lose_unsynced().unwrap();
        marked += u32::from(place.network_dir().join(SNAPSHOT_BASE_FILE).exists());
        given_up += u32::from(place.network_dir().join(SNAPSHOT_GIVEN_UP_FILE).exists());
        if number % 2 == 0 && !power.is_torn() {
            let judge = Judge::open(&place);
            drop(judge.unwrap_or_else(|why| panic!("refused after {power:?}: {why}")));
        }
        let again = run(&place, &Disk::new());
        let again = again.unwrap_or_else(|error| panic!("{power:?}: {error}"));
        assert_eq!(again.height, 302, "{power:?}");
        assert!(!place.network_dir().join(SNAPSHOT_DIRECTORY).exists(), "{power:?}");
        assert_eq!(place.utxo_hash(), whole.utxo_hash(), "{power:?}");
    }
    println!("{marked} with the second set, {given_up} while it was removed");
    assert!(marked > 10 && given_up > 0);
}

#[test]
fn the_program_loads_one_and_names_what_is_left_over() {
    let listed = Listed::with_payments();
    let (_made, out) = listed.with_snapshot();
    let place = listed.world.place();
    let blocks = place.write("blocks", &listed.world.blocks).display().to_string();
    let path = out.display().to_string();
    let output = apus(&place, &["snapshot", "load", &path, "--from", &blocks, "--json"]);
    assert_ends(&output, 0, &[]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&json["base_height"], &json["coins_loaded"]), (&299.into(), &299.into()));
    let status = stdout(&apus(&place, &["status"]));
    assert!(status.contains("299 blocks to go"), "{status}");
    assert_ends(&apus(&place, &["snapshot", "load", &path, "--from", &blocks]), 1, &["already"]);
    let follows = ["snapshot", "load", &path, "--from", &blocks, "--follow"];
    assert_ends(&apus(&place, &follows), 2, &["--follow"]);
    // What bitcoind leaves is named, and never read.
    std::fs::create_dir(place.network_dir().join("chainstate_snapshot_INVALID")).unwrap();
    std::fs::remove_file(place.network_dir().join(SNAPSHOT_BASE_FILE)).unwrap();
    let status = stdout(&apus(&place, &["status"]));
    let words = ["chainstate_snapshot_INVALID: bitcoind", "chainstate_snapshot: bitcoind"];
    assert_contains(&status, &words);
    std::fs::write(place.network_dir().join(SNAPSHOT_BASE_FILE), [7; 31]).unwrap();
    assert_ends(&apus(&place, &["status"]), 1, &["base_blockhash", "31 bytes"]);
}
