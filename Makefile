# make demo   sets everything up and measures the bundled example, from source code to models and a filter list
# make test   sets everything up, test tools too, and runs all tests
# make quick-test   the tests that take less than 3 minutes together
# make lint   formatting, types and workflow checks alone
# make docs   builds the documentation as pages, in build/docs
# make bench  measures Buran itself, beside its peers, and writes docs/reference/benchmarks.md (BENCH=--short: in minutes)
# make slurm-sandbox   starts a whole Slurm of four emulated nodes on this machine, to try the profile slurm
# make lock   choose new versions of all dependencies (needs uv)
# make clean   remove what set-up and tests made; measurements stay

VENV ?= .venv
export VENV

.PHONY: demo test quick-test bench setup lint docs lock slurm-sandbox clean help

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

setup:
	@tools/setup run

demo: setup
	@$(VENV)/bin/buran run config/campaign.yaml
	@$(VENV)/bin/buran report config/campaign.yaml

test:
	@tools/setup test
	@tools/run-tests

quick-test:
	@tools/setup test
	@tools/run-tests -m "not slow"

bench:
	@tools/setup test
	@$(VENV)/bin/python studies/benchmarks/everything.py $(BENCH)

lint:
	@tools/setup test
	@tools/lint

docs:
	@tools/setup test
	@$(VENV)/bin/python -m sphinx -b html -W --keep-going -q docs build/docs
	@echo build/docs/index.html

lock:
	@tools/lock

slurm-sandbox:
	@tools/slurm-sandbox start
	@tools/setup run

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
