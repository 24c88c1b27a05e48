"""Names of files and folders are names, never patterns or addresses: exactly the files that were passed are read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.engines import open_data, parse_resources
from shoal.engines.duckdb.session import Session
from shoal.engines.duckdb.sources import Source

duckdb = pytest.importorskip("duckdb")

POLICY = shoal.Policy(quasi={"q": "categorical"}, keep=["x"], require=[shoal.KAnonymity(2)])
NAMES = (
    *(
        "a[1]",
        "a1",
        "y*",
        "yzz",
        "q?",
        "qq",
        "**",
        "x**y",
        "x1y",
        "[a-c]",
        "b",
        "[!a]",
        "[^a]",
        "[]",
        "]",
        "[",
        "a[",
        "[[]",
    ),
    *(
        "[*]",
        "{a,b}",
        "it's",
        '"b"',
        "100%",
        "%5B1%5D",
        "~",
        "~x",
        " b",
        "b ",
        "file:b",
        "s3:b",
        "http:b",
        "a\nb",
        "é[é]",
    ),
    *("back\\slash", "year=2024", "q=b", "#b", "b?versionId=1", "$HOME", "-b", "x;y", "[-]", "a,b"),
)


def table(number: int, rows: int = 4) -> pa.Table:
    return pa.table({"q": ["a", "b"] * (rows // 2), "x": [number * 100 + row for row in range(rows)]})


def write(path: Path, content: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        path.write_text("q,x\n" + "".join(f"{row['q']},{row['x']}\n" for row in content.to_pylist()))
    else:
        pq.write_table(content, path)
    return path


def released(data: Any) -> list[int]:
    """The kept numbers of a release that DuckDB made, as many as its certificate counts."""
    release = shoal.anonymize(data, POLICY, engine="duckdb")
    rows = [int(row[0]) for row in release.frame.project("x").fetchall()]
    assert (release.certificate.records, release.certificate.suppressed) == (len(rows), 0)
    return sorted(rows)


def numbers(*tables: pa.Table) -> list[int]:
    return sorted(x for one in tables for x in one["x"].to_pylist())


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files and folders of all names beside each other."""
    folder = tmp_path_factory.mktemp("beside")
    for number, name in enumerate(NAMES):
        write(folder / "files" / f"{name}.parquet", table(number))
        write(folder / "files" / f"{name}.csv", table(number))
        write(folder / "folders" / name / "t.parquet", table(number))
        write(folder / "texts" / name / "t.csv", table(number))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_name_beside_others_is_the_name_of_one(name: str, beside: Path) -> None:
    expected = numbers(table(NAMES.index(name)))
    assert released(beside / "files" / f"{name}.parquet") == expected
    assert released(beside / "folders" / name) == expected
    same = shoal.check(pa.table({"q": [*"abab"], "x": expected}), POLICY)
    for path in (f"files/{name}.csv", f"files/{name}.parquet", f"folders/{name}", f"texts/{name}"):
        assert shoal.check(beside / path, POLICY) == same, path


@pytest.mark.parametrize("end", ["parquet", "csv"])
def test_a_folder_of_all_names_is_the_sum_of_its_files(end: str, tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        write(tmp_path / "data" / f"{name}.{end}", table(number))
    release = shoal.anonymize(tmp_path / "data", POLICY)
    expected = numbers(*map(table, range(len(NAMES))))
    assert sorted(int(row[0]) for row in release.frame.project("x").fetchall()) == expected
    assert shoal.check(tmp_path / "data", POLICY).records == len(expected)


def test_partitions_of_all_names_are_read_and_written_once(tmp_path: Path) -> None:
    names = [name for name in NAMES if "\\" not in name]
    for number, name in enumerate(names):
        write(tmp_path / "data" / f"part={name.replace('%', '%25')}" / "t1.parquet", table(number))
        write(tmp_path / "data" / f"part={name.replace('%', '%25')}" / "t[1].parquet", table(number))
    policy = shoal.Policy(quasi={"q": "categorical"}, keep=["x", "part"], require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(tmp_path / "data", policy, temp=tmp_path / "t*")
    release.save(tmp_path / "[out]*")
    found = open_data(tmp_path / "[out]*" / "table.parquet").fingerprint()
    assert found == release.certificate.fingerprint
    assert release.certificate.records == 8 * len(names)
    assert {row[0] for row in release.frame.project("part").fetchall()} == set(names)


@pytest.mark.parametrize("combinations", [None, 60])
@pytest.mark.parametrize("name", ["t[1]", "t*", "**", "~", "file:x", "it's {?}", "q=1"])
def test_the_work_and_the_release_may_have_any_name(
    name: str, combinations: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also relative to the current folder, where libraries look for addresses in front of a colon."""
    monkeypatch.chdir(tmp_path)
    people = pa.table({"q": [f"v{i // 2}" for i in range(200)], "x": range(200)})
    write(tmp_path / "data.parquet", people)
    for other in ("t1", "tt", "xx"):
        write(tmp_path / other / "released_0.parquet", people)
    options: dict[str, Any] = {"combinations": combinations} if combinations else {}
    release = shoal.anonymize("data.parquet", POLICY, engine="duckdb", temp=name, **options)
    assert (release.certificate.parts > 1) == bool(combinations)
    folder = release.save(Path(name) / f"out {name}")
    assert pq.ParquetFile((folder / "table.parquet").absolute()).metadata.num_rows == 200
    assert shoal.check(folder, POLICY).holds
    assert shoal.check(folder, POLICY, engine="duckdb").fingerprint == release.certificate.fingerprint


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("end", ["parquet", "csv"])
@pytest.mark.parametrize("name", ["file:b", "s3:b", "s3:bucket/b", "http:b", "gs:b/c", "~", "-b"])
def test_a_relative_name_is_no_address(
    name: str, end: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / f"{name}.{end}", table(1))
    assert shoal.check(f"{name}.{end}", POLICY, engine=engine).records == 4
    assert shoal.check(f"{name}.{end}", POLICY).records == 4
    release = shoal.anonymize(f"{name}.{end}", POLICY, engine=engine, **({"temp": "."} if engine == "duckdb" else {}))
    assert shoal.check(release.save(f"out:{name}"), POLICY).records == 4


def test_a_database_with_the_name_of_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("md:b.duckdb", "sqlite:b.db", ":memory:.db", "b[1]*.duckdb"):
        with duckdb.connect(str(tmp_path / name)) as connection:
            connection.execute("CREATE TABLE people AS SELECT 'a' AS q, range AS x FROM range(4)")
        assert released(name) == [0, 1, 2, 3]


def test_links_with_odd_names_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "real" / "t[1].parquet", table(1))
    write(tmp_path / "real" / "t1.parquet", table(2))
    (tmp_path / "link[1]").symlink_to(tmp_path / "real")
    (tmp_path / "file[1].parquet").symlink_to(tmp_path / "real" / "t[1].parquet")
    assert released(tmp_path / "link[1]" / "t[1].parquet") == numbers(table(1))
    assert released(tmp_path / "file[1].parquet") == numbers(table(1))
    assert released(tmp_path / "link[1]") == numbers(table(1), table(2))


def test_a_backslash_beside_a_wildcard_is_refused_by_name(tmp_path: Path) -> None:
    """No pattern of DuckDB's matches a backslash, so such a file cannot be named to it."""
    path = write(tmp_path / "a\\b*.parquet", table(1))
    write(tmp_path / "a\\bc.parquet", table(2))
    with pytest.raises(shoal.EngineError, match=r"backslash.*Rename"):
        shoal.check(path, POLICY, engine="duckdb")
    assert shoal.check(path, POLICY, engine="memory").records == 4


def test_csv_files_may_have_a_backslash_beside_a_wildcard(tmp_path: Path) -> None:
    """Only the files that Shoal converts them to are passed to DuckDB."""
    for number, name in enumerate(("a\\b*.csv", "a\\bc.csv", "c\\[d]/a\\?.csv")):
        write(tmp_path / "g\\*" / name, table(number))
    assert released(tmp_path / "g\\*" / "a\\b*.csv") == numbers(table(0))
    assert released(tmp_path / "g\\*") == numbers(*map(table, range(3)))
    write(tmp_path / "h" / "part=e\\*" / "f.csv", table(4))
    policy = shoal.Policy(quasi={"q": "categorical"}, keep=["x", "part"], require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(tmp_path / "h", policy)
    assert {row[0] for row in release.frame.project("part").fetchall()} == {"e\\*"}
    (tmp_path / "g\\*" / "z\\*.csv").write_text("q\na\n")
    with pytest.raises(shoal.DataError, match=r"the file 'z.*\*.csv' lacks columns that 'a.*b\*.csv' has: 'x'"):
        shoal.check(tmp_path / "g\\*", POLICY)


@given(names=st.sets(st.text("ab1*?[]!^-{},'\"%~ =.", min_size=1, max_size=5), min_size=1, max_size=6), data=st.data())
def test_any_files_beside_each_other_are_read_once(names: set[str], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as place:
        files = {Path(place, f"f{name}.parquet"): table(number) for number, name in enumerate(sorted(names))}
        for path, content in files.items():
            write(path, content)
        path = data.draw(st.sampled_from(sorted(files)))
        for given_path, expected in ((path, [files[path]]), (Path(place), list(files.values()))):
            engine = open_data(given_path, parse_resources("duckdb"))
            assert engine.fingerprint() == open_data(pa.concat_tables(expected)).fingerprint()
            assert shoal.check(engine, POLICY).records == sum(map(len, expected))


# What was counted


@pytest.mark.parametrize("way", [shoal.check, shoal.anonymize])
@pytest.mark.parametrize("claimed", [3, 5])
def test_another_number_of_rows_than_the_files_hold_is_a_fault(way: Any, claimed: int, tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", table(1))
    engine = open_data(path, parse_resources("duckdb"))
    assert isinstance(engine, shoal.engines.duckdb.DuckEngine)
    with pytest.raises(RuntimeError, match=rf"read 4 rows from files that hold {claimed}"):
        way(replace(engine, table=replace(engine.table, rows=claimed)), POLICY)


@pytest.mark.parametrize("count", ["records", "groups", "smallest", "suppressed"])
def test_a_negative_count_is_a_fault(count: str) -> None:
    certificate = shoal.check(table(1), POLICY)
    with pytest.raises(RuntimeError, match=f"-1 {count}"):
        replace(certificate, **{count: -1})  # type: ignore[arg-type]


FAULT = """
import sys
import shoal.cli
from dataclasses import replace
from shoal.engines.duckdb import sources
sources.Source.refuse_miscounted = lambda self, rows: None
once, twice = sources.open_parquet, "(SELECT * FROM {0} UNION ALL SELECT * FROM {0})"
def open_twice(*given, **more):
    source = once(*given, **more)
    return replace(source, sql=twice.format(source.sql)) if source.stamps else source
sources.open_parquet = open_twice
sys.argv = ["shoal", "anonymize", "t.parquet", "-p", "p.yaml", "-o", "out", "--engine", "duckdb"]
shoal.cli.main()
"""


def test_a_negative_count_ends_the_command_with_status_three(tmp_path: Path) -> None:
    """Even where nothing else noticed that rows were read twice."""
    write(tmp_path / "t.parquet", table(1))
    (tmp_path / "p.yaml").write_text("quasi: {q: categorical}\nkeep: [x]\nrequire: [k-anonymity: 2]\n")
    ran = subprocess.run([sys.executable, "-c", FAULT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.partition(":")[0]) == (3, "unexpected error"), ran
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.yaml", "t.parquet"]


def test_the_place_of_the_work_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may change its current folder while a release is at hand."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.parquet", table(1))
    release = shoal.anonymize("t.parquet", POLICY, engine="duckdb", temp="work")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(release.frame.fetchall()) == 4
    assert isinstance(release.engine, shoal.engines.duckdb.DuckEngine)
    session: Session = release.engine.session
    source: Source = release.engine.table
    assert session.folder.is_absolute() and all(file.is_absolute() for file in source.files)


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems have no names that are not UTF-8")
@pytest.mark.parametrize("end", ["parquet", "csv"])
def test_a_path_that_is_not_utf8_is_refused_with_the_escaped_name(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = os.fsdecode(b"\xff")
    file = write(tmp_path / f"t.{end}", table(1))
    for name in (f"{odd}.{end}", f"{odd}/t.{end}", f"data/{odd}.{end}", f"data/{odd}/t.{end}"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, tmp_path / name)
    for name, engine in ((f"{odd}.{end}", "memory"), (f"{odd}.{end}", "duckdb"), (f"{odd}.{end}", None), (odd, None)):
        for path in (tmp_path / name, str(tmp_path / name)):
            with pytest.raises(shoal.DataError, match=r"\\udcff.*not valid UTF-8. Rename the file") as error:
                shoal.check(path, POLICY, engine=engine)
            str(error.value).encode()
    with pytest.raises(shoal.DataError, match=rf"data' holds files.*UTF-8: '\\udcff/t.{end}', '\\udcff.{end}'. Rename"):
        shoal.check(tmp_path / "data", POLICY)
    for engine in ("memory", "duckdb"):
        with pytest.raises(shoal.EngineError, match=r"\\udcff.*not valid UTF-8. Choose another folder"):
            shoal.anonymize(file, POLICY, engine=engine).save(tmp_path / odd / "out")
    with pytest.raises(shoal.EngineError, match=r"\\udcff.*not valid UTF-8. Set temp"):
        shoal.anonymize(file, POLICY, engine="duckdb", temp=tmp_path / odd)
    monkeypatch.chdir(tmp_path / odd)
    with pytest.raises(shoal.DataError, match="not valid UTF-8"):
        shoal.check(f"t.{end}", POLICY)
