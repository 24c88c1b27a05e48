# One word for each job; CI uses the same words.
PYTHON ?= python3
BIN := .venv/bin
BASE := .venv/.base
STAMP := .venv/.ready
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
ARGS ?=
# Tests keep their bytecode even where the environment says otherwise: rewriting the assertions costs ten seconds per worker.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
ENGINES := .venv/.engines
PLUGIN := $(shell find tests/plugin -name '*.py' -o -name '*.toml')

# UCI Adult lies beside the project on some machines; elsewhere SHOAL_DATA points at it, or its tests skip.
ifneq ($(wildcard ../shared/data),)
export SHOAL_DATA ?= $(abspath ../shared/data)
endif

.PHONY: setup demo test test-docs test-engines lint bench papers docs dbt clean

setup: $(STAMP)

# The package and what it needs, for the demo.
$(BASE): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable .
	touch $(BASE)

# All extras and the tools of developers.
$(STAMP): $(BASE) pyproject.toml $(PLUGIN)
	$(INSTALL) --editable '.[dev]'
	$(INSTALL) --no-deps --upgrade --target .venv/plugin ./tests/plugin
	touch $(STAMP)

demo: $(BASE)
	$(BIN)/shoal demo $(ARGS)

test: $(STAMP)
	$(BIN)/shoal compile
	$(PYTEST) -n 2 --dist worksteal --ignore tests/docs $(ARGS)

# The blocks of README.md and docs/, the site, the glossary's words, and the examples in docstrings.
test-docs: $(STAMP)
	$(PYTEST) -n 2 --dist worksteal --doctest-modules src tests/docs $(ARGS)

# Engines that need system packages: Spark needs Java, and databases are tested with PostgreSQL, which the tests start on their own.
# The packages are installed where this user may do so.
$(ENGINES): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark,ibis]'
	command -v java >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends openjdk-17-jre-headless; } || true
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends postgresql; } || true
	touch $(ENGINES)

# A file stays on one worker, so that a worker starts Spark and the database server at most once, and only for its own files.
test-engines: $(ENGINES)
	SHOAL_TEST_ENGINES=1 $(PYTEST) -n 2 --dist loadfile -m engines $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

papers: $(STAMP)
	$(BIN)/python -m papers $(ARGS)

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict $(ARGS)

# dbt has an environment of its own: its dependencies exclude those of Shoal. Later versions of dbt-core download their parser.
.dbt-venv/.ready:
	test -x .dbt-venv/bin/python || $(PYTHON) -m venv .dbt-venv
	.dbt-venv/bin/python -m pip install --quiet --disable-pip-version-check 'dbt-core>=1.9,<1.11' dbt-duckdb dbt-postgres
	touch .dbt-venv/.ready

dbt: $(STAMP) .dbt-venv/.ready
	$(PYTEST) tests/sql/test_dbt_package.py $(ARGS)

clean:
	rm -rf .venv .dbt-venv .bench-venv .bench-data build dist site shoal-demo shoal-demo.owner
