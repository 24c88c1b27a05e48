"""Saving a release: the public folder, the owner folder, and no incomplete folders after a failure."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import shoal
from shoal.engines.memory import MemoryEngine
from shoal.recoding import STYLES
from tests.reference.each import Each
from tests.support.paths import refusals, walk

PUBLIC = {"certificate.json", "policy.yaml", "report.html"}
OWNER = {"recoding.json", "policy.yaml", "ledger.json", "groups.json", "report.html"}
formats = pytest.mark.parametrize("format", ["csv", "parquet"])

ZIPS = ["47901", "47912", "47923", "48034", "48045", "48056", "10067", "10078", "10089", "22090", "22101", "22112"]
FRAME = pd.DataFrame(
    {
        "name": [f"Surname-{i:02d}" for i in range(12)],
        "age": [20, 21, 23, 30, 31, 35, 40, 44, 47, 60, 61, 66],
        "zip": ZIPS,
        "birth": [f"19{y}-0{m}-1{d}" for y in (84, 85, 96) for m in (1, 7) for d in (2, 5)],
        "job": ["clerk", "miner", "sailor"] * 4,
        "town": ["Oulu", "Rome", "Bari", "Lund"] * 3,
        "ill": ["flu", "cold", "gout"] * 4,
        "ward": [1, 2] * 6,
        "secret": [f"unnamed-{i:02d}" for i in range(12)],
    }
)
POLICY = shoal.Policy(
    identifiers=["name"],
    quasi={
        "age": "numeric",
        "zip": {"mask": "right"},
        "birth": {"date": ["day", "month", "year", "decade"]},
        "job": {"taxonomy": {"ANY": {"Inside": ["clerk"], "Outside": ["miner", "sailor"]}}},
        "town": "categorical",
    },
    sensitive="ill",
    keep=["ward"],
    require=[shoal.KAnonymity(3), shoal.LDiversity(2, of="ill")],
)
SMALL = shoal.Policy(quasi={"age": "numeric"}, keep=["x"], require=[shoal.KAnonymity(2)])


def small(x: Any, name: str = "x") -> shoal.Release:
    """A release of four records that keeps one column."""
    frame = pd.DataFrame({"age": [1, 1, 2, 2], name: x})
    policy = shoal.Policy(quasi={"age": "numeric"}, keep=[name], require=[shoal.KAnonymity(2)])
    return shoal.anonymize(frame, policy)


@pytest.fixture(scope="module")
def release() -> shoal.Release:
    return shoal.anonymize(FRAME, POLICY)


def owner_of(folder: Path) -> Path:
    return folder.with_name(folder.name + ".owner")


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a folder: mode and content."""
    return {
        str(p.relative_to(folder)): (p.stat().st_mode, p.read_bytes() if p.is_file() else b"")
        for p in sorted(folder.rglob("*"))
    }


def whole(folder: Path) -> bool:
    """Whether a public folder holds all that belongs to it, and the table is the one of the certificate."""
    try:
        statement = json.loads((folder / "certificate.json").read_text())
        digest = hashlib.sha256((folder / statement["file"]).read_bytes()).hexdigest()
    except (OSError, ValueError):
        return False
    return {p.name for p in folder.iterdir()} == {*PUBLIC, statement["file"]} and digest == statement["sha256"]


# ---- what stands where


@formats
def test_the_folders_hold_exactly_what_they_should(release: shoal.Release, tmp_path: Path, format: str) -> None:
    folder = release.save(tmp_path / "release", format=format)
    owner = owner_of(folder)
    assert {p.name for p in tmp_path.iterdir()} == {"release", "release.owner"}
    assert {p.name for p in folder.iterdir()} == {*PUBLIC, f"table.{format}"}
    assert {p.name for p in owner.iterdir()} == OWNER
    assert stat.S_IMODE(owner.stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in owner.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """A umask for a test, and the one from before after it."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(p.stat().st_mode) for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077], indirect=True)
@pytest.mark.parametrize("way", ["memory", "duckdb", "folder", "parts"])
@formats
def test_public_files_follow_the_umask_and_owner_files_never_do(
    tmp_path: Path, umask: int, way: str, format: str
) -> None:
    data: Any = FRAME
    if way == "folder":
        data = tmp_path / "in"
        for part in (0, 1):
            (data / f"half={part}").mkdir(parents=True)
            FRAME[part * 6 : part * 6 + 6].to_parquet(data / f"half={part}" / "x.parquet")
    limits: dict[str, Any] = {} if way == "memory" else {"engine": "duckdb"}
    policy = shoal.Policy(quasi=POLICY.quasi, keep=["ward"], require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(data, policy, **limits, **({"combinations": 4} if way == "parts" else {}))
    folder = release.save(tmp_path / "new" / "release", format=format)  # type: ignore[arg-type]
    folders = [folder, folder.parent, *(p for p in folder.rglob("*") if p.is_dir())]
    assert {stat.S_IMODE(p.stat().st_mode) for p in folders} == {0o777 & ~umask}
    assert modes(folder) == {0o666 & ~umask}
    owner = owner_of(folder)
    assert stat.S_IMODE(owner.stat().st_mode) == 0o700 and modes(owner) == {0o600}
    assert (owner / "recoding-1.json").is_file() == (way == "parts")


def test_the_recodings_of_parts_are_private_though_their_copies_were_not(tmp_path: Path) -> None:
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(2)], suppress=0.9)
    first = shoal.anonymize(FRAME, policy, engine="duckdb", combinations=4).save(tmp_path / "first")
    for file in owner_of(first).glob("recoding-*.json"):
        file.chmod(0o644)
    later = shoal.anonymize(FRAME[:8], recoding=owner_of(first) / "recoding.json").save(tmp_path / "later")
    assert (owner_of(later) / "recoding-1.json").is_file() and modes(owner_of(later)) == {0o600}


def test_the_folder_may_be_a_text_with_a_slash_and_new_parents(release: shoal.Release, tmp_path: Path) -> None:
    release.save(f"{tmp_path}/a/b/release/")
    assert whole(tmp_path / "a" / "b" / "release")
    assert (tmp_path / "a" / "b" / "release.owner").is_dir()


def test_the_format_is_that_of_the_input_unless_said(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "in.parquet")
    FRAME.to_csv(tmp_path / "in.csv", index=False)
    for suffix in ("csv", "parquet"):
        folder = shoal.anonymize(tmp_path / f"in.{suffix}", POLICY).save(tmp_path / suffix)
        assert (folder / f"table.{suffix}").is_file()


def test_an_unknown_format_is_an_error(release: shoal.Release, tmp_path: Path) -> None:
    with pytest.raises(shoal.ShoalError, match="csv"):
        release.save(tmp_path / "release", format="xlsx")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_owner_keeps_what_is_needed_later(release: shoal.Release, tmp_path: Path) -> None:
    owner = owner_of(release.save(tmp_path / "release"))
    assert shoal.Policy.load(owner / "policy.yaml") == POLICY
    pd.testing.assert_frame_equal(shoal.load_recoding(owner / "recoding.json").apply(FRAME), release.frame)
    ledger = json.loads((owner / "ledger.json").read_text())
    assert ledger["method"] == "mondrian" and ledger["parameters"]["cut"] == "gain"
    assert ledger["fingerprint"] == release.certificate.fingerprint
    assert ledger["dropped"] == ["name", "secret"] and ledger["records"] == 12 and ledger["suppressed"] == 0


# ---- what may not leave


@formats
def test_public_files_contain_no_unpublished_raw_value(tmp_path: Path, format: str) -> None:
    home = tmp_path / "private-home"
    home.mkdir()
    FRAME.to_csv(home / "raw-input.csv", index=False)
    release = shoal.anonymize(home / "raw-input.csv", POLICY)
    folder = release.save(tmp_path / "release", format=format)
    text = b"\n".join(p.read_bytes() for p in folder.iterdir()).decode("utf-8", "replace")
    shown = set(release.frame[["zip", "birth", "town"]].to_numpy().ravel())
    raw = {*FRAME["name"], *FRAME["secret"], *FRAME["zip"], *FRAME["birth"], *FRAME["town"]} - shown
    assert {*FRAME["zip"], *FRAME["birth"]} & raw
    assert not [value for value in raw if value in text]
    for place in (str(tmp_path), str(Path.home()), str(Path.cwd()), "private-home", "raw-input"):
        assert place not in text
    assert "Surname" not in text and "unnamed" not in text


def test_derived_trees_are_not_published_and_given_trees_are(tmp_path: Path) -> None:
    made = shoal.Taxonomy.from_nested({"ANY": {"North": ["Oulu", "Lund"], "South": ["Rome", "Bari"]}}, made=True)
    policy = POLICY.model_copy(update={"quasi": {**POLICY.quasi, "town": shoal.policy.QuasiIdentifier(taxonomy=made)}})
    folder = shoal.anonymize(FRAME, policy).save(tmp_path / "release")
    public = yaml.safe_load((folder / "policy.yaml").read_text())
    assert public["quasi"]["town"] == "categorical"
    assert public["quasi"]["job"] == {"taxonomy": {"ANY": {"Inside": ["clerk"], "Outside": ["miner", "sailor"]}}}
    assert public["quasi"]["zip"] == {"mask": "right"}
    owner = yaml.safe_load((owner_of(folder) / "policy.yaml").read_text())
    assert owner["quasi"]["town"] == {"taxonomy": {"ANY": {"North": ["Oulu", "Lund"], "South": ["Rome", "Bari"]}}}
    assert owner["derived"] == ["town"]


def test_a_derived_tree_keeps_its_mark_through_files_and_later_releases(tmp_path: Path) -> None:
    """Also as the tree of t-closeness: no later release may publish it."""
    illness = shoal.Taxonomy.balanced({"flu": 3, "cold": 2, "gout": 1}, fanout=2)
    tree = shoal.Taxonomy.balanced({"Oulu": 3, "Lund": 2, "Rome": 1}, fanout=2)
    close = shoal.TCloseness(0.9, of="ill", distance="hierarchical", taxonomy=illness)
    policy = shoal.Policy(
        quasi={"town": {"taxonomy": tree}}, sensitive=["ill"], require=[shoal.KAnonymity(2), close], suppress=1.0
    )
    frame = pd.DataFrame({"town": ["Oulu"] * 4 + ["Lund"] * 4, "ill": ["flu", "cold"] * 4})
    shoal.anonymize(frame, policy).save(tmp_path / "one")
    again = shoal.Policy.load(tmp_path / "one.owner" / "policy.yaml")
    assert again == policy and again.quasi["town"].taxonomy.derived and again.require[1].taxonomy.derived
    later = shoal.anonymize(frame.head(3), recoding=tmp_path / "one.owner" / "recoding.json")
    later.save(tmp_path / "two")
    for folder in ("one", "two"):
        for file in (tmp_path / folder).iterdir():
            assert b"gout" not in file.read_bytes() and b"Rome" not in file.read_bytes(), file


SOURCES: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda frame, _: frame,
    "pandas categorical": lambda frame, _: frame.astype("category"),
    "polars": lambda frame, _: pl.from_pandas(frame),
    "polars categorical": lambda frame, _: pl.from_pandas(frame).with_columns(pl.all().cast(pl.Categorical)),
    "pyarrow": lambda frame, _: pa.Table.from_pandas(frame, preserve_index=False),
    "pyarrow dictionary": lambda frame, _: pa.Table.from_pandas(frame.astype("category"), preserve_index=False),
    "csv": lambda frame, folder: (frame.to_csv(folder / "in.csv", index=False), folder / "in.csv")[1],
    "parquet": lambda frame, folder: (frame.to_parquet(folder / "in.parquet"), folder / "in.parquet")[1],
}
sources = pytest.mark.parametrize("source", SOURCES)


@formats
@sources
def test_public_files_contain_nothing_of_a_suppressed_record(tmp_path: Path, source: str, format: str) -> None:
    """Not even in the dictionary of a column, where no row points at it."""
    frame = pd.DataFrame({"sex": ["f", "f", "m", "m", "Odd-sex"], "ill": ["flu", "cold", "flu", "cold", "Odd-ill"]})
    policy = shoal.Policy(quasi={"sex": "categorical"}, sensitive="ill", require=[shoal.KAnonymity(2)], suppress=0.2)
    release = Each(policy).release(SOURCES[source](frame, tmp_path))
    assert release.certificate.suppressed == 1
    folder = release.save(tmp_path / "release", format=format)
    assert not [p.name for p in folder.iterdir() if b"Odd" in p.read_bytes()]


@sources
def test_the_frame_holds_no_category_of_a_suppressed_record(tmp_path: Path, source: str) -> None:
    frame = pd.DataFrame({"sex": ["f", "f", "m", "m", "Odd-sex"], "ill": ["flu", "cold", "flu", "cold", "Odd-ill"]})
    policy = shoal.Policy(quasi={"sex": "categorical"}, sensitive="ill", require=[shoal.KAnonymity(2)], suppress=0.2)
    released = Each(policy).release(SOURCES[source](frame, tmp_path)).frame
    seen: list[object] = []
    for name in ("sex", "ill"):
        column = released[name]
        if isinstance(column, pa.ChunkedArray) and pa.types.is_dictionary(column.type):
            seen += column.combine_chunks().dictionary.to_pylist()
        elif isinstance(column, pd.Series) and isinstance(column.dtype, pd.CategoricalDtype):
            seen += list(column.cat.categories)
        else:
            seen += column.to_pylist() if isinstance(column, pa.ChunkedArray) else list(column)
    assert not [value for value in seen if "Odd" in str(value)]


@formats
@sources
def test_the_table_does_not_follow_the_order_of_the_input(tmp_path: Path, source: str, format: str) -> None:
    """Byte for byte, so neither does the order in which values stand in a dictionary."""
    policy = shoal.Policy(
        quasi={"town": "categorical", "job": "categorical"}, sensitive="ill", require=[shoal.KAnonymity(2)]
    )
    found = set()
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        shuffled = FRAME[["town", "job", "ill"]].sample(frac=1, random_state=seed, ignore_index=True)
        release = shoal.anonymize(SOURCES[source](shuffled, folder), policy)
        saved = release.save(folder / "release", format=format)
        found.add((saved / f"table.{format}").read_bytes())
    assert len(found) == 1


# ---- the certificate


@formats
@pytest.mark.parametrize("write", STYLES)
def test_the_certificate_is_that_of_the_file(tmp_path: Path, format: str, write: str) -> None:
    release = shoal.anonymize(FRAME, POLICY, write=write)
    folder = release.save(tmp_path / "release", format=format)
    statement = json.loads((folder / "certificate.json").read_text(), parse_constant=pytest.fail)
    table = folder / statement.pop("file")
    assert statement.pop("sha256") == hashlib.sha256(table.read_bytes()).hexdigest()
    assert statement.pop("measures") == release.measures.public()
    assert statement == json.loads(release.certificate.to_json())
    assert statement == json.loads(shoal.check(table, POLICY).to_json())
    assert statement == json.loads(shoal.check(table, shoal.Policy.load(folder / "policy.yaml")).to_json())
    assert statement["holds"] is True


@formats
def test_the_saved_table_is_the_frame(release: shoal.Release, tmp_path: Path, format: str) -> None:
    table = release.save(tmp_path / "release", format=format) / f"table.{format}"
    saved = pd.read_csv(table, dtype=str) if format == "csv" else pq.read_table(table).to_pandas().astype(str)
    order = list(saved.columns)
    assert order == list(release.frame.columns)
    expected = release.frame.astype(str).sort_values(order, ignore_index=True)
    assert saved.sort_values(order, ignore_index=True).to_numpy().tolist() == expected.to_numpy().tolist()


KEPT = {
    "bool": [True, False, True, False],
    "whole": [1, 2, 3, 2**60],
    "fraction": [0.1, 1 / 3, 1e15, 1e22],
    "tiny": [1.5e-7, 5e-324, 1e-5, 1.7976931348623157e308],
    "minus zero": [-0.0, 0.0, 1.0, 2.0],
    "infinite": [np.inf, -np.inf, 1.0, 2.0],
    "holes": [1.5, None, 2.0, None],
    "float32": np.array([0.1, 0.2, 1e10, 3], np.float32),
    "float16": np.array([0.1, 0.2, 1, 3], np.float16),
    "nullable": pd.array([1, None, 3, None], dtype="Int64"),
    "date": [datetime.date(1985, 6, 14)] * 4,
    "midnight": pd.to_datetime(["1985-06-14", "1985-06-14", None, "1985-06-15"]),
    "moment": pd.to_datetime(["1985-06-14 10:11:12.5"] * 4),
    "zone": pd.to_datetime(["1985-06-14 10:11:12+02:00"] * 4),
    "time": [datetime.time(1, 2)] * 4,
    "decimal": [Decimal("1.10"), Decimal("1.1"), Decimal("0"), Decimal("-3.05")],
    "text": ["a\nb", '"q"', "", None],
    "spaces": [" a", "a ", "x,y", "x;y\tz"],
    "lines": ["a\r\nb", "a\rb", "#", "'"],
    "like numbers": ["007", "1e3", "0x10", "1_000"],
    "like missing": ["?", "NA", "nan", "null"],
    "letters": ["é", "e\u0301", "名", "🐟"],
    "categorical": pd.Categorical(["a", "b", "a", "b"]),
    "mixed": [1, "a", None, True],
    "nothing": [None, None, None, None],
}


@formats
@pytest.mark.parametrize("kind", KEPT)
def test_kept_columns_of_every_kind_can_be_saved(tmp_path: Path, kind: str, format: str) -> None:
    release = small(KEPT[kind])
    table = release.save(tmp_path / "release", format=format) / f"table.{format}"
    assert shoal.check(table, SMALL).fingerprint == release.certificate.fingerprint


def test_a_column_that_cannot_be_saved_is_named() -> None:
    with pytest.raises(shoal.DataError, match="column 'x' holds list"):
        small([[1], [2], [3], [4]])


@formats
@pytest.mark.parametrize(
    "name", ["a;b;c", "a,b", 'say "so"', "two\nlines", "[bold]x[/]", "ü名", " a ", "a\tb\tc", "'", "_"]
)
def test_odd_column_names_survive(tmp_path: Path, name: str, format: str) -> None:
    release = small(["p", "q", "r", "s"], name)
    folder = release.save(tmp_path / "release", format=format)
    policy = shoal.Policy.load(folder / "policy.yaml")
    assert policy.keep == (name,)
    assert shoal.check(folder / f"table.{format}", policy).fingerprint == release.certificate.fingerprint


def test_the_report_escapes_what_the_policy_says(tmp_path: Path) -> None:
    folder = small([1, 2, 3, 4], "<script>alert(1)</script>").save(tmp_path / "release")
    page = (folder / "report.html").read_text()
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "highest re-identification risk" in page and "50.0%" in page


# ---- what was there before


@pytest.mark.parametrize("which", ["release", "release.owner"])
def test_an_earlier_release_is_not_overwritten_by_default(release: shoal.Release, tmp_path: Path, which: str) -> None:
    folder = release.save(tmp_path / "release")
    shutil.rmtree(tmp_path / ({"release", "release.owner"} - {which}).pop())
    before = snapshot(tmp_path)
    with pytest.raises(shoal.EngineError, match=f"{which}' already exists"):
        release.save(folder)
    assert snapshot(tmp_path) == before


def test_overwriting_replaces_the_whole(release: shoal.Release, tmp_path: Path) -> None:
    folder = release.save(tmp_path / "release", format="parquet")
    small(["p", "q", "r", "s"]).save(folder, overwrite=True)
    assert whole(folder) and (folder / "table.csv").is_file() and not (folder / "table.parquet").exists()
    assert json.loads((owner_of(folder) / "ledger.json").read_text())["records"] == 4
    assert {p.name for p in tmp_path.iterdir()} == {"release", "release.owner"}


def test_an_empty_folder_is_used(release: shoal.Release, tmp_path: Path) -> None:
    (tmp_path / "release").mkdir()
    assert whole(release.save(tmp_path / "release"))


def test_a_file_in_the_way_is_refused(release: shoal.Release, tmp_path: Path) -> None:
    (tmp_path / "release").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(shoal.EngineError, match="release"):
            release.save(tmp_path / "release", overwrite=overwrite)
        assert (tmp_path / "release").read_text() == "mine"


@pytest.mark.parametrize("which", ["study", "study.owner"])
def test_a_folder_that_is_no_release_is_never_overwritten(release: shoal.Release, tmp_path: Path, which: str) -> None:
    """To overwrite a release is not to empty the folder that holds the raw data."""
    folder = tmp_path / which
    folder.mkdir()
    FRAME.to_csv(folder / "raw.csv", index=False)
    before = snapshot(tmp_path)
    with pytest.raises(shoal.EngineError, match=r"raw\.csv|no release|not a release"):
        release.save(tmp_path / "study", overwrite=True)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("place", [".", "..", "/", "a\0b", "x" * 250, "x" * 300])
def test_a_place_that_cannot_be_is_an_error(
    release: shoal.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(shoal.EngineError):
        release.save(place)
    assert [p.name for p in tmp_path.rglob("*")] == ["here"]


def test_a_parent_that_is_a_file_is_an_error(release: shoal.Release, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(shoal.EngineError, match="cannot write"):
        release.save(tmp_path / "file" / "release")
    assert (tmp_path / "file").read_text() == "mine"


# ---- a table that changed


def test_a_frame_changed_after_its_check_is_refused(tmp_path: Path) -> None:
    release = shoal.anonymize(FRAME, POLICY)
    release.frame.loc[0, "age"] = "20"
    with pytest.raises(shoal.RequirementNotMet, match="differ from what was audited") as caught:
        release.save(tmp_path / "release")
    assert caught.value.certificate.holds is False
    assert not list(tmp_path.iterdir())


def test_a_sensitive_value_changed_after_the_audit_is_refused(tmp_path: Path) -> None:
    release = shoal.anonymize(FRAME, POLICY)
    release.frame.loc[0, "ward"] = 99
    with pytest.raises(shoal.RequirementNotMet, match="differ from what was audited"):
        release.save(tmp_path / "release")
    assert not list(tmp_path.iterdir())


@formats
def test_a_table_written_otherwise_is_refused(
    release: shoal.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    """A disk or a library that loses a row is found out, though the rest holds."""
    write = MemoryEngine.write

    def lossy(self: MemoryEngine, path: Path, format: Any, **options: Any) -> None:
        write(MemoryEngine(self.data.head(len(self.data) - 1)), path, format, **options)

    monkeypatch.setattr(MemoryEngine, "write", lossy)
    with pytest.raises(shoal.RequirementNotMet, match="differ from what was audited"):
        release.save(tmp_path / "release", format=format)
    assert not list(tmp_path.iterdir())


# ---- crashes


STEPS = {
    "write the table": "shoal.engines.memory.MemoryEngine.write",
    "arrow writes": "shoal.engines.table_files.write_table",
    "read it back": "shoal.release.AuditedTable.of",
    "hash": "hashlib.file_digest",
    "page": "shoal.release.store.render_report",
    "policy": "shoal.policy.Policy.to_yaml",
    "recoding": "shoal.recoding.Boxes.to_json",
    "text": "pathlib.Path.write_text",
    "touch": "pathlib.Path.touch",
    "mode": "pathlib.Path.chmod",
    "folder": "pathlib.Path.mkdir",
    "working folder": "tempfile.mkdtemp",
}
FAULTS = {"disk": OSError(28, "No space left on device"), "stop": KeyboardInterrupt()}
faults = pytest.mark.parametrize("fault", FAULTS)
before = pytest.mark.parametrize("earlier", [False, True], ids=["fresh", "earlier"])


class Killed(BaseException):
    """Stands for the end of the process: nothing more reaches the disk."""


@before
@faults
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_leaves_what_was_there(
    release: shoal.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, fault: str, earlier: bool
) -> None:
    if earlier:
        small(["p", "q", "r", "s"]).save(tmp_path / "release")
    kept = snapshot(tmp_path)

    def fail(*_: Any, **__: Any) -> None:
        raise FAULTS[fault]

    with monkeypatch.context() as patch:
        patch.setattr(STEPS[step], fail)
        with pytest.raises(shoal.EngineError if fault == "disk" else KeyboardInterrupt):
            release.save(tmp_path / "release", overwrite=earlier)
    assert snapshot(tmp_path) == kept
    assert whole(release.save(tmp_path / "release", overwrite=earlier))


RENAMES = {"fresh": 2, "earlier": 4}  # calls in one save: an earlier release leaves its two places first
each_rename = pytest.mark.parametrize(
    ("earlier", "call"), [(name == "earlier", call) for name, calls in RENAMES.items() for call in range(1, calls + 1)]
)


def break_renames(patch: pytest.MonkeyPatch, fault: BaseException, first: int, *, forever: bool) -> list[int]:
    """Renaming fails at the given call; ``forever`` says that it does from then on. The list gets the number of every call."""
    calls: list[int] = []

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def rename(*given: Any, **more: Any) -> Any:
            calls.append(len(calls) + 1)
            if len(calls) == first or (forever and len(calls) > first):
                raise fault
            return real(*given, **more)

        return rename

    for name in ("rename", "replace", "renames"):
        patch.setattr(os, name, wrapped(getattr(os, name)))
    return calls


@before
def test_the_renames_of_a_save_are_those_that_are_broken_below(
    release: shoal.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    if earlier:
        small(["p", "q", "r", "s"]).save(tmp_path / "release")
    with monkeypatch.context() as patch:
        calls = break_renames(patch, Killed(), 100, forever=False)
        release.save(tmp_path / "release", overwrite=earlier)
    assert len(calls) == RENAMES["earlier" if earlier else "fresh"]
    assert whole(tmp_path / "release")


@each_rename
@faults
def test_a_crash_while_folders_change_places_leaves_what_was_there(
    release: shoal.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int, fault: str, earlier: bool
) -> None:
    if earlier:
        small(["p", "q", "r", "s"]).save(tmp_path / "release")
    kept = snapshot(tmp_path)
    with monkeypatch.context() as patch:
        break_renames(patch, FAULTS[fault], call, forever=False)
        with pytest.raises(shoal.EngineError if fault == "disk" else KeyboardInterrupt):
            release.save(tmp_path / "release", overwrite=earlier)
    assert snapshot(tmp_path) == kept


@faults
@pytest.mark.parametrize("call", range(1, RENAMES["earlier"] + 1))
def test_an_earlier_release_is_never_deleted_before_the_new_one_exists(
    release: shoal.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int, fault: str
) -> None:
    """Where even putting back fails, the earlier release is left beside, not thrown away."""
    folder = small(["p", "q", "r", "s"]).save(tmp_path / "release")
    table, recoding = (folder / "table.csv").read_bytes(), (owner_of(folder) / "recoding.json").read_bytes()
    with monkeypatch.context() as patch:
        break_renames(patch, FAULTS[fault], call, forever=True)
        with pytest.raises(shoal.EngineError if fault == "disk" else KeyboardInterrupt):
            release.save(folder, overwrite=True)
    assert table in [p.read_bytes() for p in tmp_path.rglob("table.csv")]
    assert recoding in [p.read_bytes() for p in tmp_path.rglob("recoding.json")]


@each_rename
def test_a_process_killed_between_renames_leaves_whole_folders(
    release: shoal.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int, earlier: bool
) -> None:
    """Nobody can clean up then, but each folder in its place is whole, and an earlier release is not lost."""
    folder = tmp_path / "release"
    if earlier:
        small(["p", "q", "r", "s"]).save(folder)

    def nothing(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        break_renames(patch, Killed(), call, forever=True)
        patch.setattr(shutil, "rmtree", nothing)
        with pytest.raises(Killed):
            release.save(folder, overwrite=earlier)
    assert not folder.exists() or whole(folder)
    assert not owner_of(folder).exists() or {p.name for p in owner_of(folder).iterdir()} == OWNER
    if earlier:
        assert [p for p in tmp_path.rglob("certificate.json") if whole(p.parent)]
    elif folder.exists():  # what leaves never stands without what the owner needs
        assert owner_of(folder).exists()


ENDLESS = """
import sys, pandas as pd, shoal
frame = pd.DataFrame({"age": [1, 1, 2, 2] * 50, "x": range(200)})
policy = shoal.Policy(quasi={"age": "numeric"}, keep=["x"], require=[shoal.KAnonymity(2)])
release = shoal.anonymize(frame, policy)
release.save(sys.argv[1])
print("ready", flush=True)
while True:
    release.save(sys.argv[1], overwrite=True)
"""


def test_a_process_killed_at_any_moment_leaves_whole_folders(tmp_path: Path) -> None:
    small(["p", "q", "r", "s"])  # the kernels are compiled once, here, and not by five processes at a time
    folders = [tmp_path / str(number) / "release" for number in range(5)]
    with contextlib.ExitStack() as stack:
        processes = []
        for folder in folders:
            folder.parent.mkdir()
            command = [sys.executable, "-c", ENDLESS, str(folder)]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=random.random() / 10)
            process.kill()
            assert process.wait() == -9
    for folder in folders:
        assert not folder.exists() or whole(folder)
        assert [p for p in folder.parent.rglob("certificate.json") if whole(p.parent)]
        release_again(folder)


def release_again(folder: Path) -> None:
    """The next run in the same place removes what a killed one left, and puts back the release that it had moved."""
    with pytest.raises(shoal.EngineError, match="already exists"):
        small(["p", "q", "r", "s"]).save(folder)
    assert whole(folder) and {p.name for p in folder.parent.iterdir()} == {folder.name, owner_of(folder).name}


def test_a_failure_leaves_no_new_parents(
    release: shoal.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(MemoryEngine, "write", fail)
    with pytest.raises(shoal.EngineError, match="No space left"):
        release.save(tmp_path / "new" / "nested" / "release")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_an_engine_error_that_names_the_folder(
    release: shoal.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.csv.write_csv", full)
    with pytest.raises(shoal.EngineError, match=r"release.*No space left on device"):
        release.save(tmp_path / "release")
    assert not list(tmp_path.iterdir())


def test_public_files_do_not_reveal_a_generalized_number(tmp_path: Path) -> None:
    """The width of the whole column, which relative figures are divided by, may be known from a hidden record alone."""
    frame = pd.DataFrame({"salary": [30_000 + i for i in range(8)] + [1_234_567, None]})
    policy = shoal.Policy(quasi={"salary": "numeric"}, require=[shoal.KAnonymity(2)])
    folder = shoal.anonymize(frame, policy).save(tmp_path / "release")
    statement = json.loads((folder / "certificate.json").read_text())
    assert not {"ncp", "il", "loss", "loss_mean", "precision", "entropy"} & set(statement["measures"])
    assert "kept" not in (folder / "report.html").read_text()
    owner = json.loads((owner_of(folder) / "ledger.json").read_text())
    assert 0 < owner["measures"]["ncp"] < 1
    assert "Information kept" in (owner_of(folder) / "report.html").read_text()


def test_words_for_missing_in_a_sensitive_column_are_values_in_the_audit() -> None:
    frame = pd.DataFrame({"a": [1] * 4 + [9] * 4, "s": ["?"] * 4 + [None] * 4})
    require = [shoal.KAnonymity(2), shoal.TCloseness(0.1, of="s")]
    policy = shoal.Policy(quasi={"a": "numeric"}, sensitive="s", missing=["", "?"], require=require)
    release = shoal.anonymize(frame, policy)
    assert release.frame["a"].nunique() == 1  # apart, each group would be of one word
    assert release.certificate.findings[1].reached == 0


def test_empty_and_absent_are_one_value_whatever_the_policy_says(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 1, 2, 2, 5, 5], "s": ["", None, "flu", "cold", "flu", "cold"]})
    require = [shoal.KAnonymity(2), shoal.LDiversity(2, of="s")]
    policy = shoal.Policy(quasi={"a": "numeric"}, sensitive="s", missing=["?"], require=require)
    table = shoal.anonymize(frame, policy).save(tmp_path / "release") / "table.csv"
    found = pd.read_csv(table).groupby("a", dropna=False)["s"].nunique(dropna=False)
    assert found.min() >= 2


def test_a_quote_that_is_never_closed_releases_nothing(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text('name,age,s\nAnn,1,a\nBob,2,b\nCid,3,"c\nDee,4,d\nEve,5,e\nFay,6,f\n')
    policy = shoal.Policy(identifiers="name", quasi={"age": "numeric"}, sensitive="s", require=[shoal.KAnonymity(2)])
    with pytest.raises(shoal.DataError, match="never closed") as error:
        shoal.anonymize(table, policy)
    assert "Dee" not in str(error.value)


def test_a_policy_may_be_given_as_a_file_or_a_mapping(tmp_path: Path) -> None:
    POLICY.save(tmp_path / "policy.yaml")
    expected = shoal.anonymize(FRAME, POLICY).certificate
    assert shoal.anonymize(FRAME, tmp_path / "policy.yaml").certificate == expected
    assert shoal.anonymize(FRAME, POLICY.to_dict()).certificate == expected
    with pytest.raises(shoal.PolicyError, match="not int"):
        shoal.check(FRAME, 7)
    with pytest.raises(shoal.PolicyError, match="seed"):
        shoal.anonymize(FRAME, POLICY, seed=-1)


@pytest.mark.parametrize("name", ["tree.yaml", "tree.csv"])
def test_a_tree_made_from_the_data_stays_at_home_even_through_a_file(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"job": ["clerk", "spy", "clerk", "spy"]})
    made = shoal.Taxonomy.from_paths([["clerk", "Office"], ["spy", "Office"], ["ghost", "Field"]], made=True)
    made.save(tmp_path / name)
    policy = shoal.Policy(quasi={"job": {"taxonomy": tmp_path / name}}, require=[shoal.KAnonymity(2)])
    folder = shoal.anonymize(frame, policy).save(tmp_path / "release")
    assert "ghost" not in (folder / "policy.yaml").read_text()
    given = replace(made, derived=False)
    given.save(tmp_path / name)
    assert not shoal.Taxonomy.load(tmp_path / name).derived


# ---- the path


@pytest.fixture(scope="module")
def walked(release: shoal.Release) -> shoal.Release:
    """A release of a method that specializes values step by step."""
    texts = ("Any-job", "Raw-inside", "Raw-outside", None)
    return replace(release, path=walk(3, chosen=2, texts=texts, refused=refusals("Raw-refused", 4)))


def test_the_path_stays_with_the_owner(walked: shoal.Release, tmp_path: Path) -> None:
    folder = walked.save(tmp_path / "release")
    assert {p.name for p in folder.iterdir()} == {*PUBLIC, "table.csv"}
    assert {p.name for p in owner_of(folder).iterdir()} == {*OWNER, "path.html"}
    assert {stat.S_IMODE(p.stat().st_mode) for p in owner_of(folder).iterdir()} == {0o600}
    assert (owner_of(folder) / "path.html").read_text(encoding="utf-8") == walked.plot_path().html
    assert not [p.name for p in folder.iterdir() if b"Raw-" in p.read_bytes() or b"path" in p.read_bytes()]


def test_an_earlier_path_does_not_stay_beside_a_later_release(
    walked: shoal.Release, release: shoal.Release, tmp_path: Path
) -> None:
    folder = walked.save(tmp_path / "release")
    release.save(folder, overwrite=True)
    assert {p.name for p in owner_of(folder).iterdir()} == OWNER


def test_the_path_is_drawn_and_explained(walked: shoal.Release) -> None:
    assert repr(walked.plot_path()) == "PathPlot(3 steps, release after step 2)"
    assert "Raw-inside" in walked.plot_path().svg and "Raw-refused" in walked.plot_path().html
    assert "2. job-2: Any-job -> Raw-inside, Raw-outside, (missing)" in walked.explain()


def test_a_method_that_specializes_values_records_its_path(tmp_path: Path) -> None:
    found = shoal.anonymize(FRAME, POLICY, method="tds")
    assert found.path is not None and 0 < found.path.chosen <= len(found.path)
    smallest = found.path[found.path.chosen - 1].smallest
    assert smallest[tuple(POLICY.quasi)] == found.certificate.smallest
    assert found.explain().count("score ") == len(found.path)
    page = (owner_of(found.save(tmp_path / "release")) / "path.html").read_text(encoding="utf-8")
    assert f"{len(found.path)} step" in page


@pytest.mark.parametrize("ask", [shoal.Release.plot_path, shoal.Release.explain])
def test_a_method_without_a_path_is_an_error(release: shoal.Release, ask: Callable[[shoal.Release], Any]) -> None:
    assert release.path is None
    with pytest.raises(shoal.PolicyError, match=r"mondrian records no search path\. .* step by step: tds or bottom-up"):
        ask(release)


@before
@faults
def test_a_crash_while_the_path_is_drawn_leaves_what_was_there(
    walked: shoal.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, earlier: bool
) -> None:
    if earlier:
        small(["p", "q", "r", "s"]).save(tmp_path / "release")
    kept = snapshot(tmp_path)

    def fail(*_: Any, **__: Any) -> None:
        raise FAULTS[fault]

    monkeypatch.setattr("shoal.report.path_page.render_page", fail)
    with pytest.raises(shoal.EngineError if fault == "disk" else KeyboardInterrupt):
        walked.save(tmp_path / "release", overwrite=earlier)
    assert snapshot(tmp_path) == kept
