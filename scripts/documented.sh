#!/usr/bin/env bash
# Runs every command in the code blocks of README.md, docs/*.md and docs/guide/*.md, so that none of
# them rots, and compares its output with the lines that a `console` block shows.
#
#   scripts/documented.sh [PROGRAM]      PROGRAM is target/release/apus unless it is given
#
# The commands are read from the documents. Each document has a temporary directory of its own with
# the names that they use: /old/node and Bitcoin Core's own directory hold the first 14,132 blocks of
# mainnet, bootstrap.dat is a file of these, HASH is the last of them, and heights that are too high
# for them stand for lower ones. Nobody is connected to. Queries are run where Python has DuckDB and
# pyarrow (APUS_TEST_PYTHON names another Python).
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
program=$(realpath "${1:-target/release/apus}")
python=${APUS_TEST_PYTHON:-python3}
hash=00000000b3e750f37fdb42e1018799a9f44b546d393b130b369590a072430a1c

# Commands that are not run, as they are in the documents, each with the reason. One that no document
# has any more is an error.
not_run=(
	"apus sync --follow|needs peers"
	"apus shard plan --datadir /old/node --blocks s3://bucket/blocks --job s3://bucket/job|needs an object store"
	"apus sync --connect 192.0.2.7|needs a peer at an address of examples"
	"apus sync --addnode 192.0.2.7|needs a peer at an address of examples"
	"apus sync --maxdownload 2|needs peers"
	"apus sync --maxdownload 20@08:00-23:00|needs peers"
	"apus serve|does not end"
	"bitcoin-cli getblockchaininfo|needs Bitcoin Core"
	"apus sync --then 'bitcoind -daemon'|needs peers and Bitcoin Core"
	"apus sync --server --rpcbind=0.0.0.0 --rpcallowip=192.168.1.0/24 --rpcauth='me:…\$…'|its password is left out"
	"apus serve --datadir /old/node|does not end"
	"apus serve --datadir /old/node --bind 192.0.2.7|does not end"
	"apus serve --datadir /old/node --maxuploadtarget 5000|does not end"
	"apus serve --peerhints mainnet.hints|does not end"
	"apus sync --connect 192.0.2.7 --hints peer --hints-sha256 HEX --assumevalid HASH|needs a peer at an address of examples"
	"apus sync --connect 192.0.2.7 --datadir checked --hints mainnet.hints --assumevalid 0|needs a peer at an address of examples"
	"apus serve --datadir /old/node --lan|does not end"
	"apus sync --follow --proxy 127.0.0.1:9050|needs Tor and peers"
	"apus sync --onion 127.0.0.1:9050|needs Tor and peers"
	"apus sync --onlynet onion --proxy 127.0.0.1:9050|needs Tor and peers"
	"apus sync --prune 550 --hints mainnet.hints --assumevalid HASH --witness=0|needs peers"
)
# Commands that are refused here, each with words of the message: nothing of so short a chain is
# pruned.
refused=(
	"apus prune --height 800000|the chain is too short to be pruned"
)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
declare -A seen=()

fail() {
	failures=$((failures + 1))
	echo "FAILED  $document: $1"
	[ ! -s "${2:-/dev/null}" ] || sed 's/^/          /' "$2" | tail -n 15
}

# The directory that each document begins with.
prepare() {
	mkdir -p "$work/base/bin" "$work/base/target/dist" "$work/base/old" "$work/base/home" "$work/base/fast"
	ln -s "$program" "$work/base/bin/apus"
	ln -s "$program" "$work/base/target/dist/apus"
	cp apus/data/mainnet-0-14131.dat "$work/base/bootstrap.dat"
	for directory in new newer checked another old/node; do
		mkdir "$work/base/$directory"
		printf 'connect=0\nminimumchainwork=0\n' >"$work/base/$directory/bitcoin.conf"
	done
	"$program" sync --quiet --from "$work/base/bootstrap.dat" --datadir "$work/base/old/node"
	cp -a "$work/base/old/node" "$work/base/home/.bitcoin"
	if "$python" -c 'import duckdb, pyarrow.parquet' 2>/dev/null; then
		cat >"$work/base/bin/duckdb" <<-EOF
			#!/bin/sh
			[ "\$1" = -c ] && exec "$python" -c 'import sys, duckdb; print(duckdb.sql(sys.argv[1]))' "\$2"
		EOF
		chmod +x "$work/base/bin/duckdb"
	fi
}

# The line without a comment at its end.
without_comment() {
	sed -E 's/ +# .*$//; s/ +$//' <<<"$1"
}

# The entry of a list for a command; its second part, behind the bar, is printed.
entry_for() {
	local command=$1 entry
	shift
	for entry in "$@"; do
		if [ "${entry%%|*}" = "$command" ]; then
			seen[$command]=1
			echo "${entry#*|}"
			return
		fi
	done
	return 1
}

# Names and heights of the documents, as they are here.
translate() {
	sed -e "s#/old/node#$scene/old/node#g" -e "s#/mnt/fast#$scene/fast#g" -e "s/\bHASH\b/$hash/g" \
		-e 's/\b840000\b/14050/g' -e 's/\b849999\b/14099/g' <<<"$1"
}

# Runs one command; not 0 if it is not run, so that there is no output of its own.
run() {
	local command=$1 reason words status=0
	if reason=$(entry_for "$command" "${not_run[@]}"); then
		seen[$command]=1
		echo "not run $document: $command ($reason)"
		return 1
	fi
	case $command in
	"make "*)
		# Continuous integration makes the targets; here each has to be there.
		command="make --no-print-directory -n -C '$repository' ${command#make } >/dev/null"
		;;
	"pip "*)
		echo "not run $document: $command (make test-python installs the wheel)"
		return 1
		;;
	duckdb*)
		if [ ! -x bin/duckdb ]; then
			echo "skipped $document: $command (Python has no DuckDB here)"
			return 1
		fi
		;;
	esac
	if words=$(entry_for "$1" "${refused[@]}"); then
		seen[$1]=1
	fi
	HOME="$scene/home" PATH="$scene/bin:$PATH" timeout 60 \
		bash -o pipefail -c "$(translate "$command")" >"$work/output" 2>&1 </dev/null || status=$?
	if [ -z "$words" ] && [ "$status" = 0 ]; then
		echo "run     $document: $1"
	elif [ -z "$words" ]; then
		fail "$1 (it ended with $status)" "$work/output"
	elif [ "$status" = 1 ] && grep -qF "$words" "$work/output"; then
		echo "refused $document: $1 ($words)"
	else
		fail "$1 (it ended with $status and not with: $words)" "$work/output"
	fi
}

# The lines of an output as two runs on different machines have them in common: without time stamps,
# and with N for times, speeds and memory.
steady() {
	sed -E -e 's/^[0-9]{4}-[0-9-]+T[0-9:]+Z //' -e 's#[0-9][0-9.]* (s|MiB|MB/s|blocks/s)\b#N \1#g'
}

# Looks in the output of `command` for each line that a document shows. Three dots at the end of a line
# stand for the rest of it, and by themselves for any lines.
compare() {
	local command=$1 line
	shift
	for line in "$@"; do
		case $line in
		"…") continue ;;
		*" …") line=$(steady <<<"${line% …}") ;;
		*) line=$(steady <<<"$line")$'\n' ;;
		esac
		[[ $'\n'$(steady <"$work/output")$'\n' == *$'\n'"$line"* ]] ||
			fail "$command does not print: ${line%$'\n'}" "$work/output"
	done
}

# A block of commands, each after "$ ", and what they print.
session() {
	local lines=$1 line command="" expected=()
	while IFS= read -r line <&3 || [ -n "$line" ]; do
		case $line in
		"$ "*)
			[ -z "$command" ] || compare "$command" "${expected[@]}"
			command=$(without_comment "${line#"$ "}") expected=()
			run "$command" || command=""
			;;
		*) expected+=("$line") ;;
		esac
	done 3<"$lines"
	[ -z "$command" ] || compare "$command" "${expected[@]}"
}

# Writes the tables that a query names and no command has written.
tables_of() {
	local table
	for table in $(grep -oE "['\"][a-z]+\.parquet" <<<"$1" | tr -d "'\"" | sort -u); do
		[ -e "$table" ] && continue
		HOME="$scene/home" bin/apus export "${table%.parquet}" --quiet -o "$table" \
			>"$work/output" 2>&1 || fail "$table, which a query names" "$work/output"
	done
}

query() {
	local language=$1 text=$2
	if [ ! -x bin/duckdb ]; then
		echo "skipped $document: a query in $language (Python has no DuckDB here)"
		return
	fi
	tables_of "$text"
	case $language in
	sql) bin/duckdb -c "$text" ;;
	python) "$python" -c "$text" ;;
	esac >"$work/output" 2>&1 </dev/null || {
		fail "$text" "$work/output"
		return
	}
	echo "run     $document: a query in $language"
}

# One code block: its language, and a file with its lines. Without a language it is one of commands
# if its first line is one, and else shows output or a picture.
block() {
	local language=$1 lines=$2 line
	local is_command='^(apus|bitcoin-cli|make|duckdb|install|pip) '
	case $language in
	python)
		case $document in
		docs/guide/python.md) echo "not run $document: Python (make test-python runs the page)" ;;
		docs/guide/ray.md) echo "not run $document: Python (needs Ray)" ;;
		*) query "$language" "$(cat "$lines")" ;;
		esac
		;;
	sql)
		query "$language" "$(cat "$lines")"
		;;
	console)
		session "$lines"
		;;
	"" | sh | bash)
		head -n 1 "$lines" | grep -qE "$is_command" || return 0
		while IFS= read -r line <&3; do
			line=$(without_comment "$line")
			[ -n "$line" ] || continue
			if grep -qE "$is_command" <<<"$line"; then
				run "$line" || true
			else
				fail "$line (between commands, and none that this script knows)"
			fi
		done 3<"$lines"
		;;
	# Bytes, and settings of other programs.
	hex* | yaml) ;;
	*) fail "a code block in a language that this script does not know: $language" ;;
	esac
}

prepare
for document in README.md docs/*.md docs/guide/*.md; do
	scene=$work/$(tr / - <<<"${document%.md}")
	blocks=$scene.blocks
	mkdir "$blocks"
	# The lines of each block; its first line is the language.
	awk -v to="$blocks/" '
		/^ *```/ && !inside { inside = 1; name = to sprintf("%03d", ++count); sub(/^ *```/, ""); print > name; next }
		/^ *```/ { inside = 0; next }
		inside { print > name }
	' "$document"
	cp -a "$work/base" "$scene"
	cd "$scene"
	for file in "$blocks"/*; do
		[ -e "$file" ] || continue
		tail -n +2 "$file" >"$work/lines"
		block "$(head -n 1 "$file")" "$work/lines"
	done
	cd "$repository"
	rm -rf "$scene" "$blocks"
done
document="this script"
for entry in "${not_run[@]}" "${refused[@]}"; do
	[ -n "${seen[${entry%%|*}]:-}" ] || fail "no document has this command: ${entry%%|*}"
done
if [ "$failures" != 0 ]; then
	echo "$failures failed"
	exit 1
fi
