# `make` alone lists the targets. Everything sets itself up; hosts for tests need root on Debian or Ubuntu.
SHELL := /bin/bash
PY := .venv/bin/python
PYTEST := $(PY) -m pytest
WORKERS ?= $(shell nproc)
PARTS := hosts sglang bench
PURE := $(filter-out $(addprefix tests/,$(PARTS)),$(wildcard tests/*))

.DEFAULT_GOAL := help
.PHONY: help setup test test-pure test-hosts test-sglang check demo bench faults catalogue clean

help:
	@echo "make setup      .venv with the tool (.venv/bin/deployer)"
	@echo "make demo       the whole loop on a throwaway local host with simulated GPUs (root, Debian or Ubuntu)"
	@echo "make test       all tests"
	@echo "make check      ruff, mypy, import-linter"
	@echo "make faults     the whole fault matrix"
	@echo "make bench      the measurements"
	@echo "make catalogue  the table of SGLang's arguments, anew from the wheels"
	@echo "make clean      what can be made again"

setup: .venv/.ready

.venv/.ready: pyproject.toml scripts/setup
	@scripts/setup

# Every part runs, whatever the ones before it said; the exit code is that of the first that failed.
test: setup
	@status=0; for part in test-pure test-hosts test-sglang; do \
	    $(MAKE) --no-print-directory $$part || status=$$?; done; exit $$status

test-pure: setup
	$(PYTEST) -n $$(( $(WORKERS) + 1 )) --dist worksteal $(PURE)

# Hosts wait a good part of the time: for a boot, a drain, a deadline.
test-hosts: setup
	$(PYTEST) -n $$(( $(WORKERS) + 3 )) --dist worksteal tests/hosts

# One at a time: each of the real server's three processes takes 0.7 GB.
test-sglang: setup
	$(PYTEST) tests/sglang

check: setup
	@status=0; for tool in "ruff check ." mypy "lint-imports --no-cache"; do \
	    echo ".venv/bin/$$tool"; .venv/bin/$$tool || status=1; done; exit $$status

demo: setup
	@$(PY) -m scripts.demo

faults: setup
	DEPLOYER_FAULTS=all $(PYTEST) -n $$(( $(WORKERS) + 1 )) --dist worksteal tests/hosts/test_faults.py tests/hosts/test_promises.py -k "faults or two_operators"

bench: setup
	$(PYTEST) -s tests/bench

catalogue: setup
	$(PY) scripts/build_catalogue.py

# Every release's own parser against the table; `make test` compares a few of them.
catalogue-check: setup
	DEPLOYER_ALL_RELEASES=1 $(PYTEST) -n $(WORKERS) tests/sglang_room/test_catalogue_own_parser.py

clean:
	@if [ -x $(PY) ]; then $(PY) -m tests.hosts.bed sweep; fi
	rm -rf .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
