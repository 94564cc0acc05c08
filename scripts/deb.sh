#!/bin/sh
# Makes the Debian package of what scripts/stage.sh has laid out (needs cargo-deb).
#
#   scripts/deb.sh DIRECTORY [VERSION] [TARGET]
#
# The package is put into DIRECTORY. TARGET is that of the program, if it is not of this machine.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
umask 022
host=$(rustc -vV | sed -n 's/^host: //p')
other=""
[ "${3:-$host}" = "$host" ] || other=$3
set -- "$(realpath "$1")" ${2:+--deb-version "$2"} ${other:+--target "$other"}
directory=$1
shift
$cargo deb --quiet --no-build --no-strip --locked --manifest-path apus/Cargo.toml \
	--output "$directory/" "$@"
