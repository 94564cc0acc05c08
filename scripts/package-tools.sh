#!/bin/sh
# Installs what make test-deb and make test-container need: as root from Debian's archive, and
# cargo-deb into target/tools. With the word `ready` it only succeeds if all of it is there.
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 1
missing=""
for tool in debootstrap buildah lintian gpg apt-ftparchive:apt-utils; do
	command -v "${tool%:*}" >/dev/null || missing="$missing ${tool#*:}"
done
if [ "${1:-}" = ready ]; then
	[ -z "$missing" ] && { cargo deb --version >/dev/null 2>&1 || [ -x target/tools/bin/cargo-deb ]; }
	exit
fi
if [ -n "$missing" ]; then
	echo "installing:$missing"
	apt-get update -qq
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
cargo deb --version >/dev/null 2>&1 || [ -x target/tools/bin/cargo-deb ] ||
	env -u CARGO_TARGET_DIR CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
		cargo install --quiet --locked --root target/tools cargo-deb@3.8.0
