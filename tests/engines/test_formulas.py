"""Texts that a spreadsheet program would run: escaped in CSV files, read back as they were, the same in every engine."""

from __future__ import annotations

import csv
import datetime as dt
import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import shoal
from shoal.engines import Engine, open_data, parse_resources
from shoal.engines.csv_formulas import escape_formulas, restore_formulas
from shoal.formats.formulas import escape_formula, restore_formula
from tests.support.outcomes import Outcome, counted

ENGINES = ("memory", "duckdb")
SIGNS = "=+-@\t\r"
ESCAPED = ["=1+1", "=cmd|' /C calc'!A0", "+49 170", "-a", "--", "@SUM(A1)", "\t=1", "\r=1", "-5 to 3", "-1,5", "-inf"]
LEFT = ["-5", "+3.5", "-1e3", "-.5", "+5.", "-", "=", "@", "'", "'=", "'-5", "it's", "a=b", "[-5, 3)", " =1", "*", ""]

hostile = st.one_of(
    st.sampled_from(ESCAPED + LEFT), st.text("'=+-@\t\r\n 09.eE,;\"aé", max_size=6), st.text(max_size=4)
)
ticks = st.sampled_from(["", "'", "''"])
texts = st.builds(str.__add__, ticks, hostile)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_safe(cell: str) -> bool:
    return cell[:1] not in SIGNS or len(cell) <= 1 or is_number(cell)


def read_cells(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def release_of(frame: Any, engine: str = "memory") -> shoal.Release:
    keep = [name for name in frame.columns if name != "q"]
    policy = shoal.Policy(quasi={"q": "categorical"}, keep=keep, require=[shoal.KAnonymity(1)])
    return shoal.anonymize(frame, policy, engine=engine)


def rows_of(opened: Engine, folder: Path) -> list[tuple[str, ...]]:
    """The texts of the rows as an engine read them, by way of a format that escapes nothing."""
    opened.write(folder / "rows.parquet", "parquet")
    columns = pq.read_table(folder / "rows.parquet").columns
    return sorted(zip(*([v or "" for v in column.to_pylist()] for column in columns), strict=True))


def notes_of(folder: Path) -> list[str]:
    found: list[str] = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))["notes"]
    return found


# ---- the rule


@pytest.mark.parametrize("text", ESCAPED)
def test_formulas_are_escaped(text: str) -> None:
    assert escape_formula(text) == f"'{text}" and escape_formula(f"'{text}") == f"''{text}"


@pytest.mark.parametrize("text", LEFT)
def test_numbers_single_signs_and_other_texts_are_left(text: str) -> None:
    assert escape_formula(text) == text == restore_formula(text)


@given(texts)
def test_escaping_is_undone_exactly(text: str) -> None:
    written = escape_formula(text)
    assert restore_formula(written) == text and is_safe(written)
    assert escape_formula(restore_formula(text)) == text or not text.startswith("'")  # a file that is read and written


@given(st.lists(st.none() | texts, max_size=8), st.sampled_from([pa.string(), pa.large_string()]), st.integers(0, 3))
def test_arrays_follow_the_rule(values: list[str | None], kind: pa.DataType, skipped: int) -> None:
    array = pa.array([*values[:skipped], *values], kind).slice(min(skipped, len(values)))
    written, changed = escape_formulas(array)
    expected = [None if v is None else escape_formula(v) for v in values]
    assert written.to_pylist() == expected and written.type == kind
    assert changed == sum(a != b for a, b in zip(expected, values, strict=True))
    assert restore_formulas(written)[0].to_pylist() == values
    assert restore_formulas(escape_formulas(array, signs=False)[0])[0].to_pylist() == values
    assert restore_formulas(array)[0].to_pylist() == [None if v is None else restore_formula(v) for v in values]


# ---- releases


@settings(max_examples=max(settings.default.max_examples // 5, 5))
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=6), texts, st.booleans())
@example([("=1+1", "'=1+1"), ("''=1+1", "\t=1"), ("", "-")], "'=name", False)
@example([("=1+1", "'=1+1"), ("''=1+1", "\r=1"), ("", "-")], "=name", True)
def test_csv_and_parquet_hold_the_same_texts(rows: list[tuple[str, str]], name: str, escape: bool) -> None:
    name = f"{name}x"
    frame = pd.DataFrame({"q": [a for a, _ in rows], name: [b for _, b in rows]}, dtype=object)
    prints, expected = set(), sorted((a, b) for a, b in rows)
    for engine in ENGINES:
        release = release_of(frame, engine)
        for way in ("csv", "parquet"):
            with TemporaryDirectory() as temp:
                folder = release.save(Path(temp) / "out", format=way, escape_formulas=escape)  # type: ignore[arg-type]
                table = folder / f"table.{way}"
                for reader in ENGINES:
                    prints.add(shoal.check(table, release.policy, engine=reader).fingerprint)
                    opened = open_data(table, parse_resources(reader))
                    assert rows_of(opened, Path(temp)) == expected
                if way == "csv" and escape:
                    cells = read_cells(table)
                    assert all(is_safe(cell) for row in cells for cell in row)
                    changed = sum(escape_formula(t) != t for row in [("q", name), *rows] for t in row)
                    assert [note.split()[4] for note in notes_of(folder)] == ([str(changed)] if changed else [])
        prints.add(release.certificate.fingerprint)
    assert len(prints) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_and_dates_are_never_escaped(tmp_path: Path, engine: str) -> None:
    frame = pd.DataFrame({"q": ["a"] * 2, "n": [-5, -6], "x": [-0.5, None], "t": ["-5", "-1e-7"]})
    frame["d"] = [dt.date(2024, 1, 31)] * 2
    folder = release_of(frame, engine).save(tmp_path / "out", format="csv")
    assert "'" not in (folder / "table.csv").read_text() and notes_of(folder) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_escaping_can_be_turned_off(tmp_path: Path, engine: str) -> None:
    frame = pd.DataFrame({"q": ["=1+1", "@x"], "k": ["-a", "b"]})
    release = release_of(frame, engine)
    folder = release.save(tmp_path / "out", format="csv", escape_formulas=False)
    assert sorted(read_cells(folder / "table.csv")[1:]) == [["=1+1", "-a"], ["@x", "b"]] and notes_of(folder) == []
    assert shoal.check(folder, release.policy).fingerprint == release.certificate.fingerprint


@pytest.mark.parametrize("engine", ENGINES)
def test_a_released_file_is_read_wherever_it_lies(tmp_path: Path, engine: str) -> None:
    """Moved away from its certificate, it has the same rows, measures and later use."""
    frame = pd.DataFrame({"q": ["=a", "=a", "@b", "@b"], "k": ["-x", "y"] * 2})
    tree = {"any": [{"+all": ["=a", "@b"]}, "-c"]}
    policy = shoal.Policy(quasi={"q": {"taxonomy": tree}}, sensitive="k", require=[shoal.KAnonymity(4)])
    release = shoal.anonymize(frame, policy, method="tds", engine=engine)
    folder = release.save(tmp_path / "out", format="csv")
    moved = Path(shutil.move(folder / "table.csv", tmp_path / "moved.csv"))
    assert {row[0] for row in read_cells(moved)[1:]} == {"'+all"}
    assert shoal.check(moved, policy, engine=engine).fingerprint == release.certificate.fingerprint
    assert shoal.measure(frame, moved, policy, engine=engine)["ncp"] == release.measures["ncp"]
    raw = release_of(frame[:3]).save(tmp_path / "raw", format="csv") / "table.csv"
    assert set(release.recoding.apply(raw)["q"]) == {"+all"}
    later = shoal.anonymize(raw, recoding=tmp_path / "out.owner" / "recoding.json", engine=engine)
    assert later.certificate.evidence == "union" and later.certificate.findings[0].reached == 7
    assert {row[0] for row in read_cells(later.save(tmp_path / "later", format="csv") / "table.csv")[1:]} == {"'+all"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_csv_file_of_others_is_read_by_the_same_rule_and_written_as_it_was(tmp_path: Path, engine: str) -> None:
    rows = [["'=x", "a"], ["'=x", "''=y"], ["'-5", "it's"], ["'", "'="]]
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["q", "'@k"], *rows])
    policy = shoal.Policy(quasi={"q": "categorical"}, keep=["@k"], require=[shoal.KAnonymity(1)])
    release = shoal.anonymize(tmp_path / "in.csv", policy, engine=engine)
    opened = open_data(tmp_path / "in.csv", parse_resources(engine))
    assert {row[0] for row in rows_of(opened, tmp_path)} == {"=x", "'-5", "'"}
    folder = release.save(tmp_path / "out")
    cells = read_cells(folder / "table.csv")
    assert cells[0] == ["q", "'@k"] and sorted(cells[1:]) == sorted(rows)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_escaped_and_a_plain_formula_are_one_value(tmp_path: Path, engine: str) -> None:
    (tmp_path / "in.csv").write_text("q\n=x\n'=x\n=x\nb\nb\n")
    policy = shoal.Policy(quasi={"q": "categorical"}, require=[shoal.KAnonymity(2)])
    certificate = shoal.check(tmp_path / "in.csv", policy, engine=engine)
    assert certificate.groups == 2 and certificate.smallest == 2
    frame = pd.DataFrame({"q": ["=x", "=x", "=x", "b", "b"]})
    assert certificate.fingerprint == shoal.check(frame, policy).fingerprint
    (tmp_path / "twice.csv").write_text("=q,'=q\n1,2\n")
    with pytest.raises(shoal.DataError, match="occur more than once: '=q'"):
        shoal.check(tmp_path / "twice.csv", policy, engine=engine)


def test_a_folder_of_csv_files_is_read_by_the_same_rule(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("q,'=n\n'=x,1\n")
    (tmp_path / "in" / "b.csv").write_text("q,=n\n=x,1\n")
    policy = shoal.Policy(quasi={"q": "categorical", "=n": "numeric"}, require=[shoal.KAnonymity(2)])
    assert shoal.check(tmp_path / "in", policy).holds


def test_many_rows_are_read_in_blocks(tmp_path: Path) -> None:
    """More than Arrow reads at once, so that a column has several dictionaries."""
    table = pa.table({"q": ["=a", "b", "'=a"] * 200_000, "k": ["plain"] * 600_000})
    policy = shoal.Policy(quasi={"q": "categorical"}, keep=["k"], require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(table, policy)
    folder = release.save(tmp_path / "out", format="csv")
    assert "400,000 cells" in notes_of(folder)[0]
    for engine in ENGINES:
        assert shoal.check(folder, policy, engine=engine).fingerprint == release.certificate.fingerprint


@given(
    st.lists(texts.map(lambda text: text.replace("\r", "").strip()).filter(bool), min_size=1, max_size=6, unique=True)
)
@counted
def test_trees_in_csv_are_escaped_and_read_back(leaves: list[str]) -> Outcome:
    root = "any of them"
    if root in leaves or any("\0" in leaf for leaf in leaves):
        return "no tree"
    tree = shoal.Taxonomy.from_nested({root: leaves})
    text = tree.to_csv()
    cells = [cell for row in csv.reader(text.splitlines(keepends=True), delimiter=";") for cell in row]
    assert all(is_safe(cell) for cell in cells)
    with TemporaryDirectory() as temp:
        (Path(temp) / "tree.csv").write_text(text, encoding="utf-8", newline="")
        assert set(shoal.Taxonomy.load(Path(temp) / "tree.csv").code) == set(leaves)
    return None
