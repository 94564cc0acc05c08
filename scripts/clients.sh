#!/bin/sh
# Installs btcd, bitcoinj, neutrino and client libraries from their registries, and runs them with Apus.
#
#   scripts/judge.sh sh scripts/clients.sh APUS DIRECTORY
#
# It needs Go, Java with Maven, Node.js and Python. DIRECTORY keeps what is installed.
set -eu
sources=$(dirname "$0")/clients
apus=$1
to=$2
mkdir -p "$to/jars"
to=$(cd "$to" && pwd)

export GOBIN="$to/bin"
go install github.com/btcsuite/btcd@v0.26.2
cp "$sources/calls.js" "$to/calls.js"

# Compiles a program with this module, which decides the versions of the others.
compile() {
	mkdir -p "$to/go/$1"
	cp "$sources/$1.go" "$to/go/$1/main.go"
	(
		cd "$to/go/$1"
		[ -f go.mod ] || go mod init "$1"
		go get "$2"
		go mod tidy
		go build -o "$to/$1" .
	)
}
compile calls github.com/btcsuite/btcd@v0.26.2
compile filters github.com/lightninglabs/neutrino@v0.16.1
mvn --quiet --batch-mode --file "$sources/pom.xml" dependency:copy-dependencies \
	-DoutputDirectory="$to/jars"
npm install --silent --no-audit --no-fund --prefix "$to" bitcoin-core@5.0.0
python3 -m venv "$to/python"
"$to/python/bin/pip" install --quiet python-bitcoinlib==0.12.2
exec python3 "$(dirname "$0")/clients.py" "$apus" "$BITCOIND" "$to"
