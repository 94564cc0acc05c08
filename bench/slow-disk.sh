#!/bin/sh
# A disk of a given speed, to run benchmarks on: a loop device that the kernel throttles.
#
#   slow-disk.sh up DIR GB      makes FILE DIR.img of GB gigabytes and mounts it on DIR, at full speed
#   slow-disk.sh rate DIR MB    at most MB megabytes a second from now on, each way; 0 lifts the limit
#   slow-disk.sh down DIR       unmounts it and removes the file
#
# For example `up /mnt/slow 30`, `apus-bench join --dir /mnt/slow --runs 1` once to make the chains,
# `rate /mnt/slow 200`, and again. Or only the spill there: `--spilldir /mnt/slow`.
#
# Needs root and the blkio controller of cgroup version 1, whose limits at the root count writeback
# too. What is written and not yet on the disk is bounded by 256 MiB, so that a program waits for the
# disk as it does where memory is short; the file is read and written past the page cache, so that
# only the loop device's own pages count.
set -eu
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
command=$1 dir=${2%/} number=${3:-}
limits=/sys/fs/cgroup/blkio/blkio.throttle
device() { findmnt -n -o SOURCE --mountpoint "$dir"; }

case $command in
up)
    [ -n "$number" ] || usage
    [ -w "$limits.write_bps_device" ] || { echo "no blkio controller of version 1" >&2; exit 1; }
    fallocate -l "${number}GB" "$dir.img"
    loop=$(losetup --find --show --direct-io=on "$dir.img")
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
    mkdir -p "$dir"
    mount "$loop" "$dir"
    ;;
rate)
    [ -n "$number" ] || usage
    name=$(cat "/sys/block/$(basename "$(device)")/dev")
    for way in read write; do
        echo "$name $((number * 1000000))" > "$limits.${way}_bps_device"
    done
    if [ "$number" = 0 ]; then
        echo 0 > "/sys/class/bdi/$name/strict_limit"
        echo 100 > "/sys/class/bdi/$name/max_ratio"
    else
        echo $((256 << 20)) > "/sys/class/bdi/$name/max_bytes"
        echo 1 > "/sys/class/bdi/$name/strict_limit"
    fi
    ;;
down)
    "$0" rate "$dir" 0
    loop=$(device)
    umount "$dir"
    losetup --detach "$loop"
    rm "$dir.img"
    ;;
*) usage ;;
esac
