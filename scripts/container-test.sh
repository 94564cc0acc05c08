#!/bin/sh
# Builds the container image and runs it: who it runs as, the volume, the demo, the handover, and the
# command that tells whether it is healthy (needs root, buildah and debootstrap).
#
#   scripts/container-test.sh PROGRAM
set -eu
# shellcheck disable=SC2086
cd "$(dirname "$0")/.."
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# Everything is gone afterwards.
export BUILDAH_STORAGE="--root $root/storage --runroot $root/run --storage-driver vfs"
strip -o "$root/apus" "$1"
tag=$(scripts/container.sh "$root/apus" "$root/image.tar" | tail -n 1)
echo "built $tag, $(($(stat -c %s "$root/image.tar") / 1000000)) MB"
inspected=$(buildah $BUILDAH_STORAGE inspect --type image "$tag")
for words in '"User": "1000:1000"' '"StopSignal": "SIGTERM"' apus-healthcheck '"/data": {}'; do
	echo "$inspected" | grep -qF "$words" || { echo "FAILED: the image has no $words" && exit 1; }
done
container=$(buildah $BUILDAH_STORAGE from --pull-never "$tag")
mkdir "$root/data"
chown 1000:1000 "$root/data"
inside() {
	buildah $BUILDAH_STORAGE run --isolation chroot --user 1000:1000 -v "$root/data:/data:rw" \
		-v "$PWD/apus/data:/blocks:ro" "$container" -- "$@"
}
[ "$(inside id -u)" = 1000 ]
inside apus demo
inside apus sync --quiet --from /blocks/mainnet-0-14131.dat --datadir /data --then 'echo handed over' |
	grep '^handed over'
[ "$(stat -c %u "$root/data/chainstate")" = 1000 ]
if inside apus-healthcheck 2>/dev/null; then
	echo "FAILED: healthy without a server" && exit 1
fi
inside sh -c 'apus serve --datadir=/data --server --bind=127.0.0.1:18444 >/tmp/log 2>&1 & id=$!
	for _ in $(seq 100); do apus-healthcheck 2>/dev/null && break; sleep 0.1; done
	apus-healthcheck && kill -TERM $id && wait $id'
echo "7 passed, 0 failed"
