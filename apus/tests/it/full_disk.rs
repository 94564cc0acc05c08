//! Disks without room: for a sync in order, before it starts and while it runs, and for the files
//! that other commands make.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use apus_node::{Options, SyncError};
use apus_progress::Method;
use apus_progress::Phase;
use apus_progress::Watch;
use apus_sync as sync;
use apus_testchain::{Spends, Wide, WideSpec};
use apus_tools as tools;
use apus_wire::{Chain, Network, genesis_block};

use crate::support::Place;
use crate::support::fill_disk::FillDisk;
use crate::support::mounts::{run_on_small_disk, run_with_mounts, small_disk};
use crate::support::program::{assert_ends, stderr, stdout};

const MIB: u64 = 1 << 20;
/// Height of the last block that has nothing but a coinbase.
const QUIET: u32 = 150;

/// A chain whose coins take nearly as many bytes as its blocks: genesis, quiet blocks,
/// `busy_blocks` of 1 MB each, and empty ones.
pub fn wide(busy_blocks: u32, empty_blocks_after: u32) -> Vec<Vec<u8>> {
    let spec = WideSpec {
        seed: 97,
        quiet_blocks: QUIET,
        busy_blocks,
        txs: 1_000,
        empty_blocks_after,
        top_blocks: 0,
        spends: Spends::Mixed,
    };
    let genesis = genesis_block(&Network::new(Chain::Regtest));
    std::iter::once(genesis).chain(Wide::new(spec).map(|block| block.bytes)).collect()
}

/// The blocks and 50 MiB fit on the disk, but the coins do not.
#[test]
fn a_sync_in_order_asks_for_the_room_of_its_coins_first() {
    let place = Place::new(Chain::Regtest);
    let blocks = place.write("blocks", &wide(70, 150));
    let script = "
        mkdir disk; mount -t tmpfs -o size=170m none disk
        $apus sync --regtest --datadir disk --from $blocks && exit 9
        od -A n -t x1 -v disk/regtest/blocks/blk00000.dat | tail -n +20 | grep -q '[1-9a-f]' \
            && exit 8
        mount -o remount,size=255m disk
        $apus sync --regtest --datadir disk --from $blocks";
    let Some(output) = run_with_mounts(place.root(), &[("blocks", &blocks)], script) else {
        return;
    };
    assert_ends(
        &output,
        0,
        &["disk/regtest/blocks", "the disk is too small", "MiB of coins", "--prune", "--spilldir"],
    );
    assert!(stdout(&output).contains(" order: "), "{}", stdout(&output));
}

#[test]
fn what_was_connected_before_the_disk_was_full_is_kept() {
    run_on_small_disk(240, "full_disk::on_a_small_disk");
}

/// Not a test, but what the test above runs where the small disk is mounted.
#[test]
#[ignore = "a process that another test starts"]
fn on_a_small_disk() {
    let Some(small) = small_disk() else { return };
    let place = Place::new(Chain::Regtest);
    let source = place.write("blocks", &wide(26, 0));
    let in_order = Options { method: Some(Method::InOrder), small_steps: false, ..place.options() };
    sync::sync(&in_order, std::slice::from_ref(&source), Watch::default()).unwrap();
    let right = place.utxo_hash();
    // No room for more blocks; for more undo data; for anything, where coins wait in the cache, and
    // where some were committed.
    let cache = 450 << 20;
    let tip = QUIET + 26;
    for (left, cache, expected) in [
        (60 * MIB, cache, QUIET..tip),
        (50 * MIB + MIB / 2, cache, QUIET..tip),
        (0, cache, 0..1),
        (0, 4 << 20, 1..tip),
    ] {
        let what = format!("{left} bytes left, cache of {cache}");
        let datadir = small.join("datadir");
        let options =
            Options { datadir: datadir.clone(), dbcache_bytes: cache, ..in_order.clone() };
        let kept = fill_up(&options, &source, &small, left, &what);
        assert!(expected.contains(&kept), "{what}: {kept}, not in {expected:?}");
        let sources = std::slice::from_ref(&source);
        let again = sync::sync(&options, sources, Watch::default()).unwrap();
        assert_eq!(again.counts.blocks, u64::from(tip - kept), "{what}");
        let stats =
            tools::txoutset_info(&options, tools::UtxoHash::HashSerialized3, Watch::default());
        let stats = stats.unwrap().unwrap();
        assert_eq!((stats.hash.unwrap().1.to_string(), stats.txouts), right, "{what}");
        std::fs::remove_dir_all(datadir).unwrap();
    }
}

/// Syncs, with a disk that fills up after some blocks. Returns the height that is kept, by the
/// error.
fn fill_up(options: &Options, source: &PathBuf, small: &Path, left: u64, what: &str) -> u32 {
    let other = small.join("other");
    // Blocks are connected ahead of the height that is reported, and then need no room any more.
    let fill = FillDisk::new(Phase::Connecting, other.clone()).at(QUIET - 50, left);
    let sources = std::slice::from_ref(source);
    let error =
        sync::sync(options, sources, Watch::new(&fill, &AtomicBool::new(false))).unwrap_err();
    std::fs::remove_file(other).unwrap();
    let SyncError::Store(error) = error else { panic!("{what}: {error}") };
    assert!(error.is_full(), "{what}: {error}");
    let text = error.to_string();
    for words in ["the disk is full", "free some space", "run the same command"] {
        assert!(text.contains(words), "{what}: {text}");
    }
    let (_, height) = text.split_once("continues from height ").unwrap();
    let kept = height.split(';').next().unwrap().parse::<u32>().unwrap() - 1;
    assert_eq!(tools::status(options).unwrap().height, kept, "{what}: {text}");
    kept
}

#[test]
fn commands_that_make_a_file_leave_nothing_on_a_full_disk() {
    let place = Place::new(Chain::Regtest);
    place.sync_blocks("blocks", &wide(4, 0));
    // Two ways to spill, and a temporary directory.
    let script = "
        at='--datadir datadir --regtest'
        $apus hints create -o hints $at
        mkdir disk; mount -t tmpfs -o size=4k none disk
        status=0
        $apus hints create -o disk/t $at || status=$?$status
        $apus hints create --dbcache 0 -o disk/t $at || status=$?$status
        $apus hints convert hints --format booster -o disk/t $at || status=$?$status
        $apus hints convert hints -o disk/t $at || status=$?$status
        $apus hints compress hints -o disk/t || status=$?$status
        $apus snapshot create -o disk/t $at || status=$?$status
        test $status = 1111110; test -z \"$(ls -A disk)\"
        export TMPDIR=$PWD/disk
        $apus snapshot create --hints hints --dbcache 0 -o t $at || status=$?$status
        test $status = 11111110; test -z \"$(ls -A disk)\"; test ! -e t";
    let Some(output) = run_with_mounts(place.root(), &[], script) else { return };
    assert_ends(&output, 0, &[]);
    let text = stderr(&output);
    let named = text.matches("(the disk is full: free some space, or name a file on another disk");
    assert_eq!(named.count(), 6, "{text}");
    let words = "(the disk is full: free some space there, or name another directory with TMPDIR)";
    assert_eq!(text.matches(words).count(), 1, "{text}");
    assert!(!text.contains("needs the blocks"), "{text}");
}
