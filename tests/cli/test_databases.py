"""`shoal anonymize`, `check` and `measure` with tables in a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support import postgres
from tests.support.postgres import Server
from tests.support.programs import Run

pytestmark = pytest.mark.engines

POLICY = """\
quasi: {age: numeric}
sensitive: [ill]
require:
- k-anonymity: 2
"""
PEOPLE = pa.table({"age": [20, 21, 22, 23, 40, 41, 42, 43], "ill": [*"abcdabcd"]})


@pytest.fixture(scope="module")
def server() -> Server:
    return postgres.require_server()


@pytest.fixture
def here(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", server.password)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "policy.yaml").write_text(POLICY)
    server.run("DROP SCHEMA IF EXISTS public CASCADE", "CREATE SCHEMA public")
    server.upload(PEOPLE, "people")
    yield tmp_path


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_table_is_released_to_a_table(run: Run, here: Path, server: Server) -> None:
    asked = ("-p", "policy.yaml", "--table", "people")
    ran = run("anonymize", server.url(), *asked, "-o", "out", "--out-table", "people_release")
    assert (ran.code, "Public table in the database: people_release" in ran.out) == (0, True)
    assert files(here / "out") == ["certificate.json", "policy.yaml", "report.html"]
    assert {"ledger.json", "recoding.json", "policy.yaml"} <= set(files(here / "out.owner"))
    statement = json.loads((here / "out" / "certificate.json").read_text())
    checked = run("check", server.url(), "-p", "out/policy.yaml", "--table", "people_release", "--json", "-")
    assert (checked.code, json.loads(checked.out)["fingerprint"]) == (0, statement["fingerprint"])
    assert run("check", server.url(), *asked).code == 1
    measured = run("measure", server.url(), server.url(), *asked, "--released-table", "people_release")
    assert (measured.code, "ncp" in measured.out) == (0, True)
    refused = run("anonymize", server.url(), *asked, "-o", "other", "--out-table", "people_release")
    assert (refused.code, "already exists" in refused.err) == (2, True)
    again = run("anonymize", server.url(), *asked, "-o", "out", "--out-table", "people_release", "--force", "--quiet")
    assert (again.code, again.out) == (0, "")
    assert json.loads((here / "out" / "certificate.json").read_text())["fingerprint"] == statement["fingerprint"]
    everything = "".join(p.read_text() for folder in ("out", "out.owner") for p in (here / folder).iterdir())
    assert server.password not in everything + ran.out + ran.err and f":{server.port}" not in everything


def test_a_table_is_released_to_a_file(run: Run, here: Path, server: Server) -> None:
    ran = run("anonymize", server.url(), "-p", "policy.yaml", "--table", "people", "-o", "out", "--format", "csv")
    assert (ran.code, files(here / "out")) == (0, ["certificate.json", "policy.yaml", "report.html", "table.csv"])
    assert run("check", "out/table.csv", "-p", "policy.yaml").code == 0
    measured = run("measure", server.url(), "out/table.csv", "-p", "policy.yaml", "--table", "people")
    assert measured.code == 0


def test_new_records_are_released_by_an_earlier_recoding(run: Run, here: Path, server: Server) -> None:
    asked = ("-p", "policy.yaml", "--table")
    assert run("anonymize", server.url(), *asked, "people", "-o", "one", "--out-table", "release_1").code == 0
    server.upload(pa.table({"age": [20, 20, 43], "ill": ["new", "new", "new"]}), "later")
    given = ("--recoding", "one.owner/recoding.json", "--nearest", "-o", "two", "--out-table", "release_2")
    ran = run("anonymize", server.url(), *asked, "later", *given)
    assert ran.code == 0, ran.err
    assert server.rows("SELECT count(*) FROM release_2 WHERE ill = 'new'") == [(3,)]
    assert json.loads((here / "two" / "certificate.json").read_text())["evidence"] == "union"


def test_a_password_on_the_command_line_is_refused(run: Run, here: Path) -> None:
    for url in ("postgresql://ann:hunter2@127.0.0.1/x", "postgres://127.0.0.1/x?user=ann&password=hunter2"):
        for ran in (
            run("anonymize", url, "-p", "policy.yaml", "--table", "people", "-o", "out"),
            run("anonymize", url, "-p", "policy.yaml", "--table", "people", "-o", "out", "--out-table", "t"),
            run("check", url, "-p", "policy.yaml", "--table", "people", "--engine", "memory"),
            run("check", url, "-p", "policy.yaml"),
            run("measure", "policy.yaml", url, "-p", "policy.yaml"),
        ):
            assert ran.code == 2 and "hunter2" not in ran.out + ran.err
        assert "PGPASSWORD" in run("check", url, "-p", "policy.yaml").err
    assert files(here) == ["policy.yaml"]


def test_wrong_input_has_the_exit_status_2(
    run: Run, here: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("-p", "policy.yaml", "-o", "out")
    absent = "postgresql://127.0.0.1:1/x?connect_timeout=3"
    for arguments, words in (
        ((server.url(), *asked, "--table", "peopel"), "did you mean 'people'?"),
        ((server.url(), *asked), "Name the table (table=, --table)"),
        ((server.url(database="nowhere"), *asked, "--table", "people"), "nowhere"),
        ((absent, *asked, "--table", "people"), "cannot connect to the database"),
        (("policy.yaml", *asked, "--table", "people"), "names a table of a database"),
        ((server.url(), *asked, "--table", "people", "--out-table", "nowhere.t"), "Nothing was read"),
        ((server.url(), *asked, "--table", "people", "--out-table", "t", "--format", "csv"), "Remove one of them"),
        ((server.url(), *asked, "--table", "people", "--range-types"), "exist only in a database"),
    ):
        ran = run("anonymize", *arguments)
        assert (ran.code, words in " ".join(ran.err.split())) == (2, True), (arguments, ran.err)
    monkeypatch.setenv("PGPASSWORD", "wr0ng")
    ran = run("anonymize", server.url(), *asked, "--table", "people")
    assert (ran.code, "password authentication failed" in ran.err, "wr0ng" in ran.err) == (2, True, False)
    assert files(here) == ["policy.yaml"]


def test_two_tables_are_not_released_to_one(run: Run, here: Path, server: Server) -> None:
    """Refused before the database is asked for anything; with the shuffled values there is one table."""
    (here / "policy.yaml").write_text(POLICY.replace("k-anonymity: 2", "l-diversity: {l: 2, of: ill}"))
    asked = ("-p", "policy.yaml", "-m", "anatomy", "--table", "people", "-o", "out", "--out-table", "t")
    ran = run("anonymize", "postgresql://127.0.0.1:1/absent", *asked)
    assert (ran.code, "the release of anatomy is not one table" in " ".join(ran.err.split())) == (2, True)
    assert files(here) == ["policy.yaml"]
    assert run("anonymize", server.url(), *asked, "--set", "form=permuted").code == 0
    assert server.rows("SELECT COUNT(*) FROM t") == [(8,)]


def test_a_file_cannot_be_released_to_a_table(run: Run, here: Path) -> None:
    (here / "table.csv").write_text("age,ill\n1,a\n1,b\n")
    ran = run("anonymize", "table.csv", "-p", "policy.yaml", "-o", "out", "--out-table", "t")
    assert (ran.code, "not in a database" in ran.err) == (2, True)
    ran = run("check", "table.csv", "-p", "policy.yaml", "--table", "t")
    assert (ran.code, "names a table of a database" in ran.err) == (2, True)
