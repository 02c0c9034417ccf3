# The only definition of each check, for CI, hooks and people.
# The targets need Python >= 3.11 and Rust, and install the rest in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Set to a requirement, such as torch==2.13.0, to run the tests that need PyTorch too, with Stable-Baselines3. If empty, they are skipped,
# since the default build for Linux is several GB.
TORCH ?=
# Likewise for the tests of runs on Ray: RAY='ray>=2.50', 70 MB.
RAY ?=
# Set to 1 to install the replay memories that make bench compares with; those that need PyTorch only with TORCH.
PEERS ?=
# Set to 1 to install MinAtar, whose license is GPL-3, for its proof of make learn.
MINATAR ?=
# Number of test processes: five keep two cores busy, since tests wait as long as they compute.
WORKERS ?= 5
# Target of make wheel, if it is not this machine, such as aarch64-unknown-linux-gnu; add it by rustup target add.
TARGET ?=
CARGO_AUDIT := 0.22.2
CARGO_TARPAULIN := 0.37.5
# Arguments for a target: make demo ARGS='--seed 1', make test-python ARGS='tests/replay -k golden'.
ARGS ?=
# Compiling Rust takes memory: a small machine bears one job per core.
export CARGO_BUILD_JOBS ?= 2
# Hundreds of tests start Python, and would compile the package each time.
unexport PYTHONDONTWRITEBYTECODE

CORE := python/cogrs/_core.abi3.so
# A process without tests takes half of another's: long files at the end are not left to one.
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal
NEXTEST := $(shell command -v cargo-nextest >/dev/null 2>&1 && echo yes)

.DEFAULT_GOAL := help
.PHONY: help setup demo play test test-rust test-python lint lint-rust lint-python format soak coverage bench learn protos wheel audit matrix docs clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

# -- set-up ----------------------------------------------------------------------------------------

# Stamps, so that failed steps are repeated.
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
	@command -v cargo >/dev/null || { echo 'cogrs is compiled with Rust, and cargo is not installed: install it from https://rustup.rs'; exit 1; }
	VIRTUAL_ENV='$(abspath $(VENV))' $(BIN)/maturin develop --release --locked --extras demo
	@touch $@

$(VENV)/torch.stamp: pyproject.toml | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet '$(TORCH)' --group test-torch
	@touch $@

$(VENV)/ray.stamp: | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet '$(RAY)'
	@touch $@

$(VENV)/bench.stamp: pyproject.toml | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@

$(VENV)/bench-torch.stamp: pyproject.toml | $(VENV)/torch.stamp
	$(BIN)/python -m pip install --quiet --group bench-torch
	@touch $@

setup: $(CORE) $(if $(TORCH),$(VENV)/torch.stamp) $(if $(RAY),$(VENV)/ray.stamp) ## create .venv and compile the extension into it

# -- the two commands of the README ------------------------------------------------------------------

demo: setup ## learn CartPole from trials, end to end, with a learning curve at the end
	$(BIN)/cogrs demo $(ARGS)

play: setup ## play CartPole in a browser; other environments by ARGS='FrozenLake-v1 --mode press'
	$(BIN)/cogrs play $(or $(ARGS),CartPole-v1)

test: test-rust test-python ## run all tests

# -- checks --------------------------------------------------------------------------------------------

test-rust: ## run the core's tests, without Python
ifeq ($(NEXTEST),yes)
	cargo nextest run --locked --no-default-features
else
	cargo test --locked --no-default-features --lib --tests
endif
	cargo test --locked --no-default-features --doc

test-python: setup ## run the package's tests
	$(PYTEST) $(ARGS)

lint: lint-rust lint-python ## check formatting, lints, types, stubs and generated code

lint-rust: setup
	cargo fmt --check
	cargo clippy --locked --all-targets --no-default-features -- --deny warnings
	cargo clippy --locked --all-targets -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' cargo doc --locked --quiet --no-deps --no-default-features

lint-python: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest cogrs._core
	$(BIN)/python scripts/gen_protos.py --check
	$(BIN)/zizmor --offline --quiet .github

format: setup ## format code, and fix lints that can be fixed
	cargo fmt
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

soak: setup ## run the long forms of the tests
ifeq ($(NEXTEST),yes)
	cargo nextest run --locked --release --no-default-features --run-ignored all
else
	cargo test --locked --release --no-default-features --lib --tests -- --include-ignored
endif
	HYPOTHESIS_PROFILE=soak $(PYTEST) --timeout=3600 $(ARGS)

$(VENV)/coverage.stamp: pyproject.toml | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --group coverage
	@touch $@

# Of Rust the core, by its own tests: the binding to Python is tested from Python. Tarpaulin reads LLVM's counters
# itself, so that rustup's llvm-tools are not needed.
coverage: setup $(VENV)/coverage.stamp ## measure the share of lines that tests run, of Rust and of Python
	cargo install --quiet --locked --root target/coverage/tools --version $(CARGO_TARPAULIN) cargo-tarpaulin
	target/coverage/tools/bin/cargo-tarpaulin tarpaulin --engine llvm --locked --no-default-features --lib --tests \
		--include-files 'rust/src/*' --exclude-files 'rust/src/python/*' --skip-clean \
		--target-dir target/coverage/rust >target/coverage/rust.log || { cat target/coverage/rust.log; exit 1; }
	$(PYTEST) --cov --cov-report= $(ARGS)
	@printf 'Rust    %s\nPython  %s%%\n' "$$(tail -n 1 target/coverage/rust.log)" \
		"$$($(BIN)/python -m coverage report --format=total --precision=2)" | tee target/coverage/summary.txt

bench: setup $(if $(PEERS),$(VENV)/bench.stamp $(if $(TORCH),$(VENV)/bench-torch.stamp)) ## run the benchmarks
	$(BIN)/python benchmarks/replay.py $(ARGS)
	$(BIN)/python benchmarks/compression.py
	$(BIN)/python benchmarks/storage.py --limit 512
	$(BIN)/python benchmarks/prefetch.py
	$(BIN)/python benchmarks/replay_network.py $(ARGS)
	$(BIN)/python benchmarks/collector.py $(ARGS)
	$(BIN)/python benchmarks/vector_env.py
	$(BIN)/python benchmarks/orchestrator.py
	$(BIN)/python benchmarks/floods.py
	$(BIN)/python benchmarks/workers.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python -W ignore benchmarks/datasets.py
	$(if $(shell command -v chromedriver),$(BIN)/python benchmarks/page.py)
	$(if $(TORCH),$(BIN)/python benchmarks/sb3.py)

# MinAtar is under GPL-3, so it is there only where somebody asked for it; its own requirements are for its window.
$(VENV)/minatar.stamp: | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --no-deps minatar
	@touch $@

learn: setup $(if $(MINATAR),$(VENV)/minatar.stamp) ## prove that policies learn; the long proofs too by ARGS=--all, one by ARGS='--only ppo --seeds 1,2'
	$(BIN)/python -m benchmarks.learning $(ARGS)

# -- outputs ----------------------------------------------------------------------------------------

protos: $(VENV)/pip.stamp ## generate python/cogrs/api from protos
	$(BIN)/python scripts/gen_protos.py

# Linux wheels are linked by zig against the oldest glibc of their tag; elsewhere the system's linker is used.
ifeq ($(shell uname -s),Linux)
WHEEL_FLAGS := --zig --compatibility manylinux2014
endif

# Build tools of a release are pinned by hash; see requirements.in.
$(VENV)/wheel.stamp: scripts/build/requirements.txt | $(VENV)/venv.stamp
	$(BIN)/python -m pip install --quiet --require-hashes -r $<
	@touch $@

wheel: $(VENV)/wheel.stamp ## build a wheel and an sdist in dist, and test the wheel in an empty environment
	rm -f dist/cogrs-*
	PATH='$(abspath $(BIN))':"$$PATH" $(BIN)/maturin build --release --locked --out dist $(WHEEL_FLAGS) $(if $(TARGET),--target $(TARGET))
	$(BIN)/maturin sdist --out dist
	$(BIN)/python scripts/check_wheel.py dist

$(VENV)/docs.stamp: pyproject.toml | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

docs: setup $(VENV)/docs.stamp ## build the site of docs/ in dist/docs; a broken link is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html docs dist/docs

$(VENV)/audit.stamp: pyproject.toml | $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --group audit
	@touch $@

audit: setup $(VENV)/audit.stamp ## check dependencies for known vulnerabilities; needs https://github.com and https://pypi.org
	cargo install --quiet --locked --root target/audit --version $(CARGO_AUDIT) cargo-audit
	target/audit/bin/cargo-audit audit --deny warnings
	$(BIN)/pip-audit --local --skip-editable

matrix: wheel ## test the wheel with the oldest and newest dependencies, on each installed Python
	TORCH='$(TORCH)' $(BIN)/python scripts/matrix.py dist $(ARGS)

clean: ## remove all outputs
	rm -rf target dist $(VENV) .venvs $(CORE)
