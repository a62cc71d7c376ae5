# Everything runs in .venv, from the pinned and hashed requirements.lock.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do command -v $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# compiled once at set-up: a Dagster run is a process of its own and would compile them each time
PACKAGES := extraction_assets extraction_core resources sensors sandbox

MODE ?= realtime
KILLS ?= 200

.DEFAULT_GOAL := help
.PHONY: help setup demo dev test check lock chaos bench bench-setup

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(READY) ## Make the environment (uses uv if it is there)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/it setup"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@if command -v uv >/dev/null; then \
	  uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock && \
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable . ; \
	else \
	  $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements.lock && \
	  $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . ; \
	fi
	$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

demo: $(READY) ## Extract the sample documents through Dagster (MODE=batch: by message batches); without a key, the sandbox answers
	@$(BIN)/python -m extraction_assets.demo --mode $(MODE)

dev: $(READY) ## Start the Dagster UI and, without a key, the sandbox
	@$(BIN)/python -m extraction_assets.dev

test: $(READY) ## Run all tests, on SQLite and PostgreSQL
	@$(BIN)/python -m pytest

check: $(READY) ## Lint, types, import arrows, YAML, lock
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	DAGSTER_DISABLE_TELEMETRY=yes $(BIN)/dg check yaml
	@! grep -nE '://' requirements.lock || { echo "requirements.lock names an address"; exit 1; }

chaos: $(READY) ## Kill KILLS=200 workers on each database in each mode, and prove that nothing was lost or paid twice
	$(BIN)/extraction-assets chaos --kills $(KILLS) --ledger-url sqlite --mode realtime
	$(BIN)/extraction-assets chaos --kills $(KILLS) --ledger-url postgres --mode realtime
	$(BIN)/extraction-assets chaos --kills $(KILLS) --ledger-url sqlite --mode batch
	$(BIN)/extraction-assets chaos --kills $(KILLS) --ledger-url postgres --mode batch

bench: $(READY) ## Run all benchmarks with moderate sizes (quiet machine; peers are left out unless bench-setup was run)
	$(BIN)/python -m benchmarks.ledger
	$(BIN)/python -m benchmarks.end_to_end
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.cold_start
	$(BIN)/python -m benchmarks.batch_collect --results 10000
	$(BIN)/python -m benchmarks.sweeper --rounds 3 --files 10000
	$(BIN)/python -m benchmarks.parsing --lengths 1 100

bench-setup: ## Install what the benchmarks compare with, in an environment of its own
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --no-deps --require-hashes -r benchmarks/requirements.lock

lock: ## Pin the dependencies anew (needs uv)
	uv pip compile pyproject.toml --extra reducto --extra ocr --group dev --universal --generate-hashes --no-header --python-version 3.11 --output-file requirements.lock
