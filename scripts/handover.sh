#!/bin/sh
# Shows with a real bitcoind what works on a directory synced by SwiftSync assumed valid, which has
# undo data for the last 288 blocks only, and that all of it works after `apus reindex`, and on a
# directory synced by a join assumed valid.
#
#   BITCOIND=/path/to/bitcoind scripts/handover.sh
#
# bitcoin-cli is taken from bitcoind's directory (or BITCOIN_CLI); apus and apus-testchain are built
# with cargo unless APUS and TESTCHAIN name them. Exit status 0: before the reindex each check fails
# as docs/guide/first-sync.md says; after it, and after the join, each one passes.
set -eu
: "${BITCOIND:?set BITCOIND to the path of a bitcoind (v31)}"
BITCOIN_CLI=${BITCOIN_CLI:-$(dirname "$BITCOIND")/bitcoin-cli}
cd "$(dirname "$0")/.."
if [ -z "${APUS:-}" ] || [ -z "${TESTCHAIN:-}" ]; then
	cargo build --release --locked --quiet -p apus -p apus-testchain
	target=${CARGO_TARGET_DIR:-target}
	APUS=${APUS:-$target/release/apus}
	TESTCHAIN=${TESTCHAIN:-$target/release/apus-testchain}
fi
root=$(mktemp -d)
port=${PORT:-28443}
trap 'kill "$daemon" 2>/dev/null || true; rm -rf "$root"' EXIT
daemon=
wrong=0

# The chain: 700 blocks, the last 550 of them full of transactions; hints for its tip.
"$TESTCHAIN" --quiet 150 --blocks 550 --bytes 8M --empty 0 --varied --keys 64 -o "$root/chain.dat" \
	>"$root/facts"
tip=$(sed -n 's/^tip  *//p' "$root/facts")
"$APUS" sync --regtest --datadir "$root/inorder" --from "$root/chain.dat" --assumevalid 0 >"$root/log"
"$APUS" hints create --regtest --datadir "$root/inorder" -o "$root/chain.hints" >>"$root/log"
"$APUS" sync --regtest --datadir "$root/swift" --from "$root/chain.dat" \
	--hints "$root/chain.hints" --assumevalid "$tip" >>"$root/log"
"$APUS" sync --regtest --datadir "$root/joined" --from "$root/chain.dat" \
	--method join --testing joindepth=0 --assumevalid "$tip" >>"$root/log"

# start DIRECTORY OPTIONS: runs bitcoind until RPC answers; fails if it ends first.
start() {
	directory=$1
	shift
	"$BITCOIND" -regtest -datadir="$directory" -connect=0 -listen=0 -rpcport="$port" \
		-fallbackfee=0.0001 -daemon=0 "$@" >"$root/out" 2>&1 &
	daemon=$!
	for _ in $(seq 300); do
		cli "$directory" getblockcount >/dev/null 2>&1 && return 0
		kill -0 "$daemon" 2>/dev/null || { why; return 1; }
		sleep 0.1
	done
	return 1
}
cli() {
	at=$1
	shift
	"$BITCOIN_CLI" -regtest -datadir="$at" -rpcport="$port" "$@"
}
# The error that bitcoind ended with.
why() {
	grep -h -i -E "error|failed|corrupt|undo" "$root/out" | tail -n 2 | cut -c 1-160 | sed 's/^/      /'
}
stop() {
	cli "$1" stop >/dev/null 2>&1 || kill "$daemon" 2>/dev/null || true
	wait "$daemon" 2>/dev/null || true
	daemon=
}
# index DIRECTORY NAME OPTION: whether an index is built up to the tip.
index() {
	start "$1" "$3" || return 1
	synced=1
	for _ in $(seq 200); do
		if cli "$1" getindexinfo 2>/dev/null | grep -A 1 "$2" >/dev/null &&
			cli "$1" getindexinfo | grep -q '"synced": true'; then
			synced=0
			break
		fi
		kill -0 "$daemon" 2>/dev/null || break
		sleep 0.1
	done
	[ $synced = 0 ] || why
	stop "$1"
	return $synced
}
checkblocks() {
	start "$1" -checkblocks=0 -checklevel=4 || return 1
	stop "$1"
}
verifychain() {
	start "$1" || return 1
	answer=$(cli "$1" verifychain 4 0 2>&1 || true)
	[ "$answer" = true ] || echo "      verifychain answers: $answer"
	stop "$1"
	[ "$answer" = true ]
}
# Back by 400 blocks and forward again, to the same coins.
reorganise() {
	start "$1" || return 1
	before=$(cli "$1" gettxoutsetinfo muhash | sed -n 's/.*"muhash": "\(.*\)".*/\1/p')
	block=$(cli "$1" getblockhash 300)
	cli "$1" invalidateblock "$block" >"$root/cli" 2>&1 || true
	height=$(cli "$1" getblockcount 2>/dev/null || echo none)
	cli "$1" reconsiderblock "$block" >/dev/null 2>&1 || true
	after=$(cli "$1" gettxoutsetinfo muhash 2>/dev/null |
		sed -n 's/.*"muhash": "\(.*\)".*/\1/p')
	[ "$height" = 299 ] || { echo "      it stops at height $height"; why; }
	stop "$1"
	[ "$height" = 299 ] && [ "$before" = "$after" ]
}

# check WANTED TITLE COMMAND: runs it on a copy of the directory.
check() {
	wanted=$1 title=$2 run=$3
	shift 3
	rm -rf "$root/copy"
	cp -r "$subject" "$root/copy"
	if "$run" "$root/copy" "$@"; then result=works; else result=fails; fi
	note=
	[ "$result" = "$wanted" ] || { note=" (expected: $wanted)" wrong=1; }
	printf '  %-34s %s%s\n' "$title" "$result" "$note"
}
plain() {
	start "$1" || return 1
	stop "$1"
}
all() {
	check works "bitcoind as it is" plain
	check "$1" "-coinstatsindex" index coinstatsindex -coinstatsindex
	check "$1" "-blockfilterindex" index "basic block filter index" -blockfilterindex
	check "$1" "-checkblocks=0 -checklevel=4" checkblocks
	check "$1" "verifychain 4 0" verifychain
	check "$1" "a reorganisation of 401 blocks" reorganise
}

"$BITCOIND" -version | head -n 1
subject=$root/swift
echo "after SwiftSync assumed valid:"
all fails
"$APUS" reindex --regtest --datadir "$root/swift" --assumevalid 0 >>"$root/log"
echo "after apus reindex:"
all works
subject=$root/joined
echo "after a join assumed valid:"
all works
exit $wrong
