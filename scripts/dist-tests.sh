#!/bin/sh
# Runs the tests of signatures and scripts as `make dist` builds the program that people install: with
# link-time optimisation over all crates, each compiled as one unit.
#
# The C++ of Bitcoin Core's engine is the same in each profile (its build script asks for
# RelWithDebInfo). So the archive of the release profile is linked where there is one, in the place of
# one that takes minutes to compile.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-$PWD/target}
# The newest.
archive=$(ls -t "$target"/release/build/libbitcoinkernel-sys-*/out/install/lib/libbitcoinkernel.a \
	2>/dev/null | head -n 1)
if [ -n "$archive" ]; then
	# Cargo's way to leave out the build script of a crate that links a library.
	links="target.$host.\"libbitcoinkernel.a\""
	echo "linking $archive"
	directory=$(cd "$(dirname "$archive")" && pwd)
	set -- --config "$links.rustc-link-search=['native=$directory']" \
		--config "$links.rustc-link-lib=['static=bitcoinkernel', 'dylib=stdc++']"
fi
set -x
$cargo test --profile dist --locked -p secp-lanes --lib --tests
$cargo test --profile dist --locked "$@" -p apus-scripts --lib -- tests::fast_scripts
