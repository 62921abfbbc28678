# make demo   sets everything up and measures the bundled example, from source code to models and a filter list
# make check  formatting, types and quick tests of the core: 3 minutes
# make test   sets everything up, test tools too, and runs what guards every change: 10 minutes
# make test-all   everything: studies, theory, all kills, faults and pages
# make fuzz   damaged files for every reader, ten minutes at most
# make lint   formatting, types and workflow checks alone
# make docs   builds the documentation as pages, in build/docs
# make bench  measures Buran itself, beside its peers, and writes build/benchmarks.md (BENCH=--short: in minutes)
# make slurm-sandbox   starts a whole Slurm of four emulated nodes on this machine, to try the profile slurm
# make packages   builds what is published into dist/, and tries it in environments of its own, far from this folder
# make lock   choose new versions of all dependencies (needs uv)
# make clean   remove what set-up and tests made; measurements stay

VENV ?= .venv
export VENV

.PHONY: demo check test test-all fuzz bench setup lint docs packages lock slurm-sandbox clean help

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

setup:
	@tools/setup run

demo: setup
	@$(VENV)/bin/buran run config/campaign.yaml
	@$(VENV)/bin/buran report config/campaign.yaml
	@printf '%s\n' '' 'Now correct it: one line of examples/bodies/bodies.c differs, which -DMENDED chooses. Then compare:' \
	  "  sed 's/^name: .*/name: mended/; s/\"-O2\"/\"-O2 -DMENDED\"/' config/campaign.yaml > config/mended.yaml" \
	  '  $(VENV)/bin/buran run config/mended.yaml' \
	  '  $(VENV)/bin/buran report config/mended.yaml --compare config/campaign.yaml'

check test test-all:
	@tools/setup test
	@tools/run-tests $@

fuzz:
	@tools/setup test
	@$(VENV)/bin/python tools/fuzz

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

packages:
	@tools/setup test
	@$(VENV)/bin/python tools/packages

lock:
	@tools/lock

slurm-sandbox:
	@tools/slurm-sandbox start
	@tools/setup run

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
