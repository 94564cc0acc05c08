#!/bin/sh
# Installs the Debian package in a fresh Debian, uses it, upgrades it and purges it (needs root,
# debootstrap, gpg, cargo-deb and Debian's archive).
#
#   scripts/deb-test.sh PROGRAM
#
# The package is made of PROGRAM, whose symbols are left out.
set -eu
cd "$(dirname "$0")/.."
program=$(realpath "$1")
suite=${SUITE:-bookworm}
root=$(mktemp -d)
chroot=$root/chroot
trap 'gpgconf --homedir "$root/keys" --kill all 2>/dev/null || true
	umount "$chroot/proc" 2>/dev/null || true; rm -rf "$root"' EXIT
passed=0
# check WORDS COMMAND: says whether the command succeeds.
check() {
	words=$1
	shift
	if "$@" >"$root/output" 2>&1; then
		passed=$((passed + 1))
		echo "ok: $words"
	else
		echo "FAILED: $words" && tail -n 20 "$root/output" && exit 1
	fi
}
not() { ! "$@"; }
inside() {
	chroot "$chroot" /usr/bin/env -i DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8 \
		PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

strip -o "$root/apus" "$program"
scripts/stage.sh "$root/apus"
for version in 0.1.0-1 0.1.1-1; do
	mkdir "$root/$version"
	scripts/deb.sh "$root/$version" "$version"
done
if command -v lintian >/dev/null; then
	check "lintian is content" lintian --allow-root --fail-on error,warning "$root/0.1.0-1"/apus_*.deb
else
	echo "skipped: lintian (apt-get install lintian)"
fi

cp -a "$(scripts/debian.sh "$suite")" "$chroot"
mount -t proc proc "$chroot/proc"
mkdir "$chroot/packages"
cp "$root"/*/apus_*.deb apus/data/regtest-1-206.dat "$chroot/packages"
export GNUPGHOME="$root/keys" GPG_KEY=release@apus
mkdir -m 700 "$GNUPGHOME"
gpg --batch --quiet --pinentry-mode loopback --passphrase '' --quick-gen-key "$GPG_KEY" ed25519 sign
scripts/apt-repository.sh "$root/0.1.0-1" >/dev/null
cp -r "$root/0.1.0-1/apt" "$chroot/repository"
gpg --batch --export "$GPG_KEY" >"$chroot/repository/apus.gpg"
echo "deb [signed-by=/repository/apus.gpg] file:/repository stable main" \
	>"$chroot/etc/apt/sources.list.d/apus.list"
# No service is started in a chroot.
printf '#!/bin/sh\nexit 101\n' >"$chroot/usr/sbin/policy-rc.d"
chmod +x "$chroot/usr/sbin/policy-rc.d"

check "apt-get update with the repository" inside apt-get update
check "apt-get install apus, from the repository" inside apt-get install -y --no-install-recommends apus
check "the program runs" inside apus --version
check "apus demo" inside apus demo
check "apus init" inside apus init --lan=0
check "the user apus" inside getent passwd apus
check "its directory" test "$(inside stat -c %U:%a /var/lib/apus)" = apus:710
check "the user apus syncs" inside setpriv --reuid=apus --regid=apus --clear-groups \
	apus sync --from /packages/regtest-1-206.dat --regtest --datadir /var/lib/apus --conf /etc/apus/bitcoin.conf
for file in usr/share/man/man1/apus-sync.1.gz usr/share/bash-completion/completions/apus \
	usr/share/zsh/vendor-completions/_apus usr/share/fish/vendor_completions.d/apus.fish \
	usr/share/doc/apus/THIRD-PARTY-LICENSES.gz usr/share/doc/apus/copyright; do
	check "/$file" test -s "$chroot/$file"
done
unit=$(find "$chroot/lib/systemd" "$chroot/usr/lib/systemd" -name apus.service | head -n 1)
check "the unit" test -n "$unit"
check "systemd, to check the unit" inside apt-get install -y --no-install-recommends systemd
check "systemd-analyze verify" inside systemd-analyze verify --man=no apus.service
check "systemd-analyze security below 2.0" inside systemd-analyze security --offline=yes \
	--threshold=20 apus.service
check "the service is not enabled" test ! -e "$chroot/etc/systemd/system/multi-user.target.wants/apus.service"

echo "prune=550" >>"$chroot/etc/apus/bitcoin.conf"
check "an upgrade" inside apt-get install -y /packages/apus_0.1.1-1_amd64.deb
check "which keeps the settings" grep -q '^prune=550' "$chroot/etc/apus/bitcoin.conf"
check "and is the new version" sh -c "chroot '$chroot' dpkg-query -W apus | grep -q 0.1.1-1"
check "a removal" inside apt-get remove -y apus
check "which keeps settings and data" test -e "$chroot/etc/apus/bitcoin.conf" -a -d "$chroot/var/lib/apus/regtest"
check "a purge" inside apt-get purge -y apus
check "of the program" test ! -e "$chroot/usr/bin/apus"
check "of the settings" test ! -e "$chroot/etc/apus"
check "not of blocks" test -d "$chroot/var/lib/apus/regtest"
rm -r "$chroot/var/lib/apus/regtest"
rm -rf "$chroot"/var/lib/apus/.[a-z]*
check "an installation of the file" inside apt-get install -y /packages/apus_0.1.0-1_amd64.deb
check "whose purge" inside apt-get purge -y apus
check "removes an empty data directory" test ! -e "$chroot/var/lib/apus"
echo "$passed passed, 0 failed"
