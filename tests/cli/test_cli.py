"""The commands: exit statuses, output on both streams, and no files after an error."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.cli import console
from shoal.errors import escape_invisible
from shoal.tables import METHODS
from tests.support.paths import refusals, walk
from tests.support.programs import Ran, Run

TABLE = "name,age,zip,ill\n" + "".join(f"N{i},{20 + i},4790{i % 4},{'flu' if i % 2 else 'cold'}\n" for i in range(12))
POLICY = """\
identifiers: [name]
quasi:
  age: numeric
  zip: {mask: right}
sensitive: [ill]
require:
- k-anonymity: 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a table and a policy."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "table.csv").write_text(TABLE)
    (folder / "policy.yaml").write_text(POLICY)
    monkeypatch.chdir(folder)
    return folder


ANONYMIZE = ("anonymize", "table.csv", "-p", "policy.yaml", "-o", "out")


def refused(ran: Ran, here: Path, *words: str, code: int = 2) -> None:
    """Assert the exit status, an error on standard error that contains the words, and no new files."""
    assert ran.code == code, ran
    text = " ".join(ran.err.split())
    for word in words:
        assert word in text, text
    assert ran.out == ""
    assert {p.name for p in here.iterdir() if not p.name.startswith("given")} == {"table.csv", "policy.yaml"}


def test_check_counts_people_or_says_that_it_cannot(run: Run, here: Path) -> None:
    people = "person," + TABLE.split("\n", 1)[0] + "\n"
    people += "".join(f"p{n // 2},{row}\n" for n, row in enumerate(TABLE.strip().split("\n")[1:]))
    (here / "table.csv").write_text(people)
    (here / "policy.yaml").write_text("unit: person\n" + POLICY.replace("k-anonymity: 3", "k-anonymity: 2"))
    released = run(*ANONYMIZE)
    assert released.code == 0 and "people" in released.out
    for table, options, code in (("out/table.csv", (), 1), ("out/table.csv", ("--records",), 0), ("table.csv", (), 1)):
        ran = run("check", table, "-p", "policy.yaml", *options)
        assert ran.code == code, ran
        cannot = "people cannot be counted: column person is not in the table" in ran.out
        assert cannot == (table != "table.csv")


# ---- anonymize


def test_anonymize_writes_a_release_that_holds(run: Run, here: Path) -> None:
    ran = run(*ANONYMIZE)
    assert ran.code == 0 and ran.err == ""
    assert "holds" in ran.out and "k-anonymity (k = 3)" in ran.out
    assert "Dropped columns: name" in ran.out and "Public folder: out " in ran.out
    assert "Owner folder (do not publish): out.owner\n" in ran.out
    assert {p.name for p in (here / "out").iterdir()} == {"table.csv", "certificate.json", "policy.yaml", "report.html"}
    assert (here / "out.owner" / "recoding.json").is_file()
    assert shoal.check(here / "out" / "table.csv", shoal.Policy.load("policy.yaml")).holds
    assert run("check", "out/table.csv", "-p", "out/policy.yaml").code == 0


def test_quiet_prints_nothing(run: Run, here: Path) -> None:
    assert run(*ANONYMIZE, "--quiet") == Ran(0, "", "")
    assert (here / "out").is_dir()


def test_formulas_are_escaped_in_csv_and_counted(run: Run, here: Path) -> None:
    (here / "table.csv").write_text(TABLE.replace(",flu", ",=1+1").replace(",cold", ",-5"))
    ran = run(*ANONYMIZE)
    assert ran.code == 0 and "In the CSV file 6 cells begin with an apostrophe" in ran.out
    assert json.loads((here / "out" / "certificate.json").read_text())["notes"][0] in ran.out
    text = (here / "out" / "table.csv").read_text()
    assert text.count('"\'=1+1"') == 6 and text.count('"-5"') == 6
    assert run("check", "out/table.csv", "-p", "policy.yaml").code == 0
    for way, options in {"plain": ["--no-escape-formulas"], "parquet": ["--format", "parquet"]}.items():
        ran = run("anonymize", "table.csv", "-p", "policy.yaml", "-o", way, *options)
        assert ran.code == 0 and "apostrophe" not in ran.out
    assert (here / "plain" / "table.csv").read_text().count('"=1+1"') == 6
    lines = [
        [line for line in run("check", name, "-p", "policy.yaml").out.splitlines() if "fingerprint" in line]
        for name in ("out", "plain", "parquet")
    ]
    assert lines[0] == lines[1] == lines[2]


def test_codes_are_read_as_text(run: Run, here: Path) -> None:
    (here / "table.csv").write_text("age,zip,ill\n1,01234,flu\n1,01234,flu\n1,01234,cold\n")
    (here / "policy.yaml").write_text(POLICY.replace("identifiers: [name]\n", ""))
    assert run(*ANONYMIZE).code == 0
    assert "01234" in (here / "out" / "table.csv").read_text()


def test_parameters_by_set(run: Run, here: Path) -> None:
    assert run(*ANONYMIZE, "--set", "cut=median", "--set", "relaxed=true").code == 0
    ledger = json.loads((here / "out.owner" / "ledger.json").read_text())
    common = {"write": "label", "ends": None, "objective": "ncp", "improve": False, "max_size": None, "seconds": None}
    assert ledger["parameters"] == {**common, "cut": "median", "relaxed": True, "weights": None}


def test_the_format_and_the_way_of_writing(run: Run, here: Path) -> None:
    assert run(*ANONYMIZE, "--format", "parquet", "--write", "lo-hi").code == 0
    table = pq.read_table(here / "out" / "table.parquet")
    assert table.column_names == ["age_lo", "age_hi", "zip", "ill"] and table.num_rows == 12
    ran = run("check", "out/table.parquet", "-p", "policy.yaml")
    assert ran.code == 0 and "age_lo" not in ran.err


def test_parquet_in_parquet_out(run: Run, here: Path) -> None:
    pd.read_csv(here / "table.csv", dtype=str).to_parquet(here / "given.parquet")
    assert run("anonymize", "given.parquet", *ANONYMIZE[2:]).code == 0
    assert (here / "out" / "table.parquet").is_file()


def test_an_earlier_release_is_kept_unless_forced(run: Run, here: Path) -> None:
    assert run(*ANONYMIZE).code == 0
    before = (here / "out" / "certificate.json").read_bytes()
    ran = run(*ANONYMIZE, "--set", "cut=median", "--format", "parquet")
    assert ran.code == 2 and "'out' already exists" in ran.err
    assert (here / "out" / "certificate.json").read_bytes() == before
    assert run(*ANONYMIZE, "--format", "parquet", "--force").code == 0
    assert not (here / "out" / "table.csv").exists() and (here / "out" / "table.parquet").is_file()


def test_force_does_not_empty_the_folder_of_the_raw_data(run: Run, here: Path) -> None:
    (here / "study").mkdir()
    (here / "study" / "raw.csv").write_text(TABLE)
    ran = run("anonymize", "study/raw.csv", "-p", "policy.yaml", "-o", "study", "--force")
    assert ran.code == 2
    assert (here / "study" / "raw.csv").read_text() == TABLE


def test_a_requirement_that_cannot_be_met_is_status_one(run: Run, here: Path) -> None:
    (here / "policy.yaml").write_text(POLICY + "- l-diversity: {l: 3, of: ill}\n")
    refused(run(*ANONYMIZE), here, "the requirement does not hold", "l-diversity (l = 3", "reaches 2", code=1)


def test_a_requirement_of_too_many_records_names_the_line(run: Run, here: Path) -> None:
    (here / "policy.yaml").write_text(POLICY.replace(": 3\n", ": 30\n"))
    refused(run(*ANONYMIZE), here, "policy.yaml, line 7", "at least 30 records", "the table has 12")


# ---- next month's rows


NOVEMBER = "name,age,zip,ill\nN20,21,47901,flu\nN21,27,47903,gout\n"
LATER = ("anonymize", "given.csv", "--recoding", "out.owner/recoding.json", "-o", "november")


@pytest.fixture
def october(run: Run, here: Path) -> Path:
    """An earlier release, and rows that came after it; the policy allows suppression."""
    (here / "policy.yaml").write_text(POLICY + "suppress: 0.5\n")
    assert run(*ANONYMIZE).code == 0
    (here / "given.csv").write_text(NOVEMBER)
    return here


@pytest.mark.usefixtures("october")
def test_new_rows_are_released_by_an_earlier_recoding(run: Run, here: Path) -> None:
    (here / "policy.yaml").unlink()  # the policy in the owner folder is used
    ran = run(*LATER)
    assert ran.code == 0 and ran.err == ""
    assert "together with the earlier releases" in ran.out and "the table alone may hold smaller groups" in ran.out
    assert "information kept" not in ran.out and "Dropped columns: name" in ran.out
    assert {p.name for p in (here / "november").iterdir()} == {p.name for p in (here / "out").iterdir()}
    assert {p.name for p in (here / "november.owner").iterdir()} == {p.name for p in (here / "out.owner").iterdir()}
    tables = [pd.read_csv(here / name / "table.csv", dtype=str) for name in ("out", "november")]
    assert shoal.check(pd.concat(tables), shoal.Policy.parse(POLICY)).holds
    ran = run("anonymize", "given.csv", "--recoding", "november.owner/recoding.json", "-o", "december")
    assert ran.code == 2 and "released before" in ran.err and not (here / "december").exists()


@pytest.mark.usefixtures("october")
def test_a_policy_may_be_given_for_new_rows(run: Run, here: Path) -> None:
    (here / "given.yaml").write_text(POLICY.replace(": 3\n", ": 30\n"))
    ran = run(*LATER, "-p", "given.yaml")
    assert ran.code == 1 and "the requirement does not hold" in ran.err and "cannot be withdrawn" in ran.err
    assert ran.out == "" and not (here / "november").exists() and not (here / "november.owner").exists()


@pytest.mark.usefixtures("october")
def test_new_rows_outside_every_box(run: Run, here: Path) -> None:
    (here / "given.csv").write_text(NOVEMBER + "N22,99,47900,flu\n" * 3)
    ran = run(*LATER)
    assert ran.code == 1 and "3 of 5 new records" in ran.err and "3 outside every box" in ran.err
    assert not (here / "november").exists()
    assert run(*LATER, "--nearest").code == 0
    assert len(pd.read_csv(here / "november" / "table.csv")) == 5


@pytest.mark.usefixtures("october")
@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--method", "mondrian"), "method"),
        (("--set", "cut=median"), "cut"),
        (("--write", "set"), "write"),
        (("--seed", 1), "seed"),
    ],
    ids=str,
)
def test_a_recoding_excludes_options_of_methods(run: Run, here: Path, more: tuple[object, ...], word: str) -> None:
    ran = run(*LATER, *more)
    assert ran.code == 2 and f"{word!r} cannot be combined with 'recoding'" in ran.err
    assert not (here / "november").exists()


def test_a_policy_or_a_recoding_is_needed(run: Run, here: Path) -> None:
    refused(run("anonymize", "table.csv", "-o", "out"), here, "--policy", "--recoding")
    refused(run(*ANONYMIZE, "--nearest"), here, "'nearest' can only be used with 'recoding'")
    refused(run("anonymize", "table.csv", "-o", "out", "--recoding", "absent.json"), here, "absent.json")
    refused(run(*ANONYMIZE, "--set", "nearest=true"), here, "Use --nearest instead of --set")


@pytest.mark.usefixtures("october")
def test_new_rows_have_no_path_to_explain(run: Run, here: Path) -> None:
    ran = run(*LATER, "--explain")
    assert ran.code == 2 and "records no search path" in ran.err and not (here / "november").exists()


# ---- the path


@pytest.fixture
def stepwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases with a path, as from a method that specializes values step by step."""
    anonymize = shoal.anonymize
    path = walk(3, chosen=2, texts=("[Any]:cat:", "\x1b[2Jraw", None), refused=refusals("zip", 4))
    monkeypatch.setattr(shoal, "anonymize", lambda *given, **more: replace(anonymize(*given, **more), path=path))


@pytest.mark.usefixtures("stepwise")
def test_a_path_is_named_and_explained_when_asked(run: Run, here: Path) -> None:
    ran = run(*ANONYMIZE)
    assert ran.code == 0 and "Path: 3 steps, out.owner/path.html\n" in ran.out and "raw" not in ran.out
    assert (here / "out.owner" / "path.html").is_file() and not (here / "out" / "path.html").exists()
    ran = run(*ANONYMIZE, "--force", "--explain")
    assert ran.code == 0 and "  2. job-2: [Any]:cat: -> \\x1b[2Jraw, (missing)\n" in ran.out
    assert "\x1b[2J" not in ran.out and "Why the path ended" in ran.out and "holds" in ran.out
    ran = run(*ANONYMIZE, "--force", "--explain", "--quiet")
    assert ran.code == 0 and ran.err == "" and ran.out.lstrip().startswith("For the data owner only")


def test_the_path_of_a_specialization_is_explained(run: Run) -> None:
    ran = run(*ANONYMIZE, "--method", "tds", "--explain")
    assert ran.code == 0 and "The release is the table" in ran.out and ", out.owner/path.html" in ran.out


def test_nothing_is_written_where_there_is_no_path_to_explain(run: Run, here: Path) -> None:
    refused(run(*ANONYMIZE, "--explain"), here, "mondrian records no search path", "tds or bottom-up")
    assert "Path:" not in run(*ANONYMIZE).out


def test_a_local_search_has_no_path_to_explain(run: Run, here: Path) -> None:
    ran = run(*ANONYMIZE, "--method", "tds", "--set", "improve=true", "--explain")
    refused(ran, here, "with improve=True there is no search path to explain", "Remove --explain or improve=True")


def test_a_threshold_may_be_a_percentage(run: Run, here: Path) -> None:
    command = ("measure", "table.csv", "table.csv", "-p", "policy.yaml", "--threshold")
    assert run(*command, "40%").out == run(*command, "0.4").out
    refused(run(*command, "high"), here, "threshold must be a number, not 'high'")


@pytest.mark.parametrize("threshold", ["5", "-0.1", "nan", "inf"])
def test_a_threshold_outside_its_range(run: Run, here: Path, threshold: str) -> None:
    ran = run("measure", "table.csv", "table.csv", "-p", "policy.yaml", "--threshold", threshold)
    refused(ran, here, "threshold")
    with pytest.raises(shoal.PolicyError, match="threshold"):
        shoal.measure("table.csv", "table.csv", "policy.yaml", threshold=float(threshold))


def test_the_bar_follows_a_total_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float | None]] = []

    class Watched(console.Progress):
        def update(self, task_id: Any, **more: Any) -> None:
            super().update(task_id, **more)
            seen.append((self.tasks[task_id].completed, self.tasks[task_id].total))

    monkeypatch.setattr(console, "Progress", Watched)
    with console.show_progress() as report:
        for done, total in ((0, 4), (3, 4), (3, 9), (9, 9)):
            report("specializing", done, total)
    assert seen == [(0, 4), (3, 4), (3, 9), (9, 9)]


# ---- errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "cut=medium"), ("unknown value 'medium' for 'cut'", "did you mean 'median'")),
        (("--set", "cut=5"), ("unknown value 5 for 'cut'", "'gain', 'median'")),
        (("--set", "cut"), ("--set must have the form NAME=VALUE, such as stop_at=2, not 'cut'",)),
        (("--set", "cuts=gain"), ("no parameter 'cuts'", "did you mean 'cut'")),
        (("--set", "=3"), ("no parameter ''",)),
        (("--set", "relaxed=perhaps", "--set", "cut=median"), ("relaxed",)),
        (("--set", "write=label"), ("write",)),
        (("--set", "seed=3"), ("seed",)),
        (("--set", "policy=x"), ("policy",)),
        (("--set", "data=x"), ("data",)),
        (("--write", "labels"), ("unknown value 'labels' for 'write'", "did you mean 'label'")),
        (("--format", "xlsx"), ("unknown format 'xlsx'", "'csv', 'parquet'")),
        (("--method", "mondrain"), ("unknown method 'mondrain'", "did you mean 'mondrian'")),
        (("--seed", "x"), ("--seed", "The seed is a whole number")),
        (("--memory", "4"), ("at least 200MB, not '4'. Write a unit, such as 4GB.",)),
        (("--method", "kmember", "--set", "weights=5"), ("weights must be numbers by column name", "'age=2', not 5")),
        (("-o", "-"), ("--out needs the name of a new folder, such as --out release",)),
        (("-o", ""), ("--out needs the name of a new folder",)),
        (("--sed", "3"), ("--sed",)),
        (("-o", "."), (".",)),
        (("-o", "table.csv"), ("'table.csv' exists and is not a release",)),
        (("-o", "table.csv/out"), ("table.csv",)),
        (("-o", "x" * 300), ("x",)),
    ],
    ids=lambda v: " ".join(v)[:20],
)
def test_wrong_arguments(run: Run, here: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(run(*ANONYMIZE, *arguments), here, *words)


@pytest.mark.parametrize("command", [ANONYMIZE, ("check", "table.csv", "-p", "policy.yaml")], ids=lambda c: c[0])
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.csv", None, ("there is no file 'given/absent.csv'",)),
        ("", None, ("the folder 'given' holds no CSV or Parquet file",)),
        ("given.xls", b"x", (".xls files cannot be read. Save the table as .xlsx or as CSV",)),
        ("given.csv", b"", ("'given.csv' is empty",)),
        ("given.csv", b"name,age,zip,ill\n", ("the table is empty",)),
        ("given.csv", b"\xff\xfe\x00\x01\n", ("given.csv",)),
        ("given.csv", b"name,age,zip,ill\na,1,2\n", ("cannot read 'given.csv'",)),
        ("given.csv", b"name,age,zip,ill,ill\na,1,2,3,4\n", ("more than once", "'ill'")),
        ("given.csv", b"name,ages,zip,ill\na,1,2,3\n", ("column 'age' is not in the table", "did you mean 'ages'")),
        ("given.csv", b"NAME,AGE,ZIP,ILL\na,1,2,3\n", ("choose from 'NAME'", "Correct the name, or remove it")),
        ("given.csv", b"name^age^zip^ill\na^1^2^3\n", ("the header has only one column", "--delimiter '^'")),
        ("given.csv.gz", b"name,age,zip,ill\na,1,2,3\n", ("given.csv.gz",)),
        ("given.parquet", b"PAR1 no such thing PAR1", ("cannot read 'given.parquet'",)),
        ("given.parquet", b"", ("cannot read 'given.parquet'",)),
    ],
    ids=[
        "absent",
        "folder",
        "xls",
        "empty",
        "header",
        "bytes",
        "ragged",
        "twice",
        "column",
        "case",
        "carets",
        "gz",
        "parquet",
        "hollow",
    ],
)
def test_wrong_tables(
    run: Run, here: Path, command: tuple[str, ...], name: str, content: bytes | None, words: tuple[str, ...]
) -> None:
    (here / "given").mkdir()
    file = Path("given") / name
    if content is not None:
        file.write_bytes(content)
    refused(run(command[0], file, *command[2:]), here, *words)


HEADERLESS = "".join(TABLE.splitlines(keepends=True)[1:]).replace("N0,", "Anna Miller,").replace("N1,", "bill,")
WITHOUT_HEADER = "in the table. Does the first line of the file contain the column names?"


@pytest.mark.parametrize(
    "command",
    [
        ("anonymize", "given.csv", "-p", "policy.yaml", "-o", "out"),
        ("check", "given.csv", "-p", "policy.yaml"),
        ("measure", "given.csv", "table.csv", "-p", "policy.yaml"),
        ("measure", "table.csv", "given.csv", "-p", "policy.yaml"),
        ("taxonomy", "make", "given.csv", "zip", "--mask", "right"),
    ],
    ids=lambda c: f"{c[0]} {c[1]}",
)
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_file_without_a_header_line_shows_no_value(
    run: Run, here: Path, command: tuple[str, ...], engine: str
) -> None:
    (here / "given.csv").write_text(HEADERLESS)
    ran = run(*command, *(() if command[0] == "taxonomy" else ("--engine", engine)))
    assert ran.code == 2 and ran.out == "" and WITHOUT_HEADER in ran.err and not (here / "out").exists()
    assert not [value for value in HEADERLESS.splitlines()[0].split(",") if value in ran.err]


@pytest.mark.usefixtures("october")
def test_new_rows_without_a_header_line_show_no_value(run: Run, here: Path) -> None:
    (here / "given.csv").write_text(HEADERLESS)
    ran = run(*LATER)
    assert ran.code == 2 and WITHOUT_HEADER in ran.err and "Anna" not in ran.err


@pytest.mark.parametrize("command", [ANONYMIZE, ("check", "table.csv", "-p", "policy.yaml")], ids=lambda c: c[0])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ("there is no policy file 'given.yaml'",)),
        ("", ("the file is empty",)),
        ("- a\n", ("this is not a policy",)),
        ("quasi: [\n", ("given.yaml, line", "not valid YAML")),
        ("\xff".encode("latin-1"), ("cannot read the policy 'given.yaml'",)),
        ("quasi: [age]\n", ("line 1", "age: numeric")),
        ("quasi: {age: number}\nrequire: [k-anonymity: 2]\n", ("line 1", "unknown kind 'number'", "did you mean")),
        ("quasi: {age: numeric}\n", ("no requirement", "k-anonymity")),
        ("quasi: {age: numeric}\nrequire: [k-anonymity: 0]\n", ("line 2", "k must be at least 1")),
        ("quasi: {age: numeric}\nrequire: [k-anonymity: --5]\n", ("line 2", "k must be a whole number")),
        ("quasi: {age: numeric}\nrequire: [m-anonymity: 2]\n", ("line 2", "did you mean 'k-anonymity'")),
        ("quasi: {age: numeric}\nrequire: [l-diversity: 2]\n", ("line 2", "l-diversity needs 'of'")),
        ("quasis: {age: numeric}\n", ("line 1", "unknown key", "did you mean 'quasi'")),
        ("quasi: {zip: {taxonomy: absent.yaml}}\nrequire: [k-anonymity: 2]\n", ("absent.yaml", "line 1")),
        ("quasi: {age: numeric}\nrequire: [k-anonymity: 2]\nsuppress: 2\n", ("line 3", "suppress")),
    ],
    ids=lambda v: repr(v)[:24] if not isinstance(v, tuple) else "",
)
def test_wrong_policies(
    run: Run, here: Path, command: tuple[str, ...], content: str | bytes | None, words: tuple[str, ...]
) -> None:
    if content is not None:
        (here / "given.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    arguments = ["given.yaml" if a == "policy.yaml" else a for a in command]
    refused(run(*arguments), here, *words)


def test_a_folder_without_permission(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: mode != os.W_OK and may(path, mode, **more))
    refused(run(*ANONYMIZE), here, "no permission to write", "Choose a folder in which you may write")


def test_a_recoding_that_is_another_file(run: Run) -> None:
    assert run(*ANONYMIZE).code == 0
    ran = run("anonymize", "table.csv", "--recoding", "out/certificate.json", "-o", "later")
    assert ran.code == 2 and "is not a recoding. Use recoding.json in the owner folder" in ran.err


def test_measure_of_swapped_tables(run: Run) -> None:
    assert run(*ANONYMIZE).code == 0
    Path("policy.yaml").write_text(POLICY.replace("identifiers: [name]\n", ""))
    ran = run("measure", "out/table.csv", "table.csv", "-p", "policy.yaml")
    assert ran.code == 2 and "Is the first table the original of the second table" in ran.err


def test_a_policy_that_is_a_folder(run: Run, here: Path) -> None:
    assert run("check", "table.csv", "-p", ".").out == run("check", "table.csv", "-p", "policy.yaml").out
    refused(run("check", "table.csv", "-p", str(here.parent)), here, "there is no policy file", "policy.yaml'")


def test_text_in_a_numeric_column_names_column_value_and_remedy(run: Run, here: Path) -> None:
    (here / "table.csv").write_text(TABLE.replace("N3,23", "N3,twenty-three"))
    words = (
        "column 'age' is numeric",
        "'twenty-three'",
        "list them under 'missing:'",
        "declare the column as categorical",
    )
    refused(run(*ANONYMIZE), here, *words)
    (here / "policy.yaml").write_text(POLICY + "missing: ['', twenty-three]\n")
    assert run(*ANONYMIZE).code == 0


def test_a_value_that_the_taxonomy_misses_is_named(run: Run, here: Path) -> None:
    (here / "policy.yaml").write_text(POLICY.replace("{mask: right}", "{taxonomy: ['47900', '47901', '47902']}"))
    refused(run(*ANONYMIZE), here, "column 'zip'", "'47903'", "add them to the taxonomy")


@pytest.mark.parametrize(
    "name", ["[bold]x[/]", "[/]", "[red]", "a:cat:b", ":warning:", "x\\", "[x", "\\[x]", "{x}", "%s"]
)
def test_odd_column_names_are_shown_as_they_are(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    table = pd.read_csv(here / "table.csv", dtype=str).rename(columns={"zip": name, "name": f"{name} name"})
    table.to_csv(here / "table.csv", index=False)
    policy = shoal.Policy(
        identifiers=[f"{name} name"],
        quasi={"age": "numeric", name: "categorical"},
        require=[shoal.KAnonymity(3), shoal.KAnonymity(3, on=[name])],
    )
    policy.save(here / "policy.yaml")
    ran = run(*ANONYMIZE)
    assert ran.code == 0
    lines = [line.strip() for line in ran.out.splitlines()]
    assert [line for line in lines if line.startswith(f"k-anonymity (k = 3) on {name} ")]
    assert [line for line in lines if line.startswith(f"{name} ") and line.endswith("%")]
    assert f"Dropped columns: {name} name, ill" in lines
    ran = run("check", "table.csv", "-p", "policy.yaml")
    assert ran.code == 1
    assert f"{name}=4790" in ran.out.replace("\n", "")
    table.drop(columns=name).to_csv(here / "table.csv", index=False)
    ran = run("check", "table.csv", "-p", "policy.yaml")
    assert ran.code == 2 and f"column {name!r} is not in the table" in ran.err.replace("\n", "")


def test_odd_values_are_shown_as_they_are(run: Run, here: Path) -> None:
    (here / "table.csv").write_text("name,age,zip,ill\na,1,[b]:cat:,x\nb,1,[b]:dog:,x\n")
    ran = run("check", "table.csv", "-p", "policy.yaml")
    assert ran.code == 1 and "zip=[b]:cat:" in ran.out


HOSTILE = ["\x1b[31mred", "a\x9b1mb", "a\u202eb", "a\u200bb", "\x07\x7f", "two\nlines", "tab\there", "\u2800\u3164"]


def refuse_invisible(ran: Ran) -> None:
    """Assert that only visible characters and newlines were printed, and one line per name in tables."""
    for text in (ran.out, ran.err):
        assert escape_invisible(text, keep="\n") == text, text
        assert not [line for line in text.splitlines() if line.startswith("lines")], text


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_value_or_file_can_control_the_terminal(run: Run, here: Path, name: str) -> None:
    out, dropped = f"out {name}", f"{name} dropped"
    table = pd.read_csv(here / "table.csv", dtype=str).rename(columns={"zip": name, "name": f"{name} name"})
    table = table.assign(ill=[f"{name} {i % 2}" for i in range(12)], **{dropped: "x"})
    table.to_parquet(here / "given.parquet")
    tree = shoal.Taxonomy.from_nested({f"any {name}": [f"{name} 0", f"{name} 1"]})
    tree.save(here / "tree.yaml")
    policy = shoal.Policy(
        identifiers=[f"{name} name"],
        quasi={"age": "numeric", name: "categorical", "ill": {"taxonomy": tree}},
        require=[shoal.KAnonymity(3), shoal.KAnonymity(3, on=[name])],
    )
    policy.save(here / "policy.yaml")
    calls: list[tuple[tuple[object, ...], int]] = [
        (("anonymize", "given.parquet", "-p", "policy.yaml", "-o", out, "-m", "tds", "--explain"), 0),
        (("anonymize", "given.parquet", "-p", "policy.yaml", "-o", out), 2),  # it exists already
        (("check", "given.parquet", "-p", "policy.yaml"), 1),
        (("check", "given.parquet", "-p", "policy.yaml", "--json", "-"), 1),
        (("check", f"{name}.csv", "-p", "policy.yaml"), 2),
        (("check", "given.parquet", "-p", f"{name}.yaml"), 2),
        (("check", "given.parquet", name, "-p", "policy.yaml"), 2),
        (("measure", "given.parquet", f"{out}/table.parquet", "-p", "policy.yaml"), 0),
        (("measure", "given.parquet", f"{out}/table.parquet", "-p", "policy.yaml", "--json", "-"), 0),
        (("taxonomy", "show", "tree.yaml"), 0),
        (("taxonomy", "make", "given.parquet", "ill", "--balanced", 2), 0),
        (("taxonomy", "make", "given.parquet", "ill", "--balanced", 2, "-o", f"{name}.csv"), 0),
        (("taxonomy", "check", "tree.yaml", "given.parquet", name), 1),
        (("taxonomy", "check", "tree.yaml", "given.parquet", f"{name}?"), 2),
        ((name,), 2),
    ]
    for arguments, code in calls:
        ran = run(*arguments)
        assert ran.code == code, ran
        refuse_invisible(ran)
        if "--json" in arguments:
            found = json.loads(ran.out)
            assert name in (found["findings"][1]["on"] if arguments[0] == "check" else found["columns"])


def test_a_tree_with_invisible_characters_is_printed_as_it_is_read(run: Run, here: Path) -> None:
    pd.DataFrame({"a": ["x\u202e", "名\u200b", "y\x9b"]}).to_parquet(here / "given.parquet")
    ran = run("taxonomy", "make", "given.parquet", "a", "--balanced", 3)
    refuse_invisible(ran)
    (here / "given.yaml").write_text(ran.out, encoding="utf-8")
    assert set(shoal.Taxonomy.load(here / "given.yaml").code) == {"x\u202e", "名\u200b", "y\x9b"}


def test_a_file_name_of_two_lines_does_not_forge_a_line_of_an_error(run: Run, here: Path) -> None:
    (here / "given\nholds.yaml").write_text(POLICY.replace("quasi:", "quasy:"))
    ran = run("check", "table.csv", "-p", "given\nholds.yaml")
    assert ran.code == 2 and "given\\nholds.yaml, line 2" in ran.err
    (here / "given\nholds.yaml").write_text("a: [")
    ran = run("check", "table.csv", "-p", "given\nholds.yaml")
    assert ran.code == 2 and "given\\nholds.yaml, line" in ran.err


def test_stopping_has_its_own_status(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shoal, "anonymize", stop)
    ran = run(*ANONYMIZE)
    assert ran.code == 130
    assert {p.name for p in here.iterdir()} == {"table.csv", "policy.yaml"}


# ---- check


def test_check_that_does_not_hold_is_status_one_and_shows_the_worst_group(run: Run) -> None:
    ran = run("check", "table.csv", "-p", "policy.yaml")
    assert ran.code == 1 and ran.err == ""
    assert "does not hold" in ran.out and "worst group of k-anonymity (k = 3): age=20, zip=47900 (1 record)" in ran.out
    assert "12 records in 12 groups" in ran.out


def test_check_counts_a_missing_value(run: Run, here: Path) -> None:
    (here / "table.csv").write_text("name,age,zip,ill\n" + "a,1,2,x\n" * 5 + "b,,2,x\n")
    ran = run("check", "table.csv", "-p", "policy.yaml")
    assert ran.code == 1 and "age=(missing), zip=2 (1 record)" in ran.out


def test_check_as_json_on_standard_output(run: Run) -> None:
    ran = run("check", "table.csv", "-p", "policy.yaml", "--json", "-")
    found = json.loads(ran.out, parse_constant=pytest.fail)
    assert ran.code == 1 and ran.err == ""
    assert found["holds"] is False and found["smallest"] == 1 and found["findings"][0]["parameters"] == {"k": 3}
    assert found == json.loads(shoal.check("table.csv", shoal.Policy.load("policy.yaml")).to_json())


def test_check_as_json_in_a_file(run: Run, here: Path) -> None:
    ran = run("check", "table.csv", "-p", "policy.yaml", "--json", "found.json")
    assert ran.code == 1 and "does not hold" in ran.out
    assert json.loads((here / "found.json").read_text())["holds"] is False
    (here / "policy.yaml").write_text(POLICY.replace(": 3\n", ": 1\n"))
    assert run("check", "table.csv", "-p", "policy.yaml", "--json", "found.json").code == 1
    found = json.loads((here / "found.json").read_text())
    assert (found["holds"], found["publishable"], found["identifiers"]) == (True, False, ["name"])
    (here / "policy.yaml").write_text(POLICY.replace(": 3\n", ": 1\n").replace("identifiers", "keep"))
    assert run("check", "table.csv", "-p", "policy.yaml", "--json", "found.json").code == 0
    found = json.loads((here / "found.json").read_text())
    assert (found["holds"], found["publishable"], found["identifiers"]) == (True, True, [])


LOOSE = POLICY.replace(": 3\n", ": 1\n")


@pytest.mark.parametrize(
    "policy", [LOOSE, LOOSE.replace("identifiers: [name]", "key: name")], ids=["identifiers", "key"]
)
def test_check_is_status_one_where_identifiers_are_present(run: Run, here: Path, policy: str) -> None:
    (here / "policy.yaml").write_text(policy)
    ran = run("check", "table.csv", "-p", "policy.yaml")
    assert ran.code == 1 and ran.err == ""
    assert ran.out.startswith("holds for the quasi-identifiers, but identifiers are present: 12 records in 12 groups\n")
    assert "identifiers, which no requirement protects: name\n" in ran.out
    ran = run("check", "table.csv", "-p", "policy.yaml", "--json", "-")
    assert ran.code == 1 and json.loads(ran.out)["publishable"] is False
    pd.read_csv(here / "table.csv").drop(columns="name").to_csv(here / "table.csv", index=False)
    ran = run("check", "table.csv", "-p", "policy.yaml")
    assert ran.code == 0 and ran.out.startswith("holds: ")


def test_check_names_columns_without_a_role_and_keeps_its_status(run: Run, here: Path) -> None:
    (here / "policy.yaml").write_text(LOOSE.replace("identifiers: [name]\n", ""))
    ran = run("check", "table.csv", "-p", "policy.yaml")
    assert ran.code == 0 and ran.out.startswith("holds: ")
    assert "columns without a role in the policy, which were not tested: name\n" in ran.out
    ran = run("check", "table.csv", "-p", "policy.yaml", "--json", "-")
    assert ran.code == 0 and json.loads(ran.out)["unassigned"] == ["name"]


def test_check_as_json_is_valid_where_a_ratio_is_infinite(run: Run, here: Path) -> None:
    recursive = "- l-diversity: {l: 3, of: ill, kind: recursive, c: 2}\n"
    (here / "policy.yaml").write_text(POLICY + recursive)
    ran = run("check", "table.csv", "-p", "policy.yaml", "--json", "-")
    assert ran.code == 1
    json.loads(ran.out, parse_constant=pytest.fail)


@pytest.mark.parametrize("place", ["nowhere/found.json", ".", "table.csv/found.json"])
def test_json_that_cannot_be_written_is_an_error(run: Run, here: Path, place: str) -> None:
    refused(run("check", "table.csv", "-p", "policy.yaml", "--json", place), here, place)


def test_json_never_overwrites_the_table_or_the_policy(run: Run, here: Path) -> None:
    for place in ("table.csv", "policy.yaml"):
        refused(run("check", "table.csv", "-p", "policy.yaml", "--json", place), here, place)
    assert (here / "table.csv").read_text() == TABLE and (here / "policy.yaml").read_text() == POLICY


def test_arguments_that_are_missing(run: Run, here: Path) -> None:
    refused(run("check", "table.csv"), here, "--policy")
    refused(run("anonymize", "table.csv", "-p", "policy.yaml"), here, "--out")
    refused(run("check", "-p", "policy.yaml"), here, "the table is missing")
    refused(run("chek", "table.csv"), here, "chek")


# ---- methods, demo, help


def test_methods_lists_every_method_with_its_parameters(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    ran = run("methods")
    assert ran.code == 0 and ran.err == ""
    for method in METHODS:
        assert method.name in ran.out and method.summary in ran.out
    assert "None" not in ran.out and "ends=automatic" in ran.out and "docs/reference/methods.md" in ran.out
    assert "cut=gain" in ran.out and "relaxed=False" in ran.out and "write=label" in ran.out


def test_demo_makes_a_release_that_holds(run: Run, here: Path) -> None:
    ran = run("demo", "--rows", 300, "--k", 5, "-o", "demo")
    assert ran.code == 0 and "Original table: 300 of 300 patients" in ran.out and "holds" in ran.out
    policy = shoal.Policy.load(here / "demo" / "policy.yaml")
    certificate = shoal.check(here / "demo" / "table.csv", policy)
    assert certificate.holds and certificate.smallest >= 5
    assert run("demo", "--rows", 300, "--k", 5, "-o", "demo").code == 0  # again, over itself


@pytest.mark.parametrize(
    "arguments", [("--rows", 0), ("--rows", -5), ("--rows", 5), ("--k", 0), ("--rows", "x")], ids=str
)
def test_demo_with_wrong_options_is_status_two(run: Run, here: Path, arguments: tuple[object, ...]) -> None:
    ran = run("demo", "-o", "demo", *arguments)
    assert ran.code == 2 and ran.err and ran.out == ""
    assert {p.name for p in here.iterdir()} == {"table.csv", "policy.yaml"}


def test_demo_does_not_empty_a_folder_of_other_things(run: Run, here: Path) -> None:
    (here / "thesis").mkdir()
    (here / "thesis" / "draft.txt").write_text("years of work")
    ran = run("demo", "--rows", 300, "-o", "thesis")
    assert ran.code == 2
    assert (here / "thesis" / "draft.txt").read_text() == "years of work"


def test_help_names_the_exit_status(run: Run) -> None:
    ran = run("--help")
    assert ran.code == 0
    for word in ("anonymize", "check", "methods", "demo", "Exit status", "identifiers are present"):
        assert word in " ".join(ran.out.split())
    assert "identifiers are present" in " ".join(run("check", "--help").out.split())


def test_help_names_the_values_of_options_in_words(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    commands = ["", "anonymize", "check", "measure", "methods", "demo", "schema", "taxonomy"]
    for command in [*commands, "taxonomy show", "taxonomy make", "taxonomy check"]:
        text = run(*command.split(), "-h").out
        assert text == run(*command.split(), "--help").out
        assert not [word for word in ("{", "<", "BOOLEAN", "INTEGER", "PATH") if word in text], text
    text = " ".join(run("anonymize", "-h").out.split())
    for word in (
        "anonymize [OPTIONS] TABLE",
        "FOLDER",
        "FILE",
        "NUMBER",
        "NAME=VALUE",
        "its secret is used again",
        "(tds,",
    ):
        assert word in text


def test_the_program_itself(here: Path) -> None:
    """In separate processes with separate streams."""
    commands = {0: ANONYMIZE, 1: ("check", *ANONYMIZE[1:4]), 2: ("check", "absent.csv", *ANONYMIZE[2:4])}
    start = [sys.executable, "-c", "from shoal.cli import main; main()"]
    with contextlib.ExitStack() as stack:
        ran = {}
        for code, arguments in commands.items():
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = subprocess.Popen([*start, *arguments], text=True, **pipes)
            ran[code] = stack.enter_context(process)
        said = {code: process.communicate() for code, process in ran.items()}
    assert {code: process.returncode for code, process in ran.items()} == {0: 0, 1: 1, 2: 2}
    assert said[0][0].startswith("holds") and said[0][1] == ""
    assert said[1][0].startswith("does not hold") and said[1][1] == ""
    assert said[2] == ("", "error: there is no file 'absent.csv'. Check the path.\n")


@pytest.mark.parametrize(
    "arguments",
    [("check", "table.csv", "-p", "policy.yaml"), ("schema",), ("--help",)],
    ids=lambda a: a[0],
)
@pytest.mark.usefixtures("here")
def test_a_closed_pipe_has_its_own_status(arguments: tuple[str, ...]) -> None:
    """In a separate process whose standard output has no reader; rich and typer would both end with status 1."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ran = subprocess.run(
            [sys.executable, "-c", "from shoal.cli import main; main()", *arguments],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writer)
    assert (ran.returncode, ran.stderr) == (141, "")


def test_a_fault_of_shoal_has_its_own_status(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("Alice Miller")

    monkeypatch.setattr(shoal, "check", broken)
    ran = run("check", "table.csv", "-p", "policy.yaml")
    assert ran.code == 3 and "ZeroDivisionError" in ran.err and "Alice" not in ran.err
