# `make demo` and `make test` work in a fresh clone: each makes .venv when there is none.

BIN := .venv/bin
STAMP := .venv/.installed
WORKERS ?= 2

.PHONY: demo demo-kafka test test-long test-all fuzz stress check lint types imports format grammar kafka-up kafka-down clean

demo: $(STAMP)
	@$(BIN)/python -m examples.licence_audit

# On the broker that AFL_KAFKA_BOOTSTRAP names, or on one that is started for it.
demo-kafka: $(STAMP)
	@$(BIN)/python -m examples.licence_audit.on_kafka

test: $(STAMP)
	@$(BIN)/python -m pytest -n $(WORKERS) -q -m "not long" $(ARGS)

# What `test` leaves out: real brokers at length, processes, clusters, other languages.
test-long: $(STAMP)
	@$(BIN)/python -m pytest -n $(WORKERS) -q -m long $(ARGS)

# Both, in one run.
test-all: $(STAMP)
	@$(BIN)/python -m pytest -n $(WORKERS) -q $(ARGS)

# Thousands of generated and of spoilt programs; ARGS="valid --seed 17" runs one again, ARGS="--count 100" fewer.
fuzz: $(STAMP)
	@$(BIN)/python -m tests.fuzzing $(ARGS)

# Pollers on workflows that they share, on every store; ARGS="--trials 20 --store sqlite" is a shorter run.
stress: $(STAMP)
	@$(BIN)/python -m tests.stress $(ARGS)

check: lint types imports

lint: $(STAMP)
	@echo "ruff check";  $(BIN)/ruff check .
	@echo "ruff format"; $(BIN)/ruff format --check .

types: $(STAMP)
	@echo "mypy --strict"; $(BIN)/mypy

imports: $(STAMP)
	@echo "lint-imports"; $(BIN)/lint-imports --no-cache

# After each change of afl/grammar.lark: the parse table that is shipped. A test says when it is not the grammar's.
grammar: $(STAMP)
	@$(BIN)/python -m tools.grammar_table

format: $(STAMP)
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

# A real Kafka for trials of one's own, without Docker; it stays until kafka-down, and its data beyond that.
kafka-up: $(STAMP)
	@$(BIN)/python -m tools.kafka up $(ARGS)

kafka-down: $(STAMP)
	@$(BIN)/python -m tools.kafka down $(ARGS)

# Installed again only when one of these changed.
$(STAMP): pyproject.toml constraints/run.txt constraints/dev.txt tools/make-venv
	@tools/make-venv .venv $(STAMP)

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .import_linter_cache .hypothesis .afl
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
