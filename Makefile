# Two commands do everything on a fresh Debian machine: `make demo` and `make test`.
CARGO ?= cargo
RELEASE := --release --locked

.PHONY: demo test check bench build setup

demo: build ## sync real mainnet blocks and show that the UTXO set is Bitcoin Core's
	@$(CARGO) run $(RELEASE) --quiet -p apus -- demo

test: setup ## every test
	$(CARGO) test $(RELEASE) --workspace

check: setup ## what a change must pass: format, clippy, docs, tests (the layer test among them)
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(RELEASE) --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(RELEASE) --workspace --no-deps
	$(CARGO) test $(RELEASE) --workspace

bench: setup ## benchmarks; results under docs/bench/
	$(CARGO) run $(RELEASE) -p apus-bench

build: setup
	$(CARGO) build $(RELEASE) -p apus

setup:
	@sh scripts/setup.sh
