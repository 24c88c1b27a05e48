# One word for each job; CI uses the same words.
PYTHON ?= python3
BIN := .venv/bin
BASE := .venv/.base
STAMP := .venv/.ready
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
ARGS ?=
PLUGIN := $(shell find tests/plugin -name '*.py' -o -name '*.toml')

# UCI Adult lies beside the project on some machines; elsewhere SHOAL_DATA points at it, or its tests skip.
ifneq ($(wildcard ../shared/data),)
export SHOAL_DATA ?= $(abspath ../shared/data)
endif

.PHONY: setup demo test test-engines lint bench papers docs dbt clean

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
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

# Engines that need system packages: Spark needs Java, and databases are tested with PostgreSQL, which the tests start on their own.
# The packages are installed where this user may do so.
test-engines: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark,ibis]'
	command -v java >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends openjdk-17-jre-headless; } || true
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends postgresql; } || true
	SHOAL_TEST_ENGINES=1 $(BIN)/python -m pytest -m engines $(ARGS)

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
	$(BIN)/python -m pytest tests/sql/test_dbt_package.py $(ARGS)

clean:
	rm -rf .venv .dbt-venv .bench-venv .bench-data build dist site shoal-demo shoal-demo.owner
