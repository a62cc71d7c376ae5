# Everything runs in .venv, from the pinned and hashed requirements.lock.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do command -v $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# compiled once at set-up: a Dagster run is a process of its own and would compile them each time
PACKAGES := extraction_assets extraction_core resources sensors sandbox

MODE ?= realtime

.DEFAULT_GOAL := help
.PHONY: help setup demo dev test check lock

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

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

lock: ## Pin the dependencies anew (needs uv)
	uv pip compile pyproject.toml --extra reducto --group dev --universal --generate-hashes --no-header --python-version 3.11 --output-file requirements.lock
