#!/bin/sh
# Lays out what a package of Apus installs, below target/package: the program, its manual pages, the
# completions of three shells, licences, the systemd unit, and a bitcoin.conf for it.
#
#   scripts/stage.sh PROGRAM [RUNNABLE]
#
# RUNNABLE writes the manual pages and completions, if PROGRAM is of another processor. Times of
# files are those of the last commit (SOURCE_DATE_EPOCH names another).
set -eu
cd "$(dirname "$0")/.."
program=$1
runnable=$(realpath "${2:-$1}")
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
root=target/package
rm -rf "$root"
mkdir -p "$root"

install -D -m 755 "$program" "$root/bin/apus"
"$runnable" man --dir "$root/share/man/man1"
for shell in bash zsh fish; do
	case $shell in
	bash) to=bash-completion/completions/apus ;;
	zsh) to=zsh/site-functions/_apus ;;
	fish) to=fish/vendor_completions.d/apus.fish ;;
	esac
	mkdir -p "$(dirname "$root/share/$to")"
	"$runnable" completions "$shell" >"$root/share/$to"
done

doc=$root/share/doc/apus
mkdir -p "$doc"
cp LICENSE-MIT LICENSE-APACHE README.md SECURITY.md CHANGELOG.md "$doc"
cp -r docs/guide "$doc/guide"
cp -r contrib "$doc/contrib"
rm -rf "$doc/contrib/debian"
python3 scripts/licences.py >"$doc/THIRD-PARTY-LICENSES"

# For the Debian package alone.
debian=$root/debian
mkdir -p "$debian/scripts"
sed 's#/usr/local/bin/apus#/usr/bin/apus#' contrib/systemd/apus.service >"$debian/apus.service"
cp contrib/debian/bitcoin.conf contrib/debian/lintian-overrides "$debian"
cp contrib/debian/postinst contrib/debian/postrm "$debian/scripts"
version=$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
maintainer=$(sed -n 's/^maintainer = "\(.*\)"/\1/p' apus/Cargo.toml)
gzip -9nc CHANGELOG.md >"$debian/changelog.gz"
cat >"$debian/changelog" <<EOF
apus ($version-1) stable; urgency=medium

  * Changes of this release: /usr/share/doc/apus/changelog.gz.

 -- $maintainer  $(date -R -d "@$SOURCE_DATE_EPOCH")
EOF
cat contrib/debian/licence LICENSE-MIT >"$debian/licence"
gzip -9nc "$doc/THIRD-PARTY-LICENSES" >"$debian/THIRD-PARTY-LICENSES.gz"

find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
chmod -R u=rwX,go=rX "$root"
chmod 755 "$debian"/scripts/*
