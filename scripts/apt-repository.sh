#!/bin/sh
# Makes a repository for apt of the Debian packages in a directory, in DIRECTORY/apt (needs
# apt-ftparchive). GPG_KEY=NAME signs it.
#
#   scripts/apt-repository.sh DIRECTORY
set -eu
cd "$1"
if ! command -v apt-ftparchive >/dev/null; then
	echo "skipped: the repository for apt (apt-get install apt-utils)"
	exit 0
fi
rm -rf apt
mkdir -p apt/pool/main/a/apus
cp apus_*.deb apt/pool/main/a/apus
cd apt
for architecture in amd64 arm64; do
	packages=dists/stable/main/binary-$architecture
	mkdir -p "$packages"
	apt-ftparchive --arch "$architecture" packages pool >"$packages/Packages"
	gzip -9nk "$packages/Packages"
done
# The time of the last commit, so that the same packages give the same file.
date="Date: $(date -Ru -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" | sed 's/+0000/UTC/')"
of=APT::FTPArchive::Release
apt-ftparchive -o $of::Origin=Apus -o $of::Label=Apus -o $of::Suite=stable -o $of::Codename=stable \
	-o $of::Components=main -o "$of::Architectures=amd64 arm64" release dists/stable |
	sed "s/^Date: .*/$date/" >Release
mv Release dists/stable/Release
if [ -n "${GPG_KEY:-}" ]; then
	gpg --batch --yes --local-user "$GPG_KEY" --clearsign -o dists/stable/InRelease dists/stable/Release
fi
