# Every target does its own set-up: `make demo` and `make test` work on a fresh machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# What is imported is compiled when it is; of 27,000 files most never are.
QUIET_PIP := -m pip install --quiet --disable-pip-version-check --no-compile
# The newest of everything: make test CONSTRAINTS=/dev/null TORCH=torch
CONSTRAINTS ?= constraints.txt
PIP := $(BIN)/python $(QUIET_PIP) --constraint $(CONSTRAINTS)
# This torch, in the same command: any other version drags in gigabytes of GPU libraries.
TORCH ?= torch==2.13.0
# The first pip that installs dependency groups is 25.1.
NEW_PIP := pip==26.3
unexport PYTHONDONTWRITEBYTECODE
# Small networks are fastest with one thread per process and one process per core.
export OMP_NUM_THREADS := 1
WORKERS ?= $(shell env -u OMP_NUM_THREADS nproc 2>/dev/null || echo 2)
# The newest torch with its GPU libraries, gigabytes that no other target needs.
COMPAT_VENV ?= .venv-compat
# The lowest versions that pyproject.toml allows; this torch has GPU libraries, too.
LOWEST_VENV ?= .venv-lowest

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-all test-lowest run-tests fuzz compat check format notebooks docs wheel bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: $(VENV)/core.stamp ## train a pool on noisy digits and see what each rule would keep
	$(BIN)/rote demo

quick: $(VENV)/dev.stamp ## for every save: lint and the fast tests, in about 90 s on 2 idle cores
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n $(WORKERS) -q -m "not slow and not full" tests

# Side by side: while types are checked by one core, the tests are collected by the other.
test: $(VENV)/chromium.stamp ## everything CI runs: set-up, check, all tests
	@$(MAKE) --no-print-directory --jobs=2 check run-tests

test-all: $(VENV)/chromium.stamp ## the same with every model × optimizer × mode × moment
	@$(MAKE) --no-print-directory --jobs=2 check run-tests MARKED='-m "" --hypothesis-profile=all'

# Old packages use what newer ones below them have deprecated.
test-lowest: $(LOWEST_VENV)/lowest.stamp ## the fast tests with the lowest versions that pyproject.toml allows
	$(LOWEST_VENV)/bin/python -m pytest -n $(WORKERS) -q -m "not slow and not full" -W ignore::DeprecationWarning tests

run-tests: $(VENV)/chromium.stamp
	$(BIN)/python -m pytest -n $(WORKERS) -q $(MARKED)

fuzz: $(VENV)/dev.stamp ## attack it, SECONDS_EACH=60 of each kind, from a new SEED
	$(BIN)/python -m fuzz --seconds $(or $(SECONDS_EACH),60) $(if $(SEED),--seed $(SEED))

compat: $(COMPAT_VENV)/compat.stamp ## other people's models and optimizers, newest versions; goes on where it was stopped
	$(COMPAT_VENV)/bin/python -m compat $(COMPAT)

check: $(VENV)/dev.stamp ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev.stamp ## rewrite files in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

notebooks: $(VENV)/dev.stamp ## run docs/tutorials; rewrite their output and their pages of the site
	$(BIN)/python docs/tutorials/run.py

docs: $(VENV)/docs.stamp ## the documentation as a site that needs no server: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The documentation: site/index.html"

wheel: $(VENV)/core.stamp ## a wheel in dist/, and the demo from it in a new environment
	rm -rf dist build
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	folder=$$(mktemp -d) && $(PYTHON) -m venv $$folder/venv && \
	  $$folder/venv/bin/python $(QUIET_PIP) --constraint $(CONSTRAINTS) $(TORCH) dist/*.whl && \
	  cd $$folder && venv/bin/rote demo --epochs 5 --quiet && rm -r $$folder

bench: $(VENV)/chromium.stamp ## measure the speed goals and rewrite benchmarks/*.json
	$(BIN)/python benchmarks/probe.py
	$(BIN)/python benchmarks/theory.py
	$(BIN)/python benchmarks/loop.py
	$(BIN)/python benchmarks/select.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/sweep.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/posterior.py
	$(BIN)/python benchmarks/signals.py
	$(BIN)/python benchmarks/costs.py
	$(BIN)/python benchmarks/performance.py

clean: ## remove the environment, caches and what was built
	rm -rf $(VENV) $(COMPAT_VENV) $(LOWEST_VENV) site dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/core.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $(NEW_PIP)
	$(PIP) $(TORCH) --editable .
	touch $@

$(VENV)/dev.stamp: $(VENV)/core.stamp
	$(PIP) $(TORCH) --group dev --editable '.[all]'
	touch $@

$(VENV)/docs.stamp: $(VENV)/core.stamp
	$(PIP) --group docs
	touch $@

$(LOWEST_VENV)/lowest.stamp: pyproject.toml
	test -x $(LOWEST_VENV)/bin/python || $(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/python $(QUIET_PIP) $(NEW_PIP)
	$(LOWEST_VENV)/bin/python $(QUIET_PIP) --group lowest --editable .
	touch $@

$(COMPAT_VENV)/compat.stamp: compat/requirements.txt
	test -x $(COMPAT_VENV)/bin/python || $(PYTHON) -m venv $(COMPAT_VENV)
	$(COMPAT_VENV)/bin/pip install --quiet --requirement compat/requirements.txt --editable .
	touch $@

# Where Chromium cannot be installed, the tests that drive a page skip and say so.
$(VENV)/chromium.stamp: $(VENV)/dev.stamp
	command -v chromium chromium-browser google-chrome || \
	  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium) || \
	  echo 'No Chromium could be installed (apt-get install chromium): the tests that drive a page will be skipped.'
	touch $@
