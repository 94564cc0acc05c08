//! The program's use of the machine: memory, room on the disk.

use apus_wire::Chain;

use crate::full_disk::wide;
use crate::support::mounts::run_with_mounts;
use crate::support::program::{apus, assert_ends, stderr};
use crate::support::{Place, data, regtest_chain};

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /proc/meminfo")]
fn a_cache_larger_than_memory_is_reported_at_the_start() {
    let place = Place::new(Chain::Regtest);
    let blocks = place.write("blocks", &regtest_chain()[..10]);
    let args = ["sync", "--from", blocks.to_str().unwrap()];
    for dbcache in ["--dbcache=1000000000", "--dbcache=18446744073709551615"] {
        let output = apus(&place, &[&args[..], &[dbcache]].concat());
        let words = ["Warning: --dbcache of", "MiB are available", "are used for cached coins"];
        assert_ends(&output, 0, &words);
        assert!(!stderr(&output).contains("::"), "it names a module: {}", stderr(&output));
    }
    let output = apus(&place, &[&args[..], &["--dbcache=16"]].concat());
    assert!(!stderr(&output).contains("MiB are available"));
}

/// Its system says that 300 MB are free.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /proc/meminfo")]
fn where_memory_is_short_the_coins_are_the_same() {
    let place = Place::new(Chain::Main);
    let script = "
        $apus sync --datadir plain --from $blocks
        $apus txoutset info --datadir plain | grep -v disk_size >plain.txt
        echo 'MemAvailable: 300000 kB' >meminfo; mount --bind meminfo /proc/meminfo
        for method in order join; do
            $apus sync --datadir $method --method $method --from $blocks --debug 2>log
            grep -q headers_in_file=true log
            $apus reindex --datadir $method --method $method --debug 2>log
            grep -q headers_in_file=true log
            $apus txoutset info --datadir $method | grep -v disk_size | cmp - plain.txt
            $apus verify --datadir $method
        done";
    let blocks = data("mainnet-0-14131.dat");
    let Some(output) = run_with_mounts(place.root(), &[("blocks", &blocks)], script) else {
        return;
    };
    assert_ends(&output, 0, &[]);
}

/// The disk has room for the first 16 MiB of 70 MB of blocks.
#[test]
fn a_disk_that_will_be_too_small_is_reported_at_the_start() {
    let place = Place::new(Chain::Regtest);
    let blocks = place.write("blocks", &wide(70, 0));
    let script = "
        mkdir disk; mount -t tmpfs -o size=70m none disk
        $apus sync --regtest --datadir disk --from $blocks && exit 9
        od -A n -t x1 -v disk/regtest/blocks/blk00000.dat | tail -n +20 | grep -q '[1-9a-f]' \
            && exit 8
        mount -o remount,size=260m disk
        $apus sync --regtest --datadir disk --from $blocks
        used=$(du --summarize --block-size=1M disk | cut -f 1)
        mount -o remount,size=$((used + 55))m disk
        $apus sync --regtest --datadir disk --from $blocks";
    let Some(output) = run_with_mounts(place.root(), &[("blocks", &blocks)], script) else {
        return;
    };
    assert_ends(
        &output,
        0,
        &["disk/regtest/blocks", "the disk is too small", "MiB of blocks", "MiB are free"],
    );
}

/// A reindex builds a second set next to the present one, so it needs room for both.
#[test]
fn a_disk_without_room_for_a_second_utxo_set_is_reported() {
    let place = Place::new(Chain::Main);
    let blocks = data("mainnet-0-14131.dat");
    let script = "
        mkdir disk; mount -t tmpfs -o size=100m none disk
        $apus sync --datadir disk --from $blocks
        free=$(df -k --output=avail disk | tail -n 1)
        head -c $((free * 1024 - 300000)) /dev/zero >disk/other
        $apus reindex --datadir disk && exit 9
        rm disk/other; $apus reindex --datadir disk";
    let Some(output) = run_with_mounts(place.root(), &[("blocks", &blocks)], script) else {
        return;
    };
    assert_ends(
        &output,
        0,
        &["chainstate/reindex", "the disk is too small", "MiB of coins", "MiB are free"],
    );
}
