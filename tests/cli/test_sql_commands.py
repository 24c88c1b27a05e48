"""The commands that print SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal.sql import check_query, dbt_package, recoding_query
from tests.support.programs import Run

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

POLICY = """\
quasi: {age: numeric, city: categorical}
sensitive: [illness]
require:
- k-anonymity: 2
- l-diversity: {l: 2, of: illness}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def release(here: Path) -> shoal.Release:
    """A policy file, a table, and its release in two folders."""
    Path("policy.yaml").write_text(POLICY, encoding="utf-8")
    rows = [f"{20 + i % 5},{'Oulu' if i % 2 else 'Rome'},{'flu' if i % 3 else 'gout'}\n" for i in range(40)]
    Path("patients.csv").write_text("".join(["age,city,illness\n", *rows]), encoding="utf-8")
    found = shoal.anonymize("patients.csv", "policy.yaml", method="tds", seed=1)
    found.save("release")
    return found


def test_print_sql_prints_the_query(run: Run, release: shoal.Release) -> None:
    done = run("check", "--print-sql", "--dialect", "duckdb", "--policy", "policy.yaml", "--table", "ward.release")
    assert done.code == 0
    assert done.out == check_query("policy.yaml", dialect="duckdb", table="ward.release") + ";\n"


def test_the_printed_query_counts_the_released_file(run: Run, release: shoal.Release) -> None:
    done = run("check", "release/table.csv", "--print-sql", "--dialect", "duckdb", "-p", "policy.yaml", "--table", "r")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE r AS FROM 'release/table.csv'")
        rows = connection.execute(done.out).fetchall()
    findings = shoal.check("release/table.csv", "policy.yaml").findings
    assert [row[2:5] for row in rows] == [(f.groups, f.failing_groups, f.failing_records) for f in findings]


def test_pairs_of_columns_are_found_in_the_file(run: Run, release: shoal.Release) -> None:
    Path("pairs.csv").write_text("age_lo,age_hi,city,illness\n20,30,Oulu,flu\n", encoding="utf-8")
    done = run("check", "pairs.csv", "--print-sql", "--dialect", "postgres", "-p", "policy.yaml")
    assert '"age_lo"' in done.out
    assert '"age"' not in done.out


def test_a_unit_that_is_not_in_the_file_needs_records(run: Run, release: shoal.Release) -> None:
    Path("people.yaml").write_text(POLICY + "unit: patient\n", encoding="utf-8")
    arguments = ("check", "patients.csv", "--print-sql", "--dialect", "spark", "-p", "people.yaml")
    refused = run(*arguments)
    assert refused.code == 2
    assert "column 'patient' is not in the table" in refused.err
    assert run(*arguments, "--records").code == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("check", "-p", "policy.yaml"), "the table is missing"),
        (("check", "-p", "policy.yaml", "--print-sql"), "the SQL dialect is missing. Add --dialect"),
        (("check", "-p", "policy.yaml", "--print-sql", "--dialect", "oracle"), "unknown SQL dialect 'oracle'"),
        (
            ("check", "patients.csv", "-p", "policy.yaml", "--dialect", "duckdb"),
            "--dialect needs --print-sql",
        ),
        (("recoding", "sql", "release.owner/recoding.json"), "the SQL dialect is missing"),
        (("recoding", "sql", "policy.yaml", "--dialect", "duckdb"), "policy.yaml"),
    ],
)
def test_wrong_options_are_named(run: Run, release: shoal.Release, arguments: tuple[str, ...], text: str) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert text in " ".join(done.err.split())


def test_recoding_sql_prints_a_view(run: Run, release: shoal.Release) -> None:
    owner = "release.owner/recoding.json"
    done = run("recoding", "sql", owner, "--dialect", "duckdb", "--table", "ward.patients", "--view", "published")
    assert done.out == recoding_query(owner, dialect="duckdb", table="ward.patients", view="published") + ";\n"
    assert done.out.startswith('CREATE VIEW "published" AS')


def test_the_help_says_that_the_sql_belongs_to_the_owner(run: Run, here: Path) -> None:
    text = " ".join(run("recoding", "sql", "--help").out.split())
    assert "contains values from the data. It belongs to the owner" in text


def test_dbt_package_writes_the_files(run: Run, here: Path) -> None:
    assert run("dbt", "package", "--out", "tests").code == 0
    for name, text in dbt_package().items():
        assert (here / "tests" / name).read_text(encoding="utf-8") == text
    again = run("dbt", "package", "--out", "tests")
    assert again.code == 2
    assert "already exists" in again.err
    assert run("dbt", "package", "--out", "tests", "--force").code == 0
