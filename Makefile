# Two commands: `make audit` runs the main job, `make test` passes the tests. Both set themselves up.
PYTHON ?= python3
SCALE ?= desk
CORES ?= 2
RESULTS ?= results
BIN := .venv/bin

.PHONY: help audit all test lint unit smoke benchmarks clean

help:
	@echo 'make audit [SCALE=desk|smoke|paper] [CORES=2] [RESULTS=results]   run the audit and print its verdict'
	@echo 'make all   [SCALE=desk|smoke|gpt2] ...                           run every study of the scale'
	@echo 'make test                                                       lint, types, unit tests, the smoke workflow'
	@echo 'make benchmarks                                                 measure speed against the usual alternatives'

audit all: .venv/run
	$(BIN)/halfulp run --scale $(SCALE) --study $@ --cores $(CORES) --results $(RESULTS)
	@$(BIN)/halfulp html --scale $(SCALE) --study $@ --results $(RESULTS)
	@$(BIN)/halfulp show --scale $(SCALE) --study $@ --results $(RESULTS)

test: lint
	$(BIN)/pytest tests -n $(CORES) --dist loadfile

lint: .venv/test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/snakemake --lint --config scale=smoke study=all results=.lint

unit: .venv/test
	$(BIN)/pytest tests/unit

smoke: .venv/test
	$(BIN)/pytest tests/integration -n $(CORES) --dist loadfile

benchmarks: .venv/test
	$(BIN)/pip install --quiet --no-deps --upgrade --target build/torchao torchao==0.18.0
	PYTHONPATH=build/torchao $(BIN)/python benchmarks/rounding.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/verification.py

.venv/run: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("halfulp needs Python 3.11 or newer; set PYTHON=") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/test: .venv/run
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

clean:
	rm -rf .venv .snakemake .mypy_cache .ruff_cache .pytest_cache
