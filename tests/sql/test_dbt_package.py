"""The dbt package counts what `shoal.check` counts, run by dbt itself in an environment of its own (`make dbt`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

import shoal
from shoal.sql import dbt_package, write_dbt_package
from tests.support.postgres import ADMIN, require_server

duckdb = pytest.importorskip("duckdb")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / ".dbt-venv" / ("Scripts/dbt.exe" if sys.platform == "win32" else "bin/dbt")
QUASI = ["age", '"the city"']
TESTS: list[tuple[str, dict[str, Any]]] = [
    ("k_anonymity", {"columns": QUASI, "k": 2}),
    ("k_anonymity", {"columns": QUASI, "k": 9}),
    ("k_anonymity", {"columns": ["age"], "k": 12, "unit": "person"}),
    ("l_diversity", {"columns": QUASI, "l": 2, "sensitive": "illness"}),
    ("l_diversity", {"columns": QUASI, "l": 4, "sensitive": "illness"}),
    ("l_diversity", {"columns": QUASI, "l": 3, "sensitive": "illness", "unit": "person"}),
]


def visits() -> pa.Table:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 23, 60),
            "the city": rng.choice(["Oulu", "Rome", "", None], 60),
            "illness": rng.choice(["flu", "cold", "gout", "", None], 60),
            "person": rng.choice([*(f"p{i}" for i in range(20)), " P1 ", "", None], 60),
        }
    )
    return pa.Table.from_pandas(frame, preserve_index=False)


def expected(table: pa.Table, name: str, given: dict[str, Any]) -> tuple[int, int, int]:
    """The groups, the failing groups and the failing records by `shoal.check`."""
    quasi = {column.strip('"'): "categorical" for column in given["columns"]}
    kind = shoal.KAnonymity(given["k"]) if name == "k_anonymity" else shoal.LDiversity(given["l"], of="illness")
    policy = shoal.Policy(quasi=quasi, sensitive="illness", unit=given.get("unit"), require=[kind])
    finding = shoal.check(table, policy, records=True).findings[0]
    return finding.groups, finding.failing_groups, finding.failing_records


def write_project(folder: Path, output: dict[str, Any], schema: str) -> None:
    """A dbt project that tests one table of a database, with the package of Shoal beside it."""
    write_dbt_package(folder / "shoal-package")
    project = folder / "project"
    (project / "models").mkdir(parents=True)
    named = [{f"shoal.{name}": {"name": f"test{i}", **given}} for i, (name, given) in enumerate(TESTS)]
    files = {
        "dbt_project.yml": {
            "name": "ward",
            "version": "1.0.0",
            "profile": "ward",
            "flags": {"send_anonymous_usage_stats": False},
        },
        "packages.yml": {"packages": [{"local": "../shoal-package"}]},
        "profiles.yml": {"ward": {"target": "test", "outputs": {"test": output}}},
        "models/sources.yml": {
            "sources": [{"name": "ward", "schema": schema, "tables": [{"name": "visits", "data_tests": named}]}]
        },
    }
    for path, content in files.items():
        (project / path).write_text(yaml.safe_dump(content), encoding="utf-8")


def run_dbt(folder: Path, *arguments: str, secret: str = "") -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "DO_NOT_TRACK": "1",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "WARD_PASSWORD": secret,
    }
    command = [str(PROGRAM), *arguments, "--profiles-dir", "."]
    return subprocess.run(
        command, cwd=folder / "project", env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def compare_with_check(folder: Path, table: pa.Table, query: Any, *, secret: str = "") -> None:
    """dbt fails exactly the tests that `shoal.check` fails; the rows of a failing test have the same counts."""
    deps = run_dbt(folder, "deps", secret=secret)
    assert deps.returncode == 0, deps.stdout
    done = run_dbt(folder, "test", secret=secret)
    assert done.returncode == 1, done.stdout + done.stderr  # some tests fail
    results = json.loads((folder / "project/target/run_results.json").read_text(encoding="utf-8"))["results"]
    manifest = json.loads((folder / "project/target/manifest.json").read_text(encoding="utf-8"))["nodes"]
    found = {manifest[result["unique_id"]]["name"]: result for result in results}
    assert len(found) == len(TESTS)
    statuses = set()
    for i, (name, given) in enumerate(TESTS):
        counts = expected(table, name, given)
        result = found[f"test{i}"]
        assert result["status"] == ("fail" if counts[1] else "pass"), (name, given, done.stdout)
        assert result["failures"] == int(counts[1] > 0)
        rows = query(result["compiled_code"])
        assert [tuple(map(int, row[1:])) for row in rows] == ([counts] if counts[1] else [])
        statuses.add(result["status"])
    assert statuses == {"pass", "fail"}


needs_dbt = pytest.mark.skipif(
    not PROGRAM.exists(), reason="dbt is not installed: `make dbt` makes its environment, .dbt-venv"
)


@needs_dbt
def test_dbt_counts_in_duckdb_what_check_counts(tmp_path: Path) -> None:
    table, path = visits(), tmp_path / "ward.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("loaded", table)
        connection.execute("CREATE TABLE visits AS SELECT * FROM loaded")
    write_project(tmp_path, {"type": "duckdb", "path": str(path), "threads": 1}, "main")

    def query(text: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(path)) as connection:
            return connection.execute(text).fetchall()

    compare_with_check(tmp_path, table, query)


@needs_dbt
def test_dbt_counts_in_postgres_what_check_counts(tmp_path: Path) -> None:
    server, table = require_server(), visits()
    server.upload(table, "visits")
    output = {
        "type": "postgres",
        "host": "127.0.0.1",
        "port": server.port,
        "user": ADMIN,
        "password": "{{ env_var('WARD_PASSWORD') }}",
        "dbname": "postgres",
        "schema": "public",
        "threads": 1,
    }
    write_project(tmp_path, output, "public")
    compare_with_check(tmp_path, table, server.rows, secret=server.password)


def test_a_package_is_not_overwritten_without_force(tmp_path: Path) -> None:
    paths = write_dbt_package(tmp_path / "package")
    assert sorted(p.relative_to(tmp_path / "package").as_posix() for p in paths) == sorted(dbt_package())
    with pytest.raises(shoal.PolicyError, match="already exists"):
        write_dbt_package(tmp_path / "package")
    paths[0].write_text("changed", encoding="utf-8")
    write_dbt_package(tmp_path / "package", overwrite=True)
    assert paths[0].read_text(encoding="utf-8") == dbt_package()["dbt_project.yml"]
