//! Finished work is not lost: with missing disks, with a chainstate in odd places, and with
//! commands that only read.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use apus_disk::Disk;
use apus_node as node;
use apus_node::SyncError;
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_store::{BlockStatus, DataDir, DataDirOptions, IndexDb};
use apus_sync as sync;
use apus_testchain::copy_dir;
use apus_tools as tools;
use apus_tools::{Unfinished, UtxoHash};
use apus_wire::Chain;

use crate::support::blocks::{branch, bytes, genesis_parent};
use crate::support::commands::{self, Does};
use crate::support::judge::Judge;
use crate::support::mounts::run_with_mounts;
use crate::support::program::{apus, assert_contains, assert_ends, program_on, stderr, stdout};
use crate::support::stop_when::StopWhen;
use crate::support::tree::tree;
use crate::support::{Place, regtest_chain};

/// A directory with the regtest chain up to `height`.
fn synced(height: usize) -> Place {
    let place = Place::new(Chain::Regtest);
    place.sync(&[place.write("blocks", &regtest_chain()[..=height])]);
    place
}

#[test]
fn missing_blocks_are_refused_and_nothing_is_made() {
    let place = synced(60);
    let utxo_hash = place.utxo_hash();
    let blocks = place.network_dir().join("blocks");
    let away = place.root().join("away");
    std::fs::rename(&blocks, &away).unwrap();
    // The mount point is missing, or it is an empty directory. At last the UTXO set does not open.
    let current = place.network_dir().join("chainstate/CURRENT");
    for state in 0..3 {
        match state {
            1 => std::fs::create_dir(&blocks).unwrap(),
            2 => std::fs::rename(&current, current.with_extension("away")).unwrap(),
            _ => {}
        }
        let before = tree(place.root());
        for args in [
            &["txoutset", "info"][..],
            &["status"],
            &["serve"],
            &["reindex"],
            &["reindex", "--allow-shrink"],
            &["reindex", "--index"],
            &["sync", "--from", place.root().join("blocks").to_str().unwrap()],
            &["hints", "create", "-o", place.root().join("hints").to_str().unwrap()],
        ] {
            let output = apus(&place, args);
            assert_ends(&output, 1, &["is their disk mounted", "/blocks"]);
            assert_eq!(tree(place.root()), before, "{args:?} made something");
        }
    }
    std::fs::remove_dir(&blocks).unwrap();
    std::fs::rename(&away, &blocks).unwrap();
    std::fs::rename(current.with_extension("away"), &current).unwrap();
    assert_eq!(place.utxo_hash(), utxo_hash);
}

#[test]
fn a_lower_set_replaces_a_higher_one_only_on_request() {
    let place = synced(206);
    let utxo_hash = place.utxo_hash();
    // The blocks of an older copy do not include the chainstate's best block.
    let lower = synced(100);
    let blocks = place.network_dir().join("blocks");
    std::fs::remove_dir_all(&blocks).unwrap();
    copy_dir(&lower.network_dir().join("blocks"), &blocks).unwrap();
    let before = tree(&place.network_dir().join("chainstate"));
    let error = place.try_reindex().unwrap_err();
    assert!(matches!(error, SyncError::WouldShrink(_)), "{error}");
    assert_contains(&error, &["ends at height 100", "`apus reindex --index`", "UTXO set was kept"]);
    let error = sync::reindex_files(&place.options(), Watch::default()).unwrap_err();
    let words = ["reach height 100", "mounted", "--allow-shrink", "UTXO set was kept"];
    assert_contains(&error, &words);
    assert_eq!(tree(&place.network_dir().join("chainstate")), before);
    let mut options = place.options();
    options.allow_shrink = true;
    let reindex = |options| sync::reindex(options, Watch::default());
    assert_eq!(reindex(&options).unwrap().height, 100);
    assert_eq!(place.utxo_hash(), lower.utxo_hash());
    assert_ne!(place.utxo_hash(), utxo_hash);
    // Whoever names a height to stop at wants a lower set.
    let mut options = place.options();
    options.stop_at_height = Some(50);
    assert_eq!(reindex(&options).unwrap().height, 50);
    assert_eq!(place.stats(UtxoHash::None).height, 50);
}

#[test]
fn a_rebuild_that_ends_lower_is_not_swapped_in() {
    let place = synced(206);
    let utxo_hash = place.utxo_hash();
    // The index knows the last blocks, but marks one of them as invalid.
    place.change_index(|entry| {
        if entry.height == 150 {
            entry.record.status.0 |= BlockStatus::BLOCK_FAILED_VALID;
        }
    });
    let present = || {
        let mut files = tree(&place.network_dir().join("chainstate"));
        files.retain(|path, _| !path.to_string_lossy().contains("chainstate/reindex"));
        files
    };
    let before = present();
    let text = place.try_reindex().unwrap_err().to_string();
    assert!(text.contains("149") && text.contains("206"), "{text}");
    assert_eq!(present(), before);
    let mut options = place.options();
    options.allow_shrink = true;
    sync::reindex(&options, Watch::default()).unwrap();
    assert_eq!(place.stats(UtxoHash::None).height, 149);
    assert_ne!(place.utxo_hash(), utxo_hash);
}

#[test]
fn a_chainstate_behind_a_symlink_is_rebuilt_where_it_is() {
    let place = synced(120);
    let utxo_hash = place.utxo_hash();
    let chainstate = place.network_dir().join("chainstate");
    let elsewhere = place.root().join("fast-disk");
    std::fs::rename(&chainstate, &elsewhere).unwrap();
    symlink(&elsewhere, &chainstate).unwrap();
    // Core leaves this file in a chainstate that came from a validated snapshot.
    std::fs::write(elsewhere.join("base_blockhash"), [7; 32]).unwrap();
    place.try_reindex().unwrap();
    assert!(chainstate.symlink_metadata().unwrap().is_symlink());
    assert_eq!(place.utxo_hash(), utxo_hash);
    let names = Disk::new().list(&elsewhere).unwrap();
    assert!(!names.iter().any(|name| name.contains("reindex")), "{names:?}");
    assert_eq!(Judge::open(&place).expect("the engine opens it").tip().0, 120);
}

#[test]
fn a_chainstate_that_is_a_mount_or_overlay_is_rebuilt_once() {
    let place = synced(120);
    let (muhash, _) = place.muhash();
    let script = "
        mount -t tmpfs none datadir/$net/chainstate
        $apus reindex --regtest --datadir datadir --assumevalid 0 --json
        $apus txoutset info --regtest --datadir datadir --hash muhash
        test ! -e datadir/$net/chainstate/reindex
        umount datadir/$net/chainstate
        mkdir over; mount -t tmpfs none over; mkdir over/upper over/work over/all
        mount -t overlay overlay over/all \
            -o lowerdir=datadir,upperdir=over/upper,workdir=over/work
        $apus reindex --regtest --datadir over/all --assumevalid 0 --json
        $apus txoutset info --regtest --datadir over/all --hash muhash
        test ! -e over/all/$net/chainstate/reindex";
    let net = Path::new(place.network.subdirectory);
    let Some(output) = run_with_mounts(place.root(), &[("net", net)], script) else { return };
    assert_ends(&output, 0, &[]);
    assert_eq!(stdout(&output).matches(&muhash).count(), 2, "{output:?}");
}

#[test]
fn commands_that_read_write_nothing_and_read_together() {
    let place = synced(150);
    let datadir = place.network_dir();
    // bitcoind's LevelDB leaves changes in a log, which a reader replays in memory.
    let judge = Judge::open(&place).expect("the engine opens it");
    assert_eq!(judge.tip().0, 150);
    drop(judge);
    let names = Disk::new().list(datadir.join("chainstate")).unwrap();
    assert!(names.iter().any(|name| name.ends_with(".log")), "{names:?}");
    let read = || {
        let here = tempfile::tempdir().unwrap();
        let mut all = commands::that(&[Does::Reads]);
        all.push(vec!["prove", "hints"]);
        all.push(vec!["export", "inputs", "--output=inputs.csv"]);
        for args in all {
            let output = program_on(&place, &args).current_dir(&here).output().unwrap();
            assert_ends(&output, 0, &[]);
        }
    };
    let state = || {
        let all = tree(&place.datadir());
        let files = all.keys().filter(|path| path.is_file());
        let times = files.map(|path| path.metadata().unwrap().modified().unwrap());
        (times.collect::<Vec<_>>(), all)
    };
    let before = state();
    read();
    assert!(state() == before, "a command that reads has written");
    // Readers may share a directory with readers, but not with a writer.
    let how = DataDirOptions { read_only: true, ..DataDirOptions::default() };
    let reader = DataDir::open(&Disk::new(), &place.datadir(), &place.network, how).unwrap();
    read();
    drop(reader);
    let how = DataDirOptions::default();
    let writer = DataDir::open(&Disk::new(), &place.datadir(), &place.network, how).unwrap();
    let output = apus(&place, &["status"]);
    assert_ends(&output, 1, &[]);
    assert!(stdout(&output).contains("in use by"), "{}", stdout(&output));
    drop(writer);
}

#[test]
fn commands_that_read_work_on_a_read_only_mount() {
    let place = synced(150);
    let (muhash, _) = place.muhash();
    let script = "
        mount --bind datadir datadir; mount -o remount,bind,ro datadir
        $apus txoutset info --regtest --datadir datadir --hash muhash
        $apus status --regtest --datadir datadir
        $apus hints create --regtest --datadir datadir -o hints
        $apus prove hints --regtest --datadir datadir
        rm hints; $apus sync --regtest --datadir datadir && exit 9; exit 0";
    let Some(output) = run_with_mounts(place.root(), &[], script) else { return };
    assert_ends(&output, 0, &["Read-only file system"]);
    assert!(stdout(&output).contains(&muhash));
}

#[test]
fn the_status_shows_what_a_directory_holds_and_what_is_left() {
    let place = synced(206);
    let status = tools::status(&place.options()).unwrap();
    assert_eq!((status.height, status.headers, status.undo_from), (206, 206, 1));
    assert_eq!((status.blocks_from, status.pruned), (1, false));
    assert_eq!(status.coins, Some(place.stats(UtxoHash::None).txouts));
    assert_eq!(status.unfinished, []);
    // An interrupted reindex.
    let mut options = place.options();
    options.dbcache_bytes = 1;
    let stop = AtomicBool::new(false);
    let stopper = StopWhen(&stop, |progress: &Progress| {
        progress.phase == Phase::Connecting && progress.height >= 120
    });
    assert!(sync::reindex(&options, Watch::new(&stopper, &stop)).unwrap().interrupted);
    let status = tools::status(&place.options()).unwrap();
    let [Unfinished::Rebuild { height }] = status.unfinished[..] else {
        panic!("{:?}", status.unfinished)
    };
    assert!((120..206).contains(&height), "{height}");
    assert_eq!(status.height, 206, "the present set is what it was");
    let output = apus(&place, &["status"]);
    let text = stdout(&output);
    assert!(text.contains("apus reindex") && text.contains("206"), "{text}");
    let output = apus(&place, &["status", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["height"], 206);
    assert_eq!(json["unfinished"][0]["height"], height);
    let empty = Place::new(Chain::Regtest);
    std::fs::create_dir(empty.datadir()).unwrap();
    let output = apus(&empty, &["status"]);
    assert!(stderr(&output).contains("holds no UTXO set of regtest"), "{}", stderr(&output));
}

#[test]
fn the_number_of_coins_is_known_without_counting() {
    let place = Place::new(Chain::Regtest);
    let chain = regtest_chain();
    for height in [60, 61, 206] {
        let summary = place.sync(&[place.write("blocks", &chain[..=height])]);
        assert_eq!(summary.coins, Some(place.stats(UtxoHash::None).txouts), "height {height}");
    }
    // After a sync without new blocks, and after a rebuild.
    assert_eq!(place.sync(&[]).coins, Some(place.stats(UtxoHash::None).txouts));
    assert_eq!(place.try_reindex().unwrap().coins, Some(place.stats(UtxoHash::None).txouts));
    assert_eq!(place.sync(&[]).coins, Some(place.stats(UtxoHash::None).txouts));
    // Without the file, or with one for another block, the number is unknown, and coins are not
    // counted.
    let file = place.network_dir().join("chainstate").join(node::COIN_COUNT_FILE);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace('1', "2")).unwrap();
    assert_eq!(place.sync(&[]).coins, None);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(place.sync(&[]).coins, None);
}

#[test]
fn blocks_in_another_directory() {
    let place = Place::new(Chain::Regtest);
    let blocks_dir = place.root().join("big-disk");
    let mut options = place.options();
    options.blocks_dir = Some(blocks_dir.clone());
    let source = place.write("blocks", &regtest_chain());
    let sync = |options: &node::Options| {
        sync::sync(options, std::slice::from_ref(&source), Watch::default())
    };
    let error = sync(&options).unwrap_err().to_string();
    assert!(error.contains("big-disk") && error.contains("does not exist"), "{error}");
    std::fs::create_dir(&blocks_dir).unwrap();
    assert_eq!(sync(&options).unwrap().height, 206);
    let net = place.network.subdirectory;
    assert!(blocks_dir.join(net).join("blocks/blk00000.dat").is_file());
    let names = Disk::new().list(place.network_dir().join("blocks")).unwrap();
    assert_eq!(names, ["index"], "the index alone is in the data directory");
    let stats = |options: &node::Options| {
        tools::txoutset_info(options, UtxoHash::MuHash, Watch::default()).map(Option::unwrap)
    };
    assert_eq!(stats(&options).unwrap().height, 206);
    sync::reindex(&options, Watch::default()).unwrap();
    // Without the option, commands are refused by naming it, and write no stray files.
    let before = tree(&place.datadir());
    for error in [place.try_sync(&[]).unwrap_err(), stats(&place.options()).unwrap_err()] {
        assert!(error.to_string().contains("--blocksdir"), "{error}");
    }
    assert_eq!(tree(&place.datadir()), before);
}

#[test]
fn a_lock_file_that_its_owner_alone_writes_will_do_for_readers() {
    let place = synced(20);
    for directory in [place.network_dir(), place.network_dir().join("blocks")] {
        let mode = std::fs::Permissions::from_mode(0o444);
        std::fs::set_permissions(directory.join(".lock"), mode).unwrap();
    }
    assert_eq!(place.stats(UtxoHash::None).height, 20);
}

/// Block files without an index are somebody's chain, so nothing is written over them.
#[test]
fn block_files_without_an_index_are_not_written_over() {
    let (blocks, _) = branch(&genesis_parent(), "a", 20);
    let place = Place::new(Chain::Regtest);
    place.sync_blocks("blocks", &bytes(&blocks));
    let directory = place.network_dir();
    std::fs::remove_dir_all(directory.join("blocks/index")).unwrap();
    std::fs::remove_dir_all(directory.join("chainstate")).unwrap();
    let file = directory.join("blocks/blk00000.dat");
    let before = std::fs::read(&file).unwrap();
    let (other, _) = branch(&genesis_parent(), "b", 20);
    let result = place.try_sync(&[place.write("other", &bytes(&other))]);
    let after = std::fs::read(&file).unwrap();
    assert!(before == after, "blocks were overwritten");
    let error = result.expect_err("it is refused").to_string();
    assert!(error.contains("--from"), "{error}");
    // The blocks can still be read into another directory.
    let fresh = Place::new(Chain::Regtest);
    assert_eq!(fresh.sync(&[place.datadir()]).height, 20);
}

/// An index that Core has not finished rebuilding lacks blocks that are stored, so it is refused.
#[test]
fn an_index_that_is_being_rebuilt_is_left_to_core() {
    let (blocks, _) = branch(&genesis_parent(), "a", 20);
    let place = Place::new(Chain::Regtest);
    place.sync_blocks("blocks", &bytes(&blocks));
    let disk = Disk::new();
    let index = place.network_dir().join("blocks/index");
    IndexDb::open(&disk, &index).unwrap().write_reindexing(true).unwrap();
    let error = place.try_sync(&[]).expect_err("it is refused").to_string();
    assert!(error.contains("rebuilding"), "{error}");
}
