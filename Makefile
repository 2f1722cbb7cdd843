# Every target sets up what it needs. The virtual environment is rebuilt when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test slow lint types bench clean

demo: $(READY)
	$(BIN)/python -m rocm_perf_lab +experiment=softmax_optimize

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" $(PYTEST_ARGS)

slow: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slow $(PYTEST_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks.slice

# pip compiles to bytecode what it copies, but not what stays in place.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[all]'
	$(BIN)/python -m compileall -q rocm_perf_lab hydra_plugins
	touch $(READY)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
