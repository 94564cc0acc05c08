#!/bin/sh
# Prints the directory of a fresh, minimal Debian, which is made the first time (needs root,
# debootstrap and Debian's archive).
#
#   scripts/debian.sh SUITE
set -eu
cd "$(dirname "$0")/.."
base=$PWD/target/debian-$1
if [ ! -d "$base" ]; then
	mkdir -p target
	made=$(mktemp -d "$PWD/target/debian.XXXXXX")
	debootstrap --variant=minbase "$1" "$made" >"$made.log" 2>&1 || { tail -n 20 "$made.log" >&2 && exit 1; }
	chmod 755 "$made"
	mv "$made" "$base"
	rm "$made.log"
fi
echo "$base"
