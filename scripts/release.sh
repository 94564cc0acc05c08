#!/bin/sh
# Builds everything that is released, in dist/: tarballs, the Debian package and its repository, the
# Python wheel, the SBOM and the sums. Paths and times of the build are kept out of them.
#
#   scripts/release.sh
#
# What a tool that is missing would add is reported as skipped: cargo-auditable (the dependencies,
# in the program), cargo-cyclonedx (the SBOM), cargo-deb, apt-ftparchive. SIGNING_KEY=FILE is an SSH
# key that signs the sums (ssh-keygen -Y), GPG_KEY=NAME one that signs the repository. FEATURES are as
# for make; ARM=0 leaves the other processor out, WHEEL=0 the wheel. A tree with changes is refused
# (DIRTY=1 builds it all the same).
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
build=$(realpath -m "${CARGO_BUILD_BUILD_DIR:-$target}")
home=$(realpath -m "${CARGO_HOME:-$HOME/.cargo}")
FEATURES=${FEATURES-export}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
LC_ALL=C TZ=UTC
export SOURCE_DATE_EPOCH LC_ALL TZ FEATURES
umask 022
version=$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
host=$(rustc -vV | sed -n 's/^host: //p')
skipped=""

if [ -n "$(git status --porcelain)" ] && [ -z "${DIRTY:-}" ]; then
	echo "the tree has changes, which no commit names: commit them first" >&2
	exit 1
fi
has() { $cargo "$1" --version >/dev/null 2>&1; }
skip() { echo "skipped: $1" && skipped="$skipped $1;"; }
features() { for feature in $FEATURES; do printf ' --features apus/%s' "$feature"; done; }

# No path of this machine is in what is built.
maps="$PWD=/apus $target=/build $build=/build $home=/cargo"
flags="" cflags=""
for map in $maps; do
	flags="$flags --remap-path-prefix=$map"
	cflags="$cflags -ffile-prefix-map=$map"
done
export RUSTFLAGS="${RUSTFLAGS:-}$flags" CFLAGS="${CFLAGS:-}$cflags" CXXFLAGS="${CXXFLAGS:-}$cflags"

# tarball TARGET: what is staged, as one directory.
tarball() {
	name=apus-$version-$1
	tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
		--format=ustar --exclude=./debian --transform="s#^\.#$name#" \
		-C target/package -cf - . | gzip -9n >"dist/$name.tar.gz"
}

# released TARGET PROGRAM: the tarball and the Debian package of a program, whose manual pages and
# completions the program of this machine writes.
released() {
	RELEASE_TARGET=$1 scripts/stage.sh "$2" "$target/dist/apus"
	tarball "$1"
	if has deb; then
		scripts/deb.sh dist "" "$1"
	else
		skip "the Debian package for $1 (cargo-deb)"
	fi
}

rm -rf dist
mkdir -p dist
auditable=""
if has auditable; then auditable=auditable; else skip "the list of dependencies in the program (cargo-auditable)"; fi
# shellcheck disable=SC2046
set -- $auditable build --profile dist --locked --workspace --bin apus $(features)
$cargo "$@"
released "$host" "$target/dist/apus"

# The processor of node boxes, if this machine can build for it (make arm64).
arm=aarch64-unknown-linux-gnu
has_arm=""
if [ "$host" = "$arm" ]; then
	:
elif [ "${ARM:-1}" = 0 ]; then
	skip "the program for $arm (ARM=0)"
elif [ ! -e scripts/arm64.sh ] || ! sh scripts/arm64.sh ready; then
	skip "the program for $arm (scripts/arm64.sh tools)"
elif env CMAKE_TOOLCHAIN_FILE="$PWD/scripts/arm64.cmake" \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc $cargo "$@" --target "$arm"; then
	released "$arm" "$target/$arm/dist/apus"
	has_arm=1
else
	skip "the program for $arm (it does not build here)"
fi
if [ -n "$(find dist -name 'apus_*.deb')" ]; then
	scripts/apt-repository.sh dist
fi

if has cyclonedx; then
	# shellcheck disable=SC2046
	$cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$host" --describe binaries \
		--manifest-path apus/Cargo.toml --features "$FEATURES"
	find . -name 'apus_bin*.cdx.json' -path './apus/*' -exec mv {} "dist/apus-$version-$host.cdx.json" \;
	find . -name '*.cdx.json' -not -path './dist/*' -not -path './target/*' -delete
	sed -i "s#path+file://$PWD#path+file:///apus#g" "dist/apus-$version-$host.cdx.json"
else
	skip "the SBOM (cargo-cyclonedx)"
fi

if [ "${WHEEL:-1}" = 0 ]; then
	skip "the Python wheel (WHEEL=0)"
elif CARGO="$cargo" WHEEL_PROFILE=dist sh scripts/python.sh wheel; then
	cp "$target"/wheels/apus_bitcoin-*.whl dist
	if [ -n "$has_arm" ]; then
		CARGO="$cargo" WHEEL_PROFILE=dist sh scripts/arm64.sh wheel
		cp "$target"/wheels/apus_bitcoin-*.whl dist
	fi
else
	skip "the Python wheel (maturin cannot be installed from PyPI)"
fi

(cd dist && find . -type f ! -name 'SHA256SUMS*' | sed 's#^\./##' | sort | xargs sha256sum >SHA256SUMS)
if [ -n "${SIGNING_KEY:-}" ]; then
	ssh-keygen -q -Y sign -f "$SIGNING_KEY" -n file dist/SHA256SUMS
else
	skip "the signature of the sums (SIGNING_KEY names no key)"
fi
cat dist/SHA256SUMS
[ -z "$skipped" ] || echo "skipped:$skipped"
