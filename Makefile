# Every target installs what it needs into .venv, again when pyproject.toml changes:
# `make demo` the compilers and libraries of the demo, all other targets the development tools as well.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_READY := $(VENV)/.demo-ready
READY := $(VENV)/.ready
SPELLED := README.md CHANGELOG.md docs skill conf templates rocm_perf_lab hydra_plugins benchmarks tests
# Without bytecode each process that imports MLflow, Optuna and Hydra compiles them again, for seven seconds.
unexport PYTHONDONTWRITEBYTECODE
# The rows of emulator-coverage.md are mnemonics.
PROSE := README.md $(filter-out docs/emulator-coverage%,$(wildcard docs/*.md)) $(wildcard skill/*.md)

# uv installs several times faster than pip, which is the fallback.
define install
$(BIN)/python -m pip install --quiet --no-compile uv && $(BIN)/uv pip install --quiet --python $(BIN)/python --editable '$(1)' \
	|| $(BIN)/python -m pip install --quiet --no-compile --editable '$(1)'
endef

.PHONY: docs report-assets demo test slow corpus coverage lint types bench figures rocm-root rocm-root-tests rocm-suites clean

demo: $(DEMO_READY)
	@echo "Demo: rewrite a naive softmax kernel on the emulator until it is faster (about a minute)."
	@$(BIN)/python -m rocm_perf_lab +experiment=softmax_optimize

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not corpus" $(PYTEST_ARGS)

slow: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "slow and not corpus" $(PYTEST_ARGS)

corpus: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m corpus $(PYTEST_ARGS)

# The tests of `make test`, with the lines and branches of the package that none of them runs.
coverage: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not corpus" --cov --cov-report=term-missing:skip-covered $(PYTEST_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	.ci/clang-tidy $(BIN)
	$(BIN)/codespell $(SPELLED)
	$(BIN)/proselint check $(PROSE)

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks.slice

# Measure the figures that README and docs quote, on an idle machine from a clean checkout, and rewrite the pages.
figures: $(READY)
	for benchmark in "slice" "overhead" "emulator" "self_consistency" "ranking" "ledger" "spaces" "profiling --dispatches 100000 1000000" \
		"comparison --pairs 500" "noise --seeds 3" "landscapes --seeds 3" "optimizer --mutants 0" \
		"landscapes --seeds 10 --data tests/data/landscapes --json benchmarks/results/landscapes_development.json" "replay --gibibytes 1 --processes 20"; \
		do $(BIN)/python -m benchmarks.$$benchmark || echo "exit code $$?: $$benchmark"; done
	$(BIN)/python -m benchmarks.figures

# Debian's ROCm packages in a directory tree of their own (1.3 GB), in the cache directory or in ROCM_PERF_LAB_ROCM_ROOT, for tests
# of the emulated driver; SUITE=trixie or SUITE=experimental for other releases; rocm-root-tests adds AMD's test programs for gfx90a (13 GB).
rocm-root: $(READY)
	@$(BIN)/python -m rocm_perf_lab.runtime.rocm_packages $(if $(SUITE),--suite $(SUITE))

rocm-root-tests: $(READY)
	@$(BIN)/python -m rocm_perf_lab.runtime.rocm_packages --tests

# Test suites on the emulated GPU, about 30 minutes on an idle machine; needs rocm-root-tests. Other options: see the module.
rocm-suites: $(READY)
	$(BIN)/python -m benchmarks.rocm_suites

# The documentation as a site in build/site; its pages need no network.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Bundle the scripts of the HTML report with the libraries that web/package-lock.json names; needs Node.js.
report-assets:
	cd web && npm ci --no-audit --no-fund && npm run build

$(DEMO_READY): pyproject.toml
	@echo "Set-up: install compilers and libraries into $(VENV) (about 2.5 GB on disk; a minute with a fast network)."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(call install,.[emulator])
	@touch $@

$(READY): $(DEMO_READY)
	@echo "Set-up: install the development tools into $(VENV) (about a minute)."
	@$(call install,.[all])
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
