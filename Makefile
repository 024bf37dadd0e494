# Every target does its own set-up: `make demo` and `make test` work on a fresh machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Small networks are fastest with one thread per process and one process per core.
export OMP_NUM_THREADS := 1
WORKERS ?= auto

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-all fuzz check format bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

demo: $(VENV)/core.stamp ## train a pool on noisy digits and see what each rule would keep
	$(BIN)/rote demo

quick: $(VENV)/dev.stamp ## for every save: lint and the fast tests, in about 90 s on 2 idle cores
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n $(WORKERS) -q -m "not slow and not full" tests

test: check $(VENV)/chromium.stamp ## everything CI runs: set-up, check, all tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q

test-all: check $(VENV)/chromium.stamp ## the same with every model × optimizer × mode × moment
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q -m ""

fuzz: $(VENV)/dev.stamp ## attack it, SECONDS_EACH=60 of each kind, from a new SEED
	$(BIN)/python -m fuzz --seconds $(or $(SECONDS_EACH),60) $(if $(SEED),--seed $(SEED))

check: $(VENV)/dev.stamp ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev.stamp ## rewrite files in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/chromium.stamp ## measure the speed goals and rewrite benchmarks/*.json
	$(BIN)/python benchmarks/probe.py
	$(BIN)/python benchmarks/theory.py
	$(BIN)/python benchmarks/loop.py
	$(BIN)/python benchmarks/select.py
	$(BIN)/python benchmarks/sweep.py
	$(BIN)/python benchmarks/report.py

clean: ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# torch comes first and alone: any other version drags in gigabytes of GPU libraries.
$(VENV)/core.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	$(PIP) --editable .
	touch $@

$(VENV)/dev.stamp: $(VENV)/core.stamp
	$(PIP) --editable '.[dev]'
	touch $@

# Where Chromium cannot be installed, the tests that drive a page skip and say so.
$(VENV)/chromium.stamp: $(VENV)/dev.stamp
	command -v chromium chromium-browser google-chrome || \
	  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium) || \
	  echo 'No Chromium could be installed (apt-get install chromium): the tests that drive a page will be skipped.'
	touch $@
