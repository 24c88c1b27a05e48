"""The options on how a file is written, and --like-input."""

from __future__ import annotations

import json
from pathlib import Path

import openpyxl
import pytest

import shoal
from tests.engines.test_file_formats import GERMAN
from tests.support.programs import Run

KINDS = """\
identifiers: [Name]
quasi:
  Größe: numeric
  Geburt: date
  PLZ: {mask: right}
  Gehalt: numeric
sensitive: [Diagnose]
unit: Patient
require:
- k-anonymity: 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "export.csv").write_bytes(GERMAN.encode("cp1252"))
    (tmp_path / "policy.yaml").write_text(KINDS, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_german_export_works_at_the_first_try(engine: str, run: Run, here: Path) -> None:
    ran = run("anonymize", "export.csv", "-p", "policy.yaml", "-o", "out", "--engine", engine)
    assert (ran.code, "Note: 'export.csv' is not UTF-8, so it was read as cp1252" in ran.out) == (0, True)
    assert run("check", "out/table.csv", "-p", "out/policy.yaml", "--records").code == 0
    assert run("check", "out/table.csv", "-p", "policy.yaml", "--records").code == 0
    measured = run("measure", "export.csv", "out/table.csv", "-p", "policy.yaml", "--engine", engine)
    assert (measured.code, "Note: 'export.csv' is not UTF-8" in measured.out) == (0, True)
    raw = run("check", "export.csv", "-p", "policy.yaml", "--engine", engine)
    assert (raw.code, "read as cp1252" in raw.out) == (1, True)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_release_like_its_input(engine: str, run: Run, here: Path) -> None:
    ran = run("anonymize", "export.csv", "-p", "policy.yaml", "-o", "out", "--engine", engine, "--like-input")
    assert ran.code == 0
    header, *rows = (here / "out" / "table.csv").read_text("cp1252").replace('"', "").splitlines()
    assert header == "Größe;Geburt;PLZ;Gehalt;Diagnose"
    assert any("Übelkeit" in row for row in rows)
    fingerprint = json.loads((here / "out" / "certificate.json").read_text())["fingerprint"]
    assert f"fingerprint {fingerprint}" in ran.out
    for policy in ("out/policy.yaml", "policy.yaml"):
        checked = run("check", "out/table.csv", "-p", policy, "--records")
        assert (checked.code, f"fingerprint {fingerprint}" in checked.out) == (0, True)
    assert run("measure", "export.csv", "out/table.csv", "-p", "policy.yaml").code == 0
    (here / "moved.csv").write_bytes((here / "out" / "table.csv").read_bytes())
    assert run("check", "moved.csv", "-p", "out/policy.yaml", "--records").code == 0


def test_options_override_the_policy(run: Run, here: Path) -> None:
    (here / "t.txt").write_bytes("weight^born\n".encode("utf-16") + ("1,234^01/02/1985\n" * 3).encode("utf-16-le"))
    (here / "p.yaml").write_text(
        "quasi: {weight: numeric, born: date}\nread: {delimiter: '|', decimal: ., dates: '%d.%m.%Y'}\n"
        "require: [k-anonymity: 3]\n"
    )
    options = ("--delimiter", "^", "--decimal", ",", "--dates", "%m/%d/%Y", "--encoding", "utf-16")
    assert run("anonymize", "t.txt", "-p", "p.yaml", "-o", "out", *options).code == 0
    assert '"1.234","[1985-01-01, 1985-01-31]"' in (here / "out" / "table.csv").read_text()
    assert (
        shoal.Policy.load("out.owner/policy.yaml").read
        == shoal.Policy(read={"delimiter": "^", "decimal": ",", "dates": "%m/%d/%Y", "encoding": "utf-16"}).read
    )
    assert run("check", "t.txt", "-p", "p.yaml", *options).code == 0
    assert run("measure", "t.txt", "out/table.csv", "-p", "p.yaml", *options).code == 0
    without = run("anonymize", "t.txt", "-p", "p.yaml", "-o", "more")
    assert (without.code, "separated by '^'" in without.err) == (2, True)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--delimiter", "ab", "'delimiter' must be one character"),
        ("--decimal", ";", "'decimal' cannot be ';'; choose from '.', ','"),
        ("--encoding", "utf8000", "unknown encoding 'utf8000'"),
        ("--dates", "day first", "'dates' must be a format with the day, the month and the year, such as '%d.%m.%Y'"),
        ("--sheet", " ", "'sheet' must be the name of a sheet"),
    ],
)
def test_wrong_options_are_named(option: str, value: str, words: str, run: Run, here: Path) -> None:
    for command in (
        ("anonymize", "export.csv", "-o", "out"),
        ("check", "export.csv"),
        ("measure", "export.csv", "export.csv"),
    ):
        ran = run(*command, "-p", "policy.yaml", option, value)
        assert (ran.code, words in ran.err) == (2, True)
    assert not (here / "out").exists()


def test_a_table_like_the_input_is_csv(run: Run, here: Path) -> None:
    ran = run("anonymize", "export.csv", "-p", "policy.yaml", "-o", "out", "--like-input", "--format", "parquet")
    assert (ran.code, "is a CSV file. Remove the format 'parquet'" in ran.err) == (2, True)
    with pytest.raises(shoal.PolicyError, match="is a CSV file"):
        shoal.anonymize("export.csv", "policy.yaml").save("out", like_input=True, format="parquet")


def test_a_sheet_is_chosen_by_name(run: Run, here: Path) -> None:
    book = openpyxl.Workbook()
    for name, ages in (("first", [31, 32]), ("second", [41, 42])):
        sheet = book.create_sheet(name)
        for row in (["age"], *([age] for age in ages)):
            sheet.append(row)
    book.save("t.xlsx")
    (here / "p.yaml").write_text("quasi: {age: numeric}\nrequire: [k-anonymity: 2]\n")
    ran = run("anonymize", "t.xlsx", "-p", "p.yaml", "-o", "out", "--like-input")
    assert (ran.code, "the first sheet 'first' was read, and not 'second'" in ran.out) == (0, True)
    assert "[31, 32]" in (here / "out" / "table.csv").read_text()
    ran = run("anonymize", "t.xlsx", "-p", "p.yaml", "-o", "out", "--force", "--sheet", "second")
    assert (ran.code, "[41, 42]" in (here / "out" / "table.csv").read_text()) == (0, True)


def test_later_rows_with_options(run: Run, here: Path) -> None:
    (here / "p.yaml").write_text("quasi: {age: numeric}\nkeep: [ill]\nrequire: [k-anonymity: 2]\n")
    (here / "t.csv").write_text("age,ill\n31,x\n32,y\n")
    (here / "later.csv").write_text("age:ill\n31:z\n")
    assert run("anonymize", "t.csv", "-p", "p.yaml", "-o", "out").code == 0
    later = ("anonymize", "later.csv", "--recoding", "out.owner/recoding.json", "-o", "more")
    assert run(*later).code == 2
    assert run(*later, "--delimiter", ":").code == 0
