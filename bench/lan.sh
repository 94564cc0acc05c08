#!/bin/sh
# Syncs a chain over a local network of 1 Gbit/s, in two network namespaces: one serves and announces
# a directory, the other types nothing but `apus sync`. Prints what it says and its time. As root, on
# Linux with tc's tbf.
#
#   bench/lan.sh CHAIN.dat DIR
#
# CHAIN.dat is a chain of regtest, such as `apus-testchain --wide --bytes 2G` makes. DIR gets the data
# directories. regtest has no seeds, so that the node can only be found on the local network. Scripts
# are checked; with TIP=HASH they are skipped up to this block.
set -eu
[ $# -eq 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
chain=$1 dir=$2
apus=${APUS:-${CARGO_TARGET_DIR:-target}/release/apus}
mkdir -p "$dir"
server=

clean() {
	[ -z "$server" ] || kill -INT "$server" 2>/dev/null || true
	server=
	ip netns del apuslan1 2>/dev/null || true
	ip netns del apuslan2 2>/dev/null || true
	rm -rf "$dir/new"
}
trap clean EXIT

clean
ip netns add apuslan1
ip netns add apuslan2
ip link add e0 netns apuslan1 type veth peer name e0 netns apuslan2
for number in 1 2; do
	ip -n apuslan$number addr add 10.77.1.$number/24 dev e0
	ip -n apuslan$number link set lo up
	ip -n apuslan$number link set e0 up
	ip netns exec apuslan$number tc qdisc add dev e0 root tbf rate 1gbit burst 128k latency 50ms
done

common="--regtest --minimumchainwork 0"
assumevalid=${TIP:-0}
# shellcheck disable=SC2086
[ -d "$dir/old" ] || "$apus" sync --quiet $common --from "$chain" --datadir "$dir/old" --assumevalid "$assumevalid"
# shellcheck disable=SC2086
ip netns exec apuslan1 "$apus" serve $common --datadir "$dir/old" --lan >"$dir/server" 2>&1 &
server=$!
until grep -q "Announced on" "$dir/server"; do
	kill -0 "$server" || { cat "$dir/server" >&2; exit 1; }
	sleep 0.1
done
# The announcement is repeated after a second, and then nothing is sent again for a second.
sleep 3

mkdir "$dir/new"
printf 'regtest=1\nminimumchainwork=0\nassumevalid=%s\n' "$assumevalid" >"$dir/new/bitcoin.conf"
begin=$(date +%s.%N)
ip netns exec apuslan2 "$apus" sync --datadir "$dir/new" >"$dir/client" 2>&1 || { cat "$dir/client" >&2; exit 1; }
seconds=$(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $begin}")
cat "$dir/client"
echo "all: $seconds s"
