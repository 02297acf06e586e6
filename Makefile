# What a person types. `make help` lists it.

SHELL := /bin/sh
export PATH := $(PATH):$(HOME)/.cargo/bin
CARGO ?= cargo

# The test profile: optimised a little, with every assertion on. The programs under test are built as the tests are.
TEST_BUILD := --profile test

.PHONY: help run test check unit integration bench soak setup build clean

help:
	@printf '%s\n' \
	  'make run      install what is missing, build, render a POV-Ray animation through `forebay run`' \
	  'make test     everything that gates a change' \
	  'make bench    the table of ratios (10 minutes; bench/out gets the JSON)' \
	  'make soak     memory under a mixed load, and the random tests with many more seeds (SOAK_MINUTES=30)' \
	  'make build    a release build: target/release/forebay' \
	  'make clean    remove what was built'

setup:
	@scripts/setup

build:
	$(CARGO) build --release -p forebay-cli

run: setup
	$(CARGO) build --release -p forebay-cli -p forebay-bench
	@scripts/demo

test: setup check unit integration

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# The crates one by one, the simulation of hundreds of seeds among them.
unit:
	$(CARGO) test --workspace --exclude forebay-tests --locked --no-fail-fast

# The whole, against a real mount. Tests share two cores and one disk: more threads would only make deadlines tight.
integration:
	$(CARGO) build $(TEST_BUILD) --locked -p forebay-cli -p forebay-bench -p forebay-tests
	# As the wheel of its test will want it.
	$(CARGO) build --locked -p forebay-python
	$(CARGO) test -p forebay-tests --locked --no-fail-fast -- --test-threads=2

bench: setup
	$(CARGO) build --release --locked -p forebay-cli -p forebay-bench
	$(CARGO) run --release --locked -q -p forebay-bench --bin forebay-bench -- --core --json bench/out/bench.json

soak: setup
	$(CARGO) build $(TEST_BUILD) --locked -p forebay-cli -p forebay-bench -p forebay-tests
	FOREBAY_SOAK_MINUTES=$(or $(SOAK_MINUTES),30) $(CARGO) test -p forebay-tests --locked -- --test-threads=2 --nocapture soak
	FOREBAY_SOAK_MINUTES=$(or $(SOAK_MINUTES),30) $(CARGO) test --release --locked -p forebay-sim -- --nocapture soak

clean:
	$(CARGO) clean
	rm -rf bench/out
