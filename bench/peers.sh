#!/bin/sh
# Syncs a chain over loopback: by Apus from one server and from four, in each way, beside the same
# from files, and by bitcoind from bitcoind. Scripts are skipped; each run begins without a data
# directory. Prints seconds, CPU seconds of the client, and its peak memory.
#
#   BITCOIND=/path/to/bitcoind bench/peers.sh CHAIN.dat CHAIN.hints TIP DIR [v2]
#
# CHAIN.dat and CHAIN.hints are what `apus-bench join` leaves in its --dir, TIP is in the .json next
# to them. DIR gets the data directories, and loses them again. With v2 both sides speak BIP324.
set -eu
[ $# -ge 4 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
chain=$1 hints=$2 tip=$3 dir=$4 v2=${5:-}
target=${CARGO_TARGET_DIR:-target}/release
apus=${APUS:-$target/apus}
mkdir -p "$dir"
servers=
trap 'kill $servers 2>/dev/null || true; rm -rf "$dir/run" "$dir/core"' EXIT

timed() {
	name=$1
	shift
	rm -rf "$dir/run"
	/usr/bin/time -f "%e s, CPU %U + %S s, %M kB" -o "$dir/time" "$@" >"$dir/out" 2>&1 || {
		tail "$dir/out" >&2
		exit 1
	}
	echo "$name: $(cat "$dir/time")"
}

ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }

sync() {
	name=$1 method=$2
	shift 2
	extra="--assumevalid $tip"
	[ "$method" = swiftsync ] && extra="$extra --hints $hints"
	# shellcheck disable=SC2086
	timed "$name, $method" "$apus" sync --quiet --regtest --datadir "$dir/run" \
		--minimumchainwork 0 --method "$method" $extra "$@"
}

for method in order join swiftsync; do
	sync "files" $method --from "$chain"
done
for count in 1 4; do
	"$target/serve" --servers $count ${v2:+--v2} "$chain" >"$dir/ports" &
	server=$!
	servers=$server
	while [ "$(wc -l <"$dir/ports")" -lt $count ]; do sleep 0.2; done
	connect=$(sed 's/^/--connect=/' "$dir/ports")
	[ -n "$v2" ] || connect="$connect --v2transport=0"
	for method in order join swiftsync; do
		before=$(ticks $server)
		# shellcheck disable=SC2086
		sync "$count server(s)" $method $connect
		echo "  CPU of the server: $(($(ticks $server) - before)) / 100 s"
	done
	kill $server
done

[ -n "${BITCOIND:-}" ] || exit 0
"$apus" sync --quiet --regtest --datadir "$dir/core" --from "$chain" --assumevalid "$tip" \
	--minimumchainwork 0 --method join >/dev/null
ports="-regtest -connect=0 -printtoconsole=0 -minimumchainwork=0 -checkblockindex=0 -v2transport=${v2:+1}${v2:-0}"
ports=$(echo "$ports" | sed 's/1v2/1/')
# shellcheck disable=SC2086
"$BITCOIND" $ports -datadir="$dir/core" -listen=1 -bind=127.0.0.1 -port=29555 -rpcport=29556 &
server=$!
servers=$server
sleep 5
before=$(ticks $server)
rm -rf "$dir/run"
mkdir -p "$dir/run"
# shellcheck disable=SC2086
start=$(date +%s.%N)
# shellcheck disable=SC2086
"$BITCOIND" $(echo "$ports" | sed 's/-connect=0/-connect=127.0.0.1:29555/') -datadir="$dir/run" \
	-listen=0 -rpcport=29557 -assumevalid="$tip" -dbcache=450 &
client=$!
servers="$server $client"
cli="$(dirname "$BITCOIND")/bitcoin-cli -regtest -datadir=$dir/run -rpcport=29557"
while [ "$($cli getbestblockhash 2>/dev/null)" != "$tip" ]; do sleep 0.5; done
end=$(date +%s.%N)
"$BITCOIND" -version | head -n 1
echo "bitcoind from bitcoind: $(awk "BEGIN {print $end - $start}") s, CPU $(ticks $client) / 100 s," \
	"$(awk '/VmHWM/ {print $2}' "/proc/$client/status") kB"
echo "  CPU of the server: $(($(ticks $server) - before)) / 100 s"
kill $client $server
wait
