#!/bin/sh
# Installs what bitcoinkernel's C++ needs and is missing: cmake, a C++ compiler, Boost headers.
set -eu
missing=""
command -v cmake >/dev/null 2>&1 || missing="$missing cmake"
command -v g++ >/dev/null 2>&1 || command -v clang++ >/dev/null 2>&1 || missing="$missing g++"
[ -e /usr/include/boost/version.hpp ] || [ -e /usr/local/include/boost/version.hpp ] ||
	[ -e /opt/homebrew/include/boost/version.hpp ] || missing="$missing libboost-dev"
command -v cargo >/dev/null 2>&1 || {
	echo "cargo is missing: install Rust with rustup (https://rustup.rs)" >&2
	exit 1
}
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
	echo "missing:$missing (install them with your system's package manager)" >&2
	exit 1
fi
sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing:$missing"
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
