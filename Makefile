# Everything starts from a fresh clone with Python and pip. `make` alone says what there is.
# All paths are relative, so a checkout whose own path contains spaces works.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The Python of the controller: 3.11 where there is one; `make PYTHON=/opt/python3.12/bin/python3 …` takes another.
PYTHON ?= $(shell for p in python3.11 python3; do "$$p" -c '' 2>/dev/null && { echo "$$p"; break; }; done)
RUN := .venv/bin/python
INSTALL := $(RUN) -m suite.environments.installer
HYPOTHESIS_PROFILE := fixed
ENVIRONMENTS := torch tensorflow-cpu mxnet-cpu jax

.PHONY: help
help: ## print this list
	@echo "make TARGET, with TARGET one of:"
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1|/p' Makefile | while IFS='|' read -r name text; do printf '  %-14s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: .venv/.ready env-torch ## train NCF on generated data on 1 and 2 devices, from nothing to a speedup table
	$(RUN) run_suite.py -m workload=ncf profile=demo gpus=1,2

# Compiled modules are kept, whatever the shell says: every command that a test starts would compile the suite anew.
export PYTHONDONTWRITEBYTECODE :=

# Tests that start no framework run in a worker more than there are cores, since some wait: for processes, for clocks. The
# others start processes of their own, in units of tests/conftest.py: of four workers one begins with those that wait. NumPy's
# threads would wait for each other's cores, and use them meanwhile; tests that call make are none of this one's jobs.
PYTEST = MAKEFLAGS= OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest
# Freed memory stays with a worker: to get the pages of each large array anew took 12 of 200 CPU seconds.
KEEP_MEMORY = GLIBC_TUNABLES=glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296
PLAIN_TESTS = $(KEEP_MEMORY) $(PYTEST) --numprocesses $$(($$(nproc) + 1)) --dist loadfile -m "not framework and not slow and not full"
OTHER_TESTS = $(PYTEST) --numprocesses 4 --dist loadgroup

.PHONY: check
check: ## while you work: lint, types, contracts, tests that start no framework, but the slow ones (random examples: a quarter)
	@$(MAKE) --no-print-directory .venv/.ready-test
	@$(MAKE) --no-print-directory --jobs=2 plain-tests lint HYPOTHESIS_PROFILE=check

# One core installs environments while the other checks and tests what needs none.
.PHONY: test
test: ## before you push, and what .ci/run calls: make all environments, lint, all tests but the full ones
	@$(MAKE) --no-print-directory .venv/.ready-test
	@$(MAKE) --no-print-directory --jobs=2 checked environments HYPOTHESIS_PROFILE=fixed
	$(OTHER_TESTS) -m "(framework or slow) and not full"

.PHONY: test-full
test-full: ## before a release: the same, train every demo to its target, search new examples
	@$(MAKE) --no-print-directory .venv/.ready-test build/trackers/mlflow/.ready build/trackers/wandb/.ready
	@$(MAKE) --no-print-directory --jobs=2 checked environments HYPOTHESIS_PROFILE=search
	$(OTHER_TESTS) -m "framework or slow or full" --hypothesis-profile=search

.PHONY: checked plain-tests
checked: lint docs
	@$(MAKE) --no-print-directory plain-tests
plain-tests: .venv/.ready-test
	$(PLAIN_TESTS) --hypothesis-profile=$(HYPOTHESIS_PROFILE)

.PHONY: gpu
gpu: .venv/.ready env-torch ## on a machine with a GPU: right, learns, fast, why (docs/tutorials/first_gpu_run.md)
	$(RUN) -m benchmarks.gpu

.PHONY: gpu-wheels
gpu-wheels: .venv/.ready ## what a GPU machine without an index needs beside PyTorch, for Python 3.12
	$(RUN) -m benchmarks.gpu.wheels

# The theme announces a version 2 of MkDocs that is not out; pages are written as files, so that no server is needed to read them.
.PHONY: docs
docs: .venv/.ready-test ## the documentation as a site in build/site; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build
	@echo "build/site/index.html"

.PHONY: lint
lint: .venv/.ready-test ## ruff, mypy, import-linter, hadolint
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	.venv/bin/lint-imports
	.venv/bin/hadolint containers/Dockerfile

.PHONY: environments
environments: $(ENVIRONMENTS:%=env-%) .venv/.ready-test build/trackers/tensorboard/.ready ## make or update every environment that the tests use

# `suite env create` does nothing, in under a second, for an environment that matches its lock and setup.cfg.
.PHONY: $(ENVIRONMENTS:%=env-%)
$(ENVIRONMENTS:%=env-%): env-%: .venv/.ready
	@$(RUN) -m suite.cli env create $*

# The stamp is written last, so an interrupted installation is taken up again; a changed lock or setup.cfg updates it.
.venv/.ready: environments/controller.txt setup.cfg pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python found: make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; v = sys.version_info; assert (3, 10) <= v < (3, 14)' 2>/dev/null \
	  || { echo "Python 3.10 to 3.13 is needed, $(PYTHON) is $$("$(PYTHON)" -V 2>&1): make PYTHON=FILE …" >&2; exit 1; }
	@rm -f .venv/.ready-test
	@test -e $@ || { echo "controller: virtual environment in .venv"; "$(PYTHON)" -m venv .venv; }
	@echo "controller: installing"
	@$(RUN) -m pip install -qq --disable-pip-version-check --no-input --no-deps "$$(grep '^uv==' environments/controller.txt)"
	@$(INSTALL) --requirement environments/controller.txt
	@$(INSTALL) --no-build-isolation --editable .
	@touch $@

.venv/.ready-test: environments/test.txt .venv/.ready
	@echo "test tools: installing"
	@$(INSTALL) --requirement environments/test.txt
	@touch $@

# The trackers' libraries, each in a folder for its tests: some 60, 150 and 100 MB. `make test` has the first alone.
build/trackers/%/.ready: environments/%.txt .venv/.ready
	@echo "$*: installing for the tests of suite export"
	@rm -rf $(@D)
	@$(INSTALL) --target $(@D) --requirement $<
	@touch $@

.PHONY: clean
clean: ## delete caches and build leftovers; logs, data and environments stay
	rm -rf build outputs multirun .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -not -path './.venv/*' -not -path './.envs/*' -prune -exec rm -rf {} +

.PHONY: clean-all
clean-all: clean ## the same, and the environments in .venv and .envs
	rm -rf .venv .envs
