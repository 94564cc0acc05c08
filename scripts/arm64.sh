#!/bin/sh
# Apus for ARM of 64 bits (aarch64-unknown-linux-gnu, as on a Raspberry Pi), built and tested on an
# x86-64 machine with Debian 12 or later.
#
#   scripts/arm64.sh [tools] [build] [test] [wheel]
#
#   tools   installs what the others need: compilers, Rust's standard library, qemu
#   build   builds target/aarch64-unknown-linux-gnu/release/apus
#   test    runs in qemu: the tests of all libraries, some integration tests, and the demo
#   wheel   builds the Python package for such a machine, target/wheels/apus_bitcoin-*_aarch64.whl
#   ready   succeeds if all tools are there, and is used alone
#
# The program runs with the C library of the Debian that builds it and with later ones: 2.36 on
# Debian 12.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
arm=aarch64-unknown-linux-gnu
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# The kernel's list of programs that run other processors' programs.
formats=/proc/sys/fs/binfmt_misc
# Of the integration tests: power cuts, kills, interruptions, the handover, the format, mainnet's blocks, the
# engines of scripts, and signatures in lanes.
chosen='crash:: crash_join:: lost_work:: interrupts:: then:: format:: kernel:: real_chains:: script_engines::
	reorganisation:: bip30:: differential:: exceptional:: vectors::'
# Left out: those that measure memory, which in qemu is the emulator's; and one that verifies signatures in
# lanes for a quarter of an hour, since qemu computes double-precision numbers in software. The tests next
# to it run the same code.
left_out='--skip memory --skip flips::no_change_is_valid'

export CMAKE_TOOLCHAIN_FILE="$PWD/scripts/arm64.cmake"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# Where qemu finds the libraries of a program.
export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu

tools() {
	sh scripts/setup.sh
	rustup target add "$arm"
	sudo=""
	[ "$(id -u)" = 0 ] || sudo=sudo
	if ! command -v aarch64-linux-gnu-g++ >/dev/null || ! command -v qemu-aarch64-static >/dev/null; then
		$sudo apt-get update -qq
		$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			g++-aarch64-linux-gnu qemu-user-static >/dev/null
	fi
	# As systemd does when the machine starts. Tests start programs by themselves.
	[ -e $formats/register ] || $sudo mount -t binfmt_misc none $formats
	[ -e $formats/qemu-aarch64 ] ||
		$sudo sh -c "cat /usr/lib/binfmt.d/qemu-aarch64.conf >$formats/register"
}

ready() {
	command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64-static >/dev/null &&
		[ -e $formats/qemu-aarch64 ] && [ -d "$(rustc --print sysroot)/lib/rustlib/$arm" ]
}

# Runs a command, and says how long it took.
timed() {
	what=$1
	start=$(date +%s)
	shift
	"$@"
	echo "arm64: $what: $(($(date +%s) - start)) s"
}

build() {
	timed "building the program" \
		$cargo build --release --locked --workspace --bin apus --target $arm
}

run_tests() {
	$cargo test --release --locked --workspace --target $arm "$@"
}

test_all() {
	timed "building the tests" run_tests --lib --test it --no-run
	# shellcheck disable=SC2086
	timed "tests of all libraries" run_tests --lib -- $left_out
	# shellcheck disable=SC2086
	timed "integration tests" run_tests --test it -- $left_out $chosen
	timed "the demo" "$target/$arm/release/apus" demo
}

wheel() {
	timed "building the Python package" env CARGO="$cargo" sh scripts/python.sh wheel $arm
}

[ $# -gt 0 ] || set -- help
for step; do
	case $step in
	tools | ready | build | wheel) $step ;;
	test) test_all ;;
	*)
		sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
		exit 2
		;;
	esac
done
