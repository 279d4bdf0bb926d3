# `make demo` and `make test` work in a fresh clone: each makes .venv when there is none.

BIN := .venv/bin
STAMP := .venv/.installed
# Tests wait more than they compute, so that two workers a processor keep it busy.
WORKERS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
# A worker that has nothing left takes from the others: tests of one module may take a second or a minute.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q

.PHONY: demo demo-kafka test test-kafka test-mongo test-long test-all wheel-fast test-fast coverage fuzz stress bench site sbom check lint types imports format kafka-up kafka-down grammar clean

demo: $(STAMP)
	@$(BIN)/python -m examples.licence_audit

# On the broker that AFL_KAFKA_BOOTSTRAP names, or on one that is started for it.
demo-kafka: $(STAMP)
	@$(BIN)/python -m examples.licence_audit.on_kafka

# A tier each, told apart by what its tests need (tests/tiers.py); every test is in one.
test: $(STAMP)
	@$(PYTEST) -m "not (kafka or mongo or long)" $(ARGS)

# With a Kafka broker: AFL_KAFKA_BOOTSTRAP's, or one that is started.
test-kafka: $(STAMP)
	@$(PYTEST) -m "kafka and not long" $(ARGS)

# With a MongoDB server: AFL_MONGODB_URL's, or one that is started.
test-mongo: $(STAMP)
	@$(PYTEST) -m "mongo and not (kafka or long)" $(ARGS)

# What takes long by its nature, with whatever it needs: many processes, clusters, other languages, thousands of cases.
test-long: $(STAMP)
	@$(PYTEST) -m long $(ARGS)

# The wheel with compiled modules (decision 0079), into dist/; and the tests of `test` on it, in a tree of their own.
wheel-fast: $(STAMP)
	@$(BIN)/python -m tools.fast build

test-fast: $(STAMP)
	@$(BIN)/python -m tools.fast test -n $(WORKERS) --dist worksteal -q -m "not (kafka or mongo or long)" $(ARGS)

# All tiers, in one run, with a second look at a few failures; behind it which tests took longest.
test-all: $(STAMP)
	@$(BIN)/python -m tests.second_look -n $(WORKERS) --dist worksteal -q --durations 15 --durations-min 20 $(ARGS)

# What the tests of `test` run of this tree, branches too, also in the processes that they start.
coverage: $(STAMP)
	@$(PYTEST) -m "not (kafka or mongo or long)" --cov $(ARGS)

# Thousands of generated and of spoilt programs; ARGS="valid --seed 17" runs one again, ARGS="--count 100" fewer.
fuzz: $(STAMP)
	@$(BIN)/python -m tests.fuzzing $(ARGS)

# Pollers on workflows that they share, on every store; ARGS="--trials 20 --store sqlite" is a shorter run.
stress: $(STAMP)
	@$(BIN)/python -m tests.stress $(ARGS)

# All benchmarks, compared with docs/benchmarks.md and written there; ARGS="loop purge" runs some of them.
bench: $(STAMP)
	@$(BIN)/python -m benchmarks.page --write $(ARGS)

# The documentation as a site in build/site, with every link looked at.
site: $(STAMP)
	@$(BIN)/python -m tools.site $(ARGS)

# The bill of materials of what a deployment installs, into build/sbom.cdx.json.
sbom: $(STAMP)
	@$(BIN)/python -m tools.sbom $(ARGS)

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
	rm -rf .venv build dist .coverage .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .afl
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
