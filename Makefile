# Two commands do everything on a fresh Debian machine: `make demo` and `make test`.
CARGO ?= cargo
RELEASE := --release --locked
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
# Features are those of the whole workspace in every command, so that nothing is built twice.
# What the program is to have besides: FEATURES=export.
FEATURES ?=
BUILD = build --locked --workspace --bin apus $(foreach feature,$(FEATURES),--features apus/$(feature))
# Tests have debug assertions and overflow checks in our own packages alone, which are optimised little or not at
# all: optimising them would take longer than the tests. The C++ and dependencies stay as they are, and are not
# built again.
OURS := apus apus-bench apus-export $(patsubst %,apus-%,$(notdir $(wildcard crates/* testing/*)))
HOT := apus-hash apus-testchain
COLD := apus $(addprefix apus-,export claims descriptors query server sync tables tools testdata testpeer)
CHECKED := $(foreach package,$(OURS),\
	--config profile.release.package.$(package).debug-assertions=true \
	--config profile.release.package.$(package).overflow-checks=true \
	--config profile.release.package.$(package).debug=0 \
	--config profile.release.package.$(package).opt-level=$(if $(filter $(package),$(HOT)),2,$(if $(filter $(package),$(COLD)),0,1)))
# Core's engine is compiled with debug data, which takes a third of that time, and 150 MB in each build
# directory. This option makes GCC leave it out. Looked up after `setup`, which may install GCC.
GIVEN_CXXFLAGS := $(CXXFLAGS)
export CXXFLAGS = $(strip $(GIVEN_CXXFLAGS) $(shell \
	$(CXX) -gtoggle -Werror -fsyntax-only -x c++ /dev/null 2>/dev/null && echo -gtoggle))
# Programs for tests lie in a directory of their own, so that target/release/apus stays
# what `make build` made. Everything else, the C++ above all, is shared.
APART := env CARGO_BUILD_BUILD_DIR=$(TARGET) CARGO_TARGET_DIR=$(TARGET)/checked

.PHONY: demo documented test test-dist arm64 test-cloud test-spark test-page judge clients lint deny check msrv bench build dist \
	release test-release test-deb test-container test-contrib test-slurm crates fuzz wheel test-python bench-python setup help

demo: build ## sync real mainnet blocks and show that the UTXO set is Bitcoin Core's
	@$(TARGET)/release/apus demo

documented: setup ## every command of README.md and docs/, on small data
	env CARGO_BUILD_BUILD_DIR=$(TARGET) CARGO_TARGET_DIR=$(TARGET)/documented \
		$(CARGO) $(BUILD) --features apus/export --release
	@scripts/documented.sh $(TARGET)/documented/release/apus

# Twice as many tests at a time as there are cores: those of peers mostly wait.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

# Directories of tests are in memory where 2 GB are free there: a sync waits for a disk dozens of times.
IN_MEMORY := $(if $(TMPDIR),,$(shell df -k --output=avail /dev/shm 2>/dev/null | \
	awk 'NR > 1 && $$1 > 2000000 { print "TMPDIR=/dev/shm" }'))

test: setup ## every test, with debug assertions and overflow checks
	$(APART) $(IN_MEMORY) $(CARGO) test $(RELEASE) --workspace $(CHECKED)

test-dist: setup ## the tests of signatures and scripts, compiled as `make dist` compiles the program
	@CARGO="$(CARGO)" sh scripts/dist-tests.sh

arm64: ## the program and its tests for ARM of 64 bits, built here and run in qemu (Debian on x86-64)
	@CARGO="$(CARGO)" sh scripts/arm64.sh tools build test

judge: setup ## tests with a real bitcoind, which is built once into the user's cache (BITCOIND=PATH: another; BITCOIND_MASTER=PATH: a second)
	@CARGO="$(APART) $(CARGO)" CHECKED='$(CHECKED)' sh scripts/judge.sh

clients: build ## btcd, bitcoinj and libraries for RPC with Apus (needs Go, Maven, Node.js and their registries)
	@CARGO="$(APART) $(CARGO)" sh scripts/judge.sh sh scripts/clients.sh \
		$(TARGET)/release/apus $(TARGET)/clients

test-cloud: setup ## a job of `apus shard` in an S3 server that fails and is slow (needs PyPI)
	env CARGO_BUILD_BUILD_DIR=$(TARGET) CARGO_TARGET_DIR=$(TARGET)/cloud \
		$(CARGO) $(BUILD) --bin apus-testchain --features apus/cloud --release
	python3 -m venv $(TARGET)/cloud/python
	$(TARGET)/cloud/python/bin/pip install --quiet 'moto[server]==5.*' boto3
	$(TARGET)/cloud/python/bin/python scripts/cloud.py \
		$(TARGET)/cloud/release/apus $(TARGET)/cloud/release/apus-testchain

test-spark: setup ## Spark reads the ranges of `apus shard export` (needs Java and PyPI)
	env CARGO_BUILD_BUILD_DIR=$(TARGET) CARGO_TARGET_DIR=$(TARGET)/documented \
		$(CARGO) $(BUILD) --bin apus-testchain --features apus/export --release
	python3 -m venv $(TARGET)/spark
	$(TARGET)/spark/bin/pip install --quiet 'pyspark==4.*'
	$(TARGET)/spark/bin/python scripts/spark.py \
		$(TARGET)/documented/release/apus $(TARGET)/documented/release/apus-testchain

# The examples are written by a test of apus-server.
test-page: setup ## the web page of a running sync in a browser (needs chromium, and playwright from PyPI)
	rm -rf $(TARGET)/page && mkdir -p $(TARGET)/page/examples
	env CARGO_BUILD_BUILD_DIR=$(TARGET) CARGO_TARGET_DIR=$(TARGET)/documented \
		$(CARGO) $(BUILD) --bin apus-testchain --features apus/export --release
	env APUS_PAGE_EXAMPLES=$(abspath $(TARGET))/page/examples $(APART) $(CARGO) test $(RELEASE) \
		--workspace $(CHECKED) --lib -p apus-server -- page::
	python3 -m venv $(TARGET)/page-venv
	$(TARGET)/page-venv/bin/pip install --quiet --retries 1 --timeout 20 'playwright==1.*'
	$(TARGET)/page-venv/bin/python scripts/page.py $(TARGET)/documented/release/apus \
		$(TARGET)/documented/release/apus-testchain $(TARGET)/page/examples $(TARGET)/page/shots

lint: setup deny ## format, clippy, docs, licences and sources of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(RELEASE) --workspace --all-targets -- -D warnings
	$(CARGO) clippy $(RELEASE) -p apus --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(RELEASE) --workspace --no-deps

# The crates before `scripts` in Cargo.toml do not use Bitcoin Core's C++, and but for two their tests do not.
WITHOUT_CORE := $(shell sed -n '/^apus-disk/,/^apus-scripts/s/^\(apus-[a-z-]*\) = .*/\1/p' Cargo.toml)
WITHOUT_CORE := $(patsubst %,-p %,$(filter-out apus-scripts apus-coins apus-store,$(WITHOUT_CORE)))
# Random worlds and swarms of peers take a minute of one core's time here; `make test` has them all.
LONG := hostile_worlds a_thousand_swarms the_number_of_headers_is_bounded
quick: setup ## format, clippy and tests of the crates without Bitcoin Core's C++
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked $(WITHOUT_CORE) --all-targets -- -D warnings
	env $(IN_MEMORY) $(CARGO) test --locked --lib $(WITHOUT_CORE) -- $(addprefix --skip ,$(LONG))

deny:
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny --locked check bans licenses sources; \
	else \
		echo "skipped: licences and sources of dependencies (cargo install --locked cargo-deny)"; \
	fi

check: lint test ## what a change must pass

# Core's engine does not depend on Rust's version: it is left out, and nothing is linked.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
msrv: setup ## the oldest Rust that Cargo.toml names compiles it (rustup toolchain install --profile minimal 1.89)
	$(CARGO) +$(MSRV) check --locked --workspace --target-dir $(TARGET)/msrv \
		--config 'target.$(HOST)."libbitcoinkernel.a".rustc-link-lib=[]'

bench: setup ## benchmarks; tables on the terminal, JSON under target/bench
	$(CARGO) run $(RELEASE) -p apus-bench

FUZZ_SECONDS ?= 60
fuzz: setup ## random bytes to everything that is read, FUZZ_SECONDS for each target (needs cargo-fuzz)
	cd fuzz && for target in $$($(CARGO) fuzz list); do \
		mkdir -p target/found/$$target && \
		RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run --sanitizer none $$target target/found/$$target \
			corpus/$$target -- -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
			-rss_limit_mb=2048 -max_len=4096 || exit 1; \
	done

build: setup ## the program, target/release/apus (FEATURES=export: with `apus export`)
	$(CARGO) $(BUILD) --release

dist: setup ## the program as it is installed, target/dist/apus: smaller, slow to build; with manual pages
	$(CARGO) $(BUILD) --profile dist
	$(TARGET)/dist/apus man --dir $(TARGET)/dist/man

release: setup ## everything that is released, in dist/, without paths and times of the build
	@CARGO="$(CARGO)" scripts/release.sh

test-release: setup ## make release in two directories: the same sums, signed, and programs that run
	@CARGO="$(CARGO)" scripts/release-test.sh

test-deb: build ## the Debian package in a fresh Debian: installed, used, upgraded, purged (needs root)
	@CARGO="$(CARGO)" scripts/deb-test.sh $(TARGET)/release/apus

test-container: build ## the container image, built and run (needs buildah and debootstrap)
	@scripts/container-test.sh $(TARGET)/release/apus

test-contrib: ## compose files, the apps for Umbrel and StartOS, and workflows, by their linters (from PyPI, npm, Go)
	@sh scripts/contrib-lint.sh

test-slurm: build ## contrib/slurm/verify.sh in a real Slurm (needs Debian's slurmctld, slurmd, slurm-client, munge)
	@sh scripts/slurm.sh $(TARGET)/release/apus

# Cargo leaves out the crates that are not published.
crates: setup ## what a registry would take of each crate, packed and compiled; nothing is uploaded (needs crates.io)
	$(CARGO) publish --locked --workspace --dry-run --target-dir $(TARGET)/package-crates

wheel: setup ## the Python package, target/wheels/apus_bitcoin-*.whl (takes maturin from PyPI)
	@CARGO="$(CARGO)" sh scripts/python.sh wheel

test-python: setup ## tests of the Python package, on the installed wheel (takes their libraries from PyPI)
	@CARGO="$(CARGO)" sh scripts/python.sh test

bench-python: setup ## rows a second of the Python package's tables, next to `apus export` and another reader
	@CARGO="$(CARGO)" sh scripts/python.sh bench

setup:
	@sh scripts/setup.sh

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile
