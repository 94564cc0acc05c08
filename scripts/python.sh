#!/bin/sh
# The Python package: builds its wheel, tests it, measures it.
#
#   scripts/python.sh tools    installs what the others need from PyPI, in target/python-package
#   scripts/python.sh wheel    builds target/wheels/apus_bitcoin-*.whl; followed by a target of Rust, for that one
#   scripts/python.sh test     installs the wheel, and checks and tests it
#   scripts/python.sh bench    measures its tables next to `apus export` and another reader
#
# PYTHON names another Python than python3.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
venv=$target/python-package
programs=$target/python-programs

installs() {
	[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
	"$venv/bin/python" -m pip install --quiet --retries 1 --timeout 20 --disable-pip-version-check "$@"
}

maturin() {
	installs 'maturin>=1.9.4,<2'
}

tools() {
	maturin
	installs -r python/requirements-test.txt
}

# Dependencies that the wheel and the program have with the same features are compiled once for both
# (python/Cargo.toml says how).
same_features() {
	for packages in '--workspace --features apus/export' '-p apus-python --features module'; do
		# Split into arguments:
		# shellcheck disable=SC2086
		$cargo tree --locked -e normal,build --prefix none --no-dedupe -f '{p}|{f}' $packages
		echo end of list
	done | awk -F'|' '
		{ sub(/ \(\*\)$/, "") }
		/^end of list$/ { wheel = 1 }
		/\(\// { next }
		!wheel { program[$1] = 1; seen[$0] = 1; next }
		program[$1] { compared++; if (!seen[$0]++) { print "compiled twice, with other features: " $0; differ = 1 } }
		END { exit differ || !compared }'
}

# The profile is the program's, too.
wheel() {
	rm -rf "$target/wheels"
	"$venv/bin/maturin" build --profile "${WHEEL_PROFILE:-release}" --locked --manifest-path python/Cargo.toml \
		--target-dir "$target" --out "$target/wheels" ${1:+--target "$1"}
	wheel=$(ls "$target"/wheels/apus_bitcoin-*.whl)
}

installed() {
	wheel
	"$venv/bin/python" -m pip install --quiet --force-reinstall --no-deps --no-index \
		--disable-pip-version-check "$wheel"
}

# The programs that the tests use. Their features are those of the wheel, so little is compiled; they
# lie apart, so that target/release/apus stays what `make build` made.
programs() {
	env CARGO_BUILD_BUILD_DIR="$target" CARGO_TARGET_DIR="$programs" \
		$cargo build --release --locked -p apus -p apus-testchain -p apus-python \
		--features apus-python/module --bin apus --bin apus-testchain
	APUS=$programs/release/apus APUS_TESTCHAIN=$programs/release/apus-testchain
	export APUS APUS_TESTCHAIN
}

case ${1:-} in
tools) tools ;;
wheel) maturin && wheel "${2:-}" ;;
test)
	same_features
	tools
	installed
	programs
	$cargo clippy --release --locked -p apus-python --features module -- -D warnings
	# From a directory without sources of the package, which would hide the installed one.
	root=$PWD && cd "$target/wheels"
	"$venv/bin/python" -m mypy --config-file "$root/python/pyproject.toml" -p apus
	"$venv/bin/python" -m mypy.stubtest apus._apus
	APUS_WHEEL=$wheel "$venv/bin/python" -m pytest -q -p no:cacheprovider \
		-c "$root/python/pyproject.toml" "$root/python/tests"
	;;
bench)
	tools
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check blockchain-parser
	installed
	programs
	root=$PWD && cd "$target/wheels"
	shift
	"$venv/bin/python" "$root/bench/python.py" "$@"
	;;
*)
	sed -n 's/^#   //p' "$0"
	exit 2
	;;
esac
