# Short targets for whoever works here; `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
# requirements/gpu.txt on a machine with an NVIDIA GPU
REQUIREMENTS ?= requirements/cpu.txt
# `cpu` takes torch's CPU wheel (much smaller, needs its own index) instead of the default one that carries CUDA
TORCH_BACKEND ?=
WORLD ?= complete_journey
PORT ?= 3000
SERVE_PORT ?= 8000
# processes that share the tests; each may start a Spark of its own (some 2 GiB)
JOBS ?= 2
# a bench's name, or empty for all stale ones
NAME ?=

VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
# the installed environment is older than what it depends on: make it again
STAMP := $(VENV)/.made-$(subst /,-,$(REQUIREMENTS))$(if $(TORCH_BACKEND),-$(TORCH_BACKEND))
UV_VERSION := $(shell sed -n 's/^uv==//p' requirements/cpu.txt)

export GEMLINE_HOME ?= $(CURDIR)/.gemline
export DAGSTER_HOME ?= $(GEMLINE_HOME)/dagster
export PORT
export GX_ANALYTICS_ENABLED := false
export DAGSTER_DISABLE_TELEMETRY := 1
# Dagster's notices that a command has a newer name, or an argument is in preview
export PYTHONWARNINGS ?= ignore:Function

.PHONY: help setup check-machine home env demo test lint types contracts lanes unit assets distributed services browser gpu long dev serve bench lock clean

help: ## list the targets
	@grep -hE '^[a-z -]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  %-22s %s\n", $$1, $$2 }'

setup: $(STAMP) ## the environment in .venv from the pinned list (REQUIREMENTS=requirements/gpu.txt with a GPU)

$(STAMP): requirements/cpu.txt requirements/gpu.txt pyproject.toml features/jars.py
	@$(MAKE) --no-print-directory check-machine
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(BIN)/uv pip sync --compile-bytecode --python $(BIN)/python $(if $(TORCH_BACKEND),--torch-backend $(TORCH_BACKEND)) $(REQUIREMENTS)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m features.jars
	@$(BIN)/python -m orchestration.doctor packages
	@rm -f $(VENV)/.made-* && touch $@

# before anything slow; an old Python cannot read the doctor, so it is asked first
check-machine:
	@command -v $(PYTHON) > /dev/null || { echo "$(PYTHON) is not in PATH; install Python 3.11 to 3.13 or name one: make setup PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { echo "$(PYTHON) is $$($(PYTHON) -c 'import platform; print(platform.python_version())'); Python 3.11 to 3.13 is needed: make setup PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m orchestration.doctor java compiler home disk

home: setup ## GEMLINE_HOME with a Dagster instance in it
	@mkdir -p "$(DAGSTER_HOME)"
	@test -e "$(DAGSTER_HOME)/dagster.yaml" || ln -sfn "$(CURDIR)/dagster.yaml" "$(DAGSTER_HOME)/dagster.yaml"

env: home ## lines that set a shell up: eval "$$(make -s env)"
	@echo "export GEMLINE_HOME='$(GEMLINE_HOME)' DAGSTER_HOME='$(DAGSTER_HOME)' GX_ANALYTICS_ENABLED=false PATH='$(BIN)':\"\$$PATH\""

demo: home ## the graph on real data, ending with metrics (WORLD=tiny for the short form)
	@$(BIN)/gemline demo --world $(WORLD)

test: lint types contracts lanes ## everything that must be green before a commit; before a release `make long` as well

lint: setup ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## static types
	$(BIN)/mypy

contracts: setup ## who may import whom
	$(BIN)/lint-imports

lanes: setup ## all test lanes of a machine without GPU but `long` (minutes a test); absent services are skipped in sight (JOBS=2 processes)
	$(BIN)/pytest -m "not gpu and not long" -rs -n $(JOBS) --dist loadfile --no-loadscope-reorder

unit assets distributed services browser gpu long: setup ## one lane of tests
	$(BIN)/pytest -m $@ -rs

dev: home ## Dagster UI on 127.0.0.1:PORT
	@$(BIN)/python -m orchestration.doctor port java jars packages dagster_home
	$(BIN)/dg dev -w workspace.yaml $(if $(wildcard $(GEMLINE_HOME)/workspace.yaml),-w $(GEMLINE_HOME)/workspace.yaml) -h 127.0.0.1 -p $(PORT)

serve: home ## the scoring service of WORLD's live releases on 127.0.0.1:SERVE_PORT
	@$(BIN)/python -m serving.server --world $(WORLD) --port $(SERVE_PORT)

bench: setup ## all stale benchmarks, or one: NAME=...
	$(BIN)/python -m benchmarks $(NAME)

lock: setup ## resolve the pinned lists again from their inputs
	cd requirements && $(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 --no-header --no-annotate --overrides overrides.in -o cpu.txt runtime.in dev.in cpu.in
	cd requirements && grep -v '^fbgemm' cpu.txt > $(VENV)/pins.txt && $(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 --no-header --no-annotate --constraints $(VENV)/pins.txt -o gpu.txt runtime.in dev.in gpu.in
	cd requirements && $(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 --no-header --no-annotate --constraints $(VENV)/pins.txt -o peers.txt peers.in

clean: ## caches of the tools; the environment and GEMLINE_HOME stay
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis spark-warehouse metastore_db derby.log build ./*.egg-info
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
