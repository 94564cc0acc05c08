#!/bin/sh
# Downloads a chain from ten servers, each in a network namespace of its own, and prints MB/s beside
# what `apus-bench world` expects: a check of the simulator. As root, on Linux with tc's tbf.
#
#   TOXIPROXY=/path/to/toxiproxy-server bench/namespaces.sh CHAIN.dat TIP DIR
#
# tbf limits what each server sends; toxiproxy delays it by the round trip, and makes a server silent.
# `go install github.com/Shopify/toxiproxy/v2/cmd/server@latest` builds toxiproxy. CHAIN.dat is what
# `apus-testchain --wide --bytes 1300M` makes, and TIP is the tip that it prints. Needs curl and jq.
set -eu
[ $# -eq 3 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
chain=$1 tip=$2 dir=$3
target=${CARGO_TARGET_DIR:-target}/release
apus=${APUS:-$target/apus}
mkdir -p "$dir"
started=

clean() {
	# shellcheck disable=SC2086
	[ -z "$started" ] || kill $started 2>/dev/null || true
	started=
	for number in 1 2 3 4 5 6 7 8 9 10; do
		ip netns del "apus$number" 2>/dev/null || true
	done
	ip link del apusbr 2>/dev/null || true
	rm -rf "$dir/run"
}
trap clean EXIT

# server NUMBER KBYTES_A_SECOND MILLISECONDS
server() {
	ns=apus$1
	ip netns add "$ns"
	ip link add "av$1" type veth peer name e0 netns "$ns"
	ip link set "av$1" master apusbr up
	ip -n "$ns" addr add "10.77.0.1$1/24" dev e0
	ip -n "$ns" link set e0 up
	ip -n "$ns" link set lo up
	ip netns exec "$ns" tc qdisc add dev e0 root tbf rate "$(($2 * 8))kbit" burst 32k latency 200ms
	: >"$dir/port$1"
	ip netns exec "$ns" "$target/serve" "$chain" >>"$dir/port$1" &
	started="$started $!"
	ip netns exec "$ns" "$TOXIPROXY" >"$dir/proxy$1" 2>&1 &
	started="$started $!"
	while [ ! -s "$dir/port$1" ]; do sleep 0.2; done
	until ip netns exec "$ns" curl -sf localhost:8474/version >"$dir/out"; do sleep 0.2; done
	api "$1" proxies "{\"name\":\"p\",\"listen\":\"10.77.0.1$1:9000\",\"upstream\":\"$(cat "$dir/port$1")\"}"
	api "$1" proxies/p/toxics "{\"name\":\"far\",\"type\":\"latency\",\"attributes\":{\"latency\":$3}}"
}

# api NUMBER PATH JSON
api() {
	ip netns exec "apus$1" curl -sf -d "$3" "localhost:8474/$2" >"$dir/out"
}

# measure NAME SECONDS: MB/s of requested blocks in this time, from the first ones on.
measure() {
	connect=
	for number in 1 2 3 4 5 6 7 8 9 10; do connect="$connect --connect=10.77.0.1$number:9000"; done
	rm -rf "$dir/run"
	# shellcheck disable=SC2086
	"$apus" sync --json --regtest --datadir "$dir/run" --minimumchainwork 0 --method order \
		--assumevalid "$tip" --v2transport=0 $connect >"$dir/json" 2>"$dir/log" &
	client=$!
	while ! flows; do sleep 0.05; done
	begin=$(date +%s.%N)
	[ -z "${SILENCE:-}" ] || { sleep "$SILENCE"; api 10 proxies/p/toxics '{"name":"mute","type":"timeout","attributes":{"timeout":0}}'; }
	while [ "$(awk "BEGIN {print $(date +%s.%N) - $begin < $2}")" = 1 ] && kill -0 $client 2>/dev/null; do
		sleep 0.1
	done
	seconds=$(awk "BEGIN {print $(date +%s.%N) - $begin}")
	kill -INT $client 2>/dev/null || true
	wait $client || true
	jq -r --arg name "$1" --argjson seconds "$seconds" \
		'"\($name): \([.peers[].bytes] | add / 1e5 / $seconds | round / 10) MB/s"' "$dir/json"
}

# Whether the first blocks have come over the bridge, after the headers.
flows() {
	[ "$(cat /sys/class/net/av*/statistics/rx_bytes | awk '{sum += $1} END {print sum}')" -gt 6000000 ]
}

begin() {
	clean
	ip link add apusbr type bridge
	ip addr add 10.77.0.1/24 dev apusbr
	ip link set apusbr up
}

begin
for number in 1 2 3 4 5 6 7 8 9 10; do server "$number" 2500 100; done
measure "10 × 20 Mbit/s, 100 ms" 40

begin
number=0
for rate in 400 500 750 1250 2000 2500 3750 5000 7500 7850; do
	number=$((number + 1))
	server $number $rate 150
done
measure "mixed, 0.4 to 7.9 MB/s, 150 ms" 40

begin
for number in 1 2 3 4 5 6 7 8 9; do server $number 1000 80; done
server 10 20000 50
SILENCE=10 measure "9 × 1 MB/s, and 20 MB/s that goes silent after 10 s" 60
