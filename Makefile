# `make demo` and `make test` work in a fresh clone: each makes .venv when there is none.

BIN := .venv/bin
STAMP := .venv/.installed
WORKERS ?= 2

.PHONY: demo test test-all check lint types imports format clean

demo: $(STAMP)
	@$(BIN)/python -m examples.licence_audit

test: $(STAMP)
	@$(BIN)/python -m pytest -n $(WORKERS) -q -m "not long" $(ARGS)

test-all: $(STAMP)
	@$(BIN)/python -m pytest -n $(WORKERS) -q $(ARGS)

check: lint types imports

lint: $(STAMP)
	@echo "ruff check";  $(BIN)/ruff check .
	@echo "ruff format"; $(BIN)/ruff format --check .

types: $(STAMP)
	@echo "mypy --strict"; $(BIN)/mypy

imports: $(STAMP)
	@echo "lint-imports"; $(BIN)/lint-imports --no-cache

format: $(STAMP)
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

# Installed again only when one of these changed.
$(STAMP): pyproject.toml constraints.txt tools/make-venv
	@tools/make-venv .venv $(STAMP)

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .import_linter_cache .hypothesis .afl
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
