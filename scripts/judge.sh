#!/bin/sh
# Builds bitcoind and bitcoin-cli from the Bitcoin Core source that the crate libbitcoinkernel-sys
# carries, once, into the user's cache, and runs the tests that need them.
#
#   scripts/judge.sh [COMMAND...]
#
# With a command, runs that in place of the tests, and tells it bitcoind's path in BITCOIND.
#
# BITCOIND=/path/to/bitcoind uses another one, with bitcoin-cli next to it. BITCOIND_MASTER=PATH
# names a second one, of Bitcoin Core's next version, for the tests of several programs on one
# directory. The build takes four to eight minutes on two cores, and 80 MB of disk; 14 MB stay.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

# The place of the crate's source, by cargo.
source_of_core() {
	$cargo metadata --locked --format-version 1 | tr ',' '\n' |
		sed -n 's/.*"manifest_path":"\(.*libbitcoinkernel-sys[^"]*\)\/Cargo.toml".*/\1/p' | head -n 1
}

build() {
	crate=$(source_of_core)
	[ -d "$crate/bitcoin" ] || {
		echo "the source of Bitcoin Core is not where cargo says: $crate/bitcoin" >&2
		exit 1
	}
	# Without a home, the target directory serves.
	cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
	cache=${cache:-$PWD/target}/apus/bitcoind-$(basename "$crate")
	BITCOIND=$cache/bitcoind
	[ -x "$BITCOIND" ] && [ -x "$cache/bitcoin-cli" ] && return
	echo "building bitcoind in $cache (once; four to eight minutes)"
	mkdir -p "$cache"
	work=$cache/build
	log=$cache/build.log
	rm -rf "$work"
	if ! {
		# Without the flags of make, which are for a build with debug data.
		env -u CXXFLAGS cmake -S "$crate/bitcoin" -B "$work" -DCMAKE_BUILD_TYPE=Release \
			-DCMAKE_TOOLCHAIN_FILE="$PWD/scripts/core.cmake" \
			-DWITH_EMBEDDED_ASMAP=OFF -DENABLE_WALLET=OFF -DENABLE_IPC=OFF -DBUILD_TESTS=OFF \
			-DBUILD_BENCH=OFF -DBUILD_TX=OFF -DBUILD_UTIL=OFF -DBUILD_GUI=OFF \
			-DBUILD_BITCOIN_BIN=OFF -DINSTALL_MAN=OFF -DENABLE_EXTERNAL_SIGNER=OFF -DWITH_CCACHE=OFF &&
			cmake --build "$work" -j"$(getconf _NPROCESSORS_ONLN)" --target bitcoind bitcoin-cli
	} >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		echo "bitcoind cannot be built; all that the build said is in $log" >&2
		exit 1
	fi
	strip -o "$cache/bitcoin-cli" "$work/bin/bitcoin-cli"
	# Last, so that what is there is whole.
	strip -o "$cache/bitcoind.new" "$work/bin/bitcoind"
	mv "$cache/bitcoind.new" "$BITCOIND"
	rm -rf "$work"
}

if [ -z "${BITCOIND:-}" ]; then
	sh scripts/setup.sh
	build
fi
export BITCOIND
"$BITCOIND" -version | head -n 1
[ $# -eq 0 ] || exec "$@"
# shellcheck disable=SC2086
exec $cargo test --release --locked --workspace ${CHECKED:-} --test it --test judge -- \
	bitcoind:: --nocapture
