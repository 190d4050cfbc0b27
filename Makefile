# Root's clone may lie where ordinary users cannot reach it; the cluster's users must run this.
ifeq ($(shell id -u),0)
VENV ?= /var/cache/slurm-resilience/venv-$(shell pwd | sha1sum | cut -c1-8)
else
VENV ?= .venv
endif
PYTHON = $(VENV)/bin/python

.PHONY: help demo test lint unit bench setup venv clean

help:
	@echo "make demo    a fault, end to end, on a real Slurm cluster on this machine (root)"
	@echo "make test    all tests, on that cluster (root)"
	@echo "make lint    ruff and mypy"
	@echo "make unit    the tests that need neither root nor Slurm"
	@echo "make bench   the figures, short form (root)"
	@echo "make clean   remove the virtual environment and what a killed run left behind"

demo: setup
	@$(PYTHON) -m testbed.demo

test: setup
	$(PYTHON) -m pytest $(TESTS)

lint: venv
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy .

unit: venv
	$(PYTHON) -m pytest -m "not cluster" $(TESTS)

bench: setup
	@for name in prolog health rules requeue checkpoint diagnose; do $(PYTHON) -m benchmarks.$$name --short; done

setup:
	@scripts/setup $(VENV)

venv:
	@scripts/venv $(VENV)

clean:
	-$(PYTHON) -m testbed down --all
	rm -rf $(VENV)
