#!/bin/sh
# Builds the container image apus (needs root, buildah and debootstrap).
#
#   scripts/container.sh PROGRAM [ARCHIVE]
#
# The image is Debian's base with libstdc++, the program and nothing else; it runs as the user
# 1000:1000, like the images of node boxes, and keeps its directory in the volume /data. ARCHIVE is
# written as `docker load` and `podman load` read it. VERSION names the tag.
# BUILDAH_STORAGE are other options of buildah for its storage.
set -eu
cd "$(dirname "$0")/.."
program=$1
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
version=${VERSION:-$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
base=$(scripts/debian.sh bookworm)
# vfs needs neither overlays nor a user namespace, so that it works inside a container too.
storage=${BUILDAH_STORAGE:---storage-driver vfs}

image=$root/image
mkdir "$image"
# What a program needs: the libraries, the loader, names, certificates, and a shell for --then.
tar -C "$base" --exclude=./var/cache --exclude=./var/lib/apt/lists --exclude=./usr/share/doc \
	--exclude=./usr/share/locale --exclude=./usr/share/man --exclude=./proc --exclude=./sys -cf - . |
	tar -C "$image" -xf -
install -D -m 755 "$program" "$image/usr/bin/apus"
install -D -m 755 contrib/container/healthcheck "$image/usr/bin/apus-healthcheck"
mkdir -p "$image/data" "$image/proc" "$image/sys"
chown 1000:1000 "$image/data"
find "$image" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

container=$(buildah $storage from --format docker scratch)
buildah $storage copy -q "$container" "$image" / >/dev/null
buildah $storage config --user 1000:1000 --volume /data --workingdir /data --stop-signal SIGTERM \
	--env HOME=/data --entrypoint '["/usr/bin/apus"]' \
	--cmd 'sync --follow --server --datadir=/data --rpcbind=0.0.0.0 --rpcallowip=172.16.0.0/12' \
	--healthcheck 'CMD /usr/bin/apus-healthcheck' --healthcheck-interval 60s --healthcheck-timeout 10s \
	--healthcheck-start-period 5m --port 8332/tcp --port 8333/tcp \
	--label org.opencontainers.image.title=apus --label "org.opencontainers.image.version=$version" \
	--label 'org.opencontainers.image.licenses=MIT OR Apache-2.0' \
	--history-comment '' "$container"
buildah $storage commit -q --format docker --timestamp "$SOURCE_DATE_EPOCH" --rm "$container" "apus:$version" >/dev/null
if [ -n "${2:-}" ]; then
	rm -f "$2"
	buildah $storage push -q "apus:$version" "docker-archive:$2:apus:$version"
fi
echo "apus:$version"
