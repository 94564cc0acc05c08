#!/bin/sh
# Runs `make release` in two clones of the last commit, in directories of different names, and compares
# the sums; then verifies the signature and runs what was built.
#
# Only the program of this machine's processor is built, with its packages; ARM=1 adds the other
# processor, WHEEL=1 the Python wheel. On 2 cores that takes half an hour, and twice as long with both.
set -eu
cd "$(dirname "$0")/.."
repository=$PWD
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset CARGO_TARGET_DIR CARGO_BUILD_BUILD_DIR
ssh-keygen -q -t ed25519 -N '' -C release@apus -f "$root/key"
export SIGNING_KEY="$root/key"
ARM=${ARM:-0} WHEEL=${WHEEL:-0}
export ARM WHEEL
for clone in one another/folder; do
	mkdir -p "$root/$(dirname "$clone")"
	git clone -q "$repository" "$root/$clone"
	echo "building in $root/$clone"
	start=$(date +%s)
	(cd "$root/$clone" && make release >"$root/log" 2>&1) || { tail -n 30 "$root/log" && exit 1; }
	echo "built in $(($(date +%s) - start)) s"
	# Only dist/ is compared, and a build takes gigabytes.
	rm -rf "$root/$clone/target"
done
grep '^skipped' "$root/log" || true
diff "$root/one/dist/SHA256SUMS" "$root/another/folder/dist/SHA256SUMS"
cmp "$root/one/dist/SHA256SUMS.sig" "$root/another/folder/dist/SHA256SUMS.sig"
echo "both builds have the same $(wc -l <"$root/one/dist/SHA256SUMS") sums"

cd "$root/one/dist"
sha256sum --quiet --check SHA256SUMS
printf 'release@apus %s\n' "$(cut -d ' ' -f 1,2 "$root/key.pub")" >"$root/allowed"
ssh-keygen -q -Y verify -f "$root/allowed" -I release@apus -n file -s SHA256SUMS.sig <SHA256SUMS
tar -xzf apus-*-"$(uname -m)"-*.tar.gz
program=$(echo "$PWD"/apus-*/bin/apus)
"$program" --version
"$program" demo
# What the program needs of glibc: not more than Debian 12 has.
needs=$(objdump -T "$program" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
echo "needs $needs"
[ "$(printf '%s\nGLIBC_2.36\n' "$needs" | sort -V | tail -n 1)" = GLIBC_2.36 ]
for path in "$root" "$HOME"; do
	! grep -aq "$path" "$program" || { echo "the program contains the path $path" && exit 1; }
done
