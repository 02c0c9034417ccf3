# The only definition of each check: CI, hooks and people call these targets.
# They need Python >= 3.11 and Rust, and set up the rest in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Set to a requirement, such as torch==2.13.0, to run the tests that need PyTorch too. Left empty, they are
# skipped: the registry's own build for Linux is several GB.
TORCH ?=
# Set to 1 to have make bench install the replay memories that it compares with; those that need PyTorch
# only with TORCH.
PEERS ?=
# Processes among which the files of the tests are shared: most tests wait more than they compute.
WORKERS ?= 2
# What make wheel builds for, when that is not this machine, such as aarch64-unknown-linux-gnu; rustup target add it.
TARGET ?=
CARGO_AUDIT := 0.22.2
# Arguments for a target: make demo ARGS='--seed 1', make test-python ARGS='tests/replay -k golden'.
ARGS ?=
# Compiling Rust takes memory: one job a core is what a small machine bears.
export CARGO_BUILD_JOBS ?= 2

CORE := python/cogrs/_core.abi3.so
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile
NEXTEST := $(shell command -v cargo-nextest >/dev/null 2>&1 && echo yes)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-rust test-python lint format soak bench protos wheel audit matrix docs clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

# -- set-up ----------------------------------------------------------------------------------------

# Stamps, so that a step that failed is taken again.
$(VENV)/venv.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "cogrs needs Python >= 3.11 and this is %d.%d: make PYTHON=/path/to/another" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/pip.stamp: | $(VENV)/venv.stamp
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

$(CORE): Cargo.toml Cargo.lock pyproject.toml README.md build.rs python/cogrs/_core.pyi $(VENV)/dev.stamp $(shell find rust/src -name '*.rs')
	@command -v cargo >/dev/null || { echo 'cogrs is compiled with Rust, and cargo is not there: install it from https://rustup.rs'; exit 1; }
	VIRTUAL_ENV='$(abspath $(VENV))' $(BIN)/maturin develop --release --locked --extras demo
	@touch $@

$(VENV)/torch.stamp: | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet '$(TORCH)'
	@touch $@

$(VENV)/bench.stamp: pyproject.toml | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@

$(VENV)/bench-torch.stamp: pyproject.toml | $(VENV)/torch.stamp
	$(BIN)/python -m pip install --quiet --group bench-torch
	@touch $@

setup: $(CORE) $(if $(TORCH),$(VENV)/torch.stamp) ## make .venv and compile the extension into it

# -- the two commands of the README ------------------------------------------------------------------

demo: setup ## learn CartPole from trials, end to end, with a learning curve at the end
	$(BIN)/cogrs demo $(ARGS)

test: test-rust test-python ## all tests

# -- checks --------------------------------------------------------------------------------------------

test-rust: ## the core's tests, without Python
ifeq ($(NEXTEST),yes)
	cargo nextest run --locked --no-default-features
else
	cargo test --locked --no-default-features --lib --tests
endif
	cargo test --locked --no-default-features --doc

test-python: setup ## the package's tests
	$(PYTEST) $(ARGS)

lint: setup ## formatting, lints, types, stubs and generated code
	cargo fmt --check
	cargo clippy --locked --all-targets --no-default-features -- --deny warnings
	cargo clippy --locked --all-targets -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' cargo doc --locked --quiet --no-deps --no-default-features
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest cogrs._core
	$(BIN)/python scripts/gen_protos.py --check
	$(BIN)/zizmor --offline --quiet .github

format: setup ## put code into the form that lint asks for
	cargo fmt
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

soak: setup ## the long forms of the tests
ifeq ($(NEXTEST),yes)
	cargo nextest run --locked --release --no-default-features --run-ignored all
else
	cargo test --locked --release --no-default-features --lib --tests -- --include-ignored
endif
	HYPOTHESIS_PROFILE=soak $(PYTEST) --timeout=3600 $(ARGS)

bench: setup $(if $(PEERS),$(VENV)/bench.stamp $(if $(TORCH),$(VENV)/bench-torch.stamp)) ## figures of this machine
	$(BIN)/python benchmarks/replay.py $(ARGS)
	$(BIN)/python benchmarks/replay_network.py $(ARGS)
	$(BIN)/python benchmarks/collector.py $(ARGS)
	$(BIN)/python benchmarks/orchestrator.py
	$(BIN)/python benchmarks/floods.py
	$(BIN)/python benchmarks/workers.py

# -- what is made ----------------------------------------------------------------------------------------

protos: $(VENV)/pip.stamp ## generate python/cogrs/api from protos
	$(BIN)/python scripts/gen_protos.py

# A wheel for Linux is linked by zig against the oldest glibc that its tag names; elsewhere the system's linker does.
ifeq ($(shell uname -s),Linux)
WHEEL_FLAGS := --zig --compatibility manylinux2014
endif

# What enters a release is pinned by hash; requirements.in says how.
$(VENV)/wheel.stamp: scripts/build/requirements.txt | $(VENV)/venv.stamp
	$(BIN)/python -m pip install --quiet --require-hashes -r $<
	@touch $@

wheel: $(VENV)/wheel.stamp ## build a wheel and an sdist into dist, and use the wheel from an empty environment
	rm -f dist/cogrs-*
	PATH='$(abspath $(BIN))':"$$PATH" $(BIN)/maturin build --release --locked --out dist $(WHEEL_FLAGS) $(if $(TARGET),--target $(TARGET))
	$(BIN)/maturin sdist --out dist
	$(BIN)/python scripts/check_wheel.py dist

$(VENV)/docs.stamp: pyproject.toml | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

docs: setup $(VENV)/docs.stamp ## make a site of docs/ in dist/docs; a link that leads nowhere is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html docs dist/docs

$(VENV)/audit.stamp: pyproject.toml | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --group audit
	@touch $@

audit: setup $(VENV)/audit.stamp ## look for known holes in what is required; needs https://github.com and https://pypi.org
	cargo install --quiet --locked --root target/audit --version $(CARGO_AUDIT) cargo-audit
	target/audit/bin/cargo-audit audit --deny warnings
	$(BIN)/pip-audit --local --skip-editable

matrix: wheel ## test the wheel with the oldest and newest of what it requires, on each Python that is here
	TORCH='$(TORCH)' $(BIN)/python scripts/matrix.py dist $(ARGS)

clean: ## remove everything that is made
	rm -rf target dist $(VENV) .venvs $(CORE)
